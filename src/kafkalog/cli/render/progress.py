"""How far a long read has come, on a terminal's standard error only, and gone when it ends."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kafkalog.log.report import ReadReport

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SHOW_AFTER_SECONDS = 1.0


class ReadProgress:
    """A bar of bytes read out of `total`; it stays hidden for short reads."""

    def __init__(self, report: ReadReport, total: int, *, wanted: bool) -> None:
        self.report = report
        self.total = total
        self.wanted = wanted and sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
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

    def say(self, what: str) -> None:
        """What is going on, if that is no longer what the bar counts."""
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
