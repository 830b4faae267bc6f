"""v2 batches in the reference codec: exact bytes, worked numbers, and the bytes it accepts and refuses."""

from __future__ import annotations

import struct
from typing import Any

import crc32c
import pytest

from kafkalog.errors import CodecError, CorruptBatch, LimitExceeded, OutputFull, TornTail, UsageError
from kafkalog.format import batch
from kafkalog.format.control import EndTxnMarker, decode_end_txn_marker, encode_end_txn_marker
from kafkalog.format.java import MAX_INT64
from kafkalog.format.names import MAX_OFFSET
from kafkalog.format.reference import (
    Entry,
    Record,
    decode_entries,
    decode_records,
    encode_batch,
    encode_control_batch,
    encode_empty_batch,
    encode_record,
)

ONE_RECORD = bytes.fromhex(
    "00000000000000050000003d00000000025786924900000000000000000000000003e800000000000003e8"
    "ffffffffffffffffffffffffffff0000000116000000026b027602026801"
)
COMMIT = bytes.fromhex(
    "00000000000000070000004200000000022601e99600300000000000000000000003e800000000000003e8"
    "00000000000000090001ffffffff000000012000000008000000010c00000000000300"
)
ABORT = bytes.fromhex(
    "0000000000000007000000420000000002d23f3fde00300000000000000000000003e800000000000003e8"
    "00000000000000090001ffffffff000000012000000008000000000c00000000000300"
)
EMPTY = bytes.fromhex(
    "000000000000000a000000310000000002e818ccf3000000000004ffffffffffffffff00000000000003e8000000000000000900010000001400000000"
)
HORIZON = bytes.fromhex(
    "00000000000000050000003b0000000002fd7486e500400000000000000000000186a000000000000003e8"
    "ffffffffffffffffffffffffffff000000011200ef8a0c00026b0100"
)


def _one(data: bytes) -> Entry:
    (entry,) = decode_entries(data)
    return entry


def _signed(stored: bytes | bytearray) -> bytes:
    """The batch with its length and checksum made right."""
    data = bytearray(stored)
    struct.pack_into(">i", data, batch.BATCH_LENGTH_POSITION, len(data) - batch.LOG_OVERHEAD)
    struct.pack_into(">I", data, batch.CRC_POSITION, crc32c.crc32c(bytes(data[batch.CRC_START :])))
    return bytes(data)


def _with(stored: bytes, layout: str, position: int, value: int) -> bytes:
    data = bytearray(stored)
    struct.pack_into(layout, data, position, value)
    return _signed(data)


def _of_records(*records: bytes, count: int | None = None) -> bytes:
    """A batch with right length and checksum that holds these records, whatever they are."""
    stored = encode_batch([Record(100, 1000, None, None)])[: batch.HEADER_SIZE] + b"".join(records)
    return _with(stored, ">i", batch.RECORDS_COUNT_POSITION, len(records) if count is None else count)


def _refused(data: bytes, **arguments: Any) -> str:
    with pytest.raises(CorruptBatch) as error:
        decode_records(_one(data), **arguments)
    assert (error.value.position, error.value.length) == (0, len(data))
    return error.value.reason


def test_a_batch_of_one_small_record_has_76_bytes() -> None:
    stored = encode_batch([Record(0, 1000, b"key", b"hello")])
    assert len(stored) == 76 == batch.HEADER_SIZE + 15


def test_the_hundredth_record_of_a_batch_has_14_bytes() -> None:
    assert len(encode_record(99, 100, None, b"hello")) == 14


def test_the_smallest_sizes() -> None:
    assert len(encode_record(0, 0, None, None)) == batch.MIN_RECORD_SIZE == 7
    assert len(encode_batch([Record(0, 0, None, None)])) == 68
    assert len(EMPTY) == 61
    assert len(COMMIT) == len(ABORT) == 78


def test_a_batch_with_a_header_has_the_known_bytes() -> None:
    record = Record(5, 1000, b"k", b"v", ((b"h", None),))
    assert encode_batch([record], leader_epoch=0) == ONE_RECORD
    entry = _one(ONE_RECORD)
    assert (entry.base_offset, entry.last_offset, entry.leader_epoch, entry.records_count) == (5, 5, 0, 1)
    assert decode_records(entry) == [record]


