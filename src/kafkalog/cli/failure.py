"""What went wrong, as an exit code and a few lines that say what, where and what to do."""

from __future__ import annotations

import json
import os
import shlex
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeGuard

import click

from kafkalog import __version__
from kafkalog.errors import (
    CodecError,
    CorruptBatch,
    KafkaLogError,
    LimitExceeded,
    LogRefusal,
    NoLogs,
    SegmentChanged,
    SegmentError,
    StorageError,
    TornTail,
    UnsupportedFormat,
    UsageError,
)

from .render.escape import printable, printable_lines

if TYPE_CHECKING:
    from kafkalog.log.partition import Partition
    from kafkalog.spark.errors import SparkSourceError

CLEAN, DAMAGE, USAGE, LIMIT, INPUT_OUTPUT, BUG = range(6)
INTERRUPTED, BROKEN_PIPE, TERMINATED = 130, 141, 143

EXIT_CODES = {
    CLEAN: "success; verify: nothing is wrong",
    DAMAGE: "damage was found: a strict read stops there, others leave it out",
    USAGE: "the command cannot be carried out as given",
    LIMIT: "something in the log asks for more than the limits allow",
    INPUT_OUTPUT: "something could not be read or written",
    BUG: "a bug in kafkalog",
    INTERRUPTED: "interrupted (Ctrl-C)",
    BROKEN_PIPE: "the reader of a pipe went away",
    TERMINATED: "terminated (SIGTERM)",
}

SHOW_TRACEBACK = "KAFKALOG_TRACEBACK"
FAILURES_NAMED = 12


class Terminated(KeyboardInterrupt):
    """SIGTERM: it ends a command as Ctrl-C does, so that unfinished work is undone."""


# The Spark layer gives the errors of the others a code, which is all that comes out of a task.
SPARK_EXIT_CODES = {
    "KAFKALOG_CORRUPT_BATCH": DAMAGE,
    "KAFKALOG_BAD_OPTION": USAGE,
    "KAFKALOG_BAD_TARGET": USAGE,
    "KAFKALOG_LIMIT_EXCEEDED": LIMIT,
}


def _is_spark_error(error: BaseException) -> TypeGuard[SparkSourceError]:
    """Whether it comes from the Spark layer, which takes a quarter of the time of `kafkalog --help` to import: where it was not
    imported, there is no such error."""
    errors = sys.modules.get("kafkalog.spark.errors")
    return errors is not None and isinstance(error, errors.SparkSourceError)


def exit_code(error: BaseException) -> int:
    """The exit code that stands for `error`."""
    if _is_spark_error(error):
        return SPARK_EXIT_CODES.get(error.code, INPUT_OUTPUT)
    if isinstance(error, Terminated):
        return TERMINATED
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE
    if isinstance(error, click.ClickException | UsageError | LogRefusal):
        return USAGE
    if isinstance(error, LimitExceeded | MemoryError):
        return LIMIT
    if isinstance(error, UnsupportedFormat) and error.reason == "not-a-segment":
        return USAGE  # nothing is damaged: it never was a log
    if isinstance(error, SegmentError | CodecError):
        return DAMAGE
    if isinstance(error, StorageError | OSError):
        return INPUT_OUTPUT
    return BUG


def describe(error: BaseException, *, on_damage: str | None = "strict", skips_io_errors: bool = False) -> str:
    """One to three lines about `error`, safe for a terminal; `on_damage` None is a command that knows no such choice.

    `skips_io_errors` is one that knows the option of that name.
    """
    advice = _advice(error, on_damage)
    if skips_io_errors and on_damage == "strict" and _is_unreadable(error):
        advice.append("To continue: --on-damage skip leaves out what cannot be read; with --skip-io-errors, only the bad blocks.")
    return printable_lines("\n".join([_what(error), *advice]))


def _is_unreadable(error: BaseException) -> bool:
    """Whether something is there, but storage would not give it."""
    return isinstance(error, StorageError) and not isinstance(error, NoLogs) and os.path.lexists(error.file or "")


