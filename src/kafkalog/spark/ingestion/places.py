"""Names below a target, and the errors of targets."""

from __future__ import annotations

import errno
import os
from typing import Final

from kafkalog.errors import StorageError, path_text

from ..errors import BAD_TARGET, TARGET_BUSY, SparkSourceError

OWN_FOLDER: Final = "_kafkalog"
# What file systems allow as one name, in bytes; S3 allows as much as 1024 for a whole key.
NAME_BYTES: Final = 255
HINTS: Final = {
    errno.ENOSPC: "; free some space, or choose another target",
    errno.EACCES: "; choose a folder that you may write to",
    errno.EROFS: "; choose a folder that you may write to",
    errno.ENOTDIR: "; a part of the path is a file",
}


def is_plain(path: object) -> bool:
    """Whether this is a relative path of ordinary names: it cannot lead out of the folder that it is joined to."""
    return isinstance(path, str) and "\0" not in path and all(part not in ("", ".", "..") for part in path.split("/"))


def failed(path: str, action: str, cause: OSError) -> StorageError:
    number = cause.errno or 0
    text = os.strerror(number) if number else str(cause)
    failure = StorageError(f"{path_text(path)}: {action} failed: {text}{HINTS.get(number, '')}", file=path)
    failure.errno = cause.errno
    return failure


def busy(name: str, holder: str, advice: str = "run this again when it has ended") -> SparkSourceError:
    return SparkSourceError(TARGET_BUSY, f"{path_text(name)}: another ingest is at work here{holder}; {advice}")


def bad_target(place: str, found: str) -> SparkSourceError:
    return SparkSourceError(BAD_TARGET, f"{path_text(place)}: {found}")
