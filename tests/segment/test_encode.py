"""Arrow columns to batches and messages: fixed bytes, the kinds of columns, the refusals."""

from __future__ import annotations

import datetime
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kafkalog import codecs
from kafkalog.errors import UsageError
from kafkalog.format import reference
from kafkalog.format.entry_table import FIELD_COUNT
from kafkalog.kernels import encode_batches as batch_kernel
from kafkalog.kernels import encode_messages as kernel
from kafkalog.kernels.native import NOT_FOUND
from kafkalog.segment import encode
from kafkalog.segment.columns import HEADERS_TYPE, RAW_HEADERS_TYPE
from kafkalog.segment.encode import EncodeOptions, encode_batches, encode_messages
from tests.builders.encoding import encode_options

# Written by hand from the layout, and read by Kafka's own classes (tests/interop).
V0_MESSAGE = "00000000000000050000000f51df3a320000ffffffff0000000161"
V1_TOMBSTONE = "0000000000000005000000174b38d7a9010000000000000003e8000000016bffffffff"
V2_BATCH = (
    "00000000000000050000003d00000000025786924900000000000000000000000003e800000000000003e8ffffffffffffffffffffffffffff"
    "0000000116000000026b027602026801"
)
V2_COMMIT = (
    "00000000000000070000004200000000022601e99600300000000000000000000003e800000000000003e800000000000000090001ffffffff"
    "000000012000000008000000010c00000000000300"
)
V2_HORIZON = (
    "00000000000000050000003b0000000002fd7486e500400000000000000000000186a000000000000003e8ffffffffffffffffffffffffffff"
    "000000011200ef8a0c00026b0100"
)


def _encoded(table: pa.Table, **options: Any) -> Iterator[bytes]:
    return encode_batches(table, *encode_options(**options))


def _joined(table: pa.Table, **options: Any) -> bytes:
    return b"".join(_encoded(table, **options))


def _records(data: bytes) -> list[reference.Record]:
    def decompress(codec: int, payload: bytes, magic: int) -> bytes:
        out = bytearray(1 << 20)
        return bytes(out[: codecs.decompress(codec, payload, memoryview(out), magic=magic)])

    entries = reference.decode_entries(data)
    return [record for entry in entries for record in reference.decode_records(entry, decompress)]


def test_a_v0_message_has_the_documented_bytes() -> None:
    table = pa.table({"value": [b"a"]})
    assert b"".join(encode_messages(table, 0, EncodeOptions(base_offset=5))).hex() == V0_MESSAGE


def test_a_v1_tombstone_has_the_documented_bytes() -> None:
    table = pa.table({"key": [b"k"], "timestamp_ms": [1000]})
    assert b"".join(encode_messages(table, options=EncodeOptions(base_offset=5))).hex() == V1_TOMBSTONE


def test_a_v2_batch_with_a_header_without_value_has_the_documented_bytes() -> None:
    headers = pa.array([[("h", None)]], HEADERS_TYPE)
    table = pa.table({"key": [b"k"], "value": [b"v"], "timestamp_ms": [1000], "headers": headers})
    assert _joined(table, base_offset=5, leader_epoch=0).hex() == V2_BATCH


def test_a_commit_marker_has_the_documented_bytes() -> None:
    table = pa.table({"key": [bytes.fromhex("00000001")], "value": [bytes.fromhex("000000000003")], "timestamp_ms": [1000]})
    producer = {"producer_id": 9, "producer_epoch": 1, "is_transactional": True, "is_control": True}
    assert _joined(table, base_offset=7, leader_epoch=0, **producer).hex() == V2_COMMIT


def test_a_batch_with_a_delete_horizon_has_the_documented_bytes() -> None:
    table = pa.table({"key": [b"k"], "timestamp_ms": [1000]})
    assert _joined(table, base_offset=5, leader_epoch=0, delete_horizon_ms=100_000).hex() == V2_HORIZON


def test_no_rows_give_no_bytes() -> None:
    table = pa.table({"key": pa.array([], pa.binary()), "value": pa.array([], pa.string())})
    assert _joined(table) == b""
    assert list(encode_messages(table, options=EncodeOptions("gzip"))) == []
    assert _joined(pa.table({})) == b""


