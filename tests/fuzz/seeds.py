"""Small segments to begin with: every format, codec and kind of entry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kafkalog.format.control import EndTxnMarker, encode_end_txn_marker
from kafkalog.format.reference import (
    Record,
    encode_batch,
    encode_control_batch,
    encode_empty_batch,
    encode_message,
    encode_wrapper,
)
from tests.property.oracle import compress

TIME = 1_700_000_000_000


def records(first_offset: int, *, headers: bool) -> list[Record]:
    found = ((b"trace", b"1"), (b"none", None)) if headers else ()
    return [
        Record(first_offset, TIME, b"key", b"value" * 3, found),
        Record(first_offset + 1, TIME + 1, None, b"", found[:1]),
        Record(first_offset + 3, TIME + 1000, b"", None),
    ]


def seeds() -> Iterator[tuple[str, bytes]]:
    """(name, segment) of each seed."""
    for codec in range(5):
        first = encode_batch(records(0, headers=True), codec=codec, compress=compress, leader_epoch=1)
        second = encode_batch(
            records(10, headers=False),
            codec=codec,
            compress=compress,
            leader_epoch=2,
            log_append_time=TIME,
            transactional=True,
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
        )
        yield f"batches-{codec}", first + second
    for magic in (0, 1):
        plain = [encode_message(record, magic=magic) for record in records(0, headers=False)]
        yield f"messages-{magic}", b"".join(plain)
        for codec in (1, 2, 3):
            wrapper = encode_wrapper(records(0, headers=False), codec=codec, compress=compress, magic=magic)
            yield f"wrapper-{magic}-{codec}", wrapper
    key, value = encode_end_txn_marker(EndTxnMarker(True, 3))
    marker = encode_control_batch(key, value, offset=20, timestamp=TIME, producer_id=7, producer_epoch=0)
    yield "control", marker + encode_empty_batch(base_offset=30, last_offset=40, max_timestamp=TIME)


def write_seeds(corpus: Path) -> None:
    """Put the seeds into the corpus folder; existing files stay."""
    corpus.mkdir(parents=True, exist_ok=True)
    for name, data in seeds():
        (corpus / name).write_bytes(data)
