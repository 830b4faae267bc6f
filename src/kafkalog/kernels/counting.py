"""Count repeated values: hashes of bytes, tables of the heaviest items and of the last record of each key, shares of bytes.

The tables are open-addressed and belong to the caller. A kernel that finds one full returns the row, and is called again for the
rest once there is room. All arithmetic stays within 63 bits, so that it gives the same numbers when the JIT is off.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._jit import copy_bytes, inline, kernel
from .bytes import Bytes, Int, Ints
from .layout import LEAST_HEADER, Offsets32

FREE = 0  # the id of an empty slot, and of a row that does not count
LOW_32, LOW_31 = 0xFFFFFFFF, 0x7FFFFFFF
# Odd, and below 2**31: a product with 32 bits fits into 63.
FIRST_FACTOR, SECOND_FACTOR = 0x45D9F3B, 0x165667B1
FINISH_FACTORS = 0x21F0AAAD, 0x735A2D97  # with shifts of 16, 15, 15 every bit of 32 depends on every other
SLOT_SHIFT = 24  # the bits below choose the keys of a sample, so they cannot choose the slot


# Columns of the tables: a slot is a row, so that reading one costs one cache line. The ids come first in every table.
ID = 0
BYTES, RECORDS, OWNER, LABEL_SIZE = range(1, 5)  # of a table of items; `labels` holds the first bytes of each
ITEM_FIELDS = 5
LAST_SHARE = 1  # of a table of keys
KEY_FIELDS = 2


@inline
def _word(content: Bytes, at: Int, size: Int) -> Int:
    """Up to four bytes as a number."""
    word = np.int64(0)
    for index in range(size):
        word |= np.int64(content[at + index]) << (8 * index)
    return word


@inline
def _four_bytes(content: Bytes, at: Int) -> Int:
    here = np.uint64(at)
    return (
        np.int64(content[here])
        | np.int64(content[here + np.uint64(1)]) << 8
        | np.int64(content[here + np.uint64(2)]) << 16
        | np.int64(content[here + np.uint64(3)]) << 24
    )


@inline
def _step(state: Int, word: Int, factor: Int, shift: Int) -> Int:
    state = ((state ^ word) * factor) & LOW_32
    return state ^ (state >> shift)


@inline
def _finish(state: Int) -> Int:
    state ^= state >> 16
    state = (state * FINISH_FACTORS[0]) & LOW_32
    state ^= state >> 15
    state = (state * FINISH_FACTORS[1]) & LOW_32
    return state ^ (state >> 15)


@inline
def _hash(content: Bytes, start: Int, size: Int, first: Int, second: Int) -> Int:
    """63 bits from two lanes, which start with these states; never FREE."""
    second ^= size
    at, stop = start, start + size
    while stop - at >= 4:
        word = _four_bytes(content, at)
        first, second = _step(first, word, FIRST_FACTOR, 15), _step(second, word, SECOND_FACTOR, 13)
        at += 4
    word = _word(content, at, stop - at) | (stop - at) << 24
    first = _finish(_step(first, word, FIRST_FACTOR, 15))
    second = _finish(_step(second, word, SECOND_FACTOR, 13) ^ first)
    return max(((first & LOW_31) << 32) | second, FREE + 1)


@kernel
def hash_texts(content: Bytes, starts: Ints, sizes: Ints, wanted: Bytes, seed: Int, ids: Ints) -> None:
    """The ids of content[start : start + size], FREE where they are not wanted."""
    first = _finish(np.int64(seed) & LOW_32)
    second = _finish(first ^ SECOND_FACTOR)
    for row in range(ids.shape[0]):
        ids[row] = _hash(content, starts[row], sizes[row], first, second) if wanted[row] else FREE


@kernel
def measure_prefixes(content: Bytes, starts: Ints, sizes: Ints, ends: Bytes, longest: Int, otherwise: Int, found: Ints) -> None:
    """The length of each text's prefix up to and including the first byte that `ends` marks, among the first `longest` bytes.

    A text without one has a prefix of `otherwise` bytes, or of all its bytes.
    """
    for row in range(found.shape[0]):
        start = starts[row]
        size = min(otherwise, sizes[row])
        for index in range(min(sizes[row], longest)):
            if ends[content[start + index]]:
                size = index + 1
                break
        found[row] = size


@kernel
def share_out(counts: Ints, stored: Ints, weights: Ints, shares: Ints) -> None:
    """Divide the stored bytes of each entry among its `counts` rows by their weights, so that the shares add up to them."""
    row = 0
    for entry in range(counts.shape[0]):
        stop = row + counts[entry]
        total = np.int64(0)
        for at in range(row, stop):
            total += weights[at]
        passed, given = np.int64(0), np.int64(0)
        for at in range(row, stop):
            passed += weights[at]
            upto = passed * stored[entry] // total
            shares[at] = upto - given
            given = upto
        row = stop


@kernel
def share_headers(offsets: Offsets32, name_sizes: Ints, value_sizes: Ints, weights: Ints, shares: Ints, found: Ints) -> None:
    """Each header's part of its record's share. `offsets` has an element per row and one more, and begins with 0."""
    for row in range(weights.shape[0]):
        for header in range(offsets[row] - offsets[0], offsets[row + 1] - offsets[0]):
            found[header] = shares[row] * (name_sizes[header] + value_sizes[header] + LEAST_HEADER) // weights[row]


@kernel
def mark_first_names(offsets: Offsets32, ids: Ints, most: Int, marks: Ints) -> None:
    """1 for each header whose name is new in its record, otherwise 0; -1 for all headers of a record with more than `most`."""
    for row in range(offsets.shape[0] - 1):
        start, stop = offsets[row] - offsets[0], offsets[row + 1] - offsets[0]
        for header in range(start, stop):
            marks[header] = 1 if stop - start <= most else -1
            for earlier in range(start, header if stop - start <= most else start):
                if ids[earlier] == ids[header]:
                    marks[header] = 0
                    break


@kernel
def sum_runs(values: Ints, weights: Ints, counts: Ints, runs: Ints) -> Int:
    """The number of runs of the same value; `runs` has their values, weights and counts, and room for a run per value."""
    found = -1
    for row in range(values.shape[0]):
        if found < 0 or values[row] != runs[0, found]:
            found += 1
            runs[0, found], runs[1, found], runs[2, found] = values[row], 0, 0
        runs[1, found] += weights[row]
        runs[2, found] += counts[row]
    return found + 1


@inline
def _find_slot(table: Ints, wanted: Int) -> Int:
    """The slot with the id, or the free one where it belongs; there is always a free one."""
    mask = table.shape[0] - 1
    slot = (wanted >> SLOT_SHIFT) & mask
    while table[np.uint64(slot), ID] != FREE and table[np.uint64(slot), ID] != wanted:
        slot = (slot + 1) & mask
    return slot


@kernel
def add_items(
    table: Ints,
    labels: Bytes,
    used: Int,
    room: Int,
    ids: Ints,
    content: Bytes,
    starts: Ints,
    sizes: Ints,
    weights: Ints,
    counts: Ints,
    owner: Int,
    first: Int,
) -> tuple[Int, Int]:
    """(row that found no room, or the number of rows; slots in use) after the rows from `first` on."""
    width = labels.shape[0] // table.shape[0]
    for row in range(first, ids.shape[0]):
        if ids[row] == FREE:
            continue
        slot = _find_slot(table, ids[row])
        if table[slot, ID] == FREE:
            if used == room:
                return row, used
            used += 1
            table[slot, ID], table[slot, BYTES], table[slot, RECORDS] = ids[row], 0, 0
            table[slot, OWNER], table[slot, LABEL_SIZE] = owner, sizes[row]
            copy_bytes(content, starts[row], labels, slot * width, min(sizes[row], width))
        table[slot, BYTES] += weights[row]
        table[slot, RECORDS] += counts[row]
    return ids.shape[0], used


@kernel
def move_items(table: Ints, labels: Bytes, new_table: Ints, new_labels: Bytes, less: Int) -> Int:
    """The number of items put into an empty table, each `less` bytes lighter; those with no bytes left are dropped."""
    width = labels.shape[0] // table.shape[0]
    used = 0
    for old in range(table.shape[0]):
        if table[old, ID] == FREE or (table[old, BYTES] <= less and less > 0):
            continue
        slot = _find_slot(new_table, table[old, ID])
        for field in range(ITEM_FIELDS):
            new_table[slot, field] = table[old, field]
        new_table[slot, BYTES] -= less
        copy_bytes(labels, old * width, new_labels, slot * width, width)
        used += 1
    return used


@inline
def _is_sampled(wanted: Int, salt: Int, mask: Int) -> Any:
    return (wanted ^ salt) & mask == 0


@kernel
def add_keys(
    table: Ints, used: Int, room: Int, salt: Int, mask: Int, ids: Ints, shares: Ints, has_value: Bytes, first: Int
) -> tuple[Int, Int]:
    """(row that found no room, or the number of rows; slots in use): the table has the share of the last record of each key.

    That of a tombstone is ~share, which is negative. Only keys in the sample count: those with the salt's bits under `mask`.
    """
    for row in range(first, ids.shape[0]):
        if ids[row] == FREE or not _is_sampled(ids[row], salt, mask):
            continue
        slot = _find_slot(table, ids[row])
        if table[slot, ID] == FREE:
            if used == room:
                return row, used
            used += 1
            table[slot, ID] = ids[row]
        table[slot, LAST_SHARE] = shares[row] if has_value[row] else ~shares[row]
    return ids.shape[0], used


@kernel
def move_keys(table: Ints, new_table: Ints, salt: Int, mask: Int) -> Int:
    """The number of keys put into an empty table: those that are in the sample."""
    used = 0
    for old in range(table.shape[0]):
        if table[old, ID] != FREE and _is_sampled(table[old, ID], salt, mask):
            slot = _find_slot(new_table, table[old, ID])
            new_table[slot, ID], new_table[slot, LAST_SHARE] = table[old, ID], table[old, LAST_SHARE]
            used += 1
    return used