@pytest.mark.parametrize(("stored", "commit"), [(COMMIT, True), (ABORT, False)])
def test_transaction_markers_have_the_known_bytes(stored: bytes, commit: bool) -> None:
    key, value = encode_end_txn_marker(EndTxnMarker(commit, coordinator_epoch=3))
    encoded = encode_control_batch(key, value, offset=7, timestamp=1000, leader_epoch=0, producer_id=9, producer_epoch=1)
    assert encoded == stored
    entry = _one(stored)
    assert entry.is_control
    assert entry.is_transactional
    assert (entry.producer_id, entry.producer_epoch, entry.base_sequence, entry.last_sequence) == (9, 1, -1, -1)
    (record,) = decode_records(entry)
    assert decode_end_txn_marker(record.key, record.value) == EndTxnMarker(commit, 3)


def test_a_marker_on_a_log_append_time_topic_has_attributes_0x38() -> None:
    key, value = encode_end_txn_marker(EndTxnMarker(True, 0))
    stored = encode_control_batch(key, value, offset=7, timestamp=1, log_append_time=5, producer_id=9, producer_epoch=1)
    assert _one(stored).attributes == 0x38


def test_an_emptied_batch_has_the_known_bytes_and_keeps_its_offsets_and_sequences() -> None:
    encoded = encode_empty_batch(
        base_offset=10, last_offset=14, max_timestamp=1000, leader_epoch=0, producer_id=9, producer_epoch=1, base_sequence=20
    )
    assert encoded == EMPTY
    entry = _one(EMPTY)
    assert (entry.base_offset, entry.last_offset, entry.base_sequence, entry.last_sequence) == (10, 14, 20, 24)
    assert (entry.base_timestamp, entry.max_timestamp, entry.delete_horizon_ms) == (-1, 1000, None)
    assert decode_records(entry) == []


def test_a_delete_horizon_is_the_base_timestamp_and_the_records_keep_their_own() -> None:
    record = Record(5, 1000, b"k", None)
    assert encode_batch([record], leader_epoch=0, delete_horizon_ms=100000) == HORIZON
    entry = _one(HORIZON)
    assert entry.delete_horizon_ms == 100000
    assert decode_records(entry) == [record]


def test_after_compaction_offsets_and_sequences_come_from_the_deltas() -> None:
    kept = [Record(101, 1000, b"a", b"1"), Record(103, 1001, b"b", b"2")]
    stored = encode_batch(kept, base_offset=100, last_offset=104, producer_id=1, producer_epoch=0, base_sequence=50)
    entry = _one(stored)
    records = decode_records(entry)
    assert [record.offset for record in records] == [101, 103]
    assert [record.sequence for record in records] == [51, 53]
    assert (entry.last_sequence, entry.last_offset + 1) == (54, 105)


def test_sequences_wrap_inside_a_batch() -> None:
    records = [Record(offset, 0, None, None) for offset in range(3)]
    entry = _one(encode_batch(records, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2))
    assert [record.sequence for record in decode_records(entry)] == [2**31 - 2, 2**31 - 1, 0]
    assert entry.last_sequence == 0


def test_with_log_append_time_every_record_has_the_batchs_timestamp() -> None:
    entry = _one(encode_batch([Record(0, 10, None, None), Record(1, 20, None, None)], log_append_time=777))
    assert entry.base_timestamp == 10
    assert [(record.timestamp, record.timestamp_type) for record in decode_records(entry)] == [(777, 1), (777, 1)]


def test_null_and_empty_stay_apart() -> None:
    records = [
        Record(0, 0, None, b""),
        Record(1, 0, b"", None),
        Record(2, 0, b"", b"", ((b"", b""), (b"", None), (b"same", b"1"), (b"same", b"2"))),
    ]
    assert decode_records(_one(encode_batch(records))) == records


def test_any_negative_length_is_null() -> None:
    record = bytes.fromhex("0c 00 00 00 03 05 00")  # key length -2, value length -3
    assert decode_records(_one(_of_records(record))) == [Record(100, 1000, None, None)]


def test_timestamps_may_fall_and_wrap_as_in_java() -> None:
    assert [
        record.timestamp for record in decode_records(_one(encode_batch([Record(0, 9, None, None), Record(1, 3, None, None)])))
    ] == [9, 3]
    stored = _with(encode_batch([Record(0, 9, None, None)]), ">q", batch.BASE_TIMESTAMP_POSITION, 2**63 - 1)
    wrapped = _signed(stored[: batch.HEADER_SIZE] + encode_record(0, 1, None, None))
    assert decode_records(_one(wrapped))[0].timestamp == -(2**63)


def test_unused_attribute_bits_mean_nothing() -> None:
    entry = _one(_with(ONE_RECORD, ">h", batch.ATTRIBUTES_POSITION, 0x5500))
    assert (entry.codec, entry.is_control, entry.timestamp_type) == (0, False, 0)
    assert len(decode_records(entry)) == 1


