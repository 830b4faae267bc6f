"""The child process of a Spark contestant: a session of its own, one query for each line on standard input.

    python -m benchmarks.spark_worker MASTER SOURCE QUERY PLACE [--bootstrap HOST:PORT] [--target FOLDER] [--table-format FORMAT]

SOURCE is kafka, kafkalog or parquet; PLACE the topic of the first and the path of the others. Rows are counted outside the
measured time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.spark_data import parquet_files
from kafkalog.spark import read_fast, session
from tests.campaigns.lake_readers import jars_of
from tests.spark.kafka_source import connector_jars

Frame = Any
DELTA_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def main() -> None:
    arguments = _parse()
    jars = list(connector_jars()) if arguments.source == "kafka" else []
    conf = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "2g"}
    if arguments.query == "write-delta":
        jars += sorted(jars_of("delta").glob("*.jar"))
        conf |= DELTA_CONF
    spark = session(arguments.master, "benchmark", **conf, **({"spark.jars": ",".join(map(str, jars))} if jars else {}))
    spark.sparkContext.setLogLevel("OFF")
    if arguments.target:
        shutil.rmtree(unfinished(arguments), ignore_errors=True)  # of an interrupted run
    query = QUERIES[arguments.query](spark, arguments)
    for _ in sys.stdin:
        started = time.perf_counter()
        counted = query()
        seconds = time.perf_counter() - started
        sys.stdout.write(json.dumps({"seconds": seconds, "rows": counted()}) + "\n")
        sys.stdout.flush()
    spark.stop()


def load(spark: Any, arguments: argparse.Namespace) -> Frame:
    """A new frame, so that each pass plans again."""
    if arguments.source == "parquet":
        return spark.read.parquet(arguments.place)
    if arguments.source == "kafkalog":
        return spark.read.format("kafkalog").load(arguments.place)
    options = {"kafka.bootstrap.servers": arguments.bootstrap, "subscribe": arguments.place}
    return spark.read.format("kafka").options(**options).load()


Query = Callable[[], Callable[[], int]]


def scan(spark: Any, arguments: argparse.Namespace) -> Query:
    """All columns, discarded."""
    rows = load(spark, arguments).count()

    def query() -> Callable[[], int]:
        load(spark, arguments).write.format("noop").mode("overwrite").save()
        return lambda: int(rows)

    return query


def scan_fast(spark: Any, arguments: argparse.Namespace) -> Query:
    """The same through `read_fast`."""
    rows = read_fast(arguments.place, spark=spark).count()

    def query() -> Callable[[], int]:
        read_fast(arguments.place, spark=spark).write.format("noop").mode("overwrite").save()
        return lambda: int(rows)

    return query


def count(spark: Any, arguments: argparse.Namespace) -> Query:
    def query() -> Callable[[], int]:
        rows = load(spark, arguments).count()
        return lambda: int(rows)

    return query


def count_batches(spark: Any, arguments: argparse.Namespace) -> Query:
    """The number of records from the headers of batches."""

    def query() -> Callable[[], int]:
        reader = spark.read.format("kafkalog").options(table="batches", checkCrcs="false")
        reader = reader.schema("record_count int, is_control boolean")
        rows = reader.load(arguments.place).where("NOT is_control").selectExpr("sum(record_count)").first()[0]
        return lambda: int(rows)

    return query


def write_parquet(spark: Any, arguments: argparse.Namespace) -> Query:
    """Through Spark's own writer."""

    def query() -> Callable[[], int]:
        load(spark, arguments).write.parquet(str(unfinished(arguments)))
        return lambda: finished_rows(arguments)

    return query


def write_delta(spark: Any, arguments: argparse.Namespace) -> Query:
    """Through Delta's own writer."""

    def query() -> Callable[[], int]:
        load(spark, arguments).write.format("delta").save(str(unfinished(arguments)))
        return lambda: finished_rows(arguments)

    return query


def ingest(spark: Any, arguments: argparse.Namespace) -> Query:
    """Through kafkalog's pipeline."""
    from kafkalog import spark as pipelines

    def query() -> Callable[[], int]:
        pipelines.ingest(arguments.place, unfinished(arguments), spark=spark, table_format=arguments.table_format)
        return lambda: finished_rows(arguments)

    return query


def unfinished(arguments: argparse.Namespace) -> Path:
    """The folder that a pass writes to, which does not exist yet."""
    return Path(arguments.target + ".unfinished")


def finished_rows(arguments: argparse.Namespace) -> int:
    """The rows that a pass has written, which replace those of the last one.

    Ends when everything is on the disk, so that no contestant pays for another's pending writes.
    """
    import pyarrow.parquet as pq

    target = Path(arguments.target)
    shutil.rmtree(target, ignore_errors=True)
    unfinished(arguments).rename(target)
    os.sync()
    return sum(pq.read_metadata(path).num_rows for path in parquet_files(target))


QUERIES: dict[str, Callable[[Any, argparse.Namespace], Query]] = {
    "scan": scan,
    "scan-fast": scan_fast,
    "count": count,
    "count-batches": count_batches,
    "write-parquet": write_parquet,
    "write-delta": write_delta,
    "ingest": ingest,
}


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_worker", description=__doc__)
    parser.add_argument("master")
    parser.add_argument("source", choices=["kafka", "kafkalog", "parquet"])
    parser.add_argument("query", choices=sorted(QUERIES))
    parser.add_argument("place")
    parser.add_argument("--bootstrap")
    parser.add_argument("--target")
    parser.add_argument("--table-format", default="parquet")
    return parser.parse_args()


if __name__ == "__main__":
    main()
