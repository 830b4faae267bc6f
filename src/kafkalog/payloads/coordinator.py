"""The records of coordinators: `__consumer_offsets`, `__transaction_state`, `__share_group_state`.

key   := type int16, message             the type says which message key and value hold; keys are never flexible
value := version int16, message          null: whatever the key names is gone
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafkalog.errors import CorruptBatch

from .reading import MessageReader, payload_error
from .schema import Message, messages, messages_by_type

CONSUMER_PROTOCOL = "consumer"
GROUP_METADATA = 2


class UnknownRecordType(CorruptBatch):
    """A record of a type that came after these schemas."""

    def __init__(self, type: int) -> None:
        super().__init__("payload", detail=f"unknown record type {type}")
        self.type = type


@dataclass(frozen=True)
class CoordinatorRecord:
    """A record by Kafka's field names; `version` and `value` are None for a tombstone."""

    type: int
    key: dict[str, Any]
    version: int | None = None
    value: dict[str, Any] | None = None


def decode_consumer_offsets(key: bytes, value: bytes | None) -> CoordinatorRecord:
    """A record of `__consumer_offsets`: an offset commit, or the state of a classic, consumer, share or streams group.

    What members of a classic consumer group subscribe to and are assigned is decoded too; bytes that are no such thing stay
    bytes.
    """
    record = _decode("consumer_offsets", key, value)
    if record.type == GROUP_METADATA and record.value is not None and record.value["protocolType"] == CONSUMER_PROTOCOL:
        for member in record.value["members"]:
            member["subscription"] = _embedded("ConsumerProtocolSubscription", member["subscription"])
            member["assignment"] = _embedded("ConsumerProtocolAssignment", member["assignment"])
    return record


def decode_transaction_state(key: bytes, value: bytes | None) -> CoordinatorRecord:
    """A record of `__transaction_state`: what the coordinator knows of a transactional id."""
    return _decode("transaction_state", key, value)


def decode_share_group_state(key: bytes, value: bytes | None) -> CoordinatorRecord:
    """A record of `__share_group_state`: a snapshot or an update of what a share group has delivered."""
    return _decode("share_group_state", key, value)


def _decode(topic: str, key: bytes, value: bytes | None) -> CoordinatorRecord:
    reader = MessageReader(key)
    record_type = _read_version(reader, "key")
    known = messages_by_type(topic)
    if (record_type, "key") not in known:
        raise UnknownRecordType(record_type)
    fields = _read_message(reader, known[record_type, "key"], record_type, "key")
    if value is None:
        return CoordinatorRecord(record_type, fields)
    reader = MessageReader(value)
    version = _read_version(reader, "value")
    message = known[record_type, "value"]
    if version not in message.versions:
        raise payload_error(f"Found an unknown record version {version} for {record_type} type")
    return CoordinatorRecord(record_type, fields, version, _read_message(reader, message, version, "value"))


def _read_version(reader: MessageReader, part: str) -> int:
    if reader.left < 2:
        raise payload_error(f"Could not read version from {part}'s buffer.")
    return reader.integer(2)


def _read_message(reader: MessageReader, message: Message, version: int, part: str) -> dict[str, Any]:
    try:
        return reader.message(message, version)
    except CorruptBatch as error:
        detail = f"Could not read record with version {version} from {part}'s buffer due to: {error.detail}."
        raise payload_error(detail) from None


def _embedded(name: str, content: bytes) -> dict[str, Any] | bytes:
    """A message inside a field: version, then the message."""
    reader = MessageReader(content)
    try:
        version = reader.integer(2)
        return reader.message(messages("client")[name], version)
    except CorruptBatch:
        return content
