"""Control records as text, in the words of Kafka's own tools."""

from __future__ import annotations

from kafkalog.errors import CorruptBatch
from kafkalog.format import control

from .json_text import json_text
from .reading import MessageReader
from .schema import messages

# The word of each type that KRaft writes, and the message that its value holds.
KRAFT_TYPES = {
    control.LEADER_CHANGE: ("LeaderChange:", "LeaderChangeMessage"),
    control.SNAPSHOT_HEADER: ("SnapshotHeader", "SnapshotHeaderRecord"),
    control.SNAPSHOT_FOOTER: ("SnapshotFooter", "SnapshotFooterRecord"),
    control.KRAFT_VERSION: ("KRaftVersion", "KRaftVersionRecord"),
    control.KRAFT_VOTERS: ("KRaftVoters", "VotersRecord"),
}


def control_text(key: bytes | None, value: bytes | None) -> str:
    """What follows a control record's metadata, with a space before it."""
    control_type = control.decode_control_type(key)
    if control_type in (control.ABORT, control.COMMIT):
        marker = control.decode_control_record(key, value)
        assert isinstance(marker, control.EndTxnMarker)
        return f" endTxnMarker: {'COMMIT' if marker.commit else 'ABORT'} coordinatorEpoch: {marker.coordinator_epoch}"
    if control_type not in KRAFT_TYPES:
        return f" controlType: UNKNOWN({control_type})"
    word, name = KRAFT_TYPES[control_type]
    try:
        return f" {word} {json_text(MessageReader(value or b'').message(messages('client')[name], 0))}"
    except CorruptBatch as error:
        raise CorruptBatch("control", detail=error.detail) from None
