"""Payloads of the scripts: batches and messages as clients, leaders and old brokers write them, and invalid ones."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

import crc32c
import numpy as np

from kafkalog import codecs
from kafkalog.format import batch as layout
from kafkalog.format import reference
from kafkalog.format.control import EndTxnMarker, encode_end_txn_marker
from kafkalog.format.reference import Record

from .script import START_MS

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
CLOSED_SEQUENCE: Final = (1 << 31) - 1


def records(count: int, *, first: int = 0, key: bytes | None = None, at: int = START_MS, size: int | None = None) -> list[Record]:
    """Records with values of their own from offset `first` on, at one time."""
    return [Record(first + number, at, key, _value(first + number, size)) for number in range(count)]


def _value(offset: int, size: int | None) -> bytes:
    content = b"value %d" % offset
    return content if size is None else content.ljust(size, b".")


def keyed(*pairs: tuple[bytes, bytes | None], first: int = 0, at: int = START_MS) -> list[Record]:
    """Records with these keys and values; no value is a tombstone."""
    return [Record(first + number, at, key, value) for number, (key, value) in enumerate(pairs)]


def batch(content: int | Sequence[Record], *, first: int = 0, at: int = START_MS, **fields: Any) -> bytes:
    """A v2 batch of records that are given, or of so many that are made up."""
    chosen = records(content, first=first, at=at) if isinstance(content, int) else content
    return reference.encode_batch(chosen, compress=_compress, **fields)


def produced(content: int | Sequence[Record], producer_id: int, epoch: int, sequence: int, **fields: Any) -> bytes:
    """A batch of an idempotent producer, or with `transactional` of a transaction."""
    return batch(content, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **fields)


def in_transaction(content: int | Sequence[Record], producer_id: int, epoch: int, sequence: int, **fields: Any) -> bytes:
    return produced(content, producer_id, epoch, sequence, transactional=True, **fields)


def marker(
    producer_id: int,
    epoch: int,
    *,
    commit: bool,
    offset: int,
    leader_epoch: int = 0,
    coordinator_epoch: int = 0,
    at: int = START_MS,
) -> bytes:
    """The end of a transaction as a leader sends it to its followers."""
    key, value = encode_end_txn_marker(EndTxnMarker(commit, coordinator_epoch))
    place = {"offset": offset, "timestamp": at, "leader_epoch": leader_epoch}
    return reference.encode_control_batch(key, value, producer_id=producer_id, producer_epoch=epoch, **place)


def empty(base_offset: int, last_offset: int, **fields: Any) -> bytes:
    """The batch that compaction leaves when all its records are gone."""
    fields = {"leader_epoch": 0, "max_timestamp": START_MS} | fields
    return reference.encode_empty_batch(base_offset=base_offset, last_offset=last_offset, **fields)


def messages(
    magic: int, content: int | Sequence[Record], *, codec: int = 0, first: int = 0, at: int = START_MS, **fields: Any
) -> bytes:
    """A v0 or v1 message set, in a wrapper if there is a codec."""
    chosen = records(content, first=first, at=at) if isinstance(content, int) else content
    if codec:
        return reference.encode_wrapper(chosen, codec=codec, compress=_compress, magic=magic, **fields)
    return b"".join(reference.encode_message(each, magic=magic, **fields) for each in chosen)


def altered(stored: bytes, *, checksum: bool = True, **fields: int) -> bytes:
    """A v2 batch with other values in fields of its header, under a matching checksum unless another is given."""
    header = np.frombuffer(stored, layout.HEADER, 1).copy()
    for name, value in fields.items():
        header[name] = value
    changed = header.tobytes() + stored[layout.HEADER_SIZE :]
    if not checksum:
        return changed
    crc = struct.pack(">I", crc32c.crc32c(changed[layout.CRC_START :]))
    return changed[: layout.CRC_POSITION] + crc + changed[layout.CRC_START :]


def with_body(stored: bytes, body: bytes, **fields: int) -> bytes:
    """A v2 batch with another body after its header."""
    fields["batch_length"] = layout.MIN_BATCH_LENGTH + len(body)
    return altered(stored[: layout.HEADER_SIZE] + body, checksum=True, **fields)


def _compress(codec: int, content: bytes, magic: int) -> bytes:
    return codecs.compress(codec, content, magic=magic)
