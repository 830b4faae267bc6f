"""What a crash interrupted while segments were put in the place of others, completed or undone: the names say how far it came."""

from __future__ import annotations

import os

from kafkalog.format.names import MAX_OFFSET, SEGMENT_KINDS, parse_file_name

from .segment_files import CLEANED, DELETED, SWAP, SegmentFiles


def settle_replacements(files: SegmentFiles) -> None:
    """Leave only files that are where they belong. Nothing is recovered, and no entry is looked at but the last of a `.swap`."""
    _complete_swaps(files, _remove_temporary_files(files))


def list_files(files: SegmentFiles) -> list[str]:
    """The names of the files in the folder."""
    return [name for name in files.fs.list(files.folder) if files.fs.kind(_path(files, name)) == "file"]


def _path(files: SegmentFiles, name: str) -> str:
    return os.path.join(files.folder, name)


def _remove_temporary_files(files: SegmentFiles) -> list[str]:
    """Remove what was on its way out or not complete; the names of what is complete and waits to replace others."""
    swaps, cleaned = [], []
    for name in list_files(files):
        if name.endswith(DELETED) and not name.endswith(".checkpoint.deleted"):
            files.fs.remove(_path(files, name))
        elif name.endswith(CLEANED):
            cleaned.append(name)
        elif name.endswith(SWAP):
            swaps.append(name)
    first_cleaned = min(map(_base_offset, cleaned), default=MAX_OFFSET)
    undone = [name for name in swaps if _base_offset(name) >= first_cleaned]
    for name in (*undone, *cleaned):
        files.fs.remove(_path(files, name))
    return [name for name in swaps if name not in undone]


def _complete_swaps(files: SegmentFiles, swaps: list[str]) -> None:
    """Remove what the `.swap` files replace, and give them their names."""
    first, stop = MAX_OFFSET, -1
    for name in swaps:
        if name.endswith(".log" + SWAP):
            segment = files.open_segment(_base_offset(name), exists=True, suffix=SWAP)
            first = min(first, segment.base_offset)
            stop = max(stop, segment.read_next_offset())
            segment.close_handlers()
    for name in list_files(files):
        if not name.endswith(SWAP) and first <= _base_offset(name) < stop:
            files.fs.remove(_path(files, name))
    if swaps:
        files.sync_names()  # what was replaced must not come back beside what replaced it
    for name in list_files(files):
        if name.endswith(SWAP):
            files.fs.rename(_path(files, name), _path(files, name.removesuffix(SWAP)))


def _base_offset(name: str) -> int:
    """The base offset that a file name says, -1 if it says none."""
    parsed = parse_file_name(name)
    return parsed.base_offset if parsed is not None and parsed.kind in SEGMENT_KINDS else -1
