"""The work of a task: read its split, sort the records by topic and day, and write them as Parquet where no reader looks yet.

Files are named after their first record, as Kafka names its segments: `orders-0-00000000000000004711.parquet`. A record is in one
file only, so the name is unique in its folder, and the same however often the task runs. An offset that is ingested again, after
a truncation, is in a file of another name: a run that was suspended long before, and continues, may still delete the old one.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kafkalog.errors import SegmentChanged, StorageError, path_text
from kafkalog.format.batch import LOG_OVERHEAD, NO_TIMESTAMP
from kafkalog.format.entry_front import peek_length
from kafkalog.format.quantities import plural, size_text
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import Dropped, ReadReport
from kafkalog.segment.decode import RecordRange
from kafkalog.storage import open_store
from kafkalog.storage.store import Store
from kafkalog.storage.unfinished import NAME_BYTES
from kafkalog.tables.records import record_batches
from kafkalog.tables.schemas import find_table

from ..errors import coded
from ..options import TopicPartition
from ..segment_slices import as_partition, damaged_content, open_part
from ..session import freeze_garbage
from ..splits import FileSlice, Part, Split
from .ingest_options import IngestOptions
from .manifest import BEGINNING, TABLE, Cursor, WrittenFile, cursor_at, staging_folder
from .target import Target, open_target
from .values import ValueColumns

DAMAGED: Final = "_damaged"
GENERATION: Final = "generation"
DIGEST_LETTERS: Final = 16
# Rows are buffered until they fill a row group; all files of a task together buffer at most HELD_BYTES.
ROW_GROUP_BYTES: Final = 64 << 20
HELD_BYTES: Final = 192 << 20
OPEN_FILES: Final = 100
# Measured with records of 200 bytes: smaller and faster than snappy and lz4; level 1 halves the size and doubles the time.
ZSTD_LEVEL: Final = -7
# Dictionaries and statistics of keys and values cost time and save nothing; readers prune by the other columns.
DICTIONARY_COLUMNS: Final = (
    "partition",
    "timestampType",
    "leader_epoch",
    "producer_id",
    "producer_epoch",
    "codec",
    "file",
    GENERATION,
)
# Ascending numbers take a fraction of a byte as differences.
DELTA_COLUMNS: Final = ("offset", "timestamp", "sequence", "base_offset", "position")
STATISTICS_COLUMNS: Final = ("partition", "offset", "timestamp", "timestampType", "leader_epoch", "producer_id", "base_offset")
DAMAGED_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("file", pa.string()),
        ("position", pa.int64()),
        ("length", pa.int64()),
        ("reason", pa.string()),
        ("base_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("bytes", pa.binary()),
    ]
)
HOUR_MS: Final = 3_600_000
GRAIN_MS: Final = {"day": 24 * HOUR_MS, "hour": HOUR_MS}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# The range of a date: the years 1 to 9999.
FIRST_MS: Final = (datetime(1, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
LAST_MS: Final = (datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
# How Hive spells null; readers read it as null.
UNKNOWN_TIME: Final = "__HIVE_DEFAULT_PARTITION__"
NO_BUCKET: Final = -(1 << 62)


class Edition(NamedTuple):
    """The log that records are from: how often its topic was created again, and how often it was truncated since."""

    generation: int = 0
    truncations: int = 0


@dataclass(frozen=True, repr=False)
class IngestTask:
    """A split, and the range of each partition in which it reports damage: from one cursor up to another."""

    number: int
    run: str
    split: Split
    options: IngestOptions
    claims: dict[TopicPartition, tuple[Cursor, Cursor | None]]
    editions: dict[TopicPartition, Edition]

    def __repr__(self) -> str:
        return f"IngestTask({self.number}, {self.split!r})"


@dataclass
class PartitionResult:
    """What a task read from a partition."""

    records: int = 0
    first_offset: int = -1
    last_offset: int = -1
    reached: Cursor = BEGINNING

    def add(self, other: PartitionResult) -> None:
        if other.records:
            self.first_offset = other.first_offset if not self.records else min(self.first_offset, other.first_offset)
            self.last_offset = max(self.last_offset, other.last_offset)
        self.records += other.records
        self.reached = max(self.reached, other.reached)


@dataclass(repr=False)
class TaskResult:
    """Statistics only: the rows stay where the worker wrote them."""

    files: list[WrittenFile] = field(default_factory=list)
    damaged: list[WrittenFile] = field(default_factory=list)
    partitions: dict[TopicPartition, PartitionResult] = field(default_factory=dict)
    log_bytes: int = 0
    damaged_bytes: int = 0
    undecoded: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        records = plural(sum(file.records for file in self.files), "record")
        return f"TaskResult({records}, {plural(len(self.files), 'file')}, {size_text(self.log_bytes)} of log)"


def write_task(task: IngestTask) -> TaskResult:
    """Write the files of a task. Each attempt has its own folder; only that of the attempt that wins is ever published."""
    folder = f"{staging_folder(task.run)}/{task.number:06}-{secrets.token_hex(6)}"
    result = TaskResult()
    with coded():
        target = open_target(task.options.target)
        stores: dict[str, Store] = {}
        damage: list[dict[str, Any]] = []
        with ExitStack() as stack:
            writer = RecordWriter(target, folder, task, stack)
            for part in task.split.parts:
                if part.root not in stores:
                    stores[part.root] = open_store(part.root)[0]
                damage += _write_part(part, stores[part.root], writer, task, result)
            result.files = writer.close()
        if damage:
            result.damaged.append(_write_damage(damage, target, folder, task))
    freeze_garbage()
    return result


def _write_part(part: Part, store: Store, writer: RecordWriter, task: IngestTask, result: TaskResult) -> Iterable[dict[str, Any]]:
    """Write the records of a part; returns the rows for its damage."""
    report = ReadReport()
    seen = PartitionResult()
    with ExitStack() as stack:
        part, held = open_part(part, store, stack, lambda what: _plan_again(part, what))
        for batch in _read(part, held, task.options, report):
            if writer.values is not None:
                batch, undecoded = writer.values.decode(batch)
                result.undecoded += undecoded
            seen.add(writer.write(part, batch))
        if report.unread:  # a file that cannot be read is not damage: another run may be able to
            raise StorageError(report.unread[0])
        seen.reached = _reached(part, held, report)
        key = (part.topic, part.partition)
        result.partitions.setdefault(key, PartitionResult()).add(seen)
        result.log_bytes += part.bytes
        return list(_damage_rows(part, held, report, seen.reached, task, result))


def _plan_again(part: Part, what: str) -> None:
    """Files were removed since planning, so the run has to plan again."""
    raise SegmentChanged("changed", file=f"{part.folder}/", expected="the offsets of the plan", found=what)


def _read(part: Part, store: Store, options: IngestOptions, report: ReadReport) -> Iterator[pa.RecordBatch]:
    schema = find_table("records").schema(options.columns)
    reading = ReadOptions(
        columns=frozenset(schema.names),
        record_range=RecordRange(part.start_offset, part.stop_offset),
        isolation=options.isolation,
        on_damage="strict" if options.on_damage == "fail" else "salvage",
        threads=1,  # each core has a task
        committed=part.committed,
    )
    return record_batches([as_partition(part, store)], schema, reading, report)


def read_sample(split: Split, options: IngestOptions) -> Iterator[pa.RecordBatch]:
    """The records of a split, read as a task reads them."""
    for part in split.parts:
        yield from _read(part, open_store(part.root)[0], options, ReadReport())


def _reached(part: Part, store: Store, report: ReadReport) -> Cursor:
    """Where the next run continues: after the last slice, or before a tail that may still change."""
    last = part.slices[-1]
    tails = [tail.position for tail in report.tails if tail.file == last.path]
    if last.next_base_offset is None:
        tails += [dropped.position for dropped in report.dropped if _is_unsettled(dropped, last, store)]
    with store.open(last.path) as source:
        return cursor_at(_segment(last), min([last.stop, *tails]), source)


def _is_unsettled(dropped: Dropped, last: FileSlice, store: Store) -> bool:
    """Damage up to the end of a growing log, whose own length does not end there: it may include a torn tail."""
    if dropped.file != last.path or dropped.position + dropped.length != last.stop:
        return False
    length = peek_length(damaged_content(store, dropped) or b"")
    return length is None or length + LOG_OVERHEAD != dropped.length


def _segment(piece: FileSlice) -> int:
    return piece.base_offset if piece.kind == "log" else -1


def _damage_rows(
    part: Part, store: Store, report: ReadReport, reached: Cursor, task: IngestTask, result: TaskResult
) -> Iterator[dict[str, Any]]:
    begin, until = task.claims[part.topic, part.partition]
    segments = {piece.path: _segment(piece) for piece in part.slices}
    end = reached if until is None else min(reached, until)
    for dropped in report.dropped:
        reported = _between(dropped, segments[dropped.file], begin, end)
        if reported is not None:
            result.damaged_bytes += reported.length
            result.reasons[reported.reason] = result.reasons.get(reported.reason, 0) + 1
            yield _damage_row(part, store, reported)


def _between(dropped: Dropped, segment: int, begin: Cursor, end: Cursor) -> Dropped | None:
    """The part of a damaged range between two places: a range may extend over the place where an earlier run stopped."""
    first = max(Cursor(segment, dropped.position), begin)
    last = min(Cursor(segment, dropped.position + max(dropped.length, 0)), end)
    if not first < last:
        return None
    # A place in another segment does not cut this one.
    position = first.position if first.segment == segment else dropped.position
    stop = last.position if last.segment == segment else dropped.position + dropped.length
    return replace(dropped, position=position, length=stop - position)


def _damage_row(part: Part, store: Store, dropped: Dropped) -> dict[str, Any]:
    return {
        "topic": path_text(part.topic),
        "partition": part.partition,
        "file": path_text(dropped.file),
        "position": dropped.position,
        "length": dropped.length,
        "reason": dropped.reason,
        "base_offset": dropped.base_offset,
        "last_offset": dropped.last_offset,
        "bytes": damaged_content(store, dropped),
    }


def _write_damage(rows: list[dict[str, Any]], target: Target, folder: str, task: IngestTask) -> WrittenFile:
    staged = f"{folder}/damaged.parquet"
    with target.output(staged) as file, pq.ParquetWriter(file, DAMAGED_SCHEMA, compression="zstd") as writer:
        writer.write_table(pa.Table.from_pylist(rows, DAMAGED_SCHEMA))
    return WrittenFile(f"{DAMAGED}/{task.run}-{task.number:06}.parquet", staged, len(rows), target.size(staged) or 0)


# -- files -------------------------------------------------------------------------------------------------------------------


class RecordWriter:
    """The Parquet files of a task, one at a time for each topic and day."""

    def __init__(self, target: Target, folder: str, task: IngestTask, stack: ExitStack) -> None:
        self.target = target
        self.folder = folder
        self.task = task
        self.stack = stack
        self.values = ValueColumns.of(task.options)
        self.open: dict[str, _OpenFile] = {}  # by folder, least recently used first
        self.written: list[WrittenFile] = []
        self.count = 0
        self.held = 0

    def write(self, part: Part, batch: pa.RecordBatch) -> PartitionResult:
        """Write records of a part; returns their offsets."""
        if self.task.options.generation:
            generation = pa.scalar(self._edition(part).generation, pa.int32())
            batch = batch.append_column(pa.field(GENERATION, pa.int32()), pa.repeat(generation, batch.num_rows))
        for path, rows in split_by_time(batch, self.task.options.by):
            self._add(part, f"{topic_folder(part.topic)}/{path}", rows)
        offsets = batch.column("offset")
        if not len(offsets):
            return PartitionResult()
        return PartitionResult(len(offsets), offsets[0].as_py(), offsets[-1].as_py())

    def _add(self, part: Part, path: str, rows: pa.RecordBatch) -> None:
        file = self.open.pop(path, None) or self._begin(part, path, rows)
        self.open[path] = file
        self.held += file.add(part, rows)
        if file.held >= min(ROW_GROUP_BYTES, self.task.options.file_bytes):
            self.held -= file.flush()
        while self.held > HELD_BYTES:
            self.held -= max(self.open.values(), key=lambda each: each.held).flush()
        if file.size >= self.task.options.file_bytes:
            self._finish(path)
        elif len(self.open) > OPEN_FILES:
            self._finish(next(iter(self.open)))

    def _begin(self, part: Part, path: str, rows: pa.RecordBatch) -> _OpenFile:
        first = rows.column("offset")[0].as_py()
        name = file_name(part.topic, part.partition, self._edition(part), first)
        staged = f"{self.folder}/{self.count:06}.parquet"
        self.count += 1
        return _OpenFile(self.target, f"{path}/{name}", staged, rows.schema, self.task.options, self.stack)

    def _edition(self, part: Part) -> Edition:
        return self.task.editions.get((part.topic, part.partition), Edition())

    def _finish(self, path: str) -> None:
        file = self.open.pop(path)
        self.held -= file.held
        self.written.append(file.finish())

    def close(self) -> list[WrittenFile]:
        for path in list(self.open):
            self._finish(path)
        return self.written


class _OpenFile:
    def __init__(
        self, target: Target, path: str, staged: str, schema: pa.Schema, options: IngestOptions, stack: ExitStack
    ) -> None:
        self.target = target
        self.path = path
        self.staged = staged
        self.batches: list[pa.RecordBatch] = []
        self.held = 0
        self.records = 0
        self.offsets: dict[str, tuple[int, int]] = {}
        # Closed by finish(), or after an error by the stack: Arrow must not write to a file that is closed.
        self.closing = stack.enter_context(ExitStack())
        self.file = self.closing.enter_context(target.output(staged))
        self.writer = self.closing.enter_context(parquet_writer(self.file, schema, options))

    @property
    def size(self) -> int:
        return int(self.file.tell())

    def add(self, part: Part, rows: pa.RecordBatch) -> int:
        """Buffer rows; returns their bytes."""
        self.batches.append(rows)
        self.held += rows.nbytes
        self.records += rows.num_rows
        first, last = rows.column("offset")[0].as_py(), rows.column("offset")[-1].as_py()
        before = self.offsets.get(str(part.partition), (first, last))
        self.offsets[str(part.partition)] = (min(before[0], first), max(before[1], last))
        return int(rows.nbytes)

    def flush(self) -> int:
        """Write the buffered rows as a row group; returns the bytes freed."""
        held = self.held
        if self.batches:
            self.writer.write_table(pa.Table.from_batches(self.batches), row_group_size=1 << 30)
        self.batches, self.held = [], 0
        return held

    def finish(self) -> WrittenFile:
        self.flush()
        self.closing.close()
        return WrittenFile(self.path, self.staged, self.records, self.target.size(self.staged) or 0, self.offsets)


def parquet_writer(file: Any, schema: pa.Schema, options: IngestOptions) -> pq.ParquetWriter:
    columns = schema.names
    level = ZSTD_LEVEL if options.level is None and options.codec == "zstd" else options.level
    return pq.ParquetWriter(
        file,
        schema,
        compression=options.codec,
        compression_level=level,
        use_dictionary=[name for name in columns if name in DICTIONARY_COLUMNS],
        column_encoding={name: "DELTA_BINARY_PACKED" for name in columns if name in DELTA_COLUMNS},
        write_statistics=[name for name in columns if name in STATISTICS_COLUMNS],
    )


# -- names of folders and files --------------------------------------------------------------------------------------------------

_ESCAPED: Final = frozenset("\"#%'*/:=?\\{}[]^\x7f") | {chr(code) for code in range(0x20)}


def escaped(topic: str) -> str:
    """A topic as the value in the name of a partition folder, escaped as Hive and Spark do."""
    return "".join(_escaped_letters(topic))


def _escaped_letters(topic: str) -> list[str]:
    return [f"%{ord(letter):02X}" if letter in _ESCAPED else letter for letter in path_text(topic)]


def topic_folder(topic: str) -> str:
    """The folder of a topic's table. Every name that Kafka allows fits; a longer one is cut, and marked by a digest."""
    return f"{TABLE}{_fitting(topic, _escaped_letters(topic), NAME_BYTES - len(TABLE))}"


