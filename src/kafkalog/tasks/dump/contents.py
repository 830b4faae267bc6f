"""Texts of keys and values as DumpLogSegments prints them with one of its decoders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkalog.errors import CorruptBatch, UsageError
from kafkalog.format.java import decode_utf8
from kafkalog.payloads.internal_topics import (
    CoordinatorRecord,
    MetadataRecord,
    UnknownRecordType,
    decode_cluster_metadata,
    decode_consumer_offsets,
    decode_remote_log_metadata,
    decode_share_group_state,
    decode_transaction_state,
    json_text,
)

from .options import Contents

Texts = tuple[str | None, str | None]
SEGMENT_STATES = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")
PARTITION_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")


def _coordinator_texts(decode: Callable[[bytes, bytes | None], CoordinatorRecord]) -> Contents:
    def texts(offset: int, key: bytes | None, value: bytes | None) -> Texts:
        if key is None:
            raise CorruptBatch("payload", base_offset=offset, detail="a record without a key, which this decoder cannot read")
        try:
            record = decode(key, value)
        except UnknownRecordType as error:
            return f"Unknown record type {error.type} at offset {offset}, skipping.", None
        except CorruptBatch as error:
            return f"Error at offset {offset}, skipping. {error.detail}", None
        key_text = json_text({"type": str(record.type), "data": record.key})
        if record.value is None:
            return key_text, "<DELETE>"
        return key_text, json_text({"version": str(record.version), "data": record.value})

    return texts


def _cluster_metadata_texts(offset: int, key: bytes | None, value: bytes | None) -> Texts:
    try:
        record = decode_cluster_metadata(_present(value))
    except CorruptBatch as error:
        return None, f"Error at {offset}, skipping. {error.detail}"
    content: dict[str, Any] = {"type": record.name, "version": record.version, "data": record.data}
    return None, json_text(content)


def _remote_log_metadata_texts(offset: int, key: bytes | None, value: bytes | None) -> Texts:
    try:
        return None, remote_log_text(decode_remote_log_metadata(_present(value)))
    except CorruptBatch as error:
        return None, f"Error at offset {offset}, skipping. {error.detail}"


def _present(value: bytes | None) -> bytes:
    if value is None:
        raise CorruptBatch("payload", detail="null")
    return value


# By the name of DumpLogSegments' option; of several, the first one here counts.
DECODERS: dict[str, Contents] = {
    "offsets-decoder": _coordinator_texts(decode_consumer_offsets),
    "transaction-log-decoder": _coordinator_texts(decode_transaction_state),
    "cluster-metadata-decoder": _cluster_metadata_texts,
    "remote-log-metadata-decoder": _remote_log_metadata_texts,
    "share-group-state-decoder": _coordinator_texts(decode_share_group_state),
}


def _integer_text(size: int) -> Callable[[bytes], str]:
    def text(content: bytes) -> str:
        if len(content) < size:
            raise CorruptBatch("payload", expected=f"an integer of {size} bytes", found=f"{len(content)} bytes")
        return str(int.from_bytes(content[:size], "big", signed=True))

    return text


# By the class that Kafka's tool takes. Its DefaultDecoder is left out: it prints the address of a Java array.
STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"
CLASSES: dict[str, Callable[[bytes], str]] = {
    STRING_DECODER: decode_utf8,
    "org.apache.kafka.tools.api.IntegerDecoder": _integer_text(4),
    "org.apache.kafka.tools.api.LongDecoder": _integer_text(8),
}


def class_contents(key_class: str, value_class: str) -> Contents:
    """Contents decoded by these classes; UsageError for one that is not known here."""
    for name in (key_class, value_class):
        if name not in CLASSES:
            known = ", ".join(CLASSES)
            raise UsageError(f"decoder class {name}: Java classes cannot be loaded here; allowed are {known}")

    def texts(offset: int, key: bytes | None, value: bytes | None) -> Texts:
        return _text(key_class, key), _text(value_class, value)

    return texts


def _text(name: str, content: bytes | None) -> str | None:
    return None if content is None else CLASSES[name](content)


def remote_log_text(record: MetadataRecord) -> str:
    """The text of such an object; CorruptBatch with Kafka's message for fields that it does not accept."""
    return _TEXTS[record.name](record.data)


