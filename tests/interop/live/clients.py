"""Clients of a live broker, each a process of its own: python -m tests.interop.live.clients COMMAND BOOTSTRAP TOPIC [ISOLATION]

produce       RECORDS records, a share of them with each codec
transactions  TRANSACTIONS transactions that end either way, the last one left open, with plain records between
consume       what a consumer gets, from the beginning to where it has to wait: a JSON list of [offset, value]
fill          a topic of one segment, with about as many MiB as the last argument says
digests       as consume, with the CRC-32 of each value in its place
create        topics of one partition that keep everything: their names, with commas between, and settings as JSON
add           MORE records, after those of the topic; of several, with commas between their names, each
churn         for the seconds of the last argument, short transactions of which half are aborted, and records of few keys
"""

from __future__ import annotations

import json
import os
import sys
import time
import zlib
from collections.abc import Callable

# The client library is imported where it is used: tests import this module for what its clients write.
RECORDS = 24_000
CODECS = (None, "gzip", "snappy", "lz4")
TRANSACTIONS = 24
CONSUME_SECONDS = 20
SEND_SECONDS = 60
MORE = 25


def value_of(number: int) -> bytes:
    return b"%d-" % number + b"payload " * (number % 40)


def is_aborted(transaction: int) -> bool:
    return transaction % 3 == 1


def produce(bootstrap: str, topic: str) -> None:
    from kafka import KafkaProducer

    share = RECORDS // len(CODECS)
    for turn, codec in enumerate(CODECS):
        producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=2, batch_size=4000)
        for number in range(turn * share, (turn + 1) * share):
            producer.send(topic, key=b"%d" % number, value=value_of(number), headers=[("n", b"%d" % number)])
        producer.flush()
        producer.close()


def write_transactions(bootstrap: str, topic: str) -> None:
    from kafka import KafkaProducer

    plain = KafkaProducer(bootstrap_servers=bootstrap)
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id="kafkalog")
    producer.init_transactions()
    for turn in range(TRANSACTIONS):
        producer.begin_transaction()
        for number in range(20):
            producer.send(topic, value=b"transaction %d record %d" % (turn, number))
            if number == 10:
                producer.flush()
                plain.send(topic, value=b"plain %d" % turn).get(SEND_SECONDS)
        producer.flush()
        if turn == TRANSACTIONS - 1:
            os._exit(0)  # closing the producer would end its transaction
        if is_aborted(turn):
            producer.abort_transaction()
        else:
            producer.commit_transaction()


def fill(bootstrap: str, topic: str, mebibytes: str) -> None:
    from random import Random

    from kafka import KafkaProducer
    from kafka.admin import KafkaAdminClient, NewTopic

    settings = {"segment.bytes": str(1 << 30), "retention.ms": "-1"}
    KafkaAdminClient(bootstrap_servers=bootstrap).create_topics([NewTopic(topic, 1, 1, topic_configs=settings)])
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, batch_size=16_000)
    random = Random(topic)
    for number in range((int(mebibytes) << 20) // 1040):
        producer.send(topic, key=b"%d" % number, value=random.randbytes(1024))
    producer.flush()
    producer.close()


def churn(bootstrap: str, topic: str, seconds: str) -> None:
    from kafka import KafkaProducer

    plain = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=1)
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"churn-{topic}")
    producer.init_transactions()
    deadline, turn = time.monotonic() + float(seconds), 0
    while time.monotonic() < deadline:
        producer.begin_transaction()
        for number in range(5):
            producer.send(topic, key=b"%d" % (number % 3), value=b"transaction %d record %d" % (turn, number))
        producer.flush()
        if turn % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
        for number in range(20):
            plain.send(topic, key=b"%d" % number, value=b"turn %d record %d" % (turn, number))
        plain.flush()
        turn += 1
    producer.close()
    plain.close()


def create(bootstrap: str, names: str, settings: str = "{}") -> None:
    from kafka.admin import KafkaAdminClient, NewTopic

    kept = {"retention.ms": "-1", **json.loads(settings)}
    topics = [NewTopic(name, 1, 1, topic_configs=kept) for name in names.split(",")]
    KafkaAdminClient(bootstrap_servers=bootstrap).create_topics(topics)


def add(bootstrap: str, names: str) -> None:
    from kafka import KafkaProducer

    # Messages of the old formats have no room for a producer id.
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=2, enable_idempotence=False)
    for topic in names.split(","):
        for number in range(MORE):
            producer.send(topic, key=b"more %d" % number, value=value_of(number)).get(SEND_SECONDS)
    producer.close()


def digests(bootstrap: str, topic: str) -> None:
    consume(bootstrap, topic, "read_uncommitted", zlib.crc32)


def consume(bootstrap: str, topic: str, isolation: str, shown: Callable[[bytes], object] = bytes.decode) -> None:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation, auto_offset_reset="earliest")
    place = TopicPartition(topic, 0)
    consumer.assign([place])
    (end,) = consumer.end_offsets([place]).values()
    rows: list[tuple[int, object]] = []
    deadline = time.monotonic() + CONSUME_SECONDS
    while consumer.position(place) < end and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=200).values():
            rows += [(record.offset, shown(record.value)) for record in records]
            deadline = time.monotonic() + CONSUME_SECONDS
    consumer.close()
    sys.stdout.write(json.dumps(rows))


COMMANDS: dict[str, Callable[..., None]] = {
    "produce": produce,
    "transactions": write_transactions,
    "consume": consume,
    "fill": fill,
    "digests": digests,
    "create": create,
    "add": add,
    "churn": churn,
}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
