"""Decoders of Kafka's internal topics: fields as Kafka names them, and no error outside the tree."""

from __future__ import annotations

import random
import struct

import pytest

from kafkalog.errors import CorruptBatch
from kafkalog.payloads.internal_topics import (
    UnknownRecordType,
    decode_cluster_metadata,
    decode_consumer_offsets,
    decode_remote_log_metadata,
    decode_share_group_state,
    decode_transaction_state,
    java_double,
    json_text,
)
from kafkalog.payloads.messages import messages


def text(content: str) -> bytes:
    return struct.pack(">h", len(content)) + content.encode()


OFFSET_KEY = struct.pack(">h", 1) + text("group") + text("topic") + struct.pack(">i", 3)


def test_an_offset_commit_of_version_3() -> None:
    value = struct.pack(">hqi", 3, 42, 7) + text("note") + struct.pack(">q", 1_700_000_000_000)
    record = decode_consumer_offsets(OFFSET_KEY, value)
    assert (record.type, record.version) == (1, 3)
    assert record.key == {"group": "group", "topic": "topic", "partition": 3}
    assert record.value == {"offset": 42, "leaderEpoch": 7, "metadata": "note", "commitTimestamp": 1_700_000_000_000}


def test_a_tombstone_has_no_value() -> None:
    record = decode_consumer_offsets(OFFSET_KEY, None)
    assert (record.version, record.value) == (None, None)


def test_members_of_a_classic_consumer_group_are_decoded_and_other_bytes_stay() -> None:
    subscription = struct.pack(">hi", 0, 1) + text("orders") + struct.pack(">i", -1)
    member = text("member") + text("client") + text("/host") + struct.pack(">i", 10)
    member += struct.pack(">i", len(subscription)) + subscription + struct.pack(">i", 1) + b"\xff"
    value = struct.pack(">h", 0) + text("consumer") + struct.pack(">i", 5) + text("range") + text("member") + struct.pack(">i", 1)
    record = decode_consumer_offsets(struct.pack(">h", 2) + text("group"), value + member)
    assert record.value is not None
    (decoded,) = record.value["members"]
    assert decoded["subscription"] == {"topics": ["orders"], "userData": None}
    assert decoded["assignment"] == b"\xff"


def test_a_transaction_of_the_flexible_version_with_a_tag() -> None:
    value = struct.pack(">hqhib", 1, 99, 4, 60_000, 1) + b"\x02" + b"\x02t" + b"\x02" + struct.pack(">i", 0) + b"\0"
    value += struct.pack(">qq", 7, 8) + b"\x01" + b"\x02\x02" + struct.pack(">h", 2)
    record = decode_transaction_state(struct.pack(">h", 0) + text("id"), value)
    assert record.key == {"transactionalId": "id"}
    assert record.value == {
        "producerId": 99,
        "producerEpoch": 4,
        "transactionTimeoutMs": 60_000,
        "transactionStatus": 1,
        "transactionPartitions": [{"topic": "t", "partitionIds": [0]}],
        "transactionLastUpdateTimestampMs": 7,
        "transactionStartTimestampMs": 8,
        "clientTransactionVersion": 2,
    }


def test_a_topic_of_the_metadata_log() -> None:
    record = decode_cluster_metadata(b"\x01\x02\x00" + b"\x07orders" + bytes(15) + b"\x01" + b"\x00")
    assert (record.type, record.name, record.version) == (2, "TOPIC_RECORD", 0)
    assert record.data == {"name": "orders", "topicId": "AAAAAAAAAAAAAAAAAAAAAQ"}


def test_every_metadata_record_of_kafka_4_is_known() -> None:
    keys = {message.api_key for message in messages("cluster_metadata").values()}
    assert keys >= {0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 14, 15, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28}


def test_a_type_from_the_future_is_reported_by_its_number() -> None:
    with pytest.raises(UnknownRecordType) as caught:
        decode_share_group_state(struct.pack(">h", 321), None)
    assert caught.value.type == 321


def test_a_size_larger_than_the_bytes_is_refused_before_anything_is_allocated() -> None:
    with pytest.raises(CorruptBatch, match="only 4 byte"):
        decode_transaction_state(struct.pack(">hh", 0, 30_000) + b"abcd", None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (100.25, "100.25"),
        (9_999_999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (-1.5e300, "-1.5E300"),
        (float("nan"), '"NaN"'),
        (float("-inf"), '"-Infinity"'),
    ],
)
def test_a_double_is_written_as_java_writes_it(value: float, expected: str) -> None:
    assert java_double(value) == expected


def test_json_escapes_control_characters_and_leaves_the_rest() -> None:
    assert json_text({"a": ['q"\\\n\x01é', b"\x00\xff", None, True, 5]}) == '{"a":["q\\"\\\\\\n\\u0001é","AP8=",null,true,5]}'


def test_random_bytes_raise_nothing_outside_the_tree() -> None:
    source = random.Random(2)
    topics = (decode_consumer_offsets, decode_transaction_state, decode_share_group_state)
    for _ in range(3000):
        key = struct.pack(">h", source.randrange(-1, 25)) + source.randbytes(source.randrange(30))
        value = struct.pack(">h", source.randrange(-1, 5)) + source.randbytes(source.randrange(60))
        for decode in topics:
            try:
                decode(key, value)
            except CorruptBatch as error:
                assert error.reason == "payload"
        framed = b"\x01" + bytes([source.randrange(30), source.randrange(4)]) + source.randbytes(source.randrange(60))
        for framed_decode in (decode_cluster_metadata, decode_remote_log_metadata):
            try:
                framed_decode(framed)
            except CorruptBatch as error:
                assert error.reason == "payload"
