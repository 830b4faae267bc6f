"""The records of `__cluster_metadata` and `__remote_log_metadata`, which have no keys.

value := frame version uvarint (1), type uvarint, version uvarint, message
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from kafkalog.errors import CorruptBatch
from kafkalog.format.integers import MAX_INT16

from .reading import MessageReader, payload_error
from .schema import Message, messages_by_type

FRAME_VERSION = 1


@dataclass(frozen=True)
class MetadataRecord:
    """A record by Kafka's field names; `name` is that of its type, such as TOPIC_RECORD."""

    type: int
    name: str
    version: int
    data: dict[str, Any]


def decode_cluster_metadata(value: bytes) -> MetadataRecord:
    """A record of KRaft's metadata log or of one of its snapshots; control records are none."""
    return _decode("cluster_metadata", value)


def decode_remote_log_metadata(value: bytes) -> MetadataRecord:
    """A record of the topic where tiered storage keeps its metadata."""
    return _decode("remote_log_metadata", value)


def _decode(topic: str, value: bytes) -> MetadataRecord:
    reader = MessageReader(value)
    frame_version = _read_short(reader, "frame version")
    if frame_version == 0:
        raise payload_error(
            "Could not deserialize metadata record with frame version 0. Note that upgrades from the preview release of KRaft "
            "in 2.8 to newer versions are not supported."
        )
    if frame_version != FRAME_VERSION:
        raise payload_error(
            f"Could not deserialize metadata record due to unknown frame version {frame_version}"
            "(only frame version 1 is supported)"
        )
    record_type, version = _read_short(reader, "type"), _read_short(reader, "version")
    message = _message_of(topic, record_type)
    try:
        data = reader.message(message, version)
    except CorruptBatch:
        raise payload_error(f"Failed to deserialize record with type {record_type}") from None
    if reader.left:
        raise payload_error(f"Found {reader.left} byte(s) of garbage after {record_type}")
    return MetadataRecord(record_type, re.sub(r"(?<!^)([A-Z])", r"_\1", message.name).upper(), version, data)


def _message_of(topic: str, record_type: int) -> Message:
    message = messages_by_type(topic).get((record_type, ""))
    if message is None:
        cause = "org.apache.kafka.common.errors.UnsupportedVersionException"
        raise payload_error(f"{cause}: Unknown metadata id {record_type}")
    return message


def _read_short(reader: MessageReader, what: str) -> int:
    try:
        number = reader.uvarint()
    except CorruptBatch:
        raise payload_error(f"Error while reading {what}") from None
    if number > MAX_INT16:
        raise payload_error(f"Value for {what} was too large.")
    return number
