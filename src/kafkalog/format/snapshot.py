"""The producer state snapshot `<offset>.snapshot`: the state of every producer before that offset.

The number in its name is the first offset that it does not cover.

    snapshot := version int16 (1), crc uint32 (CRC-32C of everything after it), count int32, entry * count
    entry    := producer_id int64
                producer_epoch int16
                last_sequence int32              -1: none
                last_offset int64                -1: none; 0.11 stores the offset of the transaction marker
                offset_delta int32               last minus first offset of the producer's last batch
                timestamp int64
                coordinator_epoch int32          -1: none
                current_txn_first_offset int64   -1: no open transaction
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kafkalog.errors import UnsupportedFormat

ENTRY: Final = np.dtype(
    [
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("last_sequence", ">i4"),
        ("last_offset", ">i8"),
        ("offset_delta", ">i4"),
        ("timestamp", ">i8"),
        ("coordinator_epoch", ">i4"),
        ("current_txn_first_offset", ">i8"),
    ]
)
assert ENTRY.itemsize == 46

PRODUCERS: Final = ENTRY.newbyteorder("=")  # what decode_snapshot returns
VERSION: Final = 1
CRC_START: Final = 6
HEADER_SIZE: Final = 10

_HEADER = struct.Struct(">hIi")


def decode_snapshot(data: bytes | bytearray | memoryview) -> npt.NDArray[Any]:
    """The producers of a snapshot as PRODUCERS, in the order stored.

    Raises UnsupportedFormat with `version`, `crc`, or `file-format` if the count does not match the size.
    """
    stored = bytes(data)
    if len(stored) < HEADER_SIZE:
        raise UnsupportedFormat("file-format", position=0, expected=f"at least {HEADER_SIZE} bytes", found=len(stored))
    version, crc, count = _HEADER.unpack_from(stored)
    if version != VERSION:
        raise UnsupportedFormat("version", position=0, expected=VERSION, found=version)
    computed = _crc(stored)
    if crc != computed:
        raise UnsupportedFormat("crc", position=2, expected=crc, found=computed)
    room = (len(stored) - HEADER_SIZE) // ENTRY.itemsize
    if not 0 <= count <= room:
        raise UnsupportedFormat("file-format", position=CRC_START, expected=f"at most {room} producers", found=count)
    return np.frombuffer(stored, ENTRY, count, HEADER_SIZE).astype(PRODUCERS) if count else np.empty(0, PRODUCERS)


def encode_snapshot(producers: npt.NDArray[Any]) -> bytes:
    """The bytes of a snapshot of `producers`, an array with the fields of ENTRY, in its order."""
    body = struct.pack(">i", len(producers)) + producers.astype(ENTRY).tobytes()
    return struct.pack(">hI", VERSION, _crc(bytes(CRC_START) + body)) + body


def _crc(stored: bytes) -> int:
    import crc32c

    return int(crc32c.crc32c(memoryview(stored)[CRC_START:]))
