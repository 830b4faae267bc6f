"""Faults that the damage campaign found, each as its symptom; and files that storage cannot read (T-23, T-24)."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog.errors import StorageError
from kafkalog.format import reference
from kafkalog.log.folders import find_partitions
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import ReadReport
from kafkalog.tables.records import record_batches
from tests.builders.memory_store import MemoryFile, MemoryStore
from tests.campaigns.damage.golden_set import (
    BASE_OFFSET,
    FIRST_TIMESTAMP,
    FOLDER,
    IDEMPOTENT_BATCH,
    MARKER_BATCH,
    TRANSACTIONAL_BATCH,
    GoldenSegment,
    golden_segment,
    segment_path,
)
from tests.campaigns.damage.hostile_batches import make_batch, make_record, repair_crc
from tests.campaigns.damage.outcome import SCHEMA, Outcome, read

PRODUCER_ID_POSITION, MAX_TIMESTAMP_POSITION, EPOCH_POSITION = 43, 35, 12


def flipped(segment: GoldenSegment, entry: int, position: int, mask: int = 1) -> bytes:
    data = bytearray(segment.data)
    data[segment.entries[entry].position + position] ^= mask
    return bytes(data)


def offsets_without(segment: GoldenSegment, *entries: int) -> list[int]:
    """All offsets of the segment and the next one, except those of these entries."""
    lost = {row for number in entries for row in _rows(segment, number)}
    offsets = [record.offset for row, record in enumerate(segment.records) if row not in lost]
    return offsets + [record.offset for record in segment.next_records]


def _rows(segment: GoldenSegment, number: int) -> range:
    entry = segment.entries[number]
    return range(entry.first_row, entry.first_row + entry.row_count)


@pytest.mark.parametrize("mode", ["skip", "salvage"])
def test_with_neighbours_a_damaged_batch_does_not_cost_those_after_it(mode: str) -> None:
    segment = golden_segment("v2-none")
    outcome = read(segment.among_neighbours(flipped(segment, 2, 80)), on_damage=mode, neighbours=True)
    assert outcome.offsets == offsets_without(segment, 2)
    assert outcome.report.reasons == {"crc": 1}


@pytest.mark.parametrize("mode", ["skip", "salvage"])
def test_a_batch_that_was_cut_out_is_a_gap_and_nothing_else_is_lost(mode: str) -> None:
    segment = golden_segment("v2-none")
    entry = segment.entries[3]
    files = segment.among_neighbours(segment.data[: entry.position] + segment.data[entry.stop :])
    outcome = read(files, on_damage=mode, neighbours=True)
    assert outcome.offsets == offsets_without(segment, 3)
    assert [(dropped.reason, dropped.length) for dropped in outcome.report.dropped] == [("gap", 0)]
    assert read(files, neighbours=True).reason == "gap"


@pytest.mark.parametrize("neighbours", [True, False])
def test_a_negative_leader_epoch_is_damage(neighbours: bool) -> None:
    segment = golden_segment("v2-none")
    outcome = read(segment.among_neighbours(flipped(segment, 3, EPOCH_POSITION, 0x80)), neighbours=neighbours)
    assert outcome.reason == "epoch"
    assert outcome.records.num_rows == segment.entries[3].first_row


def test_an_epoch_overwritten_with_ones_contradicts_the_checkpoint() -> None:
    segment = golden_segment("v2-none")
    data = bytearray(segment.data)
    start = segment.entries[3].position + EPOCH_POSITION
    data[start : start + 4] = b"\xff" * 4
    assert read(segment.among_neighbours(bytes(data)), neighbours=True).reason == "epoch"


@pytest.mark.parametrize("mode", ["skip", "salvage"])
def test_an_epoch_that_is_too_high_costs_its_own_batch_only(mode: str) -> None:
    segment = golden_segment("v2-none")
    outcome = read(segment.among_neighbours(flipped(segment, 1, EPOCH_POSITION, 0x40)), on_damage=mode)
    assert outcome.offsets == offsets_without(segment, 1)
    assert outcome.report.reasons == {"epoch": 1}


@pytest.mark.parametrize("mode", ["skip", "salvage"])
def test_a_hostile_last_batch_with_a_right_checksum_is_skipped(mode: str) -> None:
    good = reference.encode_batch([reference.Record(0, 1, b"k", b"v")])
    hostile = make_batch(b"\xff" * 30, base_offset=1)
    outcome = read({segment_path(0): good + hostile}, on_damage=mode)
    assert (outcome.error, outcome.offsets) == (None, [0])
    assert len(outcome.report.dropped) == 1


@pytest.mark.parametrize("mode", ["skip", "salvage"])
def test_a_v0_set_with_too_high_an_offset_does_not_cost_the_next_one(mode: str) -> None:
    segment = golden_segment("v0-gzip")
    outcome = read(segment.among_neighbours(flipped(segment, 0, 7, 4)), on_damage=mode, neighbours=True)
    assert outcome.offsets == offsets_without(segment, 0)


def test_salvage_does_not_believe_a_v1_set_that_took_the_offsets_of_another() -> None:
    segment = golden_segment("v1-gzip")
    for entry, kept in ((0, 0), (7, 7)):
        outcome = read(segment.among_neighbours(flipped(segment, entry, 7, 4)), on_damage="salvage", neighbours=True)
        assert outcome.offsets == offsets_without(segment, kept)


@pytest.mark.parametrize("name", ["v0-lz4", "v1-none", "v2-gzip"])
def test_salvage_finds_the_last_entry_inside_one_whose_length_lies_up_to_the_end_of_the_file(name: str) -> None:
    segment = golden_segment(name)
    last = len(segment.entries) - 1
    data = bytearray(segment.data)
    liar = segment.entries[last - 1]
    struct.pack_into(">i", data, liar.position + 8, len(data) - liar.position - 12)
    outcome = read(segment.among_neighbours(bytes(data)), on_damage="salvage")
    assert outcome.offsets == offsets_without(segment, last - 1)


def test_salvage_takes_no_batch_out_of_a_value_while_its_own_batch_can_be_framed() -> None:
    inner = reference.encode_batch([reference.Record(BASE_OFFSET + 1, 1, b"forged", b"forged")])
    outer = reference.encode_batch([reference.Record(BASE_OFFSET, 1, b"k", inner)])
    after = reference.encode_batch([reference.Record(BASE_OFFSET + 1, 1, b"k", b"right")])
    damaged = bytearray(outer + after)
    damaged[61 + 3] ^= 1
    outcome = read({segment_path(BASE_OFFSET): bytes(damaged)}, on_damage="salvage")
    assert outcome.records["value"].to_pylist() == [b"right"]
    alone = bytearray(outer)
    alone[61 + 3] ^= 1
    assert read({segment_path(BASE_OFFSET): bytes(alone)}, on_damage="salvage").offsets == []


def read_committed(segment: GoldenSegment, data: bytes, **options: object) -> Outcome:
    return read(segment.among_neighbours(data), isolation="read_committed", include_control=False, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("entry", [TRANSACTIONAL_BATCH, MARKER_BATCH])
def test_a_damaged_producer_id_does_not_silently_end_a_committed_read(entry: int) -> None:
    """The transaction looks open, so the read would stop before the damage and call that the last stable offset."""
    segment = golden_segment("v2-none")
    assert read_committed(segment, flipped(segment, entry, PRODUCER_ID_POSITION)).reason == "crc"
    skipping = read_committed(segment, flipped(segment, entry, PRODUCER_ID_POSITION), on_damage="skip")
    assert [dropped.reason for dropped in skipping.report.dropped] == ["crc"]


def test_a_corrupt_length_before_a_marker_does_not_silently_end_a_committed_read() -> None:
    segment = golden_segment("v2-none")
    assert read_committed(segment, flipped(segment, MARKER_BATCH, 8)).error is not None


def test_a_flag_that_opens_a_transaction_is_believed_only_with_a_right_checksum() -> None:
    segment = golden_segment("v2-none")
    assert read_committed(segment, flipped(segment, IDEMPOTENT_BATCH, 22, 0x10)).reason == "crc"


def test_a_marker_that_turned_into_an_abort_takes_no_records_away() -> None:
    segment = golden_segment("v2-none")
    right = read_committed(segment, segment.data, stop_offset=BASE_OFFSET + 16)
    marker = bytearray(segment.entry_bytes(segment.entries[MARKER_BATCH]))
    kind = marker.index(b"\0\0\0\1", 61) + 3
    outcome = read_committed(segment, flipped(segment, MARKER_BATCH, kind), stop_offset=BASE_OFFSET + 16)
    assert right.records.num_rows == 16
    assert outcome.error is not None or outcome.records.equals(right.records)
    marker[kind] = 0
    honest = segment.data.replace(segment.entry_bytes(segment.entries[MARKER_BATCH]), repair_crc(marker))
    assert read_committed(segment, honest).records.num_rows == len(offsets_without(segment)) - 5


def test_a_damaged_maximum_timestamp_hides_no_batch_from_a_read_by_time() -> None:
    segment = golden_segment("v2-none")
    damaged = flipped(segment, 5, MAX_TIMESTAMP_POSITION + 2, 0x01)
    outcome = read(segment.alone(damaged), start_time_ms=FIRST_TIMESTAMP + 4000)
    assert outcome.reason == "crc"


def test_a_torn_last_batch_is_a_tail_for_salvage_too() -> None:
    first, last = (reference.encode_batch([reference.Record(offset, 1, None, b"x" * 2000)]) for offset in (0, 1))
    torn = bytearray(last)
    torn[600:1700] = bytes(1100)
    for mode in ("strict", "skip", "salvage"):
        outcome = read({segment_path(0): first + bytes(torn)}, on_damage=mode)
        assert (outcome.offsets, outcome.report.dropped) == ([0], [])
        assert [tail.reason for tail in outcome.report.tails] == ["torn-write"]


# T-23


class BrokenStore(MemoryStore):
    """Opens everything except one file, or fails in the middle of it."""

    def __init__(self, files: dict[str, bytes], broken: str, *, in_the_middle: bool) -> None:
        super().__init__(files)
        self.broken = broken
        self.in_the_middle = in_the_middle

    def open(self, path: str) -> MemoryFile:
        if path != self.broken:
            return super().open(path)
        if not self.in_the_middle:
            raise StorageError(f"{path}: opening failed: Permission denied", file=path)
        return BrokenFile(path, self.files[path])


class BrokenFile(MemoryFile):
    def read_into(self, position: int, target: memoryview) -> int:
        raise StorageError(f"{self.path}: reading at byte {position} failed: Input/output error", file=self.path)


@pytest.mark.parametrize("in_the_middle", [True, False])
@pytest.mark.parametrize("mode", ["skip", "salvage"])
def test_a_segment_that_storage_does_not_give_is_reported_and_the_others_are_read(mode: str, in_the_middle: bool) -> None:
    segment = golden_segment("v2-none")
    store = BrokenStore(segment.among_neighbours(), segment_path(BASE_OFFSET), in_the_middle=in_the_middle)
    options = ReadOptions(frozenset(SCHEMA.names), on_damage=mode, threads=1)
    report = ReadReport()
    batches = list(record_batches(find_partitions(store, FOLDER), SCHEMA, options, report))
    offsets = [offset for batch in batches for offset in batch["offset"].to_pylist()]
    assert offsets == [each.offset for each in segment.next_records]
    assert len(report.unread) == 1
    assert segment_path(BASE_OFFSET) in report.unread[0]
    strict = ReadOptions(frozenset(SCHEMA.names), threads=1)
    with pytest.raises(StorageError):
        list(record_batches(find_partitions(store, FOLDER), SCHEMA, strict, ReadReport()))


def test_the_command_line_reads_the_other_segments_and_exits_with_4(tmp_path: Path) -> None:
    segment = golden_segment("v2-none")
    folder = tmp_path / "golden-0"
    folder.mkdir()
    for path, data in segment.among_neighbours().items():
        (folder / Path(path).name).write_bytes(data)
    log = folder / Path(segment_path(BASE_OFFSET)).name
    log.unlink()
    os.mkfifo(log)
    command = [sys.executable, "-m", "kafkalog", "table", "records", str(folder), "--on-damage", "skip", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 4, done.stderr
    assert len(done.stdout.splitlines()) == len(segment.next_records)
    assert log.name in done.stderr


def test_a_record_length_is_never_believed_beyond_its_batch() -> None:
    outcome = read({segment_path(0): make_batch(make_record(b"\x7f" * 4))})
    assert outcome.error is not None
