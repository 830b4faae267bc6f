"""docs/format.md against the code: every hex example, sum, layout and number of the page is computed again here.

Marks on the page for this test:

    ```hex NAME         rows of position, bytes, field, type, value and perhaps a note
    ```sums NAME        lines of numbers with words between them: "12 in front + 30 message = 42"
    ```map NAME         a drawing under rulers of byte positions
    ```checkpoint NAME  the content of a text file
    <!-- layout: NAME -->, <!-- checked: NAME -->    the table below it
"""

from __future__ import annotations

import re
import struct
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import crc32c
import numpy as np
import pytest

from kafkalog import codecs
from kafkalog.errors import CorruptBatch
from kafkalog.format import batch, checkpoint, index, message, names, snapshot
from kafkalog.format.batch import increment_sequence
from kafkalog.format.control import COMMIT, EndTxnMarker, encode_end_txn_marker
from kafkalog.format.reference import (
    Record,
    decode_entries,
    decode_entry,
    decode_records,
    encode_batch,
    encode_control_batch,
    encode_empty_batch,
    encode_message,
    encode_record,
    encode_wrapper,
)
from kafkalog.format.varint import decode_uvarint, decode_varint, decode_varlong, encode_varint, encode_varlong
from kafkalog.payloads.internal_topics import decode_control_record
from tests.golden.sets import DATA

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "format.md").read_text(encoding="utf-8")
PROSE = " ".join(re.sub(r"(?ms)^```.*?^```$", "", PAGE).split())
TIMESTAMP = 1_700_000_000_000

FIXED_TYPES = {"int8": "i1", "int16": ">i2", "int32": ">i4", "int64": ">i8", "uint32": ">u4"}
VARIABLE_TYPES: dict[str, Callable[..., tuple[int, int]]] = {
    "varint": decode_varint,
    "varlong": decode_varlong,
    "uvarint": decode_uvarint,
}


class Row(NamedTuple):
    """A row of a hex example."""

    position: int
    data: bytes
    field: str
    type: str
    value: str
    note: str


def blocks(kind: str) -> dict[str, str]:
    found = re.findall(rf"(?ms)^```{kind} ([\w-]+)\n(.*?)^```$", PAGE)
    assert len(dict(found)) == len(found), f"two {kind} blocks of one name"
    return dict(found)


def table(kind: str, name: str) -> list[dict[str, str]]:
    """The rows of the table under a mark, by the names of its columns; two columns of one name are numbered."""
    found = re.search(rf"<!-- {kind}: {name} -->\n((?:\|.*\n)+)", PAGE)
    assert found is not None, f"no table {name} on the page"
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in found[1].splitlines()]
    columns = [title if title not in head[:place] else f"{title} {place}" for place, title in enumerate(head)]
    return [dict(zip(columns, row, strict=True)) for row in rows]


def hex_rows(name: str) -> list[Row]:
    pattern = re.compile(r" *(\d+)  ((?:[0-9a-f]{2} )+) +(\w+) +(\w+) +(\S+)(?: {2,}(\S.*))?")
    rows = []
    for line in blocks("hex")[name].splitlines():
        match = pattern.fullmatch(line)
        assert match is not None, line
        position, data, field, kind, value, note = match.groups()
        rows.append(Row(int(position), bytes.fromhex(data), field, kind, value, note or ""))
    return rows


def hex_bytes(name: str) -> bytes:
    return b"".join(row.data for row in hex_rows(name))


def marker(commit: bool) -> bytes:
    key, value = encode_end_txn_marker(EndTxnMarker(commit, 3))
    return encode_control_batch(key, value, offset=7, timestamp=1000, leader_epoch=0, producer_id=9, producer_epoch=1)


def producers() -> bytes:
    return snapshot.encode_snapshot(np.array([(9, 1, 20, 14, 4, 1000, 3, -1)], snapshot.PRODUCERS))


