"""Lines of text for entries and their records, as Kafka's DumpLogSegments prints them, written into one byte array.

The caller has decoded the records into columns (`decode`). Entries that need more than bytes and integers (control records of
KRaft, payloads with a decoder, codecs that do not exist), or bytes that are not in the window (compressed sets of messages v0 and
v1) are left to the caller.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkalog.format import batch, control, message
from kafkalog.format.batch import MAX_SEQUENCE, NO_SEQUENCE
from kafkalog.format.entry_table import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    CRC,
    LAST_OFFSET,
    LEADER_EPOCH,
    MAGIC,
    MAX_TIMESTAMP,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_COUNT,
    SIZE,
)

from ._jit import inline, kernel
from .bytes import Bytes, Int, Ints, load_int16, load_int32, load_uint32
from .layout import ENTRY, FIRST_ROW, START, Columns, HeaderColumns, Offsets32
from .text import find_character, put_byte, put_integer, put_word, word_table

# Why `write_lines` stopped.
DONE, FULL, LEFT_TO_CALLER = range(3)

# What it writes of each record, as bits: the line itself, its metadata, its key and value.
RECORDS, METADATA, CONTENTS = 1, 2, 4
DECODED_BY_CALLER = 8  # the contents are, so every entry with records that are not control records is left

BATCH_LINE = -1  # as `row`: the entry's own line is not written yet

# The longest line of an entry, or of a record without its key, value and header keys: twelve 64-bit numbers of 20 characters and
# the words between them.
FIXED_BYTES = 640
LONGEST_REPLACED = 3  # bytes of U+FFFD, which may replace a single byte

_WORDS = (
    "baseOffset: ",
    " lastOffset: ",
    " count: ",
    " baseSequence: ",
    " lastSequence: ",
    " producerId: ",
    " producerEpoch: ",
    " partitionLeaderEpoch: ",
    " isTransactional: ",
    " isControl: ",
    " deleteHorizonMs: ",
    "OptionalLong.empty",
    "OptionalLong[",
    "offset: ",
    " position: ",
    " size: ",
    " magic: ",
    " compresscodec: ",
    " crc: ",
    " isvalid: ",
    "true",
    "false",
    " NoTimestampType: ",
    " CreateTime: ",
    " LogAppendTime: ",
    *batch.CODEC_NAMES,
    "| ",
    " keySize: ",
    " valueSize: ",
    " sequence: ",
    " headerKeys: [",
    " isValid: ",
    " endTxnMarker: COMMIT coordinatorEpoch: ",
    " endTxnMarker: ABORT coordinatorEpoch: ",
    " key: ",
    " payload: ",
)
(
    BASE_OFFSET_WORD,
    LAST_OFFSET_WORD,
    COUNT_WORD,
    BASE_SEQUENCE_WORD,
    LAST_SEQUENCE_WORD,
    PRODUCER_ID_WORD,
    PRODUCER_EPOCH_WORD,
    LEADER_EPOCH_WORD,
    TRANSACTIONAL_WORD,
    CONTROL_WORD,
    HORIZON_WORD,
    NO_HORIZON_WORD,
    SOME_HORIZON_WORD,
    OFFSET_WORD,
    POSITION_WORD,
    SIZE_WORD,
    MAGIC_WORD,
    CODEC_WORD,
    CRC_WORD,
    VALID_WORD,
    TRUE_WORD,
    FALSE_WORD,
    NO_TIMESTAMP_WORD,
    CREATE_TIME_WORD,
    LOG_APPEND_TIME_WORD,
    NONE_WORD,
    _GZIP_WORD,
    _SNAPPY_WORD,
    _LZ4_WORD,
    _ZSTD_WORD,
    RECORD_WORD,
    KEY_SIZE_WORD,
    VALUE_SIZE_WORD,
    SEQUENCE_WORD,
    HEADERS_WORD,
    RECORD_VALID_WORD,
    COMMIT_WORD,
    ABORT_WORD,
    KEY_WORD,
    PAYLOAD_WORD,
) = range(40)
assert len(_WORDS) == 40
WORDS, WORD_STARTS = word_table(_WORDS)

COMMA, CLOSING, LINE_END = (ord(each) for each in ",]\n")


@inline
def _put_field(out: Bytes, at: Int, words: Bytes, starts: Ints, word: Int, value: Int) -> Int:
    return put_integer(out, put_word(out, at, words, starts, word), value)


@inline
def _put_flag(out: Bytes, at: Int, words: Bytes, starts: Ints, word: Int, flag: Any) -> Int:
    at = put_word(out, at, words, starts, word)
    return put_word(out, at, words, starts, TRUE_WORD if flag else FALSE_WORD)


@inline
def _put_text(out: Bytes, at: Int, data: Bytes, start: Int, size: Int) -> Int:
    """The bytes as UTF-8 text. Most are ASCII, which is copied and checked in one pass."""
    high_bits = np.uint8(0)
    source, target = np.uint64(start), np.uint64(at)
    for index in range(np.uint64(size)):
        byte = data[source + index]
        out[target + index] = byte
        high_bits |= byte
    if high_bits < 0x80:
        return at + size
    return _put_utf8(out, at, data, start, start + size)


@kernel
def _put_utf8(out: Bytes, at: Int, data: Bytes, start: Int, stop: Int) -> Int:
    """UTF-8 copied, with U+FFFD for malformed bytes, as Java decodes it."""
    while start < stop:
        size, well_formed = find_character(data, start, stop)
        if well_formed:
            for index in range(size):
                out[at + index] = data[start + index]
            at += size
        else:
            out[at] = 0xEF
            out[at + 1] = 0xBF
            out[at + 2] = 0xBD
            at += 3
        start += size
    return at


@inline
def _put_batch_line(out: Bytes, at: Int, words: Bytes, starts: Ints, fields: Ints, entry: Int, valid: Any) -> Int:
    attributes = fields[ATTRIBUTES, entry]
    magic = fields[MAGIC, entry]
    if magic < 2:
        at = _put_field(out, at, words, starts, OFFSET_WORD, fields[LAST_OFFSET, entry])
    else:
        base_offset, base_sequence = fields[BASE_OFFSET, entry], fields[BASE_SEQUENCE, entry]
        last_sequence = np.int64(NO_SEQUENCE)
        if base_sequence != NO_SEQUENCE:
            last_sequence = _sequence(base_sequence, fields[LAST_OFFSET, entry] - base_offset)
        at = _put_field(out, at, words, starts, BASE_OFFSET_WORD, base_offset)
        at = _put_field(out, at, words, starts, LAST_OFFSET_WORD, fields[LAST_OFFSET, entry])
        at = _put_field(out, at, words, starts, COUNT_WORD, fields[RECORD_COUNT, entry])
        at = _put_field(out, at, words, starts, BASE_SEQUENCE_WORD, base_sequence)
        at = _put_field(out, at, words, starts, LAST_SEQUENCE_WORD, last_sequence)
        at = _put_field(out, at, words, starts, PRODUCER_ID_WORD, fields[PRODUCER_ID, entry])
        at = _put_field(out, at, words, starts, PRODUCER_EPOCH_WORD, fields[PRODUCER_EPOCH, entry])
        at = _put_field(out, at, words, starts, LEADER_EPOCH_WORD, fields[LEADER_EPOCH, entry])
        at = _put_flag(out, at, words, starts, TRANSACTIONAL_WORD, attributes & batch.TRANSACTIONAL != 0)
        at = _put_flag(out, at, words, starts, CONTROL_WORD, attributes & batch.CONTROL != 0)
        at = put_word(out, at, words, starts, HORIZON_WORD)
        if attributes & batch.DELETE_HORIZON != 0:
            at = _put_field(out, at, words, starts, SOME_HORIZON_WORD, fields[BASE_TIMESTAMP, entry])
            at = put_byte(out, at, CLOSING)
        else:
            at = put_word(out, at, words, starts, NO_HORIZON_WORD)
    at = _put_field(out, at, words, starts, POSITION_WORD, fields[POSITION, entry])
    at = _put_field(out, at, words, starts, _time_word(magic, attributes), fields[MAX_TIMESTAMP, entry])
    at = _put_field(out, at, words, starts, SIZE_WORD, fields[SIZE, entry])
    at = _put_field(out, at, words, starts, MAGIC_WORD, magic)
    at = put_word(out, at, words, starts, CODEC_WORD)
    at = put_word(out, at, words, starts, NONE_WORD + (attributes & batch.CODEC_MASK))
    at = _put_field(out, at, words, starts, CRC_WORD, fields[CRC, entry])
    at = _put_flag(out, at, words, starts, VALID_WORD, valid)
    return put_byte(out, at, LINE_END)


@inline
def _sequence(base_sequence: Int, delta: Int) -> Int:
    """The sequence number `delta` after the first one, in Kafka's 32-bit arithmetic (`increment_sequence`)."""
    if base_sequence > _as_int32(MAX_SEQUENCE - delta):
        return _as_int32(delta - (MAX_SEQUENCE - base_sequence) - 1)
    return _as_int32(base_sequence + delta)


