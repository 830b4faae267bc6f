"""A snapshot of KRaft's metadata, such as `bootstrap.checkpoint`: what it consists of, and its bytes.

    snapshot := batch(SnapshotHeader), batch(records) *, batch(SnapshotFooter)      offsets from 0 on, leader epoch 0, no codec

A controller whose metadata log is empty begins with the records of its `bootstrap.checkpoint`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafkalog.format.control import encode_snapshot_footer, encode_snapshot_header
from kafkalog.format.reference import Record, encode_batch, encode_control_batch

from .message_writing import encode_cluster_metadata

NO_LOG = 0  # the time of the last record of the log that it covers: there is none, as in the one that formatting a disk writes
BATCH_BYTES = 256 << 10  # of values; KRaft reads batches of up to 8 MiB


@dataclass(frozen=True)
class NewMetadataRecord:
    """A record to be written; `name` as in TopicRecord."""

    name: str
    version: int
    data: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"NewMetadataRecord({self.name}, version={self.version}, {dict(self.data)!r})"


def encode_metadata_snapshot(records: Iterable[NewMetadataRecord], timestamp_ms: int) -> bytes:
    """The bytes of a snapshot of these records, all of which have one timestamp."""
    key, value = encode_snapshot_header(NO_LOG)
    parts = [encode_control_batch(key, value, offset=0, timestamp=timestamp_ms, leader_epoch=0)]
    offset = 1
    for values in _batches(encode_cluster_metadata(each.name, each.version, each.data) for each in records):
        stored = [Record(offset + number, timestamp_ms, None, content) for number, content in enumerate(values)]
        parts.append(encode_batch(stored, leader_epoch=0))
        offset += len(stored)
    key, value = encode_snapshot_footer()
    parts.append(encode_control_batch(key, value, offset=offset, timestamp=timestamp_ms, leader_epoch=0))
    return b"".join(parts)


def _batches(values: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for value in values:
        if batch and size + len(value) > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(value)
        size += len(value)
    if batch:
        yield batch