KEY_HELLO = Record(0, TIMESTAMP, b"key", b"hello")
WITH_HEADER = Record(5, 1000, b"k", b"v", ((b"h", None),))
TOMBSTONE = Record(5, 1000, b"k", None)
TXN_INDEX_ENTRY = np.array([(0, 9, 5, 7, 8)], index.TXN_INDEX_ENTRY).tobytes()

EXAMPLES: dict[str, bytes] = {
    "v1-key-hello": encode_message(KEY_HELLO),
    "v2-header-null": encode_batch([WITH_HEADER], leader_epoch=0),
    "record-100": encode_record(99, 100, None, b"hello"),
    "commit-record": encode_record(0, 0, *encode_end_txn_marker(EndTxnMarker(True, 3))),
    "index": np.array([(11, 4210), (23, 8544)], index.OFFSET_INDEX_ENTRY).tobytes(),
    "txnindex": TXN_INDEX_ENTRY,
    "snapshot": producers(),
}

VECTORS: dict[str, bytes] = {
    "v0 message: offset 5, key null, value `a`": encode_message(Record(5, -1, None, b"a"), magic=0),
    "v1 tombstone: offset 5, timestamp 1000, key `k`": encode_message(TOMBSTONE),
    "v1 message: offset 0, timestamp 1700000000000, `key` = `hello`": encode_message(KEY_HELLO),
    "v2 batch: offset 0, timestamp 1700000000000, `key` = `hello`, epoch 0": encode_batch([KEY_HELLO], leader_epoch=0),
    "v2 batch: offset 5, timestamp 1000, `k` = `v`, header `h` = null, epoch 0": encode_batch([WITH_HEADER], leader_epoch=0),
    "COMMIT: offset 7, timestamp 1000, producer 9, its epoch 1, coordinator epoch 3": marker(True),
    "ABORT: the same": marker(False),
    "empty batch: 10 to 14, producer 9, its epoch 1, base_sequence 20, max_timestamp 1000": encode_empty_batch(
        base_offset=10,
        last_offset=14,
        max_timestamp=1000,
        leader_epoch=0,
        producer_id=9,
        producer_epoch=1,
        base_sequence=20,
    ),
    "delete horizon 100000: offset 5, timestamp 1000, tombstone for `k`": encode_batch(
        [TOMBSTONE], leader_epoch=0, delete_horizon_ms=100_000
    ),
    "`.snapshot`: the one of section 8.5": producers(),
    "`.snapshot` without producers": snapshot.encode_snapshot(np.empty(0, snapshot.PRODUCERS)),
    "`.txnindex`: producer 9, first 5, last 7, last stable 8": TXN_INDEX_ENTRY,
    "`.timeindex`: timestamp 1700000000000, relative offset 11": np.array([(TIMESTAMP, 11)], index.TIME_INDEX_ENTRY).tobytes(),
    # No encoder for this one: it is read back below.
    "LEADER_CHANGE value: leader 1, voter 1, granted by 1": bytes.fromhex("00000000000102000000010002000000010000"),
    "snappy of `hello`, framed": codecs.compress(codecs.SNAPPY, b"hello"),
    "lz4 of `hello` in v0": codecs.compress(codecs.LZ4, b"hello", magic=0),
    "lz4 of `hello` in v1 and v2": codecs.compress(codecs.LZ4, b"hello", magic=1),
}

# The layout that each hex example follows, with the position where it begins.
LAYOUTS: dict[str, tuple[np.dtype[np.void], int]] = {
    "v1-key-hello": (message.MESSAGE_V1, 0),
    "v2-header-null": (batch.HEADER, 0),
    "index": (index.OFFSET_INDEX_ENTRY, 0),
    "txnindex": (index.TXN_INDEX_ENTRY, 0),
    "snapshot": (snapshot.ENTRY, snapshot.HEADER_SIZE),
}

RECORD_FIELDS = ["length", "attributes", "timestamp_delta", "offset_delta", "key_length", "value_length", "headers_count"]


