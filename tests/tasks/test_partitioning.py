"""The partition of a record: the values that Kafka's own tests expect of its hash, and keyless records in turn."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kafkalog.errors import UsageError
from kafkalog.tasks.append.partitioning import Partitioner, murmur2

KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def test_the_hash_is_that_of_kafka_s_clients() -> None:
    assert murmur2(pa.array(list(KNOWN), pa.binary())).view(np.int32).tolist() == list(KNOWN.values())


def test_the_hash_of_a_slice_and_of_empty_keys() -> None:
    keys = pa.array([b"x", b"abc", b"", b"abc"], pa.binary()).slice(1)
    first, empty, last = murmur2(keys).tolist()
    assert first == last == KNOWN[b"abc"]
    assert empty != first


def table(keys: list[bytes | None], size: int = 20) -> pa.Table:
    return pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array([b"v" * size] * len(keys), pa.binary())})


def test_a_key_goes_to_its_hash_without_the_sign_modulo_the_partitions() -> None:
    chosen = Partitioner(7, 1000).partitions(table(list(KNOWN)))
    assert chosen.tolist() == [(value & 0x7FFFFFFF) % 7 for value in KNOWN.values()]


def test_records_without_a_key_fill_a_batch_and_move_to_the_next_whatever_pieces_they_come_in() -> None:
    whole = Partitioner(3, 100).partitions(table([None] * 20))
    assert whole.tolist()[:8] == [0, 0, 0, 0, 1, 1, 1, 2]
    pieces = Partitioner(3, 100)
    parts = [pieces.partitions(table([None] * count)).tolist() for count in (1, 7, 12)]
    assert [number for part in parts for number in part] == whole.tolist()


def test_keyed_records_between_do_not_move_those_without() -> None:
    mixed = Partitioner(3, 100).partitions(table([None, b"abc"] * 10))
    assert mixed[::2].tolist() == Partitioner(3, 100).partitions(table([None] * 10)).tolist()


def test_records_may_name_their_partition() -> None:
    named = pa.table({"value": [b"a", b"b"], "partition": pa.array([1, 0], pa.int32())})
    assert Partitioner(2, 100, own=True).partitions(named).tolist() == [1, 0]
    with pytest.raises(UsageError, match="names partition 1; there are 0 to 0"):
        Partitioner(1, 100, own=True).partitions(named)
    with pytest.raises(UsageError, match="names no partition"):
        Partitioner(2, 100, own=True).partitions(table([b"k"]))
