"""Decode the records of many entries into columns with one call: checksum, decompression, records, each entry in turn.

So an entry passes through the nearest cache once. A kernel never raises: it returns a status and the faulty entry, with the rows
of all entries before it in place, so that the caller can drop that entry, or decompress it, and call again for the rest.
"""

from __future__ import annotations

import numpy as np

from kafkalog.format import batch
from kafkalog.format.entry_table import ATTRIBUTES, BASE_OFFSET, LAST_OFFSET, MAGIC, POSITION, RECORD_COUNT, SIZE

from ._jit import brief_kernel, inline, kernel
from .bytes import Bytes, Int, Ints
from .crc import batch_matches, message_matches
from .decode_batches import decode_batch, decode_batch_positions
from .decode_messages import MIN_INNER_ENTRY, decode_messages, decode_set, message_parts
from .decompress import decompress
from .layout import (
    BAD_CRC,
    BAD_OFFSET,
    CHECKED,
    COMPRESSED,
    CRC32_FUNCTION,
    CRC32C_FUNCTION,
    DROPPED,
    ENTRY,
    FIRST_OFFSET,
    FIRST_ROW,
    LEFT,
    MESSAGE_CRC_FUNCTION,
    OK,
    OTHER_FORMAT,
    PLAIN,
    READY,
    START,
    STATE,
    STOP,
    Columns,
    HeaderColumns,
)


@brief_kernel
def lay_out(fields: Ints, entries: Ints, position: Int, payloads: Ints) -> None:
    """Fill the payload table of these entries as they are in the window, which begins at file position `position`."""
    for number in range(entries.shape[0]):
        entry = entries[number]
        start = fields[POSITION, entry] - position
        # Kafka reads only the header of a batch without records, whatever codec it names.
        compressed = fields[ATTRIBUTES, entry] & batch.CODEC_MASK != 0 and fields[RECORD_COUNT, entry] != 0
        payloads[ENTRY, number] = entry
        payloads[STATE, number] = COMPRESSED if compressed else PLAIN
        payloads[START, number] = start + (batch.HEADER_SIZE if fields[MAGIC, entry] == 2 else 0)
        payloads[STOP, number] = start + fields[SIZE, entry]
        payloads[FIRST_ROW, number] = 0
        payloads[FIRST_OFFSET, number] = 0


@brief_kernel
def expect(fields: Ints, payloads: Ints, first: Int) -> tuple[Int, Int, Int]:
    """(bytes in the window, greatest of them, records according to the headers) of payloads[first:] together."""
    total, greatest, records = np.int64(0), np.int64(0), np.int64(0)
    for number in range(first, payloads.shape[1]):
        entry = payloads[ENTRY, number]
        size = payloads[STOP, number] - payloads[START, number]
        total += size
        greatest = max(greatest, size)
        if fields[MAGIC, entry] == 2:
            records += max(fields[RECORD_COUNT, entry], 0)
        else:
            records += size // MIN_INNER_ENTRY if payloads[STATE, number] != PLAIN else 1
    return total, greatest, records


@inline
def _decompress(
    window: Bytes, arena: Bytes, fields: Ints, payloads: Ints, number: Int, start: Int, stop: Int, tools: Ints
) -> Int:
    """Decompress window[start:stop], which belongs to that payload, into the arena; the status."""
    entry = payloads[ENTRY, number]
    written = decompress(window, start, stop, fields[ATTRIBUTES, entry], fields[MAGIC, entry], arena, np.int64(0), tools)
    if written < 0:
        return LEFT
    payloads[STATE, number], payloads[START, number], payloads[STOP, number] = READY, 0, written
    return OK


@inline
def begin(fields: Ints, payloads: Ints, number: Int, row: Int) -> Int:
    """Note where the records of a payload begin; the status."""
    entry = payloads[ENTRY, number]
    if fields[BASE_OFFSET, entry] < 0 or fields[LAST_OFFSET, entry] < 0:
        return BAD_OFFSET
    payloads[FIRST_ROW, number] = row
    payloads[FIRST_OFFSET, number] = fields[BASE_OFFSET, entry]
    return OK


@inline
def check_batch(window: Bytes, fields: Ints, payloads: Ints, number: Int, position: Int, tools: Ints) -> Int:
    """Whether this is a v2 batch that is intact, as a status."""
    entry = payloads[ENTRY, number]
    if fields[MAGIC, entry] < 2:
        return OTHER_FORMAT
    if tools[CRC32C_FUNCTION] and payloads[STATE, number] <= COMPRESSED:
        if not batch_matches(tools[CRC32C_FUNCTION], window, fields, entry, position):
            return BAD_CRC
        payloads[STATE, number] |= CHECKED
    return OK


