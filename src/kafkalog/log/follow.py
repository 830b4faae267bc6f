"""Follow partitions as a running broker appends to them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from kafkalog.errors import SegmentChanged, StorageError

from .folders import find_partitions
from .partition import Partition
from .reading import ReadOptions
from .report import ReadReport
from .swap_segments import SwapWatch
from .tail import PartitionTail

# Each batch with the offset after its last record.
ReadBatches = Callable[[Partition, ReadOptions, ReadReport], Iterator[tuple[pa.RecordBatch, int]]]

# A file may vanish between listing and opening it (retention, compaction); if it stays away, that is an error.
FAILED_ROUNDS = 5


def follow_partitions(
    partitions: Sequence[Partition],
    options: ReadOptions,
    read: ReadBatches,
    poll_seconds: float,
    stop: Callable[[], bool] | None,
    report: ReadReport,
    start_offsets: Mapping[str, int],
) -> Iterator[pa.RecordBatch]:
    """Existing records, then new ones as they arrive, partition by partition in each round; `start_offsets` by folder."""
    followed = [_Followed(found, options, read, report, start_offsets.get(found.folder)) for found in partitions]
    stopping = False
    while True:
        stopping = stopping or (stop is not None and stop())
        found = False
        for each in followed:
            for batch in each.new_batches():
                found = True
                yield batch
        if stopping and not any(each.waits for each in followed):
            return
        if not found:
            time.sleep(poll_seconds)


class _Followed:
    """A partition and the offset up to which it has been read."""

    def __init__(
        self, partition: Partition, options: ReadOptions, read: ReadBatches, report: ReadReport, start_offset: int | None
    ) -> None:
        self.partition = partition
        self.options = options
        self.read = read
        self.report = report
        self.offset = options.record_range.start_offset if start_offset is None else start_offset
        self.failed_rounds = 0
        self.swaps = SwapWatch(options.limits)
        self.waits = False  # for a broker that is replacing segments
        self.tail = PartitionTail(
            options.limits, transactions=options.isolation == "read_committed", pass_damage=options.on_damage != "strict"
        )

    def new_batches(self) -> Iterator[pa.RecordBatch]:
        round_report = ReadReport()
        try:
            current = self._current()
            self.waits = current is None
            stop_offset = self.offset if current is None else self._stop_offset(current)
            if current is not None and stop_offset > self.offset:
                record_range = replace(self.options.record_range, start_offset=self.offset, stop_offset=stop_offset)
                committed = self.tail.committed(self.offset, stop_offset)
                options = replace(self.options, record_range=record_range, committed=committed)
                for batch, following in self.read(current, options, round_report):
                    self.offset = max(self.offset, following)
                    yield batch
                self.offset = stop_offset
                self.tail.forget_before(stop_offset)
            self.failed_rounds = 0
        except (SegmentChanged, StorageError):
            self.failed_rounds += 1
            if self.failed_rounds == FAILED_ROUNDS:
                raise
        finally:
            self.report.add(round_report)

    def _current(self) -> Partition | None:
        """The partition as it is now; None while a broker is replacing segments."""
        return self.swaps.settled(find_partitions(self.partition.store, self.partition.file or self.partition.folder)[0])

    def _stop_offset(self, current: Partition) -> int:
        """Where whole entries end now or, for read_committed, where the first open transaction begins."""
        self.tail.look(current)
        if self.tail.damage is not None and self.tail.end_offset <= self.offset:
            raise self.tail.damage
        return min(self.tail.stable_offset, self.options.record_range.stop_offset)
