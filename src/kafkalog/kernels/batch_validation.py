"""Validation of the records of an appended batch that a leader stores as they are: well-formed, in order, how old."""

from __future__ import annotations

import numpy as np

from kafkalog.format import java
from kafkalog.format.batch import NO_TIMESTAMP

from ._jit import kernel
from .bytes import Bytes, Int, Ints, load_varint, load_varlong

# Rows of the facts. The timestamps are those of records that have one; IN_ORDER: offset deltas are 0, 1, 2, …
OLDEST, NEWEST, NULL_KEYS, IN_ORDER = range(4)
FACT_COUNT = 4

MAX_INT64 = np.int64(java.MAX_INT64)


@kernel
def validate_records(data: Bytes, start: Int, stop: Int, count: Int, base_timestamp: Int, facts: Ints) -> Int:
    """1 and their `facts` if data[start:stop] is `count` well-formed records; 0 if something in them is odd."""
    facts[OLDEST] = MAX_INT64
    facts[NEWEST] = NO_TIMESTAMP
    facts[NULL_KEYS] = 0
    facts[IN_ORDER] = 1
    at = start
    for number in range(count):
        size, at = load_varint(data, at, stop)
        if at < 0 or size < 1 or size > stop - at:
            return 0
        end = at + size
        timestamp_delta, at = load_varlong(data, at + 1, end)
        if at < 0:
            return 0
        offset_delta, at = load_varint(data, at, end)
        if at < 0:
            return 0
        if offset_delta != number:
            facts[IN_ORDER] = 0
        timestamp = base_timestamp + timestamp_delta
        if (timestamp_delta >= 0) != (timestamp >= base_timestamp):  # it overflowed
            return 0
        if timestamp != NO_TIMESTAMP:
            facts[OLDEST] = min(facts[OLDEST], timestamp)
            facts[NEWEST] = max(facts[NEWEST], timestamp)
        for part in range(2):
            length, at = load_varint(data, at, end)
            if at < 0 or length > end - at:
                return 0
            if part == 0 and length < 0:
                facts[NULL_KEYS] += 1
            at += max(length, 0)
        headers, at = load_varint(data, at, end)
        if at < 0 or headers < 0 or headers > end - at:
            return 0
        for part in range(2 * headers):
            length, at = load_varint(data, at, end)
            if at < 0 or length > end - at or (part % 2 == 0 and length < 0):
                return 0
            at += max(length, 0)
        if at != end:
            return 0
    return 1 if at == stop else 0
