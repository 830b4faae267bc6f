"""Decode the records of many entries into columns with one call.

The caller has found the entries (`scan`), checked their checksums and decompressed what was compressed; here every length is
compared with what remains before it is used. A kernel never raises: it returns a status and the entry at fault, with the rows of
all entries before it in place, so that the caller can drop that entry and call again for the rest.

The varint of one byte is the common case and is read in line; positions are unsigned, which spares Numba's test for negative
indices. Both were measured to matter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kafkalog.format import batch, message

from ._jit import inline, kernel
from .bytes import Bytes, Int, Ints, load_int32, load_int64
from .crc import crc32
from .scan import ATTRIBUTES, BASE_OFFSET, BASE_TIMESTAMP, COUNT, LAST_OFFSET, MAGIC, MAX_TIMESTAMP, POSITION, SIZE

# Rows of the payload table: which entry, and where its records (or inner messages) lie.
ENTRY, IN_ARENA, START, STOP, FIRST_ROW, FIRST_OFFSET = range(6)
PAYLOAD_FIELDS = 6
DROPPED = -1  # as STOP: a payload that did not decompress

# Rows of the bounds: what to keep, both ends included.
(FIRST_WANTED, LAST_WANTED, FIRST_TIME, LAST_TIME, RECORD_LIMIT, HEADERS_LIMIT) = range(6)
BOUND_COUNT = 6

# How far into each record `decode` looks: offsets and timestamps, also keys and values, also headers.
POSITIONS, PAYLOADS, HEADERS = range(3)

# What `decode` adds up over all headers, so that their buffers can be made at once.
HEADER_TOTAL, HEADER_KEY_BYTES, HEADER_VALUE_BYTES = range(3)
TOTAL_COUNT = 3

# What `decode` may find. The order is that of REASON_OF below.
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
) = range(11)
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

MAX_VARINT, MAX_VARLONG = 5, 10  # bytes
SHORT_FRONT = 7  # a length, attributes, two deltas, of two bytes each at most
MIN_INNER_ENTRY = batch.LOG_OVERHEAD + message.OVERHEAD_V0
LAST_INT64 = np.int64(0x7FFFFFFFFFFFFFFF)
INNER_CODEC_MASK = batch.CODEC_MASK

Offsets32 = NDArray[np.int32]
# One array per column, a place per record: offsets, timestamps, key and value offsets (Arrow's, one more place), key and value
# flags (1: not null), where in its buffer the key, the value and the headers lie, and the number of headers.
Columns = tuple[Ints, Ints, Offsets32, Offsets32, Bytes, Bytes, Ints, Ints, Ints, Ints]
Position = np.uint64


@inline
def _two_byte_varint(data: Bytes, at: Position) -> tuple[Int, Position]:
    """(raw value, position after it) of a varint of one or two bytes, or (-1, at) for a longer one; two bytes must be there."""
    first = np.int64(data[at])
    if first < 0x80:
        return first, at + np.uint64(1)
    second = np.int64(data[at + np.uint64(1)])
    if second < 0x80:
        return (first & 0x7F) | (second << 7), at + np.uint64(2)
    return np.int64(-1), at


@inline
def _unzigzag(raw: Int) -> Int:
    return (raw >> 1) ^ -(raw & 1)


@inline
def _varint(data: Bytes, at: Position, stop: Position) -> tuple[Int, Position]:
    """(zig-zag value, position after it); a position above `stop` says that it was cut short, or (stop + 2) too long."""
    if at + np.uint64(1) < stop:
        raw, after = _two_byte_varint(data, at)
        if raw >= 0:
            return _unzigzag(raw), after
    return _long_varint(data, at, stop, MAX_VARINT)


@kernel
def _long_varint(data: Bytes, at: Position, stop: Position, longest: Int) -> tuple[Int, Position]:
    """As `_varint`, for up to `longest` bytes: 5 for 32 bits (what they hold above is dropped, as Kafka does), 10 for 64."""
    raw = np.uint64(0)
    for number in range(longest):
        if at >= stop:
            return np.int64(0), stop + np.uint64(1)
        byte = np.uint64(data[at])
        at += np.uint64(1)
        raw |= (byte & np.uint64(0x7F)) << np.uint64(7 * number)
        if byte < np.uint64(0x80):
            if longest == MAX_VARINT:
                raw &= np.uint64(0xFFFFFFFF)
            return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), at
    return np.int64(0), stop + np.uint64(2)


@inline
def _status_of(at: Position, stop: Position) -> Int:
    return BAD_VARINT if at == stop + np.uint64(2) else BAD_STRUCTURE


@inline
def _skip_headers(data: Bytes, at: Position, stop: Position, count: Int, totals: Ints) -> Position:
    """The position after `count` headers, or above `stop` when they do not fit; their sizes are added to `totals`."""
    key_bytes = np.int64(0)
    value_bytes = np.int64(0)
    for _ in range(count):
        size, _, at = _sized_bytes(data, at, stop)
        if at > stop or size < 0:
            return stop + np.uint64(1) if at <= stop else at
        key_bytes += size
        size, _, at = _sized_bytes(data, at, stop)
        if at > stop:
            return at
        value_bytes += max(size, 0)
    totals[HEADER_TOTAL] += count
    totals[HEADER_KEY_BYTES] += key_bytes
    totals[HEADER_VALUE_BYTES] += value_bytes
    return at


@inline
def _record_front(data: Bytes, at: Position, end: Position, record_limit: Int) -> tuple[Int, Position, Position, Int, Int]:
    """(status, position after the deltas, where the record stops, timestamp delta, offset delta) of the record at `at`.

    Three short varints are the common case, and need one comparison with the end instead of one for each byte.
    """
    if end - at >= np.uint64(SHORT_FRONT):
        size, after = _two_byte_varint(data, at)
        timestamp, following = _two_byte_varint(data, after + np.uint64(1))
        offset, last = _two_byte_varint(data, following)
        stop = after + np.uint64(size >> 1)
        if size >= 0 and size & 1 == 0 and timestamp >= 0 and offset >= 0 and last <= stop <= end and size >> 1 <= record_limit:
            return OK, last, stop, _unzigzag(timestamp), _unzigzag(offset)
    return _long_front(data, at, end, record_limit)


@kernel
def _long_front(data: Bytes, at: Position, end: Position, record_limit: Int) -> tuple[Int, Position, Position, Int, Int]:
    """As `_record_front`, for any sizes."""
    size, at = _varint(data, at, end)
    if at > end:
        return _status_of(at, end), at, end, np.int64(0), np.int64(0)
    if size < 1 or np.uint64(size) > end - at:
        return BAD_STRUCTURE, at, end, np.int64(0), np.int64(0)
    if size > record_limit:
        return OVER_RECORD_LIMIT, at, end, np.int64(0), np.int64(0)
    stop = at + np.uint64(size)
    timestamp_delta, at = _long_varint(data, at + np.uint64(1), stop, MAX_VARLONG)
    if at > stop:
        return _status_of(at, stop), at, stop, np.int64(0), np.int64(0)
    offset_delta, at = _varint(data, at, stop)
    if at > stop:
        return _status_of(at, stop), at, stop, np.int64(0), np.int64(0)
    return OK, at, stop, timestamp_delta, offset_delta


@inline
def _sized_bytes(data: Bytes, at: Position, stop: Position) -> tuple[Int, Position, Position]:
    """(size or negative for null, where the bytes start, position after them); a position above `stop` says they do not fit."""
    size, start = _varint(data, at, stop)
    if start > stop or size <= 0:
        return size, start, start
    after = start + np.uint64(size)
    return size, start, after if after <= stop else stop + np.uint64(1)


@inline
def _check_headers(data: Bytes, at: Position, stop: Position, count: Int, limit: Int, totals: Ints) -> Int:
    """Whether `count` headers, at least one, fill data[at:stop] exactly."""
    if count < 0 or np.uint64(count) > (stop - at) // np.uint64(2):
        return BAD_STRUCTURE
    if count > limit:
        return OVER_HEADERS_LIMIT
    at = _skip_headers(data, at, stop, count, totals)
    if at == stop:
        return OK
    return BAD_STRUCTURE if at < stop else _status_of(at, stop)


@inline
def _find_headers(data: Bytes, at: Position, stop: Position, limit: Int, totals: Ints) -> tuple[Int, Int, Int]:
    """(status, where the headers start, how many there are) of a record whose value ends at `at`."""
    count, at = _varint(data, at, stop)
    if at > stop:
        return _status_of(at, stop), np.int64(0), np.int64(0)
    status = OK
    if count != 0 or at != stop:
        status = _check_headers(data, at, stop, count, limit, totals)
    return status, np.int64(at), count


@inline
def _count_fits(fields: Ints, entry: Int, start: Int, stop: Int) -> Any:
    """Whether the stored count is possible in so many bytes and so many offsets."""
    count = fields[COUNT, entry]
    offsets = fields[LAST_OFFSET, entry] - fields[BASE_OFFSET, entry] + 1
    return 0 <= count <= (stop - start) // batch.MIN_RECORD_SIZE and count <= offsets


@inline
def _origin(fields: Ints, entry: Int) -> tuple[Int, Int, Any, Int]:
    """(base offset, base timestamp, whether the append time stands for all records, that time) of a batch."""
    append_time = fields[ATTRIBUTES, entry] & batch.LOG_APPEND_TIME != 0
    return fields[BASE_OFFSET, entry], fields[BASE_TIMESTAMP, entry], append_time, fields[MAX_TIMESTAMP, entry]


@inline
def _decode_batch(
    data: Bytes,
    fields: Ints,
    entry: Int,
    start: Int,
    stop: Int,
    want_headers: bool,
    bounds: Ints,
    row: Int,
    columns: Columns,
    totals: Ints,
) -> tuple[Int, Int]:
    """(status, row after the last one kept) of a v2 batch whose records lie in data[start:stop]."""
    (
        offsets,
        timestamps,
        key_offsets,
        value_offsets,
        key_valid,
        value_valid,
        key_starts,
        value_starts,
        header_starts,
        header_counts,
    ) = columns
    if fields[COUNT, entry] == 0:
        return OK, row
    if not _count_fits(fields, entry, start, stop):
        return BAD_COUNT, row
    base_offset, base_timestamp, append_time, max_timestamp = _origin(fields, entry)
    first_wanted, last_wanted, first_time, last_time, record_limit, headers_limit = _unpack(bounds)
    at = np.uint64(start)
    end = np.uint64(stop)
    here = np.uint64(row)
    key_bytes = np.int64(key_offsets[row])
    value_bytes = np.int64(value_offsets[row])
    for _ in range(fields[COUNT, entry]):
        if at == end:
            return BAD_COUNT, row
        status, at, record_stop, timestamp_delta, offset_delta = _record_front(data, at, end, record_limit)
        if status != OK:
            return status, row
        if offset_delta > LAST_INT64 - base_offset or base_offset + offset_delta < 0:
            return BAD_OFFSET, row
        key_size, key_start, at = _sized_bytes(data, at, record_stop)
        if at > record_stop:
            return _status_of(at, record_stop), row
        value_size, value_start, at = _sized_bytes(data, at, record_stop)
        if at > record_stop:
            return _status_of(at, record_stop), row
        if want_headers:
            status, header_starts[here], header_counts[here] = _find_headers(data, at, record_stop, headers_limit, totals)
            if status != OK:
                return status, row
        at = record_stop
        offsets[here] = base_offset + offset_delta
        timestamps[here] = max_timestamp if append_time else base_timestamp + timestamp_delta
        if first_wanted <= offsets[here] <= last_wanted and first_time <= timestamps[here] <= last_time:
            key_starts[here] = np.int64(key_start)
            value_starts[here] = np.int64(value_start)
            key_valid[here] = key_size >= 0
            value_valid[here] = value_size >= 0
            here += np.uint64(1)
            key_bytes += max(key_size, 0)
            value_bytes += max(value_size, 0)
            key_offsets[here] = key_bytes
            value_offsets[here] = value_bytes
    return (OK if at == end else BAD_COUNT), np.int64(here)


@inline
def _decode_positions(
    data: Bytes, fields: Ints, entry: Int, start: Int, stop: Int, bounds: Ints, row: Int, columns: Columns
) -> tuple[Int, Int]:
    """As `_decode_batch` for offsets and timestamps alone: the rest of each record is stepped over."""
    offsets, timestamps = columns[0], columns[1]
    if fields[COUNT, entry] == 0:
        return OK, row
    if not _count_fits(fields, entry, start, stop):
        return BAD_COUNT, row
    base_offset, base_timestamp, append_time, max_timestamp = _origin(fields, entry)
    first_wanted, last_wanted, first_time, last_time, record_limit, _ = _unpack(bounds)
    at = np.uint64(start)
    end = np.uint64(stop)
    here = np.uint64(row)
    for _ in range(fields[COUNT, entry]):
        if at == end:
            return BAD_COUNT, row
        status, at, record_stop, timestamp_delta, offset_delta = _record_front(data, at, end, record_limit)
        if status != OK:
            return status, row
        if offset_delta > LAST_INT64 - base_offset or base_offset + offset_delta < 0:
            return BAD_OFFSET, row
        at = record_stop
        offsets[here] = base_offset + offset_delta
        timestamps[here] = max_timestamp if append_time else base_timestamp + timestamp_delta
        if first_wanted <= offsets[here] <= last_wanted and first_time <= timestamps[here] <= last_time:
            here += np.uint64(1)
    return (OK if at == end else BAD_COUNT), np.int64(here)


@inline
def _unpack(bounds: Ints) -> tuple[Int, Int, Int, Int, Int, Int]:
    return (
        bounds[FIRST_WANTED],
        bounds[LAST_WANTED],
        bounds[FIRST_TIME],
        bounds[LAST_TIME],
        bounds[RECORD_LIMIT],
        bounds[HEADERS_LIMIT],
    )


@kernel
def message_parts(data: Bytes, start: Int, stop: Int, magic: Int) -> tuple[Int, Int, Int, Int, Int]:
    """(status, key start, key size, value start, value size) of the v0 or v1 message in data[start:stop]; size -1: null."""
    at = start + (message.KEY_LENGTH_POSITION_V1 if magic == 1 else message.KEY_LENGTH_POSITION_V0)
    if at + 8 > stop:
        return BAD_STRUCTURE, 0, 0, 0, 0
    key_size = max(load_int32(data, at), -1)
    key_start = at + 4
    if max(key_size, 0) + 4 > stop - key_start:
        return BAD_STRUCTURE, 0, 0, 0, 0
    value_at = key_start + max(key_size, 0)
    value_size = max(load_int32(data, value_at), -1)
    if value_size > stop - value_at - 4:
        return BAD_STRUCTURE, 0, 0, 0, 0
    return OK, key_start, key_size, value_at + 4, value_size


@inline
def _decode_messages(
    data: Bytes, fields: Ints, payloads: Ints, first: Int, bounds: Ints, row: Int, columns: Columns
) -> tuple[Int, Int, Int]:
    """(status, number of the payload behind the last one taken, row after the last one kept) of the messages from `first` on.

    The run ends at the first payload that is no plain v0 or v1 message. Running sums stay in registers: read back from their
    arrays they made this loop five times slower.
    """
    offsets, timestamps, key_offsets, value_offsets, key_valid, value_valid, key_starts, value_starts, _, header_counts = columns
    entries, in_arena, starts, stops = payloads[ENTRY], payloads[IN_ARENA], payloads[START], payloads[STOP]
    first_wanted, last_wanted, first_time, last_time, _, _ = _unpack(bounds)
    here = np.uint64(row)
    key_bytes = np.int64(key_offsets[row])
    value_bytes = np.int64(value_offsets[row])
    number = np.uint64(first)
    while number < payloads.shape[1]:
        entry = np.uint64(entries[number])
        magic = fields[MAGIC, entry]
        if magic > 1 or in_arena[number]:
            break
        status, key_start, key_size, value_start, value_size = message_parts(data, starts[number], stops[number], magic)
        offset = fields[BASE_OFFSET, entry]
        if status != OK or offset < 0:
            return (status if status != OK else BAD_OFFSET), np.int64(number), np.int64(here)
        timestamp = fields[BASE_TIMESTAMP, entry]
        payloads[FIRST_ROW, number] = np.int64(here)
        payloads[FIRST_OFFSET, number] = offset
        offsets[here] = offset
        timestamps[here] = timestamp
        key_starts[here] = key_start
        value_starts[here] = value_start
        key_valid[here] = key_size >= 0
        value_valid[here] = value_size >= 0
        header_counts[here] = 0
        number += np.uint64(1)
        if first_wanted <= offset <= last_wanted and first_time <= timestamp <= last_time:
            here += np.uint64(1)
            key_bytes += max(key_size, 0)
            value_bytes += max(value_size, 0)
            key_offsets[here] = key_bytes
            value_offsets[here] = value_bytes
    return OK, np.int64(number), np.int64(here)


@inline
def _check_inner(data: Bytes, at: Int, stop: Int) -> tuple[Int, Int]:
    """(status, size) of the inner message at data[at]; size 0: the set ends here, as Kafka's reader sees it."""
    if stop - at < batch.LOG_OVERHEAD:
        return OK, 0
    size = load_int32(data, at + message.MESSAGE_SIZE_POSITION)
    if size < message.MIN_MESSAGE_SIZE:
        return BAD_INNER_LENGTH, 0
    if size > stop - at - batch.LOG_OVERHEAD:
        return OK, 0
    magic = np.int64(data[at + message.MAGIC_POSITION])
    if magic > 1:
        return BAD_INNER_MAGIC, 0
    if data[at + message.ATTRIBUTES_POSITION] & INNER_CODEC_MASK:
        return NESTED, 0
    stored = load_int32(data, at + message.CRC_POSITION) & 0xFFFFFFFF
    if stored != crc32(data, at + message.CRC_START, at + batch.LOG_OVERHEAD + size):
        return BAD_INNER_CRC, 0
    status, _, _, _, _ = message_parts(data, at, at + batch.LOG_OVERHEAD + size, magic)
    return status, size + batch.LOG_OVERHEAD


