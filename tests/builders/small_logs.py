"""Small log directories made with the reference encoders, for the tests of the reading API."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import kafkalog
from kafkalog import codecs
from kafkalog.format.control import EndTxnMarker, encode_end_txn_marker
from kafkalog.format.names import segment_file_name
from kafkalog.format.reference import Headers, Record, encode_batch, encode_control_batch
from kafkalog.tables.logs import Logs

FIRST_TIME = 1_700_000_000_000


def compress(codec: int, data: bytes, magic: int) -> bytes:
    return codecs.compress(codec, data, magic=magic)


def made_records(first_offset: int, count: int, *, headers: Headers = (), step: int = 1) -> list[Record]:
    """Records whose key, value and timestamp follow from their offset."""
    offsets = range(first_offset, first_offset + count * step, step)
    return [Record(offset, FIRST_TIME + offset, b"key-%d" % offset, b"value-%d" % offset, headers) for offset in offsets]


def made_batch(first_offset: int, count: int = 10, **fields: Any) -> bytes:
    return encode_batch(made_records(first_offset, count), compress=compress, **fields)


def transactional_batch(first_offset: int, count: int, producer_id: int, base_sequence: int = 0) -> bytes:
    return made_batch(
        first_offset, count, transactional=True, producer_id=producer_id, producer_epoch=0, base_sequence=base_sequence
    )


def marker(offset: int, producer_id: int, *, commit: bool, coordinator_epoch: int = 0) -> bytes:
    key, value = encode_end_txn_marker(EndTxnMarker(commit, coordinator_epoch))
    time = FIRST_TIME + offset
    return encode_control_batch(key, value, offset=offset, timestamp=time, producer_id=producer_id, producer_epoch=0)


def write_segment(folder: Path, base_offset: int, *entries: bytes, indexed: Iterable[int] = ()) -> Path:
    """A segment file of these entries; with `indexed`, a .index of the entries of these numbers, as v2 batches say it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / segment_file_name(base_offset)
    path.write_bytes(b"".join(entries))
    index = b""
    for number in indexed:
        offset = int.from_bytes(entries[number][:8], "big")
        index += struct.pack(">ii", offset - base_offset, sum(map(len, entries[:number])))
    if index:
        path.with_suffix(".index").write_bytes(index)
    return path


def read_rows(logs: Logs | str | Path, table: str = "records", columns: list[str] | None = None, **choices: Any) -> list[Any]:
    """The rows of a table as dicts, or as plain values where only one column is asked for."""
    opened = logs if isinstance(logs, Logs) else kafkalog.open(logs)
    found = opened.read(table, columns, **choices).read_all().to_pylist()
    return [row[columns[0]] for row in found] if columns is not None and len(columns) == 1 else found


def read_offsets(logs: Logs | str | Path, **choices: Any) -> list[int]:
    return read_rows(logs, "records", ["offset"], **choices)


# The offsets that `write_half_swapped` leaves.
LEFT_BY_COMPACTION = [*range(10, 20), *range(30, 60)]


def write_half_swapped(folder: Path) -> Path:
    """A broker died when it had put the first two of three segments together: one of them is on its way out, one is not yet."""
    for base in (0, 20, 40):
        write_segment(folder, base, made_batch(base, leader_epoch=base), made_batch(base + 10, leader_epoch=base))
    produced = made_batch(30, leader_epoch=20, producer_id=7, producer_epoch=0, base_sequence=0)
    (folder / f"{0:020d}.log.swap").write_bytes(made_batch(10, leader_epoch=0) + produced)
    (folder / f"{0:020d}.log").rename(folder / f"{0:020d}.log.deleted")
    (folder / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n20 20\n40 40\n")
    return folder
