"""A lake as its readers see it: the rows of its tables, the files that they count, and what else lies in the target."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from kafkalog.spark import ingest
from kafkalog.spark.ingestion.run import IngestSummary
from tests.spark.ingested import COLUMNS, Row

LAKES: Final = ("iceberg", "delta")
MILLISECONDS: Final = pa.timestamp("ms", "UTC")


def take_lake(source: Path | str, target: Path | str, table_format: str, **choices: Any) -> IngestSummary:
    """An ingest into a lake on threads of this process."""
    return ingest(str(source), str(target), **{"master": "none[2]", "table_format": table_format, **choices})


def iceberg_table(target: Path, name: str = "orders") -> Table:
    table: Table = catalog_of(target).load_table(("kafka", name))
    return table


def catalog_of(target: Path) -> Any:
    return load_catalog("kafkalog", type="sql", uri=f"sqlite:///{target}/catalog.db", warehouse=str(target))


def delta_table(target: Path, name: str = "orders") -> DeltaTable:
    return DeltaTable(target / name)


def read_lake(target: Path, table_format: str, name: str = "orders", columns: list[str] | None = None) -> list[Row]:
    """The rows of a table, in an order of their own, with the times that a log has."""
    wanted = columns or COLUMNS
    return rows_of(open_table(target, table_format, name), wanted)


def rows_of(found: Table | DeltaTable, wanted: list[str]) -> list[Row]:
    """The rows of an opened table."""
    table = found.scan().to_arrow() if isinstance(found, Table) else found.to_pyarrow_table()
    if "timestamp" in wanted:
        at = table.schema.get_field_index("timestamp")
        table = table.set_column(at, "timestamp", table.column("timestamp").cast(MILLISECONDS))
    return sorted((tuple(row.values()) for row in table.select(wanted).to_pylist()), key=repr)


def counted_files(target: Path, table_format: str, name: str = "orders") -> set[str]:
    """The data files that the table counts, below the target."""
    return counted_in(open_table(target, table_format, name), str(target))


def open_table(target: Path, table_format: str, name: str) -> Table | DeltaTable:
    return iceberg_table(target, name) if table_format == "iceberg" else delta_table(target, name)


def counted_in(table: Table | DeltaTable, root: str) -> set[str]:
    """The data files that an opened table counts, below the root of its target."""
    paths = [each.file.file_path for each in table.scan().plan_files()] if isinstance(table, Table) else table.file_uris()
    return {path.removeprefix("file://").removeprefix(f"{root}/") for path in paths}


def check_lake(
    target: Path, table_format: str, *names: str, replaced: int = 0, opened: Callable[[str], Table | DeltaTable] | None = None
) -> None:
    """Nothing is left of a broken run: the table counts every data file, except some that a commit has replaced, and every folder
    of a commit has its record. `opened` opens a table that is not in the target's own catalog."""
    for name in names:
        found = {str(path.relative_to(target)) for path in (target / name / "data").rglob("*.parquet")}
        counted = counted_in(opened(name) if opened else open_table(target, table_format, name), str(target))
        assert (counted - found, len(found - counted)) == (set(), replaced)
        records = {path.stem for path in (target / "_kafkalog" / "tables" / name).iterdir()}
        assert {path.name for path in (target / name / "data").iterdir() if any(path.iterdir())} <= records
        numbers = sorted(int(record.partition("-")[0]) for record in records)
        assert numbers == list(range(1, len(numbers) + 1)), "each number was given once"
    staging = target / "_kafkalog" / "staging"
    assert not staging.exists() or list(staging.iterdir()) == []


def marks(target: Path, table_format: str, name: str = "orders") -> dict[str, Any]:
    """What a table says of the last run."""
    if table_format == "iceberg":
        properties = iceberg_table(target, name).properties
        return {"commit": int(properties["kafkalog.commit"]), "offsets": json.loads(properties["kafkalog.offsets"])}
    table = delta_table(target, name)
    number = table.transaction_version("kafkalog")
    assert number is not None
    return {"commit": number >> 31, "offsets": json.loads(table.history(1)[0]["kafkalog.offsets"])}
