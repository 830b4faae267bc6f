"""How far the tasks of an ingest have come, on a terminal's standard error."""

from __future__ import annotations

import os
import sys
import threading

from ..failure import warn
from .escape import printable


class TaskProgress:
    """How long Spark takes to start, then how many tasks have ended, on one line of a terminal's standard error.

    The line is gone at the end; how long the start took stays.
    """

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.wanted = not quiet and sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self.shown = False
        self.is_started = threading.Event()
        self.clock: threading.Thread | None = None

    def update(self, done: int, total: int) -> None:
        self._show(f"ingest: {done} of {total} tasks")

    def starting(self, master: str) -> None:
        """Spark is starting: the seconds count up until it has."""
        if not self.wanted:
            return
        line = f"ingest: starting Spark ({printable(master)})"
        self._show(line)

        def count() -> None:
            seconds = 0
            while not self.is_started.wait(1.0):
                seconds += 1
                self._show(f"{line}, {seconds} s")

        self.clock = threading.Thread(target=count, name="kafkalog-starting", daemon=True)
        self.clock.start()

    def started(self, master: str, seconds: float) -> None:
        if not self.wanted:
            return
        self._stop_clock()
        self._clear()
        warn(f"Spark ({printable(master)}) started in {seconds:.1f} s")

    def without_spark(self, text: str) -> None:
        if not self.quiet:
            warn(text)

    def _stop_clock(self) -> None:
        self.is_started.set()
        if self.clock is not None:
            self.clock.join()

    def _show(self, line: str) -> None:
        if self.wanted:
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()
            self.shown = True

    def _clear(self) -> None:
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self.shown = False

    def __enter__(self) -> TaskProgress:
        return self

    def __exit__(self, *error: object) -> None:
        self._stop_clock()
        self._clear()
