"""Objects of a partition and of the engine show themselves in one short line, whatever they hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.engine.analysis import AppendInfo
from kafkalog.engine.appending import AppendResult
from kafkalog.engine.config import LogConfig
from kafkalog.engine.fetching import FetchResult
from kafkalog.engine.log_directory import LogDirectory
from kafkalog.engine.offsets import OffsetMetadata
from kafkalog.engine.partition_log import PartitionLog
from kafkalog.log.checks.finding import Finding
from kafkalog.log.partition import Partition, Segment, StoredFile
from kafkalog.log.report import Dropped, ReadReport
from kafkalog.log.transactions import Transaction
from kafkalog.storage.local import LocalStore

LONG = "a\n" * 5000
LOG = StoredFile("/data/o-0/00000000000000000007.log", 2048, 0, "log", 7)


def partition(name: str = "o", **changes: object) -> Partition:
    return Partition(LocalStore("/data"), "/data/o-0", name, 0, segments=(Segment(LOG),), **changes)  # type: ignore[arg-type]


def dropped(reason: str) -> Dropped:
    return Dropped("f", 0, 100, reason, -1, -1, "")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (partition(), "Partition('o-0', 1 segment, 2.0 KiB, from offset 7, '/data/o-0')"),
        (partition(state="future"), "Partition('o-0', 1 segment, 2.0 KiB, from offset 7, future, '/data/o-0')"),
        (Segment(LOG), "Segment('/data/o-0/00000000000000000007.log', 2.0 KiB, 0 index files, newest)"),
        (
            Segment(LOG, {"index": LOG}, 9, 5, 60),
            "Segment('/data/o-0/00000000000000000007.log', 2.0 KiB, 1 index file, bytes 5 to 60)",
        ),
        (ReadReport(), "ReadReport(0 records, 0 batches, 0 B, clean)"),
        (
            ReadReport(3, 1, 90, [dropped("crc"), dropped("crc"), dropped("length")], unread=["f"]),
            "ReadReport(3 records, 1 batch, 90 B, dropped 3 ranges of 300 B (crc 2, length 1), 1 unread file)",
        ),
        (
            Finding("crc", "error", "f", position=7, expected="1", found="2"),
            "Finding(crc, error, 'f', at byte 7, expected '1', found '2')",
        ),
        (
            Transaction(7, 1, 3, 0, 9, batch_count=2, record_count=5, size=90, state="aborted", marker_offset=10),
            "Transaction(aborted, producer 7 epoch 1, offsets 3 to 9, marker at 10, 2 batches, 5 records, 90 B)",
        ),
        (LogConfig(), "LogConfig()"),
        (
            LogConfig.of({"cleanup.policy": "delete,compact", "segment.ms": 5}),
            "LogConfig(cleanup.policy='compact,delete', segment.ms=5)",
        ),
        (LogDirectory("/data"), "LogDirectory('/data', 0 open logs)"),
        (FetchResult(OffsetMetadata(5), b"x" * 2048, True), "FetchResult(from offset 5, 2.0 KiB)"),
        (
            FetchResult(OffsetMetadata(5), b"", False, True, ((1, 2),)),
            "FetchResult(from offset 5, 0 B, not readable, first entry incomplete, 1 aborted transaction)",
        ),
        (
            AppendResult(0, 9, 2, 5, -1, 0, "lz4", 2048, 10, 0),
            "AppendResult(offsets 0 to 9, epoch 2, 10 records, 2.0 KiB, 'lz4')",
        ),
        (AppendInfo(), "AppendInfo(offsets -1 to -1, epoch -1, 0 B)"),
        (object.__new__(PartitionLog), "PartitionLog(not open)"),
    ],
)
def test_an_object_shows_what_it_is_in_one_line(value: object, text: str) -> None:
    assert repr(value) == text


def test_an_open_log_shows_its_offsets_and_that_it_is_closed(tmp_path: Path) -> None:
    folder = str(tmp_path / "o-0")
    with PartitionLog.open(folder) as log:
        assert repr(log) == f"PartitionLog('o-0', empty at offset 0, high watermark 0, 1 segment, 0 B, {folder!r})"
    assert "closed" in repr(log)


@pytest.mark.parametrize(
    "value",
    [
        partition(LONG, file=LONG, problems=(LONG,) * 1000),
        Segment(StoredFile(LONG, 1, 0, "log")),
        ReadReport(dropped=[dropped(str(number)) for number in range(1000)], unread=[LONG]),
        Finding("crc", "error", LONG, expected=LONG, found=LONG, detail=LONG),
        LogDirectory(LONG),
        FetchResult(OffsetMetadata(5), LONG.encode(), True, aborted=((1, 2),) * 1000),
    ],
)
def test_hostile_and_long_content_stays_one_short_line(value: object) -> None:
    text = repr(value)
    assert len(text) < 600
    assert "\n" not in text