def layout(fields: np.dtype[np.void], start: int = 0) -> list[tuple[int, str, str]]:
    """Position, name and type of each field."""
    types = {np.dtype(code).str: name for name, code in FIXED_TYPES.items()}
    assert fields.fields is not None
    return [(start + place, name, types[kind.str]) for name, (kind, place, *_) in fields.fields.items()]


# Hex examples


def test_every_hex_example_is_checked() -> None:
    assert set(blocks("hex")) == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_hex_example_is_what_the_encoder_writes(name: str) -> None:
    assert hex_bytes(name).hex(" ") == EXAMPLES[name].hex(" ")


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_positions_of_a_hex_example_leave_nothing_out(name: str) -> None:
    position = 0
    for row in hex_rows(name):
        assert row.position == position, row
        position += len(row.data)


def decoded(row: Row) -> int | str:
    if row.type == "text":
        return f'"{row.data.decode()}"'
    if row.type in FIXED_TYPES:
        (value,) = np.frombuffer(row.data, FIXED_TYPES[row.type])
        return int(value)
    value, stop = VARIABLE_TYPES[row.type](row.data, 0)
    assert stop == len(row.data)
    return int(value)


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_row_of_a_hex_example_says_what_its_bytes_say(name: str) -> None:
    for row in hex_rows(name):
        assert (row.value if row.type == "text" else int(row.value, 0)) == decoded(row), row


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_notes_of_a_hex_example_are_true(name: str) -> None:
    data = hex_bytes(name)
    for row in hex_rows(name):
        if match := re.fullmatch(r"(\d+) - (\d+)", row.note):
            assert int(match[1]) == len(data) - (row.position if row.field == "length" else 0)
            assert int(match[1]) - int(match[2]) == decoded(row)
        if match := re.fullmatch(r"(CRC-32C?) of bytes (\d+) to (\d+)", row.note):
            covered = data[int(match[2]) : int(match[3]) + 1]
            assert int(match[3]) + 1 == len(data)
            assert (crc32c.crc32c(covered) if match[1] == "CRC-32C" else zlib.crc32(covered)) == decoded(row)
        if match := re.search(r"offset (\d+) \+ (\d+) = (\d+)", row.note):
            assert (int(match[2]), int(match[3])) == (decoded(row), int(match[1]) + int(match[2]))
        if match := re.fullmatch(r"zig-zag (\d+) = (0x\w\w) \+ 1 × 128", row.note):
            assert int(match[1]) == 2 * int(row.value) == int(match[2], 16) + 128


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_fields_of_a_hex_example_are_those_of_the_code(name: str) -> None:
    fields, start = LAYOUTS[name]
    rows = {(row.position, row.field, row.type) for row in hex_rows(name)}
    assert set(layout(fields, start)) <= rows


@pytest.mark.parametrize(("name", "start"), [("v2-header-null", batch.HEADER_SIZE), ("record-100", 0), ("commit-record", 0)])
def test_the_fields_of_a_record_come_in_their_order(name: str, start: int) -> None:
    fields = [row.field for row in hex_rows(name) if row.position >= start]
    assert [field for field in fields if field in RECORD_FIELDS] == RECORD_FIELDS


def test_the_examples_of_markers_and_elections_read_as_the_page_says() -> None:
    (record,) = decode_records(decode_entry(VECTORS["ABORT: the same"], 0))
    assert decode_control_record(record.key, record.value) == EndTxnMarker(False, 3)
    key_type = next(row for row in hex_rows("commit-record") if row.field == "key_type")
    assert int(key_type.value) == COMMIT
    value = VECTORS["LEADER_CHANGE value: leader 1, voter 1, granted by 1"]
    election = {"version": 0, "leaderId": 1, "voters": [{"voterId": 1}], "grantingVoters": [{"voterId": 1}]}
    assert decode_control_record(struct.pack(">hh", 0, 2), value) == election