@inline
def _base_of_set(data: Bytes, start: Int, stop: Int, magic: Int, wrapper_offset: Int) -> tuple[Int, Int, Int]:
    """(status, what to add to each inner offset, where the set ends), after every inner message has been checked."""
    at = start
    last_inner = np.int64(-1)
    highest_inner = np.int64(-1)
    while at < stop:
        status, size = _check_inner(data, at, stop)
        if status != OK:
            return status, 0, at
        if size == 0:
            break
        last_inner = load_int64(data, at)
        if last_inner < 0:
            return BAD_OFFSET, 0, at
        highest_inner = max(highest_inner, last_inner)
        at += size
    if at == start:
        return BAD_COUNT, 0, at
    if magic == 0 or wrapper_offset == 0:  # offset 0 on a v1 wrapper: some clients leave it so, Kafka takes the inner ones
        return OK, 0, at
    if wrapper_offset < last_inner or wrapper_offset - last_inner > LAST_INT64 - highest_inner:
        return BAD_OFFSET, 0, at
    return OK, wrapper_offset - last_inner, at


@inline
def _decode_set(
    data: Bytes, fields: Ints, entry: Int, start: Int, stop: Int, bounds: Ints, row: Int, columns: Columns
) -> tuple[Int, Int, Int]:
    """(status, row after the last one kept, first offset) of the inner messages in data[start:stop]."""
    offsets, timestamps, key_offsets, value_offsets, key_valid, value_valid, key_starts, value_starts, _, header_counts = columns
    magic = fields[MAGIC, entry]
    status, base, end = _base_of_set(data, start, stop, magic, fields[BASE_OFFSET, entry])
    if status != OK:
        return status, row, 0
    append_time = magic == 1 and fields[ATTRIBUTES, entry] & batch.LOG_APPEND_TIME != 0
    first_wanted, last_wanted, first_time, last_time, _, _ = _unpack(bounds)
    here = np.uint64(row)
    key_bytes = np.int64(key_offsets[row])
    value_bytes = np.int64(value_offsets[row])
    at = start
    while at < end:
        size = load_int32(data, at + message.MESSAGE_SIZE_POSITION) + batch.LOG_OVERHEAD
        inner_magic = np.int64(data[at + message.MAGIC_POSITION])
        timestamp = load_int64(data, at + message.TIMESTAMP_POSITION) if inner_magic == 1 else np.int64(-1)
        if append_time and inner_magic == 1:
            timestamp = fields[BASE_TIMESTAMP, entry]
        offset = load_int64(data, at) + base
        _, key_start, key_size, value_start, value_size = message_parts(data, at, at + size, inner_magic)
        offsets[here] = offset
        timestamps[here] = timestamp
        key_starts[here] = key_start
        value_starts[here] = value_start
        key_valid[here] = key_size >= 0
        value_valid[here] = value_size >= 0
        header_counts[here] = 0
        at += size
        if first_wanted <= offset <= last_wanted and first_time <= timestamp <= last_time:
            here += np.uint64(1)
            key_bytes += max(key_size, 0)
            value_bytes += max(value_size, 0)
            key_offsets[here] = key_bytes
            value_offsets[here] = value_bytes
    return OK, np.int64(here), load_int64(data, start) + base


