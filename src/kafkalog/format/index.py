"""The three index files of a segment. None has a header or a checksum: each is a sequence of entries, and only a hint.

    .index      relative_offset int32, position int32                      8 bytes
    .timeindex  timestamp int64, relative_offset int32                    12 bytes
    .txnindex   version int16 (0), producer_id int64, first_offset int64,
                last_offset int64, last_stable_offset int64               34 bytes

Offsets of the first two count from the segment's base offset. Kafka preallocates both at their largest size and trims them when
the segment is closed, so the index of an open segment, or of a broker that crashed, ends in zeros: an entry after the first with
relative offset 0 ends the data. The first entry always counts, as it does for Kafka's own dump tool: an index without entries
reads as one entry of zeros. After a truncation old entries may follow the new ones, and nothing distinguishes them.
A .txnindex lists the aborted transactions whose marker is in its segment.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kafkalog.errors import UnsupportedFormat

OFFSET_INDEX_ENTRY: Final = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
TIME_INDEX_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])
TXN_INDEX_ENTRY: Final = np.dtype(
    [
        ("version", ">i2"),
        ("producer_id", ">i8"),
        ("first_offset", ">i8"),
        ("last_offset", ">i8"),
        ("last_stable_offset", ">i8"),
    ]
)
assert OFFSET_INDEX_ENTRY.itemsize == 8
assert TIME_INDEX_ENTRY.itemsize == 12
assert TXN_INDEX_ENTRY.itemsize == 34

# What the readers return: native integers, absolute offsets.
OFFSET_ENTRIES: Final = np.dtype([("offset", "i8"), ("position", "i4")])
TIME_ENTRIES: Final = np.dtype([("timestamp", "i8"), ("offset", "i8")])
TXN_ENTRIES: Final = TXN_INDEX_ENTRY.newbyteorder("=")

TXN_INDEX_VERSION: Final = 0

Entries = npt.NDArray[Any]


def read_offset_index(data: bytes | bytearray | memoryview, base_offset: int) -> Entries:
    """The entries of a .index as OFFSET_ENTRIES, without its zero tail and without a partial entry at the end."""
    stored = _without_zero_tail(_stored_entries(data, OFFSET_INDEX_ENTRY))
    entries = np.empty(len(stored), OFFSET_ENTRIES)
    entries["offset"] = stored["relative_offset"].astype(np.int64) + np.int64(base_offset)
    entries["position"] = stored["position"]
    return entries


def read_time_index(data: bytes | bytearray | memoryview, base_offset: int) -> Entries:
    """The entries of a .timeindex as TIME_ENTRIES, without its zero tail and without a partial entry at the end."""
    stored = _without_zero_tail(_stored_entries(data, TIME_INDEX_ENTRY))
    entries = np.empty(len(stored), TIME_ENTRIES)
    entries["timestamp"] = stored["timestamp"]
    entries["offset"] = stored["relative_offset"].astype(np.int64) + np.int64(base_offset)
    return entries


def read_txn_index(data: bytes | bytearray | memoryview) -> Entries:
    """The entries of a .txnindex as TXN_ENTRIES, without a partial entry at the end.

    Raises UnsupportedFormat at the first entry of another version.
    """
    stored = _stored_entries(data, TXN_INDEX_ENTRY)
    foreign = np.flatnonzero(stored["version"] != TXN_INDEX_VERSION)
    if len(foreign):
        row = int(foreign[0])
        version = int(stored["version"][row])
        reason = "version" if version > TXN_INDEX_VERSION else "file-format"
        position = row * TXN_INDEX_ENTRY.itemsize
        raise UnsupportedFormat(reason, position=position, expected=TXN_INDEX_VERSION, found=version)
    return stored.astype(TXN_ENTRIES)


def _stored_entries(data: bytes | bytearray | memoryview, layout: np.dtype[np.void]) -> Entries:
    count = memoryview(data).nbytes // layout.itemsize
    return np.frombuffer(data, layout, count) if count else np.empty(0, layout)


def _without_zero_tail(stored: Entries) -> Entries:
    zeros = stored["relative_offset"][1:] == 0
    return stored[: 1 + int(zeros.argmax())] if zeros.any() else stored


def encode_offset_index(offsets: npt.NDArray[np.int64], positions: npt.NDArray[np.int64], base_offset: int) -> bytes:
    """The bytes of a .index with these entries."""
    stored = np.empty(len(offsets), OFFSET_INDEX_ENTRY)
    stored["relative_offset"] = offsets - base_offset
    stored["position"] = positions
    return stored.tobytes()


def encode_time_index(timestamps: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], base_offset: int) -> bytes:
    """The bytes of a .timeindex with these entries."""
    stored = np.empty(len(timestamps), TIME_INDEX_ENTRY)
    stored["timestamp"] = timestamps
    stored["relative_offset"] = offsets - base_offset
    return stored.tobytes()


def encode_txn_index(aborted: Iterable[tuple[int, int, int, int]]) -> bytes:
    """The bytes of a .txnindex: producer id, first offset, last offset and last stable offset of each aborted transaction."""
    return np.array([(TXN_INDEX_VERSION, *entry) for entry in aborted], TXN_INDEX_ENTRY).tobytes()