def test_a_missing_column_is_null_and_a_missing_timestamp_is_minus_one() -> None:
    (record,) = _records(_joined(pa.table({"topic": ["t"]})))
    assert record == reference.Record(0, -1, None, None)


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string(), pa.binary(3), pa.binary_view(), pa.string_view()]
)
def test_keys_and_values_may_be_any_kind_of_bytes_or_text(kind: pa.DataType) -> None:
    expected = _joined(pa.table({"key": [b"abc", None, b"xyz"], "value": [b"abc", None, b"xyz"]}))
    content = [b"abc", None, b"xyz"] if pa.types.is_fixed_size_binary(kind) or "binary" in str(kind) else ["abc", None, "xyz"]
    array = pa.array(content, kind)
    assert _joined(pa.table({"key": array, "value": array})) == expected
    chunked = pa.chunked_array([array.slice(0, 1), array.slice(1, 2)])
    assert _joined(pa.table({"key": chunked, "value": array})) == expected


def test_a_dictionary_column_and_a_column_of_type_null_are_taken() -> None:
    expected = _joined(pa.table({"value": [b"a", b"b", b"a"]}))
    values = pa.array([b"a", b"b", b"a"], pa.binary()).dictionary_encode()
    assert _joined(pa.table({"key": pa.nulls(3), "value": values})) == expected


def test_a_record_batch_is_as_good_as_a_table() -> None:
    table = pa.table({"key": [b"k", None], "value": [b"v", b"w"]})
    assert b"".join(encode_batches(table.to_batches()[0])) == _joined(table)


def test_slices_of_columns_encode_what_they_show() -> None:
    headers = pa.array([None, [("a", b"1")], [], [("b", None), ("c", b"")], None, [("d", b"2")]], HEADERS_TYPE)
    columns = {"key": [b"0", None, b"2", b"", b"4", b"5"], "value": [None, b"1", b"22", b"333", b"", None], "headers": headers}
    table = pa.table({**columns, "timestamp_ms": [10, None, 12, 13, 14, 15], "offset": [1, 2, 4, 8, 16, 32]})
    for start in range(6):
        for size in range(1, 7 - start):
            part = table.slice(start, size)
            fresh = pa.Table.from_pylist(part.to_pylist(), schema=part.schema)
            assert _joined(part) == _joined(fresh)
            shown = [(each["offset"], each["key"], each["value"], len(each["headers"] or ())) for each in part.to_pylist()]
            assert [(each.offset, each.key, each.value, len(each.headers)) for each in _records(_joined(part))] == shown


def test_raw_headers_win_over_text_and_may_be_any_bytes() -> None:
    text = pa.array([[("\ufffd", b"1")]], HEADERS_TYPE)
    raw = pa.array([[(b"\xff", b"1")]], RAW_HEADERS_TYPE)
    (record,) = _records(_joined(pa.table({"headers": text, "headers_raw": raw})))
    assert record.headers == ((b"\xff", b"1"),)
    (record,) = _records(_joined(pa.table({"headers": text})))
    assert record.headers == (("\ufffd".encode(), b"1"),)


def test_headers_may_come_as_a_map() -> None:
    headers = pa.array([[("a", b"1"), ("b", None)], []], pa.map_(pa.string(), pa.binary()))
    first, second = _records(_joined(pa.table({"headers": headers})))
    assert (first.headers, second.headers) == (((b"a", b"1"), (b"b", None)), ())


def test_bytes_under_a_null_are_never_stored() -> None:
    hidden = pa.Array.from_buffers(
        pa.binary(), 2, [pa.py_buffer(b"\x02"), pa.py_buffer(np.array([0, 6, 7], np.int32)), pa.py_buffer(b"secretx")]
    )
    pairs = pa.StructArray.from_arrays([pa.array(["secret", "k"]), pa.array([b"s", b"v"], pa.binary())], names=["key", "value"])
    headers = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pairs, mask=pa.array([True, False]))
    times = pa.array([99, 7], pa.int64(), mask=np.array([True, False]))
    table = pa.table({"key": hidden, "value": hidden, "headers": headers, "timestamp_ms": times})
    data = _joined(table)
    assert b"secret" not in data
    assert [(each.key, each.timestamp, each.headers) for each in _records(data)] == [(None, -1, ()), (b"x", 7, ((b"k", b"v"),))]


