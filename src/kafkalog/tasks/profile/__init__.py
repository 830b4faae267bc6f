"""`kafkalog.profile`: why is my disk full? One pass over the logs, in memory that does not grow with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kafkalog.errors import KafkaLogError, Limits, UsageError
from kafkalog.format import batch
from kafkalog.format.entry_table import EntryTable
from kafkalog.log.batches import read_batches
from kafkalog.log.partition import Partition, StoredFile
from kafkalog.log.reading import ReadOptions, RecordSlice, read_records
from kafkalog.log.report import ReadReport
from kafkalog.log.transactions import AbortedRanges, TransactionReplay, replay_transactions
from kafkalog.tables.choices import Names, Numbers, several_names, several_numbers
from kafkalog.tables.logs import DAMAGE_MODES, Logs, Path, open_logs, readable
from kafkalog.tasks.compression_ratio import Measured, measure_sample
from kafkalog.tasks.transactions import transactional_ids

from .entry_counts import EntryCounts, header_counts
from .keys import Compactable
from .observer import Observer
from .record_counts import COLUMNS, RecordCounts, hours_of
from .result import DiskUse, Profile, Ranking
from .retention import DEFAULT_RETENTION_MS, FutureTimestamps
from .saving import ZstdTrial

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

# Several windows are decoded at once, with all their values, so those of a compressed log have to be smaller.
DECODED_WINDOW_BYTES = 2 << 20
LEAST_WINDOW_BYTES = 64 << 10
PLAIN_RATIO = 1.5  # below it windows are as large as those of any other read, which costs least
PLACES = 3
INDEX_KINDS = ("index", "timeindex", "txnindex")
TOP = 10

Progress = Callable[[ReadReport], None]


def profile(
    path: Path | Sequence[Path] | Logs,
    *,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    top: int = TOP,
    quick: bool = False,
    on_damage: str = "skip",
    now_ms: int | None = None,
    retention_ms: int = DEFAULT_RETENTION_MS,
    threads: int | None = None,
    limits: Limits | None = None,
    filesystem: FileSystem | None = None,
    on_progress: Progress | None = None,
) -> Profile:
    """Why is the disk full: the bytes at `path` by topic, hour, codec, producer, key and more, and what could be saved.

    One pass over the data, in memory that does not grow with it; estimates state their error. Rankings list the `top` heaviest.
    `quick` reads headers and a few batches only: nothing by key, header name or duplicates, and hours are those of batches.
    Damaged batches are left out and listed in the result's `report`, unless `on_damage` says otherwise. Timestamps after `now_ms`
    (default: now) keep segments from being deleted; `retention_ms` says until when.
    """
    check_choices(top, on_damage, threads)
    topics, partitions = several_names("topics", topics), several_numbers("partitions", partitions)
    logs = path if isinstance(path, Logs) else open_logs(path, filesystem=filesystem)
    chosen = logs.choose(topics, partitions)
    now = int(time.time() * 1000) if now_ms is None else now_ms
    options = ReadOptions(
        COLUMNS, on_damage=on_damage, include_control=True, include_empty=True, threads=threads, limits=limits or Limits()
    )
    run = ProfileRun(chosen, options, FutureTimestamps(now, retention_ms), on_progress)
    run.read(quick=quick)
    return profile_result(run, logs, now, top, quick=quick, disk=disk_use(logs, chosen, topics, partitions))


def check_choices(top: int, on_damage: str, threads: int | None) -> None:
    if on_damage not in DAMAGE_MODES:
        raise UsageError(f"on_damage={on_damage!r} is unknown; allowed are {', '.join(DAMAGE_MODES)}")
    for name, number in (("top", top), ("threads", threads)):
        if number is not None and number < 1:
            raise UsageError(f"{name}={number!r}: at least 1")


class ProfileRun:
    """One pass over partitions; an observer sees what it reads."""

    def __init__(
        self,
        partitions: list[Partition],
        options: ReadOptions,
        future: FutureTimestamps,
        on_progress: Progress | None,
        observer: Observer | None = None,
    ) -> None:
        self.partitions = partitions
        self.options = options
        self.future = future
        self.on_progress = on_progress
        self.observer = observer
        self.report = ReadReport()
        self.entries = EntryCounts()
        self.records = RecordCounts(observer, [partition.topic for partition in partitions])
        self.zstd = ZstdTrial(partitions, options.limits)

    def _each(self) -> Iterator[Partition]:
        # Records before the log start offset still take up space.
        for partition in readable(self.partitions, self.options, self.report):
            yield replace(partition, log_start_offset=None)

    def _show_progress(self) -> None:
        if self.on_progress is not None:
            self.on_progress(self.report)

    def part(self, partitions: list[Partition], observer: Observer | None) -> ProfileRun:
        """A run over some of the partitions, which `merge` can take."""
        future = FutureTimestamps(0, self.future.retention_ms)
        future.bound_ms = self.future.bound_ms
        part = ProfileRun(partitions, self.options, future, None, observer)
        part.records = RecordCounts(observer, self.records.topics)
        part.zstd = self.zstd.part(partitions)
        return part

    def merge(self, other: ProfileRun) -> None:
        """Add what a run over other partitions counted."""
        tails = [*self.report.tails, *other.report.tails]
        self.report.add(other.report)
        self.report.tails = tails
        self.entries.merge(other.entries)
        self.records.merge(other.records)
        self.future.merge(other.future)
        self.zstd.merge(other.zstd)

    def read(self, *, quick: bool) -> None:
        (self.read_headers if quick else self.read_records)()

    def read_headers(self) -> None:
        options = replace(self.options, columns=frozenset())
        replayed = None
        for found in read_batches(self._each(), options, self.report):
            if self.observer is not None and replayed != found.partition.folder and _is_transactional(found.entries):
                replayed = found.partition.folder
                self._replay(found.partition)
            counts, uncounted = header_counts(found.entries)
            self.entries.add(found.partition, found.entries, counts, None, uncounted)
            self.report.kept_records += int(counts.sum())
            hours = hours_of(found.entries.max_timestamp)
            self.records.hours.add_numbers(hours, np.ascontiguousarray(found.entries.size), counts)
            self.future.add_entries(found.file, found.entries, count=True)
            self.zstd.add(found.partition, found.file, found.entries)
            if self.observer is not None:
                self.observer.see_entries(found.partition, found.file, found.entries, counts)
            self._show_progress()

    def read_records(self) -> None:
        for partition in self._each():
            self.records.begin(partition)
            aborted: AbortedRanges | None = None
            options = replace(self.options, window_bytes=_window_bytes(partition, self.options.limits))
            for found in read_records([partition], options, self.report):
                table = found.columns.entry_table[found.first_entry : found.stop_entry]
                if aborted is None and _is_transactional(table):
                    aborted = self._replay(partition).aborted()
                self._count(found, aborted)
                self._show_progress()
            self.records.end(partition)

    def _replay(self, partition: Partition) -> TransactionReplay:
        replay = replay_transactions(partition, self.options.limits, ReadReport())
        if self.observer is not None:
            self.observer.see_transactions(partition, replay)
        return replay

    def _count(self, found: RecordSlice, aborted: AbortedRanges | None) -> None:
        columns, entries = found.columns, slice(found.first_entry, found.stop_entry)
        table, file = columns.entry_table[entries], columns.window.file
        # A message of v0 or v1 is its own payload, and a set of them would be its messages.
        raw_sizes = columns.payload_sizes[entries] + np.where(table.magic == 2, batch.HEADER_SIZE, 0)
        self.entries.add(found.partition, table, columns.row_counts[entries], raw_sizes)
        self.records.add(found, aborted)
        self.future.add_entries(file, table, count=False)
        self.future.add_records(file, columns.timestamps[found.start : found.stop])
        self.zstd.add(found.partition, file, table)
        if self.observer is not None:
            self.observer.see_entries(found.partition, file, table, columns.row_counts[entries])


def _is_transactional(entries: EntryTable) -> bool:
    return bool((entries.attributes & batch.TRANSACTIONAL).any())


def _window_bytes(partition: Partition, limits: Limits) -> int | None:
    """How much of a log to decode at once so that memory stays flat, by the compression at a few places; None: as usual."""
    measured = Measured()
    with suppress(KafkaLogError):  # what cannot be read is reported by the read itself
        measured = measure_sample(partition, partition.open_log, limits, PLACES)
    if measured.ratio is None or measured.ratio < PLAIN_RATIO:
        return None
    return max(int(DECODED_WINDOW_BYTES / measured.ratio), LEAST_WINDOW_BYTES)


def profile_result(run: ProfileRun, logs: Logs, now_ms: int, top: int, *, quick: bool, disk: DiskUse) -> Profile:
    entries, records = run.entries, run.records
    zstd, zstd_by_topic = run.zstd.result()
    pinned, pinned_bytes = run.future.pinned(run.partitions)
    compactable = Compactable()
    for topic in records.compactable.values():
        compactable += topic
    producers = entries.producers.number_ranking(top)
    return Profile(
        logs.path,
        now_ms,
        quick,
        disk,
        entries.total(),
        entries.topics(),
        entries.partitions(),
        entries.codecs(),
        records.hours.number_ranking(top),
        producers,
        records.keys.ranking(top, records.topics),
        records.prefixes.ranking(top, records.topics),
        records.headers.ranking(top),
        entries.batch_records.result(),
        entries.batch_bytes.result(),
        None if quick else compactable.result(),
        {name: topic.result() for name, topic in records.compactable.items()},
        zstd,
        zstd_by_topic,
        pinned,
        pinned_bytes,
        run.future.retention_ms,
        _names_of(producers, logs),
        run.report,
    )


def _names_of(producers: Ranking, logs: Logs) -> dict[int, str]:
    """The transactional ids of producers, where `__transaction_state` is at the same path."""
    ids = {item.name for item in producers.items} - {None}
    return {producer_id: name for producer_id, name in transactional_ids(logs).items() if producer_id in ids} if ids else {}


def disk_use(logs: Logs, chosen: Iterable[Partition], topics: Sequence[str] | None, partitions: Sequence[int] | None) -> DiskUse:
    """The files of these partitions, and what is left of deleted ones."""
    groups: dict[str, list[StoredFile]] = {"log": [], "index": [], "other": [], "leftover": []}
    live = list(chosen)
    for partition in live:
        logs_of = {segment.log.path for segment in partition.segments}
        for stored in partition.files:
            groups[_group_of(stored, is_log=stored.path in logs_of)].append(stored)
    for partition in logs.partitions:
        is_wanted = (topics is None or partition.topic in topics) and (partitions is None or partition.partition in partitions)
        if is_wanted and partition not in live:
            groups["leftover"] += partition.files
    return DiskUse(
        *(sum(stored.size for stored in group) for group in groups.values()),
        *(sum(stored.stored_size for stored in group) for group in groups.values()),
    )


def _group_of(stored: StoredFile, *, is_log: bool) -> str:
    if is_log:
        return "log"
    return "leftover" if stored.suffix else "index" if stored.kind in INDEX_KINDS else "other"
