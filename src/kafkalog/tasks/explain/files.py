"""Index files, snapshots, checkpoints and properties cut into their fields.

In text files a field has its separator with it: the blank, colon or line end that ends it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from crc32c import crc32c

from kafkalog.errors import CorruptBatch, KafkaLogError, UnsupportedFormat
from kafkalog.format import checkpoint, index, names, snapshot

from .cutter import Cutter, Notes, cut_whole, fault
from .notes import SNAPSHOT_NOTES, TXN_INDEX_NOTES, offset_index_notes, time_index_notes
from .tree import UNEXPLAINED, Part

LAYOUTS: Final = {
    "index": index.OFFSET_INDEX_ENTRY,
    "timeindex": index.TIME_INDEX_ENTRY,
    "txnindex": index.TXN_INDEX_ENTRY,
}
SNAPSHOT_HEADER: Final = np.dtype([("version", ">i2"), ("crc", ">u4"), ("count", ">i4")])
STALE = "after an entry with relative offset 0, which ends an index: stale entries from before a truncation"
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)?")
_TOKEN = re.compile(rb"[^ \t\v\f\r\n]+[ \t\v\f]*(?:\r\n|\r|\n)?")
_JSON_NAME = re.compile(r'[\s,{]*"([^"\\]*)"\s*:\s*')
_JSON_END = re.compile(r"\s*[,}]?\s*")


# Index files


def explain_index(data: bytes, kind: str, base_offset: int, first: int, count: int) -> list[Part]:
    """The entries of an index from number `first` on, at most `count`; after the last, its tail."""
    layout = LAYOUTS[kind]
    size = layout.itemsize
    entries, whole = _entry_count(data, kind), len(data) // size
    cut = Cutter(data, first * size)
    last = min(first + count, entries)
    for number in range(first, last):
        with cut.part(f"entry {number}", (number + 1) * size) as entry:
            values = entry.layout(layout, _index_notes(kind, base_offset))
            if kind == "txnindex" and values["version"] != index.TXN_INDEX_VERSION:
                entry.part_problem = f"expected version {index.TXN_INDEX_VERSION}, found {values['version']}"
    if first + count > entries:
        _cut_index_tail(cut, whole * size)
    return [part for part in cut.children if isinstance(part, Part)]


def _entry_count(data: bytes, kind: str) -> int:
    """Entries before the zero tail."""
    if kind == "txnindex":
        return len(data) // LAYOUTS[kind].itemsize
    read = index.read_offset_index if kind == "index" else index.read_time_index
    return len(read(data, 0))


def _cut_index_tail(cut: Cutter, whole: int) -> None:
    if cut.position < whole:
        zero = not any(cut.data[cut.position : whole])
        with cut.part("zeros" if zero else "stale entries", whole) as tail:
            tail.rest("zeros" if zero else UNEXPLAINED, note="room for more entries" if zero else STALE)
    if cut.left:
        with cut.part("entry") as tail:
            raise CorruptBatch("file-format", expected="a whole entry", found=f"{tail.left} bytes")


def _index_notes(kind: str, base_offset: int) -> Notes:
    if kind == "txnindex":
        return TXN_INDEX_NOTES
    return offset_index_notes(base_offset) if kind == "index" else time_index_notes(base_offset)


# Producer snapshots


def _cut_snapshot(cut: Cutter) -> None:
    header: dict[str, int] = {}
    with cut.part("header", min(cut.position + snapshot.HEADER_SIZE, cut.stop)) as front:
        for name in SNAPSHOT_HEADER.names or ():
            header[name] = front.number(name, SNAPSHOT_HEADER[name])
            front.note(*_snapshot_remarks(name, header[name], cut.data))
    size = snapshot.ENTRY.itemsize
    for number in range(header.get("count", 0)):
        if cut.left < size:
            break
        with cut.part(f"producer {number}", cut.position + size) as producer:
            producer.layout(snapshot.ENTRY, SNAPSHOT_NOTES)
    cut.rest(UNEXPLAINED, note="after the last producer")


def _snapshot_remarks(name: str, value: int, data: bytes) -> tuple[str, str]:
    if name == "version":
        return "", "" if value == snapshot.VERSION else f"expected {snapshot.VERSION}"
    if name == "crc":
        computed = int(crc32c(data[snapshot.CRC_START :]))
        covers = f"CRC-32C of bytes {snapshot.CRC_START} to {len(data) - 1}"
        return (f"{covers}: matches", "") if value == computed else (covers, f"does not match: the bytes give 0x{computed:08x}")
    room = (len(data) - snapshot.HEADER_SIZE) // snapshot.ENTRY.itemsize
    return "producers", "" if 0 <= value <= room else f"expected at most {room}, for which there are bytes"


# Text files


def _cut_checkpoint(columns: Sequence[str]) -> Callable[[Cutter], None]:
    """A checkpoint whose lines have these columns."""

    def cut_lines(cut: Cutter) -> None:
        number = 0
        while cut.left:
            line = _line(cut)
            if number < 2:
                cut.take(("version", "count")[number], len(line), "text", _number_or_text(line))
                cut.note("of this file's format" if number == 0 else "lines that follow")
            else:
                with cut.part(f"line {number + 1}", cut.position + len(line)) as entry:
                    _cut_tokens(entry, columns)
            number += 1

    return cut_lines


def _cut_tokens(entry: Cutter, columns: Sequence[str]) -> None:
    for name in columns:
        token = _TOKEN.match(entry.data, entry.position, entry.stop)
        if token is None:
            raise CorruptBatch("file-format", expected=name, found="nothing")
        entry.take(name, len(token[0]), "text", _number_or_text(token[0]))
    if entry.left:
        raise CorruptBatch("file-format", expected=f"{len(columns)} fields", found="more")


def _cut_partition_metadata(cut: Cutter) -> None:
    while cut.left:
        line = _line(cut)
        name, colon, value = line.partition(b":")
        if not colon:
            raise CorruptBatch("file-format", expected="a name, a colon and a value")
        cut.take(_text(name), len(line), "text", _number_or_text(value))


def _cut_properties(cut: Cutter) -> None:
    while cut.left:
        line = _line(cut)
        text = _text(line).strip()
        if not text or text[0] in "#!":
            cut.take("comment", len(line), "text", text)
            continue
        while _ends_in_backslash(line) and cut.position + len(line) < cut.stop:
            line += _line(cut, len(line))
        (name, value), *_ = checkpoint.decode_properties(line).items()
        cut.take(name, len(line), "text", value)


def _ends_in_backslash(line: bytes) -> bool:
    text = line.rstrip(b"\r\n")
    return (len(text) - len(text.rstrip(b"\\"))) % 2 == 1


def _cut_json(cut: Cutter) -> None:
    """The pairs of a JSON object; brackets and commas belong to the pair before or after them."""
    text = cut.data.decode()
    decoder = json.JSONDecoder()
    position = 0
    while name := _JSON_NAME.match(text, position):
        value, position = decoder.raw_decode(text, name.end())
        end = _JSON_END.match(text, position)
        position = end.end() if end else position
        size = len(text[:position].encode()) - cut.position
        cut.take(name[1], size, "text", value if isinstance(value, int | str) else json.dumps(value))


def _line(cut: Cutter, skip: int = 0) -> bytes:
    found = _LINE.match(cut.data, cut.position + skip, cut.stop)
    assert found is not None
    return found[0]


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


def _number_or_text(data: bytes) -> int | str:
    text = _text(data).strip()
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,32}", text, re.ASCII) else text


# Every file that is neither a log nor an index: how it is cut, and the decoder that validates it.
_Decode = Callable[[bytes], Any]
SIDE_FILES: Final[dict[str, tuple[Callable[[Cutter], None], _Decode]]] = {
    "snapshot": (_cut_snapshot, snapshot.decode_snapshot),
    names.LEADER_EPOCH_CHECKPOINT: (_cut_checkpoint(("epoch", "start_offset")), checkpoint.decode_leader_epoch_checkpoint),
    **{
        name: (_cut_checkpoint(("topic", "partition", "offset")), checkpoint.decode_offset_checkpoint)
        for name in names.OFFSET_CHECKPOINTS
    },
    names.PARTITION_METADATA: (_cut_partition_metadata, checkpoint.decode_partition_metadata),
    names.META_PROPERTIES: (_cut_properties, checkpoint.decode_meta_properties),
    names.QUORUM_STATE: (_cut_json, checkpoint.decode_quorum_state),
    names.CLEAN_SHUTDOWN: (_cut_json, checkpoint.decode_clean_shutdown),
}


def explain_side_file(data: bytes, kind: str) -> list[Part]:
    """The fields of a small file; an error of its decoder is a problem of the whole."""
    cut, decode = SIDE_FILES[kind]

    def cut_and_check(inner: Cutter) -> None:
        try:
            decode(data)
        except UnsupportedFormat as error:
            inner.part_problem = fault(error)
        try:
            cut(inner)
        except (KafkaLogError, ValueError, RecursionError) as error:
            if isinstance(error, CorruptBatch):
                raise
            raise CorruptBatch("file-format", detail=str(error)) from None

    return [cut_whole(kind, data, cut_and_check)] if data else []
