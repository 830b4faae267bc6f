"""Which partition a record goes to: by Kafka's own hash of its key, and without a key to one partition per batch, in turn."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkalog.errors import UsageError

SEED = np.uint32(0x9747B28C)
MULTIPLIER = np.uint32(0x5BD1E995)
GATHERED_BYTES = 1 << 20
RECORD_OVERHEAD = 10  # about what lengths, deltas and attributes take of a record besides its key and value
Hashes = NDArray[np.uint32]


def murmur2(keys: pa.Array) -> Hashes:
    """The hash of each key, as Kafka's clients compute it; keys of equal length are hashed together."""
    offsets, content = _parts(keys)
    lengths = np.diff(offsets)
    hashes = np.zeros(len(lengths), np.uint32)
    for length in np.unique(lengths).tolist():
        equal = np.flatnonzero(lengths == length)
        step = max(1, GATHERED_BYTES // max(1, length))
        for rows in (equal[start : start + step] for start in range(0, len(equal), step)):
            hashes[rows] = _hash_of_equal_length(content[offsets[rows][:, None] + np.arange(length)], length)
    return hashes


def _hash_of_equal_length(keys: NDArray[np.uint8], length: int) -> Hashes:
    hashes = np.full(len(keys), SEED ^ np.uint32(length), np.uint32)
    whole = length // 4
    words = np.ascontiguousarray(keys[:, : 4 * whole]).view("<u4")
    for at in range(whole):
        mixed = words[:, at] * MULTIPLIER
        mixed = (mixed ^ mixed >> np.uint32(24)) * MULTIPLIER
        hashes = hashes * MULTIPLIER ^ mixed
    rest = keys[:, 4 * whole :].astype(np.uint32)
    if rest.shape[1]:
        for at in range(rest.shape[1]):
            hashes = hashes ^ rest[:, at] << np.uint32(8 * at)
        hashes = hashes * MULTIPLIER
    hashes = (hashes ^ hashes >> np.uint32(13)) * MULTIPLIER
    return hashes ^ hashes >> np.uint32(15)


def _parts(keys: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    wide = keys.cast(pa.large_binary())
    _, offset_buffer, content = wide.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[wide.offset : wide.offset + len(wide) + 1]
    return offsets, np.frombuffer(content, np.uint8) if content is not None and content.size else np.empty(0, np.uint8)


class Partitioner:
    """Assigns a partition to each record of successive tables; the same for the same records.

    A record with a key goes to the partition of its key. Those without stay with one partition until a batch is full, then
    continue with the next. With `own` each record goes to the partition that it names.
    """

    def __init__(self, count: int, batch_bytes: int, *, own: bool = False) -> None:
        self.count = count
        self.batch_bytes = batch_bytes
        self.own = own
        self._keyless_bytes = 0

    def partitions(self, table: pa.Table) -> NDArray[np.int64]:
        if self.own:
            return self._named(table)
        if self.count == 1:
            return np.zeros(table.num_rows, np.int64)
        keys = table.column("key").combine_chunks() if "key" in table.column_names else pa.nulls(table.num_rows, pa.binary())
        keyed: NDArray[np.bool_] = keys.is_valid().to_numpy(zero_copy_only=False)
        chosen = np.empty(table.num_rows, np.int64)
        chosen[keyed] = (murmur2(keys.filter(pa.array(keyed))) & np.uint32(0x7FFFFFFF)).astype(np.int64) % self.count
        chosen[~keyed] = self._in_turn(table, ~keyed)
        return chosen

    def _named(self, table: pa.Table) -> NDArray[np.int64]:
        column = table.column("partition") if "partition" in table.column_names else None
        if column is None or column.null_count:
            raise UsageError("a record names no partition: leave the choice to the keys, or give each a partition")
        numbers = column.cast(pa.int64()).to_numpy()
        if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < self.count:
            wrong = numbers[(numbers < 0) | (numbers >= self.count)][0]
            raise UsageError(f"a record names partition {wrong}; there are 0 to {self.count - 1}: give --partitions")
        return np.asarray(numbers, np.int64)

    def _in_turn(self, table: pa.Table, keyless: NDArray[np.bool_]) -> NDArray[np.int64]:
        sizes = np.full(table.num_rows, RECORD_OVERHEAD, np.int64)
        if "value" in table.column_names:
            values = table.column("value").cast(pa.large_binary())
            sizes += np.asarray(pc.fill_null(pc.binary_length(values), 0).to_numpy(), np.int64)
        before = self._keyless_bytes + np.cumsum(sizes[keyless]) - sizes[keyless]
        if len(before):
            self._keyless_bytes = int(before[-1] + sizes[keyless][-1])
        return np.asarray(before // self.batch_bytes % self.count, np.int64)
