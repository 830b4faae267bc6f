"""The heaviest things of a kind, counted in a table that never grows beyond its size.

Up to `most` different things the counts are exact. When one more arrives, about the weight of the lightest three quarters is
subtracted from all of them, and these make room. So a count is never too high, and too low by no more than all that was
subtracted: the sketch of Misra and Gries, with bytes as weights. Keeping less than half avoids most of the moving where nearly
all are new.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkalog.kernels import counting as kernel
from kafkalog.kernels.bytes import Bytes, Ints

from .result import Item, Ranking

FIRST_SLOTS = 1 << 10
GROWTH = 4
SAMPLE_SLOTS = 1 << 12
NUMBER_BYTES = 8
NO_NUMBER = -1


class HeavyItems:
    """Things by bytes and records. A name longer than `label_bytes` is cut in the result, not in the count."""

    def __init__(self, most: int, label_bytes: int = NUMBER_BYTES) -> None:
        self.most = most
        self.label_bytes = label_bytes
        self.table, self.labels = _empty(min(FIRST_SLOTS, 2 * most), label_bytes)
        self.spare: tuple[Ints, Bytes] | None = None
        self.used = 0
        self.error_bytes = 0
        self.is_exact = True

    def add(self, ids: Ints, content: Bytes, starts: Ints, sizes: Ints, weights: Ints, counts: Ints, owner: int = 0) -> None:
        """Count rows: their ids, where their names are in `content`, and their weights."""
        row = 0
        while True:
            room = len(self.table) // 2
            row, self.used = kernel.add_items(
                self.table, self.labels, self.used, room, ids, content, starts, sizes, weights, counts, owner, row
            )
            if row == len(ids):
                return
            self._make_room()

    def add_numbers(self, values: Ints, weights: Ints, counts: Ints) -> None:
        """Count rows that are numbers, many of which repeat the one before."""
        runs = np.empty((3, len(values)), np.int64)
        runs = runs[:, : kernel.sum_runs(values, weights, counts, runs)]
        names, run_weights, run_counts = (np.ascontiguousarray(row) for row in runs)
        starts = np.arange(len(names)) * NUMBER_BYTES
        sizes, ids = np.full(len(names), NUMBER_BYTES), np.empty(len(names), np.int64)
        content = names.view(np.uint8)
        kernel.hash_texts(content, starts, sizes, np.ones(len(names), np.uint8), 0, ids)
        self.add(ids, content, starts, sizes, run_weights, run_counts)

    def merge(self, other: HeavyItems) -> None:
        """Add what another table counted, with ids made the same way."""
        slots = np.flatnonzero(other.table[:, kernel.ID] != kernel.FREE)
        for owner in np.unique(other.table[slots, kernel.OWNER]).tolist():
            rows = slots[other.table[slots, kernel.OWNER] == owner]
            ids, weights, counts, sizes = (
                np.ascontiguousarray(other.table[rows, column])
                for column in (kernel.ID, kernel.BYTES, kernel.RECORDS, kernel.LABEL_SIZE)
            )
            self.add(ids, other.labels, rows * other.label_bytes, sizes, weights, counts, owner)
        self.error_bytes += other.error_bytes
        self.is_exact &= other.is_exact

    def __getstate__(self) -> dict[str, Any]:
        """Without its empty slots, as it travels from a task of Spark to another."""
        slots = np.flatnonzero(self.table[:, kernel.ID] != kernel.FREE)
        labels = self.labels.reshape(len(self.table), self.label_bytes)[slots].reshape(-1)
        return {**vars(self), "table": self.table[slots], "labels": labels, "spare": None, "slots": len(self.table)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        packed, slots = (state["table"], state["labels"]), state.pop("slots")
        vars(self).update(state)
        self.table, self.labels = _empty(slots, self.label_bytes)
        if len(packed[0]):
            self.used = kernel.move_items(*packed, self.table, self.labels, 0)

    def _make_room(self) -> None:
        old, slots, less = (self.table, self.labels), len(self.table), 0
        if slots < 2 * self.most:
            self.table, self.labels = _empty(min(slots * GROWTH, 2 * self.most), self.label_bytes)
        else:
            # The memory of a large table is reused: allocating it costs more than filling it.
            self.table, self.labels = self.spare or _empty(slots, self.label_bytes)
            self.table[:, kernel.ID] = kernel.FREE
            self.spare = old
            less = max(_upper_quartile(old[0][:SAMPLE_SLOTS]), 1)
            self.is_exact = False
        self.used = kernel.move_items(*old, self.table, self.labels, less)
        self.error_bytes += less

    def ranking(self, top: int, topics: list[str] | None = None) -> Ranking:
        """The `top` heaviest; with `topics`, whose numbers the owners are, each with its topic."""
        slots = np.flatnonzero(self.table[:, kernel.ID] != kernel.FREE)
        found = self.table[slots]
        order = np.lexsort((found[:, kernel.ID], -found[:, kernel.RECORDS], -found[:, kernel.BYTES]))
        items = tuple(self._item(int(slot), topics) for slot in slots[order[:top]])
        return Ranking(items, int(self.used) if self.is_exact else None, self.error_bytes)

    def _item(self, slot: int, topics: list[str] | None) -> Item:
        _, weight, records, owner, size = self.table[slot].tolist()
        start = slot * self.label_bytes
        name = self.labels[start : start + min(size, self.label_bytes)].tobytes()
        return Item(name, None if topics is None else topics[owner], size, weight, records)

    def number_ranking(self, top: int) -> Ranking:
        """The same where the things are numbers; -1 stands for none."""
        found = self.ranking(top)
        items = (Item(_number(item.name), None, item.size, item.bytes, item.records) for item in found.items)
        return Ranking(tuple(items), found.distinct, found.error_bytes)


def _upper_quartile(slots: Ints) -> int:
    """The weight that three quarters of these slots do not exceed; hashes chose the slots, so any of them are a sample."""
    weights = slots[slots[:, kernel.ID] != kernel.FREE, kernel.BYTES]
    return int(np.quantile(weights, 0.75, method="lower")) if len(weights) else 0


def _number(name: bytes | int | None) -> int | None:
    assert isinstance(name, bytes)
    number = int(np.frombuffer(name, np.int64)[0])
    return None if number == NO_NUMBER else number


def _empty(slots: int, label_bytes: int) -> tuple[Ints, Bytes]:
    return np.zeros((slots, kernel.ITEM_FIELDS), np.int64), np.empty(slots * label_bytes, np.uint8)
