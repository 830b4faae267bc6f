"""The plan of a move: which copy of each partition goes where, under which name and id, and what the metadata gets."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kafkalog.errors import UsageError
from kafkalog.format.names import partition_folder_name
from kafkalog.format.quantities import plural
from kafkalog.format.shell import path_word
from kafkalog.payloads.cluster_image import TOPIC, ClusterImage
from kafkalog.payloads.metadata_snapshot import NewMetadataRecord
from kafkalog.storage.fs import Fs
from kafkalog.tables.logs import Logs

from ..cluster_rebuild.choices import Choices, ChosenPartition, by_name, derived_id, spread
from ..cluster_rebuild.configs import KEEP_EVERYTHING, choose_configs
from ..cluster_rebuild.coordinators import OFFSETS_TOPIC, CoordinatorFacts, read_coordinators
from ..cluster_rebuild.copies import Copy, examine
from ..cluster_rebuild.disks import Disk
from ..cluster_rebuild.known import find_known
from ..cluster_rebuild.plan import NAMED, PRODUCER_ID_BLOCK
from ..cluster_rebuild.records import UNASSIGNED, config_record, new_record, partition_records
from ..cluster_rebuild.result import CHOSEN, KNOWN, LOST, Note, PlannedCopy, PlannedPartition
from ..output import Progress
from .options import MoveOptions
from .result import MovedTopic, MoveResult
from .target import Target

RETENTION = tuple(KEEP_EVERYTHING)


@dataclass(frozen=True)
class Placement:
    """A copy of a partition that goes to a log directory of the target."""

    copy: Copy
    topic: MovedTopic
    disk: Disk

    @property
    def partition(self) -> int:
        return self.copy.partition.partition

    @property
    def folder(self) -> str:
        return os.path.join(self.disk.path, partition_folder_name(self.topic.topic, self.partition))


@dataclass
class Plan:
    """What is to be written: `result` shows it."""

    result: MoveResult
    target: Target
    placements: list[Placement]
    records: list[NewMetadataRecord]


def make_plan(sources: Sequence[Disk], target: Target, options: MoveOptions, fs: Fs, progress: Progress) -> Plan:
    """The plan; UsageError where not even a plan can be made."""
    return _Planner(sources, target, options, fs, progress).plan()


class _Planner:
    def __init__(self, sources: Sequence[Disk], target: Target, options: MoveOptions, fs: Fs, progress: Progress) -> None:
        self.sources = sources
        self.target = target
        self.options = options
        self.fs = fs
        self.progress = progress
        self.notes: list[Note] = []
        self.obstacles: list[str] = []

    def plan(self) -> Plan:
        known = find_known(self.sources, self.options.metadata)
        self.notes += known.notes
        found = by_name(self._chosen(known.image))
        facts = self._facts()
        topics = [self._topic(topic, partitions) for topic, partitions in sorted(found.items())]
        planned, placements = [], []
        for topic in topics:
            for partition, placed in self._partitions(topic, found[topic.source], facts, known.image):
                planned.append(partition)
                placements += placed
        configs = self._configs(topics, found, known.image)
        next_id = self._next_producer_id([chosen.copies[0] for each in found.values() for chosen in each])
        self._note_open(placements)
        self._note_not_moved(facts)
        records = [
            *partition_records(planned, has_directories=self.target.has_directories),
            *(config_record(TOPIC, topic, *setting) for topic in sorted(configs) for setting in sorted(configs[topic].items())),
            *([] if next_id is None else [_producer_ids(next_id, self.target)]),
        ]
        log = self.target.log
        result = MoveResult(
            self.target.cluster_id,
            topics,
            planned,
            configs,
            [voter.partition.folder for voter in log.voters],
            log.newest.end_offset,
            log.next_epoch,
            next_id,
            len(records),
            self.notes,
            self.obstacles,
        )
        self.obstacles += in_the_way(result, self.target)
        return Plan(result, self.target, placements, records)

    # what is moved

    def _chosen(self, image: ClusterImage | None) -> list[ChosenPartition]:
        """The best copy of each partition of the topics."""
        there = {partition.topic for disk in self.sources for partition in disk.partitions}
        if missing := [topic for topic in self.options.topics if topic not in there]:
            raise UsageError(f"--topic {', '.join(missing)}: no disk has a folder of it; there are: {', '.join(sorted(there))}")
        copies = []
        for disk in self.sources:
            for partition in disk.partitions:
                if partition.topic in self.options.topics:
                    copies.append(examine(disk, partition, self.fs))
                    self.progress(partition.size)
        choices = Choices(copies, self.options.choosing, self.target.cluster_id, image)
        self.notes += choices.notes
        self.obstacles += choices.obstacles
        for each in choices.partitions:
            if each.copies[0].loses_batches:
                self.obstacles += [f"{each.name}: {each.copies[0].partition.folder}: {note}" for note in each.copies[0].notes]
        return choices.partitions

    def _topic(self, name: str, partitions: Sequence[ChosenPartition]) -> MovedTopic:
        """The topic under its name and id in the target; what is in the way there is an obstacle."""
        new, topic_id = self.options.name_of(name), partitions[0].topic_id
        known = self.target.image.topics.get(topic_id)
        if known is not None and known.name != new:
            if name == new:
                what = f"its topic id {topic_id} is there already, as {known.name}"
                self.obstacles.append(f"{name}: {what}; a copy of it needs a name and an id of its own: --as {name}=NAME")
            else:
                topic_id = derived_id(self.target.cluster_id, "topic", new, topic_id)
                self._note(CHOSEN, f"{new}: a new topic id {topic_id}, since {known.name} has that of {name}")
        return MovedTopic(name, new, topic_id)

    def _partitions(
        self, topic: MovedTopic, found: Sequence[ChosenPartition], facts: CoordinatorFacts, image: ClusterImage | None
    ) -> Iterator[tuple[PlannedPartition, list[Placement]]]:
        by_number = {each.partition: each for each in found}
        known = image.topics.get(found[0].topic_id) if image is not None else None
        states = known.partitions if known is not None else {}
        count = max([*by_number, *states, facts.committed_partitions(topic.source) - 1]) + 1
        if missing := [number for number in range(count) if number not in by_number]:
            self._miss(topic, missing, count)
        wanted = max([len(state.replicas) for state in states.values()] or [self._nodes_with(topic.source)])
        nodes = self._replica_count(topic, wanted)
        for number in range(count):
            chosen = by_number.get(number)
            replicas = spread(sorted(self.target.places), number)[:nodes]
            disks = [self.target.place(node, number // len(self.target.places)) for node in replicas]
            placed = [Placement(chosen.copies[0], topic, disk) for disk in disks] if chosen is not None else []
            state = states.get(number)
            yield (
                PlannedPartition(
                    topic.topic,
                    number,
                    topic.topic_id,
                    tuple(replicas),
                    tuple(replicas),
                    max(0, 0 if state is None else state.leader_epoch, 0 if chosen is None else chosen.highest_epoch),
                    tuple(disk.meta.directory_id or UNASSIGNED for disk in disks),
                    tuple(_shown(each) for each in placed),
                ),
                placed,
            )

    def _miss(self, topic: MovedTopic, missing: Sequence[int], count: int) -> None:
        what = f"{topic.source}: no copy of partition {', '.join(map(str, missing))}, of {count}"
        if self.options.missing_empty:
            self._note(LOST, f"{what}: they begin empty, at offset 0, as asked for")
        else:
            choice = "give the disk that has it, or --missing-empty to begin such partitions empty (their records are lost)"
            self.obstacles.append(f"{what}; {choice}")

    def _nodes_with(self, topic: str) -> int:
        """How many nodes have a copy of a partition of the topic, at most."""
        nodes: dict[int, set[object]] = {}
        for disk in self.sources:
            for partition in disk.partitions:
                if partition.topic == topic:
                    nodes.setdefault(partition.partition, set()).add(disk.meta.node_id)
        return max(map(len, nodes.values()))

    def _replica_count(self, topic: MovedTopic, wanted: int) -> int:
        """As many as asked for, else as it had, as far as there are brokers."""
        count, most = self.options.replicas or wanted, len(self.target.places)
        if count > most:
            where = f"the disks of {plural(most, 'broker')} were given after --into"
            if self.options.replicas is not None:
                self.obstacles.append(f"--replicas {count}: {where}; give those of {count}")
            else:
                self._note(CHOSEN, f"{topic.topic}: {plural(most, 'replica')}, not {count} as before: {where}")
        return min(count, most)

    # settings, ids, and what is not moved

    def _configs(
        self, topics: Sequence[MovedTopic], found: Mapping[str, Sequence[ChosenPartition]], image: ClusterImage | None
    ) -> dict[str, dict[str, str]]:
        """The settings of each topic under its new name; without one about retention it keeps everything."""
        named = [(topic.source, found[topic.source][0].topic_id) for topic in topics]
        configs, notes = choose_configs(named, self.options.choosing, image, self.sources, self.target.newest_metadata_version)
        self.notes += notes
        kept, ending = [], []
        for topic in topics:
            settings = configs.setdefault(topic.source, {})
            if settings.get("remote.storage.enable") == "true":
                what = "is in tiered storage, and what is only there cannot be moved"
                self.obstacles.append(f"{topic.source} {what}; to move what is on the disks: --config with {topic.source}/"
                                      "remote.storage.enable=false")  # fmt: skip
            if image is not None and found[topic.source][0].topic_id in image.topics:
                missing = [name for name in RETENTION if name not in settings]
                settings |= {name: KEEP_EVERYTHING[name] for name in missing}
                kept += [topic.topic] if missing else []
            ending += [f"{topic.topic} {name}={settings[name]}" for name in RETENTION if settings[name] != KEEP_EVERYTHING[name]]
        if kept:
            why = "else the defaults of its new brokers would delete old records right after the start"
            self._note(CHOSEN, f"retention.ms=-1 or retention.bytes=-1 where it was not set ({', '.join(kept)}): {why}")
        if ending:
            what = "brokers delete what is beyond it right after the start; --config with TOPIC/retention.ms=-1 keeps it"
            self._note(CHOSEN, f"retention as it was: {', '.join(ending)}: {what}")
        return {topic.topic: configs[topic.source] for topic in topics}

    def _next_producer_id(self, copies: Iterable[Copy]) -> int | None:
        """Where the ids of new producers go on, if the logs have higher ones than the cluster gave out: at the next block."""
        highest = max((copy.highest_producer_id for copy in copies), default=-1)
        known = self.target.image.next_producer_id or 0
        if highest < known:
            return None
        next_id = (highest // PRODUCER_ID_BLOCK + 1) * PRODUCER_ID_BLOCK
        self._note(CHOSEN, f"producer ids go on at {next_id}, not {known}: the logs have ids up to {highest}")
        return next_id

    def _facts(self) -> CoordinatorFacts:
        """What groups have committed, by the best copy of each partition of their topic."""
        copies: dict[int, Copy] = {}
        for disk in self.sources:
            for partition in disk.partitions:
                if partition.topic == OFFSETS_TOPIC:
                    copy = examine(disk, partition, self.fs)
                    best = copies.setdefault(partition.partition, copy)
                    copies[partition.partition] = max(best, copy, key=lambda each: each.preference)
        return read_coordinators(copy.partition for copy in copies.values() if not copy.unusable)

    def _note_open(self, placements: Sequence[Placement]) -> None:
        """Transactions that nobody ends: their coordinator is not here."""
        for each in {placed.copy.partition.folder: placed for placed in placements}.values():
            logs = Logs(each.copy.partition.folder, [each.copy.partition])
            for row in logs.read("transactions", ["state", "first_offset"]).read_all().to_pylist():
                if row["state"] == "open":
                    at, topic = row["first_offset"], each.topic.topic
                    where = f"{topic}-{each.partition}: a transaction is open from offset {at} on"
                    abort = f"abort --topic {topic} --partition {each.partition} --start-offset {at}"
                    why = "read_committed stops there until it is ended: kafka-transactions.sh --bootstrap-server HOST:PORT"
                    self._note(LOST, f"{where}; {why} {abort}")

    def _note_not_moved(self, facts: CoordinatorFacts) -> None:
        """Offsets, ACLs and quotas belong to the cluster, not to the topic."""
        groups = sorted({group for group, topic, _ in facts.commits if topic in self.options.topics})
        if groups:
            listed = ", ".join(groups[:NAMED]) + (f" and {len(groups) - NAMED} others" if len(groups) > NAMED else "")
            places = " ".join(path_word(disk.path) for disk in self.sources)
            see = f"kafkalog groups {places} --group {path_word(groups[0])}"
            self._note(LOST, f"committed offsets of {plural(len(groups), 'group')} ({listed}) are not moved; to see them: {see}")
        self._note(LOST, "ACLs, quotas, and what brokers know about the producers of these topics, are not moved either")
        unclean = [disk.path for disk in self.target.disks if disk.partitions and not disk.was_shut_down]
        if unclean:
            why = "its broker checks all of its logs when it starts"
            self._note(KNOWN, f"not stopped cleanly: {', '.join(unclean)}: {why}")

    def _note(self, kind: str, text: str) -> None:
        self.notes.append(Note(kind, text))


def in_the_way(result: MoveResult, target: Target) -> Iterator[str]:
    """What the target has of these names already, unless an earlier run of the same move made it."""
    begun = is_begun(result, target)
    here = target.image.topics_by_name
    for topic in result.topics:
        found = here.get(topic.topic)
        if found is not None and not (begun and found.topic_id == topic.topic_id):
            another = f"move it under another name with --as {topic.source}=NAME, or delete that topic first"
            yield f"{topic.source}: the cluster has a topic {topic.topic} already (topic id {found.topic_id}); {another}"
    if any(topic.topic in here for topic in result.topics):
        return  # since then brokers may have moved its partitions
    planned = {copy.folder for partition in result.partitions for copy in partition.copies}
    wanted = {(each.topic, each.partition): each.topic_id for each in result.partitions}
    for disk in target.disks:
        for partition in disk.partitions:
            topic_id = wanted.get((partition.topic, partition.partition))
            if topic_id is None or partition.state:
                continue
            is_ours = begun and partition.folder in planned and partition.topic_id == topic_id
            if not is_ours:
                why = "the cluster does not know this folder; move it out of the log directory"
                yield f"{partition.folder} is in the way: {why}"


def is_begun(result: MoveResult, target: Target) -> bool:
    """Whether an earlier run of the same move has written its journal."""
    first = first_line(result)
    for disk in target.disks:
        path = disk.store.join(disk.path, result.journal_name)
        if disk.store.stat(path) is not None:
            with disk.store.open(path) as source:
                if bytes(source.read(0, min(len(first), source.size))) == first:
                    return True
    return False


def first_line(result: MoveResult) -> bytes:
    """The line of the journal that says which move it is of."""
    return json.dumps(result.identity).encode() + b"\n"


def _producer_ids(next_id: int, target: Target) -> NewMetadataRecord:
    return new_record("ProducerIdsRecord", 0, brokerId=min(target.places), brokerEpoch=-1, nextProducerId=next_id)


def _shown(placed: Placement) -> PlannedCopy:
    copy = placed.copy
    return PlannedCopy(
        placed.disk.node_id, copy.partition.folder, placed.folder, copy.end_offset, copy.last_epoch, copy.size, True, copy.notes
    )
