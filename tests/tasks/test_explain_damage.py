"""Damage explained: still each byte has one field, and a problem is shown exactly where the reference codec refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafkalog
from kafkalog import codecs
from kafkalog.errors import SegmentError
from kafkalog.format import batch, snapshot
from kafkalog.format.checkpoint import decode_leader_epoch_checkpoint, decode_offset_checkpoint
from kafkalog.format.reference import Record, encode_batch, encode_message, encode_wrapper
from kafkalog.tasks.explain.entries import explain_entries
from kafkalog.tasks.explain.files import SIDE_FILES, explain_index, explain_side_file
from tests.property.generated_logs import GeneratedLog, damaged, logs
from tests.property.oracle import sealed
from tests.tasks.explained import assert_part_is_whole, compare_with_reference, decompress, has_problem


@settings(max_examples=150)
@given(logs())
def test_a_healthy_log_has_the_values_of_the_reference_and_no_problem(found: GeneratedLog) -> None:
    healthy, refused = compare_with_reference(found.data)
    assert (healthy, refused) == (len(found.entries), 0)


@settings(max_examples=150)
@given(logs().flatmap(damaged))
def test_damage_leaves_no_byte_out_and_is_marked_where_the_reference_refuses(data: bytes) -> None:
    position = 0
    for part in explain_entries(data, 0, decompress):
        assert part.position == position
        assert_part_is_whole(part, data)
        position = part.stop
    assert position == len(data)
    compare_with_reference(data)


@settings(max_examples=200)
@given(st.binary(max_size=300))
def test_any_bytes_are_explained_to_the_last(data: bytes) -> None:
    parts = explain_entries(data, 0, decompress)
    assert sum(assert_part_is_whole(part, data) for part in parts) >= bool(data)
    assert sum(part.size for part in parts) == len(data)


TEXT = st.text('0123 -\n\r\ttopic_id:version=#{}",\\é', max_size=80).map(str.encode)


@settings(max_examples=300)
@given(st.sampled_from(sorted(SIDE_FILES)), TEXT | st.binary(max_size=120))
def test_any_small_file_is_explained_to_the_last_byte_and_refused_when_its_decoder_refuses(kind: str, data: bytes) -> None:
    parts = explain_side_file(data, kind)
    assert sum(assert_part_is_whole(part, data) for part in parts) >= bool(data)
    assert sum(part.size for part in parts) == len(data)
    try:
        SIDE_FILES[kind][1](data)
    except SegmentError:
        assert not parts or has_problem(parts[0])


@settings(max_examples=200)
@given(st.sampled_from(["index", "timeindex", "txnindex"]), st.binary(max_size=120), st.integers(0, 40))
def test_any_index_is_explained_to_the_last_byte(kind: str, data: bytes, zeros: int) -> None:
    stored = data + bytes(zeros)
    parts = explain_index(stored, kind, 7, 0, 1000)
    assert sum(assert_part_is_whole(part, stored) for part in parts) >= bool(stored)
    assert sum(part.size for part in parts) == len(stored)


def write_log(folder: Path, data: bytes) -> Path:
    path = folder / "00000000000000000000.log"
    path.write_bytes(data)
    return path


def batches(count: int) -> list[bytes]:
    return [encode_batch([Record(offset, 1000, b"key", b"hello")]) for offset in range(count)]


def test_a_flipped_bit_in_a_value_shows_at_the_checksum_and_nowhere_else(tmp_path: Path) -> None:
    data = bytearray(b"".join(batches(3)))
    data[76 + 72] ^= 1
    explanation = kafkalog.explain(write_log(tmp_path, bytes(data)), offset=1)
    assert [(found.position, found.where) for found in explanation.problems] == [(76 + 17, "batch / crc")]
    assert "does not match: the bytes give 0x" in explanation.problems[0].text


def test_after_a_corrupt_length_the_next_entry_is_found(tmp_path: Path) -> None:
    stored = batches(3)
    broken = stored[0] + stored[1][:8] + b"\x7f" + stored[1][9:] + stored[2]
    path = write_log(tmp_path, broken)
    everything = kafkalog.explain(path, count=10)
    assert [(part.name, part.position, part.size) for part in everything.parts] == [("batch", at, 76) for at in (0, 76, 152)]
    assert everything.problems[0].where == "batch / batch_length"
    assert "only 64 bytes follow" in everything.problems[0].text
    assert not kafkalog.explain(path, offset=2).problems


def squeeze(codec: int, data: bytes, magic: int) -> bytes:
    return codecs.compress(codec, data, magic=magic)


def test_every_cut_of_every_format_is_explained_to_the_last_byte() -> None:
    records = [Record(at, 1000, b"key", b"hello") for at in range(2)]
    entries = [encode_message(records[0], magic=magic) for magic in (0, 1)]
    entries += [encode_wrapper(records, codec=codecs.GZIP, compress=squeeze, magic=magic) for magic in (0, 1)]
    entries += [encode_batch(records, codec=codec, compress=squeeze) for codec in range(len(codecs.NAMES))]
    for stored in entries:
        for size in range(1, len(stored) + 1):
            parts = explain_entries(stored[:size], 0, decompress)
            assert sum(part.size for part in parts) == size
            assert all(assert_part_is_whole(part, stored) for part in parts)
            assert size == len(stored) or parts[0].name == "zeros" or has_problem(parts[0])


def test_an_offset_that_compaction_removed_is_not_found_in_its_neighbour(tmp_path: Path) -> None:
    path = write_log(tmp_path, b"".join(encode_message(Record(offset, 1000, b"k", b"v")) for offset in (3, 7)))
    assert kafkalog.explain(path, offset=7).start == path.stat().st_size // 2
    for missing in (0, 5, 8):
        with pytest.raises(kafkalog.UsageError, match=f"no entry holds offset {missing}; it has 3 to 7"):
            kafkalog.explain(path, offset=missing)


@pytest.mark.parametrize("cut", [8, 11, 16, 40, 65, 75])
def test_a_torn_tail_says_what_is_missing(tmp_path: Path, cut: int) -> None:
    path = write_log(tmp_path, batches(1)[0] + batches(2)[1][:cut])
    explanation = kafkalog.explain(path, position=76)
    assert (explanation.start, explanation.stop) == (76, 76 + cut)
    assert explanation.problems


def test_a_compressed_batch_with_nothing_in_it_is_marked() -> None:
    stored = bytearray(encode_batch([Record(0, 0, None, None)])[: batch.HEADER_SIZE])
    stored[11], stored[batch.ATTRIBUTES_POSITION + 1] = batch.MIN_BATCH_LENGTH, codecs.ZSTD
    (part,) = explain_entries(sealed(bytes(stored)), 0, decompress)
    assert_part_is_whole(part, sealed(bytes(stored)))
    assert has_problem(part)


def test_side_files_with_the_wrong_count_are_marked() -> None:
    for kind, data, decode in (
        ("leader-epoch-checkpoint", b"0\n2\n0 0\n", decode_leader_epoch_checkpoint),
        ("replication-offset-checkpoint", b"0\n1\norders 0 five\n", decode_offset_checkpoint),
        ("snapshot", b"\0\1" + bytes(8), snapshot.decode_snapshot),
    ):
        with pytest.raises(SegmentError):
            decode(data)
        assert has_problem(explain_side_file(data, kind)[0])
