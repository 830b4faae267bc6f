"""Windows are decoded on several threads and come out in order: reads that end before they do."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import cast

import pytest

from kafkalog.log import reading


def test_a_read_that_ends_while_its_threads_take_what_is_next_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled step passes no turn on: a step taken after it would wait for ever."""

    class Interleaved(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            if cancel_futures:  # threads keep taking steps while these are cancelled one by one
                self._work_queue.get_nowait().future.cancel()
                time.sleep(0.2)
            super().shutdown(wait, cancel_futures=cancel_futures)

    monkeypatch.setattr(reading, "ThreadPoolExecutor", Interleaved)
    monkeypatch.setattr(reading, "AHEAD", 4)
    found: list[int] = []

    def work(item: int) -> int:
        time.sleep(0.05)
        return item

    def read() -> None:
        with closing(cast("Generator[tuple[int, int]]", reading.ordered(work, iter(range(100)), 2))) as steps:
            found.append(next(steps)[1])
        found.append(-1)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(20)
    assert found == [0, -1]


def test_the_caller_works_too_and_everything_comes_in_order() -> None:
    threads = set()

    def work(item: int) -> int:
        threads.add(threading.current_thread())
        time.sleep(0.001 * (item % 3))
        return -item

    assert list(reading.ordered(work, iter(range(200)), 3)) == [(item, -item) for item in range(200)]
    assert threading.current_thread() in threads
    assert 2 <= len(threads) <= 3


def test_an_error_comes_where_its_item_would_have_come_whichever_thread_met_it() -> None:
    def work(item: int) -> int:
        if item == 7:
            raise ValueError("seven")
        return item

    for _ in range(50):
        found = []
        with pytest.raises(ValueError, match="seven"):
            for item, _result in reading.ordered(work, iter(range(100)), 2):
                found.append(item)
        assert found == list(range(7))


def test_an_interrupted_caller_leaves_no_thread_behind() -> None:
    """Ctrl-C comes to the caller, which may be working or waiting for its turn."""
    caller = threading.current_thread()

    def work(item: int) -> int:
        time.sleep(0.002)
        if item > 20 and threading.current_thread() is caller:
            raise KeyboardInterrupt
        return item

    with pytest.raises(KeyboardInterrupt):
        for _ in reading.ordered(work, iter(range(10_000)), 3):
            pass
    assert [thread for thread in threading.enumerate() if thread.name.startswith("kafkalog")] == []


def test_an_interrupt_between_taking_a_step_and_its_work_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """The step is the caller's already, but has not begun: nobody else passes its turn on."""

    def interrupted(step: reading._Step[object]) -> bool:
        if step._future.cancel():
            raise KeyboardInterrupt
        return False

    def work(item: int) -> int:
        time.sleep(0.1)  # the thread has not come to the steps after its first one
        return item

    monkeypatch.setattr(reading._Step, "run_here", interrupted)
    monkeypatch.setattr(reading, "AHEAD", 4)
    ended: list[str] = []

    def read() -> None:
        with pytest.raises(KeyboardInterrupt):
            for _ in reading.ordered(work, iter(range(100)), 2):
                pass
        ended.append("interrupted")

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(10)
    assert ended == ["interrupted"]
