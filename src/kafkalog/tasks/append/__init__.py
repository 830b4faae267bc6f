"""Append records of files or Arrow tables to a partition, or to a topic by Kafka's own partitioner."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kafkalog.storage.fs import LocalFs

from .run import AppendOptions, AppendResult, PartitionAppend, Target, append_records
from .sources import SourceFile, source_file, sources_of
from .writing import Form

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "AppendOptions",
    "AppendResult",
    "Form",
    "PartitionAppend",
    "SourceFile",
    "Target",
    "append",
    "append_records",
    "source_file",
]


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

    With a `topic`, to all its partitions below `to`: by Kafka's own partitioner, or each record to the partition that it names
    (`partitioner="record"`). `transaction` is "commit", "abort" or "open". `config` has Kafka's topic settings by their names. A
    file is recognised by its content and appended once, unless `again`; of one that has grown, `only_new` appends the new lines.
    A table is appended each time. LogRefusal if a leader would not accept them.
    """
    number = -1 if producer_id is None else producer_id
    form = Form(magic, codec, level, batch_bytes, number, producer_epoch, transaction, leader_epoch)
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
