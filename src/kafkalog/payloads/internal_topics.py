"""The records that Kafka writes for itself, as dictionaries with Kafka's own field names, and as the text of Kafka's tools.

`__consumer_offsets`, `__transaction_state` and `__share_group_state`, by coordinators:

    key   := type int16, message             the type says which message key and value hold; keys are never flexible
    value := version int16, message          null: the key's subject is deleted

`__cluster_metadata` and `__remote_log_metadata`, which have no keys:

    value := frame version uvarint (1), type uvarint, version uvarint, message

Bytes that are not such a record raise CorruptBatch("payload").
"""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from reprlib import Repr
from typing import Any

from kafkalog.errors import CorruptBatch
from kafkalog.format import control
from kafkalog.format.java import MAX_INT16

from .messages import MessageReader, MessageSchema, messages, messages_by_type, payload_error

CONSUMER_PROTOCOL = "consumer"
GROUP_METADATA = 2

_short = Repr()
_short.maxlevel = 2


class UnknownRecordType(CorruptBatch):
    """A record of a type newer than these schemas."""

    def __init__(self, type: int) -> None:
        super().__init__("payload", detail=f"unknown record type {type}")
        self.type = type


@dataclass(frozen=True)
class CoordinatorRecord:
    """A record with Kafka's field names; `version` and `value` are None for a tombstone."""

    type: int
    key: dict[str, Any]
    version: int | None = None
    value: dict[str, Any] | None = None

    def __repr__(self) -> str:
        value = "tombstone" if self.value is None else f"version={self.version}, value={_short.repr(self.value)}"
        return f"CoordinatorRecord(type={self.type}, key={_short.repr(self.key)}, {value})"


def decode_consumer_offsets(key: bytes, value: bytes | None) -> CoordinatorRecord:
    """A record of `__consumer_offsets`: an offset commit, or the state of a classic, consumer, share or streams group.

    Subscriptions and assignments of the members of a classic consumer group are decoded too; bytes that are not stay bytes.
    """
    record = _decode_keyed("consumer_offsets", key, value)
    if record.type == GROUP_METADATA and record.value is not None and record.value["protocolType"] == CONSUMER_PROTOCOL:
        for member in record.value["members"]:
            member["subscription"] = _embedded("ConsumerProtocolSubscription", member["subscription"])
            member["assignment"] = _embedded("ConsumerProtocolAssignment", member["assignment"])
    return record


def decode_transaction_state(key: bytes, value: bytes | None) -> CoordinatorRecord:
    """A record of `__transaction_state`: the coordinator's state of a transactional id."""
    return _decode_keyed("transaction_state", key, value)


def decode_share_group_state(key: bytes, value: bytes | None) -> CoordinatorRecord:
    """A record of `__share_group_state`: a snapshot or an update of a share group's deliveries."""
    return _decode_keyed("share_group_state", key, value)


def _decode_keyed(topic: str, key: bytes, value: bytes | None) -> CoordinatorRecord:
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


def _read_message(reader: MessageReader, message: MessageSchema, version: int, part: str) -> dict[str, Any]:
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


# Metadata

FRAME_VERSION = 1


@dataclass(frozen=True)
class MetadataRecord:
    """A record with Kafka's field names; `name` is that of its type, such as TOPIC_RECORD."""

    type: int
    name: str
    version: int
    data: dict[str, Any]

    def __repr__(self) -> str:
        return f"MetadataRecord({self.name}, version={self.version}, {_short.repr(self.data)})"


def decode_cluster_metadata(value: bytes) -> MetadataRecord:
    """A record of KRaft's metadata log or of one of its snapshots, except control records."""
    return _decode_framed("cluster_metadata", value)


def metadata_kind(value: bytes) -> tuple[str, int, bool]:
    """Name and version of a metadata record, and whether these schemas know it; a later release may write others."""
    reader = MessageReader(value)
    if _read_short(reader, "frame version") != FRAME_VERSION:
        return "frame", value[0], False
    record_type, version = _read_short(reader, "type"), _read_short(reader, "version")
    message = messages_by_type("cluster_metadata").get((record_type, ""))
    if message is None:
        return f"type {record_type}", version, False
    return _type_name(message), version, version in message.versions


