"""Commands in processes that start at once: forked off one that has loaded everything, with strace watching if asked to.

A run of a command takes a second to load what it needs, and milliseconds to do its work. To disturb each of its system calls in
turn, that second is spent once: in a process of its own, which forks a child for each run. From there on it is the real command
on real files, in a process that the kernel kills like any other.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from types import TracebackType
from typing import NamedTuple, Self

# Where only the parent of a process may trace it (Yama's ptrace_scope 1), the process can allow it to others.
PR_SET_PTRACER = 0x59616D61
PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)
_PRCTL = ctypes.CDLL(None).prctl


class Ended(NamedTuple):
    """How a run ended: its exit code, or the signal as a negative number, and what it said on standard error."""

    code: int
    errors: str


class Forks:
    """A process that forks. Each kind of command is rehearsed in it first, so that its children find everything loaded."""

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("spawn")
        self._requests, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._requests.send(None)
        self._process.join()

    def rehearse(self, arguments: Sequence[str]) -> None:
        """Run a command in the process that forks."""
        self._requests.send((arguments, None))
        self._requests.recv()

    def run(self, arguments: Sequence[str], trace: Sequence[str] = (), user: int | None = None) -> Ended:
        """Run a command in a child, as a user of this number; `trace` are options of the strace that watches it."""
        self._requests.send((arguments, (trace, user)))
        return Ended(*self._requests.recv())


def _serve(requests: Connection) -> None:
    from kafkalog.cli.main import main  # here: the process that forks has to load it

    signal.signal(signal.SIGINT, signal.default_int_handler)
    _send_output_to(os.open(os.devnull, os.O_WRONLY))
    while (request := requests.recv()) is not None:
        arguments, choices = request
        if choices is None:
            requests.send(main(arguments))
            continue
        with open(os.memfd_create("errors"), "r+b") as errors:  # in memory: the disk may be full
            trace, user = choices
            code = _forked(arguments, trace, user, errors.fileno())
            errors.seek(0)
            requests.send((code, errors.read().decode(errors="replace")))


def _send_output_to(descriptor: int) -> None:
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)


def _forked(arguments: Sequence[str], trace: Sequence[str], user: int | None, errors: int) -> int:
    wait, begin = os.pipe()
    is_ready, ready = os.pipe()
    child = os.fork()
    if not child:
        _be_a_command(arguments, user, errors, wait, ready)
    os.close(wait)
    os.close(ready)
    os.read(is_ready, 1)
    os.close(is_ready)
    tracer = _attach(child, trace) if trace else None
    os.write(begin, b"!")
    os.close(begin)
    _, status = os.waitpid(child, 0)
    if tracer is not None:
        tracer.communicate()
    return os.waitstatus_to_exitcode(status)


def _be_a_command(arguments: Sequence[str], user: int | None, errors: int, wait: int, ready: int) -> None:
    """The child: wait for the order, run the command, and exit without returning into the code of the process that forked."""
    from kafkalog.cli.main import main

    code = 255
    try:
        os.dup2(errors, 2)
        _PRCTL(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0)
        os.write(ready, b"!")
        os.read(wait, 1)
        if user is not None:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
        os.getppid()  # in a trace: what follows is the command's
        code = main(arguments)
        sys.stderr.flush()
    finally:
        os._exit(code)


def _attach(child: int, trace: Sequence[str]) -> subprocess.Popen[bytes]:
    tracer = subprocess.Popen(["strace", "-f", "-p", str(child), *trace], stderr=subprocess.PIPE)
    assert tracer.stderr is not None
    said = tracer.stderr.readline()
    assert b"attached" in said, said
    return tracer
