"""One partition as found on storage: its segments, its other files, and the checkpoints that mention it.

Checkpoints are evidence, not truth: one that cannot be read counts as absent.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Self, TypeVar, overload

from kafkalog.errors import KafkaLogError
from kafkalog.format import names
from kafkalog.format.checkpoint import EpochStart, decode_leader_epoch_checkpoint, decode_partition_metadata
from kafkalog.format.quantities import plural, size_text
from kafkalog.storage.store import SMALL_FILE, ByteSource, Store

from .stored_files import Segment, Segments, StoredFile, StoredFiles, shown

# What was listed, which callers look for here too.
__all__ = ["Partition", "Segment", "StoredFile", "shown"]


Value = TypeVar("Value")


class _ReadOnce(Generic[Value]):
    """`functools.cached_property` without the lock that Python 3.11 holds for all objects: many partitions are read at once."""

    def __init__(self, read: Callable[[Partition], Value]) -> None:
        self._read = read
        self.__doc__ = read.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, partition: None, owner: type) -> Self: ...

    @overload
    def __get__(self, partition: Partition, owner: type) -> Value: ...

    def __get__(self, partition: Partition | None, owner: type) -> Self | Value:
        if partition is None:
            return self
        value = partition.__dict__[self._name] = self._read(partition)
        return value


@dataclass(frozen=True)
class Partition:
    """A partition folder, or a single file of one. `log_start_offset` is None if no checkpoint has it."""

    store: Store
    folder: str
    topic: str
    partition: int
    state: str = ""  # "", "delete", "future" or "stray"
    segments: Sequence[Segment] = ()
    leftovers: tuple[StoredFile, ...] = ()
    files: Sequence[StoredFile] = ()
    problems: tuple[str, ...] = ()
    log_start_offset: int | None = None
    file: str | None = None  # the path of a partition that is a single file

    @property
    def size(self) -> int:
        """Bytes of all live segments."""
        if isinstance(self.segments, Segments):
            return self.segments.log_bytes
        return sum(segment.log.size for segment in self.segments)

    @property
    def start_offset(self) -> int:
        """The first offset that a consumer would see."""
        first = max(self.segments[0].base_offset, 0) if self.segments else 0
        return max(first, self.log_start_offset or 0)

    @_ReadOnce
    def epochs(self) -> tuple[EpochStart, ...]:
        """The lines of the leader-epoch-checkpoint; empty if there is none or it cannot be read."""
        found = self._first_of(names.LEADER_EPOCH_CHECKPOINT)
        try:
            return tuple(decode_leader_epoch_checkpoint(self.store.read_small(found.path, SMALL_FILE))) if found else ()
        except KafkaLogError:
            return ()

    @_ReadOnce
    def epoch_starts(self) -> list[int]:
        """The start offsets of `epochs`."""
        return [epoch.start_offset for epoch in self.epochs]

    @_ReadOnce
    def topic_id(self) -> str | None:
        """The id that brokers since 2.8 give a topic: one that was deleted and created again has another."""
        found = self._first_of(names.PARTITION_METADATA)
        try:
            return decode_partition_metadata(self.store.read_small(found.path, SMALL_FILE)).topic_id if found else None
        except KafkaLogError:
            return None

    def _first_of(self, kind: str) -> StoredFile | None:
        if isinstance(self.files, StoredFiles):
            return self.files.first_of(kind)
        return next((stored for stored in self.files if stored.kind == kind), None)

    def epoch_at(self, offset: int) -> int | None:
        """The leader epoch of an offset by the checkpoint."""
        at = bisect_right(self.epoch_starts, offset)
        return self.epochs[at - 1].epoch if at else None

    def segments_from(self, offset: int) -> Sequence[Segment]:
        """The segments that may hold `offset` or higher ones."""
        if isinstance(self.segments, Segments):
            return self.segments.reaching(offset)
        return tuple(s for s in self.segments if s.next_base_offset is None or s.next_base_offset > offset)

    def with_newest(self, segment: Segment) -> Partition:
        """The partition with another newest segment, such as one that ends earlier."""
        if isinstance(self.segments, Segments):
            return replace(self, segments=self.segments.with_newest(segment))
        return replace(self, segments=(*self.segments[:-1], segment))

    def open_log(self, segment: Segment) -> ByteSource:
        return self.store.open(segment.log.path)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    def __repr__(self) -> str:
        parts = [shown(str(self)), plural(len(self.segments), "segment"), size_text(self.size)]
        parts += [f"from offset {self.start_offset}", *([self.state] if self.state else [])]
        parts += [plural(len(self.problems), "problem")] if self.problems else []
        return f"Partition({', '.join(parts)}, {shown(self.file or self.folder)})"
