"""The order of producers in a snapshot, compared with Java's HashMap of the same keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkalog.format.java import HashMap, NewestFirstMap

# The orders of a java.util.HashMap of JDK 17 that is filled with `keys`, by put and by computeIfAbsent; those of the first map
# after some are removed and a part of these added again. Made by `python -m tests.engine.oracle.hash_orders`.
ORDERS = json.loads((Path(__file__).parent / "data" / "hash_orders.json").read_text())


@pytest.mark.parametrize("case", ORDERS, ids=lambda case: f"{len(case['keys'])} keys up to {max(case['keys'])}")
def test_keys_come_out_as_they_do_in_java(case: dict[str, Any]) -> None:
    keys: HashMap[int] = HashMap()
    for key in case["keys"]:
        keys.put(key, key)
    keys.remove_all(case["removed"])
    for key in case["added"]:
        keys.put(key, key)
    assert list(keys) == case["put"]


@pytest.mark.parametrize("case", ORDERS, ids=lambda case: f"{len(case['keys'])} keys up to {max(case['keys'])}")
def test_keys_that_were_computed_come_out_as_they_do_in_java(case: dict[str, Any]) -> None:
    keys: NewestFirstMap[int] = NewestFirstMap()
    for key in case["keys"]:
        keys.compute_if_absent(key, lambda key=key: key)  # type: ignore[misc]
    assert list(keys) == case["computed"]


def test_the_table_stays_large_when_it_is_emptied() -> None:
    keys: HashMap[int] = HashMap()
    for key in range(13):
        keys.put(key, key)
    keys.clear()
    for key in (16, 1):
        keys.put(key, key)
    assert list(keys) == [1, 16], "with 16 buckets 16 would share the first one and come before 1"