def test_abort_differs_from_commit_in_its_type_and_its_checksum_only() -> None:
    commit, abort = marker(True), marker(False)
    different = [position for position in range(len(commit)) if commit[position] != abort[position]]
    type_position = batch.HEADER_SIZE + next(row.position for row in hex_rows("commit-record") if row.field == "key_type") + 1
    assert different == [*range(batch.CRC_POSITION, batch.CRC_START), type_position]


def test_every_vector_is_what_the_encoder_writes() -> None:
    assert {row["example"]: row["bytes"].strip("`") for row in table("checked", "vectors")} == {
        name: data.hex() for name, data in VECTORS.items()
    }


def test_hex_in_running_text_is_part_of_an_example() -> None:
    known = [data.hex(" ") for data in (*EXAMPLES.values(), *VECTORS.values())]
    spans = [span for span in re.findall(r"`((?:[0-9a-f]{2} )+[0-9a-f]{2})`", PROSE) if span not in zigzag_bytes()]
    assert len(spans) >= 5
    assert [span for span in spans if not any(span in data for data in known)] == []


# Layouts and drawings


def test_the_layout_of_the_batch_header_is_that_of_the_code() -> None:
    rows = table("layout", "v2")
    assert [(int(row["position"]), row["field"], row["type"]) for row in rows] == layout(batch.HEADER)
    assert [int(row["size"]) for row in rows] == [np.dtype(FIXED_TYPES[row["type"]]).itemsize for row in rows]


def test_the_rulers_of_the_drawings_are_at_the_fields() -> None:
    places = {
        "entry": [place for place, *_ in layout(message.MESSAGE_V1) if place <= message.ATTRIBUTES_POSITION],
        "v1": [*(place for place, *_ in layout(message.MESSAGE_V1)), message.KEY_POSITION_V1],
        "v2": [*(place for place, *_ in layout(batch.HEADER)), batch.HEADER_SIZE],
    }
    rulers = {name: re.findall(r"(?m)^[ \d]+$", drawing) for name, drawing in blocks("map").items()}
    assert {name: sorted({int(n) for line in lines for n in line.split()}) for name, lines in rulers.items()} == places


# Sums and sizes


def sum_of(text: str) -> int:
    """The value of "12 in front + 30 message - 2 inner": whole numbers with words after them."""
    terms = re.findall(r"([+-]?)\s*(\d+)[a-z ]*", text)
    return sum(-int(number) if sign == "-" else int(number) for sign, number in terms)


def sums(name: str) -> list[int]:
    """The results of the lines of a block; each must be true in itself."""
    results = []
    for line in blocks("sums")[name].splitlines():
        left, _, right = line.partition("=")
        assert sum_of(left) == int(right), line
        results.append(int(right))
    return results


def size_of_message(record: Record, magic: int = 1) -> list[int]:
    stored = len(encode_message(record, magic=magic))
    return [stored - batch.LOG_OVERHEAD, stored]


def test_every_sum_is_checked() -> None:
    assert set(blocks("sums")) == {"v1-sizes", "wrapper-offsets", "v2-sizes"}
    assert sum_of("12 in front + 30 message - 2 inner") == 40


def test_the_sizes_of_v1_messages() -> None:
    without_key = Record(1, TIMESTAMP, None, b"hello")
    log = encode_message(KEY_HELLO) + encode_message(without_key)
    assert sums("v1-sizes") == [*size_of_message(KEY_HELLO), *size_of_message(without_key), len(log)]
    assert sums("v1-sizes") == [30, 42, 27, 39, 81]
    assert len(list(decode_entries(log))) == 2


def test_the_sizes_of_messages_with_nothing_in_them() -> None:
    empty = Record(0, -1, None, None)
    assert "4 + 1 + 1 + 4 + 4 = 14 bytes and a v1 message, with 8 for the timestamp, 22" in PROSE
    assert size_of_message(empty, magic=0) == [14, 26]
    assert size_of_message(empty) == [22, 34]
    assert "In the log that makes 26 and 34." in PROSE


