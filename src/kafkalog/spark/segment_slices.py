"""The slices of a part on their way from plan to task: whether their files are what was planned, and what damaged ranges hold.

Where a broker has cleaned or removed files since the read was planned, their offsets are looked up again (`open_part`).
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final

from kafkalog.errors import Limits, SegmentChanged, StorageError, path_text
from kafkalog.log.folders import find_partitions
from kafkalog.log.partition import Partition
from kafkalog.log.report import Dropped
from kafkalog.log.swap_segments import with_finished_segments
from kafkalog.storage.local import HeldStore, LocalFile, LocalStore
from kafkalog.storage.store import Entry, Store

from .read_plan import Found, Range, parts_of
from .splits import HIGHEST, FileSlice, Part, as_segment, end_offset

LOGGER = logging.getLogger("kafkalog.spark")
CORRUPT_BYTES: Final = 1 << 20
SECOND_NS: Final = 1_000_000_000
HELD_FILES: Final = 200
TRIES: Final = 5
# Called with what is no longer there; raises, or returns to have the rest read.
OnLoss = Callable[[str], None]


def as_partition(part: Part, store: Store) -> Partition:
    """The part as a `Partition`."""
    return Partition(
        store,
        part.folder,
        part.topic,
        part.partition,
        segments=tuple(as_segment(piece) for piece in part.slices),
        log_start_offset=part.log_start_offset,
    )


def still_exists(store: Store, piece: FileSlice) -> bool:
    """Whether the file still exists: retention may have removed it since the read was planned."""
    there = store.stat(piece.path) is not None
    if not there:
        LOGGER.warning("left out: %s is gone", path_text(piece.path))
    return there


def open_part(part: Part, store: Store, stack: ExitStack, on_loss: OnLoss) -> tuple[Part, Store]:
    """The part with slices of unchanged files, and the store to read them from.

    Those are the slices given, or those that hold its offsets now: a cleaner merges several segments into one.
    """
    for left in reversed(range(TRIES)):
        try:
            return part, stack.enter_context(unchanged(part, store))
        except SegmentChanged:
            span = exact_span(part)
            if not left or span is None:
                raise
            part = _replanned(part, store, on_loss, *span)
    raise AssertionError("the last try returns or raises")


def exact_span(part: Part) -> tuple[int, int] | None:
    """The offsets that only this part yields; None if a slice does not say."""
    if not part.slices:
        return None
    first, last = part.slices[0], part.slices[-1]
    low = max(part.start_offset, first.first_offset)
    high = part.stop_offset if last.next_base_offset is None else min(part.stop_offset, last.next_base_offset)
    is_exact = first.start == 0 or first.first_offset > first.base_offset  # compressed v0/v1 sets only have their last offset
    return (low, high) if is_exact and high < HIGHEST else None


def _replanned(part: Part, store: Store, on_loss: OnLoss, low: int, high: int) -> Part:
    partition = with_finished_segments(find_partitions(store, part.folder)[0], Limits())
    end = end_offset(partition)
    if partition.start_offset > low or end < high:
        found = f"now has the offsets {partition.start_offset} to {end - 1}"
        on_loss(f"{partition} {found}, but {low} to {high - 1} were to be read")
    parts = parts_of([Range(Found(part.root, partition), low, high, part.committed)], HIGHEST)
    slices = tuple(piece for each in parts for piece in each.slices)
    claim = max(part.claim[0], low), min(part.claim[1], high)
    return replace(part, slices=slices, start_offset=low, stop_offset=high, claim=claim)


@contextmanager
def unchanged(part: Part, store: Store) -> Iterator[Store]:
    """A store to read the part from; SegmentChanged unless its files are as they were planned, before and after.

    Local files stay open meanwhile: one that a broker replaces, renames or removes is still read to its end.
    """
    with ExitStack() as stack:
        held: dict[str, LocalFile] = {}
        if isinstance(store, LocalStore) and len(part.slices) <= HELD_FILES:
            held = {piece.path: stack.enter_context(_open(store, piece)) for piece in part.slices}
        for piece in part.slices:
            _check(piece, held[piece.path].entry() if held else store.stat(piece.path))
        yield HeldStore(store, held) if isinstance(store, LocalStore) and held else store
        for piece in part.slices:
            now = held[piece.path].entry() if held else store.stat(piece.path)
            if now is not None:  # one that was removed by now was read to its end
                _check(piece, now)


def _open(store: LocalStore, piece: FileSlice) -> LocalFile:
    try:
        return store.open(piece.path)
    except StorageError as error:
        if error.errno != errno.ENOENT:
            raise
        raise _changed(piece, "the file", "no file") from error


def _check(piece: FileSlice, now: Entry | None) -> None:
    """SegmentChanged unless the file is as it was planned; the newest segment may have grown, or lost an empty end."""
    if now is None or now.kind != "file":
        raise _changed(piece, "the file", "no file")
    is_object = "://" in piece.path
    # Some requests report an object's time in whole seconds.
    unit = SECOND_NS if is_object else 1
    is_same_file = now.inode == piece.inode or not piece.inode
    if is_same_file and now.size == piece.size and now.mtime_ns // unit == piece.mtime_ns // unit:
        return
    if is_same_file and piece.may_grow and now.size != piece.size and now.size >= piece.stop and not is_object:
        return
    detail = "call load() again to read what is there now"
    raise _changed(piece, f"{piece.size} bytes of {piece.mtime_ns} ns", f"{now.size} bytes of {now.mtime_ns} ns", detail)


def _changed(piece: FileSlice, expected: str, found: str, detail: str = "") -> SegmentChanged:
    return SegmentChanged("changed", file=piece.path, position=piece.start, expected=expected, found=found, detail=detail)


def damaged_content(store: Store, dropped: Dropped) -> bytes | None:
    """The damaged bytes, up to the first MiB; None if they cannot be read."""
    try:
        with store.open(dropped.file) as source:
            return source.read(max(dropped.position, 0), min(max(dropped.length, 0), CORRUPT_BYTES))
    except (StorageError, SegmentChanged):
        return None


def claimed_offset(store: Store, dropped: Dropped, part: Part) -> int:
    """The offset that damage is counted at: right before the next entry, because its own offset may be damaged."""
    piece = next(piece for piece in part.slices if path_text(piece.path) == path_text(dropped.file))
    following = dropped.position + dropped.length
    try:
        with store.open(piece.path) as source:
            stored = source.read(following, 8) if 0 <= following < source.size else b""
    except (StorageError, SegmentChanged):
        stored = b""
    if len(stored) == 8:
        return int.from_bytes(stored, "big", signed=True) - 1
    return (part.stop_offset if piece.next_base_offset is None else piece.next_base_offset) - 1
