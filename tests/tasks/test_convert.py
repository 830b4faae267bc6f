"""Rewritten entries: what changes and what must not, batch by batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog import codecs
from kafkalog.errors import CorruptBatch, UsageError
from kafkalog.format.reference import encode_batch, encode_empty_batch, encode_message, encode_wrapper
from tests.builders.small_logs import compress, made_batch, made_records, marker, read_rows, transactional_batch, write_segment

COLUMNS = ["offset", "timestamp_ms", "timestampType", "key", "value", "headers_raw"]


def converted(folder: Path, out: Path, **options: Any) -> Path:
    (result,) = kafkalog.convert(folder, out=out, **options)
    assert result.state == "written"
    assert {finding.reason for finding in kafkalog.verify(result.folder)} <= {"gap", "sequence-gap"}
    return Path(result.folder)


def batches(folder: Path, *columns: str) -> list[Any]:
    return read_rows(folder, "batches", list(columns))


@pytest.mark.parametrize("codec", [None, "zstd"])
def test_what_brokers_and_producers_rely_on_stays(tmp_path: Path, codec: str | None) -> None:
    folder = tmp_path / "orders-0"
    entries = [
        made_batch(0, producer_id=5, producer_epoch=1, base_sequence=70),
        transactional_batch(10, 10, 7),
        marker(20, 7, commit=False),
        made_batch(25, delete_horizon_ms=99, codec=codecs.LZ4),
        made_batch(40, log_append_time=1234),
        encode_empty_batch(base_offset=50, last_offset=59, max_timestamp=5, producer_id=5, producer_epoch=1, base_sequence=80),
    ]
    write_segment(folder, 0, *entries)
    new = converted(folder, tmp_path / "new", codec=codec, batch_bytes=1 << 20)
    same = ("base_offset", "last_offset", "record_count", "timestamp_type", "max_timestamp_ms", "leader_epoch")
    more = ("is_transactional", "is_control", "delete_horizon_ms", "producer_id", "producer_epoch", "base_sequence")
    assert batches(new, *same, *more) == batches(folder, *same, *more)
    assert read_rows(new, columns=COLUMNS) == read_rows(folder, columns=COLUMNS)
    before = batches(folder, "codec")
    assert batches(new, "codec") == ([codec, codec, "none", codec, codec, "none"] if codec else before)


def test_batches_are_merged_only_where_nobody_relies_on_them(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    holed = encode_batch(made_records(20, 5, step=2))
    write_segment(folder, 0, made_batch(0), made_batch(10), holed, made_batch(30), made_batch(50), made_batch(60, leader_epoch=3))
    new = converted(folder, tmp_path / "new", batch_bytes=1 << 20)
    assert batches(new, "base_offset") == [0, 20, 30, 60]
    assert read_rows(new, columns=COLUMNS) == read_rows(folder, columns=COLUMNS)
    again = converted(new, tmp_path / "again", batch_bytes=1 << 20)
    assert (again / f"{0:020d}.log").read_bytes() == (new / f"{0:020d}.log").read_bytes()


@pytest.mark.parametrize("magic", [0, 1])
def test_sets_become_a_batch_each_and_single_messages_are_gathered(tmp_path: Path, magic: int) -> None:
    folder = tmp_path / "orders-0"
    single = [encode_message(record, magic=magic) for record in made_records(0, 30)]
    sets = [encode_wrapper(made_records(start, 10), magic=magic, codec=codecs.GZIP, compress=compress) for start in (30, 50)]
    write_segment(folder, 0, *single, *sets)
    new = converted(folder, tmp_path / "new")
    assert batches(new, "base_offset", "codec", "magic") == [
        {"base_offset": first, "codec": codec, "magic": 2} for first, codec in ((0, "none"), (30, "gzip"), (50, "gzip"))
    ]
    same = ["offset", "timestamp_ms", "key", "value"]
    assert read_rows(new, columns=same) == read_rows(folder, columns=same)


def test_a_batch_of_append_time_holds_records_of_one_time(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    sets = [
        encode_wrapper(made_records(start, 10), magic=1, codec=codecs.GZIP, compress=compress, log_append_time=time)
        for start, time in ((0, 7), (10, 7), (20, 8))
    ]
    write_segment(folder, 0, *sets)
    new = converted(folder, tmp_path / "new", batch_bytes=1 << 20)
    assert batches(new, "base_offset", "max_timestamp_ms", "timestamp_type") == [
        {"base_offset": 0, "max_timestamp_ms": 7, "timestamp_type": 1},
        {"base_offset": 20, "max_timestamp_ms": 8, "timestamp_type": 1},
    ]
    assert read_rows(new, columns=COLUMNS) == read_rows(folder, columns=COLUMNS)


def test_damage_ends_it_and_nothing_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    damaged = bytearray(made_batch(10))
    damaged[80] ^= 1
    write_segment(folder, 0, made_batch(0), bytes(damaged), made_batch(20))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(CorruptBatch):
        kafkalog.convert(folder, out=tmp_path / "new", codec="gzip")
    assert list((tmp_path / "new").iterdir()) == []
    with pytest.raises(CorruptBatch):
        kafkalog.convert(folder, in_place=True, codec="gzip")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_in_place_only_segments_that_change_are_written_and_a_second_run_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    write_segment(folder, 0, made_batch(0, codec=codecs.GZIP))
    write_segment(folder, 10, made_batch(10))
    rows = read_rows(folder, columns=COLUMNS)
    kept = (folder / f"{0:020d}.log").stat().st_ino
    (first,) = kafkalog.convert(folder, in_place=True, codec="gzip")
    assert (first.state, first.changed_segments) == ("written", 1)
    assert (folder / f"{0:020d}.log").stat().st_ino == kept
    assert read_rows(folder, columns=COLUMNS) == rows
    assert batches(folder, "codec") == ["gzip", "gzip"]
    (second,) = kafkalog.convert(folder, in_place=True, codec="gzip")
    assert (second.state, second.changed_segments) == ("already there", 0)
    with pytest.raises(UsageError, match="either --out DIR or --in-place"):
        kafkalog.convert(folder)
