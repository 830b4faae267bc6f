"""Rows of earlier runs in the tables of a target: compared with the log, and set aside if the log no longer holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafkalog.log.partition import Partition
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import ReadReport
from kafkalog.segment.decode import RecordRange
from kafkalog.tables.records import record_batches
from kafkalog.tables.schemas import find_table

from ..splits import HIGHEST
from .file_statistics import FileStatistics, statistics_of
from .ingest_options import IngestOptions
from .layout import GENERATION, bucket_of, topic_folder
from .manifest import Gap, WrittenFile
from .target import Target
from .task_writing import parquet_writer

PARQUET: Final = ".parquet"
# Offsets that are compared with their rows at first, and at most at once if these are not enough.
COMPARED_OFFSETS: Final = 1000
MOST_COMPARED_OFFSETS: Final = 64_000


@dataclass(frozen=True)
class RowRange:
    """Rows of one generation of a partition, with the offsets from `start` up to but not including `stop`."""

    partition: int
    generation: int
    start: int
    stop: int

    def mask(self, rows: pa.Table) -> Any:
        offsets = rows.column("offset")
        found = pc.and_(pc.greater_equal(offsets, self.start), pc.less(offsets, self.stop))
        found = pc.and_(found, pc.equal(rows.column("partition"), self.partition))
        return pc.and_(found, pc.equal(rows.column(GENERATION), self.generation)) if GENERATION in rows.column_names else found

    def may_hold(self, group: Any) -> bool:
        """Whether the statistics of a row group allow such rows."""
        columns = (group.column(number) for number in range(group.num_columns))
        known = {column.path_in_schema: column.statistics for column in columns if column.is_stats_set}
        bounds = {"partition": (self.partition, self.partition), "offset": (self.start, self.stop - 1)}
        return all(
            name not in known or not known[name].has_min_max or (known[name].min <= high and known[name].max >= low)
            for name, (low, high) in bounds.items()
        )


@dataclass(frozen=True)
class SetAside:
    """The files that take the place of those in `replaced`: with the rows that stay, and with the superseded ones."""

    rewritten: tuple[WrittenFile, ...] = ()
    superseded: tuple[WrittenFile, ...] = ()
    replaced: tuple[str, ...] = ()
    statistics: Mapping[str, FileStatistics] = field(default_factory=dict)


Place = tuple[str, str]
# The places for the rows of a file that stay and for those that do not, by its topic, its path and its number among such files.
Places = Callable[[str, str, int], tuple[Place, Place]]


@dataclass(frozen=True)
class Comparison:
    """The first offset whose record differs from its row, None if none does; `is_akin` if a record before it is the same."""

    first_difference: int | None
    is_akin: bool


class Tables:
    """The tables of a target; `files` are the Parquet files of a topic's rows, as paths below the target."""

    def __init__(self, target: Target, options: IngestOptions, files: Callable[[str], Iterable[str]] | None = None) -> None:
        self.target = target
        self.options = options
        self.files = files or (lambda topic: self._found(topic_folder(topic)))

    def compare(self, partition: Partition, generation: int, stop: int) -> Comparison:
        """Compare the log before `stop` with the rows in the tables.

        This distinguishes a log that was truncated, and perhaps written again, from one that was created again, where neither
        topic id nor leader epochs do. It goes backwards from `stop` to a record that is the same; records that only one side has
        are explained by compaction.
        """
        first, count = None, COMPARED_OFFSETS
        while stop > partition.start_offset:
            start = max(stop - count, partition.start_offset)
            taken, present = (
                {row.pop("offset"): row for row in rows.to_pylist()} for rows in self._both(partition, generation, start, stop)
            )
            for offset in sorted(taken.keys() & present.keys(), reverse=True):
                if taken[offset] == present[offset]:
                    return Comparison(first, is_akin=True)
                first = offset
            stop, count = start, min(2 * count, MOST_COMPARED_OFFSETS)
        return Comparison(first, is_akin=False)

    def _both(self, partition: Partition, generation: int, start: int, stop: int) -> tuple[pa.Table, pa.Table]:
        """The records of these offsets as they are in the tables, and as they are in the log."""
        names = ["offset", "timestamp", "key", *(["value"] if self.options.payload is None else [])]
        present = _read(partition, start, stop, names)
        taken = self._rows(partition, RowRange(partition.partition, generation, start, stop), names) if len(present) else present
        return taken.cast(present.schema), present

    def _rows(self, partition: Partition, wanted: RowRange, names: Sequence[str]) -> pa.Table:
        found = []
        for path in self.files(partition.topic):
            with self.target.open(path) as file:
                parquet = pq.ParquetFile(file)
                groups = [number for number in _groups(parquet) if wanted.may_hold(parquet.metadata.row_group(number))]
                if groups:
                    rows = parquet.read_row_groups(groups)
                    found.append(rows.filter(wanted.mask(rows)).select(names))
        return pa.concat_tables(found) if found else find_table("records").schema(names).empty_table()

    def set_aside(self, gaps: Sequence[Gap], generations: Mapping[tuple[str, int], int], places: Places) -> dict[str, SetAside]:
        """Stage the files, by topic, that replace those with rows that their log no longer holds: rows that stay, and these."""
        ranges: dict[str, list[RowRange]] = {}
        for gap in gaps:
            if gap.reason == "truncated":
                offsets = gap.start_offset, gap.stop_offset
            elif gap.reason != "removed" and not self.options.generation:  # no column distinguishes the two logs
                offsets = 0, HIGHEST
            else:
                continue
            generation = generations[gap.topic, gap.partition]
            ranges.setdefault(gap.topic, []).append(RowRange(gap.partition, generation, *offsets))
        count = 0
        found = {}
        for topic, wanted in ranges.items():
            found[topic] = self._set_aside(topic, wanted, places, count)
            count += len(found[topic].replaced)
        return found

    def _set_aside(self, topic: str, wanted: Sequence[RowRange], places: Places, count: int) -> SetAside:
        rewritten: list[WrittenFile] = []
        superseded: list[WrittenFile] = []
        replaced: list[str] = []
        statistics: dict[str, FileStatistics] = {}
        for path in self.files(topic):
            rows = self._affected(path, wanted)
            if rows is None:
                continue
            mask = _any(wanted, rows)
            kept_place, superseded_place = places(topic, path, count + len(replaced))
            superseded.append(self._write(rows.filter(mask), superseded_place)[0])
            kept = rows.filter(pc.invert(mask))
            if len(kept):
                written, metadata = self._write(kept, kept_place)
                rewritten.append(written)
                statistics[written.path] = statistics_of(topic, bucket_of(kept, self.options.by), False, metadata)
            replaced.append(path)
        return SetAside(tuple(rewritten), tuple(superseded), tuple(replaced), statistics)

    def _affected(self, path: str, wanted: Sequence[RowRange]) -> pa.Table | None:
        """The rows of a file, if some of them are in a wanted range."""
        with self.target.open(path) as file:
            parquet = pq.ParquetFile(file)
            groups = [parquet.metadata.row_group(number) for number in _groups(parquet)]
            if not any(each.may_hold(group) for each in wanted for group in groups):
                return None
            rows = parquet.read()
        return rows if pc.any(_any(wanted, rows)).as_py() else None

    def _write(self, rows: pa.Table, place: Place) -> tuple[WrittenFile, pq.FileMetaData]:
        path, staged = place
        metadata: list[pq.FileMetaData] = []
        with ExitStack() as stack:
            file = stack.enter_context(self.target.output(staged))
            stack.enter_context(parquet_writer(file, rows.schema, self.options, metadata)).write_table(rows)
        offsets = rows.group_by("partition").aggregate([("offset", "min"), ("offset", "max")]).to_pylist()
        bounds = {str(each["partition"]): (each["offset_min"], each["offset_max"]) for each in offsets}
        return WrittenFile(path, staged, rows.num_rows, self.target.size(staged) or 0, bounds), metadata[0]

    def _found(self, folder: str) -> Iterator[str]:
        """The Parquet files below a folder."""
        for name in self.target.list(folder):
            if name.endswith(PARQUET):
                yield f"{folder}/{name}"
            elif "=" in name:  # a folder by day or hour
                yield from self._found(f"{folder}/{name}")


def _groups(parquet: pq.ParquetFile) -> range:
    return range(parquet.metadata.num_row_groups)


def _any(wanted: Sequence[RowRange], rows: pa.Table) -> Any:
    mask = wanted[0].mask(rows)
    for each in wanted[1:]:
        mask = pc.or_(mask, each.mask(rows))
    return mask


def _read(partition: Partition, start: int, stop: int, names: Sequence[str]) -> pa.Table:
    """Records of a log, without damaged ones."""
    schema = find_table("records").schema(names)
    options = ReadOptions(columns=frozenset(schema.names), record_range=RecordRange(start, stop), on_damage="skip", threads=1)
    return pa.Table.from_batches(record_batches([partition], schema, options, ReadReport()), schema)