@pytest.mark.parametrize(("magic", "least"), [(0, 14), (1, 22), (2, 49)])
def test_an_entry_below_the_least_size_of_its_format_is_corrupt(magic: int, least: int) -> None:
    assert "size below 14" in PROSE
    assert "A v1 message with a size below 22 and a v2 batch with a size below 49 are corrupt too" in PROSE
    data = struct.pack(">qiIb", 0, least - 1, 0, magic) + bytes(least)
    with pytest.raises(CorruptBatch) as error:
        decode_entry(data, 0)
    assert error.value.reason == "length"


def test_the_sizes_of_v2_batches_and_records() -> None:
    smallest = Record(0, TIMESTAMP, None, None)
    header = batch.HEADER_SIZE
    computed = [
        len(encode_record(0, 0, b"key", b"hello")),
        len(encode_batch([KEY_HELLO])),
        len(encode_record(99, 100, None, b"hello")),
        len(encode_record(0, 0, None, None)),
        len(encode_batch([smallest])),
        header - batch.LOG_OVERHEAD,
    ]
    assert sums("v2-sizes") == computed == [15, 76, 14, 7, 68, 49]
    assert "takes 14 bytes; v1 needs 39" in PROSE


def test_a_marker_grows_with_its_delete_horizon() -> None:
    key, value = encode_end_txn_marker(EndTxnMarker(True, 3))
    record = [Record(7, TIMESTAMP, key, value)]
    flags: dict[str, Any] = {"transactional": True, "control": True, "producer_id": 9, "producer_epoch": 1}
    plain = len(encode_batch(record, **flags))
    later = [len(encode_batch(record, delete_horizon_ms=TIMESTAMP + wait, **flags)) for wait in (1000, 86_400_000)]
    assert [plain, *later] == [78, 79, 81]
    assert f"has {plain} bytes: the header, and a record of {plain - batch.HEADER_SIZE}" in PROSE
    assert f"markers of {later[0]} or {later[1]} bytes" in PROSE
    assert "two bytes for a horizon 1000 ms later, four for one 86400000 ms later" in PROSE


def test_many_small_records_as_v1_and_as_one_batch() -> None:
    as_messages, as_batch = table("checked", "sizes")
    counts = [int(title) for title in as_messages if title != "records"]
    assert len(counts) == 6
    for count in counts:
        records = [Record(offset, TIMESTAMP + offset, None, b"hello") for offset in range(count)]
        assert int(as_messages[str(count)]) == sum(len(encode_message(record)) for record in records)
        assert int(as_batch[str(count)]) == len(encode_batch(records))


def test_the_largest_deltas_of_one_and_two_bytes() -> None:
    assert "one byte from −64 to 63 and two from −8192 to 8191" in PROSE
    assert [len(encode_varint(delta)) for delta in (-65, -64, 63, 64)] == [2, 1, 1, 2]
    assert [len(encode_varlong(delta)) for delta in (-8193, -8192, 8191, 8192)] == [3, 2, 2, 3]


def test_the_sizes_of_index_entries_and_of_preallocated_indexes() -> None:
    rows = re.findall(r"(?m)^\| `\d{20}\.(\w+)` \|[^|]*\| (\d+)", PAGE)
    layouts = {"index": index.OFFSET_INDEX_ENTRY, "timeindex": index.TIME_INDEX_ENTRY, "txnindex": index.TXN_INDEX_ENTRY}
    layouts["snapshot"] = snapshot.ENTRY
    assert dict(rows) == {kind: str(fields.itemsize) for kind, fields in layouts.items()}
    default = 10 << 20
    for kind, entry in (("index", layouts["index"].itemsize), ("timeindex", layouts["timeindex"].itemsize)):
        count = default // entry
        assert re.search(rf"{count * entry} bytes for {count} (entries )?of the `\.{kind}`", PROSE)


def test_the_default_of_max_message_bytes() -> None:
    assert f"({1024 * 1024 + batch.LOG_OVERHEAD} by default, which is 1024 × 1024 + {batch.LOG_OVERHEAD})" in PROSE


# Numbers