@pytest.mark.parametrize(("unit", "stored"), [("s", 1), ("ms", 1_001), ("us", 1_001_999), ("ns", 1_001_999_999)])
def test_timestamps_of_every_unit_are_stored_in_whole_milliseconds(unit: str, stored: int) -> None:
    array = pa.array([stored, None], pa.int64()).cast(pa.timestamp(unit, tz="UTC"))
    records = _records(_joined(pa.table({"timestamp": array})))
    assert [each.timestamp for each in records] == [1000 if unit == "s" else 1001, -1]


def test_a_time_just_before_1970_is_not_rounded_up_to_it() -> None:
    array = pa.array([-1], pa.int64()).cast(pa.timestamp("us"))
    assert [each.timestamp for each in _records(_joined(pa.table({"timestamp": array})))] == [-1]


def test_the_stored_number_wins_over_the_typed_timestamp() -> None:
    times = pa.array([datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)], pa.timestamp("ms", tz="UTC"))
    (record,) = _records(_joined(pa.table({"timestamp": times, "timestamp_ms": [2**63 - 1]})))
    assert record.timestamp == 2**63 - 1


def test_offsets_of_the_table_stay_unless_a_base_offset_is_given() -> None:
    table = pa.table({"offset": [3, 7, 8]})
    assert [each.offset for each in _records(_joined(table))] == [3, 7, 8]
    assert [each.offset for each in _records(_joined(table, base_offset=100))] == [100, 101, 102]
    assert [each.offset for each in _records(b"".join(encode_messages(table, options=EncodeOptions("lz4"))))] == [3, 7, 8]


def test_the_last_offset_there_is_can_be_written() -> None:
    table = pa.table({"value": [b"a", b"b"]})
    assert [each.offset for each in _records(_joined(table, base_offset=2**63 - 2))] == [2**63 - 2, 2**63 - 1]
    with pytest.raises(UsageError, match="base_offset"):
        _encoded(table, base_offset=2**63 - 1)


def test_offsets_more_than_31_bits_apart_are_in_two_batches() -> None:
    near, far = (pa.table({"offset": [5, last]}) for last in (5 + 2**31 - 1, 5 + 2**31))
    assert len(list(encode_batches(near))) == 1
    assert len(list(encode_batches(far))) == 2
    assert [each.offset for each in _records(_joined(far))] == [5, 5 + 2**31]


def test_sequences_continue_from_batch_to_batch_and_wrap() -> None:
    table = pa.table({"value": [b"v"] * 7})
    batches = _encoded(table, batch_records=3, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    assert [each.sequence for data in batches for each in _records(data)] == [2**31 - 2, 2**31 - 1, 0, 1, 2, 3, 4]


def test_sequences_continue_across_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"value": [b"v"] * 50})
    options: dict[str, Any] = {"batch_records": 3, "producer_id": 1, "producer_epoch": 0, "base_sequence": 2**31 - 20}
    expected = _joined(table, **options)
    monkeypatch.setattr(encode, "SLICE_ROWS", 7)
    assert _joined(table, **options) == expected


@pytest.mark.parametrize("codec", codecs.NAMES)
def test_a_batch_is_cut_before_it_grows_beyond_its_bytes_uncompressed(codec: str) -> None:
    table = pa.table({"value": [b"v" * 100] * 1000})
    plain = list(_encoded(table, batch_bytes=4096))
    coded = list(_encoded(table, batch_bytes=4096, codec=codec))
    assert max(map(len, plain)) <= 4096
    assert min(map(len, plain[:-1])) > 4096 - 108
    assert [len(_records(each)) for each in coded] == [len(_records(each)) for each in plain]


