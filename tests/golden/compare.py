"""Compare what kafkalog reads from golden log directories with what Kafka's own tools and consumers said of them.

    python tests/golden/compare.py FOLDER

FOLDER holds log directories `<era>/` next to `<era>-expected/`. Every log directory is opened as a whole and every partition
folder by itself. Prints each difference and ends with `N partitions, R records, D differences`; exit status 1 if there are any.
"""

from __future__ import annotations

import sys
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import kafkalog
from tests.golden.expected import INDEX_FIELDS, TIMESTAMP_TYPES, ExpectedEra, ExpectedPartition, read_eras

SHOWN_PER_PLACE = 5
SHOWN = 200
RECORD_COLUMNS = ["topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers"]
RECORD_COLUMNS += ["timestamp_ms", "leader_epoch", "base_offset", "file", "position"]
BATCH_COLUMNS = {
    "position": "position",
    "sizeInBytes": "size",
    "magic": "magic",
    "baseOffset": "base_offset",
    "lastOffset": "last_offset",
    "countOrNull": "record_count",
    "checksum": "crc",
    "isValid": "crc_valid",
    "compression": "codec",
    "timestampType": "timestamp_type",
    "maxTimestamp": "max_timestamp_ms",
    "isTransactional": "is_transactional",
    "isControl": "is_control",
    "deleteHorizonMs": "delete_horizon_ms",
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "baseSequence": "base_sequence",
    "lastSequence": "last_sequence",
    "partitionLeaderEpoch": "leader_epoch",
}

Row = dict[str, Any]


