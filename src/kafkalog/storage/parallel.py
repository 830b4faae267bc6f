"""Requests to storage made at once: a request is mostly waiting, and a lake needs thousands of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Final, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# So many results wait for an earlier one that is slow, for each request at once.
AHEAD: Final = 2


def in_parallel(work: Callable[[Item], Result], items: Iterable[Item], at_once: int) -> Iterator[Result]:
    """The result of `work` on each item, in order, with up to `at_once` calls running at the same time.

    Items are taken a few ahead, so neither they nor the results are ever all in memory. The first error, in the order of the
    items, is raised in its place; calls that have not begun by then are not made.
    """
    if at_once <= 1:
        yield from map(work, items)
        return
    following = iter(items)
    first = list(islice(following, 2))
    if len(first) < 2:  # a thread would help nobody
        yield from map(work, first)
        return
    pool = ThreadPoolExecutor(at_once, thread_name_prefix="kafkalog-requests")
    try:
        waiting: deque[Future[Result]] = deque(pool.submit(work, item) for item in first)
        while waiting:
            waiting.extend(pool.submit(work, item) for item in islice(following, AHEAD * at_once - len(waiting)))
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
