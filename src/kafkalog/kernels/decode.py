"""Decode the records of many entries into columns with one call: checksum, decompression, records, each entry in turn.

So an entry passes through the nearest cache once. A kernel never raises: it returns a status and the faulty entry, with the rows
of all entries before it in place, so that the caller can drop that entry, or decompress it, and call again for the rest.
"""

from __future__ import annotations

import numpy as np

from kafkalog.format import batch
from kafkalog.format.entry_table import ATTRIBUTES, BASE_OFFSET, LAST_OFFSET, MAGIC, POSITION, RECORD_COUNT, SIZE

from ._jit import inline, kernel
from .bytes import Bytes, Int, Ints
from .crc import batch_matches
from .decode_batches import decode_batch
from .decode_messages import MIN_INNER_ENTRY, decode_messages, decode_set
from .decompress import decompress
from .layout import (
    BAD_CRC,
    BAD_OFFSET,
    CHECKED,
    COMPRESSED,
    CRC32C_FUNCTION,
    DROPPED,
    ENTRY,
    FIRST_OFFSET,
    FIRST_ROW,
    LEFT,
    OK,
    PLAIN,
    READY,
    START,
    STATE,
    STOP,
    Columns,
    HeaderColumns,
)


@kernel
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


@kernel
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
def _make_ready(window: Bytes, arena: Bytes, fields: Ints, payloads: Ints, number: Int, position: Int, tools: Ints) -> Int:
    """Check and decompress the payload unless that is done already; the status."""
    if tools[CRC32C_FUNCTION] and payloads[STATE, number] <= COMPRESSED:
        if not batch_matches(tools[CRC32C_FUNCTION], window, fields, payloads[ENTRY, number], position):
            return BAD_CRC
        payloads[STATE, number] |= CHECKED
    if payloads[STATE, number] & COMPRESSED:
        written = decompress(window, arena, fields, payloads, number, tools)
        if written < 0:
            return LEFT
        payloads[STATE, number], payloads[START, number], payloads[STOP, number] = READY, 0, written
    return OK


@inline
def _decode_payload(
    data: Bytes,
    fields: Ints,
    payloads: Ints,
    number: Int,
    wants: Int,
    bounds: Ints,
    row: Int,
    columns: Columns,
    headers: HeaderColumns,
) -> tuple[Int, Int]:
    """(status, row after the last one kept) of a batch or a compressed set in `data`."""
    entry, start, stop = payloads[ENTRY, number], payloads[START, number], payloads[STOP, number]
    if fields[BASE_OFFSET, entry] < 0 or fields[LAST_OFFSET, entry] < 0:
        return BAD_OFFSET, row
    payloads[FIRST_ROW, number] = row
    payloads[FIRST_OFFSET, number] = fields[BASE_OFFSET, entry]
    if fields[MAGIC, entry] == 2:
        return decode_batch(data, fields, entry, start, stop, wants, bounds, row, columns, headers)
    status, row, payloads[FIRST_OFFSET, number] = decode_set(
        data, fields, entry, start, stop, wants, bounds, row, columns, headers
    )
    return status, row


@kernel
def decode(
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
    """(status, faulty payload or the number of payloads, rows in place) for payloads[first:].

    `position` is the file position of window[0]. A faulty entry leaves no rows. FIRST_ROW and FIRST_OFFSET of each decoded
    payload are filled in.
    """
    number = first
    while number < payloads.shape[1]:
        if payloads[STATE, number] == DROPPED:
            number += 1
            continue
        if fields[MAGIC, payloads[ENTRY, number]] < 2 and payloads[STATE, number] == PLAIN:
            status, number, row = decode_messages(window, fields, payloads, number, wants, bounds, row, columns, headers)
            if status != OK:
                return status, number, row
            continue
        status = _make_ready(window, arena, fields, payloads, number, position, tools)
        if status == OK:
            data = arena if payloads[STATE, number] == READY else window
            status, next_row = _decode_payload(data, fields, payloads, number, wants, bounds, row, columns, headers)
            if status == OK:
                row = next_row
        if status != OK:
            return status, number, row
        number += 1
    return OK, number, row