@inline
def _as_int32(value: Int) -> Int:
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


@inline
def _time_word(magic: Int, attributes: Int) -> Int:
    if magic == 0:
        return NO_TIMESTAMP_WORD
    return LOG_APPEND_TIME_WORD if attributes & batch.LOG_APPEND_TIME != 0 else CREATE_TIME_WORD


@inline
def _put_header_keys(out: Bytes, at: Int, first: Int, last: Int, offsets: Offsets32, keys: Bytes) -> Int:
    for number in range(first, last):
        if number > first:
            at = put_byte(out, at, COMMA)
        at = _put_text(out, at, keys, offsets[number], offsets[number + 1] - offsets[number])
    return put_byte(out, at, CLOSING)


@inline
def _marker_word(keys: Bytes, key_start: Int, key_size: Int, values: Bytes, value_start: Int, value_size: Int) -> Int:
    """The word of a transaction marker, or -1 for another control record or a malformed one."""
    if key_size < control.KEY_SIZE or value_size < control.END_TXN_MARKER_SIZE:
        return -1
    if load_int16(keys, key_start) < 0 or load_int16(values, value_start) < 0:
        return -1
    kind = load_int16(keys, key_start + 2)
    if kind == control.COMMIT:
        return COMMIT_WORD
    return ABORT_WORD if kind == control.ABORT else -1


