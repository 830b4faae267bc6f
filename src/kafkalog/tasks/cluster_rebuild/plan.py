"""The plan of a rebuild: from what the disks hold to the new metadata, and which folder is copied where.

Nothing is guessed silently. What is known says from where, what is lost is named, what was chosen says why; and what only a user
can decide is an obstacle, with what to type.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kafkalog.errors import UsageError
from kafkalog.format import names
from kafkalog.format.quantities import plural
from kafkalog.payloads.cluster_image import ClusterImage
from kafkalog.payloads.metadata_snapshot import encode_metadata_snapshot
from kafkalog.storage.fs import Fs

from ..output import Progress
from .choices import Choices, ChosenPartition, by_name, derived_id, spread
from .configs import choose_configs
from .coordinators import COORDINATOR_TOPICS, MOST_PARTITIONS, CoordinatorFacts, read_coordinators
from .copies import Copy, examine
from .disks import Disk, require_one_cluster
from .features import Levels, levels_of_image, levels_of_release, levels_on_disks, settle
from .known import Known, find_known
from .options import RebuildOptions
from .records import UNASSIGNED, metadata_records
from .result import CHOSEN, KNOWN, LOST, Note, PlannedCopy, PlannedDirectory, PlannedPartition, RebuildResult

PRODUCER_ID_BLOCK = 1000  # a broker takes that many ids at a time
SPARE_BLOCKS = 2  # for each broker: the block that it is in, and the one that it has already asked for
NAMED = 8  # partitions in a note, of many
TOO_MANY = f"a topic has at most {MOST_PARTITIONS} partitions here"
NEW_DIRECTORY = "data"
CONTROLLER_DIRECTORY = "metadata"


@dataclass(frozen=True)
class NewDirectory:
    """A log directory to be made, out of these disks (none for a controller whose disk is gone)."""

    node: int
    path: str
    directory_id: str | None
    meta: bytes
    sources: tuple[Disk, ...] = ()


@dataclass(frozen=True)
class Placement:
    """A copy of a partition that goes into a directory."""

    copy: Copy
    chosen: ChosenPartition
    directory: NewDirectory


@dataclass
class Plan:
    """What is to be written: `result` shows it."""

    result: RebuildResult
    directories: list[NewDirectory]
    placements: list[Placement]
    bootstrap: bytes = b""
    topic_ids: dict[str, str] = field(default_factory=dict)


def make_plan(disks: Sequence[Disk], out: str, options: RebuildOptions, fs: Fs, progress: Progress) -> Plan:
    """The plan for these disks; UsageError where not even a plan can be made."""
    require_one_cluster(disks, merged=options.node is not None)
    return _Planner(disks, out, options, fs, progress).plan()


class _Planner:
    def __init__(self, disks: Sequence[Disk], out: str, options: RebuildOptions, fs: Fs, progress: Progress) -> None:
        self.disks = disks
        self.out = out
        self.options = options
        self.fs = fs
        self.progress = progress
        self.notes: list[Note] = []
        self.obstacles: list[str] = []
        self.cluster_id = self._cluster_id()

    def plan(self) -> Plan:
        known = find_known(self.disks, self.options.metadata)
        self._note_known(known)
        choices = Choices(self._examine(), self.options, self.cluster_id, known.image)
        if not choices.partitions and not choices.obstacles:
            raise UsageError("none of these disks has a partition; give those of the brokers too")
        facts = read_coordinators(each.copies[0].partition for each in choices.partitions)
        directories = self._directories()
        planned, placements = self._place(choices, directories, facts, known.image)
        levels = self._levels(known.image, facts)
        topics = [(topic, found[0].topic_id) for topic, found in by_name(choices.partitions).items()]
        configs, config_notes = choose_configs(topics, self.options, known.image, self.disks, levels.metadata_version)
        next_id = self._next_producer_id(choices.partitions, facts, known.image)
        if self.options.in_place:
            self.obstacles += in_the_way(placements, choices.partitions)
        self.notes += [*choices.notes, *config_notes, *(Note(LOST, f"not read: {each}") for each in facts.unread)]
        self._note_lost(known.image)
        self._note_age(choices.partitions, known.image)
        self._note_unseen_topics(facts)
        records = metadata_records(levels, planned, configs, next_id, sorted({each.node for each in directories}), known.image)
        result = RebuildResult(
            self.cluster_id,
            dict(levels.levels),
            next_id,
            [PlannedDirectory(each.node, each.path, each.directory_id, _paths(each.sources)) for each in directories],
            planned,
            configs,
            self.notes,
            [*choices.obstacles, *self.obstacles],
            len(records),
        )
        return Plan(result, directories, placements, encode_metadata_snapshot(records, self._newest_ms()), dict(topics))

    def _cluster_id(self) -> str:
        found = {disk.meta.cluster_id for disk in self.disks} - {None}
        if self.options.cluster_id is not None:
            return self.options.cluster_id
        if not found:
            raise UsageError("no disk has a meta.properties with a cluster.id; give one with --cluster-id")
        return str(found.pop())

    def _examine(self) -> list[Copy]:
        copies = []
        for disk in self.disks:
            for partition in disk.partitions:
                copies.append(examine(disk, partition, self.fs))
                self.progress(partition.size)
            for partition in disk.aside:
                state = "being deleted" if partition.state == "delete" else "an unfinished move between log directories"
                self.notes.append(Note(CHOSEN, f"{partition.folder} is left out: {state}"))
        return copies

    def _newest_ms(self) -> int:
        """When a log of these disks was last written: the same in every run."""
        logs = (segment.log for disk in self.disks for partition in disk.partitions for segment in partition.segments)
        return max((log.mtime_ns for log in logs), default=0) // 1_000_000

    # directories

    def _directories(self) -> list[NewDirectory]:
        if self.options.node is not None:
            made = [self._new_directory(self.options.node, NEW_DIRECTORY, tuple(self.disks))]
        else:
            made = list(self._directories_of_nodes())
        there = {each.node for each in made}
        made += [self._new_directory(node, CONTROLLER_DIRECTORY) for node in self.options.controllers if node not in there]
        return made

    def _directories_of_nodes(self) -> Iterator[NewDirectory]:
        taken: set[str] = set()
        if self.options.in_place:
            for disk in self.disks:
                yield NewDirectory(
                    disk.node_id, disk.path, disk.meta.directory_id, disk.read(names.META_PROPERTIES) or b"", (disk,)
                )
            return
        for disk in self.disks:
            node = self._node_folder(disk.node_id)
            base = os.path.basename(disk.path.rstrip("/")) or NEW_DIRECTORY
            path = os.path.join(node, base)
            number = 2
            while path in taken:
                path, number = os.path.join(node, f"{base}-{number}"), number + 1
            taken.add(path)
            meta, same_cluster = disk.meta, disk.meta.cluster_id == self.cluster_id
            stored = disk.read(names.META_PROPERTIES) if same_cluster and meta.version == 1 else None
            content = stored or _meta_properties(disk.node_id, self.cluster_id, meta.directory_id)
            yield NewDirectory(disk.node_id, path, meta.directory_id, content, (disk,))

    def _new_directory(self, node: int, name: str, sources: tuple[Disk, ...] = ()) -> NewDirectory:
        directory_id = derived_id(self.cluster_id, "directory", node, name)
        meta = _meta_properties(node, self.cluster_id, directory_id)
        return NewDirectory(node, os.path.join(self._node_folder(node), name), directory_id, meta, sources)

    def _node_folder(self, node: int) -> str:
        return os.path.join(self.out, f"node-{node}")

    # partitions

    def _place(
        self, choices: Choices, directories: Sequence[NewDirectory], facts: CoordinatorFacts, image: ClusterImage | None
    ) -> tuple[list[PlannedPartition], list[Placement]]:
        at = {id(disk): directory for directory in directories for disk in directory.sources}
        planned, placements = [], []
        for topic, found in by_name(choices.partitions).items():
            by_number = {each.partition: each for each in found}
            for number in range(self._count(topic, by_number, facts, image)):
                if (chosen := by_number.get(number)) is not None:
                    placed = [Placement(copy, chosen, at[id(copy.disk)]) for copy in chosen.copies]
                    planned.append(self._planned(chosen, placed, image))
                    placements += placed
                else:
                    planned.append(self._empty(topic, number, found))
        return planned, placements

    def _count(self, topic: str, there: dict[int, ChosenPartition], facts: CoordinatorFacts, image: ClusterImage | None) -> int:
        """How many partitions the topic has; those that are missing are noted, or an obstacle."""
        least = max(there) + 1
        topic_id = there[max(there)].topic_id
        if image is not None and topic_id in image.topics:
            known = image.topics[topic_id].partitions
            least = max([least, *(number + 1 for number in known if number < MOST_PARTITIONS)])
            if known and max(known) >= MOST_PARTITIONS:
                what = f"{topic}: the metadata that was found has partition {max(known)}"
                self.notes.append(Note(LOST, f"{what}, which is not believed: {TOO_MANY}"))
        count = max(least, facts.committed_partitions(topic))
        if count > MOST_PARTITIONS:
            folder = there[max(there)].copies[0].partition.folder
            self.obstacles.append(f"{folder}: {TOO_MANY}; move it out of the log directory")
            return 0
        if topic in COORDINATOR_TOPICS:
            count = facts.partition_count(topic, least) or least
        missing = [number for number in range(count) if number not in there]
        if missing:
            more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
            listed = ", ".join(map(str, missing[:NAMED])) + more
            what = f"{topic}: no copy of partition {listed}, of {count}"
            if self.options.missing_empty:
                self.notes.append(Note(LOST, f"{what}: they begin empty, at offset 0, as asked for"))
            else:
                choice = "give the disk that has it, or --missing-empty to begin such partitions empty (their records are lost)"
                self.obstacles.append(f"{what}; {choice}")
        return count

    def _planned(self, chosen: ChosenPartition, placed: Sequence[Placement], image: ClusterImage | None) -> PlannedPartition:
        directory_of = {each.directory.node: each.directory for each in placed}
        in_sync = {each.directory.node for each in placed if each.copy in chosen.in_sync}
        others = {copy.disk.node_id for copy in chosen.unusable} if self.options.node is None else set()
        nodes = self._ordered(chosen, in_sync, set(directory_of) - in_sync, others - set(directory_of), image)
        return PlannedPartition(
            chosen.topic,
            chosen.partition,
            chosen.topic_id,
            tuple(nodes),
            tuple(node for node in nodes if node in in_sync),
            self._leader_epoch(chosen, image),
            tuple(directory_of[node].directory_id or UNASSIGNED if node in directory_of else UNASSIGNED for node in nodes),
            tuple(_shown(each, in_sync) for each in placed),
        )

    def _ordered(
        self, chosen: ChosenPartition, in_sync: set[int], stale: set[int], empty: set[int], image: ClusterImage | None
    ) -> list[int]:
        """The replicas: in the order of metadata that was found, else the best first, another one first in each partition."""
        fallback = [*spread(list(in_sync), chosen.partition), *sorted(stale), *sorted(empty)]
        topic = image.topics.get(chosen.topic_id) if image is not None and self.options.node is None else None
        state = topic.partitions.get(chosen.partition) if topic is not None else None
        if state is None:
            return fallback
        here = {disk.meta.node_id for disk in self.disks}
        kept = [node for node in state.replicas if node in here]
        return [*kept, *(node for node in fallback if node not in kept)]

    @staticmethod
    def _leader_epoch(chosen: ChosenPartition, image: ClusterImage | None) -> int:
        """The highest that any copy has seen: the election makes it one more, so that no epoch runs backwards."""
        topic = image.topics.get(chosen.topic_id) if image is not None else None
        state = topic.partitions.get(chosen.partition) if topic is not None else None
        return max(chosen.highest_epoch, 0 if state is None else state.leader_epoch, 0)

    def _empty(self, topic: str, number: int, others: Sequence[ChosenPartition]) -> PlannedPartition:
        """A partition of which nothing is left: as many replicas as the others have, wherever the brokers put them."""
        nodes = [self.options.node] if self.options.node is not None else sorted(
            {copy.disk.node_id for each in others for copy in each.copies}
        )  # fmt: skip
        count = max(len(each.copies) for each in others)
        chosen = tuple(spread(nodes, number)[:count])
        return PlannedPartition(topic, number, others[0].topic_id, chosen, chosen, 0, (UNASSIGNED,) * len(chosen))

    # what is known

    def _levels(self, image: ClusterImage | None, facts: CoordinatorFacts) -> Levels:
        if self.options.release is not None:
            known: Levels | None = levels_of_release(self.options.release)
        else:
            known = levels_of_image(image) or levels_on_disks(self.disks)
        if known is None:
            what = "no disk has a bootstrap.checkpoint, so the release of the cluster is unknown"
            raise UsageError(f"{what}; give it, such as --release 4.3 (a lower one than the brokers' can be raised later)")
        levels, notes = settle(known, facts)
        shown = ", ".join(f"{name} {level}" for name, level in levels.levels.items())
        self.notes.append(Note(KNOWN, f"features ({known.source}): {shown}"))
        if image is None and self.options.release is None:
            why = "it is that of the cluster's first day: if it was raised since, say so with --release, or raise it again later"
            self.notes.append(Note(CHOSEN, f"metadata.version {levels.metadata_version} ({levels.release}): {why}"))
        self.notes += [Note(CHOSEN, note) for note in notes]
        return levels

    def _next_producer_id(
        self, partitions: Iterable[ChosenPartition], facts: CoordinatorFacts, image: ClusterImage | None
    ) -> int:
        """Above every id that was seen, at the next block, with room for blocks that brokers took and nobody wrote with.

        An id that is given out twice lets a broker take a first record for a repeated one: acknowledged, and not written.
        """
        copies = [copy for each in partitions for copy in (*each.copies, *each.left_out, *each.unusable)]
        seen = max([facts.highest_producer_id, *(copy.highest_producer_id for copy in copies)])
        known = (image.next_producer_id or 0) if image is not None else 0
        room = SPARE_BLOCKS * len(self.disks)
        block = max(seen // PRODUCER_ID_BLOCK + 1 + room, -(-known // PRODUCER_ID_BLOCK))
        highest = "no producer id was seen" if seen < 0 else f"the highest producer id that was seen is {seen}"
        next_id = block * PRODUCER_ID_BLOCK
        self.notes.append(Note(CHOSEN, f"producer ids go on at {next_id}: {highest}"))
        return next_id

    def _note_known(self, known: Known) -> None:
        self.notes += known.notes
        nodes = sorted({disk.node_id for disk in self.disks}) if self.options.node is None else [self.options.node]
        listed = ", ".join(map(str, nodes))
        self.notes.append(
            Note(KNOWN, f"cluster {self.cluster_id}, node {listed}: meta.properties of {plural(len(self.disks), 'disk')}")
        )
        if known.image is not None and self.options.node is None:
            gone = sorted(set(known.image.brokers) - set(nodes))
            if gone:
                text = f"broker {', '.join(map(str, gone))}: no disk of it was given, so it is left out of every partition"
                self.notes.append(Note(LOST, text))

    def _note_lost(self, image: ClusterImage | None) -> None:
        if image is None:
            parts = "ACLs, SCRAM credentials, quotas, delegation tokens, settings of brokers and groups"
            self.notes.append(Note(LOST, f"{parts}: create them again"))
            if self.options.node is None:
                self.notes.append(Note(LOST, "the order of replicas (preferred leaders): spread evenly instead"))
        unclean = [disk.path for disk in self.disks if disk.partitions and not disk.was_shut_down]
        if unclean:
            why = "its broker checks all of its logs when it starts"
            self.notes.append(Note(KNOWN, f"not stopped cleanly: {', '.join(unclean)}: {why}"))

    def _note_unseen_topics(self, facts: CoordinatorFacts) -> None:
        """Topics that groups have committed offsets for, and of which no folder is there."""
        seen = {partition.topic for disk in self.disks for partition in disk.partitions}
        if gone := sorted({topic for _, topic, _ in facts.commits} - seen):
            text = f"topics of which no disk has a folder, although groups have committed offsets for them: {', '.join(gone)}"
            self.notes.append(Note(LOST, text))

    def _note_age(self, partitions: Iterable[ChosenPartition], image: ClusterImage | None) -> None:
        """Logs with later epochs than the metadata knows show that it is an old one."""
        if image is None:
            return
        later, unknown = [], set()
        for each in partitions:
            topic = image.topics.get(each.topic_id)
            state = topic.partitions.get(each.partition) if topic is not None else None
            if topic is None:
                unknown.add(each.topic)
            elif state is None or each.highest_epoch > state.leader_epoch:
                later.append(each.name)
        if later:
            what = f"the metadata that was found is older than {plural(len(later), 'partition')} ({', '.join(later[:NAMED])})"
            self.notes.append(Note(LOST, f"{what}: settings, ACLs and quotas that changed since are not known"))
        if unknown:
            why = "they are kept, although they may have been deleted"
            self.notes.append(
                Note(CHOSEN, f"topics that the metadata that was found does not know: {', '.join(sorted(unknown))}: {why}")
            )
        gone = sorted({topic.name for topic in image.topics.values()} - {each.topic for each in partitions})
        if gone:
            self.notes.append(
                Note(LOST, f"the metadata that was found knows topics of which no disk has a folder: {', '.join(gone)}")
            )


def in_the_way(placements: Iterable[Placement], partitions: Iterable[ChosenPartition]) -> Iterator[str]:
    """What cannot be done in place: a folder that gets its name back where another one has it, or that has to be left out."""
    away = "move it out of the log directory, or use --out"
    for placed in placements:
        target = os.path.join(placed.directory.path, placed.chosen.name)
        folder = placed.copy.partition.folder
        if folder != target and (placed.chosen.topic, placed.chosen.partition) in placed.copy.disk.live:
            yield f"{target} is in the way of {folder}; {away}"
    for chosen in partitions:
        for copy in (*chosen.left_out, *chosen.unusable):
            yield f"{copy.partition.folder} has to be left out; {away}"


def _paths(disks: Iterable[Disk]) -> tuple[str, ...]:
    return tuple(disk.path for disk in disks)


def _meta_properties(node: int, cluster_id: str, directory_id: str | None) -> bytes:
    directory = f"directory.id={directory_id}\n" if directory_id is not None else ""
    return f"version=1\nnode.id={node}\ncluster.id={cluster_id}\n{directory}".encode()


def _shown(placed: Placement, in_sync: set[int]) -> PlannedCopy:
    copy, node = placed.copy, placed.directory.node
    folder = os.path.join(placed.directory.path, placed.chosen.name)
    source = copy.partition.folder
    return PlannedCopy(node, source, folder, copy.end_offset, copy.last_epoch, copy.size, node in in_sync, copy.notes)
