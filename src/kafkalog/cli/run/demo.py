"""The work of `kafkalog demo`: make the sample disk, tell the story on it."""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from kafkalog.errors import UsageError
from kafkalog.spark.ingestion.executors import missing_for_spark
from kafkalog.storage.failures import writing

from ..demo.disk import make_disk
from ..demo.story import STEPS
from ..demo.telling import DemoFailed, Teller
from ..failure import BUG, CLEAN, warn
from ..render.escape import printable
from ..render.layout import style_of
from ..render.target import STDOUT, Sink

INTRODUCTION = """\
kafkalog reads, checks, repairs and writes Kafka's own files, without a broker.
This shows it on a small log directory, in a minute or two.
The first time takes longer: kafkalog compiles what it needs, once."""


def make_sample(folder: str) -> int:
    """Make the sample disk; the exit code."""
    _require_new(folder)
    with writing(folder, "cannot make the sample disk"):
        make_disk(folder)
    shown = printable(shlex.quote(folder))
    click.echo(
        f"made {shown}: the log directory of a broker whose power failed\nnext: kafkalog ls {shown}, kafkalog verify {shown}"
    )
    return CLEAN


def show_demo(keep: str | None) -> int:
    """Tell the story; the exit code."""
    begin = time.monotonic()
    sink = Sink(1, STDOUT)
    with _folder(keep) as folder:
        click.echo(f"{INTRODUCTION}\n\n$ cd {printable(shlex.quote(str(folder)))}\n$ kafkalog demo --make disk")
        make_disk(folder / "disk")
        missing = missing_for_spark()
        try:
            Teller(folder, style_of(sink), on_terminal=sink.isatty()).tell(STEPS, missing and ": ".join(missing))
        except DemoFailed as error:
            warn(f"the demo failed: {error}")
            return BUG
    place = "its folder is gone again" if keep is None else f"everything is in {printable(shlex.quote(keep))}"
    click.echo(f"\nThat took {time.monotonic() - begin:.0f} seconds; {place}. Next: kafkalog --help")
    return CLEAN


@contextmanager
def _folder(keep: str | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="kafkalog-demo-") as name:
            yield Path(name)
        return
    _require_new(keep)
    with writing(keep, "cannot make the folder of the demo"):
        os.makedirs(keep, exist_ok=True)
    yield Path(keep).absolute()


def _require_new(folder: str) -> None:
    """UsageError if the folder is there and not empty: nothing of anybody's is written over."""
    if os.path.lexists(folder) and not (os.path.isdir(folder) and not os.listdir(folder)):
        raise UsageError(f"{folder} is there already: give the name of a new folder")
