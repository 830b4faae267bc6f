"""Errors of the Spark source. Only their text reaches a driver, so each message begins with a code that is never renamed."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kafkalog.errors import KafkaLogError, LimitExceeded, NoLogs, SegmentChanged, SegmentError, StorageError, UsageError

BAD_OPTION: Final = "KAFKALOG_BAD_OPTION"
BAD_SCHEMA: Final = "KAFKALOG_BAD_SCHEMA"
DATA_LOSS: Final = "KAFKALOG_DATA_LOSS"
FILE_CHANGED: Final = "KAFKALOG_FILE_CHANGED"
CORRUPT_BATCH: Final = "KAFKALOG_CORRUPT_BATCH"
LIMIT_EXCEEDED: Final = "KAFKALOG_LIMIT_EXCEEDED"
NO_LOGS: Final = "KAFKALOG_NO_LOGS"
STORAGE: Final = "KAFKALOG_STORAGE"
NULL_VALUE: Final = "KAFKALOG_NULL_VALUE"
TARGET_BUSY: Final = "KAFKALOG_TARGET_BUSY"
BAD_TARGET: Final = "KAFKALOG_BAD_TARGET"
SPARK_FAILED: Final = "KAFKALOG_SPARK_FAILED"
BAD_TIMESTAMP: Final = "KAFKALOG_BAD_TIMESTAMP"


class SparkSourceError(KafkaLogError):
    """An error of the Spark source; `code` begins its message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code

    def __str__(self) -> str:
        return f"{self.args[0]}: {self.args[1]}"


def bad_option(option: str, value: object, allowed: str) -> SparkSourceError:
    """The error for an option: its name, its value, what is allowed."""
    return SparkSourceError(BAD_OPTION, f"option {option}={value!r}: {allowed}")


def is_passing(error: BaseException) -> bool:
    """Whether a file was changed, renamed or deleted between listing and opening it: a broker at work does that."""
    if not isinstance(error, SparkSourceError):
        return False
    return error.code == FILE_CHANGED or (error.code == STORAGE and os.strerror(errno.ENOENT) in str(error))


@contextmanager
def coded() -> Iterator[None]:
    """Give errors of the layers below their code."""
    try:
        yield
    except SparkSourceError:
        raise
    except KafkaLogError as error:
        raise SparkSourceError(_code(error), _text(error)) from error


def error_of_task(error: Exception) -> SparkSourceError:
    """The error of a task as it was raised there, of which Spark passes on only the text; or that of Spark itself."""
    text = str(error)
    found = re.search(r"(KAFKALOG_[A-Z_]+): (.*)", text)
    if found is not None:
        return SparkSourceError(found[1], found[2])
    return SparkSourceError(SPARK_FAILED, text.strip().partition("\n")[0] or type(error).__name__)


def _code(error: KafkaLogError) -> str:
    for kind, code in (
        (SegmentChanged, FILE_CHANGED),
        (LimitExceeded, LIMIT_EXCEEDED),
        (SegmentError, CORRUPT_BATCH),
        (NoLogs, NO_LOGS),
        (UsageError, BAD_OPTION),
        (StorageError, STORAGE),
    ):
        if isinstance(error, kind):
            return code
    return CORRUPT_BATCH


def _text(error: KafkaLogError) -> str:
    if isinstance(error, SegmentError):
        return f"file={error.file} position={error.position} reason={error.reason}: {error}"
    return str(error)
