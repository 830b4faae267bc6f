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
