"""The slices of a part on their way from plan to task: are the files still what they were, and what do their bad ranges hold."""

from __future__ import annotations

import logging
from typing import Final

from kafkalog.errors import SegmentChanged, StorageError, path_text
from kafkalog.log.partition import Partition
from kafkalog.log.report import Dropped
from kafkalog.storage.store import Store

from .splits import FileSlice, Part, as_segment

LOGGER = logging.getLogger("kafkalog.spark")
CORRUPT_BYTES: Final = 1 << 20
SECOND_NS: Final = 1_000_000_000


def as_partition(part: Part, store: Store) -> Partition:
    """The part as the layers below know it."""
    return Partition(
        store,
        part.folder,
        part.topic,
        part.partition,
        segments=tuple(as_segment(piece) for piece in part.slices),
        log_start_offset=part.log_start_offset,
    )


def is_there(store: Store, piece: FileSlice) -> bool:
    """Whether the file still exists; retention may have removed it since the read was planned."""
    there = store.stat(piece.path) is not None
    if not there:
        LOGGER.warning("left out: %s is gone", path_text(piece.path))
    return there


def check_unchanged(store: Store, piece: FileSlice) -> None:
    """SegmentChanged unless the file is what it was at planning; the newest segment may have grown, or lost an empty end."""
    now = store.stat(piece.path)
    if now is None or now.kind != "file":
        raise SegmentChanged("changed", file=piece.path, position=piece.start, expected="the file", found="no file")
    is_object = "://" in piece.path
    # An object's time comes in whole seconds from some requests.
    unit = SECOND_NS if is_object else 1
    if now.size == piece.size and now.mtime_ns // unit == piece.mtime_ns // unit:
        return
    if piece.may_grow and now.size != piece.size and now.size >= piece.stop and not is_object:
        return
    expected = f"{piece.size} bytes of {piece.mtime_ns} ns"
    raise SegmentChanged(
        "changed",
        file=piece.path,
        position=piece.start,
        expected=expected,
        found=f"{now.size} bytes of {now.mtime_ns} ns",
        detail="call load() again to read what is there now",
    )


def damaged_content(store: Store, dropped: Dropped) -> bytes | None:
    """The bad bytes, the first MiB of them; None where they cannot be had."""
    try:
        with store.open(dropped.file) as source:
            return source.read(max(dropped.position, 0), min(max(dropped.length, 0), CORRUPT_BYTES))
    except (StorageError, SegmentChanged):
        return None


def claimed_offset(store: Store, dropped: Dropped, part: Part) -> int:
    """The offset at which damage counts: right before the entry that follows, as its own offset may be what is damaged."""
    piece = next(piece for piece in part.slices if path_text(piece.path) == path_text(dropped.file))
    following = dropped.position + dropped.length
    try:
        with store.open(piece.path) as source:
            front = source.read(following, 8) if 0 <= following < source.size else b""
    except (StorageError, SegmentChanged):
        front = b""
    if len(front) == 8:
        return int.from_bytes(front, "big", signed=True) - 1
    return (part.stop_offset if piece.next_base_offset is None else piece.next_base_offset) - 1
