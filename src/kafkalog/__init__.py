"""kafkalog: Kafka's log as data, without a broker.

    import kafkalog

    logs = kafkalog.open("/var/lib/kafka/data")
    for batch in logs.read("records", columns=["offset", "key", "value"], topics=["orders"]):
        ...
    for finding in kafkalog.verify("/var/lib/kafka/data"):
        ...
    kafkalog.append("orders.parquet", "new/orders-0", codec="zstd")

    with kafkalog.LogDirectory("/var/lib/kafka/data") as directory:         # the write half, while no broker runs
        directory.open_log("orders", 0).append(batch)

Importing this package loads neither NumPy, Numba nor Arrow; what is read and written with does.
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
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from pyarrow.fs import FileSystem

    from .log.engine.config import LogConfig
    from .log.engine.log_directory import LogDirectory
    from .log.engine.partition_log import PartitionLog
    from .tables.logs import Logs
    from .tasks.append import AppendResult
    from .tasks.convert import ConvertResult
    from .tasks.explain import Explanation
    from .tasks.maintenance import MaintenanceResult
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
    "explain",
    "open",
    "recover",
    "retain",
    "truncate",
    "verify",
]


_WRITING = {"LogConfig": "config", "LogDirectory": "log_directory", "PartitionLog": "partition_log"}


def __getattr__(name: str) -> object:
    """The classes of the write half, loaded when they are first asked for."""
    if name not in _WRITING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".log.engine.{_WRITING[name]}", __name__), name)


def open(path: str | os.PathLike[str], *, filesystem: FileSystem | None = None) -> Logs:
    """The logs at `path`: a log directory, a topic-partition folder, a single file, or any of these as `s3://bucket/…`."""
    from .tables.logs import open_logs

    return open_logs(path, filesystem=filesystem)


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


def verify(
    path: str | os.PathLike[str],
    *,
    topics: Sequence[str] | None = None,
    partitions: Sequence[int] | None = None,
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
    dry_run: bool = False,
) -> AppendResult:
    """Append records (files, or Arrow tables with columns of the table `records`) to the partition in the folder `to`.

    With a `topic`, to all its partitions below `to`, by Kafka's own partitioner or each to the one that it names
    (`partitioner="record"`). `transaction` is "commit", "abort" or "open". `config` has Kafka's settings by their names. The same
    files appended last are not appended twice, unless `again`. LogRefusal if a leader would not take them.
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
    topics: Sequence[str] | None = None,
    partitions: Sequence[int] | None = None,
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
    topics: Sequence[str] | None = None,
    partitions: Sequence[int] | None = None,
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
    topics: Sequence[str] | None = None,
    partitions: Sequence[int] | None = None,
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
    topics: Sequence[str] | None = None,
    partitions: Sequence[int] | None = None,
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
    topics: Sequence[str] | None = None,
    partitions: Sequence[int] | None = None,
    now_ms: int | None = None,
    dry_run: bool = False,
) -> list[MaintenanceResult]:
    """Do to the partitions at `path` what a broker does after an unclean stop; `whole` looks also before the recovery point."""
    from .tasks.maintenance import Place
    from .tasks.recover import recover as recover_logs

    return list(recover_logs(path, Place(out, in_place, dry_run, now_ms, topics, partitions), whole=whole))
