"""Kafka's log files in Spark. Importing this loads neither Spark nor Arrow nor Numba."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from .progress import SourceLag, lag
from .session import java_home, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kafkalog.errors import Limits
    from kafkalog.pages.report import Report
    from kafkalog.tables.choices import Names, Numbers

    from .ingestion.executors import Notices
    from .ingestion.run import IngestSummary

__all__ = ["SourceLag", "ingest", "java_home", "lag", "read_fast", "report", "session"]


def ingest(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    topics: Names | None = None,
    spark: SparkSession | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    value: str | None = None,
    schema: str | None = None,
    registry_prefix: bool = False,
    keep_raw: bool = False,
    by: str = "day",
    headers: bool = False,
    metadata: bool = False,
    isolation: str = "read_uncommitted",
    on_damage: str = "set-aside",
    on_data_loss: str = "fail",
    codec: str = "zstd",
    level: int | None = None,
    file_bytes: int = 256 << 20,
    on_progress: Callable[[int, int], None] | None = None,
    dry_run: bool = False,
    task_bytes: int | None = None,
    notices: Notices | None = None,
    table_format: str = "parquet",
    table: str | None = None,
    catalog: str | None = None,
    catalog_properties: Mapping[str, str] | None = None,
    namespace: str = "kafka",
) -> IngestSummary:
    """Ingest new records from the logs at `source` into tables under `target`, exactly once; returns a summary.

    The tables are folders of Parquet, or with `table_format="iceberg"` or `"delta"` tables of a lake: one for each topic, or one
    named `table` for all. Iceberg tables are in `namespace` of PyIceberg's catalog `catalog`, configured by its own files and by
    `catalog_properties`; without both, in a catalog of the target's own, `catalog.db`.

    It runs on `spark`, else on a session for `master` and `conf`. `master="none"` runs it on threads of this process, without
    Spark, and so does a run without a master where Spark or Java is not installed. `options` are those of the Spark source that
    choose offsets and times. With `value="json"` or `"avro"` values are decoded: `schema` is DDL or `df.schema.json()` (else
    inferred from a sample), or an Avro schema; `registry_prefix` is for values that start with the five bytes of a schema
    registry. docs/ingest.md explains each choice. `on_progress(done, total)` is called as tasks end; `notices` is called when
    Spark starts, or is missing; `dry_run` only plans.
    """
    from kafkalog.errors import UsageError
    from kafkalog.payloads.values import PayloadSpec, normalised
    from kafkalog.tables.choices import several_names

    from .ingestion.executors import make_executor
    from .ingestion.ingest_options import IngestOptions, LakeOptions
    from .ingestion.run import nothing, run_ingest

    if value is None and (schema is not None or registry_prefix or keep_raw):
        raise UsageError("schema, registry_prefix and keep_raw need value='json' or value='avro'")
    chosen = dict(options or {})
    if topics is not None:
        if any(name.lower() in ("subscribe", "subscribepattern", "assign") for name in chosen):
            raise UsageError("topics= and the options subscribe, subscribePattern and assign exclude each other")
        chosen["subscribe"] = ",".join(several_names("topics", topics) or ())
    paths = [source] if isinstance(source, str | os.PathLike) else source
    request = IngestOptions(
        tuple(os.fsdecode(path) for path in paths),
        os.fsdecode(target),
        chosen,
        by=by,
        headers=headers,
        metadata=metadata,
        isolation=isolation,
        on_damage=on_damage,
        on_data_loss=on_data_loss,
        codec=codec,
        level=level,
        file_bytes=file_bytes,
        task_bytes=task_bytes,
        payload=None if value is None else normalised(PayloadSpec(value, schema, registry_prefix=registry_prefix)),
        keep_raw=keep_raw,
        lake=LakeOptions(table_format, table, catalog, dict(catalog_properties or {}), namespace),
    )
    return run_ingest(request, lambda: make_executor(spark, master, conf or {}, notices), on_progress or nothing, dry_run=dry_run)


def read_fast(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    spark: SparkSession,
    schema: str | StructType | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The rows of `spark.read.format("kafkalog").schema(schema).options(**options).load(path)`, for about a third less CPU time.

    Files are listed and options checked now, in this process, not with the first action. Without a schema, columns that
    are never null are declared so. In everything else it is the same read.
    """
    from .session import require_pyspark

    require_pyspark()
    from .fast_read import frame_of

    paths = [path] if isinstance(path, str | os.PathLike) else path
    return frame_of(spark, [os.fsdecode(each) for each in paths], schema, options or {})


def report(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    spark: SparkSession,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    top: int = 50,
    quick: bool = False,
    on_damage: str = "skip",
    now_ms: int | None = None,
    limits: Limits | None = None,
) -> Report:
    """The same as `kafkalog.report`, counted by the executors of `spark`: for logs that are too large for one machine.

    Every executor must be able to read the paths. A task takes whole partitions, so the largest partition is the least that
    it takes.
    """
    from .session import require_pyspark

    require_pyspark()
    from kafkalog.tasks.overview import OverviewChoices

    from .reporting import make_report

    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    choices = OverviewChoices(
        topics=topics,
        partitions=partitions,
        top=top,
        quick=quick,
        on_damage=on_damage,
        now_ms=now_ms,
        threads=1,  # Spark gives a task one core
        limits=limits,
    )
    return make_report(spark, [os.fsdecode(path) for path in several], choices)
