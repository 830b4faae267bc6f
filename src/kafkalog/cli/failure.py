"""Errors as exit codes and as a few lines that say what happened, where, and what to do next."""

from __future__ import annotations

import json
import os
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
from kafkalog.format.shell import path_word

from .hints import folder_hints, path_hints
from .render.escape import printable, printable_lines

if TYPE_CHECKING:
    from kafkalog.log.partition import Partition
    from kafkalog.spark.errors import SparkSourceError

CLEAN, DAMAGE, USAGE, LIMIT, INPUT_OUTPUT, BUG = range(6)
INTERRUPTED, BROKEN_PIPE, TERMINATED = 130, 141, 143

EXIT_CODES = {
    CLEAN: "success; verify: nothing is wrong; diff: the same, or all is explained",
    DAMAGE: "damaged data: a strict read stops there, other commands leave it out; diff: unexplained",
    USAGE: "wrong usage: the command cannot run as given",
    LIMIT: "a limit: the log asks for more memory than is allowed",
    INPUT_OUTPUT: "a file or folder could not be read or written",
    BUG: "a bug in kafkalog",
    INTERRUPTED: "interrupted (Ctrl-C)",
    BROKEN_PIPE: "the program that reads the output has ended (broken pipe)",
    TERMINATED: "terminated (SIGTERM)",
}

SHOW_TRACEBACK = "KAFKALOG_TRACEBACK"
FAILURES_NAMED = 12


class Terminated(KeyboardInterrupt):
    """SIGTERM: ends a command as Ctrl-C does, so that unfinished work is undone."""


# The Spark layer gives errors a code, because only that comes out of a task.
SPARK_EXIT_CODES = {
    "KAFKALOG_CORRUPT_BATCH": DAMAGE,
    "KAFKALOG_BAD_OPTION": USAGE,
    "KAFKALOG_BAD_TARGET": USAGE,
    "KAFKALOG_LIMIT_EXCEEDED": LIMIT,
}


def _is_spark_error(error: BaseException) -> TypeGuard[SparkSourceError]:
    """Whether it comes from the Spark layer. That is not imported to find out, which would take a quarter of the time of
    `kafkalog --help`: if it has not been imported, there is no such error."""
    errors = sys.modules.get("kafkalog.spark.errors")
    return errors is not None and isinstance(error, errors.SparkSourceError)


def exit_code(error: BaseException) -> int:
    """The exit code for `error`."""
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
        return USAGE  # not damage: it never was a log
    if isinstance(error, SegmentError | CodecError):
        return DAMAGE
    if isinstance(error, StorageError | OSError):
        return INPUT_OUTPUT
    return BUG


def describe(error: BaseException, *, on_damage: str | None = "strict", skips_io_errors: bool = False) -> str:
    """One to three lines about `error`, safe for a terminal.

    `on_damage` is None for a command without that option; `skips_io_errors` says whether it has --skip-io-errors.
    """
    advice = _advice(error, on_damage)
    if skips_io_errors and on_damage == "strict" and _is_unreadable(error):
        advice.append("To continue: --on-damage skip leaves out what cannot be read; with --skip-io-errors, only the bad blocks.")
    return printable_lines("\n".join([_what(error), *advice]))


def _is_unreadable(error: BaseException) -> bool:
    """Whether a file is there but cannot be read."""
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
    """Escape line breaks: one in a file name must not look like the end of the message."""
    return text.replace("\n", "\\n")


def _advice(error: BaseException, on_damage: str | None) -> list[str]:
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return [f"For arguments, options and examples: {error.ctx.command_path} --help"]
    if isinstance(error, StorageError) and (hints := path_hints(error)):
        return hints
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
        return folder_hints(error)
    if isinstance(error, SegmentError) and on_damage == "strict":
        return ["To continue: --on-damage skip leaves damaged batches out, salvage also resynchronises after a corrupt length."]
    if isinstance(error, MemoryError):
        return ["Fewer threads need less memory: --threads 1."]
    if exit_code(error) == BUG:
        return [f"Please report it, with what {SHOW_TRACEBACK}=1 adds to this output and with `kafkalog --version --verbose`."]
    return []


def _places(error: SegmentError) -> tuple[str, str]:
    """The error's file and its folder as one would type them, or placeholders."""
    if not error.file:
        return "FILE", "PATH"
    return path_word(error.file), path_word(os.path.dirname(error.file) or ".")


def warn(text: str) -> None:
    """Write a line to standard error, if that is open."""
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
    """Partitions that failed: each is reported when it happens, and all of them at the end."""

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
        """List all of them; the highest exit code, or CLEAN."""
        if self.failed:
            names = [name for name, _ in self.failed.values()]
            more = f" and {len(names) - FAILURES_NAMED} more" if len(names) > FAILURES_NAMED else ""
            several = "partitions" if len(names) > 1 else "partition"
            warn(f"{len(names)} {several} failed, the others are done: {printable(', '.join(names[:FAILURES_NAMED]))}{more}")
        return max((code for _, code in self.failed.values()), default=CLEAN)
