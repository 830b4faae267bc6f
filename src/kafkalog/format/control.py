"""Control records, which brokers write for each other. They are in batches with the control bit and no consumer sees them.

    key             := version int16, type int16                                     more bytes or a newer version: read as 0

    type 0, 1       := version int16, coordinator_epoch int32                        abort, commit: ends a transaction
    LeaderChange    := version int16, leader_id int32, voters [voter_id int32, tags], granting_voters [voter_id int32, tags], tags
    SnapshotHeader  := version int16, last_contained_log_timestamp int64, tags
    SnapshotFooter  := version int16, tags
    KRaftVersion    := version int16, kraft_version int16, tags
    KRaftVoters     := version int16, voters [voter_id int32, directory_id uuid,
                       endpoints [name string, host string, port uint16, tags],
                       min_supported_version int16, max_supported_version int16, tags, tags], tags

    [...] and string := uvarint length + 1, then the elements or UTF-8 bytes
    tags             := uvarint count, then tag uvarint, size uvarint and that many bytes each

A record that cannot be read raises CorruptBatch("control"). KRaft's values are read by `payloads.internal_topics`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from kafkalog.errors import CorruptBatch

ABORT: Final = 0
COMMIT: Final = 1
LEADER_CHANGE: Final = 2
SNAPSHOT_HEADER: Final = 3
SNAPSHOT_FOOTER: Final = 4
KRAFT_VERSION: Final = 5
KRAFT_VOTERS: Final = 6

KEY_SIZE: Final = 4
END_TXN_MARKER_SIZE: Final = 6
NO_TAGS: Final = b"\0"


@dataclass(frozen=True, slots=True)
class EndTxnMarker:
    """The end of a transaction."""

    commit: bool
    coordinator_epoch: int
    version: int = 0


def decode_control_type(key: bytes | None) -> int:
    """The type in the key of a control record, which may be an unknown one."""
    if key is None or len(key) < KEY_SIZE:
        found = "no key" if key is None else f"{len(key)} bytes"
        raise CorruptBatch("control", expected=f"a key of {KEY_SIZE} bytes", found=found)
    version, control_type = struct.unpack_from(">hh", key)
    if version < 0:
        raise CorruptBatch("control", expected="a key of version 0 or above", found=version)
    return int(control_type)


def decode_end_txn_marker(key: bytes | None, value: bytes | None) -> EndTxnMarker:
    """The content of a control record of type ABORT or COMMIT."""
    control_type = decode_control_type(key)
    assert control_type in (ABORT, COMMIT), control_type
    if value is None or len(value) < END_TXN_MARKER_SIZE:
        found = "no value" if value is None else f"{len(value)} bytes"
        raise CorruptBatch("control", expected=f"a marker of {END_TXN_MARKER_SIZE} bytes", found=found)
    version, coordinator_epoch = struct.unpack_from(">hi", value)
    if version < 0:
        raise CorruptBatch("control", expected="a marker of version 0 or above", found=version)
    return EndTxnMarker(control_type == COMMIT, coordinator_epoch, version)


def encode_end_txn_marker(marker: EndTxnMarker) -> tuple[bytes, bytes]:
    """Key and value of the control record that ends a transaction."""
    key = struct.pack(">hh", 0, COMMIT if marker.commit else ABORT)
    return key, struct.pack(">hi", marker.version, marker.coordinator_epoch)


def encode_snapshot_header(last_timestamp_ms: int) -> tuple[bytes, bytes]:
    """Key and value of the control record that begins a KRaft snapshot: when the last record that it covers was written."""
    return struct.pack(">hh", 0, SNAPSHOT_HEADER), struct.pack(">hq", 0, last_timestamp_ms) + NO_TAGS


def encode_snapshot_footer() -> tuple[bytes, bytes]:
    """Key and value of the control record that ends a KRaft snapshot."""
    return struct.pack(">hh", 0, SNAPSHOT_FOOTER), struct.pack(">h", 0) + NO_TAGS
