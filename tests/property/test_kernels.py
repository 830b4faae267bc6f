"""The kernels against the reference codec: compiled, bounds-checked, and with the JIT off."""

from __future__ import annotations

import itertools
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kafkalog
from kafkalog.errors import SegmentError
from kafkalog.format import batch, message
from kafkalog.format.names import segment_file_name
from kafkalog.format.reference import Record, decode_entries, encode_batch, encode_message, encode_record, encode_wrapper
from kafkalog.format.varint import encode_varint
from kafkalog.tables.logs import Logs
from tests.property.generated_logs import GeneratedLog, damaged, logs
from tests.property.oracle import LIMITS, agrees, compress, joined_entry, kernel_outcome, reference_outcome, sealed

EXAMPLES = int(os.environ.get("KAFKALOG_KERNEL_EXAMPLES", "100"))
CHILD = "KAFKALOG_KERNEL_CHILD"

# With the JIT off NumPy warns where machine code, like Java's arithmetic, just wraps around.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

# No deadline: the first example compiles. The folder is emptied by every example that uses it.
BOUNDED = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with TemporaryDirectory() as name:
        path = Path(name) / "orders-0"
        path.mkdir()
        yield path


def _stored(folder: Path, data: bytes, base_offset: int = 0) -> Logs:
    for old in folder.iterdir():
        old.unlink()
    (folder / segment_file_name(base_offset)).write_bytes(data)
    return kafkalog.open(folder)


@BOUNDED
@given(logs(), st.none() | st.integers(64, 2000))
def test_every_log_reads_as_the_reference_reads_it(folder: Path, log: GeneratedLog, window_bytes: int | None) -> None:
    found = _stored(folder, log.data, log.base_offset)
    expected = reference_outcome(log.data)
    assert expected.reason == ""
    assert kernel_outcome(found.partitions[0], allow_disorder=False, window_bytes=window_bytes) == expected


@BOUNDED
@given(st.data(), st.none() | st.integers(64, 2000))
def test_views_show_the_same_records_and_the_same_damage(folder: Path, data: st.DataObject, window_bytes: int | None) -> None:
    log = data.draw(logs())
    for stored in (log.data, data.draw(damaged(log))):
        partition = _stored(folder, stored, log.base_offset).partitions[0]
        gathered = kernel_outcome(partition, window_bytes=window_bytes)
        assert kernel_outcome(partition, window_bytes=window_bytes, views=True) == gathered


@BOUNDED
@given(logs())
def test_every_batch_has_the_header_that_the_reference_reads(folder: Path, log: GeneratedLog) -> None:
    found = _stored(folder, log.data, log.base_offset)
    columns = ["position", "size", "magic", "crc", "last_offset", "max_timestamp_ms", "leader_epoch", "producer_id"]
    columns += ["producer_epoch", "base_sequence", "timestamp_type", "is_transactional", "is_control", "delete_horizon_ms"]
    columns += ["record_count", "last_sequence", "crc_valid"]
    rows = found.read("batches", columns).read_all().to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (
            entry.position,
            entry.size,
            entry.magic,
            entry.crc,
            entry.last_offset,
            entry.max_timestamp,
            entry.leader_epoch,
            entry.producer_id,
            entry.producer_epoch,
            entry.base_sequence,
            entry.timestamp_type,
            entry.is_transactional,
            entry.is_control,
            entry.delete_horizon_ms,
            entry.records_count,
            entry.last_sequence,
            True,
        )
        for entry in decode_entries(log.data)
    ]


@BOUNDED
@given(st.data())
def test_damaged_logs_are_refused_where_the_reference_refuses_them_and_for_the_same_reason(
    folder: Path, data: st.DataObject
) -> None:
    log = data.draw(logs())
    stored = data.draw(damaged(log))
    found = kernel_outcome(_stored(folder, stored).partitions[0])
    expected = reference_outcome(stored)
    assert agrees(stored, found, expected), (found, expected)


@BOUNDED
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_as_the_reference_refuses_them(folder: Path, stored: bytes) -> None:
    found = kernel_outcome(_stored(folder, stored).partitions[0])
    assert agrees(stored, found, reference_outcome(stored)), (found, reference_outcome(stored))


