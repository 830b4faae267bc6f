"""Control records. The KRaft values were written by a 4.3.0 broker into its metadata log."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kafkalog.errors import CorruptBatch
from kafkalog.format.control import (
    COMMIT,
    KRAFT_VERSION,
    KRAFT_VOTERS,
    LEADER_CHANGE,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    EndTxnMarker,
    decode_control_type,
    encode_end_txn_marker,
)
from kafkalog.payloads.internal_topics import decode_control_record

VOTERS_VALUE = bytes.fromhex(
    "000002000000015382768a002f4d1fa1065c865fa49963020b434f4e54524f4c4c45520a3132372e302e302e314ac00000000001000000"
)
LEADER_CHANGE_VALUE = bytes.fromhex("00000000000102000000010002000000010000")
VOTER = {
    "voterId": 1,
    "voterDirectoryId": "U4J2igAvTR-hBlyGX6SZYw",
    "endpoints": [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 19136}],
    "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
}
HEADER_VALUE = bytes.fromhex("0000000001a1de7e2eca00")


def _key(control_type: int, version: int = 0) -> bytes:
    return struct.pack(">hh", version, control_type)


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_of_transaction_is_read_and_written_alike(commit: bool) -> None:
    marker = EndTxnMarker(commit, 3)
    key, value = encode_end_txn_marker(marker)
    assert (key, value) == (_key(1 if commit else 0), bytes.fromhex("000000000003"))
    assert decode_control_record(key, value) == marker


def test_a_newer_or_longer_key_and_marker_are_read_as_version_0() -> None:
    assert decode_control_record(_key(COMMIT, version=1) + b"more", bytes.fromhex("000100000007ffff")) == EndTxnMarker(True, 7, 1)


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", struct.pack(">hh", -1, 1)])
def test_a_control_record_without_a_readable_key_is_damage(key: bytes | None) -> None:
    with pytest.raises(CorruptBatch) as error:
        decode_control_type(key)
    assert error.value.reason == "control"


@pytest.mark.parametrize("value", [None, b"", bytes(5), bytes.fromhex("ffff00000003")])
def test_a_marker_without_a_readable_value_is_damage(value: bytes | None) -> None:
    with pytest.raises(CorruptBatch) as error:
        decode_control_record(_key(COMMIT), value)
    assert error.value.reason == "control"


@pytest.mark.parametrize(
    ("control_type", "value", "meaning"),
    [
        (
            LEADER_CHANGE,
            LEADER_CHANGE_VALUE,
            {"version": 0, "leaderId": 1, "voters": [{"voterId": 1}], "grantingVoters": [{"voterId": 1}]},
        ),
        (SNAPSHOT_HEADER, HEADER_VALUE, {"version": 0, "lastContainedLogTimestamp": 1794734173898}),
        (SNAPSHOT_FOOTER, bytes.fromhex("000000"), {"version": 0}),
        (KRAFT_VERSION, bytes.fromhex("0000000100"), {"version": 0, "kRaftVersion": 1}),
        (
            KRAFT_VOTERS,
            VOTERS_VALUE,
            {"version": 0, "voters": [VOTER]},
        ),
    ],
)
def test_control_records_of_a_kraft_broker_are_understood(control_type: int, value: bytes, meaning: dict[str, Any]) -> None:
    assert decode_control_record(_key(control_type), value) == meaning


def test_a_type_from_the_future_is_skipped() -> None:
    assert decode_control_record(_key(99), b"x") is None
    assert decode_control_record(_key(-2), None) is None


def test_unknown_tagged_fields_are_skipped() -> None:
    value = bytes.fromhex("00000001" + "02" + "0001aa" + "0500")
    assert decode_control_record(_key(KRAFT_VERSION), value) == {"version": 0, "kRaftVersion": 1}


@pytest.mark.parametrize("size", range(len(VOTERS_VALUE)))
def test_a_voters_record_cut_anywhere_is_damage(size: int) -> None:
    with pytest.raises(CorruptBatch) as error:
        decode_control_record(_key(KRAFT_VOTERS), VOTERS_VALUE[:size])
    assert error.value.reason == "control"


@pytest.mark.parametrize(
    "value",
    [
        None,
        bytes.fromhex("0000") + b"\x00",
        bytes.fromhex("0000") + b"\xff\xff\xff\xff\x0f",
        bytes.fromhex("0000") + b"\xff\xff\xff\xff\xff\x01",
    ],
    ids=["no value", "null array", "huge array", "too long a count"],
)
def test_an_array_that_cannot_be_is_damage(value: bytes | None) -> None:
    with pytest.raises(CorruptBatch) as error:
        decode_control_record(_key(KRAFT_VOTERS), value)
    assert error.value.reason == "control"