def _what(error: BaseException) -> str:
    if isinstance(error, click.ClickException):
        return _one_line(error.format_message())
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return "terminated" if isinstance(error, Terminated) else "interrupted"
    if isinstance(error, MemoryError):
        return "not enough memory"
    if isinstance(error, KafkaLogError | OSError):
        return _one_line(str(error))
    where = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" at {os.path.basename(where[0].filename)}:{where[0].lineno}" if where else ""
    return f"a bug in kafkalog {__version__}: {type(error).__name__}{place}: {_one_line(str(error))}"


def _one_line(text: str) -> str:
    """A line break in a file's name must not look like the end of a message."""
    return text.replace("\n", "\\n")


def _advice(error: BaseException, on_damage: str | None) -> list[str]:
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return [f"'{error.ctx.command_path} --help' shows its arguments and examples."]
    if isinstance(error, NoLogs):
        return ["Give a log directory (log.dirs), a partition folder, or a segment file."]
    if on_damage is None and isinstance(error, LimitExceeded | CorruptBatch | TornTail):
        file, folder = _places(error)
        return [
            f"To read what follows the damage: kafkalog table records {file} --on-damage salvage",
            f"To copy everything that is intact: kafkalog salvage {folder} --out DIR",
        ]
    if isinstance(error, LimitExceeded):
        return [
            "To continue without it: --on-damage skip. To raise the limit, in Python: read(..., limits=kafkalog.Limits(...))."
        ]
    if isinstance(error, SegmentChanged):
        return ["A running broker rolls, compacts and deletes segments: run the command again, or read a copy."]
    if isinstance(error, UnsupportedFormat):
        return []  # the error's own detail says what to give instead
    if isinstance(error, SegmentError) and on_damage == "strict":
        return ["To continue: --on-damage skip leaves damaged batches out, salvage also resynchronises after a corrupt length."]
    if isinstance(error, MemoryError):
        return ["Fewer threads need less memory: --threads 1."]
    if exit_code(error) == BUG:
        return [f"Please report it, with what {SHOW_TRACEBACK}=1 adds to this output and with `kafkalog --version --verbose`."]
    return []


def _places(error: SegmentError) -> tuple[str, str]:
    """The error's file and its folder as one would type them, or what stands for them."""
    if not error.file:
        return "FILE", "PATH"
    return shlex.quote(error.file), shlex.quote(os.path.dirname(error.file) or ".")


def warn(text: str) -> None:
    """A line on standard error, if there is one."""
    if sys.stderr is not None:
        sys.stderr.write(f"kafkalog: {text}\n")
        sys.stderr.flush()


def report_failure(error: BaseException, *, on_damage: str | None = "strict", skips_io_errors: bool = False) -> int:
    """Report `error` to the user; the exit code."""
    code = exit_code(error)
    if code == BROKEN_PIPE:
        return code
    warn(describe(error, on_damage=on_damage, skips_io_errors=skips_io_errors))
    if os.environ.get(SHOW_TRACEBACK, "0") not in ("", "0"):
        warn(printable_lines("".join(traceback.format_exception(error))))
    return code


class Failures:
    """Partitions that could not be worked on: each is reported when it happens and all of them in the end."""

    def __init__(self, *, as_json: bool, before_report: Callable[[], None] = lambda: None) -> None:
        self.as_json = as_json
        self.before_report = before_report
        self.failed: dict[str, tuple[str, int]] = {}

    def add(self, partition: Partition, error: KafkaLogError) -> None:
        if partition.folder in self.failed:
            return
        code = exit_code(error)
        self.failed[partition.folder] = str(partition), code
        self.before_report()
        warn(f"{printable(str(partition))}: {describe(error, on_damage=None)}")
        if self.as_json:
            failed = {"topic": partition.topic, "partition": partition.partition, "folder": partition.folder, "state": "failed"}
            click.echo(json.dumps({**failed, "error": str(error), "exit_code": code}))

    def finish(self) -> int:
        """Name all of them; the gravest exit code, or CLEAN."""
        if self.failed:
            names = [name for name, _ in self.failed.values()]
            more = f" and {len(names) - FAILURES_NAMED} more" if len(names) > FAILURES_NAMED else ""
            several = "partitions" if len(names) > 1 else "partition"
            warn(f"{len(names)} {several} failed, the others are done: {printable(', '.join(names[:FAILURES_NAMED]))}{more}")
        return max((code for _, code in self.failed.values()), default=CLEAN)
