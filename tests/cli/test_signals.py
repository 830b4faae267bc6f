"""Ctrl-C and SIGTERM at the moments at which they used to be lost, or to end in a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from kafkalog.cli.signals import Terminated, raised_signals

SIGNALS = [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
# The signal comes while the modules of the command line are imported.
AT_START = """
import os, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, Interrupting())
from kafkalog.cli.entry import run
sys.exit(run())
"""


@pytest.mark.parametrize(("number", "code", "word"), SIGNALS)
def test_a_signal_while_modules_are_loaded_ends_with_a_line_and_no_traceback(number: int, code: int, word: str) -> None:
    program = AT_START.format(number=int(number))
    done = subprocess.run([sys.executable, "-c", program, "--help"], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (code, f"kafkalog: {word}\n")


def _raw_object_cache_notify(number: int) -> None:
    """Named as the callback of the compiler, out of which no exception comes."""
    os.kill(os.getpid(), number)
    sum(range(1000))  # a signal is answered between two steps of Python


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_inside_a_callback_of_the_compiler_is_raised_once_that_is_over(number: int) -> None:
    is_over = False
    with pytest.raises(KeyboardInterrupt) as caught, raised_signals():
        _raw_object_cache_notify(number)
        is_over = True
        threading.Event().wait(10)
    assert is_over
    assert isinstance(caught.value, Terminated) == (number == signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
