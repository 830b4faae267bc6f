"""Batches, messages and markers built from records: times, limits, what each format refuses, the delete horizon."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalog.engine.building import RecordsBuilder, end_transaction_marker
from kafkalog.engine.entries import Batch, iter_entries
from kafkalog.errors import InvalidArgument
from kafkalog.format import reference
from kafkalog.format.batch import CREATE_TIME, HEADER_SIZE, LOG_APPEND_TIME_TYPE, NO_TIMESTAMP_TYPE
from kafkalog.format.control import EndTxnMarker, decode_end_txn_marker
from tests.engine.scenarios.payloads import GZIP, LZ4, SNAPPY, ZSTD
from tests.engine.scenarios.script import START_MS

FORMATS = [(magic, codec) for magic in (0, 1, 2) for codec in (0, GZIP, SNAPPY, LZ4, ZSTD) if magic == 2 or codec != ZSTD]
TIMES = (START_MS, START_MS + 2, START_MS + 1)


def build(magic: int = 2, codec: int = 0, *, times: tuple[int, ...] = TIMES, first: int = 0, **fields: Any) -> bytes:
    if magic == 0:
        fields.setdefault("timestamp_type", NO_TIMESTAMP_TYPE)
    builder = RecordsBuilder(first, magic=magic, codec=codec, **fields)
    for offset, time in enumerate(times, first):
        builder.append(offset, time, b"key", b"value %d" % offset)
    return builder.build()


def read(data: bytes) -> list[tuple[int, int]]:
    return [(record.offset, record.timestamp) for entry in iter_entries(data) for record in entry]


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_no_records_give_no_bytes(magic: int, codec: int) -> None:
    assert build(magic, codec, times=()) == b""


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_records_come_back_with_their_own_times(magic: int, codec: int) -> None:
    data = build(magic, codec, first=7)
    expected = [(offset, time if magic else -1) for offset, time in enumerate(TIMES, 7)]
    assert read(data) == expected
    entries = list(iter_entries(data))
    assert len(entries) == (1 if codec or magic == 2 else 3)
    assert all(entry.is_valid and entry.timestamp_type == (CREATE_TIME if magic else NO_TIMESTAMP_TYPE) for entry in entries)
    assert max(entry.max_timestamp for entry in entries) == (START_MS + 2 if magic else -1)


@pytest.mark.parametrize(("magic", "codec"), [each for each in FORMATS if each[0]])
def test_records_get_the_append_time(magic: int, codec: int) -> None:
    data = build(magic, codec, timestamp_type=LOG_APPEND_TIME_TYPE, log_append_time=START_MS + 50)
    assert {time for _, time in read(data)} == {START_MS + 50}
    assert {entry.max_timestamp for entry in iter_entries(data)} == {START_MS + 50}


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_bytes_are_those_of_the_reference_codec(magic: int, codec: int) -> None:
    from kafkalog import codecs

    def compress(number: int, content: bytes, of_magic: int) -> bytes:
        return codecs.compress(number, content, magic=of_magic)

    records = [reference.Record(offset, time, b"key", b"value %d" % offset) for offset, time in enumerate(TIMES, 3)]
    if magic == 2:
        expected = reference.encode_batch(records, codec=codec, compress=compress)
    elif codec:
        expected = reference.encode_wrapper(records, codec=codec, compress=compress, magic=magic)
    else:
        expected = b"".join(reference.encode_message(record, magic=magic) for record in records)
    assert build(magic, codec, first=3) == expected


@pytest.mark.parametrize("codec", [0, GZIP, ZSTD])
def test_a_transactional_batch_keeps_its_producer(codec: int) -> None:
    data = build(2, codec, producer_id=9809, producer_epoch=15, base_sequence=2342, is_transactional=True)
    (entry,) = iter_entries(data)
    assert (entry.producer_id, entry.producer_epoch, entry.base_sequence, entry.is_transactional) == (9809, 15, 2342, True)


@pytest.mark.parametrize(
    ("magic", "fields"),
    [
        (2, {"is_transactional": True}),
        (2, {"is_transactional": True, "producer_id": -1, "producer_epoch": 15, "base_sequence": 3}),
        (2, {"producer_id": 9809, "base_sequence": 3}),
        (2, {"producer_id": 9809, "producer_epoch": 15}),
        (1, {"is_transactional": True, "producer_id": 9809, "producer_epoch": 15, "base_sequence": 3}),
        (1, {"producer_id": 9809, "producer_epoch": 15, "base_sequence": 3}),
        (0, {"producer_id": 9809, "producer_epoch": 15, "base_sequence": 3}),
        (1, {"is_control_batch": True}),
        (1, {"codec": ZSTD}),
        (0, {"codec": ZSTD}),
        (1, {"delete_horizon_ms": START_MS}),
        (1, {"timestamp_type": NO_TIMESTAMP_TYPE}),
        (2, {"timestamp_type": NO_TIMESTAMP_TYPE}),
    ],
)
def test_what_a_format_does_not_have_is_refused(magic: int, fields: dict[str, Any]) -> None:
    codec = fields.pop("codec", 0)
    with pytest.raises(InvalidArgument):
        build(magic, codec, **fields)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_have_no_headers(magic: int) -> None:
    builder = RecordsBuilder(0, magic=magic, timestamp_type=CREATE_TIME if magic else NO_TIMESTAMP_TYPE)
    with pytest.raises(InvalidArgument):
        builder.append(0, START_MS, b"k", b"v", ((b"name", b"value"),))


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
@pytest.mark.parametrize("offset", [5, 4])
def test_offsets_have_to_rise(magic: int, codec: int, offset: int) -> None:
    builder = RecordsBuilder(0, magic=magic, codec=codec, timestamp_type=CREATE_TIME if magic else NO_TIMESTAMP_TYPE)
    builder.append(5, START_MS, None, b"v")
    with pytest.raises(InvalidArgument):
        builder.append(offset, START_MS, None, b"v")


@pytest.mark.parametrize(("offset", "time"), [(0, -2), (1 << 31, START_MS)])
def test_impossible_times_and_far_offsets_are_refused(offset: int, time: int) -> None:
    with pytest.raises(InvalidArgument):
        RecordsBuilder(0).append(offset, time, None, b"v")


def test_gaps_and_a_later_last_offset_stay() -> None:
    builder = RecordsBuilder(10)
    builder.append(12, START_MS, None, b"v")
    builder.append(15, START_MS, None, b"v")
    builder.override_last_offset(19)
    (entry,) = iter_entries(builder.build())
    assert (entry.base_offset, entry.last_offset, [record.offset for record in entry]) == (10, 19, [12, 15])


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_is_a_control_batch_of_its_producer(commit: bool) -> None:
    data = end_transaction_marker(4, 17, EndTxnMarker(commit, 2), timestamp=START_MS, offset=0, partition_leader_epoch=8)
    (entry,) = iter_entries(data)
    assert isinstance(entry, Batch)
    assert (entry.is_control_batch, entry.is_transactional, entry.producer_id, entry.producer_epoch) == (True, True, 4, 17)
    assert (entry.base_sequence, entry.partition_leader_epoch, entry.size) == (-1, 8, HEADER_SIZE + 17)
    (record,) = entry
    assert decode_end_txn_marker(record.key, record.value) == EndTxnMarker(commit, 2)


def test_a_marker_needs_a_producer() -> None:
    with pytest.raises(InvalidArgument):
        end_transaction_marker(-1, 0, EndTxnMarker(True, 0), timestamp=START_MS)


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    data = build(delete_horizon_ms=100, times=(100, 101, 104))
    (entry,) = iter_entries(data)
    assert (entry.delete_horizon_ms, [time for _, time in read(data)]) == (100, [100, 101, 104])
    (without,) = iter_entries(build(times=(100, 101, 104)))
    assert without.delete_horizon_ms is None


def test_headers_that_are_null_or_empty_stay_apart() -> None:
    builder = RecordsBuilder(0)
    headers = ((b"a", None), (b"a", b""), (b"", b"x"))
    builder.append(0, START_MS, b"", None, headers)
    (record,) = next(iter_entries(builder.build()))
    assert (record.key, record.value, record.headers) == (b"", None, headers)
