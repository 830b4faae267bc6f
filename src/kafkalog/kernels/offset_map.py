"""Compaction's map from keys to their latest offsets: one flat table with open addressing.

A slot is three words: two of a key's 128-bit hash, and the offset plus one, 0 in a free slot. Keys themselves are not stored, so
two with the same hash count as one. The hash is SipHash-2-4 with a random secret, so keys cannot be made to collide. Probing is
linear: the following slots are mostly in the cache line that was just read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._jit import inline, kernel, wrapping
from .bytes import Bytes, Int, Ints
from .crc import load_word

SLOT_WORDS = 3
SLOT_BYTES = 8 * SLOT_WORDS
SECRET_WORDS = 2

# The counts of a map: keys in it, and the latest offset that it covers.
SIZE, LATEST_OFFSET = range(2)
NOT_FOUND = np.int64(-1)

Words = NDArray[np.uint64]
Word = Any  # np.uint64

FIRST_INIT, SECOND_INIT = np.uint64(0x736F6D6570736575), np.uint64(0x646F72616E646F6D)
THIRD_INIT, FOURTH_INIT = np.uint64(0x6C7967656E657261), np.uint64(0x7465646279746573)
WIDE_OUTPUT, WIDE_LAST, WIDE_SECOND = np.uint64(0xEE), np.uint64(0xEE), np.uint64(0xDD)


@inline
def _rotated(word: Word, bits: int) -> Word:
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@inline
def _round(first: Word, second: Word, third: Word, fourth: Word) -> tuple[Word, Word, Word, Word]:
    first += second
    second = _rotated(second, 13) ^ first
    first = _rotated(first, 32)
    third += fourth
    fourth = _rotated(fourth, 16) ^ third
    first += fourth
    fourth = _rotated(fourth, 21) ^ first
    third += second
    second = _rotated(second, 17) ^ third
    third = _rotated(third, 32)
    return first, second, third, fourth


@inline
def _last_word(data: Bytes, at: np.uint64, stop: np.uint64, size: Int) -> Word:
    """Up to seven bytes, and the size above them."""
    word = np.uint64(size & 0xFF) << np.uint64(56)
    shift = np.uint64(0)
    if at + np.uint64(4) <= stop:
        word |= load_word(data, at)
        at += np.uint64(4)
        shift = np.uint64(32)
    while at < stop:
        word |= np.uint64(data[at]) << shift
        at += np.uint64(1)
        shift += np.uint64(8)
    return word


@inline
def hash_of(data: Bytes, start: Int, size: Int, secret: Words) -> tuple[Word, Word]:
    """SipHash-2-4 with 128 bits of data[start : start + size]; the caller has checked the range."""
    first, second = secret[0] ^ FIRST_INIT, secret[1] ^ SECOND_INIT ^ WIDE_OUTPUT
    third, fourth = secret[0] ^ THIRD_INIT, secret[1] ^ FOURTH_INIT
    at = np.uint64(start)
    stop = at + np.uint64(size)
    while at + np.uint64(8) <= stop:
        word = load_word(data, at) | (load_word(data, at + np.uint64(4)) << np.uint64(32))
        fourth ^= word
        first, second, third, fourth = _round(first, second, third, fourth)
        first, second, third, fourth = _round(first, second, third, fourth)
        first ^= word
        at += np.uint64(8)
    word = _last_word(data, at, stop, size)
    fourth ^= word
    first, second, third, fourth = _round(first, second, third, fourth)
    first, second, third, fourth = _round(first, second, third, fourth)
    first ^= word
    third ^= WIDE_LAST
    for _ in range(4):
        first, second, third, fourth = _round(first, second, third, fourth)
    low = first ^ second ^ third ^ fourth
    second ^= WIDE_SECOND
    for _ in range(4):
        first, second, third, fourth = _round(first, second, third, fourth)
    return low, first ^ second ^ third ^ fourth


@inline
def _home(low: Word, slots: Word) -> Word:
    """The slot where a search begins: the hash's upper half scaled to the number of slots, which is below 2**32."""
    return ((low >> np.uint64(32)) * slots) >> np.uint64(32)


