"""Requests made at once: results in order, few at a time, and errors where they would be raised one after the other."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator

import pytest

from kafkalog.errors import StorageError
from kafkalog.storage.parallel import AHEAD, in_parallel


def test_results_come_in_order_however_long_each_takes() -> None:
    def work(item: int) -> int:
        time.sleep(0.02 if item % 3 == 0 else 0)
        return item * item

    assert list(in_parallel(work, range(40), 8)) == [item * item for item in range(40)]


def test_no_more_calls_run_at_the_same_time_than_were_asked_for() -> None:
    lock, running, most = threading.Lock(), 0, 0

    def work(item: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1
        return item

    assert list(in_parallel(work, range(50), 4)) == list(range(50))
    assert 1 < most <= 4


def test_items_are_taken_a_few_ahead_only() -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for item in itertools.count():
            taken += 1
            yield item

    results = in_parallel(lambda item: item, items(), 4)
    assert [next(results) for _ in range(10)] == list(range(10))
    assert taken <= 10 + AHEAD * 4
    results.close()  # type: ignore[attr-defined]


def test_the_first_error_in_order_is_raised_and_what_has_not_begun_is_not_made() -> None:
    begun: list[int] = []

    def work(item: int) -> int:
        begun.append(item)
        time.sleep(0.02 if item == 3 else 0)
        if item in (3, 4):
            raise StorageError(f"item {item} failed", file="x")
        return item

    found = []
    with pytest.raises(StorageError, match="item 3 failed"):
        for result in in_parallel(work, range(1000), 2):
            found.append(result)
    assert found == [0, 1, 2]
    assert len(begun) <= 3 + AHEAD * 2 + 2


@pytest.mark.parametrize(("items", "at_once"), [(range(5), 1), (range(1), 32), (range(0), 32)])
def test_without_use_for_it_no_thread_is_started(items: range, at_once: int) -> None:
    def work(item: int) -> tuple[int, str]:
        return item, threading.current_thread().name

    here = threading.current_thread().name
    assert list(in_parallel(work, items, at_once)) == [(item, here) for item in items]
