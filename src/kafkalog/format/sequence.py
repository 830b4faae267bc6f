"""Sequence numbers of idempotent producers: 0 to 2**31 - 1, then 0 again. -1 means none."""

from __future__ import annotations

from typing import Final

from .integers import MAX_INT32, as_int32

NO_SEQUENCE: Final = -1
MAX_SEQUENCE: Final = MAX_INT32


def increment_sequence(sequence: int, increment: int) -> int:
    """The sequence number `increment` steps after `sequence`.

    A negative increment comes only from a record that claims an offset before its batch, a negative sequence from damage; the
    number is then the meaningless one that Kafka's 32-bit arithmetic arrives at.
    """
    if sequence > as_int32(MAX_SEQUENCE - increment):
        return as_int32(increment - (MAX_SEQUENCE - sequence) - 1)
    return as_int32(sequence + increment)


def decrement_sequence(sequence: int, decrement: int) -> int:
    """The sequence number `decrement` (at least 0) steps before `sequence`."""
    return (sequence - decrement) & MAX_SEQUENCE


def last_sequence(base_sequence: int, last_offset_delta: int) -> int:
    """The sequence number of a batch's last record, or NO_SEQUENCE for a batch without."""
    return NO_SEQUENCE if base_sequence == NO_SEQUENCE else increment_sequence(base_sequence, last_offset_delta)