@inline
def _is_left(fields: Ints, entry: Int, row: Int, last: Int, what: Int, columns: Columns) -> Any:
    """Whether the records of the entry are left to the caller."""
    if fields[MAGIC, entry] < 2 and fields[ATTRIBUTES, entry] & batch.CODEC_MASK:
        return True
    if fields[MAGIC, entry] < 2 or fields[ATTRIBUTES, entry] & batch.CONTROL == 0:
        return what & DECODED_BY_CALLER != 0
    if what & METADATA == 0:
        return False
    for each in range(row, last):
        key_start, value_start = columns.key_offsets[each], columns.value_offsets[each]
        key_size, value_size = columns.key_offsets[each + 1] - key_start, columns.value_offsets[each + 1] - value_start
        if _marker_word(columns.keys, key_start, key_size, columns.values, value_start, value_size) < 0:
            return True
    return False


@inline
def _put_message_facts(out: Bytes, at: Int, words: Bytes, starts: Ints, data: Bytes, start: Int, magic: Int, valid: Any) -> Int:
    """Sizes as stored and the checksum of the v0 or v1 message at data[start:]."""
    key_length = start + (message.KEY_LENGTH_POSITION_V1 if magic == 1 else message.KEY_LENGTH_POSITION_V0)
    key_size = load_int32(data, key_length)
    at = _put_field(out, at, words, starts, KEY_SIZE_WORD, key_size)
    at = _put_field(out, at, words, starts, VALUE_SIZE_WORD, load_int32(data, key_length + 4 + max(key_size, 0)))
    at = _put_flag(out, at, words, starts, RECORD_VALID_WORD, valid)
    return _put_field(out, at, words, starts, CRC_WORD, load_uint32(data, start + message.CRC_POSITION))


