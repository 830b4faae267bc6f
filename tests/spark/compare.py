"""Compare what Spark reads from golden log directories with what consumers returned.

    python -m tests.spark.compare FOLDER

FOLDER holds log directories `<era>/` next to `<era>-expected/`. Prints each difference and ends with
`N partitions, R records, D differences`; exit status 1 if there are any.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafkalog.spark import session
from tests.golden.expected import ExpectedPartition, read_eras

# Small, so that logs of a few kilobytes are split, too.
SPLIT_BYTES = 20_000


@dataclass
class Compared:
    """How much was compared, and what differed."""

    partitions: int = 0
    records: int = 0
    differences: list[str] = field(default_factory=list)


def compare_era(spark: Any, folder: Path, era: str, isolation: str) -> Compared:
    """The records of one log directory; with read_committed their offsets."""
    (expected,) = [each for each in read_eras(folder) if each.name == era]
    options = {"includeHeaders": "true", "includeInternalTopics": "true", "maxPartitionBytes": str(SPLIT_BYTES)}
    frame = spark.read.format("kafkalog").options(isolation=isolation, **options).load(str(folder / era))
    found: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for row in frame.selectExpr("*", "unix_millis(timestamp) AS timestamp_ms").collect():
        found[row.topic, row.partition].append(row)
    compared = Compared()
    for partition in expected.partitions:
        wanted = expected_rows(partition, isolation)
        if wanted is None:
            continue
        rows = found[partition.topic, partition.partition]
        compared.partitions += 1
        compared.records += len(rows)
        if len(rows) != len(wanted):
            compared.differences.append(f"{era} {partition.name}: expected {len(wanted)} records, found {len(rows)}")
        for here, row in zip(wanted, rows, strict=False):
            values = as_expected(row, here)
            if values != {name: here[name] for name in values}:
                compared.differences.append(f"{era} {partition.name} offset {row.offset}: expected {here}, found {values}")
    return compared


def expected_rows(partition: ExpectedPartition, isolation: str) -> list[dict[str, Any]] | None:
    if isolation == "read_uncommitted":
        return partition.records
    offsets = partition.committed_offsets
    return None if offsets is None else [{"offset": offset} for offset in offsets]


def as_expected(row: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    """Spark's row with the names and types of the expected files, as far as these speak."""
    values = {name: row[name] for name in ("offset", "timestamp_ms", "timestampType")}
    values |= {name: None if row[name] is None else bytes(row[name]) for name in ("key", "value")}
    values["headers"] = [(header.key, None if header.value is None else bytes(header.value)) for header in row.headers or []]
    return {name: value for name, value in values.items() if name in wanted}


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m tests.spark.compare FOLDER\n")
        return 2
    folder = Path(arguments[0])
    spark = session("local[2]", **{"spark.ui.showConsoleProgress": "false"})
    total = Compared()
    for era in [each.name for each in read_eras(folder) if any(partition.records for partition in each.partitions)]:
        for isolation in ("read_uncommitted", "read_committed"):
            compared = compare_era(spark, folder, era, isolation)
            total.partitions += compared.partitions
            total.records += compared.records
            total.differences += compared.differences
    sys.stdout.write("".join(f"{line}\n" for line in total.differences))
    sys.stdout.write(f"{total.partitions} partitions, {total.records} records, {len(total.differences)} differences\n")
    return 1 if total.differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
