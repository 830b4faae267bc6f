"""Ctrl-C and SIGTERM: answered from the first moment of the process, and never lost on the way out of a command."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

ENDING = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}  # with what Python does by default
WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
# Of what is raised below these Python or a C library only prints that it was ignored: llvmlite's callbacks, and finalizers.
SWALLOWING = frozenset({"_raw_object_cache_notify", "_raw_object_cache_getbuffer", "__del__"})
RETRY_SECONDS = 0.02


class Terminated(KeyboardInterrupt):
    """SIGTERM: ends a command as Ctrl-C does, so that unfinished work is undone."""


def leave_at_signals() -> None:
    """End the process with a line at Ctrl-C or SIGTERM, while nothing is begun that would have to be undone."""
    for number, default in ENDING.items():
        if signal.getsignal(number) is default:
            signal.signal(number, leave)


def leave(number: int, frame: FrameType | None) -> None:
    with suppress(OSError):
        os.write(2, f"kafkalog: {WORDS[signal.Signals(number)]}\n".encode())
    os._exit(128 + number)


@contextmanager
def raised_signals() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM raise inside, unless somebody else handles them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [number for number, default in ENDING.items() if signal.getsignal(number) in (default, leave)]
    before = {number: signal.signal(number, _raise) for number in ours}
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _raise(number: int, frame: FrameType | None) -> None:
    if _is_swallowed(frame):
        signal.signal(signal.SIGALRM, lambda _, later: _raise(number, later))
        signal.setitimer(signal.ITIMER_REAL, RETRY_SECONDS)
        return
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def _is_swallowed(frame: FrameType | None) -> bool:
    """Whether an exception that is raised here would be lost."""
    while frame is not None:
        if frame.f_code.co_name in SWALLOWING:
            return True
        frame = frame.f_back
    return False
