"""v0 and v1 messages and wrappers in the reference codec."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest

from kafkalog.errors import CorruptBatch, TornTail, UsageError
from kafkalog.format import batch, message
from kafkalog.format.names import MAX_OFFSET
from kafkalog.format.reference import Entry, Record, decode_entries, decode_records, encode_message, encode_wrapper

V0 = bytes.fromhex("00000000000000050000000f51df3a320000ffffffff0000000161")
V1 = bytes.fromhex("0000000000000005000000174b38d7a9010000000000000003e8000000016bffffffff")


def _plain(codec: int, data: bytes, magic: int) -> bytes:
    return data


def _one(data: bytes) -> Entry:
    (entry,) = decode_entries(data)
    return entry


def _signed(stored: bytes | bytearray) -> bytes:
    """The message with its size and checksum made right."""
    data = bytearray(stored)
    struct.pack_into(">i", data, message.MESSAGE_SIZE_POSITION, len(data) - batch.LOG_OVERHEAD)
    struct.pack_into(">I", data, message.CRC_POSITION, zlib.crc32(data[message.CRC_START :]))
    return bytes(data)


def _wrapper_of(content: bytes, *, offset: int = 9, magic: int = 1, codec: int = 1, **arguments: Any) -> bytes:
    """A wrapper around these bytes, whatever they are."""
    return encode_message(Record(offset, 1000, None, content), magic=magic, codec=codec, **arguments)


def _inner(offset: int, value: bytes = b"v", *, magic: int = 1, timestamp: int = 5) -> bytes:
    return encode_message(Record(offset, timestamp, None, value), magic=magic)


def _refused(data: bytes) -> str:
    with pytest.raises(CorruptBatch) as error:
        decode_records(_one(data), _plain)
    assert (error.value.position, error.value.length) == (0, len(data))
    return error.value.reason


def _offsets(data: bytes) -> list[int]:
    return [record.offset for record in decode_records(_one(data), _plain)]


def test_a_v1_message_with_a_key_has_30_bytes_and_42_in_the_log() -> None:
    with_key = encode_message(Record(0, 0, b"key", b"hello"))
    without_key = encode_message(Record(1, 0, None, b"hello"))
    assert (len(with_key) - batch.LOG_OVERHEAD, len(with_key)) == (30, 42)
    assert (len(without_key) - batch.LOG_OVERHEAD, len(without_key)) == (27, 39)
    assert len(with_key + without_key) == 81


def test_the_smallest_messages() -> None:
    assert len(encode_message(Record(0, -1, None, None), magic=0)) == 26
    assert len(encode_message(Record(0, -1, None, None), magic=1)) == 34


def test_a_v0_message_has_the_known_bytes_and_no_timestamp() -> None:
    assert encode_message(Record(5, -1, None, b"a"), magic=0) == V0
    entry = _one(V0)
    assert (entry.magic, entry.base_offset, entry.last_offset, entry.records_count) == (0, 5, 5, None)
    assert (entry.producer_id, entry.leader_epoch, entry.last_sequence, entry.delete_horizon_ms) == (-1, -1, -1, None)
    assert decode_records(entry) == [Record(5, -1, None, b"a", timestamp_type=batch.NO_TIMESTAMP_TYPE)]


def test_a_v1_tombstone_has_the_known_bytes() -> None:
    assert encode_message(Record(5, 1000, b"k", None)) == V1
    assert decode_records(_one(V1)) == [Record(5, 1000, b"k", None)]


def test_the_flags_of_v2_mean_nothing_in_a_message() -> None:
    stored = bytearray(V1)
    stored[message.ATTRIBUTES_POSITION] = 0xF0
    entry = _one(_signed(stored))
    assert not entry.is_control
    assert not entry.is_transactional
    assert entry.delete_horizon_ms is None


def test_a_v0_message_ignores_the_timestamp_bit() -> None:
    stored = bytearray(V0)
    stored[message.ATTRIBUTES_POSITION] = batch.LOG_APPEND_TIME
    assert decode_records(_one(_signed(stored)))[0].timestamp_type == batch.NO_TIMESTAMP_TYPE


@pytest.mark.parametrize("size", [14, 21])
def test_a_v1_message_below_22_bytes_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptBatch) as error:
        _one(_signed(V1[: batch.LOG_OVERHEAD + size]))
    assert error.value.reason == "length"


def test_messages_and_batches_follow_each_other_in_one_file() -> None:
    entries = list(decode_entries(V0 + V1 + V0))
    assert [(entry.position, entry.magic) for entry in entries] == [(0, 0), (len(V0), 1), (len(V0 + V1), 0)]


def test_any_negative_length_is_null() -> None:
    stored = bytearray(V1)
    struct.pack_into(">i", stored, len(stored) - 4, -77)
    assert decode_records(_one(_signed(stored)))[0].value is None


def test_bytes_after_the_value_mean_nothing() -> None:
    assert decode_records(_one(_signed(V0 + b"more")))[0].value == b"a"


@pytest.mark.parametrize(("position", "length"), [(26, 100), (26, 2**31 - 1), (26, 5), (31, 1)])
def test_a_length_beyond_the_message_is_refused_though_the_checksum_is_right(position: int, length: int) -> None:
    stored = bytearray(V1)
    struct.pack_into(">i", stored, position, length)
    assert _refused(_signed(stored)) == "record-structure"


def test_every_bit_from_the_magic_on_is_under_the_checksum() -> None:
    for bit in range(8 * message.CRC_POSITION, 8 * len(V1)):
        damaged = bytearray(V1)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises((CorruptBatch, TornTail)):
            list(decode_entries(bytes(damaged)))


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_gives_back_what_went_in(magic: int) -> None:
    records = [Record(100 + number, 50 - number if magic else -1, b"k" * number or None, b"v") for number in range(4)]
    entry = _one(encode_wrapper(records, codec=3, compress=_plain, magic=magic))
    assert (entry.base_offset, entry.last_offset, entry.max_timestamp) == (None, 103, 50 if magic else -1)
    timestamp_type = batch.CREATE_TIME if magic else batch.NO_TIMESTAMP_TYPE
    assert decode_records(entry, _plain) == [
        Record(record.offset, record.timestamp, record.key, record.value, timestamp_type=timestamp_type) for record in records
    ]


def test_inner_offsets_are_absolute_in_v0_and_relative_in_v1() -> None:
    records = [Record(100, 5, None, b"v"), Record(101, 5, None, b"v")]
    position = message.KEY_POSITION_V0 + 4
    assert encode_wrapper(records, codec=1, compress=_plain, magic=0)[position : position + 8] == struct.pack(">q", 100)
    position = message.KEY_POSITION_V1 + 4
    assert encode_wrapper(records, codec=1, compress=_plain, magic=1)[position : position + 8] == struct.pack(">q", 0)


def test_relative_offsets_hang_on_the_last_one_so_gaps_are_kept() -> None:
    assert _offsets(_wrapper_of(_inner(0) + _inner(2), offset=103)) == [101, 103]


def test_a_v1_wrapper_at_offset_0_counts_from_0() -> None:
    assert _offsets(_wrapper_of(_inner(0) + _inner(1) + _inner(2), offset=0)) == [0, 1, 2]


def test_a_v1_wrapper_before_its_own_content_is_refused() -> None:
    assert _refused(_wrapper_of(_inner(0) + _inner(5), offset=4)) == "offset-range"


def test_a_v0_wrapper_keeps_whatever_offsets_are_inside() -> None:
    assert _offsets(_wrapper_of(_inner(7, magic=0) + _inner(3, magic=0), offset=9, magic=0)) == [7, 3]


@pytest.mark.parametrize("offset", [-1, -(2**63)])
def test_a_negative_inner_offset_is_refused(offset: int) -> None:
    inner = bytearray(_inner(0))
    struct.pack_into(">q", inner, 0, offset)
    assert _refused(_wrapper_of(bytes(inner))) == "offset-range"


def test_an_inner_offset_beyond_the_range_is_refused() -> None:
    assert _refused(_wrapper_of(_inner(10) + _inner(0), offset=MAX_OFFSET)) == "offset-range"


def test_log_append_time_of_a_wrapper_goes_to_every_v1_message_inside() -> None:
    content = _inner(0, timestamp=1) + _inner(1, magic=0) + _inner(2, timestamp=3)
    records = decode_records(_one(_wrapper_of(content, log_append_time=True)), _plain)
    assert [record.timestamp for record in records] == [1000, -1, 1000]
    assert {record.timestamp_type for record in records} == {batch.LOG_APPEND_TIME_TYPE}


def test_with_create_time_the_inner_timestamps_are_real() -> None:
    records = decode_records(_one(_wrapper_of(_inner(0, timestamp=1) + _inner(1, timestamp=3))), _plain)
    assert [record.timestamp for record in records] == [1, 3]


def test_inner_messages_of_the_other_magic_are_read() -> None:
    assert _offsets(_wrapper_of(_inner(0, magic=0) + _inner(1, magic=1), offset=9)) == [8, 9]
    assert _offsets(_wrapper_of(_inner(8, magic=1) + _inner(9, magic=0), offset=9, magic=0)) == [8, 9]


@pytest.mark.parametrize("size", range(1, len(_inner(1))))
def test_an_inner_message_cut_short_ends_the_set_silently(size: int) -> None:
    assert len(_offsets(_wrapper_of(_inner(0) + _inner(1)[:size]))) == 1


def test_a_wrapper_with_nothing_inside_is_refused() -> None:
    assert _refused(_wrapper_of(b"")) == "count"
    assert _refused(_wrapper_of(_inner(0)[:-1])) == "count"


def test_a_wrapper_without_a_value_is_refused() -> None:
    assert _refused(encode_message(Record(9, 0, None, None), codec=1)) == "record-structure"


def test_a_compressed_message_inside_a_compressed_set_is_refused() -> None:
    assert _refused(_wrapper_of(_wrapper_of(_inner(0)))) == "nested"


def test_a_batch_inside_a_compressed_set_is_refused() -> None:
    inner = bytearray(_inner(0))
    inner[message.MAGIC_POSITION] = 2
    assert _refused(_wrapper_of(_signed(inner))) == "magic"


def test_an_inner_message_has_its_own_checksum() -> None:
    assert _refused(_wrapper_of(_inner(0)[:-1] + b"?")) == "inner-crc"


@pytest.mark.parametrize("size", [-1, 0, 13])
def test_an_inner_size_below_14_is_refused(size: int) -> None:
    assert _refused(_wrapper_of(struct.pack(">qi", 0, size) + bytes(30))) == "length"


def test_a_short_inner_v1_message_is_refused_though_its_checksum_is_right() -> None:
    assert _refused(_wrapper_of(_signed(_inner(0)[: batch.LOG_OVERHEAD + 21]))) == "record-structure"


@pytest.mark.parametrize("codec", [4, 5, 6, 7])
@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_and_unknown_codecs_do_not_exist_in_messages(codec: int, magic: int) -> None:
    assert _refused(_wrapper_of(_inner(0), codec=codec, magic=magic)) == "codec-unknown"
    with pytest.raises(UsageError):
        encode_wrapper([Record(0, 0, None, None)], codec=codec, compress=_plain, magic=magic)


@pytest.mark.parametrize(
    ("record", "arguments"),
    [
        (Record(0, 0, None, None, ((b"h", None),)), {}),
        (Record(0, 0, None, None), {"magic": 2}),
        (Record(0, 0, None, None), {"magic": 0, "log_append_time": True}),
        (Record(-1, 0, None, None), {}),
        (Record(0, -2, None, None), {}),
    ],
)
def test_what_a_message_cannot_hold_is_not_written(record: Record, arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        encode_message(record, **arguments)