def zigzag_rows() -> list[tuple[int, str, str]]:
    rows = table("checked", "zigzag")
    left = [(int(row["number"]), row["type"], row["bytes"].strip("`")) for row in rows]
    return left + [(int(row["number 3"]), row["type 4"], row["bytes 5"].strip("`")) for row in rows]


def zigzag_bytes() -> set[str]:
    return {data for _, _, data in zigzag_rows()}


@pytest.mark.parametrize(("number", "kind", "data"), zigzag_rows())
def test_the_zigzag_samples(number: int, kind: str, data: str) -> None:
    encode = encode_varint if kind == "varint" else encode_varlong
    assert encode(number).hex(" ") == data
    assert VARIABLE_TYPES[kind](bytes.fromhex(data), 0) == (number, len(bytes.fromhex(data)))


def test_the_check_values_of_both_checksums() -> None:
    assert f"of the text `123456789` it is `0x{zlib.crc32(b'123456789'):08x}`" in PROSE
    assert f"of `123456789` it is `0x{crc32c.crc32c(b'123456789'):08x}`" in PROSE


def test_the_offset_and_the_leader_epoch_are_outside_of_the_checksum_and_nothing_else_is() -> None:
    data = EXAMPLES["v2-header-null"]
    outside = {*range(8), *range(12, 16)}  # a change of length or magic is no longer a v2 batch of this size
    for position in {*range(len(data))} - {*range(8, 12), batch.MAGIC_POSITION}:
        changed = bytearray(data)
        changed[position] ^= 0x01
        if position in outside:
            assert decode_entry(bytes(changed), 0).crc == decode_entry(data, 0).crc
        else:
            with pytest.raises(CorruptBatch) as error:
                decode_entry(bytes(changed), 0)
            assert error.value.reason == "crc"


def test_the_offsets_inside_a_compacted_v1_wrapper() -> None:
    kept = [Record(offset, TIMESTAMP, b"k", b"v") for offset in (101, 103)]
    stored: list[bytes] = []

    def keep(codec: int, content: bytes, magic: int) -> bytes:
        stored.append(content)
        return content

    wrapper = decode_entry(encode_wrapper(kept, codec=codecs.GZIP, compress=keep), 0)
    inner = [entry.last_offset for entry in decode_entries(stored[0])]
    assert (wrapper.last_offset, inner) == (103, [0, 2])
    offsets = [record.offset for record in decode_records(wrapper, lambda codec, data, magic: data)]
    assert sums("wrapper-offsets") == offsets == [wrapper.last_offset - inner[-1] + each for each in inner]


def test_the_compacted_batch() -> None:
    records = [Record(offset, TIMESTAMP, b"k", b"v") for offset in (101, 103)]
    producer: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 50}
    entry = decode_entry(encode_batch(records, base_offset=100, last_offset=104, **producer), 0)
    assert entry.base_offset is not None
    found = decode_records(entry)
    assert table("checked", "compacted-batch") == [
        {
            "base_offset": str(entry.base_offset),
            "last_offset_delta": str(entry.last_offset - entry.base_offset),
            "last offset": str(entry.last_offset),
            "next offset": str(entry.last_offset + 1),
            "records_count": str(entry.records_count),
            "offset deltas": ", ".join(str(record.offset - entry.base_offset) for record in found),
            "base_sequence": str(entry.base_sequence),
            "sequences": ", ".join(str(record.sequence) for record in found),
            "last sequence": str(entry.last_sequence),
        }
    ]


def test_sequence_numbers_wrap_as_the_page_says() -> None:
    samples = re.findall(r"`(\d+) \+ (\d+) → (\d+)`", PROSE)
    assert len(samples) == 2
    assert [increment_sequence(int(start), int(step)) for start, step, _ in samples] == [int(end) for *_, end in samples]


def test_the_empty_batch_continues_where_the_page_says() -> None:
    (name,) = (name for name in VECTORS if name.startswith("empty batch"))
    last = decode_entry(VECTORS[name], 0).last_sequence
    assert f"its last sequence is {last}, and the producer continues with {increment_sequence(last, 1)}" in PROSE