def decode_remote_log_metadata(value: bytes) -> MetadataRecord:
    """A record of the topic where tiered storage keeps its metadata."""
    return _decode_framed("remote_log_metadata", value)


def _decode_framed(topic: str, value: bytes) -> MetadataRecord:
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
    return MetadataRecord(record_type, _type_name(message), version, data)


def _type_name(message: MessageSchema) -> str:
    """The name of a record's type as Kafka's tools print it: TOPIC_RECORD."""
    return re.sub(r"(?<!^)([A-Z])", r"_\1", message.name).upper()


def _message_of(topic: str, record_type: int) -> MessageSchema:
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


# As text

# The word that Kafka's tools print for each type of KRaft, and the message in its value.
KRAFT_TYPES = {
    control.LEADER_CHANGE: ("LeaderChange:", "LeaderChangeMessage"),
    control.SNAPSHOT_HEADER: ("SnapshotHeader", "SnapshotHeaderRecord"),
    control.SNAPSHOT_FOOTER: ("SnapshotFooter", "SnapshotFooterRecord"),
    control.KRAFT_VERSION: ("KRaftVersion", "KRaftVersionRecord"),
    control.KRAFT_VOTERS: ("KRaftVoters", "VotersRecord"),
}


def decode_control_record(key: bytes | None, value: bytes | None) -> control.EndTxnMarker | dict[str, Any] | None:
    """The end of a transaction, or the fields of one of KRaft's records; None for an unknown type, which Kafka skips."""
    control_type = control.decode_control_type(key)
    if control_type in (control.ABORT, control.COMMIT):
        return control.decode_end_txn_marker(key, value)
    if control_type not in KRAFT_TYPES:
        return None
    try:
        return MessageReader(value or b"").message(messages("client")[KRAFT_TYPES[control_type][1]], 0)
    except CorruptBatch as error:
        raise CorruptBatch("control", detail=error.detail) from None


def control_text(key: bytes | None, value: bytes | None) -> str:
    """The text that follows a control record's metadata, with a space before it."""
    record = decode_control_record(key, value)
    if isinstance(record, control.EndTxnMarker):
        return f" endTxnMarker: {'COMMIT' if record.commit else 'ABORT'} coordinatorEpoch: {record.coordinator_epoch}"
    control_type = control.decode_control_type(key)
    if record is None:
        return f" controlType: UNKNOWN({control_type})"
    return f" {KRAFT_TYPES[control_type][0]} {json_text(record)}"


_ESCAPES = {chr(code): f"\\u{code:04X}" for code in range(32)}
_ESCAPES |= {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_TABLE = str.maketrans(_ESCAPES)

# Java writes a double without an exponent from this power of ten up to that one.
PLAIN_FROM, PLAIN_TO = -3, 7


def json_text(value: Any) -> str:
    """Compact JSON as the library that Kafka uses writes it; bytes become base64."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(name)}:{json_text(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if isinstance(value, str):
        return '"' + value.translate(_TABLE) + '"'
    if isinstance(value, bytes):
        return '"' + base64.b64encode(value).decode() + '"'
    if isinstance(value, float):
        return java_double(value)
    return json.dumps(value)


def java_double(value: float) -> str:
    """`value` as Java's Double.toString writes it; NaN and infinities are strings in JSON."""
    if math.isnan(value) or math.isinf(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    _, digits, exponent = Decimal(repr(abs(value))).normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    power = len(text) - 1 + exponent
    if PLAIN_FROM <= power < PLAIN_TO:
        plain = f"{Decimal(repr(abs(value))):f}"
        return sign + (plain if "." in plain else f"{plain}.0")
    return f"{sign}{text[0]}.{text[1:] or '0'}E{power}"
