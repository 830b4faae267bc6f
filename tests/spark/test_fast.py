"""`read_fast`: the same rows, columns, options and errors as the source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalog.spark import read_fast
from kafkalog.spark.errors import SparkSourceError
from tests.builders.small_logs import made_batch, write_segment
from tests.spark.kafka_source import sorted_rows

Load = Callable[..., Any]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """orders-0 with a batch whose checksum is wrong, and orders-1."""
    damaged = bytearray(made_batch(10))
    damaged[-1] ^= 1
    write_segment(tmp_path / "orders-0", 0, made_batch(0), bytes(damaged), made_batch(20))
    write_segment(tmp_path / "orders-1", 0, made_batch(0))
    return tmp_path


@pytest.mark.parametrize(
    "options", [{}, {"includeHeaders": "true", "maxPartitionBytes": "3000"}, {"isolation": "read_committed", "subscribe": "txn"}]
)
def test_real_logs_give_the_rows_of_the_source(golden: Any, load: Load, spark: Any, options: dict[str, str]) -> None:
    path = golden("4.3.0") / "4.3.0"
    fast = read_fast(path, spark=spark, options=options)
    slow = sorted_rows(load(path, **options))
    assert fast.columns == slow.column_names
    assert sorted_rows(fast).cast(slow.schema).equals(slow)


def test_only_what_a_record_may_lack_can_be_null(logs: Path, spark: Any) -> None:
    strict = read_fast(logs, spark=spark, options={"includeHeaders": "true"}).schema
    assert [field.name for field in strict if field.nullable] == ["key", "value", "headers"]
    assert all(field.nullable for field in read_fast(logs, spark=spark, options={"mode": "PERMISSIVE"}).schema)


def test_a_schema_is_the_projection(logs: Path, spark: Any) -> None:
    rows = read_fast(logs / "orders-1", spark=spark, schema="offset long, value string").collect()
    assert [row.offset for row in rows] == list(range(10))
    assert rows[0].value.isprintable()


def test_other_tables_and_several_paths(logs: Path, spark: Any) -> None:
    paths = [logs / "orders-0", logs / "orders-1"]
    options = {"table": "batches", "checkCrcs": "false"}  # one of them is damaged
    frame = read_fast(paths, spark=spark, schema="record_count int", options=options)
    assert [row.record_count for row in frame.collect()] == [10, 10, 10, 10]


def test_damage_becomes_a_row_or_ends_the_query(logs: Path, spark: Any) -> None:
    rows = read_fast(logs, spark=spark, options={"mode": "PERMISSIVE"}).collect()
    assert (len(rows), sum(row._corrupt_record is not None for row in rows)) == (31, 1)
    with pytest.raises(Exception, match="KAFKALOG_CORRUPT_BATCH"):
        read_fast(logs, spark=spark).collect()


def test_nothing_to_read_gives_no_rows(logs: Path, spark: Any) -> None:
    assert read_fast(logs, spark=spark, options={"assign": '{"orders":[7]}'}).collect() == []


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        (None, {"mode": "lenient"}, "option mode='lenient'"),
        (None, {"startingOffsets": "latest"}, "not allowed in a batch read"),
        (None, {"subscribe": "nope"}, "no topic 'nope' here"),
        (None, {"path": "/elsewhere"}, "not allowed with path="),
        ("int", {}, "'int' names no columns"),
        ("colour string", {}, "has no column 'colour'"),
    ],
)
def test_mistakes_are_reported_at_the_call(
    logs: Path, spark: Any, schema: str | None, options: dict[str, str], message: str
) -> None:
    with pytest.raises(SparkSourceError, match="KAFKALOG_BAD_") as caught:
        read_fast(logs, spark=spark, schema=schema, options=options)
    assert message in str(caught.value)


def test_a_wrong_path_is_reported_at_the_call(tmp_path: Path, spark: Any) -> None:
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_STORAGE: .*nowhere: no such file"):
        read_fast(tmp_path / "nowhere", spark=spark)