@inline
def _open_batch(
    window: Bytes, arena: Bytes, fields: Ints, payloads: Ints, number: Int, position: Int, tools: Ints, row: Int
) -> Int:
    """Check and decompress a batch unless that is done already; the status."""
    status = check_batch(window, fields, payloads, number, position, tools)
    if status != OK:
        return status
    if payloads[STATE, number] & COMPRESSED:
        start, stop = payloads[START, number], payloads[STOP, number]
        if _decompress(window, arena, fields, payloads, number, start, stop, tools) != OK:
            return LEFT
    return begin(fields, payloads, number, row)


@kernel
def decode_records(
    window: Bytes,
    arena: Bytes,
    fields: Ints,
    payloads: Ints,
    first: Int,
    position: Int,
    tools: Ints,
    wants: Int,
    bounds: Ints,
    row: Int,
    columns: Columns,
    headers: HeaderColumns,
) -> tuple[Int, Int, Int]:
    """(status, faulty payload or the number of payloads, rows in place) for payloads[first:], which are v2 batches.

    `position` is the file position of window[0]. A faulty entry leaves no rows. FIRST_ROW and FIRST_OFFSET of each decoded
    payload are filled in. At a message v0 or v1 the status is OTHER_FORMAT.
    """
    for number in range(first, payloads.shape[1]):
        if payloads[STATE, number] == DROPPED:
            continue
        status = _open_batch(window, arena, fields, payloads, number, position, tools, row)
        if status != OK:
            return status, number, row
        data = arena if payloads[STATE, number] == READY else window
        entry, start, stop = payloads[ENTRY, number], payloads[START, number], payloads[STOP, number]
        status, next_row = decode_batch(data, fields, entry, start, stop, wants, bounds, row, columns, headers)
        if status != OK:
            return status, number, row
        row = next_row
    return OK, payloads.shape[1], row


@kernel
def decode_positions(
    window: Bytes,
    arena: Bytes,
    fields: Ints,
    payloads: Ints,
    first: Int,
    position: Int,
    tools: Ints,
    wants: Int,
    bounds: Ints,
    row: Int,
    columns: Columns,
    headers: HeaderColumns,
) -> tuple[Int, Int, Int]:
    """As `decode_records` where neither keys nor values nor headers are wanted."""
    for number in range(first, payloads.shape[1]):
        if payloads[STATE, number] == DROPPED:
            continue
        status = _open_batch(window, arena, fields, payloads, number, position, tools, row)
        if status != OK:
            return status, number, row
        data = arena if payloads[STATE, number] == READY else window
        entry, start, stop = payloads[ENTRY, number], payloads[START, number], payloads[STOP, number]
        status, next_row = decode_batch_positions(
            data, fields, entry, start, stop, wants, bounds, row, columns.offsets, columns.timestamps
        )
        if status != OK:
            return status, number, row
        row = next_row
    return OK, payloads.shape[1], row


@kernel
def decode_old_formats(
    window: Bytes,
    arena: Bytes,
    fields: Ints,
    payloads: Ints,
    first: Int,
    position: Int,
    tools: Ints,
    wants: Int,
    bounds: Ints,
    row: Int,
    columns: Columns,
    headers: HeaderColumns,
) -> tuple[Int, Int, Int]:
    """As `decode_records` for messages v0 and v1; at a v2 batch the status is OTHER_FORMAT."""
    number = first
    while number < payloads.shape[1]:
        state, entry = payloads[STATE, number], payloads[ENTRY, number]
        if state == DROPPED:
            number += 1
            continue
        if fields[MAGIC, entry] == 2:
            return OTHER_FORMAT, number, row
        status = OK
        if state == PLAIN:
            status, number, row = decode_messages(
                window, fields, payloads, number, position, tools[MESSAGE_CRC_FUNCTION], wants, bounds, row, columns, headers
            )
            if status != OK:
                return status, number, row
            continue
        if state & COMPRESSED:
            status = _open_wrapper(window, arena, fields, payloads, number, position, tools)
        if status == OK:
            status = begin(fields, payloads, number, row)
        if status == OK:
            start, stop = payloads[START, number], payloads[STOP, number]
            status, next_row, payloads[FIRST_OFFSET, number] = decode_set(
                arena, fields, entry, start, stop, tools[CRC32_FUNCTION], wants, bounds, row, columns, headers
            )
        if status != OK:
            return status, number, row
        row = next_row
        number += 1
    return OK, number, row


@inline
def _open_wrapper(window: Bytes, arena: Bytes, fields: Ints, payloads: Ints, number: Int, position: Int, tools: Ints) -> Int:
    """Check a wrapper message, unless that is done already, and decompress its value; the status."""
    entry = payloads[ENTRY, number]
    if tools[MESSAGE_CRC_FUNCTION] and not payloads[STATE, number] & CHECKED:
        if not message_matches(tools[MESSAGE_CRC_FUNCTION], window, fields, entry, position):
            return BAD_CRC
        payloads[STATE, number] |= CHECKED
    magic = fields[MAGIC, entry]
    status, _, _, start, size = message_parts(window, payloads[START, number], payloads[STOP, number], magic)
    if status != OK or size < 0:
        return LEFT
    return _decompress(window, arena, fields, payloads, number, start, start + size, tools)