@dataclass
class Differences:
    """The differences found: all are counted, and shown up to a bound."""

    count: int = 0
    lines: list[str] = field(default_factory=list)
    per_place: Counter[str] = field(default_factory=Counter)

    def add(self, place: str, text: str) -> None:
        self.count += 1
        self.per_place[place] += 1
        if self.per_place[place] <= SHOWN_PER_PLACE and len(self.lines) < SHOWN:
            self.lines.append(f"{place}: {text}")

    def check(self, place: str, what: str, expected: object, found: object) -> None:
        if expected != found or type(expected) is not type(found):
            self.add(place, f"{what}: expected {_short(expected)}, found {_short(found)}")

    def fail(self, place: str, error: Exception) -> None:
        """An exception is one difference, with where it came from: the comparison continues with the next partition."""
        where = traceback.extract_tb(error.__traceback__)[-1]
        self.add(place, f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {str(error)[:400]}")

    def merge(self, other: Differences) -> None:
        self.count += other.count
        self.lines += other.lines[: SHOWN - len(self.lines)]


@dataclass
class Totals:
    """The closing line."""

    partitions: int = 0
    records: int = 0
    differences: Differences = field(default_factory=Differences)

    def merge(self, other: Totals) -> None:
        self.partitions += other.partitions
        self.records += other.records
        self.differences.merge(other.differences)

    def __str__(self) -> str:
        return f"{self.partitions} partitions, {self.records} records, {self.differences.count} differences"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"


class View:
    """One way of opening logs: whole tables are read once and handed out by partition."""

    def __init__(self, path: Path, *, name: str, damaged: bool) -> None:
        self.name = name
        self.on_damage = "skip" if damaged else "strict"
        self.logs: Any = kafkalog.open(str(path))
        self._tables: dict[str, dict[tuple[str, int], list[Row]]] = {}

    def partitions(self) -> list[tuple[str, int]]:
        return [(log.topic, log.partition) for log in self.logs.partitions if not log.state]

    def rows(self, partition: ExpectedPartition, table: str, **options: Any) -> list[Row]:
        """This partition's rows of the table, in the order in which they were read."""
        key = f"{table} {sorted(options.items())}"
        if key not in self._tables:
            grouped: dict[tuple[str, int], list[Row]] = defaultdict(list)
            for row in read_rows(self.logs, table, on_damage=self.on_damage, **options):
                grouped[row["topic"], row["partition"]].append(row)
            self._tables[key] = grouped
        return self._tables[key].get((partition.topic, partition.partition), [])


def read_rows(logs: Any, table: str, **options: Any) -> list[Row]:
    """A table as Python values, timestamps as milliseconds."""
    rows: list[Row] = []
    for batch in logs.read(table, **options):
        for number, column in enumerate(batch.schema):
            if pa.types.is_timestamp(column.type):
                batch = batch.set_column(number, column.name, batch.column(number).cast(pa.int64()))
        rows += batch.to_pylist()
    return rows


def compare_records(view: View, partition: ExpectedPartition, differences: Differences, **options: Any) -> int:
    """Records against expected.jsonl; returns how many agreed in number."""
    place = f"{view.name} {partition.name} records"
    expected = partition.records
    if expected is None:
        return 0
    found = view.rows(partition, "records", **options)
    differences.check(place, "number", len(expected), len(found))
    for wanted, row in zip(expected, found, strict=False):
        for name, value in wanted.items():
            if name in row:
                stored = _headers(row[name]) if name == "headers" else row[name]
                differences.check(place, f"offset {wanted['offset']} {name}", value, stored)
    return min(len(expected), len(found))


def _headers(headers: list[Any] | None) -> list[tuple[str, bytes | None]]:
    return [(header["key"], header["value"]) for header in headers or []]


def compare_committed(view: View, partition: ExpectedPartition, differences: Differences) -> None:
    """The read_committed view, read with the one column that it needs."""
    expected = partition.committed_offsets
    if expected is None:
        return
    options: dict[str, Any] = {"columns": ["topic", "partition", "offset"], "isolation": "read_committed"}
    found = [row["offset"] for row in view.rows(partition, "records", **options)]
    place = f"{view.name} {partition.name} read_committed"
    differences.check(place, "number", len(expected), len(found))
    for wanted, offset in zip(expected, found, strict=False):
        differences.check(place, "offset", wanted, offset)


def _by_file(rows: Iterable[Row]) -> dict[str, list[Row]]:
    files: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        files[Path(row["file"]).name].append(row)
    return files


def compare_batches(view: View, partition: ExpectedPartition, differences: Differences) -> None:
    """The `batches` table against *.batches.jsonl, and the records that iterating finds in each batch."""
    place = f"{view.name} {partition.name} batches"
    columns = ["topic", "partition", "file", *BATCH_COLUMNS.values()]
    found = _by_file(view.rows(partition, "batches", columns=columns))
    decoded = Decoded(view.rows(partition, "records", columns=RECORD_COLUMNS, include_control=True))
    expected = {name: batches for name, batches in partition.batches.items() if name.endswith(".log")}
    for name in sorted(set(found) - set(expected)):
        differences.add(place, f"{name}: {len(found[name])} batches of a file that is not expected")
    for name, batches in expected.items():
        compare_batch_list(f"{place} {name}", batches, found.get(name, []), differences)
        for batch in batches:
            decoded.compare(f"{place} {name}", name, batch, partition.log_start_offset, differences)


def compare_batch_list(place: str, expected: list[Row], found: list[Row], differences: Differences) -> None:
    differences.check(place, "number of batches", len(expected), len(found))
    for batch, row in zip(expected, found, strict=False):
        for name, column in BATCH_COLUMNS.items():
            if name in batch:
                wanted = TIMESTAMP_TYPES[batch[name]] if name == "timestampType" else batch[name]
                differences.check(place, f"position {batch['position']} {column}", wanted, row[column])


class Decoded:
    """The result of iterating, by file name and position of each entry: the number of records, and the first offset."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.counts: Counter[tuple[str, int]] = Counter()
        self.base_offsets: dict[tuple[str, int], int] = {}
        for row in rows:
            entry = Path(row["file"]).name, row["position"]
            self.counts[entry] += 1
            self.base_offsets[entry] = row["base_offset"]

    def compare(self, place: str, name: str, batch: Row, log_start_offset: int, differences: Differences) -> None:
        if not batch["isValid"]:
            return
        entry = name, batch["position"]
        # A log start offset inside a batch hides the records before it; the records themselves are compared elsewhere.
        hidden = batch["baseOffset"] < log_start_offset
        if not (hidden and self.counts[entry] <= batch["records"]):
            differences.check(place, f"position {batch['position']} records", batch["records"], self.counts[entry])
        found = self.base_offsets.get(entry, batch["baseOffset"])
        differences.check(place, f"position {batch['position']} base_offset of its records", batch["baseOffset"], found)


def compare_indexes(view: View, partition: ExpectedPartition, differences: Differences) -> None:
    """`index_entries` and the snapshots of `producers` against the dumps of the index files."""
    place = f"{view.name} {partition.name}"
    found = _by_file(view.rows(partition, "index_entries"))
    snapshots = [row for row in view.rows(partition, "producers") if row["source"] == "snapshot"]
    found.update(_by_file(snapshots))
    for name in sorted(set(found) - set(partition.index_dumps)):
        differences.add(place, f"{name}: {len(found[name])} entries of a file that is not expected")
    for name, dump in partition.index_dumps.items():
        rows = found.get(name, [])
        columns = set(INDEX_FIELDS[Path(name).suffix].values())
        if dump.complete or len(rows) < len(dump.entries):
            differences.check(f"{place} {name}", "number of entries", len(dump.entries), len(rows))
        for number, (wanted, row) in enumerate(zip(dump.entries, rows, strict=False)):
            for column in sorted(columns & set(wanted)):
                differences.check(f"{place} {name}", f"entry {number} {column}", wanted[column], row[column])
            differences.check(f"{place} {name}", "entry number", number, row.get("entry", number))


def compare_epochs(view: View, partition: ExpectedPartition, differences: Differences) -> None:
    """leader-epoch-checkpoint, line by line."""
    expected = partition.leader_epochs or []
    rows = view.rows(partition, "epochs")
    found = [(row["leader_epoch"], row["start_offset"]) for row in rows if row["start_offset"] is not None]
    differences.check(f"{view.name} {partition.name} leader-epoch-checkpoint", "lines", expected, found)


def compare_segments(view: View, partition: ExpectedPartition, differences: Differences) -> None:
    """The live rows of `segments`: which there are, their sizes, where their entries end, how many batches."""
    place = f"{view.name} {partition.name} segments"
    columns = ["topic", "partition", "file", "state", "base_offset", "size", "valid_size", "batch_count"]
    rows = [row for row in view.rows(partition, "segments", columns=columns) if row["state"] in ("active", "closed")]
    expected = {name: batches for name, batches in partition.batches.items() if name.endswith(".log")}
    differences.check(place, "files", sorted(expected), [Path(row["file"]).name for row in rows])
    for row in rows:
        name = Path(row["file"]).name
        batches = expected.get(name, [])
        size = partition.case.get("logs", {}).get(name, {}).get("size", row["size"])
        stop = batches[-1]["position"] + batches[-1]["sizeInBytes"] if batches else 0
        wanted = {"base_offset": int(name.removesuffix(".log")), "size": size, "valid_size": stop, "batch_count": len(batches)}
        for column, value in wanted.items():
            differences.check(f"{place} {name}", column, value, row[column])


def compare_offsets(view: View, partition: ExpectedPartition, differences: Differences) -> None:
    """Log start, log end and last stable offset against the manifest."""
    place = f"{view.name} {partition.name}"
    start_offsets = {(log.topic, log.partition): log.start_offset for log in view.logs.partitions}
    batches = view.rows(partition, "batches", columns=["topic", "partition", "last_offset"])
    bases = [int(name.removesuffix(".log")) for name in partition.batches if name.endswith(".log")]
    log_end_offset = max([0, *bases, *(row["last_offset"] + 1 for row in batches)])
    transactions = view.rows(partition, "transactions")
    open_offsets = [row["first_offset"] for row in transactions if row["state"] == "open"]
    found = {
        "logStartOffset": start_offsets.get((partition.topic, partition.partition)),
        "logEndOffset": log_end_offset,
        "lastStableOffset": min([log_end_offset, *open_offsets]),
    }
    for name, offset in found.items():
        if partition.case.get(name) is not None:
            differences.check(place, name, partition.case[name], offset)


def compare_partition(view: View, partition: ExpectedPartition, **options: Any) -> Totals:
    """Compare everything that is known about one partition, opened one way; the options are for its records."""
    totals = Totals(partitions=1)
    differences = totals.differences
    for name in partition.altered_logs():
        differences.add(f"{view.name} {partition.name}", f"{name} is not the file that the expected files describe")
    try:
        totals.records = compare_records(view, partition, differences, **options)
        compare_committed(view, partition, differences)
        compare_batches(view, partition, differences)
        compare_indexes(view, partition, differences)
        compare_epochs(view, partition, differences)
        compare_segments(view, partition, differences)
        compare_offsets(view, partition, differences)
    except Exception as error:
        differences.fail(f"{view.name} {partition.name}", error)
    return totals


def compare_single_files(era: ExpectedEra, partition: ExpectedPartition) -> Differences:
    """Each segment, and each KRaft snapshot, opened as one file: its batches."""
    differences = Differences()
    for name, batches in partition.batches.items():
        place = f"{era.name}/{partition.name}/{name}"
        try:
            mode = "skip" if era.is_damaged(partition) else "strict"
            logs = kafkalog.open(str(partition.folder / name))
            found = read_rows(logs, "batches", on_damage=mode, columns=list(BATCH_COLUMNS.values()))
            compare_batch_list(place, batches, found, differences)
        except Exception as error:
            differences.fail(place, error)
    return differences


def compare_era(era: ExpectedEra) -> Totals:
    """One log directory: as a whole, then each partition folder, then each file by itself. A partition counts once."""
    totals = compare_whole(era)
    for partition in era.partitions:
        try:
            alone = View(partition.folder, name=f"{era.name}/", damaged=era.is_damaged(partition))
            totals.differences.merge(compare_partition(alone, partition, neighbours=partition.is_gapless).differences)
        except Exception as error:
            totals.differences.fail(f"{era.name}/{partition.name}", error)
        totals.differences.merge(compare_single_files(era, partition))
    return totals


def compare_whole(era: ExpectedEra) -> Totals:
    """The log directory opened as a whole."""
    totals = Totals()
    damaged = any(era.is_damaged(partition) for partition in era.partitions)
    try:
        view = View(era.folder, name=era.name, damaged=damaged)
        expected = Counter((partition.topic, partition.partition) for partition in era.partitions)
        found = Counter(view.partitions())
        totals.differences.check(view.name, "partitions not found", [], sorted(expected - found))
        totals.differences.check(view.name, "partitions found that are not expected", [], sorted(found - expected))
    except Exception as error:
        totals.differences.fail(era.name, error)
        return totals
    for partition in era.partitions:
        totals.merge(compare_partition(view, partition, columns=RECORD_COLUMNS))
    return totals


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        sys.stderr.write(f"usage: python tests/golden/compare.py FOLDER\n{__doc__}")
        return 2
    folder = Path(arguments[0])
    totals = Totals()
    for era in read_eras(folder):
        found = compare_era(era)
        totals.merge(found)
        sys.stdout.write("".join(f"{line}\n" for line in found.differences.lines))
        sys.stdout.write(f"{era.name}: {found}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{totals}\n")
    return 1 if totals.differences.count or not totals.partitions else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