def test_compressed_records_go_through_the_function_given() -> None:
    records = [Record(3, 1, b"k", b"v"), Record(4, 1, None, b"w")]
    stored = encode_batch(records, codec=4, compress=lambda codec, data, magic: bytes([codec, magic]) + data[::-1])
    entry = _one(stored)
    assert (entry.codec, entry.records_count) == (4, 2)
    assert stored[batch.HEADER_SIZE : batch.HEADER_SIZE + 2] == b"\4\2"
    assert decode_records(entry, lambda codec, data, magic: data[:1:-1]) == records
    with pytest.raises(UsageError):
        decode_records(entry)


def test_an_error_of_a_codec_becomes_an_error_of_the_batch() -> None:
    entry = _one(encode_batch([Record(3, 1, None, None)], codec=1, compress=lambda codec, data, magic: data))

    def bad(codec: int, data: bytes, magic: int) -> bytes:
        raise CodecError("not gzip")

    def full(codec: int, data: bytes, magic: int) -> bytes:
        raise OutputFull

    with pytest.raises(CorruptBatch) as damage:
        decode_records(entry, bad)
    assert (damage.value.reason, damage.value.position, damage.value.base_offset) == ("codec", 0, 3)
    with pytest.raises(LimitExceeded) as limit:
        decode_records(entry, full)
    assert limit.value.reason == "decompressed-limit"


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_refused(codec: int) -> None:
    assert _refused(_with(ONE_RECORD, ">h", batch.ATTRIBUTES_POSITION, codec)) == "codec-unknown"


@pytest.mark.parametrize("count", [-1, 2, 3, 100, 2**31 - 1, -(2**31)])
def test_a_count_that_does_not_match_the_records_is_refused(count: int) -> None:
    assert _refused(_with(ONE_RECORD, ">i", batch.RECORDS_COUNT_POSITION, count)) == "count"


def test_a_count_one_too_high_or_too_low_is_refused() -> None:
    record = encode_record(0, 0, b"0123456789", b"0123456789")
    assert _refused(_of_records(record, record, count=3)) == "count"
    assert _refused(_of_records(record, record, count=1)) == "count"


def test_a_batch_that_says_it_is_empty_is_not_looked_into() -> None:
    assert decode_records(_one(_of_records(b"whatever", count=0))) == []


def test_offset_deltas_are_taken_as_they_are() -> None:
    records = [encode_record(delta, 0, None, None) for delta in (0, 5, 2, 2)]
    assert [record.offset for record in decode_records(_one(_of_records(*records)))] == [100, 105, 102, 102]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("0d0000000101000000", "record-structure"),  # negative length
        ("00" * 7, "record-structure"),  # length 0
        ("0e000000010100", "record-structure"),  # length beyond the batch
        ("0e00000001010000", "record-structure"),  # a byte left over
        ("0c00000001010000", "count"),  # a byte after the only record
        ("0c000000010101", "record-structure"),  # headers count -1
        ("0c000000010102", "record-structure"),  # a header that is not there
        ("100000000101020101", "record-structure"),  # header key null
        ("0c000000020101", "record-structure"),  # key takes a byte, nothing is left for the headers
        ("0c000000640100", "record-structure"),  # key beyond the record
        ("0c000000016400", "record-structure"),  # value beyond the record
        ("ffffffffff01000000", "varint"),  # length of six bytes
        ("0e000000046b6b80", "record-structure"),  # the record ends inside the value length
        ("2600ffffffffffffffffffff01000001010000000000", "varint"),  # timestamp delta of eleven bytes
        ("1a00008080808080000101000000", "varint"),  # offset delta of six bytes
    ],
)
def test_a_malformed_record_is_refused_though_the_checksum_is_right(record: str, reason: str) -> None:
    assert _refused(_of_records(bytes.fromhex(record))) == reason


@pytest.mark.parametrize(
    ("base_offset", "delta", "fits"),
    [(MAX_OFFSET - 1, 1, True), (MAX_OFFSET, 0, True), (MAX_OFFSET, 1, False), (0, -1, False), (1, -1, True)],
)
def test_a_record_offset_out_of_range_is_refused(base_offset: int, delta: int, fits: bool) -> None:
    stored = _with(_of_records(encode_record(delta, 0, None, None)), ">q", batch.BASE_OFFSET_POSITION, base_offset)
    if fits:
        assert decode_records(_one(stored))[0].offset == base_offset + delta
    else:
        assert _refused(stored) == "offset-range"


