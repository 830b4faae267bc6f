"""Layouts that the decoding kernels share: the rows of their tables, the columns they fill, and their statuses."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from kafkalog.format import batch
from kafkalog.format.java import MAX_INT64

from ._jit import inline
from .bytes import Bytes, Int, Ints

# Rows of the payload table: entry, state, where its records (or inner messages) are, and the first row and offset decoded.
ENTRY, STATE, START, STOP, FIRST_ROW, FIRST_OFFSET = range(6)
PAYLOAD_FIELDS = 6

# States of a payload, as bits. CHECKED: its checksum matches. READY: decompressed, at the start of the arena.
PLAIN, COMPRESSED, CHECKED, READY, DROPPED = 0, 1, 2, 4, 8

# Rows of the bounds: what to keep, both ends included.
(FIRST_WANTED, LAST_WANTED, FIRST_TIME, LAST_TIME, RECORD_LIMIT, HEADERS_LIMIT) = range(6)

# What is wanted of each record besides its offset and timestamp, as bits.
KEY, VALUE, HEADERS = 1, 2, 4
KEPT = KEY | VALUE | HEADERS
CHECK = 8  # nothing, but its structure is checked

# Rows of the tools: addresses of C functions (`native`; 0: none), the most bytes that a payload may decompress to, from CODECS on
# the address of each codec's function by its number (`decompress`; 0: none yet), and from INFLATE_STATE on the memory that
# ISA-L's inflate works in. Without CRC32C_FUNCTION and MESSAGE_CRC_FUNCTION, the caller has checked the entries.
(
    CRC32C_FUNCTION,
    LZ4_FUNCTION,
    XXH32_FUNCTION,
    ZSTD_FUNCTION,
    ZSTD_CONTEXT,
    INFLATE_FUNCTION,
    CRC32_FUNCTION,
    MESSAGE_CRC_FUNCTION,
    PAYLOAD_LIMIT,
    CODECS,
) = range(10)
INFLATE_STATE = CODECS + batch.CODEC_MASK + 1

# Statuses of `decode`. The order is that of REASON_OF below.
(
    OK,
    BAD_STRUCTURE,
    BAD_VARINT,
    BAD_COUNT,
    BAD_OFFSET,
    BAD_INNER_LENGTH,
    BAD_INNER_CRC,
    BAD_INNER_MAGIC,
    NESTED,
    OVER_RECORD_LIMIT,
    OVER_HEADERS_LIMIT,
    BAD_CRC,
    NO_ROOM,  # in the columns
    LEFT,  # to the caller: a payload that `codecs` must decompress
    OTHER_FORMAT,  # an entry that another kernel decodes
) = range(15)
REASON_OF = (
    "",
    "record-structure",
    "varint",
    "count",
    "offset-range",
    "length",
    "inner-crc",
    "magic",
    "nested",
    "record-limit",
    "headers-limit",
)

LEAST_HEADER = 2  # bytes: one without key and value
# Bytes of a record before and between its contents, without the number of headers, which is not always read.
LEAST_FRONT = 6
LAST_INT64 = np.int64(MAX_INT64)

Offsets32 = NDArray[np.int32]
Words = NDArray[np.uint64]
Scalar = TypeVar("Scalar", bound=np.generic)


def readonly(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """A read-only view: kernels are compiled separately for writable arrays, so everything only read is passed like this."""
    view = array.view()
    view.flags.writeable = False
    return view


class Texts(NamedTuple):
    """A column of bytes as Arrow lays it out; `valid` is 1 where a value is not null, and empty if nothing is."""

    offsets: Offsets32
    valid: Bytes
    content: Bytes


class Columns(NamedTuple):
    """One array per column with an element per record, and the bytes of keys and values, as Arrow lays them out.

    Arrays of offsets have one element more; `valid` is 1 where a value is not null. If neither keys nor values are wanted their
    arrays are empty. Kernels unpack the arrays before a loop: inside it that would cost as much as decoding a record.
    """

    offsets: Ints
    timestamps: Ints
    key_offsets: Offsets32
    key_valid: Bytes
    keys: Bytes
    value_offsets: Offsets32
    value_valid: Bytes
    values: Bytes


class ViewColumns(NamedTuple):
    """As `Columns`, with views of keys and values in Arrow's layout: two words for each, into a buffer of the array.

    `arena_used` has one element: the bytes of decompressed payloads in the arena, which all stay there.
    """

    offsets: Ints
    timestamps: Ints
    key_views: Words
    key_valid: Bytes
    value_views: Words
    value_valid: Bytes
    arena_used: Ints


class HeaderColumns(NamedTuple):
    """The headers of all records, laid out likewise; `offsets` has an element per record, the others one per header."""

    offsets: Offsets32
    key_offsets: Offsets32
    keys: Bytes
    value_offsets: Offsets32
    value_valid: Bytes
    values: Bytes
    key_bits: Bytes  # one element: all bytes of all keys, ORed


@inline
def has_room(columns: Columns, wants: Int, row: Int, records: Int, size: Int) -> Any:
    """Whether the columns have room for that many records from `size` bytes, whatever these are."""
    if row + records > columns.offsets.shape[0]:
        return False
    if wants & KEY and columns.key_offsets[row] + size > columns.keys.shape[0]:
        return False
    return not wants & VALUE or columns.value_offsets[row] + size <= columns.values.shape[0]


@inline
def has_header_room(headers: HeaderColumns, row: Int, size: Int) -> Any:
    """The same for headers."""
    header = headers.offsets[row]
    return (
        header + size // LEAST_HEADER <= headers.value_valid.shape[0]
        and headers.key_offsets[header] + size <= headers.keys.shape[0]
        and headers.value_offsets[header] + size <= headers.values.shape[0]
    )
