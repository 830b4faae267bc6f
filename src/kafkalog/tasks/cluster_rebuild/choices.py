"""Which copies make up each partition: one topic id for a name, one copy on a node, and the best ones in sync."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafkalog.errors import UsageError
from kafkalog.format.shell import path_word
from kafkalog.payloads.cluster_image import ClusterImage

from .copies import Copy
from .disks import LIVE, STRAY
from .options import RebuildOptions
from .result import CHOSEN, LOST, Note

ID_BYTES = 16


@dataclass(frozen=True)
class ChosenPartition:
    """A partition with its usable copies, one for each node, the best first; those of `spare` nodes hold none that is usable."""

    topic: str
    partition: int
    topic_id: str
    copies: tuple[Copy, ...]
    left_out: tuple[Copy, ...] = ()
    unusable: tuple[Copy, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def in_sync(self) -> tuple[Copy, ...]:
        """The copies with the highest epoch of the last batch and end offset: a leader out of any other would cut these."""
        return tuple(copy for copy in self.copies if copy.rank == self.copies[0].rank)

    @property
    def highest_epoch(self) -> int:
        return max((copy.highest_epoch for copy in (*self.copies, *self.unusable)), default=0)


def derived_id(*parts: object) -> str:
    """An id that is the same in every run with the same parts, so that a second run continues the first."""
    digest = hashlib.sha256("\0".join(map(str, ("kafkalog", *parts))).encode()).digest()
    content = bytearray(digest[:ID_BYTES])
    content[0] |= 0x40  # an id that begins with "-" would be taken for an option by Kafka's tools
    content[0] &= 0x7F
    return urlsafe_b64encode(bytes(content)).decode().rstrip("=")


class Choices:
    """The partitions of the new cluster; `notes` say what was chosen and lost, `obstacles` what cannot be decided."""

    def __init__(self, copies: Sequence[Copy], options: RebuildOptions, cluster_id: str, image: ClusterImage | None) -> None:
        self.options = options
        self.cluster_id = cluster_id
        self._known = {} if image is None else image.topics_by_name
        self.notes: list[Note] = []
        self.obstacles: list[str] = []
        self.partitions: list[ChosenPartition] = []
        by_topic: dict[str, list[Copy]] = {}
        for copy in copies:
            by_topic.setdefault(copy.partition.topic, []).append(copy)
        for topic in options.topic_ids:
            if topic not in by_topic:
                raise UsageError(f"--topic-id {topic}: no disk has a topic of this name")
        for topic, found in sorted(by_topic.items()):
            self._choose_topic(topic, found)

    def _choose_topic(self, topic: str, copies: Sequence[Copy]) -> None:
        ids = {copy.topic_id for copy in copies if copy.topic_id is not None}
        chosen = self._topic_id(topic, copies, ids)
        if chosen is None:
            return
        others = [copy for copy in copies if copy.topic_id not in (None, chosen)]
        if others:
            folders = ", ".join(copy.partition.folder for copy in others)
            self._note(CHOSEN, f"{topic}: topic id {chosen}; left out, because they are of another topic of this name: {folders}")
        by_number: dict[int, list[Copy]] = {}
        for copy in copies:
            if copy not in others:
                by_number.setdefault(copy.partition.partition, []).append(copy)
        for number, found in sorted(by_number.items()):
            self._choose_partition(topic, number, chosen, found)

    def _topic_id(self, topic: str, copies: Sequence[Copy], ids: set[str]) -> str | None:
        """The id of the topic; None after noting why it cannot be decided."""
        if (asked := self.options.topic_ids.get(topic)) is not None:
            if asked not in ids:
                raise UsageError(f"--topic-id {topic}={asked}: the folders have {', '.join(sorted(ids)) or 'none'}")
            return asked
        known = self._known_id(topic)
        strays_left = any(copy.partition.state == STRAY and copy.topic_id not in (None, known) for copy in copies)
        if len(ids) > 1 and known in ids and self.options.prefer is None and not strays_left:
            self._note(CHOSEN, f"{topic}: topic id {known}, as the metadata that was found says")
            return known
        if len(ids) > 1:
            return self._preferred_id(topic, copies, ids)
        if ids:
            (only,) = ids
            if known is not None and known != only:
                why = "deleted and created again after that metadata was written"
                self._note(CHOSEN, f"{topic}: topic id {only} of the folders; the metadata that was found has {known}: {why}")
            return only
        if known is None:
            known = derived_id(self.cluster_id, "topic", topic)
            self._note(CHOSEN, f"{topic}: a new topic id {known}, since no folder has a partition.metadata")
        return known

    def _known_id(self, topic: str) -> str | None:
        found = self._known.get(topic)
        return None if found is None else found.topic_id

    def _preferred_id(self, topic: str, copies: Sequence[Copy], ids: set[str]) -> str | None:
        state = STRAY if self.options.prefer == "stray" else LIVE
        preferred = {copy.topic_id for copy in copies if copy.topic_id is not None and copy.partition.state == state}
        if self.options.prefer is not None and len(preferred) == 1:
            (only,) = preferred
            self._note(CHOSEN, f"{topic}: topic id {only} of its {self.options.prefer} folders, as asked for")
            return only
        listed = "; ".join(f"{each}: {_described(copies, each)}" for each in sorted(ids))
        decide = f"--topic-id {topic}=ID, or --prefer stray (or live) for all such topics"
        self.obstacles.append(f"{topic}: {len(ids)} topics of this name ({listed}); decide with {decide}")
        return None

    def _choose_partition(self, topic: str, number: int, topic_id: str, copies: Sequence[Copy]) -> None:
        on_node: dict[int, list[Copy]] = {}
        for copy in copies:
            on_node.setdefault(self._node_of(copy), []).append(copy)
        best = [max(found, key=lambda each: each.preference) for found in on_node.values()]
        left_out = [copy for copy in copies if copy not in best]
        usable = sorted((copy for copy in best if not copy.unusable), key=lambda each: each.rank, reverse=True)
        unusable = [copy for copy in best if copy.unusable]
        chosen = ChosenPartition(topic, number, topic_id, tuple(usable), tuple(left_out), tuple(unusable))
        for copy in left_out if self.options.node is None else ():
            (taken,) = (each for each in best if self._node_of(each) == self._node_of(copy))
            why = f"a broker takes one folder of a partition, and {taken.partition.folder} has more or the same"
            self._note(CHOSEN, f"{chosen.name}: {copy.partition.folder} is left out: {why}")
        if not usable:
            folders = " ".join(path_word(copy.partition.folder) for copy in unusable)
            why = "; ".join(f"{copy.partition.folder}: {'; '.join(copy.notes)}" for copy in unusable)
            first = "make an intact one first, and put it in the place of a damaged one"
            self.obstacles.append(f"{chosen.name}: no copy that a broker can load ({why}); {first}: "
                                  f"kafkalog salvage {folders} --out rescued")  # fmt: skip
            return
        self._note_copies(chosen)
        self.partitions.append(chosen)

    def _node_of(self, copy: Copy) -> int:
        return copy.disk.node_id if self.options.node is None else self.options.node

    def _note_copies(self, chosen: ChosenPartition) -> None:
        best = chosen.in_sync
        for copy in chosen.unusable:
            text = f"{copy.partition.folder} is left out ({'; '.join(copy.notes)}); its broker gets the records from the others"
            self._note(CHOSEN, f"{chosen.name}: {text}")
        stale = [copy for copy in chosen.copies if copy not in best]
        if stale:
            listed = ", ".join(f"{copy.partition.folder} ends at {copy.end_offset} in epoch {copy.last_epoch}" for copy in stale)
            ends = f"{best[0].end_offset} in epoch {best[0].last_epoch}"
            self._note(CHOSEN, f"{chosen.name}: not in sync, to be caught up from a copy that ends at {ends}: {listed}")
        if starts := {copy.found_start for copy in chosen.copies} - {None}:
            why = "as its leader epochs say; the checkpoint has lost it"
            self._note(CHOSEN, f"{chosen.name}: the log begins at offset {max(filter(None, starts))}, {why}")
        for copy in chosen.copies:
            for note in copy.notes:
                self._note(LOST, f"{chosen.name}: {copy.partition.folder}: {note}")

    def _note(self, kind: str, text: str) -> None:
        self.notes.append(Note(kind, text))


def _described(copies: Iterable[Copy], topic_id: str) -> str:
    """Copies of one topic id in a few words."""
    found = [copy for copy in copies if copy.topic_id == topic_id]
    ends = f"end offsets up to {max(copy.end_offset for copy in found)}"
    strays = sum(copy.partition.state == STRAY for copy in found)
    return f"{len(found)} folders, {strays} of them stray, {ends}"


def spread(nodes: Sequence[int], turn: int) -> list[int]:
    """The nodes in order, begun at another one each turn, so that not one of them leads everything."""
    ordered = sorted(nodes)
    at = turn % len(ordered) if ordered else 0
    return ordered[at:] + ordered[:at]


def by_name(partitions: Iterable[ChosenPartition]) -> Mapping[str, list[ChosenPartition]]:
    """The partitions of each topic."""
    topics: dict[str, list[ChosenPartition]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition)
    return topics
