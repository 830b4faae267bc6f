"""The lines of a producer state snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafkalog.format.sequence import decrement_sequence
from kafkalog.format.snapshot import decode_snapshot


def snapshot_lines(data: bytes) -> Iterator[str]:
    """One line per producer. Raises UnsupportedFormat, as `decode_snapshot`."""
    for producer in decode_snapshot(data):
        yield _producer_line({name: int(producer[name]) for name in producer.dtype.names})


def _producer_line(producer: dict[str, Any]) -> str:
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
