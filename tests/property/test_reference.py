"""The format layer under random input: round trips, and no bytes that raise anything but our own errors."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog import codecs
from kafkalog.errors import SegmentError
from kafkalog.format import batch, checkpoint, index, snapshot, varint
from kafkalog.format.names import (
    MAX_OFFSET,
    FileName,
    FolderName,
    parse_file_name,
    parse_folder_name,
    partition_folder_name,
    segment_file_name,
)
from kafkalog.format.reference import (
    Entry,
    Record,
    decode_entries,
    decode_records,
    encode_batch,
    encode_message,
    encode_wrapper,
)
from kafkalog.payloads.internal_topics import decode_control_record

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
CONTENT = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.binary(max_size=8), CONTENT), max_size=3).map(tuple)
TIMESTAMP = st.integers(-1, 2**63 - 1)
CODEC = st.sampled_from([0, 1, 2, 3, 4])

# No deadline: a busy machine is not a failure.
BOUNDED = settings(max_examples=60)


def _decompress(codec: int, payload: bytes, magic: int) -> bytes:
    out = bytearray(1 << 20)
    return bytes(out[: codecs.decompress(codec, payload, memoryview(out), magic=magic)])


def _compress(codec: int, data: bytes, magic: int) -> bytes:
    return codecs.compress(codec, data, magic=magic)


@st.composite
def _records(draw: st.DrawFn, *, headers: bool = True, max_size: int = 6) -> list[Record]:
    """Records with rising offsets, gaps included."""
    steps = draw(st.lists(st.integers(1, 1000), min_size=1, max_size=max_size))
    offset = draw(st.integers(0, MAX_OFFSET - 1000 * max_size))
    records = []
    for step in steps:
        found = draw(HEADERS) if headers else ()
        records.append(Record(offset, draw(TIMESTAMP), draw(CONTENT), draw(CONTENT), found))
        offset += step
    return records


def _content(records: list[Record]) -> list[tuple[Any, ...]]:
    return [(each.offset, each.timestamp, each.key, each.value, each.headers) for each in records]


def _one(data: bytes) -> Entry:
    (entry,) = decode_entries(data)
    return entry


@BOUNDED
@given(_records(), CODEC, st.integers(-1, 2**31 - 1), st.none() | TIMESTAMP, st.none() | st.integers(0, 2**63 - 1))
def test_a_batch_gives_back_its_records_for_every_codec(
    records: list[Record], codec: int, leader_epoch: int, append_time: int | None, horizon: int | None
) -> None:
    stored = encode_batch(
        records,
        leader_epoch=leader_epoch,
        codec=codec,
        compress=_compress,
        log_append_time=append_time,
        delete_horizon_ms=horizon,
    )
    entry = _one(stored)
    assert (entry.base_offset, entry.last_offset) == (records[0].offset, records[-1].offset)
    assert (entry.records_count, entry.leader_epoch, entry.codec) == (len(records), leader_epoch, codec)
    if append_time is None:
        assert _content(decode_records(entry, _decompress)) == _content(records)
    else:
        assert {each.timestamp for each in decode_records(entry, _decompress)} == {append_time}


@BOUNDED
@given(_records(headers=False), st.sampled_from([0, 1]), st.sampled_from([1, 2, 3]))
def test_a_wrapper_gives_back_its_records_for_every_codec(records: list[Record], magic: int, codec: int) -> None:
    entry = _one(encode_wrapper(records, codec=codec, compress=_compress, magic=magic))
    expected = [(each.offset, each.timestamp if magic else -1, each.key, each.value, ()) for each in records]
    # A wrapper at offset 0 is one message at offset 0, for which both readings of the inner offsets agree.
    assert _content(decode_records(entry, _decompress)) == expected


@BOUNDED
@given(st.lists(_records(max_size=1), max_size=4), st.lists(st.sampled_from([0, 1, 2]), min_size=4, max_size=4))
def test_entries_of_mixed_formats_are_found_one_after_the_other(groups: list[list[Record]], magics: list[int]) -> None:
    stored = [
        encode_batch(records) if magic == 2 else encode_message(Record(0, 0, b"k", records[0].value), magic=magic)
        for records, magic in zip(groups, magics, strict=False)
    ]
    assert [entry.data for entry in decode_entries(b"".join(stored))] == stored


@BOUNDED
@given(INT64)
def test_a_varlong_comes_back_and_has_the_size_foretold(value: int) -> None:
    encoded = varint.encode_varlong(value)
    assert varint.decode_varlong(encoded, 0) == (value, len(encoded))
    assert varint.size_of_varlong(value) == len(encoded)


@BOUNDED
@given(INT32)
def test_a_varint_comes_back_and_has_the_size_foretold(value: int) -> None:
    encoded = varint.encode_varint(value)
    assert varint.decode_varint(encoded, 0) == (value, len(encoded))
    assert varint.size_of_varint(value) == len(encoded)


@BOUNDED
@given(st.integers(0, MAX_OFFSET), st.sampled_from(["log", "index", "timeindex", "txnindex", "snapshot"]))
def test_segment_names_come_back(offset: int, kind: str) -> None:
    assert parse_file_name(segment_file_name(offset, kind)) == FileName(kind, offset)


@BOUNDED
@given(st.text("abcxyzABCXYZ0189._-", min_size=1, max_size=249), st.integers(0, 2**31 - 1))
def test_folder_names_come_back(topic: str, partition: int) -> None:
    if topic not in (".", ".."):
        assert parse_folder_name(partition_folder_name(topic, partition)) == FolderName(topic, partition)


@BOUNDED
@given(st.text(max_size=60))
def test_no_name_raises(name: str) -> None:
    parse_file_name(name)
    parse_folder_name(name)


def _damage(decode: Callable[[], object]) -> SegmentError | None:
    """The error with which `decode` refuses its bytes, if it does; any other exception fails the test."""
    try:
        decode()
    except SegmentError as error:
        return error
    return None


def _decode_everything(data: bytes) -> None:
    for entry in decode_entries(data):
        decode_records(entry, _decompress)


def _decode_control(data: bytes) -> None:
    decode_control_record(data[:4], data[4:])


DECODERS: list[Callable[[bytes], object]] = [
    _decode_everything,
    _decode_control,
    snapshot.decode_snapshot,
    checkpoint.decode_offset_checkpoint,
    checkpoint.decode_leader_epoch_checkpoint,
    checkpoint.decode_partition_metadata,
    checkpoint.decode_meta_properties,
    checkpoint.decode_clean_shutdown,
    checkpoint.decode_quorum_state,
    lambda data: index.read_offset_index(data, MAX_OFFSET),
    lambda data: index.read_time_index(data, 0),
    index.read_txn_index,
    lambda data: varint.decode_varint(data, 0),
    lambda data: varint.decode_varlong(data, 0),
    lambda data: varint.decode_uvarint(data, 0),
]


@pytest.mark.parametrize("decode", DECODERS)
@BOUNDED
@given(data=st.data())
def test_no_bytes_raise_anything_but_our_own_errors(decode: Callable[[bytes], object], data: st.DataObject) -> None:
    text = st.text('0123456789 \n\r\t:=\\u{}[]",-versiontopc_ald', max_size=60).map(str.encode)
    stored = data.draw(st.binary(max_size=120) | text)
    error = _damage(lambda: decode(stored))
    assert error is None or error.reason in str(error)


@BOUNDED
@given(st.sampled_from(range(7)), st.binary(max_size=60))
def test_no_control_value_raises_anything_but_our_own_errors(control_type: int, value: bytes) -> None:
    error = _damage(lambda: decode_control_record(struct.pack(">hh", 0, control_type), value))
    assert error is None or error.reason == "control"


@BOUNDED
@given(st.binary(max_size=100), INT16, INT32, st.integers(-1, 8))
def test_hostile_records_with_a_right_checksum_raise_only_our_own_errors(
    payload: bytes, attributes: int, last_offset_delta: int, count: int
) -> None:
    data = bytearray(encode_batch([Record(1 << 40, 0, None, None)])[: batch.HEADER_SIZE]) + payload
    struct.pack_into(">i", data, batch.BATCH_LENGTH_POSITION, len(data) - batch.LOG_OVERHEAD)
    struct.pack_into(">hi", data, batch.ATTRIBUTES_POSITION, attributes, last_offset_delta)
    struct.pack_into(">i", data, batch.RECORDS_COUNT_POSITION, count)
    struct.pack_into(">I", data, batch.CRC_POSITION, crc32c.crc32c(bytes(data[batch.CRC_START :])))
    error = _damage(lambda: _decode_everything(bytes(data)))
    assert error is None or error.position == 0
    if error is None:
        assert len(decode_records(_one(bytes(data)), _decompress)) == count


@BOUNDED
@given(st.binary(max_size=100), st.integers(0, 255), st.sampled_from([0, 1]))
def test_hostile_messages_with_a_right_checksum_raise_only_our_own_errors(body: bytes, attributes: int, magic: int) -> None:
    inside = bytes([magic, attributes]) + body
    data = struct.pack(">qiI", 7, len(inside) + 4, zlib.crc32(inside)) + inside
    error = _damage(lambda: _decode_everything(data))
    assert error is None or error.position == 0


@BOUNDED
@given(_records(), st.data())
def test_a_damaged_batch_with_a_repaired_checksum_is_refused_or_decodes(records: list[Record], data: st.DataObject) -> None:
    stored = bytearray(encode_batch(records))
    bit = data.draw(st.integers(8 * batch.CRC_START, 8 * len(stored) - 1))
    stored[bit // 8] ^= 1 << bit % 8
    struct.pack_into(">I", stored, batch.CRC_POSITION, crc32c.crc32c(bytes(stored[batch.CRC_START :])))
    error = _damage(lambda: _decode_everything(bytes(stored)))
    assert error is None or error.position == 0


@BOUNDED
@given(_records(headers=False), st.data())
def test_damage_inside_a_compressed_set_never_passes_as_other_records(records: list[Record], data: st.DataObject) -> None:
    """Each inner message has a checksum of its own; only the offset and size before it are not covered."""
    content = b"".join(encode_message(Record(each.offset, each.timestamp, each.key, each.value), magic=0) for each in records)
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    wrapper = encode_message(Record(records[-1].offset, -1, None, bytes(damaged)), magic=0, codec=1)
    try:
        found = decode_records(_one(wrapper), lambda codec, payload, magic: payload)
    except SegmentError:
        return
    expected = [(each.key, each.value) for each in records]
    assert [(each.key, each.value) for each in found] == expected[: len(found)]