def test_the_delta_under_a_delete_horizon() -> None:
    delta = 1000 - 100_000
    stored = encode_varlong(delta).hex(" ")
    assert f"timestamp 1000 under the horizon 100000 has the delta −{-delta}, stored as `{stored}`" in PROSE


# Files


def test_the_names_of_files_have_20_digits_and_are_known() -> None:
    found = set(re.findall(r"\b\d{20}[-.][-\w.]*\w", PAGE))
    assert len(found) >= 12
    assert [name for name in found if names.parse_file_name(name) is None] == []
    assert names.segment_file_name(171) in found


def test_the_names_of_folders() -> None:
    for row in table("checked", "folders"):
        state = "" if row["state"] == "live" else row["state"]
        expected = names.FolderName(row["topic"], int(row["partition"]), state)
        assert names.parse_folder_name(row["folder"].strip("`")) == expected


def test_the_text_files_of_the_page_are_read() -> None:
    texts = {name: text.encode() for name, text in blocks("checkpoint").items()}
    assert set(texts) == {"leader-epoch", "offset", "meta-properties", "quorum-state"}
    epochs = [checkpoint.EpochStart(0, 0), checkpoint.EpochStart(2, 26), checkpoint.EpochStart(4, 68)]
    assert checkpoint.decode_leader_epoch_checkpoint(texts["leader-epoch"]) == epochs
    assert checkpoint.encode_leader_epoch_checkpoint(epochs) == texts["leader-epoch"]
    offsets = checkpoint.decode_offset_checkpoint(texts["offset"])
    assert offsets == [("orders", 0, 292), ("eu-west.orders", 12, 77)]
    assert checkpoint.decode_meta_properties(texts["meta-properties"]).node_id == 1
    assert checkpoint.decode_quorum_state(texts["quorum-state"]).leader_epoch == 3
    shutdown = re.search(r"`(\{.*?brokerEpoch.*?\})`", PROSE)
    assert shutdown is not None
    assert checkpoint.decode_clean_shutdown(shutdown[1].encode()) == (0, 103)
    metadata = re.search(r"`(version: 0)` and `(topic_id: \S+)`", PROSE)
    assert metadata is not None
    stored = "\n".join(metadata.groups()).encode()
    assert checkpoint.encode_partition_metadata(checkpoint.decode_partition_metadata(stored)) == stored


def kinds_of(release: str) -> set[str]:
    """The kinds of files in the log directory that a broker of this release wrote."""
    with tarfile.open(DATA / f"{release}.tar.xz") as archive:
        paths = [member.name for member in archive if member.isfile() and member.name.startswith(f"{release}/")]
    parsed = (names.parse_file_name(path.rpartition("/")[2]) for path in paths)
    return {name.kind for name in parsed if name is not None}


def test_the_files_of_each_release_are_those_that_its_broker_wrote() -> None:
    releases = re.findall(r"\d+(?:\.\d+)+", PROSE[PROSE.index("Seen in the directories of") :].partition(":")[0])
    assert (len(releases), releases[0], releases[-1]) == (9, "0.8.2.2", "4.3.0")
    expected: dict[str, set[str]] = {release: set() for release in releases}
    for row in table("checked", "files-by-release"):
        span = releases[releases.index(row["first"]) : releases.index(row["last"]) + 1]
        files = [file.strip("` ") for file in row["files"].split(",")]
        kinds = {file if file in names.LOG_DIRECTORY_FILES else file.removeprefix(".") for file in files}
        for release in span:
            expected[release] |= kinds
    assert {release: kinds_of(release) for release in releases} == expected


def test_the_links_of_the_contents_lead_somewhere() -> None:
    titles = re.findall(r"(?m)^## (.+)$", PAGE)
    anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    links = re.findall(r"\]\(#([\w-]+)\)", PAGE)
    assert len(links) == len(titles) - 1  # the contents do not list themselves
    assert set(links) <= anchors