@inline
def _put_records(
    out: Bytes,
    at: Int,
    words: Bytes,
    starts: Ints,
    fields: Ints,
    entry: Int,
    window: Bytes,
    start: Int,
    row: Int,
    last: Int,
    valid: Any,
    what: Int,
    columns: Columns,
    headers: HeaderColumns,
) -> tuple[Int, Int]:
    """(row after the last one written, position in `out`): all up to `last` unless the room runs out."""
    offsets, timestamps, key_offsets, key_valid, keys, value_offsets, value_valid, values = columns
    header_offsets, header_key_offsets, header_keys = headers.offsets, headers.key_offsets, headers.keys
    magic, attributes, base_offset = fields[MAGIC, entry], fields[ATTRIBUTES, entry], fields[BASE_OFFSET, entry]
    base_sequence, time_word = fields[BASE_SEQUENCE, entry], _time_word(magic, attributes)
    is_control = magic == 2 and attributes & batch.CONTROL != 0
    while row < last:
        key_start, value_start = np.int64(key_offsets[row]), np.int64(value_offsets[row])
        key_size, value_size = key_offsets[row + 1] - key_start, value_offsets[row + 1] - value_start
        header, last_header = header_offsets[row], header_offsets[row + 1]
        header_bytes = np.int64(header_key_offsets[last_header]) - header_key_offsets[header]
        if FIXED_BYTES + LONGEST_REPLACED * (key_size + value_size + header_bytes) + last_header - header > out.shape[0] - at:
            break
        if what & METADATA:
            at = put_word(out, at, words, starts, RECORD_WORD)
            at = _put_field(out, at, words, starts, OFFSET_WORD, offsets[row])
            at = _put_field(out, at, words, starts, time_word, timestamps[row])
            if magic < 2:
                at = _put_message_facts(out, at, words, starts, window, start, magic, valid)
            else:
                sequence = _sequence(base_sequence, offsets[row] - base_offset) if base_sequence >= 0 else np.int64(NO_SEQUENCE)
                at = _put_field(out, at, words, starts, KEY_SIZE_WORD, key_size if key_valid[row] else np.int64(-1))
                at = _put_field(out, at, words, starts, VALUE_SIZE_WORD, value_size if value_valid[row] else np.int64(-1))
                at = _put_field(out, at, words, starts, SEQUENCE_WORD, sequence)
                at = put_word(out, at, words, starts, HEADERS_WORD)
                at = _put_header_keys(out, at, header, last_header, header_key_offsets, header_keys)
            if is_control:
                word = _marker_word(keys, key_start, key_size, values, value_start, value_size)
                at = _put_field(out, at, words, starts, word, load_int32(values, value_start + 2))
        if what & CONTENTS and not is_control:
            bare = what & METADATA == 0
            if key_valid[row]:
                at = _put_content(out, at, words, starts, KEY_WORD, bare, keys, key_start, key_size)
                bare = False
            if value_valid[row]:
                at = _put_content(out, at, words, starts, PAYLOAD_WORD, bare, values, value_start, value_size)
        at = put_byte(out, at, LINE_END)
        row += 1
    return row, at


@inline
def _put_content(
    out: Bytes, at: Int, words: Bytes, starts: Ints, word: Int, bare: Any, data: Bytes, start: Int, size: Int
) -> Int:
    """A key or a value after its word; in a line without metadata the first word follows the record's bar."""
    if bare:
        at = put_word(out, at, words, starts, RECORD_WORD) - 1
    at = put_word(out, at, words, starts, word)
    return _put_text(out, at, data, start, size)


@kernel
def write_lines(
    window: Bytes,
    fields: Ints,
    valid: Bytes,
    payloads: Ints,
    number: Int,
    row: Int,
    rows: Int,
    what: Int,
    columns: Columns,
    headers: HeaderColumns,
    words: Bytes,
    starts: Ints,
    out: Bytes,
) -> tuple[Int, Int, Int, Int]:
    """(status, payload, row, bytes written) for payloads[number:], from `row` on, BATCH_LINE for one not begun.

    `valid` has a flag for each entry of `fields`. FULL: flush what was written and call again; LEFT_TO_CALLER: the line of the
    entry is written (if its codec has a name), its records are not.
    """
    at = np.int64(0)
    count = payloads.shape[1]
    while number < count:
        entry = payloads[ENTRY, number]
        first = payloads[FIRST_ROW, number]
        last = payloads[FIRST_ROW, number + 1] if number + 1 < count else rows
        if row == BATCH_LINE:
            if out.shape[0] - at < FIXED_BYTES:
                return FULL, number, row, at
            at = _put_batch_line(out, at, words, starts, fields, entry, valid[entry])
            row = first
            if what & RECORDS and last > first and _is_left(fields, entry, first, last, what, columns):
                return LEFT_TO_CALLER, number, first, at
        if what & RECORDS:
            start = payloads[START, number]
            row, at = _put_records(
                out, at, words, starts, fields, entry, window, start, row, last, valid[entry], what, columns, headers
            )
            if row < last:
                return FULL, number, row, at
        row = BATCH_LINE
        number += 1
    return DONE, number, row, at
