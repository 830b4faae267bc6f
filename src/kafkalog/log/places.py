"""Several places read as one log directory: those of one broker, or of several, whose copies of a partition are replicas.

Each partition is read from one copy, the newest (`newest`), so that each offset comes once. That is the copy that a broker of the
cluster would follow. Holes are not filled from other copies; `salvage` does that.

Copies belong together by topic id, or by name where no id is known. Where a topic was deleted and created again, two topics
have one name; which of them is meant cannot be known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from kafkalog.errors import Limits, UsageError

from .newest import rank
from .partition import Partition

PLACES_NAMED = 3


@dataclass(frozen=True)
class Copies:
    """A partition of several places: what to read (one copy, or segment files of one), and the other copies, best first."""

    chosen: tuple[Partition, ...]
    others: tuple[Partition, ...] = ()


@dataclass
class Whole:
    """Several places as one. `refused` says for each name that belongs to two topics which these are."""

    copies: list[Copies] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def partitions(self) -> list[Partition]:
        """The partitions to read, by topic and number."""
        return [partition for each in self.copies for partition in each.chosen]


def as_one(partitions: Iterable[Partition], topic_ids: Sequence[str] | None = None, limits: Limits | None = None) -> Whole:
    """The partitions of several places as one; `topic_ids` say which topics are meant where two have the same name."""
    topics: dict[str, list[Partition]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition)
    _require_ids(topics, topic_ids)
    whole = Whole()
    for topic, found in sorted(topics.items()):
        of_one_id = _of_ids(found, topic_ids or ())
        ids = {partition.topic_id for partition in of_one_id} - {None}
        if len(ids) > 1:
            whole.refused[topic] = _two_topics(topic, of_one_id)
        groups: dict[tuple[int, str], list[Partition]] = {}
        for partition in of_one_id:
            own_id = (partition.topic_id or "") if len(ids) > 1 else ""
            groups.setdefault((partition.partition, own_id), []).append(partition)
        whole.copies += [_best(groups[key], limits or Limits()) for key in sorted(groups)]
    return whole


def _require_ids(topics: dict[str, list[Partition]], topic_ids: Sequence[str] | None) -> None:
    there = {partition.topic_id: topic for topic, found in topics.items() for partition in found if partition.topic_id}
    for topic_id in topic_ids or ():
        if topic_id not in there:
            known = ", ".join(f"{each} ({topic})" for each, topic in sorted(there.items(), key=lambda pair: pair[1]))
            raise UsageError(f"no topic with the id {topic_id!r} here; there are: {known or 'none with a known id'}")


def _of_ids(found: list[Partition], topic_ids: Sequence[str]) -> list[Partition]:
    """Those of the chosen ids; all where none of them belongs to this topic."""
    chosen = [partition for partition in found if partition.topic_id in topic_ids]
    return chosen or found


def _two_topics(topic: str, found: Sequence[Partition]) -> str:
    places: dict[str, list[str]] = {}
    for partition in found:
        if partition.topic_id is not None:
            places.setdefault(partition.topic_id, []).append(partition.folder)
    texts = []
    for topic_id, folders in places.items():
        more = f" and {len(folders) - PLACES_NAMED} more" if len(folders) > PLACES_NAMED else ""
        texts.append(f"{topic_id} ({', '.join(folders[:PLACES_NAMED])}{more})")
    return f"{topic}: {len(places)} topics have this name, as after one was deleted and created again: {' and '.join(texts)}"


def _best(found: Sequence[Partition], limits: Limits) -> Copies:
    """The copies of one partition, the one to read first. Files of one folder, given one by one, are one copy."""
    folders: dict[str, list[Partition]] = {}
    for partition in found:
        folders.setdefault(partition.folder, []).append(partition)
    copies = [_once(parts) for parts in folders.values()]
    if len(copies) > 1:
        copies.sort(key=lambda parts: max(rank(part, limits) for part in parts), reverse=True)
    return Copies(copies[0], tuple(part for parts in copies[1:] for part in parts))


def _once(parts: list[Partition]) -> tuple[Partition, ...]:
    """A folder, or its files in the order of their offsets, each once even if it was given twice."""
    whole = [part for part in parts if part.file is None]
    if whole:
        return (whole[0],)
    files = {part.file: part for part in parts}
    return tuple(sorted(files.values(), key=attrgetter("start_offset")))