def file_name(topic: str, partition: int, edition: Edition, first_offset: int) -> str:
    """The name of a file after its first record; a long topic is cut, and marked by a digest."""
    generation = f"-{edition.generation}" if edition.generation else ""
    truncations = f"-t{edition.truncations}" if edition.truncations else ""
    rest = f"-{partition}{generation}-{first_offset:020}{truncations}.parquet"
    letters = _escaped_letters(topic)
    if letters[0] in ("_", "."):  # readers skip names that start so
        letters[0] = f"%{ord(letters[0]):02X}"
    return _fitting(topic, letters, NAME_BYTES - len(rest)) + rest


def _fitting(topic: str, letters: Sequence[str], limit: int) -> str:
    """The letters, if they have at most `limit` bytes; else as many whole ones as leave room for a digest of the topic."""
    sizes = [len(letter.encode("utf-8", "surrogateescape")) for letter in letters]
    if sum(sizes) <= limit:
        return "".join(letters)
    digest = f"~{hashlib.sha256(topic.encode('utf-8', 'surrogateescape')).hexdigest()[:DIGEST_LETTERS]}"
    room = limit - len(digest)
    count = sum(size <= room for size in accumulate(sizes))
    return "".join(letters[:count]) + digest


def split_by_time(batch: pa.RecordBatch, grain: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The folders of the batch's records, such as `day=2026-01-31`, each with its records in order."""
    if not batch.num_rows:
        return
    milliseconds = _milliseconds(batch.column("timestamp"))
    lowest, highest = _buckets(np.array([milliseconds.min(), milliseconds.max()]), GRAIN_MS[grain]).tolist()
    if lowest == highest != NO_BUCKET:
        yield folder_of(lowest, grain), batch
        return
    numbers = _buckets(milliseconds, GRAIN_MS[grain])
    for number in np.unique(numbers).tolist():
        rows = np.flatnonzero(numbers == number)
        first, last = int(rows[0]), int(rows[-1])
        whole = last - first + 1 == len(rows)
        yield folder_of(number, grain), batch.slice(first, len(rows)) if whole else batch.take(pa.array(rows))


def _milliseconds(times: pa.Array) -> NDArray[np.int64]:
    stored = times.cast(pa.int64())
    milliseconds: NDArray[np.int64] = (stored.fill_null(NO_TIMESTAMP) if stored.null_count else stored).to_numpy()
    return milliseconds


def _buckets(milliseconds: NDArray[np.int64], grain_ms: int) -> NDArray[np.int64]:
    """The number of the day or hour since 1970 of each time; `NO_BUCKET` where there is none."""
    known = (milliseconds != NO_TIMESTAMP) & (milliseconds >= FIRST_MS) & (milliseconds <= LAST_MS)
    numbers: NDArray[np.int64] = milliseconds // grain_ms
    return numbers if known.all() else np.where(known, numbers, NO_BUCKET)


@lru_cache(4096)
def folder_of(number: int, grain: str) -> str:
    if number == NO_BUCKET:
        return f"day={UNKNOWN_TIME}/hour={UNKNOWN_TIME}" if grain == "hour" else f"day={UNKNOWN_TIME}"
    moment = EPOCH + timedelta(milliseconds=number * GRAIN_MS[grain])
    day = f"day={moment.year:04}-{moment.month:02}-{moment.day:02}"
    return f"{day}/hour={moment.hour:02}" if grain == "hour" else day
