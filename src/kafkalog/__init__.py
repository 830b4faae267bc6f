"""kafkalog: Kafka's log as data, without a broker.

    import kafkalog

    logs = kafkalog.open("/var/lib/kafka/data")
    for batch in logs.read("records", columns=["offset", "key", "value"], topics=["orders"]):
        ...
    for finding in kafkalog.verify("/var/lib/kafka/data"):
        ...

Importing this package loads neither NumPy, Numba nor Arrow; its functions do.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .errors import (
    CorruptBatch,
    KafkaLogError,
    LimitExceeded,
    Limits,
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

    from .tables.logs import Logs
    from .tasks.explain import Explanation
    from .tasks.profile.result import Profile
    from .tasks.verify import Findings, Progress

__version__ = "0.1.0"

__all__ = [
    "CorruptBatch",
    "KafkaLogError",
    "LimitExceeded",
    "Limits",
    "NoLogs",
    "SegmentChanged",
    "SegmentError",
    "StorageError",
    "TornTail",
    "UnsupportedFormat",
    "UsageError",
    "__version__",
    "explain",
    "open",
    "profile",
    "verify",
]


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


def profile(
    path: str | os.PathLike[str],
    *,
    topics: Sequence[str] | None = None,
    partitions: Sequence[int] | None = None,
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
