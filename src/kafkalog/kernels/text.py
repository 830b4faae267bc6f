"""Pieces of text written into a byte array: words of a table, bytes, decimal numbers; and characters found in UTF-8.

Each takes the position to write to and returns the position after what it wrote; the caller has ensured the room.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._jit import copy_bytes, inline
from .bytes import Bytes, Int, Ints

MINUS = ord("-")
ZERO = np.uint64(ord("0"))  # unsigned like what is added to it: Numba turns a mixed sum into a float


def word_table(words: Sequence[str]) -> tuple[Bytes, Ints]:
    """The words joined, and where each begins; kernels take both as arguments."""
    sizes = [len(word.encode()) for word in words]
    return np.frombuffer("".join(words).encode(), np.uint8), np.cumsum([0, *sizes]).astype(np.int64)


@inline
def put_word(out: Bytes, at: Int, words: Bytes, starts: Ints, word: Int) -> Int:
    start = starts[word]
    size = starts[word + 1] - start
    copy_bytes(words, start, out, at, size)
    return at + size


@inline
def put_byte(out: Bytes, at: Int, byte: Int) -> Int:
    out[np.uint64(at)] = byte
    return at + 1


@inline
def put_integer(out: Bytes, at: Int, value: Int) -> Int:
    """Decimal digits, two at a time from the last."""
    if value < 0:
        out[np.uint64(at)] = MINUS
        at += 1
        rest = np.uint64(-(value + 1)) + np.uint64(1)
    else:
        rest = np.uint64(value)
    digits = 1
    bound = np.uint64(10)
    while digits < 19 and rest >= bound:
        bound *= np.uint64(10)
        digits += 1
    last = np.uint64(at + digits - 1)
    while rest >= np.uint64(100):
        higher = rest // np.uint64(100)
        pair = rest - higher * np.uint64(100)
        tens = pair // np.uint64(10)
        out[last] = ZERO + pair - tens * np.uint64(10)
        out[last - np.uint64(1)] = ZERO + tens
        last -= np.uint64(2)
        rest = higher
    if rest >= np.uint64(10):
        tens = rest // np.uint64(10)
        out[last] = ZERO + rest - tens * np.uint64(10)
        out[last - np.uint64(1)] = ZERO + tens
    else:
        out[last] = ZERO + rest
    return at + digits


@inline
def find_character(data: Bytes, at: Int, stop: Int) -> tuple[Int, Any]:
    """(bytes, whether they are a character) of what begins at data[at].

    A malformed character ends where its bytes can no longer become one; an encoded surrogate counts as one malformed character.
    """
    first = np.int64(data[at])
    if first < 0x80:
        return 1, True
    if first < 0xC2 or first > 0xF4:
        return 1, False
    lowest, highest, length = 0x80, 0xBF, 2
    if first >= 0xF0:
        length = 4
        lowest = 0x90 if first == 0xF0 else 0x80
        highest = 0x8F if first == 0xF4 else 0xBF
    elif first >= 0xE0:
        length = 3
        lowest = 0xA0 if first == 0xE0 else 0x80
    for number in range(1, length):
        if at + number >= stop:
            return number, False
        following = np.int64(data[at + number])
        if following < lowest or following > highest:
            return number, False
        lowest, highest = 0x80, 0xBF
    surrogate = first == 0xED and data[at + 1] >= 0xA0
    return length, not surrogate
