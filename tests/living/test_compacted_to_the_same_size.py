"""A cleaned segment may have the name and the size of the one that was taken: neither proves that it is the same."""

from __future__ import annotations

from pathlib import Path

from kafkalog.format.reference import Record, encode_batch
from kafkalog.spark.ingestion.manifest import PROOF_BYTES
from tests.builders.small_logs import FIRST_TIME, write_segment
from tests.conftest import require
from tests.living.changing import StreamReader, batch_of, rows_of, table_rows, write_log
from tests.spark.ingested import take


def compact(folder: Path) -> None:
    """Two more segments came, and the first two were cleaned into one of the size that segment 0 had: 100 to 199 are left."""
    before = (folder / f"{0:020}.log").stat().st_size
    cleaned = write_segment(folder, 0, *(batch_of(range(first, first + 10)) for first in range(100, 200, 10)))
    write_segment(folder, 200, *(batch_of(range(first, first + 10)) for first in range(200, 300, 10)))
    assert cleaned.stat().st_size == before


def test_records_of_a_cleaned_segment_that_kept_its_size_are_not_passed_over(tmp_path: Path) -> None:
    folder, target = tmp_path / "logs" / "orders-0", tmp_path / "tables"
    write_log(folder, 100)
    take(tmp_path / "logs", target)
    compact(folder)
    summary = take(tmp_path / "logs", target)
    assert table_rows(target) == rows_of(range(300))
    assert summary.records == 200
    assert summary.gaps == ()


def test_a_cleaned_segment_that_kept_its_size_and_has_nothing_new_adds_nothing(tmp_path: Path) -> None:
    folder, target = tmp_path / "logs" / "orders-0", tmp_path / "tables"
    log = write_log(folder, 100)
    write_segment(folder, 100, batch_of(range(100, 110)))
    take(tmp_path / "logs", target)
    log.write_bytes(log.read_bytes())  # another file of the same bytes
    write_segment(folder, 100, batch_of(range(100, 110)), batch_of(range(110, 120)))
    take(tmp_path / "logs", target)
    assert table_rows(target) == rows_of(range(120))


def test_large_values_that_end_alike_are_not_passed_over_in_a_cleaned_segment_that_kept_its_size(tmp_path: Path) -> None:
    folder, target = tmp_path / "logs" / "orders-0", tmp_path / "tables"
    write_log(folder, 0)
    write_segment(folder, 0, *map(large_batch, range(100)))
    take(tmp_path / "logs", target)
    write_segment(folder, 0, *map(large_batch, range(100, 200)))
    write_segment(folder, 200, *map(large_batch, range(200, 300)))
    take(tmp_path / "logs", target)
    assert [offset for offset, _ in table_rows(target)] == list(range(300))


def large_batch(offset: int) -> bytes:
    """More bytes that are the same in every batch than a commit notes a checksum of."""
    return encode_batch([Record(offset, FIRST_TIME, b"key-%03d" % (offset % 100), bytes(2 * PROOF_BYTES))], leader_epoch=0)


def test_a_stream_reads_what_a_cleaned_segment_of_the_same_size_holds(tmp_path: Path) -> None:
    require("pyspark")
    folder = tmp_path / "orders-0"
    write_log(folder, 100)
    stream = StreamReader(tmp_path)
    assert stream.micro_batch() == rows_of(range(100))
    compact(folder)
    stream.restart()
    assert stream.micro_batch() == rows_of(range(100, 300))
