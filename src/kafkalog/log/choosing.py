"""Choose partitions by topic and number. One rule for reads, tasks, commands and Spark: a name that is not there is an error."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from kafkalog.errors import UsageError

from .partition import Partition

NAMES_LISTED = 20


def is_given(partition: Partition, place: str) -> bool:
    """Whether `place` is the path of this partition itself or of one of its files, not of a folder that it is in."""
    return partition.folder == place or partition.file is not None


def live_partitions(found: Iterable[Partition], place: str) -> list[Partition]:
    """Those at `place` that no broker has deleted or moved aside; one that is given by its own path counts in any state."""
    return [partition for partition in found if not partition.state or is_given(partition, place)]


def choose(
    found: Sequence[Partition], place: str, topics: Sequence[str] | None, numbers: Sequence[int] | None
) -> list[Partition]:
    """The partitions of these topics with these numbers; UsageError for a name or number that is not at `place`."""
    require_topics(found, place, topics)
    chosen = [partition for partition in found if topics is None or partition.topic in topics]
    for number in numbers or ():
        if number not in (there := {partition.partition for partition in chosen}):
            raise UsageError(f"{place}: no partition {number} here; there are: {_listed(map(str, sorted(there)))}")
    return [partition for partition in chosen if numbers is None or partition.partition in numbers]


def require_topics(found: Iterable[Partition], place: str, topics: Sequence[str] | None) -> None:
    """UsageError for a topic that is not there."""
    there = sorted({partition.topic for partition in found})
    for topic in topics or ():
        if topic not in there:
            raise UsageError(f"{place}: {no_topic(topic, there)}")


def no_topic(topic: str, there: Sequence[str]) -> str:
    """The message for a missing topic: a similar name, and what is there."""
    near = difflib.get_close_matches(topic, there, 1)
    guess = f"did you mean {near[0]}? " if near else ""
    return f"no topic {topic!r} here; {guess}there are: {_listed(there)}"


def _listed(names: Iterable[str]) -> str:
    there = list(names)
    more = f" and {len(there) - NAMES_LISTED} more" if len(there) > NAMES_LISTED else ""
    return (", ".join(there[:NAMES_LISTED]) or "none") + more