def _faults() -> Iterator[tuple[str, bytes]]:
    """(reason, an entry that has this fault and no other)."""
    records = [Record(5, 7, b"key", b"value", ((b"h", b"1"),)), Record(6, 8, None, None)]
    sound = encode_batch(records)
    front, content = sound[: batch.HEADER_SIZE], sound[batch.HEADER_SIZE :]
    yield "", sound
    yield "crc", sound[:-1] + b"\7"
    yield "torn", sound[:-1]
    yield "zero-tail", sound + bytes(100)
    yield "length", sound[:8] + struct.pack(">i", 48) + sound[12:]
    yield "length", sound[:8] + struct.pack(">i", -1) + sound[12:]
    yield "magic", sound[:16] + b"\3" + sound[17:]
    yield "magic", sound[:16] + b"\xff" + sound[17:]
    for count in (-1, 1, 3, 2**31 - 1):
        yield "count", sealed(sound[: batch.RECORDS_COUNT_POSITION] + struct.pack(">i", count) + content)
    yield "count", joined_entry(front, 0, 2, content + b"\0")
    yield "offset-range", b"\xff" * 8 + sound[8:]
    yield "offset-range", joined_entry(encode_batch(records[:1])[: batch.HEADER_SIZE], 0, 2, encode_record(-6, 0, None, None))
    yield "varint", joined_entry(front, 0, 2, b"\xff" * 6 + content)
    one = encode_batch(records[1:])[: batch.HEADER_SIZE]
    for body in (b"\0\0\0\1\1\1", b"\0\0\0\1\1\2", b"\0\0\0\1\1\2\1\1", b"\0\0\0\1\1\0\0", b"\0\0\0\x10k\1\0"):
        yield "record-structure", joined_entry(one, 0, 2, encode_varint(len(body)) + body)
    for codec, reason in ((1, "codec"), (2, "codec"), (3, "codec"), (4, "codec"), (5, "codec-unknown"), (7, "codec-unknown")):
        yield reason, sealed(sound[: batch.ATTRIBUTES_POSITION] + bytes([0, codec]) + sound[batch.ATTRIBUTES_POSITION + 2 :])
    yield from _faults_of_sets()


def _faults_of_sets() -> Iterator[tuple[str, bytes]]:
    messages = [encode_message(Record(offset, 7, b"key", b"value"), magic=1) for offset in range(3)]
    front = encode_wrapper([Record(7, 7, None, None)], codec=1, compress=compress)[: message.KEY_LENGTH_POSITION_V1 + 8]
    first, last = messages[0], messages[2]
    for reason, content in (
        ("", b"".join(messages)),
        ("", first + last[:-1]),
        ("count", b""),
        ("count", first[:-1]),
        ("inner-crc", first + last[:-1] + b"?"),
        ("length", first + last[:8] + struct.pack(">i", 13) + last[12:]),
        ("magic", first + sealed(last[:16] + b"\2" + last[17:])),
        ("nested", encode_message(Record(0, 7, None, b""), codec=1) + last),
        ("offset-range", first + b"\xff" * 8 + last[8:]),
        ("offset-range", encode_message(Record(8, 7, None, b""))),
        ("record-structure", sealed(first[:26] + struct.pack(">i", 100) + first[30:])),
    ):
        yield reason, joined_entry(front, 1, 1, content)
    yield "codec", sealed(encode_message(Record(7, 7, None, b"no gzip"), codec=1))
    yield "codec-unknown", encode_message(Record(7, 7, None, b"zstd came later"), codec=4)
    yield "record-structure", encode_message(Record(7, 7, b"key", None), codec=1)


@pytest.mark.parametrize("number", range(len(list(_faults()))))
def test_each_fault_has_the_reason_that_the_reference_gives_it(folder: Path, number: int) -> None:
    reason, stored = list(_faults())[number]
    expected = reference_outcome(stored)
    assert expected.reason == reason
    assert kernel_outcome(_stored(folder, stored).partitions[0]) == expected


