"""The slices of a part on their way from plan to task: are the files still what they were, and what do their bad ranges hold."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from kafkalog.errors import SegmentChanged, StorageError, path_text
from kafkalog.log.partition import Partition
from kafkalog.log.report import Dropped
from kafkalog.storage.local import HeldStore, LocalFile, LocalStore
from kafkalog.storage.store import Entry, Store

from .splits import FileSlice, Part, as_segment

LOGGER = logging.getLogger("kafkalog.spark")
CORRUPT_BYTES: Final = 1 << 20
SECOND_NS: Final = 1_000_000_000
HELD_FILES: Final = 200


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


@contextmanager
def unchanged(part: Part, store: Store) -> Iterator[Store]:
    """A store to read the part from; SegmentChanged unless its files are what they were at planning, before and after.

    Local files are held open meanwhile: what a broker replaces, renames or removes is read to its end all the same.
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
            if now is not None:  # one that is gone by now was read to its end
                _check(piece, now)


def _open(store: LocalStore, piece: FileSlice) -> LocalFile:
    try:
        return store.open(piece.path)
    except StorageError as error:
        if error.errno != errno.ENOENT:
            raise
        raise _changed(piece, "the file", "no file") from error


def _check(piece: FileSlice, now: Entry | None) -> None:
    """SegmentChanged unless the file is what it was at planning; the newest segment may have grown, or lost an empty end."""
    if now is None or now.kind != "file":
        raise _changed(piece, "the file", "no file")
    is_object = "://" in piece.path
    # An object's time comes in whole seconds from some requests.
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
