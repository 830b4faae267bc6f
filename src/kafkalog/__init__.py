"""kafkalog: Kafka's log as data, without a broker.

    import kafkalog

    logs = kafkalog.open("/var/lib/kafka/data")
    for batch in logs.read("records", columns=["offset", "key", "value"], topics=["orders"]):
        ...
    for finding in kafkalog.verify("/var/lib/kafka/data"):
        ...
    kafkalog.append("orders.parquet", "new/orders-0", codec="zstd")
    kafkalog.ls("/var/lib/kafka/data")      # each command of the command line has its function: see docs/python.md

    with kafkalog.LogDirectory("/var/lib/kafka/data") as directory:         # the write half, while no broker runs
        directory.open_log("orders", 0).append(batch)

One topic, partition or column may stand for a list of it. Importing this package loads neither NumPy, Numba, Arrow nor PySpark;
its functions load what they need.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

from .errors import (
    CorruptBatch,
    KafkaLogError,
    LimitExceeded,
    Limits,
    LogRefusal,
    NoLogs,
    SegmentChanged,
    SegmentError,
    StorageError,
    TornTail,
    UnsupportedFormat,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from pyarrow.fs import FileSystem
    from pyspark.sql import SparkSession

    from .engine.config import LogConfig
    from .engine.log_directory import LogDirectory
    from .engine.partition_log import PartitionLog
    from .spark.ingestion.run import IngestSummary
    from .tables.choices import Names, Numbers
    from .tables.logs import Logs
    from .tasks.append import AppendResult
    from .tasks.convert import ConvertResult
    from .tasks.dump import Dump
    from .tasks.estimate import Estimation
    from .tasks.explain import Explanation
    from .tasks.journal import SalvageResult
    from .tasks.listing import Listing
    from .tasks.maintenance import MaintenanceResult
    from .tasks.profile.result import Profile
    from .tasks.reindex import ReindexResult
    from .tasks.transactions import Transactions
    from .tasks.undelete import Deleted
    from .tasks.verify import Findings, Progress

__version__ = "0.1.0"

__all__ = [
    "CorruptBatch",
    "KafkaLogError",
    "LimitExceeded",
    "Limits",
    "LogConfig",
    "LogDirectory",
    "LogRefusal",
    "NoLogs",
    "PartitionLog",
    "SegmentChanged",
    "SegmentError",
    "StorageError",
    "TornTail",
    "UnsupportedFormat",
    "UsageError",
    "__version__",
    "append",
    "compact",
    "convert",
    "dump",
    "estimate",
    "explain",
    "find_deleted",
    "ingest",
    "ls",
    "open",
    "profile",
    "recover",
    "reindex",
    "retain",
    "salvage",
    "transactions",
    "truncate",
    "undelete",
    "verify",
]


_WRITING = {"LogConfig": "config", "LogDirectory": "log_directory", "PartitionLog": "partition_log"}


def __getattr__(name: str) -> object:
    """The classes of the write half, loaded when they are first asked for."""
    if name not in _WRITING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".engine.{_WRITING[name]}", __name__), name)


def open(path: str | os.PathLike[str], *, filesystem: FileSystem | None = None) -> Logs:
    """The logs at `path`: a log directory, a topic-partition folder, a single file, or any of these as `s3://bucket/…`."""
    from .tables.logs import open_logs

    return open_logs(path, filesystem=filesystem)


def ls(
    path: str | os.PathLike[str],
    *,
    topics: Names | None = None,
    deep: bool = False,
    limits: Limits | None = None,
    filesystem: FileSystem | None = None,
) -> Listing:
    """The partitions at `path`, from names, sizes and a few entries, or with `deep` from everything; `.topics` adds them up.

    What cannot be read or is damaged raises nothing: it is among the `problems` of its partition.
    """
    from .tasks.listing import list_logs

    return list_logs(path, topics=topics, deep=deep, limits=limits, filesystem=filesystem)


def explain(
    path: str | os.PathLike[str],
    *,
    offset: int | None = None,
    position: int | None = None,
    count: int | None = None,
    limits: Limits | None = None,
    filesystem: FileSystem | None = None,
) -> Explanation:
    """What the bytes of a file are, field by field: a batch or message of a log, an index, a snapshot, a checkpoint.

    Of a log, the entry that holds `offset`, or the byte at `position`, else the first one; `count` of them. Damage is explained
    as far as it goes: see `Explanation.problems`.
    """
    from .tasks.explain import explain as explain_file

    return explain_file(path, offset=offset, position=position, count=count, limits=limits, filesystem=filesystem)


def profile(
    path: str | os.PathLike[str],
    *,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    top: int = 10,
    quick: bool = False,
    on_damage: str = "skip",
    now_ms: int | None = None,
    retention_ms: int = 604_800_000,
    threads: int | None = None,
    limits: Limits | None = None,
    filesystem: FileSystem | None = None,
    on_progress: Progress | None = None,
) -> Profile:
    """Why is the disk full: the bytes at `path` by topic, hour, codec, producer, key and more, and what could be saved.

    One pass over the data, in memory that does not grow with it; what is not exact says how wrong it may be. `quick` reads
    headers and a few batches only. Damaged batches are left out and named in the result's `report`, unless `on_damage` says else.
    Timestamps after `now_ms` (by default the time it is) keep segments from being deleted; `retention_ms` says until when.
    """
    from .tasks.profile import profile as profile_logs

    return profile_logs(
        path,
        topics=topics,
        partitions=partitions,
        top=top,
        quick=quick,
        on_damage=on_damage,
        now_ms=now_ms,
        retention_ms=retention_ms,
        threads=threads,
        limits=limits,
        filesystem=filesystem,
        on_progress=on_progress,
    )


def verify(
    path: str | os.PathLike[str],
    *,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    threads: int | None = None,
    limits: Limits | None = None,
    filesystem: FileSystem | None = None,
    on_progress: Progress | None = None,
) -> Findings:
    """Everything that is wrong with the logs at `path`: entries, indexes, snapshots, checkpoints, each against the others."""
    from .tasks.verify import verify as verify_logs

    return verify_logs(
        path,
        topics=topics,
        partitions=partitions,
        threads=threads,
        limits=limits,
        filesystem=filesystem,
        on_progress=on_progress,
    )


def transactions(
    path: str | os.PathLike[str],
    *,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    limits: Limits | None = None,
    filesystem: FileSystem | None = None,
) -> Transactions:
    """Committed, aborted and open transactions of each partition at `path`, its last stable offset, and who holds it back."""
    from .tasks.transactions import transactions as list_transactions

    return list_transactions(path, topics=topics, partitions=partitions, limits=limits, filesystem=filesystem)


def estimate(
    source: str | os.PathLike[str] | pa.Table | None = None,
    *,
    limit: int | None = 10_000,
    codecs: Names | None = None,
    batch_sizes: Sequence[int] | None = None,
    count: int = 1,
    key_size: int | None = None,
    value_size: int | None = None,
    headers: Sequence[tuple[int, int]] = (),
    interval_ms: int = 1,
) -> Estimation:
    """How large records are as v0, v1 and v2, by batch size and codec.

    Of the first `limit` records of `source` (a log, a file of JSON lines, a table of records); without one, of `count` equal
    records of these sizes, uncompressed. Sizes of headers are pairs of name and value.
    """
    from .tasks.estimate import estimate_sizes, estimate_source

    if source is not None:
        return estimate_source(source, limit, codecs, batch_sizes)
    return estimate_sizes(
        count=count,
        key_size=key_size,
        value_size=value_size,
        headers=headers,
        interval_ms=interval_ms,
        batch_sizes=batch_sizes,
    )


def dump(
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    print_data_log: bool = False,
    deep_iteration: bool = False,
    skip_record_metadata: bool = False,
    verify_index_only: bool = False,
    index_sanity_check: bool = False,
    max_message_size: int | None = None,
    max_bytes: int | None = None,
    decoder: str | None = None,
    style: str = "4.3",
) -> Dump:
    """What Kafka's DumpLogSegments says of files: iterate over `.lines()`, then look at `.findings`.

    `decoder` is one of the tool's options for internal topics, such as "offsets-decoder".
    """
    from .tasks.dump import Dump, dump_options

    paths = [files] if isinstance(files, str | os.PathLike) else files
    options = dump_options(
        decoder,
        max_bytes,
        print_data_log=print_data_log,
        deep_iteration=deep_iteration,
        skip_record_metadata=skip_record_metadata,
        verify_index_only=verify_index_only,
        index_sanity_check=index_sanity_check,
        max_message_size=max_message_size,
        style=style,
    )
    return Dump([os.fspath(path) for path in paths], options)


def append(
    source: str | os.PathLike[str] | pa.Table | Sequence[str | os.PathLike[str] | pa.Table],
    to: str | os.PathLike[str],
    *,
    topic: str | None = None,
    partitions: int | None = None,
    partitioner: str = "key",
    format: str | None = None,
    encoding: str = "utf8",
    timestamps: str = "record",
    magic: int = 2,
    codec: str = "none",
    level: int | None = None,
    batch_bytes: int = 16_384,
    idempotent: bool = False,
    transaction: str | None = None,
    producer_id: int | None = None,
    producer_epoch: int = 0,
    leader_epoch: int | None = None,
    config: Mapping[str, str] | None = None,
    now_ms: int | None = None,
    again: bool = False,
    only_new: bool = False,
    dry_run: bool = False,
) -> AppendResult:
    """Append records (files, or Arrow tables with columns of the table `records`) to the partition in the folder `to`.

    With a `topic`, to all its partitions below `to`, by Kafka's own partitioner or each to the one that it names
    (`partitioner="record"`). `transaction` is "commit", "abort" or "open". `config` has Kafka's settings by their names. A file
    is known by its content and appended once, unless `again`; of one that has grown `only_new` appends the new lines. A table is
    appended each time. LogRefusal if a leader would not take them.
    """
    from .storage.fs import LocalFs
    from .tasks.append import AppendOptions, Form, Target, sources_of
    from .tasks.append import append as append_records

    is_producer = idempotent or transaction is not None or producer_id is not None
    number, epoch = -1 if producer_id is None else producer_id, producer_epoch if is_producer else -1
    form = Form(magic, codec, level, batch_bytes, number, epoch, transaction, leader_epoch)
    options = AppendOptions(
        now_ms,
        form,
        partitions=partitions,
        own_partitions=partitioner == "record",
        keep_timestamps=timestamps == "record",
        idempotent=idempotent,
        config=config or {},
        dry_run=dry_run,
        again=again,
        only_new=only_new,
    )
    return append_records(sources_of(source, format, encoding), Target.of(os.fspath(to), topic), options, LocalFs())


def convert(
    path: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    in_place: bool = False,
    codec: str | None = None,
    level: int | None = None,
    batch_bytes: int | None = None,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    dry_run: bool = False,
) -> list[ConvertResult]:
    """Write the partitions at `path` anew as v2 batches, with this codec, in batches of this size; offsets and timestamps stay.

    Into folders below `out`, or `in_place`. Without a codec and a size, each batch keeps its own.
    """
    from .codecs import codec_id
    from .segment.recode import Recoding
    from .tasks.convert import convert as convert_logs
    from .tasks.maintenance import Place

    place = Place(out, in_place, dry_run, topics=topics, partitions=partitions)
    return list(convert_logs(path, place, Recoding(None if codec is None else codec_id(codec), level, batch_bytes)))


def compact(
    path: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    in_place: bool = False,
    whole: bool = False,
    roll: bool = False,
    config: Mapping[str, str] | None = None,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    now_ms: int | None = None,
    dry_run: bool = False,
) -> list[MaintenanceResult]:
    """Compact the partitions at `path` as Kafka's cleaner would: below `out`, or `in_place`.

    `whole` begins at the start of the log, `roll` takes the newest segment too.
    """
    from .tasks.compact import compact as compact_logs
    from .tasks.maintenance import Place

    place = Place(out, in_place, dry_run, now_ms, topics, partitions)
    return list(compact_logs(path, place, config, whole=whole, roll=roll))


def retain(
    path: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    in_place: bool = False,
    start_offset: int | None = None,
    config: Mapping[str, str] | None = None,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    now_ms: int | None = None,
    dry_run: bool = False,
) -> list[MaintenanceResult]:
    """Delete what `retention.ms` and `retention.bytes` in `config` do not keep, and what lies before `start_offset`."""
    from .tasks.maintenance import Place
    from .tasks.retain import retain as retain_logs

    place = Place(out, in_place, dry_run, now_ms, topics, partitions)
    return list(retain_logs(path, place, config, start_offset=start_offset))


def truncate(
    path: str | os.PathLike[str],
    to_offset: int,
    *,
    out: str | os.PathLike[str] | None = None,
    in_place: bool = False,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    dry_run: bool = False,
) -> list[MaintenanceResult]:
    """Let the partitions at `path` end at an offset; a batch that holds it goes as a whole."""
    from .tasks.maintenance import Place
    from .tasks.truncate import truncate as truncate_logs

    return list(truncate_logs(path, to_offset, Place(out, in_place, dry_run, topics=topics, partitions=partitions)))


def recover(
    path: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    in_place: bool = False,
    whole: bool = False,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    now_ms: int | None = None,
    dry_run: bool = False,
) -> list[MaintenanceResult]:
    """Do to the partitions at `path` what a broker does after an unclean stop; `whole` looks also before the recovery point."""
    from .tasks.maintenance import Place
    from .tasks.recover import recover as recover_logs

    place = Place(out, in_place, dry_run, now_ms, topics, partitions)
    return list(recover_logs(path, place, whole=whole))


def salvage(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    fill_gaps: bool = False,
    unverified: bool = False,
    index_interval_bytes: int | None = None,
    dry_run: bool = False,
) -> list[SalvageResult]:
    """Copy all that is intact in the damaged partitions at `source` into clean ones below `out`; the source is only read.

    Several sources with one partition are replicas: each fills the holes of the others. `fill_gaps` fills gaps without damage,
    too; `unverified` keeps batches between two damages that may have been part of a value.
    """
    from .log.replicas import MergeOptions
    from .tasks.salvage import SalvageOptions
    from .tasks.salvage import salvage as salvage_logs

    options = SalvageOptions(dry_run, index_interval_bytes, MergeOptions(fill_gaps, unverified))
    return list(salvage_logs(source, out, options, topics=topics, partitions=partitions))


def reindex(
    path: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    discard: bool = False,
    index_interval_bytes: int | None = None,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    now_ms: int | None = None,
    dry_run: bool = False,
) -> list[ReindexResult]:
    """Rebuild index files, snapshots and leader epochs of the partitions at `path` as a broker's recovery would.

    In place, where what was there stays beside unless `discard`; or, without the logs, below `out`.
    """
    from .log.rebuild import RebuildOptions
    from .tasks.reindex import ReindexOptions
    from .tasks.reindex import reindex as reindex_logs

    options = ReindexOptions(out, dry_run, discard, index_interval_bytes, RebuildOptions(now_ms=now_ms))
    return list(reindex_logs(path, options, topics=topics, partitions=partitions))


def find_deleted(
    path: str | os.PathLike[str], *, topics: Names | None = None, partitions: Numbers | None = None
) -> list[Deleted]:
    """Deleted topics and segments at `path` that are still on the disk."""
    from .tasks.undelete import find_deleted as find

    return find(path, topics=topics, partitions=partitions)


def undelete(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    index_interval_bytes: int | None = None,
    dry_run: bool = False,
) -> list[SalvageResult]:
    """Copy what `find_deleted` finds into clean partitions below `out`; NoLogs if that is nothing."""
    from .tasks.salvage import SalvageOptions
    from .tasks.undelete import undelete as undelete_logs

    deleted = find_deleted(path, topics=topics, partitions=partitions)
    return list(undelete_logs(deleted, out, SalvageOptions(dry_run, index_interval_bytes)))


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
) -> IngestSummary:
    """Take what is new in the logs at `source` into Parquet tables under `target`, exactly once.

    On `spark`, else on a session for `master`; with `master="none"`, or without Spark or Java, on threads of this process.
    `options` are those of the Spark source that choose offsets and times. What each choice means is in docs/ingest.md.
    """
    from .spark import ingest as ingest_logs
    from .tables.choices import several_names

    chosen = dict(options or {})
    if topics is not None:
        if any(name.lower() in ("subscribe", "subscribepattern", "assign") for name in chosen):
            raise UsageError("topics= and the options subscribe, subscribePattern and assign exclude each other")
        chosen["subscribe"] = ",".join(several_names("topics", topics) or ())
    return ingest_logs(
        source,
        target,
        spark=spark,
        master=master,
        conf=conf,
        on_progress=on_progress,
        dry_run=dry_run,
        options=chosen,
        value=value,
        schema=schema,
        registry_prefix=registry_prefix,
        keep_raw=keep_raw,
        by=by,
        headers=headers,
        metadata=metadata,
        isolation=isolation,
        on_damage=on_damage,
        on_data_loss=on_data_loss,
        codec=codec,
        level=level,
        file_bytes=file_bytes,
    )
