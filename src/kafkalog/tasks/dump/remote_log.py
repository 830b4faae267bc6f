"""Records of tiered storage as the text that Kafka's own objects give of themselves."""

from __future__ import annotations

from typing import Any

from kafkalog.errors import CorruptBatch
from kafkalog.payloads.internal_topics import MetadataRecord

SEGMENT_STATES = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")
PARTITION_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")


def remote_log_text(record: MetadataRecord) -> str:
    """What such an object prints; CorruptBatch with what Kafka says of fields that it does not accept."""
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