def _overlong(size: int, bits: int, last: int) -> bytes:
    """A variable-length integer of `size` bytes, all but the last one with the bit that says: there is more."""
    return bytes([0x80 | bits] * (size - 1) + [last])


@pytest.mark.parametrize("field", ["length", "timestamp", "offset", "key", "value", "headers", "header key", "header value"])
def test_variable_length_integers_of_every_size_are_taken_or_refused_as_by_the_reference(folder: Path, field: str) -> None:
    for size, bits, last in itertools.product(range(1, 13), (0, 1, 0x7F), (0, 1, 2, 0x0F, 0x10, 0x7F)):
        integers = {"timestamp": b"\0", "offset": b"\0", "key": b"\0", "value": b"\0", "headers": b"\0"}
        if field.startswith("header "):
            integers |= {"headers": b"\2", "header key": b"\0", "header value": b"\0"}
        integers[field] = _overlong(size, bits, last)
        body = b"\0" + b"".join(integers[name] for name in integers if name != "length")
        record = integers.get("length", encode_varint(len(body))) + body
        front = encode_batch([Record(5, 7, None, None)])[: batch.HEADER_SIZE]
        stored = joined_entry(front, 0, 2, record)
        found, expected = kernel_outcome(_stored(folder, stored).partitions[0]), reference_outcome(stored)
        assert agrees(stored, found, expected), (field, size, bits, last, found, expected)


@BOUNDED
@given(st.data(), st.sampled_from(["strict", "skip", "salvage"]), st.booleans(), st.booleans())
def test_no_damage_raises_anything_but_our_own_errors_in_any_mode(
    folder: Path, data: st.DataObject, mode: str, neighbours: bool, committed: bool
) -> None:
    log = data.draw(logs())
    stored = data.draw(damaged(log) | st.binary(max_size=300))
    found = _stored(folder, stored, min(log.base_offset, 2**62))
    for table in ("records", "batches", "segments", "transactions", "producers", "epochs"):
        isolation = "read_committed" if committed else "read_uncommitted"
        choices: dict[str, Any] = {"on_damage": mode, "neighbours": neighbours, "isolation": isolation}
        try:
            rows = found.read(table, limits=LIMITS, threads=1, **choices).read_all()
        except SegmentError as error:
            assert mode == "strict" or table not in ("records", "batches"), error
        else:
            rows.validate(full=True)


@BOUNDED
@given(st.data())
def test_skipping_keeps_every_entry_that_the_reference_accepts_up_to_lost_framing(folder: Path, data: st.DataObject) -> None:
    """With entries whose lengths are right, damage costs the entry that has it and no other."""
    log = data.draw(logs())
    hurt = data.draw(st.sets(st.integers(0, len(log.entries) - 1)))
    entries = [
        stored[:-1] + bytes([stored[-1] ^ 0xFF]) if number in hurt else stored for number, stored in enumerate(log.entries)
    ]
    found = _stored(folder, b"".join(entries), log.base_offset)
    kept = b"".join(stored for number, stored in enumerate(entries) if number not in hurt)
    rows = found.read("records", ["offset", "value"], on_damage="skip", include_control=True, threads=1).read_all().to_pylist()
    assert [tuple(row.values()) for row in rows] == [(row[0], row[3]) for row in reference_outcome(kept).rows]
    assert len(found.report.dropped) == len(hurt)


MODES = {
    "bounds-checked": {"NUMBA_BOUNDSCHECK": "1", "KAFKALOG_KERNEL_EXAMPLES": str(EXAMPLES)},
    "jit-off": {"NUMBA_DISABLE_JIT": "1", "KAFKALOG_KERNEL_EXAMPLES": str(max(EXAMPLES // 4, 1))},
}


@pytest.mark.slow
@pytest.mark.skipif(CHILD in os.environ, reason="this is such a child")
@pytest.mark.parametrize("mode", MODES)
def test_the_kernels_agree_with_the_reference_in_every_mode(mode: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", __file__]
    done = subprocess.run(
        command,
        env={**os.environ, **MODES[mode], CHILD: mode, "PYTEST_ADDOPTS": ""},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
