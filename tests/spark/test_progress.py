"""The lag of a stream from what Spark reports, and that Spark has no place for it in a Python source."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkalog.spark import lag
from tests.spark.versions import has


def progress(end: object, latest: object, **source: object) -> dict[str, Any]:
    return {"sources": [{"description": "x", "startOffset": None, "endOffset": end, "latestOffset": latest, **source}]}


END, LATEST = {"orders": {"0": 90, "1": 10}}, {"orders": {"0": 100, "1": 10, "2": 4}}


@pytest.mark.parametrize(
    "given",
    [
        progress(END, LATEST),
        progress(json.dumps(END), json.dumps(LATEST)),  # as PySpark hands it out
        progress(str(END), str(LATEST)),  # before 4.2
        json.dumps(progress(END, LATEST)),
    ],
)
def test_the_lag_is_what_is_there_without_what_was_read(given: Any) -> None:
    (found,) = lag(given)
    assert found.offsets_behind == {("orders", 0): 10, ("orders", 1): 0, ("orders", 2): 4}
    assert found.total == 14
    assert found.metrics == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "10",
        "avgOffsetsBehindLatest": "4.666666666666667",
    }


def test_a_log_that_ends_before_what_was_read_is_not_ahead_of_itself() -> None:
    (found,) = lag(progress({"orders": {"0": 90}}, {"orders": {"0": 80}}))
    assert found.total == 0


def test_other_keys_of_the_offsets_are_no_partitions() -> None:
    beside = {"@lineage": {"orders": {"0": [7, 0, None]}, "5": {"0": [7, 0, None]}}, "version": 1, "note": {"x": 5}}
    (found,) = lag(progress({**END, **beside}, {**LATEST, **beside}))
    assert found.total == 14


@pytest.mark.parametrize(
    "source",
    [progress(None, None), progress("null", "null"), progress(5, 7), progress("not JSON", "x"), progress([1], {"logOffset": 4})],
)
def test_sources_of_other_kinds_are_left_out(source: dict[str, Any]) -> None:
    assert lag(source) == []


def test_before_the_first_micro_batch_there_is_none_and_without_partitions_no_metrics() -> None:
    assert lag(None) == []
    assert [found.metrics for found in lag(progress({}, {}))] == [{}]


def test_spark_asks_no_python_source_for_metrics_or_a_description(spark: Any) -> None:
    """When this fails, Spark has learned to: then the stream reader should report them itself."""
    load = spark._jvm.java.lang.Class.forName
    name = "PythonMicroBatchStreamWithTriggerAvailableNow" if has("limits") else "PythonMicroBatchStream"
    stream = load(f"org.apache.spark.sql.execution.datasources.v2.python.{name}")
    streaming = "org.apache.spark.sql.connector.read.streaming"
    assert load(f"{streaming}.SupportsAdmissionControl").isAssignableFrom(stream) == has("limits")
    assert not load(f"{streaming}.ReportsSourceMetrics").isAssignableFrom(stream)
    (shown,) = [method for method in stream.getMethods() if method.getName() == "toString"]
    assert shown.getDeclaringClass().getName() == "java.lang.Object"
