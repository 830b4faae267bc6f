"""Entries that our builder makes of random records, and those of Kafka's MemoryRecordsBuilder: same bytes, same refusals."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from kafkalog import codecs
from kafkalog.engine.building import RecordsBuilder, end_transaction_marker
from kafkalog.engine.entries import Batch
from kafkalog.errors import LogRefusal
from kafkalog.format import batch
from kafkalog.format.control import EndTxnMarker, encode_end_txn_marker
from kafkalog.format.reference import Record
from tests.interop.kafka import NEWEST, KafkaPeer, Refused, open_peer

CASES = 3000
APPEND_TIME = 1_700_000_000_123


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaPeer]:
    with open_peer(NEWEST) as peer:
        yield peer


@dataclass(frozen=True)
class Case:
    records: list[Record]
    options: dict[str, Any]  # as KafkaPeer.write takes them


def test_random_records_become_the_same_bytes_or_are_refused_alike(kafka: KafkaPeer) -> None:
    chance = random.Random(6)
    for number in range(CASES):
        case = _random_case(chance)
        ours, kafkas = _ours(case), _kafkas(kafka, case)
        assert _comparable(ours) == _comparable(kafkas), (number, case)


def test_a_marker_is_the_batch_that_a_coordinator_writes(kafka: KafkaPeer) -> None:
    key, value = encode_end_txn_marker(EndTxnMarker(True, 3))
    record = Record(7, 1000, key, value)
    theirs = kafka.write([record], producer_id=9, producer_epoch=1, transactional=True, control=True, leader_epoch=4)
    marker = EndTxnMarker(True, 3)
    assert end_transaction_marker(9, 1, marker, timestamp=1000, offset=7, partition_leader_epoch=4) == theirs


def _comparable(built: bytes | str) -> object:
    """The part that must be the same: all bytes, except for zstd, of which Kafka has another release, the decompressed ones."""
    if isinstance(built, str) or built[batch.MAGIC_POSITION] < 2 or (entry := Batch(built)).codec != codecs.ZSTD:
        return built
    return entry.base_offset, entry.attributes, entry.base_timestamp, entry.max_timestamp, entry.producer_id, list(entry)


def _ours(case: Case) -> bytes | str:
    options = case.options
    append_time = options["log_append_time"]
    try:
        builder = RecordsBuilder(
            case.records[0].offset,
            magic=options["magic"],
            codec=options["codec"],
            timestamp_type=_timestamp_type(options["magic"], append_time),
            log_append_time=-1 if append_time is None else append_time,
            producer_id=options["producer_id"],
            producer_epoch=options["producer_epoch"],
            base_sequence=options["base_sequence"],
            is_transactional=options["transactional"],
            partition_leader_epoch=options["leader_epoch"],
            delete_horizon_ms=options["delete_horizon_ms"],
        )
        for record in case.records:
            builder.append(record.offset, record.timestamp, record.key, record.value, record.headers)
        return builder.build()
    except LogRefusal as error:
        return error.kafka_name


def _kafkas(kafka: KafkaPeer, case: Case) -> bytes | str:
    try:
        return kafka.write(case.records, **case.options)
    except Refused as error:
        return str(error.args[0])


def _timestamp_type(magic: int, append_time: int | None) -> int:
    if magic == 0:
        return batch.NO_TIMESTAMP_TYPE
    return batch.CREATE_TIME if append_time is None else batch.LOG_APPEND_TIME_TYPE


def _random_case(chance: random.Random) -> Case:
    magic = chance.choice((0, 1, 2, 2))
    records = _random_records(chance, magic)
    producer_id, producer_epoch, base_sequence = chance.choice(((-1, -1, -1),) * 6 + ((5, 0, 0), (5, -1, 0), (5, 1, -1)))
    return Case(
        records,
        {
            "magic": magic,
            "codec": chance.choice((0, 0, 1, 2, 3, 4)),
            "log_append_time": APPEND_TIME if magic and chance.random() < 0.2 else None,
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
            "base_sequence": base_sequence,
            "transactional": chance.random() < 0.1,
            "leader_epoch": chance.choice((-1, 0, 7)),
            "delete_horizon_ms": APPEND_TIME if chance.random() < 0.1 else None,
        },
    )


def _random_records(chance: random.Random, magic: int) -> list[Record]:
    offset = chance.choice((0, 5, 1 << 33))
    records = []
    for _ in range(chance.choice((1, 2, 5, 40))):
        headers = tuple(
            (chance.choice((b"", b"h", "ключ".encode(), b"\xff", b"\xed\xa0\x80z")), chance.choice((None, b"", b"v")))
            for _ in range(chance.choice((0, 0, 0, 2)) if magic == 2 or chance.random() < 0.01 else 0)
        )
        words = chance.choices((b"alpha ", b"beta ", b"gamma ", chance.randbytes(9)), k=chance.choice((1, 5, 60)))
        value = chance.choice((None, b"", b"".join(words)))
        timestamp = chance.choice((-1, 0, APPEND_TIME + chance.randrange(-9000, 9000)))
        records.append(Record(offset, timestamp, chance.choice((None, b"", b"key")), value, headers))
        offset += chance.choice((1, 1, 1, 3, 70_000))
    if chance.random() < 0.06:
        first, last = records[0].offset, records[-1]
        offset, timestamp = chance.choice(((last.offset + 1, -7), (first, 0), (last.offset + (1 << 31), 0)))
        records.append(replace(last, offset=offset, timestamp=timestamp))
    return records
