"""The comparison of Kafka's engine and ours: the result of every operation, and every byte of every file.

Only the wording of messages may differ. Where an engine recompressed records, the compressed bytes depend on the release of the
codec's library: with `recompressed`, what they decompress to is compared, with the rest of the header, and sizes are not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kafkalog.engine.entries import Batch, Entry, iter_entries
from kafkalog.engine.entry_records import decompressed
from kafkalog.errors import KafkaLogError
from kafkalog.format.index import OFFSET_INDEX_ENTRY

Json = dict[str, Any]

WORDS = ("message", "causeMessage")
OF_CHECKPOINTS = ("recoveryCheckpointError", "startCheckpointError")
OF_SIZE = ("size", "crc32c", "position", "validBytes", "cleanBytes", "cleanableBytes", "bytesRead", "bytesWritten")

# By operation: the exception that Kafka throws by accident, and the error of ours.
SAFER = {
    ("append", "UnsupportedOperationException", "InvalidRecordException"),
    ("append", "IndexOutOfBoundsException", "CorruptRecordException"),
    # A damaged message with lengths that lead out of it.
    *((operation, "IndexOutOfBoundsException", "CorruptRecordException") for operation in ("open", "read", "clean")),
    ("offset_for_time", "IndexOutOfBoundsException", "CorruptRecordException"),
    ("offset_for_time", "IndexOutOfBoundsException", "InvalidRecordException"),
}
# The same where `state` shows why a segment has no next offset.
SAFER_NEXT_OFFSET = {"IndexOutOfBoundsException": "CorruptRecordException"}


class Difference(NamedTuple):
    """Where a replay first differs, and how."""

    where: str
    expected: object
    found: object

    def __str__(self) -> str:
        return f"{self.where}: Kafka {_shown(self.expected)}, kafkalog {_shown(self.found)}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:197] + "..."


def is_safer(expected: Json, found: Json) -> bool:
    """Whether Kafka failed by accident where ours refuses on purpose; neither then stores anything."""
    return (expected["op"], expected.get("error"), found.get("error")) in SAFER


def compare_results(line: int, expected: Json, found: Json, *, recompressed: bool) -> Difference | None:
    """The first field of a result that differs."""
    expected, found = _comparable(expected, recompressed), _comparable(found, recompressed)
    if is_safer(expected, found):
        found["error"] = expected["error"]
    for name in (*expected, *found):
        if expected.get(name) != found.get(name):
            where = f"line {line} ({expected['op']}): {name}"
            inner = _inner_difference(expected.get(name), found.get(name))
            return Difference(where + inner.where, inner.expected, inner.found)
    return None


def _inner_difference(expected: object, found: object) -> Difference:
    """Of two lists or objects only the first element that differs."""
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        expected, found = dict(enumerate(expected)), dict(enumerate(found))
    if not (isinstance(expected, dict) and isinstance(found, dict)):
        return Difference("", expected, found)
    key = next(key for key in (*expected, *found) if expected.get(key) != found.get(key))
    inner = _inner_difference(expected.get(key), found.get(key))
    return Difference(f"[{key}]{inner.where}", inner.expected, inner.found)


def _comparable(result: Json, recompressed: bool) -> Json:
    """The part of a result that must be the same."""
    kept = {name: value for name, value in result.items() if name not in WORDS}
    if kept.get("error") != "RecordValidationException":
        kept.pop("cause", None)  # which of Java's exceptions a codec threw
    for name in OF_CHECKPOINTS:
        if name in kept:
            kept[name] = True
    if isinstance(kept.get("segments"), list):
        kept["segments"] = [_with_safer_next_offset(part) if isinstance(part, dict) else part for part in kept["segments"]]
    if "recordErrors" in kept:
        kept["recordErrors"] = [row for row, _ in kept["recordErrors"]]
    if "background" in kept:
        kept["background"] = [":".join(failure.split(":")[:2]) for failure in kept["background"]]
    return _without_sizes(kept) if recompressed else kept


def _with_safer_next_offset(segment: Json) -> Json:
    told = segment.get("nextOffset")
    return segment | {"nextOffset": SAFER_NEXT_OFFSET.get(told, told)} if isinstance(told, str) else segment


def _without_sizes(result: Json) -> Json:
    kept = {name: value for name, value in result.items() if name not in OF_SIZE}
    if isinstance(kept.get("segments"), list):
        kept["segments"] = [_without_sizes(part) if isinstance(part, dict) else part for part in kept["segments"]]
    if "files" in kept:
        kept["files"] = {name: _without_position(name, file) for name, file in kept["files"].items()}
    return kept


def _without_position(name: str, file: list[int]) -> list[int]:
    """Size and checksum of a file, so far as they do not depend on the size of entries."""
    kind = _kind(name)
    if kind == ".log":
        return []
    return file[:1] if kind == ".index" else file


def _kind(name: str) -> str:
    root, suffix = os.path.splitext(name)
    return os.path.splitext(root)[1] if suffix in (".deleted", ".cleaned", ".swap") else suffix


def compare_trees(expected: Path, found: Path, *, recompressed: bool) -> Difference | None:
    """The first file that only one folder has, or that differs."""
    expected_files, found_files = _files(expected), _files(found)
    if expected_files.keys() != found_files.keys():
        return Difference(
            "files", sorted(expected_files.keys() - found_files.keys()), sorted(found_files.keys() - expected_files.keys())
        )
    for name, path in expected_files.items():
        one, other = path.read_bytes(), found_files[name].read_bytes()
        if one != other and not (recompressed and _same_content(name, one, other, path, found_files[name])):
            position = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
            return Difference(f"file {name} at byte {position}", one[position : position + 40], other[position : position + 40])
    return None


def _files(folder: Path) -> dict[str, Path]:
    return {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}


def _same_content(name: str, one: bytes, other: bytes, one_path: Path, other_path: Path) -> bool:
    kind = _kind(name)
    if kind == ".log":
        return list(_content(one)) == list(_content(other))
    if kind == ".index":
        return _resolved(one, one_path) == _resolved(other, other_path)
    return False


def _content(log: bytes) -> Iterator[object]:
    """The entries of a log, decompressed, and what follows the last whole one."""
    stop = 0
    try:
        for entry in iter_entries(log):
            stop = entry.start + entry.size
            yield _entry_content(entry)
    except KafkaLogError as error:
        yield type(error).__name__
    yield log[stop:]


def _entry_content(entry: Entry) -> object:
    stored = memoryview(entry.data)[entry.start : entry.start + entry.size]
    try:
        if isinstance(entry, Batch):
            if not entry.is_compressed:
                return bytes(stored)
            # The length and the checksum follow from the compressed bytes.
            header = bytes(stored[:8]), bytes(stored[12:17]), bytes(stored[21:61])
            return header, decompressed(entry.codec, stored[61:], entry.magic)
        if not entry.is_compressed:
            return bytes(stored)
        return bytes(stored[:8]), bytes(stored[16:34]), list(entry)
    except KafkaLogError:
        return bytes(stored)


def _resolved(index: bytes, path: Path) -> list[tuple[int, object]]:
    """The entries of an offset index with the entry of the log that each points at, in place of its position."""
    log = Path(str(path).replace(".index", ".log")).read_bytes()
    rows = {entry.start: row for row, entry in enumerate(_whole_entries(log))}
    entries = np.frombuffer(index, OFFSET_INDEX_ENTRY, len(index) // OFFSET_INDEX_ENTRY.itemsize)
    return [(int(offset), rows.get(int(position), int(position))) for offset, position in entries.tolist()]


def _whole_entries(log: bytes) -> Iterator[Entry]:
    try:
        yield from iter_entries(log)
    except KafkaLogError:
        return