@inline
def find(table: Words, low: Word, high: Word) -> Int:
    """The offset of the key with that hash, or NOT_FOUND."""
    slots = np.uint64(table.shape[0] // SLOT_WORDS)
    slot = _home(low, slots)
    for _ in range(slots):
        at = slot * np.uint64(SLOT_WORDS)
        stored = table[at + np.uint64(2)]
        if stored == np.uint64(0):
            return NOT_FOUND
        if table[at] == low and table[at + np.uint64(1)] == high:
            return np.int64(stored) - 1
        slot += np.uint64(1)
        if slot == slots:
            slot = np.uint64(0)
    return NOT_FOUND


@inline
def store(table: Words, counts: Ints, low: Word, high: Word, offset: Int) -> None:
    """Put the offset of the key with that hash, new or not; there must be a free slot."""
    slots = np.uint64(table.shape[0] // SLOT_WORDS)
    slot = _home(low, slots)
    at = slot * np.uint64(SLOT_WORDS)
    while table[at + np.uint64(2)] != np.uint64(0):
        if table[at] == low and table[at + np.uint64(1)] == high:
            break
        slot += np.uint64(1)
        if slot == slots:
            slot = np.uint64(0)
        at = slot * np.uint64(SLOT_WORDS)
    if table[at + np.uint64(2)] == np.uint64(0):
        table[at] = low
        table[at + np.uint64(1)] = high
        counts[SIZE] += 1
    table[at + np.uint64(2)] = np.uint64(offset + 1)
    counts[LATEST_OFFSET] = offset


@wrapping
@kernel
def put_key(table: Words, counts: Ints, secret: Words, key: Bytes, offset: Int) -> None:
    """`store` for one key."""
    low, high = hash_of(key, 0, key.shape[0], secret)
    store(table, counts, low, high, offset)


@wrapping
@kernel
def find_key(table: Words, secret: Words, key: Bytes) -> Int:
    """`find` for one key."""
    low, high = hash_of(key, 0, key.shape[0], secret)
    return find(table, low, high)


# The kinds of records for `put_missing`, and what a slot holds instead of an offset once a later record of its key was seen.
IGNORED, LIVE, TOMBSTONE = range(3)
SUPERSEDED = np.uint64(0xFFFFFFFFFFFFFFFF)


@inline
def _slot_of(table: Words, low: Word, high: Word) -> Int:
    """Where the slot of the key with that hash begins in the table, or NOT_FOUND."""
    slots = np.uint64(table.shape[0] // SLOT_WORDS)
    slot = _home(low, slots)
    for _ in range(slots):
        at = slot * np.uint64(SLOT_WORDS)
        if table[at + np.uint64(2)] == np.uint64(0):
            return NOT_FOUND
        if table[at] == low and table[at + np.uint64(1)] == high:
            return np.int64(at)
        slot += np.uint64(1)
        if slot == slots:
            slot = np.uint64(0)
    return NOT_FOUND


@wrapping
@kernel
def put_missing(
    table: Words, counts: Ints, secret: Words, content: Bytes, starts: Any, kinds: Bytes, offsets: Ints, first: Int, room: Int
) -> Int:
    """The row that found no room, or the number of rows: notes the offsets of the keys of LIVE records, from row `first` on.

    `starts` has the start of each key in `content`, and the end of the last. A TOMBSTONE supersedes what was noted of its key.
    """
    for row in range(first, offsets.shape[0]):
        kind = np.int64(kinds[row])
        if kind == IGNORED:
            continue
        low, high = hash_of(content, starts[row], starts[row + 1] - starts[row], secret)
        at = _slot_of(table, low, high)
        if kind == TOMBSTONE:
            if at != NOT_FOUND:
                table[at + 2] = SUPERSEDED
        elif at != NOT_FOUND:
            table[at + 2] = np.uint64(offsets[row] + 1)
        elif counts[SIZE] >= room:
            return row
        else:
            store(table, counts, low, high, offsets[row])
    return offsets.shape[0]


@wrapping
@kernel
def supersede(table: Words, secret: Words, content: Bytes, starts: Any, kinds: Bytes, offsets: Ints) -> None:
    """Mark every key that is noted with an offset below that of one of these records."""
    for row in range(offsets.shape[0]):
        if np.int64(kinds[row]) == IGNORED:
            continue
        low, high = hash_of(content, starts[row], starts[row + 1] - starts[row], secret)
        at = _slot_of(table, low, high)
        if at != NOT_FOUND and table[at + 2] != SUPERSEDED and np.int64(table[at + 2]) - 1 < offsets[row]:
            table[at + 2] = SUPERSEDED
