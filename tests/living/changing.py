"""Logs that change between two runs, as a broker changes them: the steps of the focused tests, made without a broker."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from kafkalog.format.checkpoint import PartitionMetadata, encode_partition_metadata
from kafkalog.format.reference import Record, encode_batch
from kafkalog.storage.local import LocalStore
from kafkalog.storage.store import ByteSource
from tests.builders.small_logs import FIRST_TIME, write_segment
from tests.spark.ingested import read_table

Row = tuple[int, bytes]


def batch_of(offsets: Sequence[int], word: str = "first", leader_epoch: int = 0) -> bytes:
    """A batch whose size does not depend on its offsets: keys and values of one length, as compacted topics often have."""
    first = offsets[0]
    records = [Record(each, FIRST_TIME, b"key-%03d" % (each % 100), value_of(each, word)) for each in offsets]
    assert list(offsets) == list(range(first, first + len(offsets)))
    return encode_batch(records, leader_epoch=leader_epoch)


def value_of(offset: int, word: str = "first") -> bytes:
    return b"%s %05d" % (word.encode(), offset)


def rows_of(offsets: Sequence[int], word: str = "first") -> list[Row]:
    return [(each, value_of(each, word)) for each in offsets]


def write_log(folder: Path, stop: int, *, topic_id: str | None = "AAAAAAAAAAAAAAAAAAAAAQ", word: str = "first") -> Path:
    """A partition with the offsets 0 to `stop` in batches of ten, of leader epoch 0."""
    batches = [batch_of(range(first, first + 10), word) for first in range(0, stop, 10)]
    log = write_segment(folder, 0, *batches, indexed=range(1, len(batches), 3))
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    if topic_id is not None:
        (folder / "partition.metadata").write_bytes(encode_partition_metadata(PartitionMetadata(0, topic_id)))
    return log


def truncate(log: Path, offset: int) -> None:
    """Truncate as a follower whose leader is shorter; `offset` is a multiple of ten."""
    end = len(batch_of(range(10))) * (offset // 10)
    with log.open("r+b") as file:
        file.truncate(end)
    index = log.with_suffix(".index")
    entries = [entry for entry in struct.iter_unpack(">ii", index.read_bytes()) if entry[1] < end]
    index.write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))


def write_on(log: Path, offsets: range, word: str, leader_epoch: int) -> None:
    """Other records under a new leader epoch, in batches of ten."""
    with log.open("ab") as file:
        for first in range(offsets.start, offsets.stop, 10):
            file.write(batch_of(range(first, first + 10), word, leader_epoch))
    (log.parent / "leader-epoch-checkpoint").write_text(f"0\n2\n0 0\n{leader_epoch} {offsets.start}\n")


def when_opened(
    monkeypatch: pytest.MonkeyPatch, path: Path, change: Callable[[], None], *, after: bool = False
) -> Callable[[], bool]:
    """Make a broker `change` something before `path` is opened for the first time, or right after. Whether that has happened."""
    opened: list[str] = []
    open_file = LocalStore.open

    def open_beside_change(self: LocalStore, asked: str) -> ByteSource:
        is_due = asked == str(path) and not opened
        opened.extend([asked] * is_due)
        if is_due and not after:
            change()
        found = open_file(self, asked)
        if is_due and after:
            change()
        return found

    monkeypatch.setattr(LocalStore, "open", open_beside_change)
    return lambda: bool(opened)


def append_when_opened(monkeypatch: pytest.MonkeyPatch, log: Path, entry: bytes) -> Callable[[], bool]:
    """The same with a batch that is appended and indexed."""

    def append() -> None:
        position = log.stat().st_size
        with log.open("ab") as file:
            file.write(entry)
        relative = int.from_bytes(entry[:8], "big") - int(log.stem)
        with log.with_suffix(".index").open("ab") as index:
            index.write(struct.pack(">ii", relative, position))

    return when_opened(monkeypatch, log, append)


def table_rows(target: Path) -> list[Row]:
    return sorted(read_table(target, ["offset", "value"]))


def superseded_rows(target: Path) -> list[Row]:
    """The rows that were taken once and are no longer in the log."""
    folder = target / "_superseded"
    found: list[dict[str, Any]] = ds.dataset(str(folder)).to_table(["offset", "value"]).to_pylist() if folder.exists() else []
    return sorted((row["offset"], row["value"]) for row in found)


class StreamReader:
    """A stream as Spark drives it, by the JSON that Spark writes down; `restart` continues from that alone."""

    def __init__(self, path: Path, **options: str) -> None:
        self.path = path
        self.options = {"path": str(path), "startingOffsets": "earliest", **options}
        self.restart()
        self.offset: dict[str, Any] = self.reader.initialOffset()

    def restart(self) -> None:
        from kafkalog.spark.source import KafkaLogDataSource

        source = KafkaLogDataSource(dict(self.options))
        self.reader: Any = source.streamReader(source.schema())

    def micro_batch(self) -> list[Row]:
        """The rows of the next micro-batch."""
        from kafkalog.spark.offered import ReadAllAvailable

        start, self.offset = self.offset, self.reader.latestOffset(self.offset, ReadAllAvailable())
        return self.rows(start, self.offset)

    def rows(self, start: dict[str, Any], end: dict[str, Any]) -> list[Row]:
        batches = [batch for part in self.reader.partitions(start, end) for batch in self.reader.read(part)]
        self.reader.commit(end)
        return sorted((row["offset"], row["value"]) for batch in batches for row in batch.to_pylist())
