"""The work of a task: read its split, sort the records by topic and day, and write them as Parquet where no reader looks yet."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kafkalog.errors import SegmentChanged, StorageError, path_text
from kafkalog.format.batch import LOG_OVERHEAD
from kafkalog.format.entry_front import peek_length
from kafkalog.format.quantities import plural, size_text
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import Dropped, ReadReport
from kafkalog.segment.decode import RecordRange
from kafkalog.storage import open_store
from kafkalog.storage.store import Store
from kafkalog.tables.records import record_batches
from kafkalog.tables.schemas import find_table

from ..errors import coded
from ..options import TopicPartition
from ..segment_slices import as_partition, damaged_content, open_part
from ..session import freeze_garbage
from ..splits import FileSlice, Part, Split
from .file_statistics import FileStatistics, statistics_of
from .ingest_options import IngestOptions
from .layout import GENERATION, DataFile, Edition, Layout, split_by_time
from .manifest import BEGINNING, Cursor, WrittenFile, cursor_at
from .target import Target, open_target
from .values import ValueColumns

# Rows are buffered until they fill a row group; all files of a task together buffer at most HELD_BYTES.
ROW_GROUP_BYTES: Final = 64 << 20
HELD_BYTES: Final = 192 << 20
OPEN_FILES: Final = 100
# Measured with records of 200 bytes: smaller and faster than snappy and lz4; level 1 halves the size and doubles the time.
ZSTD_LEVEL: Final = -7
# Dictionaries and statistics of keys and values cost time and save nothing; readers prune by the other columns.
DICTIONARY_COLUMNS: Final = (
    "topic",
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
STATISTICS_COLUMNS: Final = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "leader_epoch",
    "producer_id",
    "base_offset",
    GENERATION,
)
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


@dataclass(frozen=True, repr=False)
class IngestTask:
    """A split, and the range of each partition in which it reports damage: from one cursor up to another."""

    number: int
    run: str
    split: Split
    options: IngestOptions
    layout: Layout
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
    statistics: dict[str, FileStatistics] = field(default_factory=dict)
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
    """Write the files of a task. Each attempt has names of its own; only those of the attempt that wins are ever published."""
    attempt = f"{task.number:06}-{secrets.token_hex(6)}"
    result = TaskResult()
    with coded():
        target = open_target(task.options.target)
        stores: dict[str, Store] = {}
        damage: dict[str, list[dict[str, Any]]] = {}
        with ExitStack() as stack:
            writer = RecordWriter(target, attempt, task, stack)
            for part in task.split.parts:
                if part.root not in stores:
                    stores[part.root] = open_store(part.root)[0]
                rows = _write_part(part, stores[part.root], writer, task, result)
                damage.setdefault(task.layout.damage_group(part.topic), []).extend(rows)
            result.files, result.statistics = writer.close(), writer.statistics
        result.damaged = [
            _write_damage(rows, target, task.layout.damaged_file(group, attempt)) for group, rows in damage.items() if rows
        ]
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


def _write_damage(rows: list[dict[str, Any]], target: Target, place: tuple[str, str]) -> WrittenFile:
    path, staged = place
    with target.output(staged) as file, pq.ParquetWriter(file, DAMAGED_SCHEMA, compression="zstd") as writer:
        writer.write_table(pa.Table.from_pylist(rows, DAMAGED_SCHEMA))
    return WrittenFile(path, staged, len(rows), target.size(staged) or 0)


# -- files -------------------------------------------------------------------------------------------------------------------


class RecordWriter:
    """The Parquet files of a task, one at a time for each topic and day."""

    def __init__(self, target: Target, attempt: str, task: IngestTask, stack: ExitStack) -> None:
        self.target = target
        self.attempt = attempt
        self.task = task
        self.stack = stack
        self.values = ValueColumns.of(task.options)
        self.open: dict[tuple[str, int], _OpenFile] = {}  # by topic and bucket, least recently used first
        self.written: list[WrittenFile] = []
        self.statistics: dict[str, FileStatistics] = {}
        self.count = 0
        self.held = 0

    def write(self, part: Part, batch: pa.RecordBatch) -> PartitionResult:
        """Write records of a part; returns their offsets."""
        if self.task.options.generation:
            generation = pa.scalar(self._edition(part).generation, pa.int32())
            batch = batch.append_column(pa.field(GENERATION, pa.int32()), pa.repeat(generation, batch.num_rows))
        for bucket, rows in split_by_time(batch, self.task.options.by):
            self._add(part, bucket, self.task.layout.shaped(part.topic, rows))
        offsets = batch.column("offset")
        if not len(offsets):
            return PartitionResult()
        return PartitionResult(len(offsets), offsets[0].as_py(), offsets[-1].as_py())

    def _add(self, part: Part, bucket: int, rows: pa.RecordBatch) -> None:
        key = (part.topic, bucket)
        file = self.open.pop(key, None) or self._begin(part, bucket, rows)
        self.open[key] = file
        self.held += file.add(part, rows)
        if file.held >= min(ROW_GROUP_BYTES, self.task.options.file_bytes):
            self.held -= file.flush()
        while self.held > HELD_BYTES:
            self.held -= max(self.open.values(), key=lambda each: each.held).flush()
        if file.size >= self.task.options.file_bytes:
            self._finish(key)
        elif len(self.open) > OPEN_FILES:
            self._finish(next(iter(self.open)))

    def _begin(self, part: Part, bucket: int, rows: pa.RecordBatch) -> _OpenFile:
        first = rows.column("offset")[0].as_py()
        file = DataFile(part.topic, part.partition, self._edition(part), bucket, first, self.attempt, self.count)
        self.count += 1
        return _OpenFile(self.target, self.task.layout.data_file(file), rows.schema, self.task.options, self.stack)

    def _edition(self, part: Part) -> Edition:
        return self.task.editions.get((part.topic, part.partition), Edition())

    def _finish(self, key: tuple[str, int]) -> None:
        file = self.open.pop(key)
        self.held -= file.held
        written, metadata = file.finish()
        self.written.append(written)
        if self.task.options.lake.is_lake:
            self.statistics[written.path] = statistics_of(*key, file.is_sorted, metadata)

    def close(self) -> list[WrittenFile]:
        for key in list(self.open):
            self._finish(key)
        return self.written


class _OpenFile:
    def __init__(
        self, target: Target, place: tuple[str, str], schema: pa.Schema, options: IngestOptions, stack: ExitStack
    ) -> None:
        self.target = target
        self.path, self.staged = place
        self.batches: list[pa.RecordBatch] = []
        self.held = 0
        self.records = 0
        self.offsets: dict[str, tuple[int, int]] = {}
        self.last = (-1, -1)
        self.is_sorted = True
        # Closed by finish(), or after an error by the stack: Arrow must not write to a file that is closed.
        self.closing = stack.enter_context(ExitStack())
        self.file = self.closing.enter_context(target.output(self.staged))
        self.metadata: list[pq.FileMetaData] = []
        self.writer = self.closing.enter_context(parquet_writer(self.file, schema, options, self.metadata))

    @property
    def size(self) -> int:
        return int(self.file.tell())

    def add(self, part: Part, rows: pa.RecordBatch) -> int:
        """Buffer rows; returns their bytes."""
        self.batches.append(rows)
        self.held += rows.nbytes
        self.records += rows.num_rows
        first, last = rows.column("offset")[0].as_py(), rows.column("offset")[-1].as_py()
        self.is_sorted &= (part.partition, first) > self.last
        self.last = (part.partition, last)
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

    def finish(self) -> tuple[WrittenFile, pq.FileMetaData]:
        self.flush()
        self.closing.close()
        size = self.target.size(self.staged) or 0
        return WrittenFile(self.path, self.staged, self.records, size, self.offsets), self.metadata[0]


def parquet_writer(
    file: Any, schema: pa.Schema, options: IngestOptions, metadata: list[pq.FileMetaData] | None = None
) -> pq.ParquetWriter:
    """A writer of rows; what the file's footer says is appended to `metadata` when it is closed."""
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
        metadata_collector=metadata,
    )
