"""The topics that Spark's own Kafka source and kafkalog are compared on, written by a client of a live broker.

    python -m tests.spark.topics BOOTSTRAP

A process of its own, because it leaves a transaction open by ending without closing its producer.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

CODECS = (None, "gzip", "snappy", "lz4", "zstd")
FIRST_TIME = 1_700_000_000_000
OPEN_TRANSACTION_MS = 900_000  # the most that a broker allows; after it the broker would abort
SEND_SECONDS = 60
APPENDED_ROUNDS = 4
APPENDED_PAUSE_SECONDS = 0.02
ROLL_MS = 100
COMPACTED_ROUNDS = 4
DELETED_BEFORE = 30

TOPICS: dict[str, dict[str, Any]] = {
    "codecs": {"num_partitions": 3},
    "segments": {"num_partitions": 1, "configs": {"segment.bytes": str(1 << 20)}},
    "appended": {"num_partitions": 2, "configs": {"message.timestamp.type": "LogAppendTime"}},
    "payments": {"num_partitions": 2},
    "compacted": {
        "num_partitions": 1,
        "configs": {"cleanup.policy": "compact", "segment.ms": str(ROLL_MS), "min.cleanable.dirty.ratio": "0.01"},
    },
    "deleted": {"num_partitions": 1},
    "empty": {"num_partitions": 2},
}
# The cleaner and the checkpoint of log start offsets come at once instead of after a while; retention would remove old times.
BROKER_SETTINGS = {
    "log.initial.task.delay.ms": "200",
    "log.cleaner.backoff.ms": "100",
    "log.flush.start.offset.checkpoint.interval.ms": "200",
    "log.retention.ms": "-1",
}


def write(bootstrap: str) -> None:
    from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics(TOPICS, wait_for_metadata=True)
    write_codecs(bootstrap)
    plain = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5)
    for number in range(6000):  # in three segments
        plain.send("segments", key=b"%d" % number, value=b"x" * 400, timestamp_ms=FIRST_TIME + number * 10)
    for number in range(400):
        plain.send("deleted", value=b"%d" % number, timestamp_ms=FIRST_TIME + number)
    plain.flush()
    write_appended(plain)
    admin.delete_records({TopicPartition("deleted", 0): DELETED_BEFORE})
    write_compacted(plain)
    write_transactions(bootstrap, plain)
    os._exit(0)  # closing the producer would end its transaction


def write_codecs(bootstrap: str) -> None:
    """Keys, values and headers that are there, empty and null, with every codec, on three partitions."""
    from kafka import KafkaProducer

    contents = (None, b"", b"short", bytes(range(256)) * 3)
    headers: tuple[list[tuple[str, bytes | None]], ...] = (
        [],
        [("trace", b"1")],
        [("trace", b"1"), ("trace", b""), ("", b"\xff"), ("née", b"2")],
    )
    number = 0
    for codec in CODECS:
        producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=5)
        for _ in range(240):
            key, value = contents[number % 4], contents[number // 4 % 4]
            producer.send(
                "codecs",
                key=b"alone" if key is value is None else key,  # this client sends nothing that is null altogether
                value=value,
                headers=headers[number // 16 % 3],
                partition=number // 5 % 3,
                timestamp_ms=FIRST_TIME + number * 7 % 1500,  # not in order
            )
            number += 1
        producer.flush()
        producer.close()


def write_appended(producer: Any) -> None:
    """Rounds with rising times: the broker stamps every batch with its own clock."""
    for turn in range(APPENDED_ROUNDS):
        for number in range(100):
            producer.send("appended", value=b"%d %d" % (turn, number), partition=number % 2, timestamp_ms=FIRST_TIME)
        producer.flush()
        time.sleep(APPENDED_PAUSE_SECONDS)


def write_compacted(producer: Any) -> None:
    """Rounds of the same keys, each in a segment of its own, some of them ending with tombstones."""
    for turn in range(COMPACTED_ROUNDS):
        for number in range(300):
            gone = turn == 2 and number % 5 == 0
            value = None if gone else b"round %d" % turn
            producer.send("compacted", key=b"%d" % (number % (100 + 50 * turn)), value=value)
        producer.flush()
        time.sleep(2 * ROLL_MS / 1000)


def write_transactions(bootstrap: str, plain: Any) -> None:
    """Committed and aborted ones with plain records between them, and one at the end that stays open."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id="payments", transaction_timeout_ms=OPEN_TRANSACTION_MS)
    producer.init_transactions()
    for turn in range(9):
        producer.begin_transaction()
        for number in range(20):
            # The last one is in partition 0 only, so that partition 1 is read to its end.
            producer.send("payments", value=b"%d %d" % (turn, number), partition=0 if turn == 8 else number % 2)
        producer.flush()
        for partition in (0, 1):
            plain.send("payments", value=b"plain %d" % turn, partition=partition).get(SEND_SECONDS)
        if turn == 8:
            return
        if turn % 3 == 1:
            producer.abort_transaction()
        else:
            producer.commit_transaction()


if __name__ == "__main__":
    write(sys.argv[1])
