"""One partition as found on storage: its segments, its other files, and the checkpoints that mention it.

Checkpoints are evidence, not truth: one that cannot be read counts as absent.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from kafkalog.errors import KafkaLogError
from kafkalog.format import names
from kafkalog.format.checkpoint import EpochStart, decode_leader_epoch_checkpoint, decode_partition_metadata
from kafkalog.format.quantities import plural, size_text
from kafkalog.storage.store import SMALL_FILE, ByteSource, Store

MAX_SHOWN = 80


def shown(value: object) -> str:
    """A path, name or other text quoted for a `repr`; only the end of a long one."""
    text = str(value)
    return repr(text if len(text) <= MAX_SHOWN else "…" + text[-MAX_SHOWN:])


@dataclass(frozen=True)
class StoredFile:
    """A file of a partition folder, with its parsed name."""

    path: str
    size: int
    mtime_ns: int
    kind: str
    base_offset: int = -1
    suffix: str = ""
    # The size of its blocks, which can change without the file: index files are preallocated and sparse.
    disk_size: int | None = field(default=None, compare=False)
    inode: int = 0

    @property
    def stored_size(self) -> int:
        """The space it occupies: its blocks on a disk, its bytes in an object store."""
        return self.size if self.disk_size is None else self.disk_size


@dataclass(frozen=True)
class Segment:
    """A log file with its index files; `next_base_offset` is the base offset of the next segment, None for the newest.

    With positions it is a part of a segment, cut between entries; the next part then takes the role of the next segment.
    """

    log: StoredFile
    siblings: Mapping[str, StoredFile] = field(default_factory=dict)
    next_base_offset: int | None = None
    start_position: int = 0
    stop_position: int | None = None  # None: where the file ends

    @property
    def base_offset(self) -> int:
        """The offset in its name; -1 for a file whose name has none (a copy, a KRaft snapshot)."""
        return self.log.base_offset if self.log.kind == "log" else -1

    @property
    def is_newest(self) -> bool:
        return self.next_base_offset is None

    def stop_in(self, source: ByteSource) -> int:
        """Where the entries of this segment end in its open file."""
        return source.size if self.stop_position is None else min(self.stop_position, source.size)

    def __repr__(self) -> str:
        parts = [shown(self.log.path), size_text(self.log.size), plural(len(self.siblings), "index file")]
        if self.start_position or self.stop_position is not None:
            parts.append(f"bytes {self.start_position} to {'the end' if self.stop_position is None else self.stop_position}")
        return f"Segment({', '.join(parts)}{', newest' if self.is_newest else ''})"


@dataclass(frozen=True)
class Partition:
    """A partition folder, or a single file of one. `log_start_offset` is None if no checkpoint has it."""

    store: Store
    folder: str
    topic: str
    partition: int
    state: str = ""  # "", "delete", "future" or "stray"
    segments: tuple[Segment, ...] = ()
    leftovers: tuple[StoredFile, ...] = ()
    files: tuple[StoredFile, ...] = ()
    problems: tuple[str, ...] = ()
    log_start_offset: int | None = None
    file: str | None = None  # the path of a partition that is a single file

    @property
    def size(self) -> int:
        """Bytes of all live segments."""
        return sum(segment.log.size for segment in self.segments)

    @property
    def start_offset(self) -> int:
        """The first offset that a consumer would see."""
        first = max(self.segments[0].base_offset, 0) if self.segments else 0
        return max(first, self.log_start_offset or 0)

    @cached_property
    def epochs(self) -> tuple[EpochStart, ...]:
        """The lines of the leader-epoch-checkpoint; empty if there is none or it cannot be read."""
        found = [stored for stored in self.files if stored.kind == names.LEADER_EPOCH_CHECKPOINT]
        try:
            return tuple(decode_leader_epoch_checkpoint(self.store.read_small(found[0].path, SMALL_FILE))) if found else ()
        except KafkaLogError:
            return ()

    @cached_property
    def epoch_starts(self) -> list[int]:
        """The start offsets of `epochs`."""
        return [epoch.start_offset for epoch in self.epochs]

    @cached_property
    def topic_id(self) -> str | None:
        """The id that brokers since 2.8 give a topic: one that was deleted and created again has another."""
        found = [stored for stored in self.files if stored.kind == names.PARTITION_METADATA]
        try:
            return decode_partition_metadata(self.store.read_small(found[0].path, SMALL_FILE)).topic_id if found else None
        except KafkaLogError:
            return None

    def epoch_at(self, offset: int) -> int | None:
        """The leader epoch of an offset by the checkpoint."""
        at = bisect_right(self.epoch_starts, offset)
        return self.epochs[at - 1].epoch if at else None

    def segments_from(self, offset: int) -> tuple[Segment, ...]:
        """The segments that may hold `offset` or higher ones."""
        return tuple(s for s in self.segments if s.next_base_offset is None or s.next_base_offset > offset)

    def open_log(self, segment: Segment) -> ByteSource:
        return self.store.open(segment.log.path)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    def __repr__(self) -> str:
        parts = [shown(str(self)), plural(len(self.segments), "segment"), size_text(self.size)]
        parts += [f"from offset {self.start_offset}", *([self.state] if self.state else [])]
        parts += [plural(len(self.problems), "problem")] if self.problems else []
        return f"Partition({', '.join(parts)}, {shown(self.file or self.folder)})"
