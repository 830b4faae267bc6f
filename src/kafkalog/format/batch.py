"""The v2 record batch: every Kafka since 0.11 writes it, Kafka 4 writes nothing else.

A batch is a header of 61 bytes and its records. With a codec the records are compressed as one blob; the header never is.

    batch   := base_offset int64             preserved by compaction
               batch_length int32            bytes after this field, at least 49
               partition_leader_epoch int32  written by the broker
               magic int8                    2
               crc uint32                    CRC-32C of everything from `attributes` on
               attributes int16              low byte: codec (bits 0-2), log append time (3), transactional (4), control (5),
                                             delete horizon (6); the other bits are unused
               last_offset_delta int32       last offset = base_offset + this, also after compaction
               base_timestamp int64          of the first record, or the delete horizon; -1 in an empty batch
               max_timestamp int64           of any record, or the append time
               producer_id int64             -1: none
               producer_epoch int16          -1: none
               base_sequence int32           -1: none, also in transaction markers
               records_count int32           records still there; 0 in a batch that compaction emptied
               record * records_count

    record  := length varint                 bytes after this field
               attributes int8               0
               timestamp_delta varlong       timestamp = base_timestamp + this, unless log append time
               offset_delta varint           offset = base_offset + this
               key_length varint             negative: null
               key
               value_length varint           negative: null
               value
               headers_count varint
               header * headers_count

    header  := key_length varint, key (UTF-8), value_length varint (negative: null), value

The checksum does not cover the first 21 bytes, so a broker can assign offsets and its epoch without computing it again.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .codec_names import CODEC_NAMES as CODEC_NAMES
from .java import MAX_INT32, as_int32

HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("batch_length", ">i4"),
        ("partition_leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("records_count", ">i4"),
    ]
)
assert HEADER.itemsize == 61


def _position(field: str) -> int:
    fields = HEADER.fields
    assert fields is not None
    return int(fields[field][1])


HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12  # offset and length, with which an entry of any magic begins
MIN_BATCH_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD
MIN_RECORD_SIZE: Final = 7  # null key, null value, no headers
MAX_MAGIC: Final = 2

BASE_OFFSET_POSITION: Final = _position("base_offset")
BATCH_LENGTH_POSITION: Final = _position("batch_length")
PARTITION_LEADER_EPOCH_POSITION: Final = _position("partition_leader_epoch")
MAGIC_POSITION: Final = _position("magic")
CRC_POSITION: Final = _position("crc")
ATTRIBUTES_POSITION: Final = _position("attributes")
LAST_OFFSET_DELTA_POSITION: Final = _position("last_offset_delta")
BASE_TIMESTAMP_POSITION: Final = _position("base_timestamp")
MAX_TIMESTAMP_POSITION: Final = _position("max_timestamp")
PRODUCER_ID_POSITION: Final = _position("producer_id")
PRODUCER_EPOCH_POSITION: Final = _position("producer_epoch")
BASE_SEQUENCE_POSITION: Final = _position("base_sequence")
RECORDS_COUNT_POSITION: Final = _position("records_count")
CRC_START: Final = ATTRIBUTES_POSITION
assert (MAGIC_POSITION, CRC_POSITION, CRC_START, RECORDS_COUNT_POSITION) == (16, 17, 21, 57)

# Masks of `attributes`; the first two are the same in v1 messages.
CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

# The value where there is none.
NO_OFFSET: Final = -1
NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_LEADER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

# Sequence numbers of idempotent producers run from 0 to this, then start again at 0.
MAX_SEQUENCE: Final = MAX_INT32

# Timestamp types, with the numbers of Kafka's and Spark's own APIs.
NO_TIMESTAMP_TYPE: Final = -1
CREATE_TIME: Final = 0
LOG_APPEND_TIME_TYPE: Final = 1


def increment_sequence(sequence: int, increment: int) -> int:
    """The sequence number `increment` steps after `sequence`.

    A negative increment comes only from a record that claims an offset before its batch, a negative sequence from damage; the
    result is then the meaningless number that Kafka's 32-bit arithmetic gives.
    """
    if sequence > as_int32(MAX_SEQUENCE - increment):
        return as_int32(increment - (MAX_SEQUENCE - sequence) - 1)
    return as_int32(sequence + increment)


def decrement_sequence(sequence: int, decrement: int) -> int:
    """The sequence number `decrement` (at least 0) steps before `sequence`."""
    return (sequence - decrement) & MAX_SEQUENCE


def last_sequence(base_sequence: int, last_offset_delta: int) -> int:
    """The sequence number of a batch's last record, or NO_SEQUENCE if it has none."""
    return NO_SEQUENCE if base_sequence == NO_SEQUENCE else increment_sequence(base_sequence, last_offset_delta)