@pytest.mark.parametrize("batch_bytes", [1, 16_384, 65_536 + 61, 1 << 20])
def test_lz4_of_the_kernel_is_that_of_the_codec_also_where_nothing_shrinks(
    batch_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = np.random.default_rng(1)
    values = [noise.integers(0, kinds, size, np.uint8).tobytes() for size in (0, 30, 70_000, 200_000) for kinds in (2, 256) * 5]
    table = pa.table({"value": values, "offset": range(len(values))})
    runs = list(encode.encode_runs(table, EncodeOptions("lz4", batch_bytes=batch_bytes), run_bytes=4 << 20))
    monkeypatch.setattr(encode, "lz4_compress_function", lambda: NOT_FOUND)
    expected = list(encode.encode_runs(table, EncodeOptions("lz4", batch_bytes=batch_bytes), run_bytes=4 << 20))
    assert [bytes(run.data) for run in runs] == [bytes(run.data) for run in expected]
    for run, other in zip(runs, expected, strict=True):
        np.testing.assert_array_equal(run.entries.fields, other.entries.fields)


def test_a_record_larger_than_a_batch_has_one_of_its_own() -> None:
    table = pa.table({"value": [b"a", b"b" * 5000, b"c"]})
    assert [len(_records(each)) for each in _encoded(table, batch_bytes=1000)] == [1, 1, 1]


def test_a_level_changes_the_bytes_and_not_the_records() -> None:
    table = pa.table({"value": [b"%d" % (i * i) for i in range(2000)]})
    fast, dense = (_joined(table, codec="zstd", level=level, batch_bytes=1 << 20) for level in (1, 19))
    assert len(dense) < len(fast)
    assert _records(dense) == _records(fast)


BAD_ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"codec": "brotli"}, "brotli"),
    ({"codec": "gzip", "level": 10}, "level 10"),
    ({"codec": "none", "level": 1}, "level 1"),
    ({"is_transactional": True}, "producer id"),
    ({"producer_id": 5}, "epoch"),
    ({"producer_id": 5, "producer_epoch": 0}, "sequence"),
    ({"producer_id": 2**63}, "producer_id"),
    ({"producer_epoch": 2**15}, "producer_epoch"),
    ({"base_sequence": 2**31}, "base_sequence"),
    ({"base_sequence": -2}, "base_sequence"),
    ({"leader_epoch": -2}, "leader_epoch"),
    ({"base_offset": -1}, "base_offset"),
    ({"batch_records": 0}, "batch_records"),
    ({"batch_bytes": 2**31}, "batch_bytes"),
    ({"log_append_time_ms": -1}, "log_append_time_ms"),
    ({"delete_horizon_ms": -1}, "delete_horizon_ms"),
]