def _segment(data: dict[str, Any]) -> str:
    start_offset, end_offset = data["startOffset"], data["endOffset"]
    if start_offset < 0:
        raise _refused(f"Unexpected start offset = {start_offset}. StartOffset for a remote segment cannot be negative")
    if end_offset < start_offset:
        limit = f"EndOffset for a remote segment cannot be less than startOffset = {start_offset}"
        raise _refused(f"Unexpected end offset = {end_offset}. {limit}")
    return _object(
        "RemoteLogSegmentMetadata",
        remoteLogSegmentId=_segment_id(data["remoteLogSegmentId"]),
        startOffset=start_offset,
        endOffset=end_offset,
        brokerId=data["brokerId"],
        maxTimestampMs=data["maxTimestampMs"],
        eventTimestampMs=data["eventTimestampMs"],
        segmentLeaderEpochs=_epochs(data["segmentLeaderEpochs"]),
        segmentSizeInBytes=data["segmentSizeInBytes"],
        customMetadata=_custom_metadata(data["customMetadata"]),
        state=_segment_state(data),
        txnIdxEmpty=_flag(data.get("txnIndexEmpty", False)),
    )


def _update(data: dict[str, Any]) -> str:
    return _object(
        "RemoteLogSegmentMetadataUpdate",
        remoteLogSegmentId=_segment_id(data["remoteLogSegmentId"]),
        customMetadata=_custom_metadata(data["customMetadata"]),
        state=_segment_state(data),
        eventTimestampMs=data["eventTimestampMs"],
        brokerId=data["brokerId"],
    )


def _delete(data: dict[str, Any]) -> str:
    state = data["remotePartitionDeleteState"]
    if not 0 <= state < len(PARTITION_STATES):
        raise _refused("null")
    return _object(
        "RemotePartitionDeleteMetadata",
        topicPartition=_partition(data["topicIdPartition"]),
        state=PARTITION_STATES[state],
        eventTimestampMs=data["eventTimestampMs"],
        brokerId=data["brokerId"],
    )


def _snapshot(data: dict[str, Any]) -> str:
    state = _segment_state(data)
    return _object(
        "RemoteLogSegmentMetadataSnapshot",
        segmentId=data["segmentId"],
        startOffset=data["startOffset"],
        endOffset=data["endOffset"],
        maxTimestampMs=data["maxTimestampMs"],
        segmentLeaderEpochs=_epochs(data["segmentLeaderEpochs"]),
        segmentSizeInBytes=data["segmentSizeInBytes"],
        customMetadata=_custom_metadata(data["customMetadata"]),
        state=state,
        txnIdxEmpty=_flag(data.get("txnIndexEmpty", False)),
    )


_TEXTS = {
    "REMOTE_LOG_SEGMENT_METADATA_RECORD": _segment,
    "REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD": _update,
    "REMOTE_PARTITION_DELETE_METADATA_RECORD": _delete,
    "REMOTE_LOG_SEGMENT_METADATA_SNAPSHOT_RECORD": _snapshot,
}


def _object(name: str, **fields: object) -> str:
    return f"{name}{{{', '.join(f'{field}={value}' for field, value in fields.items())}}}"


def _segment_id(data: dict[str, Any]) -> str:
    return _object("RemoteLogSegmentId", topicIdPartition=_partition(data["topicIdPartition"]), id=data["id"])


def _partition(data: dict[str, Any]) -> str:
    return f"{data['id']}:{data['name']}-{data['partition']}"


def _epochs(entries: list[dict[str, int]]) -> str:
    if not entries:
        raise _refused("segmentLeaderEpochs can not be null or empty")
    offsets = {entry["leaderEpoch"]: entry["offset"] for entry in entries}
    return f"{{{', '.join(f'{epoch}={offsets[epoch]}' for epoch in sorted(offsets))}}}"


def _custom_metadata(content: bytes | None) -> str:
    return "Optional.empty" if content is None else f"Optional[CustomMetadata{{{len(content)} bytes}}]"


def _segment_state(data: dict[str, Any]) -> str:
    state: int = data["remoteLogSegmentState"]
    if not 0 <= state < len(SEGMENT_STATES):
        raise _refused("state can not be null")
    return SEGMENT_STATES[state]


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _refused(text: str) -> CorruptBatch:
    return CorruptBatch("payload", detail=text)
