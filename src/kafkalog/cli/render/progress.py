"""Progress of a long read, or of the tasks of an ingest: shown on a terminal's standard error, and removed at the end."""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kafkalog.log.report import ReadReport

from ..failure import warn
from .escape import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SHOW_AFTER_SECONDS = 1.0


def _is_shown() -> bool:
    """Whether standard error is a terminal that can redraw a line."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


class ReadProgress:
    """A bar of bytes read out of `total`; it stays hidden for short reads."""

    def __init__(self, total: int, *, wanted: bool, report: ReadReport | None = None) -> None:
        self.report = ReadReport() if report is None else report
        self.total = total
        self.wanted = wanted and _is_shown()
        self.begin = time.monotonic()
        self.what = ""
        self.bar: Progress | None = None
        self.task: TaskID | None = None

    def update(self) -> None:
        if not self.wanted or time.monotonic() - self.begin < SHOW_AFTER_SECONDS:
            return
        if self.bar is None:
            self._show()
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, completed=min(self.report.kept_bytes + self.report.dropped_bytes, self.total))

    def advance(self, size: int) -> None:
        """That many more bytes are done."""
        self.report.kept_bytes += size
        self.update()

    def follow(self, report: ReadReport) -> None:
        """Show the bytes of this report from now on."""
        self.report = report
        self.update()

    def say(self, what: str) -> None:
        """Show what is being done, when that is no longer what the bar counts."""
        self.what = what
        self.update()
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, description=what)

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

        console = Console(stderr=True)
        text = TextColumn("{task.description}", markup=False)
        columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(), text)
        self.bar = Progress(*columns, console=console, transient=True)
        self.task = self.bar.add_task(self.what, total=self.total)
        self.bar.start()

    def hide(self) -> None:
        """Out of the way of a question; the next update shows it again."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = self.task = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.bar is not None:
            self.bar.stop()


class TaskProgress:
    """One line: how long Spark takes to start, then how many tasks of an ingest are done.

    The line is removed at the end; how long Spark took to start stays on the screen.
    """

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.wanted = not quiet and _is_shown()
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stop_clock()
        self._clear()
