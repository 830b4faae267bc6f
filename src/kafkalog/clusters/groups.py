"""The groups of a cluster from `__consumer_offsets`, and how far each of them lags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from kafkalog.errors import CorruptBatch, KafkaLogError, Limits, StorageError
from kafkalog.format import batch, control
from kafkalog.format.entry_table import Ints
from kafkalog.log.newest import UNREADABLE, rank
from kafkalog.log.partition import Partition, Segment
from kafkalog.log.reading import NARROW_WINDOW_BYTES, ReadOptions, read_records
from kafkalog.log.report import ReadReport
from kafkalog.log.swap_segments import with_finished_segments
from kafkalog.payloads.group_image import Commit, GroupsImage
from kafkalog.payloads.internal_topics import UnknownRecordType, decode_consumer_offsets, decode_control_record
from kafkalog.segment.arrays import Constants
from kafkalog.segment.decode import HIGHEST, RecordRange
from kafkalog.segment.windows import SegmentWalk

from .copies import COLUMNS, OFFSETS_TOPIC, Copy, LogEnd, StoredRecord, by_partition, iter_stored_records, log_end, rank_copies

NO_PRODUCER: Final = -1
NO_NUMBERS: Final = np.empty(0, np.int64)


def read_groups(
    partitions: Iterable[Partition],
    *,
    history: bool = False,
    limits: Limits | None = None,
    report: ReadReport | None = None,
    strict: bool = False,
) -> GroupsImage:
    """Groups and committed offsets, from the newest copy of each partition of `__consumer_offsets` that is there.

    Where it is damaged, another copy that goes as far takes its place; without one, damage is an error with `strict`, else it is
    left out and in the report.
    """
    limits, report = limits or Limits(), report if report is not None else ReadReport()
    image = GroupsImage(history=history)
    found = {number: copies for (topic, number), copies in by_partition(partitions).items() if topic == OFFSETS_TOPIC}
    for number in sorted(found):
        try:
            ranked = rank_copies([with_finished_segments(copy, limits) for copy in found[number]], limits, report)
        except StorageError as error:
            if strict:
                raise
            report.leave_unread(error)
            continue
        for record in _intact_records(ranked, limits, report, strict=strict):
            _apply(image, number, record)
    return image


def _intact_records(ranked: list[Copy], limits: Limits, report: ReadReport, *, strict: bool) -> Iterator[StoredRecord]:
    """The records of the newest copy; of several that go as far, of the first without damage."""
    newest = [copy.partition for copy in ranked if copy.goes_as_far_as(ranked[0])]
    chosen = next((copy for copy in newest if _is_intact(copy, limits)), newest[0]) if len(newest) > 1 else newest[0]
    return iter_stored_records(chosen, _options("strict" if strict else "skip", limits), report)


def _is_intact(partition: Partition, limits: Limits) -> bool:
    options = ReadOptions(frozenset({"offset"}), include_control=True, threads=1, limits=limits)
    try:
        for _ in read_records([partition], options, ReadReport()):
            pass
    except KafkaLogError:
        return False
    return True


def _options(on_damage: str, limits: Limits) -> ReadOptions:
    return ReadOptions(frozenset(COLUMNS), on_damage=on_damage, include_control=True, threads=1, limits=limits)


def _apply(image: GroupsImage, partition: int, record: StoredRecord) -> None:
    if record.is_control:
        _end(image, partition, record)
        return
    if record.key is None:
        image.skip("null key")
        return
    try:
        decoded = decode_consumer_offsets(record.key, record.value)
    except UnknownRecordType as error:
        image.skip(f"type {error.type}")
        return
    except CorruptBatch as error:
        image.skip(error.detail)
        return
    producer_id = record.producer_id if record.is_transactional and record.producer_id != NO_PRODUCER else None
    image.apply(decoded, partition, record.offset, producer_id)


def _end(image: GroupsImage, partition: int, record: StoredRecord) -> None:
    try:
        marker = decode_control_record(record.key, record.value)
    except CorruptBatch:
        image.skip("control record")
        return
    if isinstance(marker, control.EndTxnMarker):
        image.end_transaction(partition, record.producer_id, commit=marker.commit)


@dataclass(frozen=True)
class Position:
    """Where a committed offset is in its log; None for what the disks do not say.

    `lag` is the number of offsets from it to the end of the log. `lag_ms` is the time between the first record that was not
    committed and the newest record, by their timestamps; 0 if there is none.
    """

    log_start_offset: int | None = None
    log_end_offset: int | None = None
    lag: int | None = None
    lag_ms: int | None = None


class Positions:
    """Positions in the logs of some disks. Each log's end is read once, from the newest copy."""

    def __init__(self, partitions: Iterable[Partition], limits: Limits | None = None, *, with_times: bool = True) -> None:
        self._limits = limits or Limits()
        self._copies = by_partition(partitions)
        self._newest: dict[tuple[str, int], Copy | None] = {}
        self._lags: dict[tuple[str, int, int], int | None] = {}
        self._times: dict[str, tuple[Ints, Ints]] = {}
        self._with_times = with_times

    def newest(self, topic: str, number: int) -> Copy | None:
        """The newest copy of a partition; None without one that can be read."""
        key = topic, number
        if key not in self._newest:
            self._newest[key] = self._find_newest(self._copies.get(key, []))
        return self._newest[key]

    def _find_newest(self, copies: list[Partition]) -> Copy | None:
        found: list[Copy] = []
        for copy in copies:
            try:
                end = log_end(copy, self._limits) if copy.segments else LogEnd(-1, copy.start_offset)
            except KafkaLogError:
                continue
            found.append(Copy(copy, end, rank(copy, self._limits) if len(copies) > 1 else UNREADABLE))
        return max(found, key=lambda copy: copy.newest, default=None)

    def of(self, commit: Commit) -> Position:
        """The position of a commit; a topic that was created again since is another one."""
        copy = self.newest(commit.topic, commit.partition)
        if copy is None or commit.offset is None or commit.offset < 0 or _is_other_topic(copy.partition, commit):
            return Position()
        end = copy.end.offset
        lag = max(end - commit.offset, 0)
        return Position(copy.partition.start_offset, end, lag, self._lag_ms(copy, commit.offset) if lag else 0)

    def _lag_ms(self, copy: Copy, offset: int) -> int | None:
        key = copy.partition.topic, copy.partition.partition, offset
        if self._with_times and key not in self._lags:
            self._lags[key] = self._find_lag(copy.partition, offset)
        return self._lags.get(key)

    def _find_lag(self, partition: Partition, offset: int) -> int | None:
        try:
            first, newest = self._timestamp_from(partition, offset), self._newest_timestamp(partition, offset)
        except KafkaLogError:
            return None
        return None if first is None or min(first, newest) < 0 else newest - first

    def _newest_timestamp(self, partition: Partition, offset: int) -> int:
        """The largest timestamp of the batches of data from an offset on; -1 without one."""
        newest = -1
        for segment in partition.segments_from(offset):
            lasts, times = self._times_of(partition, segment)
            at = int(np.searchsorted(lasts, offset))
            newest = max(newest, int(times[at]) if at < len(times) else -1)
        return newest

    def _times_of(self, partition: Partition, segment: Segment) -> tuple[Ints, Ints]:
        """The last offset of each batch of data of a segment, and the largest timestamp from there to the segment's end."""
        path = segment.log.path
        if path not in self._times:
            lasts, times = [NO_NUMBERS], [NO_NUMBERS]
            with partition.open_log(segment) as source:
                for entries in SegmentWalk(source, 0, source.size, self._limits).headers():
                    data = (entries.attributes & batch.CONTROL == 0) | (entries.magic < 2)
                    lasts.append(entries.last_offset[data])
                    times.append(entries.max_timestamp[data])
            rising = np.maximum.accumulate(np.concatenate(times)[::-1])[::-1]
            self._times[path] = np.maximum.accumulate(np.concatenate(lasts)), rising
        return self._times[path]

    def _timestamp_from(self, partition: Partition, offset: int) -> int | None:
        """The timestamp of the first record at or after an offset."""
        options = ReadOptions(
            frozenset({"offset", "timestamp_ms"}),
            record_range=RecordRange(offset, HIGHEST),
            on_damage="skip",
            threads=1,
            limits=self._limits,
            window_bytes=NARROW_WINDOW_BYTES,
        )
        for found in read_records([partition], options, ReadReport()):
            if found.stop > found.start:
                first: int = found.columns.column("timestamp_ms", Constants(), found.start, found.start + 1)[0].as_py()
                return first
        return None


def _is_other_topic(partition: Partition, commit: Commit) -> bool:
    return None not in (commit.topic_id, partition.topic_id) and commit.topic_id != partition.topic_id


def committed_offsets(image: GroupsImage) -> Iterator[Commit]:
    """The committed offsets, by group, topic and partition."""
    for group_id in sorted(image.offsets):
        for key in sorted(image.offsets[group_id]):
            yield image.offsets[group_id][key]