@pytest.mark.parametrize(("base_offset", "delta"), [(-1, 0), (-(2**63), 0), (MAX_OFFSET, 1), (0, -1)])
def test_a_batch_offset_out_of_range_is_refused(base_offset: int, delta: int) -> None:
    stored = _with(_with(ONE_RECORD, ">q", 0, base_offset), ">i", batch.LAST_OFFSET_DELTA_POSITION, delta)
    with pytest.raises(CorruptBatch) as error:
        _one(stored)
    assert error.value.reason == "offset-range"


def test_the_checksum_covers_everything_from_the_attributes_on() -> None:
    for position in range(len(ONE_RECORD)):
        damaged = bytearray(ONE_RECORD)
        damaged[position] ^= 0x01
        found = _reason_of(bytes(damaged))
        if position >= batch.CRC_POSITION:
            assert found == "crc"
        elif position < 8 or 12 <= position < 16:
            assert found == ""  # offset and leader epoch: outside, so that a broker can assign them


def _reason_of(data: bytes) -> str:
    try:
        list(decode_entries(data))
    except (CorruptBatch, TornTail) as error:
        return error.reason
    return ""


def test_the_checksum_is_not_checked_unless_asked_for() -> None:
    damaged = ONE_RECORD[:-1] + b"\x03"
    assert len(list(decode_entries(damaged, verify_crc=False))) == 1


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13])
def test_a_length_below_14_is_damage_for_every_magic(length: int) -> None:
    stored = bytearray(ONE_RECORD)
    struct.pack_into(">i", stored, batch.BATCH_LENGTH_POSITION, length)
    assert _reason_of(bytes(stored)) == "length"


@pytest.mark.parametrize("length", [14, 48])
def test_a_length_below_49_is_damage_for_a_batch(length: int) -> None:
    stored = bytearray(ONE_RECORD)
    struct.pack_into(">i", stored, batch.BATCH_LENGTH_POSITION, length)
    assert _reason_of(bytes(stored)) == "length"


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_a_magic_of_no_format_is_damage(magic: int) -> None:
    stored = bytearray(ONE_RECORD)
    stored[batch.MAGIC_POSITION] = magic
    assert _reason_of(bytes(stored)) == "magic"


@pytest.mark.parametrize("size", range(1, len(ONE_RECORD)))
def test_data_that_ends_inside_a_batch_is_torn_there_and_the_batches_before_are_kept(size: int) -> None:
    entries = decode_entries(COMMIT + ONE_RECORD[:size])
    assert next(entries).data == COMMIT
    with pytest.raises(TornTail) as error:
        next(entries)
    assert (error.value.position, error.value.length, error.value.at_tail) == (len(COMMIT), size, True)
    assert error.value.reason == ("torn" if size >= 8 else "zero-tail")  # the offset begins with zeros


@pytest.mark.parametrize("size", [1, 11, 12, 16, 17, 100])
def test_zeros_after_the_last_batch_are_a_zero_tail(size: int) -> None:
    entries = decode_entries(COMMIT + bytes(size))
    next(entries)
    with pytest.raises(TornTail) as error:
        next(entries)
    assert (error.value.reason, error.value.position) == ("zero-tail", len(COMMIT))


def test_a_zeroed_front_before_other_bytes_is_damage_not_a_tail() -> None:
    assert _reason_of(bytes(17) + ONE_RECORD[17:]) == "length"


@pytest.mark.parametrize(
    "arguments",
    [
        {"transactional": True},
        {"producer_id": 1, "producer_epoch": -1, "base_sequence": 0},
        {"producer_id": 1, "producer_epoch": 0},
        {"base_offset": 6},
        {"base_offset": -1},
        {"last_offset": 4},
        {"last_offset": 5 + 2**31},
        {"codec": 1},
        {"leader_epoch": 2**31},
    ],
)
def test_what_kafkas_writer_refuses_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        encode_batch([Record(5, 1000, b"k", b"v")], **arguments)


@pytest.mark.parametrize(
    "records", [[Record(5, 0, None, None), Record(5, 0, None, None)], [Record(5, -2, None, None)], [Record(-1, 0, None, None)]]
)
def test_offsets_that_do_not_rise_and_impossible_times_are_not_written(records: list[Record]) -> None:
    with pytest.raises(UsageError):
        encode_batch(records)


def test_no_records_make_no_batch() -> None:
    assert encode_batch([]) == b""


def test_timestamps_further_apart_than_63_bits_wrap_as_in_java_and_come_back() -> None:
    """The reference encoder refused them, while Kafka, the engine and the kernels store the wrapped difference."""
    records = [Record(0, -1, b"k", None), Record(1, MAX_INT64, b"k", None)]
    (entry,) = decode_entries(encode_batch(records))
    assert [record.timestamp for record in decode_records(entry)] == [-1, MAX_INT64]
