"""kafkalog: Kafka's log as data, without a broker.

    import kafkalog

    logs = kafkalog.open("/var/lib/kafka/data")
    for batch in logs.read("records", columns=["offset", "key", "value"], topics=["orders"]):
        ...
    for finding in kafkalog.verify("/var/lib/kafka/data"):
        ...

    with kafkalog.LogDirectory("/var/lib/kafka/data") as directory:         # the write half, while no broker runs
        directory.open_log("orders", 0).append(batch)

Importing this package loads neither NumPy, Numba nor Arrow; `open` and `verify` do, and so does what is written with.
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
    from collections.abc import Sequence

    from pyarrow.fs import FileSystem

    from .log.engine.config import LogConfig
    from .log.engine.log_directory import LogDirectory
    from .log.engine.partition_log import PartitionLog
    from .tables.logs import Logs
    from .tasks.explain import Explanation
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
    "explain",
    "open",
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
