"""The tables of a whole cluster in Spark: those of the Python API, from all places together."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from kafkalog.spark.errors import SparkSourceError
from kafkalog.spark.options import CLUSTER_TABLES, METADATA_TABLES, parse_options
from kafkalog.tables import schemas
from kafkalog.tables.logs import Logs
from tests.clusters import packed

Load = Callable[..., Any]


@pytest.fixture(scope="module")
def three(golden_folder: Path) -> Path:
    return packed.unpack(golden_folder.parent / "clusters") / "three"


def without_zone(value: Any) -> Any:
    """Spark gives times in the session's time zone, which is UTC here."""
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def test_the_names_are_those_of_the_library() -> None:
    assert (CLUSTER_TABLES, METADATA_TABLES) == (schemas.CLUSTER_TABLES, schemas.METADATA_TABLES)


@pytest.mark.parametrize("table", ["topics", "configs", "brokers", "groups", "group_offsets", "offset_commits"])
def test_a_table_is_that_of_the_python_api(table: str, three: Path, spark: Any) -> None:
    logs = Logs("", packed.partitions_of(packed.log_directories(three)))
    expected = [tuple(map(without_zone, row.values())) for row in logs.read(table).read_all().to_pylist()]
    folders = json.dumps([str(folder) for folder in packed.log_directories(three)])
    reader = spark.read.format("kafkalog").option("table", table).option("paths", folders)
    from_each = [tuple(row) for row in reader.load().collect()]
    assert sorted(map(repr, from_each)) == sorted(map(repr, expected))


def test_a_folder_of_nodes_is_searched_and_rows_are_chosen_by_topic_and_offset(three: Path, load: Load) -> None:
    assert load(three, table="topics", subscribe="orders,users").count() == 8
    assert load(three, table="topics", at="30").count() == 0


@pytest.mark.parametrize(
    ("option", "value", "table", "said"),
    [
        ("at", "3", "groups", "only with topics"),
        ("at", "x", "topics", "an offset of the metadata log"),
        ("assign", '{"orders":[0]}', "topics", "filter its rows in the query"),
        ("subscribePattern", "o.*", "group_offsets", "filter its rows in the query"),
        ("startingOffsets", "earliest", "topics", "only with records and batches"),
    ],
)
def test_options_that_have_no_meaning_are_refused(option: str, value: str, table: str, said: str) -> None:
    with pytest.raises(SparkSourceError, match=said):
        parse_options({"path": "/data", "table": table, option: value})
