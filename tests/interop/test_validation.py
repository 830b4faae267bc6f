"""Our validation of what a leader is to store, and Kafka's: for random sets and rules the same bytes, or the same refusal.

A longer run: python -m tests.interop.test_validation COUNT [SEED]
"""

from __future__ import annotations

import random
import sys

from kafkalog.engine.entries import Message, iter_entries
from kafkalog.engine.offsets import AppendOrigin
from kafkalog.engine.validation import Rules, validate
from kafkalog.errors import LogRefusal, RecordValidation
from kafkalog.format import batch
from tests.conftest import unavailable
from tests.engine.random_sets import DAY, NOW, random_set, source_codec
from tests.interop.live import broker
from tests.interop.live.validation import Refusal, Request, Stored, validate_all

CASES = 4000

# Where Kafka fails by accident and ours refuses for a reason (kafka name: ours); tests/parity has the reasons.
SAFER = {
    "UnsupportedOperationException": "InvalidRecordException",
    "IndexOutOfBoundsException": "CorruptRecordException",
    "OutOfMemoryError": "InvalidRecordException",
    "NullPointerException": "InvalidRecordException",
}


def test_random_sets_are_stored_as_kafka_stores_them_or_refused_as_kafka_refuses_them() -> None:
    problem = broker.resolve_jars()
    if problem:
        unavailable(problem)
    assert differences(random_requests(CASES, seed=1)) == []


def random_requests(count: int, seed: int) -> list[Request]:
    chance = random.Random(seed)
    return [request for _ in range(count) if (request := _random_request(chance)) is not None]


def _random_request(chance: random.Random) -> Request | None:
    data = random_set(chance)
    try:
        source = source_codec([entry.codec for entry in iter_entries(data)])
    except LogRefusal:
        return None
    if source and any(entry.records_count == 0 for entry in iter_entries(data)):
        return None  # no writer makes one; whether Kafka opens the stream of no records depends on the way it takes
    magic = chance.choice((2, 2, 2, 2, 1, 0))
    target = chance.choice((source, source, *range(5)))
    rules = Rules(
        codec=target,
        compact=chance.random() < 0.2,
        magic=magic,
        timestamp_type=batch.LOG_APPEND_TIME_TYPE if chance.random() < 0.3 else batch.CREATE_TIME,
        before_max_ms=chance.choice(((1 << 63) - 1, DAY)),
        after_max_ms=chance.choice(((1 << 63) - 1, DAY, 3_600_000)),
        leader_epoch=chance.choice((0, 9)),
        origin=chance.choice((AppendOrigin.CLIENT,) * 3 + (AppendOrigin.COORDINATOR,)),
        now_ms=NOW,
    )
    return Request(data, source, chance.choice((0, 5, 1 << 33)), rules)


def differences(requests: list[Request]) -> list[str]:
    """One line for each set whose outcome differs."""
    found = []
    for request, kafka in zip(requests, validate_all(requests), strict=True):
        ours = _ours(request)
        if not _same(kafka, ours):
            found.append(f"{request.rules}, source {request.source_codec}, {request.data.hex()}: Kafka {kafka}, we {ours}")
    return found


def _ours(request: Request) -> Stored | Refusal:
    try:
        validated = validate(bytearray(request.data), request.source_codec, request.next_offset, request.rules)
    except RecordValidation as error:
        return Refusal(error.kafka_name, error.cause.kafka_name, tuple(number for number, _ in error.record_errors))
    except LogRefusal as error:
        return Refusal(error.kafka_name, "", ())
    return Stored(bytes(validated.data), validated.next_offset, validated.max_timestamp, validated.is_rebuilt)


def _same(kafka: Stored | Refusal, ours: Stored | Refusal) -> bool:
    if isinstance(kafka, Stored) and isinstance(ours, Stored):
        same_data = kafka.data == ours.data or (kafka.is_rebuilt and _opened(kafka.data) == _opened(ours.data))
        return same_data and kafka[1:] == ours[1:]
    if isinstance(kafka, Refusal):
        kafka = kafka._replace(kafka_name=SAFER.get(kafka.kafka_name, kafka.kafka_name))
    return kafka == ours


def _opened(data: bytes) -> list[object]:
    """The entries of a rebuilt set, without compressed bytes, which are the codec library's."""
    opened: list[object] = []
    for entry in iter_entries(data):
        front = 12 if isinstance(entry, Message) else batch.HEADER_SIZE
        header = bytearray(entry.raw[:front])
        header[8:12] = bytes(4)
        header[17:21] = bytes(4)
        opened.append((bytes(header), entry.codec, entry.max_timestamp, entry.timestamp_type, list(entry)))
    return opened


if __name__ == "__main__":
    broken = differences(random_requests(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1))
    sys.stdout.write("".join(f"{line}\n\n" for line in broken) + f"{len(broken)} differences\n")
    sys.exit(bool(broken))
