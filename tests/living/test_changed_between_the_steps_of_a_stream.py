"""A broker cleans or removes segments between the steps of a micro-batch: what is left is read, and a loss is named as one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.small_logs import write_segment
from tests.conftest import require
from tests.living.changing import StreamReader, batch_of, rows_of, when_opened
from tests.living.test_cleaned_after_planning import planned_rows, write_three_segments


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    require("pyspark")
    write_three_segments(tmp_path / "orders-0")
    return tmp_path / "orders-0"


def clean(folder: Path) -> None:
    """The first two segments become one, in which 50 to 99 are left of the first: a new file under the name of the old one."""
    batches = [batch_of(range(first, first + 10)) for first in range(50, 200, 10)]
    write_segment(folder / "cleaned", 0, *batches).replace(folder / f"{0:020}.log")
    (folder / "cleaned").rmdir()
    (folder / f"{0:020}.index").unlink()
    (folder / f"{100:020}.log").unlink()


def next_batch(stream: StreamReader) -> tuple[object, object]:
    from kafkalog.spark.offered import ReadAllAvailable

    return stream.offset, stream.reader.latestOffset(stream.offset, ReadAllAvailable())


def test_segments_cleaned_after_the_end_was_chosen_are_read_as_they_are_now(folder: Path) -> None:
    stream = StreamReader(folder.parent, startingOffsets='{"orders":{"0":130}}')
    start, end = next_batch(stream)
    clean(folder)
    assert sorted(planned_rows(stream.reader, stream.reader.partitions(start, end))) == rows_of(range(130, 300))


def test_segments_removed_after_the_end_was_chosen_are_a_loss_that_is_named(folder: Path) -> None:
    stream = StreamReader(folder.parent, startingOffsets='{"orders":{"0":130}}')
    start, end = next_batch(stream)
    for base in (0, 100):
        (folder / f"{base:020}.log").unlink()
    with pytest.raises(Exception, match=r"KAFKALOG_DATA_LOSS: orders-0 .*\b200\b"):
        planned_rows(stream.reader, stream.reader.partitions(start, end))


@pytest.mark.parametrize("after", [False, True], ids=["before it is opened", "while it is read"])
def test_a_segment_cleaned_when_a_task_reads_it_does_not_end_the_query(
    folder: Path, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = StreamReader(folder.parent)
    parts = stream.reader.partitions(*next_batch(stream))
    has_happened = when_opened(monkeypatch, folder / f"{0:020}.log", lambda: clean(folder), after=after)
    rows = sorted(planned_rows(stream.reader, parts))
    assert has_happened()
    # Removed records may still have been read.
    assert rows[-250:] == rows_of(range(50, 300))
    assert rows in (rows_of(range(300)), rows_of(range(50, 300)))


def test_a_segment_cleaned_after_the_listing_does_not_end_the_choice_of_the_next_end(folder: Path) -> None:
    """The entry before an end is looked up in the files of the last listing, which is a second old at most."""
    stream = StreamReader(folder.parent, startingOffsets='{"orders":{"0":130}}', maxOffsetsPerTrigger="20")
    limit = stream.reader.getDefaultReadLimit()
    end = stream.reader.latestOffset(stream.offset, limit)
    assert end["orders"] == {"0": 150}
    clean(folder)
    assert stream.reader.latestOffset(end, limit)["orders"] == {"0": 170}
