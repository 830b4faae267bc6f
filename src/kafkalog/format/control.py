"""Control records: what brokers tell each other inside the log. They are in batches with the control bit and no user sees them.

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

A record that cannot be read raises CorruptBatch("control").
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from kafkalog.errors import CorruptBatch

from .java import decode_utf8
from .varint import decode_uvarint

ABORT: Final = 0
COMMIT: Final = 1
LEADER_CHANGE: Final = 2
SNAPSHOT_HEADER: Final = 3
SNAPSHOT_FOOTER: Final = 4
KRAFT_VERSION: Final = 5
KRAFT_VOTERS: Final = 6

KEY_SIZE: Final = 4
END_TXN_MARKER_SIZE: Final = 6


@dataclass(frozen=True, slots=True)
class EndTxnMarker:
    commit: bool
    coordinator_epoch: int
    version: int = 0


@dataclass(frozen=True, slots=True)
class LeaderChange:
    version: int
    leader_id: int
    voters: tuple[int, ...]
    granting_voters: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    version: int
    last_contained_log_timestamp: int


@dataclass(frozen=True, slots=True)
class SnapshotFooter:
    version: int


@dataclass(frozen=True, slots=True)
class KRaftVersion:
    version: int
    kraft_version: int


@dataclass(frozen=True, slots=True)
class Endpoint:
    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Voter:
    voter_id: int
    directory_id: str  # 22 characters of URL-safe base64, as Kafka prints a uuid
    endpoints: tuple[Endpoint, ...]
    min_supported_version: int
    max_supported_version: int


@dataclass(frozen=True, slots=True)
class KRaftVoters:
    version: int
    voters: tuple[Voter, ...]


@dataclass(frozen=True, slots=True)
class UnknownControl:
    """A control record of a type that is not known here; Kafka skips such records."""

    type: int
    value: bytes | None


ControlRecord = EndTxnMarker | LeaderChange | SnapshotHeader | SnapshotFooter | KRaftVersion | KRaftVoters | UnknownControl

Element = TypeVar("Element")


def decode_control_type(key: bytes | None) -> int:
    """The type that a control record's key names; it may be one that is not known here."""
    if key is None or len(key) < KEY_SIZE:
        found = "no key" if key is None else f"{len(key)} bytes"
        raise CorruptBatch("control", expected=f"a key of {KEY_SIZE} bytes", found=found)
    version, control_type = struct.unpack_from(">hh", key)
    if version < 0:
        raise CorruptBatch("control", expected="a key of version 0 or above", found=version)
    return int(control_type)


def decode_control_record(key: bytes | None, value: bytes | None) -> ControlRecord:
    """What a control record says."""
    control_type = decode_control_type(key)
    if control_type in (ABORT, COMMIT):
        return _decode_end_txn_marker(control_type == COMMIT, value)
    decode = _KRAFT_DECODERS.get(control_type)
    if decode is None:
        return UnknownControl(control_type, value)
    if value is None:
        raise CorruptBatch("control", expected=f"a value for control type {control_type}", found="none")
    return decode(_ValueReader(value))


def encode_end_txn_marker(marker: EndTxnMarker) -> tuple[bytes, bytes]:
    """Key and value of the control record that ends a transaction."""
    key = struct.pack(">hh", 0, COMMIT if marker.commit else ABORT)
    return key, struct.pack(">hi", marker.version, marker.coordinator_epoch)


def _decode_end_txn_marker(commit: bool, value: bytes | None) -> EndTxnMarker:
    if value is None or len(value) < END_TXN_MARKER_SIZE:
        found = "no value" if value is None else f"{len(value)} bytes"
        raise CorruptBatch("control", expected=f"a marker of {END_TXN_MARKER_SIZE} bytes", found=found)
    version, coordinator_epoch = struct.unpack_from(">hi", value)
    if version < 0:
        raise CorruptBatch("control", expected="a marker of version 0 or above", found=version)
    return EndTxnMarker(commit, coordinator_epoch, version)


class _ValueReader:
    """Reads the fields of a KRaft value in their order; bytes after the last one mean nothing."""

    def __init__(self, value: bytes) -> None:
        self._value = value
        self._position = 0

    def take(self, size: int) -> bytes:
        start = self._position
        if size > len(self._value) - start:
            raise CorruptBatch("control", expected=f"{size} bytes", found=f"{len(self._value) - start} bytes")
        self._position = start + size
        return self._value[start : self._position]

    def integer(self, size: int, *, signed: bool = True) -> int:
        return int.from_bytes(self.take(size), "big", signed=signed)

    def uvarint(self) -> int:
        try:
            number, self._position = decode_uvarint(self._value, self._position)
        except CorruptBatch as error:
            raise CorruptBatch("control", detail=error.detail or "a variable-length integer is too long") from None
        return number

    def string(self) -> str:
        return decode_utf8(self.take(self._length()))

    def uuid(self) -> str:
        return base64.urlsafe_b64encode(self.take(16)).decode().rstrip("=")

    def array(self, element: Callable[[_ValueReader], Element]) -> tuple[Element, ...]:
        count = self._length()
        if count > len(self._value) - self._position:
            raise CorruptBatch("control", expected=f"at most {len(self._value) - self._position} elements", found=count)
        return tuple(element(self) for _ in range(count))

    def skip_tags(self) -> None:
        for _ in range(self.uvarint()):
            self.uvarint()
            self.take(self.uvarint())

    def _length(self) -> int:
        length = self.uvarint() - 1
        if length < 0:
            raise CorruptBatch("control", detail="null where a value must be")
        return length


def _voter_id(reader: _ValueReader) -> int:
    voter_id = reader.integer(4)
    reader.skip_tags()
    return voter_id


def _leader_change(reader: _ValueReader) -> LeaderChange:
    record = LeaderChange(reader.integer(2), reader.integer(4), reader.array(_voter_id), reader.array(_voter_id))
    reader.skip_tags()
    return record


def _snapshot_header(reader: _ValueReader) -> SnapshotHeader:
    record = SnapshotHeader(reader.integer(2), reader.integer(8))
    reader.skip_tags()
    return record


def _snapshot_footer(reader: _ValueReader) -> SnapshotFooter:
    record = SnapshotFooter(reader.integer(2))
    reader.skip_tags()
    return record


def _kraft_version(reader: _ValueReader) -> KRaftVersion:
    record = KRaftVersion(reader.integer(2), reader.integer(2))
    reader.skip_tags()
    return record


def _endpoint(reader: _ValueReader) -> Endpoint:
    endpoint = Endpoint(reader.string(), reader.string(), reader.integer(2, signed=False))
    reader.skip_tags()
    return endpoint


def _voter(reader: _ValueReader) -> Voter:
    voter_id, directory_id, endpoints = reader.integer(4), reader.uuid(), reader.array(_endpoint)
    voter = Voter(voter_id, directory_id, endpoints, reader.integer(2), reader.integer(2))
    reader.skip_tags()  # of the pair of versions
    reader.skip_tags()
    return voter


def _kraft_voters(reader: _ValueReader) -> KRaftVoters:
    record = KRaftVoters(reader.integer(2), reader.array(_voter))
    reader.skip_tags()
    return record


_KRAFT_DECODERS: dict[int, Callable[[_ValueReader], ControlRecord]] = {
    LEADER_CHANGE: _leader_change,
    SNAPSHOT_HEADER: _snapshot_header,
    SNAPSHOT_FOOTER: _snapshot_footer,
    KRAFT_VERSION: _kraft_version,
    KRAFT_VOTERS: _kraft_voters,
}
