"""Kafka's log files as data, without a broker: read, check, repair and write them, and ingest them into Parquet.

    import kafkalog

    logs = kafkalog.open("/var/lib/kafka/data")
    for batch in logs.read("records", columns=["offset", "key", "value"], topics=["orders"]):
        ...
    for finding in kafkalog.verify("/var/lib/kafka/data"):
        ...
    kafkalog.append("orders.parquet", "new/orders-0", codec="zstd")

Each command of the command line is a function; docs/python.md says what each returns.

Look
    open            the logs at a path: `.read(table)` returns Arrow batches, `.follow()` waits for more
    ls              partitions with their sizes, offsets, formats and leftovers
    profile         where the bytes are: by topic, hour, codec, producer and key, and what could be saved
    report          all of this as one HTML file, with what is wrong and what to type next
    transactions    committed, aborted and open transactions, and which one holds back the last stable offset
    explain         the bytes of a batch or a small file, field by field
    dump            the text of Kafka's own DumpLogSegments
    cluster         a cluster at a glance, from the disks of its nodes: nodes, features, topics, settings
    groups          groups of consumers with their lag, and the history of their commits
    estimate        how large records are as v0, v1 and v2, by batch size and codec

Check
    verify          every fault of the logs, with file, position, reason code and advice
    diff            what two replicas, or a folder and its backup, differ in, and what explains it

Repair
    salvage         copy every intact batch of damaged replicas into clean partitions
    reindex         rebuild index files, producer snapshots and leader epochs
    recover         do what a broker does after an unclean shutdown
    find_deleted    deleted topics and segments that are still on the disk
    undelete        copy them into clean partitions
    cluster_move    single topics of one cluster, put into another one that is stopped
    cluster_rebuild  a cluster whose metadata is lost, as log directories that brokers open; or a backup as a new cluster

Write (in place only while no broker runs)
    append          append records of files or Arrow tables to a partition or a topic
    convert         re-encode batches as v2, with another codec or batch size
    compact         keep the last record of each key, as Kafka's cleaner does
    retain          delete segments by time or size, and records before an offset
    truncate        delete the records from an offset on
    LogDirectory    the engine: `.open_log(topic, partition).append(batch)` (PartitionLog, LogConfig)

Pipeline
    ingest          ingest new records into Parquet tables, exactly once, with or without Spark

Every error is a KafkaLogError. A single topic, partition or column may be given instead of a list. Importing this package loads
neither NumPy, Numba, Arrow nor PySpark; each name is imported when it is first used.
"""

from __future__ import annotations

import importlib
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
    from .engine.config import LogConfig
    from .engine.log_directory import LogDirectory
    from .engine.partition_log import PartitionLog
    from .pages.report import report
    from .spark import ingest
    from .tables.logs import open_logs as open
    from .tasks.append import append
    from .tasks.cluster import cluster
    from .tasks.cluster_move import cluster_move
    from .tasks.cluster_rebuild import cluster_rebuild
    from .tasks.compact import compact
    from .tasks.convert import convert
    from .tasks.diff import diff
    from .tasks.dump import dump
    from .tasks.estimate import estimate
    from .tasks.explain import explain
    from .tasks.groups import groups
    from .tasks.listing import ls
    from .tasks.profile import profile
    from .tasks.recover import recover
    from .tasks.reindex import reindex
    from .tasks.retain import retain
    from .tasks.salvage import salvage
    from .tasks.transactions import transactions
    from .tasks.truncate import truncate
    from .tasks.undelete import find_deleted, undelete
    from .tasks.verify import verify

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
    "cluster",
    "cluster_move",
    "cluster_rebuild",
    "compact",
    "convert",
    "diff",
    "dump",
    "estimate",
    "explain",
    "find_deleted",
    "groups",
    "ingest",
    "ls",
    "open",
    "profile",
    "recover",
    "reindex",
    "report",
    "retain",
    "salvage",
    "transactions",
    "truncate",
    "undelete",
    "verify",
]

# Where each name is imported from when it is first used; the same as the imports above, which only type checkers run.
_MODULES = {
    "LogConfig": "engine.config",
    "LogDirectory": "engine.log_directory",
    "PartitionLog": "engine.partition_log",
    "append": "tasks.append",
    "cluster": "tasks.cluster",
    "cluster_move": "tasks.cluster_move",
    "cluster_rebuild": "tasks.cluster_rebuild",
    "compact": "tasks.compact",
    "convert": "tasks.convert",
    "diff": "tasks.diff",
    "dump": "tasks.dump",
    "estimate": "tasks.estimate",
    "explain": "tasks.explain",
    "find_deleted": "tasks.undelete",
    "groups": "tasks.groups",
    "ingest": "spark",
    "ls": "tasks.listing",
    "open": "tables.logs",
    "profile": "tasks.profile",
    "recover": "tasks.recover",
    "reindex": "tasks.reindex",
    "report": "pages.report",
    "retain": "tasks.retain",
    "salvage": "tasks.salvage",
    "transactions": "tasks.transactions",
    "truncate": "tasks.truncate",
    "undelete": "tasks.undelete",
    "verify": "tasks.verify",
}
_NAMES_THERE = {"open": "open_logs"}  # where it is not the same


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f".{_MODULES[name]}", __name__)
    globals()[name] = found = getattr(module, _NAMES_THERE.get(name, name))
    return found


def __dir__() -> list[str]:
    """The public names; what the module needs for itself, and `__dir__` itself, would only be in the way."""
    own = {name for name in globals() if name.startswith("__")} - {"__dir__", "__getattr__"}
    return sorted({*__all__, "spark", *own})
