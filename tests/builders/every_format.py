"""A log directory with every format and codec, transactions and a damaged segment; and a segment of 100 MB."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

from kafkalog import codecs
from kafkalog.format.control import EndTxnMarker, encode_end_txn_marker
from kafkalog.format.names import segment_file_name
from kafkalog.format.reference import Record, encode_batch, encode_control_batch, encode_message, encode_wrapper

FIRST_TIMESTAMP_MS = 1_767_225_600_000  # 2026-01-01
PRODUCER_ID = 9001
LARGE_SEGMENT_BYTES = 100_000_000
RECORDS_PER_BATCH = 150
STARTS = range(0, 100 * RECORDS_PER_BATCH, RECORDS_PER_BATCH)


def squeeze(codec: int, data: bytes, magic: int) -> bytes:
    return codecs.compress(codec, data, magic=magic)


def record(offset: int, key: str | None, value: str | None, *headers: tuple[str, str], timestamp: int | None = None) -> Record:
    time_ms = FIRST_TIMESTAMP_MS + offset * 1000 if timestamp is None else timestamp
    return Record(
        offset,
        time_ms,
        None if key is None else key.encode(),
        None if value is None else value.encode(),
        tuple((name.encode(), content.encode()) for name, content in headers),
    )


def make_logs(folder: Path) -> None:
    """A log directory of four topics."""
    write_segment(folder / "orders-0", 0, make_orders())
    write_segment(folder / "legacy-0", 0, make_legacy())
    write_segment(folder / "payments-0", 0, make_payments())
    healthy = make_sensors()
    damaged = bytearray(b"".join(healthy))
    damaged[len(healthy[0]) + 80] ^= 0x10  # one flipped bit, in the values of the second batch
    write_segment(folder / "sensors-0", 0, [bytes(damaged)])


def write_segment(folder: Path, base_offset: int, entries: list[bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / segment_file_name(base_offset, "log")).write_bytes(b"".join(entries))


def make_orders() -> list[bytes]:
    """Format v2, one batch with each codec."""
    entries = []
    for codec in range(len(codecs.NAMES)):
        first = record(codec * 2, f"order-{codec * 2}", '{"status":"paid"}', ("trace", f"{codec:04x}"))
        second = record(codec * 2 + 1, f"order-{codec * 2 + 1}", None if codec == codecs.ZSTD else "")
        entries.append(encode_batch([first, second], leader_epoch=0, codec=codec, compress=squeeze))
    return entries


def make_legacy() -> list[bytes]:
    """All three formats in one segment, as an upgraded cluster leaves them."""
    return [
        encode_message(record(0, "a", "written by Kafka 0.8", timestamp=-1), magic=0),
        encode_wrapper(
            [record(offset, "b", "0.8, compressed", timestamp=-1) for offset in (1, 2)],
            codec=codecs.GZIP,
            compress=squeeze,
            magic=0,
        ),
        encode_message(record(3, "c", "written by Kafka 0.10"), magic=1),
        encode_wrapper([record(offset, "d", "0.10, compressed") for offset in (4, 5)], codec=codecs.LZ4, compress=squeeze),
        encode_batch([record(6, "e", "written since Kafka 0.11", ("format", "v2"))], leader_epoch=3),
    ]


def make_payments() -> list[bytes]:
    """Two transactions of one producer: the first commits, the second aborts."""
    entries = []
    for base_offset, sequence, value, commit in ((0, 0, "10 EUR", True), (3, 2, "99999 EUR", False)):
        records = [record(base_offset, "alice", "-" + value), record(base_offset + 1, "bob", "+" + value)]
        entries.append(
            encode_batch(
                records, leader_epoch=0, transactional=True, producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=sequence
            )
        )
        key, content = encode_end_txn_marker(EndTxnMarker(commit, coordinator_epoch=1))
        marker = {"offset": base_offset + 2, "timestamp": FIRST_TIMESTAMP_MS + (base_offset + 2) * 1000}
        entries.append(encode_control_batch(key, content, **marker, leader_epoch=0, producer_id=PRODUCER_ID, producer_epoch=0))
    return entries


def make_sensors() -> list[bytes]:
    return [
        encode_batch([record(base + step, "s1", f"{20 + base + step} °C") for step in range(2)], leader_epoch=0)
        for base in range(0, 8, 2)
    ]


def make_large_segment(folder: Path) -> int:
    """A segment of about 100 MB of JSON records; how many there are.

    The CRC of a v2 batch does not cover the base offset, so a few batches are built and written again at other offsets.
    """
    numbers = [range(start, start + RECORDS_PER_BATCH) for start in STARTS]
    bodies = [encode_batch(list(map(make_order, few)), leader_epoch=0)[8:] for few in numbers]
    folder.mkdir()
    size = base_offset = 0
    with (folder / segment_file_name(0, "log")).open("wb") as file:
        for body in cycle(bodies):
            if size > LARGE_SEGMENT_BYTES:
                return base_offset
            size += file.write(base_offset.to_bytes(8, "big") + body)
            base_offset += RECORDS_PER_BATCH
    return base_offset


def make_order(number: int) -> Record:
    trace = [("trace", f"{number:08x}")] if number % 3 == 0 else []
    return record(number, f"customer-{number * 7919 % 100_000:05}", order_json(number), *trace)


def order_json(number: int) -> str:
    return (
        f'{{"order_id":"{number * 2654435761 % (1 << 32):08x}-{number:04x}","customer":{number * 7919 % 100_000},"amount":'
        f'{number % 90 + 10}.{number % 100:02},"currency":"EUR","status":"shipped","city":"Lisbon","note":"left at the door"}}'
    )
