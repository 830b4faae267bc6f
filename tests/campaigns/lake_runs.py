"""Ingests in processes of their own, which start at once and can stop at a chosen call.

A process that has loaded everything forks a child for each run. A child asked to stop at a place says so and waits there: then it
is killed, or told to continue after another run has been at work.
"""

from __future__ import annotations

import importlib
import inspect
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from typing import Any, Final

LOADED: Final = (
    "tests.campaigns.lake_runs",
    "kafkalog.spark.ingestion.delta",
    "kafkalog.spark.ingestion.iceberg",
    "kafkalog.spark.ingestion.executors",
    "kafkalog.tables.logs",
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
)
STOPPED: Final = "stopped"
DONE: Final = "done"


@dataclass(frozen=True)
class Stop:
    """A place where a run stops: before or after a call of a function, the first or a later one."""

    function: str  # module:name.name
    is_after: bool = False
    call: int = 1

    def __str__(self) -> str:
        return f"{'after' if self.is_after else 'before'} {self.function.rpartition('.')[2]}"


@dataclass(frozen=True)
class Order:
    """What a run has to do."""

    source: str
    target: str
    choices: dict[str, Any]
    stop: Stop | None = None
    ignores_lock: bool = False  # or the lease of an object store, which is this long
    lease_seconds: float = 30.0
    environment: dict[str, str] = field(default_factory=dict)


class Run:
    """One ingest in a process of its own."""

    def __init__(self, order: Order) -> None:
        self.pipe, theirs = _context().Pipe()
        self.process = _context().Process(target=_obey, args=(order, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def said(self, seconds: float = 300) -> str:
        """What it says next: that it stopped, that it is done, or its error; empty if it was killed."""
        if not self.pipe.poll(seconds):
            raise AssertionError("nothing: the run hangs")
        try:
            return str(self.pipe.recv())
        except EOFError:
            return ""

    def resume(self) -> None:
        self.pipe.send(None)

    def kill(self) -> None:
        """SIGKILL: nothing can be tidied up."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(LOADED))
    return context


def _obey(order: Order, pipe: Connection) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(order.environment)
    from kafkalog.spark import ingest
    from kafkalog.spark.errors import SparkSourceError
    from kafkalog.spark.ingestion import lease
    from kafkalog.spark.ingestion.local_target import LocalTarget

    lease.LEASE_SECONDS = order.lease_seconds
    if order.ignores_lock:
        LocalTarget._lock = lambda self, descriptor: None  # type: ignore[method-assign]
        lease.Lease.take = lambda self: None  # type: ignore[method-assign]
        lease.Lease.require = lambda self: None  # type: ignore[method-assign]
    if order.stop is not None:
        _stop_at(order.stop, pipe)
    try:
        ingest(order.source, order.target, master="none[2]", **order.choices)
        pipe.send(DONE)
    except SparkSourceError as error:
        pipe.send(str(error))


def _stop_at(stop: Stop, pipe: Connection) -> None:
    module, _, path = stop.function.partition(":")
    *outer, name = path.split(".")
    owner: Any = importlib.import_module(module)
    for each in outer:
        owner = getattr(owner, each)
    stopping: Any = _stopping(getattr(owner, name), stop, pipe)
    setattr(owner, name, staticmethod(stopping) if isinstance(inspect.getattr_static(owner, name), staticmethod) else stopping)


def _stopping(function: Callable[..., Any], stop: Stop, pipe: Connection) -> Callable[..., Any]:
    calls = 0

    def wait(is_after: bool) -> None:
        if calls == stop.call and is_after == stop.is_after:
            pipe.send(STOPPED)
            pipe.recv()

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        wait(False)
        result = function(*arguments, **named)
        wait(True)
        return result

    return call


def places(functions: Sequence[str], calls: int) -> list[Stop]:
    """Before and after each of these calls."""
    return [Stop(name, is_after, call) for name in functions for is_after in (False, True) for call in range(1, calls + 1)]
