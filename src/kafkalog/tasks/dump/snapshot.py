"""The lines of a producer state snapshot."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from crc32c import crc32c

from kafkalog.format import snapshot
from kafkalog.format.batch import decrement_sequence

_FIRST_FIELDS = struct.Struct(">hIi")
NOT_A_SNAPSHOT = "Snapshot failed schema validation: "


def snapshot_lines(data: bytes) -> Iterator[str]:
    """One line per producer, in the order stored; of a snapshot that `find_snapshot_problem` is content with."""
    for producer in snapshot.decode_snapshot(data):
        yield _producer_line({name: int(producer[name]) for name in producer.dtype.names})


def find_snapshot_problem(data: bytes) -> str | None:
    """What Kafka says of bytes that are no snapshot; None if they are one."""
    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) >= 2 and version != snapshot.VERSION:
        return f"{NOT_A_SNAPSHOT}Snapshot contained an unknown file version {version}"
    if len(data) < snapshot.HEADER_SIZE:
        return f"{NOT_A_SNAPSHOT}null"
    _, stored, count = _FIRST_FIELDS.unpack_from(data)
    left = len(data) - snapshot.HEADER_SIZE
    if count < 0:
        return f"{NOT_A_SNAPSHOT}non-nullable field producerEntries was serialized as null"
    if count > left:
        return f"{NOT_A_SNAPSHOT}Tried to allocate a collection of size {count}, but there are only {left} bytes remaining."
    if count * snapshot.ENTRY.itemsize > left:
        return f"{NOT_A_SNAPSHOT}null"
    computed = crc32c(memoryview(data)[snapshot.CRC_START :])
    if computed != stored:
        return f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {computed}"
    return None


def _producer_line(producer: dict[str, int]) -> str:
    first_offset = producer["current_txn_first_offset"]
    transaction = "OptionalLong.empty" if first_offset < 0 else f"OptionalLong[{first_offset}]"
    line = (
        f"producerId: {producer['producer_id']} producerEpoch: {producer['producer_epoch']} "
        f"coordinatorEpoch: {producer['coordinator_epoch']} currentTxnFirstOffset: {transaction} "
        f"lastTimestamp: {producer['timestamp']}"
    )
    if producer["last_offset"] >= 0:
        first_sequence = decrement_sequence(producer["last_sequence"], producer["offset_delta"])
        line += (
            f" firstSequence: {first_sequence} lastSequence: {producer['last_sequence']} "
            f"lastOffset: {producer['last_offset']} offsetDelta: {producer['offset_delta']} timestamp: {producer['timestamp']}"
        )
    return line + "\n"