@pytest.mark.parametrize(("arguments", "named"), BAD_ARGUMENTS, ids=lambda value: value if isinstance(value, str) else None)
def test_an_argument_that_no_batch_can_hold_is_refused_at_once(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        _encoded(pa.table({"value": [b"v"]}), **arguments)


BAD_COLUMNS: list[tuple[dict[str, Any], str]] = [
    ({"offset": [3, 3]}, "row 1 .*offset 3"),
    ({"offset": [-1, 3]}, "row 0 .*offset -1"),
    ({"offset": [1, None]}, "offset has nulls"),
    ({"offset": ["a", "b"]}, "offset"),
    ({"timestamp_ms": [0, -2]}, "row 1 .*timestamp -2"),
    ({"timestamp": ["now", "then"]}, "timestamp"),
    ({"timestamp": pa.array([2**62, 0], pa.int64()).cast(pa.timestamp("s"))}, "64 bits"),
    ({"key": [1, 2]}, "key"),
    ({"headers": [["a"], []]}, "headers"),
    ({"headers": pa.array([[(None, b"v")], []], HEADERS_TYPE)}, "without a key"),
    ({"headers": pa.array([[None], []], HEADERS_TYPE)}, "without a key"),
    ({"is_control": [False, True]}, "control records"),
]


@pytest.mark.parametrize(("columns", "named"), BAD_COLUMNS, ids=lambda value: value if isinstance(value, str) else None)
def test_a_column_that_no_record_can_hold_is_refused_by_name_or_row(columns: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        list(encode_batches(pa.table(columns)))


def test_two_columns_of_one_name_are_refused() -> None:
    table = pa.Table.from_arrays([pa.array([b"a"]), pa.array([b"b"])], names=["key", "key"])
    with pytest.raises(UsageError, match="2 columns key"):
        encode_batches(table)


def test_control_records_are_encoded_when_asked_for() -> None:
    table = pa.table({"key": [b"\0\0\0\1"], "is_control": [True]})
    (entry,) = reference.decode_entries(_joined(table, is_control=True))
    assert entry.is_control
    assert not entry.is_transactional


def test_messages_refuse_what_their_formats_do_not_have() -> None:
    table = pa.table({"value": [b"v"]})
    with pytest.raises(UsageError, match="zstd"):
        encode_messages(table, options=EncodeOptions("zstd"))
    with pytest.raises(UsageError, match="magic 2"):
        encode_messages(table, magic=2)
    with pytest.raises(UsageError, match="v0"):
        encode_messages(table, 0, EncodeOptions(log_append_time_ms=5))
    headers = pa.array([[("h", b"v")]], HEADERS_TYPE)
    with pytest.raises(UsageError, match="no headers"):
        list(encode_messages(pa.table({"headers": headers})))
    assert list(encode_messages(pa.table({"headers": pa.array([[]], HEADERS_TYPE)})))


def test_a_record_of_two_gigabytes_is_refused_before_anything_is_allocated_for_it() -> None:
    """The kernels see only lengths while they plan, so the bytes need not exist."""
    offsets = np.array([0, 2**31 - 100], np.int64)
    none, no_bytes = np.empty(0, np.int64), np.empty(0, np.uint8)
    row = np.zeros(1, np.int64)
    binary = no_bytes, offsets, no_bytes
    columns = kernel.Columns(row, row, *binary, *binary, none, no_bytes, no_bytes, none, no_bytes, none, no_bytes)
    sizes, batches = np.zeros(1, np.int64), np.zeros((kernel.BATCH_FIELDS, 2), np.int64)
    kernel.measure(columns, 1, sizes)
    status, at, _ = kernel.plan(row, row, -1, 1, 1, sizes, batches)
    assert (status, at) == (kernel.TOO_LARGE, 0)
    settings = np.full(batch_kernel.SETTING_COUNT, -1, np.int64)
    fields = np.zeros((FIELD_COUNT, 1), np.int64)
    target = np.zeros(100, np.uint8)
    status, at, _, _ = batch_kernel.write_batches(columns, no_bytes, no_bytes, none, 0, True, settings, target, fields)
    assert (status, at) == (kernel.TOO_LARGE, 0)


@pytest.mark.parametrize("setting", ["NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"])
def test_kernels_give_the_same_bytes_without_the_compiler_and_with_bounds_checks(setting: str) -> None:
    environment = {**os.environ, setting: "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", "from tests.segment.test_encode import digest_of_samples as digest; print(digest())"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout.strip() == digest_of_samples()


def digest_of_samples() -> str:
    """A hash of batches and messages with short and long varints, nulls and headers."""
    numbers = [0, 1, 63, 64, 8191, 8192, 2**20, 2**31 - 1]
    headers = [None, [], [("h", None)], *[[("n" * size, b"x" * size)] for size in (0, 1, 64, 70, 2)]]
    table = pa.table(
        {
            "offset": numbers,
            "timestamp_ms": [2**62, 0, -1, 2**63 - 1, 5, 64, 2**40, 3],
            "key": [None, b"", b"k", b"k" * 63, b"k" * 64, b"k" * 9000, None, b"z"],
            "value": [b"v" * size for size in (0, 1, 62, 63, 64, 65, 127, 128)],
            "headers": pa.array(headers, HEADERS_TYPE),
        }
    )
    parts = [*encode_batches(table), *_encoded(table, batch_records=3, delete_horizon_ms=2**63 - 1)]
    plain = table.drop_columns(["headers"])
    parts += [*encode_messages(plain), *encode_messages(plain, 0, EncodeOptions("gzip", batch_records=2))]
    return hashlib.sha256(b"".join(parts)).hexdigest()
