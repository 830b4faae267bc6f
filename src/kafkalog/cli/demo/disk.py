"""The sample disk: the log directory of a broker whose power failed, as Kafka's own engine leaves it.

    orders    two partitions, three days of JSON in zstd; nothing is wrong with it
    clicks    a bit has flipped in the newest segment, which the broker had not flushed yet
    payments  a producer died in its transaction; consumers that read committed records wait for it
    audit     three formats in one segment: written by Kafka 0.8, 0.10 and 0.11
    refunds   a topic that was deleted a minute ago; its files are still there

Every byte is the same each time: nothing is random, and the clock stands still.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from kafkalog import codecs
from kafkalog.engine.checkpoints import OffsetCheckpoint
from kafkalog.engine.config import DAY_MS, LogConfig
from kafkalog.engine.log_directory import LogDirectory
from kafkalog.engine.partition_log import PartitionLog
from kafkalog.engine.schedule import ManualClock
from kafkalog.format.control import EndTxnMarker, encode_end_txn_marker
from kafkalog.format.names import CLEAN_SHUTDOWN, RECOVERY_POINT_CHECKPOINT, REPLICATION_CHECKPOINT
from kafkalog.format.reference import Record, encode_batch, encode_control_batch, encode_message, encode_wrapper
from kafkalog.storage.fs import LocalFs

FIRST_TIMESTAMP_MS = 1_767_225_600_000  # 2026-01-01
RECORDS_PER_BATCH = 150
DAYS = 3
ORDERS_PER_DAY = 600
CLICKS = 3000
FLIPPED_CLICK = 1800  # the first record of the batch that is damaged
REFUNDS = 120
LEADER_EPOCH = 4
META_PROPERTIES = "node.id=1\nversion=1\ncluster.id=kafkalogSampleClusterw\ndirectory.id=kafkalogSampleDisk000w\n"
TOPIC_IDS = {name: f"{name:A<21}A" for name in ("orders", "clicks", "payments", "audit", "refunds")}
DELETED_REFUNDS = "refunds-0.5f3c9a7be1d24c0f8a6b7d9e0c1f2a3b-delete"

Entries = Iterable[bytes]


def make_disk(folder: str | os.PathLike[str]) -> None:
    """Make the log directory `folder`, which is new or empty."""
    path = os.fspath(folder)
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "meta.properties"), "w", encoding="utf-8") as file:
        file.write(META_PROPERTIES)
    with LogDirectory(path, clock=_clock()) as directory:
        for partition in range(2):
            _append(_open(directory, "orders", partition), (_orders(day, partition) for day in range(DAYS)))
        _append(_open(directory, "clicks"), (_clicks(range(0, CLICKS // 2)), _clicks(range(CLICKS // 2, CLICKS))))
        _append(_open(directory, "payments"), [_payments()])
        _append(_open(directory, "audit"), [_audit()])
        ends = {name: log.log_end_offset for name, log in directory.logs.items()}
        flushed = {name: log.active_segment.base_offset for name, log in directory.logs.items()}
    _fail_power(path, ends, flushed)
    _make_deleted_topic(path)
    _flip_a_bit(os.path.join(path, "clicks-0", f"{CLICKS // 2:020}.log"))


def add_a_day(folder: str | os.PathLike[str]) -> None:
    """One more day of orders, in a segment of its own, as after the broker has worked for another day."""
    with LogDirectory(os.fspath(folder), clock=_clock()) as directory:
        for partition in range(2):
            log = _open(directory, "orders", partition)
            log.roll()
            _append(log, [_orders(DAYS, partition)])


def _clock() -> ManualClock:
    return ManualClock(_day_start(DAYS))


def _open(directory: LogDirectory, topic: str, partition: int = 0) -> PartitionLog:
    return directory.open_log(topic, partition, LogConfig(), topic_id=TOPIC_IDS[topic])


def _append(log: PartitionLog, segments: Iterable[Entries]) -> None:
    """Append the entries as a follower does, who stores them as they are; a segment for each part."""
    for number, entries in enumerate(segments):
        if number:
            log.roll()
        for entry in entries:
            log.append_as_follower(entry, LEADER_EPOCH)


def _make_deleted_topic(path: str) -> None:
    """A broker renames the folder of a deleted topic, and removes it a minute later."""
    alive = os.path.join(path, "refunds-0")
    with PartitionLog.open(alive, clock=_clock(), topic_id=TOPIC_IDS["refunds"]) as log:
        _append(log, [_refunds()])
    os.rename(alive, os.path.join(path, DELETED_REFUNDS))


def _fail_power(path: str, ends: dict[tuple[str, int], int], flushed: dict[tuple[str, int], int]) -> None:
    """No clean shutdown: segments were flushed when they were full, the newest ones were not."""
    fs = LocalFs()
    os.unlink(os.path.join(path, CLEAN_SHUTDOWN))
    OffsetCheckpoint(fs, os.path.join(path, RECOVERY_POINT_CHECKPOINT)).write(flushed)
    OffsetCheckpoint(fs, os.path.join(path, REPLICATION_CHECKPOINT)).write(ends)


def _flip_a_bit(segment: str) -> None:
    batches_before = (FLIPPED_CLICK - CLICKS // 2) // RECORDS_PER_BATCH
    position = sum(map(len, list(_clicks(range(CLICKS // 2, CLICKS)))[:batches_before])) + 1234
    with open(segment, "r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 0x10]))


# -- what is in it -------------------------------------------------------------------------------------------------------------


def _day_start(day: int) -> int:
    return FIRST_TIMESTAMP_MS + day * DAY_MS


def _compress(codec: int, data: bytes, magic: int) -> bytes:
    return codecs.compress(codec, data, magic=magic)


def _record(offset: int, key: str | None, value: str | None, timestamp: int, *headers: tuple[str, str]) -> Record:
    named = tuple((name.encode(), content.encode()) for name, content in headers)
    return Record(offset, timestamp, None if key is None else key.encode(), None if value is None else value.encode(), named)


def _batches(records: list[Record], codec: int) -> Iterator[bytes]:
    for start in range(0, len(records), RECORDS_PER_BATCH):
        part = records[start : start + RECORDS_PER_BATCH]
        yield encode_batch(part, leader_epoch=LEADER_EPOCH, codec=codec, compress=_compress)


def _orders(day: int, partition: int) -> Iterator[bytes]:
    offsets = range(day * ORDERS_PER_DAY, (day + 1) * ORDERS_PER_DAY)
    return _batches([_order(offset, day, partition) for offset in offsets], codecs.ZSTD)


def _order(offset: int, day: int, partition: int) -> Record:
    number = 2 * offset + partition
    time_ms = _day_start(day) + offset % ORDERS_PER_DAY * 144_000 + partition * 70_000
    city = ("Lisbon", "Gdansk", "Lisbon", "Izmir", "Leeds", "Gdansk", "Lisbon")[number * 31 % 7]
    value = (
        f'{{"order_id":"{number * 2654435761 % (1 << 32):08x}","customer":{number * 7919 % 1000},'
        f'"amount":{number % 90 + 10}.{number % 100:02},"currency":"EUR","city":"{city}","status":"shipped"}}'
    )
    return _record(offset, f"customer-{number * 7919 % 1000:03}", value, time_ms, ("trace", f"{number:08x}"))


def _clicks(offsets: range) -> Iterator[bytes]:
    """Uncompressed, so that a flipped bit is in a record and not in a codec."""
    pages = ("/", "/search", "/cart", "/checkout")
    records = [
        _record(at, f"session-{at % 97:02}", f'{{"page":"{pages[at % 4]}","ms":{at % 50 + 3}}}', _day_start(2) + at * 25_000)
        for at in offsets
    ]
    return _batches(records, codecs.NONE)


def _payments() -> Iterator[bytes]:
    """Committed, aborted, then one that nobody ends, and a committed one after it."""
    ends = ((7001, True), (7002, False), (7003, None), (7001, True))
    offset, sequences = 0, dict.fromkeys((7001, 7002, 7003), 0)
    for number, (producer, commit) in enumerate(ends):
        time_ms = _day_start(2) + number * 60_000
        amount = f"{(number + 1) * 25}.00 EUR"
        parts = [_record(offset, "account-17", f"-{amount}", time_ms), _record(offset + 1, "account-42", f"+{amount}", time_ms)]
        yield encode_batch(
            parts,
            leader_epoch=LEADER_EPOCH,
            transactional=True,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sequences[producer],
        )
        offset, sequences[producer] = offset + 2, sequences[producer] + 2
        if commit is not None:
            key, value = encode_end_txn_marker(EndTxnMarker(commit, coordinator_epoch=1))
            yield encode_control_batch(
                key,
                value,
                offset=offset,
                timestamp=time_ms + 1000,
                leader_epoch=LEADER_EPOCH,
                producer_id=producer,
                producer_epoch=0,
            )
            offset += 1


def _audit() -> Iterator[bytes]:
    """What years of upgrades leave: v0 and v1, single messages and compressed sets, then v2."""
    times = [FIRST_TIMESTAMP_MS + at * 1000 for at in range(60)]
    old = [_record(at, f"user-{at % 5}", f"login {at}", -1) for at in range(20)]
    newer = [_record(at, f"user-{at % 5}", f"login {at}", times[at]) for at in range(20, 40)]
    newest = [_record(at, f"user-{at % 5}", f"login {at}", times[at], ("app", "web")) for at in range(40, 60)]
    yield from (encode_message(record, magic=0) for record in old[:10])
    yield encode_wrapper(old[10:], codec=codecs.GZIP, compress=_compress, magic=0)
    yield from (encode_message(record, magic=1) for record in newer[:10])
    yield encode_wrapper(newer[10:], codec=codecs.LZ4, compress=_compress)
    yield encode_batch(newest, leader_epoch=LEADER_EPOCH)


def _refunds() -> Iterator[bytes]:
    start = _day_start(1)
    records = [_record(at, f"order-{at * 7:04}", f'{{"refund":{at % 40 + 5}}}', start + at * 60_000) for at in range(REFUNDS)]
    return _batches(records, codecs.LZ4)
