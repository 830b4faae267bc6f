"""The writer of Kafka's messages: what Kafka wrote comes out again byte for byte, and what a field cannot hold is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkalog.errors import UsageError
from kafkalog.format.reference import decode_entries, decode_records
from kafkalog.payloads.internal_topics import decode_cluster_metadata
from kafkalog.payloads.message_writing import encode_cluster_metadata, encode_message
from kafkalog.payloads.messages import MessageReader, MessageSchema, messages, messages_by_type
from kafkalog.payloads.metadata_snapshot import BATCH_BYTES, NewMetadataRecord, encode_metadata_snapshot
from tests.clusters import packed


@pytest.fixture(scope="module")
def metadata_files(golden_folder: Path) -> list[Path]:
    unpacked = packed.unpack(golden_folder.parent / "clusters")
    return sorted([*unpacked.glob("*/b*/d*/__cluster_metadata-0/*.log"), *unpacked.glob("*/b*/d*/**/*.checkpoint")])


def _values(file: Path) -> Iterator[bytes]:
    for entry in decode_entries(file.read_bytes()):
        if not entry.is_control:
            yield from (record.value or b"" for record in decode_records(entry))


def test_every_metadata_record_of_kafka_is_written_as_kafka_wrote_it(metadata_files: list[Path]) -> None:
    seen: Counter[str] = Counter()
    for file in metadata_files:
        for value in _values(file):
            record = decode_cluster_metadata(value)
            message = messages_by_type("cluster_metadata")[record.type, ""]
            assert encode_cluster_metadata(message.name, record.version, record.data) == value, record
            seen[message.name] += 1
    assert sum(seen.values()) > 1000
    assert {"PartitionRecord", "PartitionChangeRecord", "UserScramCredentialRecord", "ClientQuotaRecord"} <= set(seen)


def test_a_snapshot_is_the_bytes_that_formatting_a_disk_writes(metadata_files: list[Path]) -> None:
    files = [file for file in metadata_files if file.name == "bootstrap.checkpoint"]
    assert files
    for file in files:
        entries = list(decode_entries(file.read_bytes()))
        records = [NewMetadataRecord("FeatureLevelRecord", 0, decode_cluster_metadata(value).data) for value in _values(file)]
        made = list(decode_entries(encode_metadata_snapshot(records, entries[1].base_timestamp)))
        assert [entry.data for entry in made[1:-1]] == [entry.data for entry in entries[1:-1]]
        for ours, theirs in ((made[0], entries[0]), (made[-1], entries[-1])):  # Kafka's have the time of their own writing
            assert (ours.base_offset, ours.attributes, ours.leader_epoch, ours.magic) == (
                theirs.base_offset, theirs.attributes, theirs.leader_epoch, theirs.magic,
            )  # fmt: skip
            assert [(each.key, each.value) for each in decode_records(ours)] == [
                (each.key, each.value) for each in decode_records(theirs)
            ]


def test_a_large_snapshot_has_no_batch_that_kraft_would_not_read() -> None:
    records = [
        NewMetadataRecord("ConfigRecord", 0, {"resourceType": 2, "resourceName": f"t{number}", "name": "n", "value": "v" * 9000})
        for number in range(100)
    ]
    entries = list(decode_entries(encode_metadata_snapshot(records, 0)))
    assert max(entry.size for entry in entries) < BATCH_BYTES + 10_000
    offsets = [record.offset for entry in entries for record in decode_records(entry)]
    assert offsets == list(range(102))


def _example(message: MessageSchema, version: int) -> dict[str, Any]:
    """A value for each field of a version."""

    def of(kind: str, field: Any) -> Any:
        if kind.startswith("[]"):
            return [of(kind.removeprefix("[]"), field)] * 2
        if kind in ("string", "bytes", "uuid", "bool", "float64"):
            return {"string": "é", "bytes": b"\x00\xff", "uuid": "AAECAwQFBgcICQoLDA0ODw", "bool": True, "float64": 1.5}[kind]
        if field.fields:
            return {each.name: of(each.type, each) for each in field.fields if version in each.versions}
        return 5

    return {field.name: of(field.type, field) for field in message.fields if version in field.versions}


CASES = [
    (topic, name, version)
    for topic in ("cluster_metadata", "consumer_offsets", "transaction_state", "share_group_state", "client")
    for name, message in messages(topic).items()
    for version in range(message.versions.first, message.versions.last + 1)
]


@pytest.mark.parametrize(("topic", "name", "version"), CASES)
def test_every_field_of_every_message_is_read_back(topic: str, name: str, version: int) -> None:
    message = messages(topic)[name]
    values = _example(message, version)
    reader = MessageReader(encode_message(message, version, values))
    assert reader.message(message, version) == values
    assert reader.left == 0


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"name": None, "topicId": "A" * 22}, "may not be null"),
        ({"name": "orders", "topicId": "AAAA"}, "no id of 16 bytes"),
        ({"name": "orders", "topic": 1}, "no field topic"),
    ],
)
def test_what_a_field_cannot_hold_is_refused(values: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        encode_cluster_metadata("TopicRecord", 0, values)


def test_numbers_and_versions_out_of_range_are_refused() -> None:
    with pytest.raises(UsageError, match="does not fit into 2 bytes"):
        encode_cluster_metadata("FeatureLevelRecord", 0, {"name": "f", "featureLevel": 1 << 15})
    with pytest.raises(UsageError, match="has no version 9"):
        encode_cluster_metadata("TopicRecord", 9, {})
    with pytest.raises(UsageError, match="does not exist in version 0"):
        encode_cluster_metadata("PartitionRecord", 0, {"directories": ["A" * 22]})