@kernel
def lay_out(fields: Ints, entries: Ints, position: Int, payloads: Ints) -> None:
    """Fill the payload table of these entries, whose file position `position` is index 0, as if none were compressed."""
    for number in range(entries.shape[0]):
        entry = entries[number]
        start = fields[POSITION, entry] - position
        compressed = fields[ATTRIBUTES, entry] & batch.CODEC_MASK != 0
        payloads[ENTRY, number] = entry
        payloads[START, number] = start + (batch.HEADER_SIZE if fields[MAGIC, entry] == 2 else 0)
        payloads[STOP, number] = start + fields[SIZE, entry]
        # Of a batch without records Kafka reads the header only, whatever codec it names.
        payloads[IN_ARENA, number] = compressed and fields[COUNT, entry] != 0


@kernel
def row_capacity(fields: Ints, payloads: Ints) -> Int:
    """Rows that these payloads can give at most; a stored count is believed only as far as the bytes allow."""
    total = 0
    for number in range(payloads.shape[1]):
        entry = payloads[ENTRY, number]
        size = payloads[STOP, number] - payloads[START, number]
        if fields[MAGIC, entry] == 2:
            total += max(min(fields[COUNT, entry], size // batch.MIN_RECORD_SIZE), 0)
        elif payloads[IN_ARENA, number]:
            total += size // MIN_INNER_ENTRY
        else:
            total += 1
    return total


@kernel
def decode(
    window: Bytes,
    arena: Bytes,
    fields: Ints,
    payloads: Ints,
    first: Int,
    depth: Int,
    bounds: Ints,
    row: Int,
    columns: Columns,
    totals: Ints,
) -> tuple[Int, Int, Int]:
    """(status, payload at fault or the number of payloads, rows in place) for payloads[first:].

    An entry at fault leaves no rows. FIRST_ROW and FIRST_OFFSET of each decoded payload are filled in, and sizes of headers are
    added to `totals`.
    """
    number = first
    while number < payloads.shape[1]:
        entry = payloads[ENTRY, number]
        start = payloads[START, number]
        stop = payloads[STOP, number]
        data = arena if payloads[IN_ARENA, number] else window
        first_offset = fields[BASE_OFFSET, entry]
        next_row = row
        if fields[MAGIC, entry] < 2 and not payloads[IN_ARENA, number]:
            status, number, row = _decode_messages(window, fields, payloads, number, bounds, row, columns)
            if status != OK:
                payloads[FIRST_ROW, number] = row
                return status, number, row
            continue
        payloads[FIRST_ROW, number] = row
        if first_offset < 0 or fields[LAST_OFFSET, entry] < 0:
            status = BAD_OFFSET
        elif fields[MAGIC, entry] < 2:
            status, next_row, first_offset = _decode_set(data, fields, entry, start, stop, bounds, row, columns)
        elif depth > POSITIONS:
            status, next_row = _decode_batch(data, fields, entry, start, stop, depth == HEADERS, bounds, row, columns, totals)
        else:
            status, next_row = _decode_positions(data, fields, entry, start, stop, bounds, row, columns)
        if status != OK:
            return status, number, row
        payloads[FIRST_OFFSET, number] = first_offset
        row = next_row
        number += 1
    return OK, number, row
