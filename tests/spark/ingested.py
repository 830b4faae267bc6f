"""An ingested table as a reader sees it, and the logs that it was made from: the tests of the pipeline compare them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

import kafkalog
from kafkalog.spark import ingest
from kafkalog.spark.ingestion.run import IngestSummary
from tests.builders.small_logs import made_batch, write_segment

COLUMNS = ["topic", "partition", "offset", "timestamp", "timestampType", "key", "value"]
Row = tuple[Any, ...]


def write_orders(folder: Path) -> Path:
    """orders-0 in two segments, and orders-1."""
    write_segment(folder / "orders-0", 0, *(made_batch(offset) for offset in range(0, 100, 10)), indexed=[4, 7])
    write_segment(folder / "orders-0", 100, made_batch(100))
    write_segment(folder / "orders-1", 0, made_batch(0))
    return folder


def take(source: Path | str, target: Path | str, **choices: Any) -> IngestSummary:
    """An ingest on threads of this process."""
    return ingest(str(source), str(target), **{"master": "none[2]", **choices})


def data_files(target: Path) -> list[Path]:
    """The files that a reader of the folder finds: those without an underscore in front of a name on their path."""
    found = target.rglob("*.parquet")
    return sorted(path for path in found if not any(part.startswith("_") for part in path.relative_to(target).parts))


def read_table(target: Path, columns: list[str] | None = None) -> list[Row]:
    """The rows of the table, in an order of their own."""
    return sorted((tuple(row.values()) for row in _dataset(target).to_table(columns or COLUMNS).to_pylist()), key=repr)


def read_arrow(target: Path) -> pa.Table:
    """The table by topic, partition and offset, for large ones."""
    found = _dataset(target).to_table(COLUMNS)
    return found.sort_by([(name, "ascending") for name in ("topic", "partition", "offset")]).combine_chunks()


def _dataset(target: Path) -> Any:
    kind = ds.partitioning(pa.schema([("topic", pa.string()), ("day", pa.string()), ("hour", pa.string())]), flavor="hive")
    return ds.dataset([str(path) for path in data_files(target)], partitioning=kind, partition_base_dir=str(target))


def read_logs(source: Path, columns: list[str] | None = None, **choices: Any) -> list[Row]:
    """The same rows, as the Python API reads them."""
    rows = kafkalog.open(source).read("records", columns or COLUMNS, **choices).read_all().to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


def damaged_rows(target: Path) -> list[dict[str, Any]]:
    folder = target / "_damaged"
    rows: list[dict[str, Any]] = ds.dataset(str(folder)).to_table().to_pylist() if folder.exists() else []
    return sorted(rows, key=lambda row: (row["file"], row["position"]))


def commits(target: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((target / "_kafkalog" / "commits").glob("*.json"))]


def check_manifest(target: Path) -> None:
    """Every file is in one commit, has the rows that it says, and nothing is left of a broken run."""
    listed = [file for commit in commits(target) for file in commit["files"]]
    files = [path.relative_to(target) for path in data_files(target)]
    assert sorted(file["path"] for file in listed) == sorted(map(str, files))
    for file in listed:
        assert (target / file["path"]).stat().st_size == file["size"]
    assert sum(file["records"] for file in listed) == len(read_table(target, ["offset"])) if listed else True
    staging = target / "_kafkalog" / "staging"
    assert not staging.exists() or list(staging.iterdir()) == []
