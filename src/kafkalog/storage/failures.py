"""Failures of storage as StorageErrors: where it happened, what was tried, the reason, and what to do about it.

The hints for all of storage are here: one table for reading and one for writing, whoever reads or writes.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from kafkalog.errors import StorageError

from .unfinished import UNFINISHED

CANNOT_WRITE = "cannot write"

_READING = {
    errno.EACCES: "run as the user that owns the log folder, or copy it to where you may read",
    errno.EPERM: "run as the user that owns the log folder, or copy it to where you may read",
    errno.EIO: "the device could not read these bytes: check the disk, or read a copy",
    errno.EMFILE: "too many open files in this process: raise `ulimit -n`",
    errno.ENFILE: "too many open files on this machine",
    errno.ELOOP: "the symbolic links form a loop",
    errno.ENAMETOOLONG: "no file system stores a name this long",
    errno.ESTALE: "the network file system lost the file: mount it again, or retry",
}
_WRITING = {
    errno.ENOSPC: "free some space, or write to another disk",
    errno.EDQUOT: "the quota is used up; write to another place",
    errno.EFBIG: "the limit for the size of a file is reached (`ulimit -f`, or the file system's)",
    errno.EACCES: "run this as the owner, or choose a folder that you may write to",
    errno.EPERM: "run this as the owner, or choose a folder that you may write to",
    errno.EROFS: "mounted read-only; write to another place",
    errno.EIO: "the device could not write: check the disk",
    errno.EXDEV: "on two file systems; write to a folder on one",
    errno.ENOTDIR: "a part of the path is a file",
}
# Where something new is written: elsewhere the file itself may be what is missing.
_CREATING = _WRITING | {
    errno.ENOENT: "create the folder first",
    errno.EISDIR: "this is a folder; give the name of a file in it",
}
# What object stores say, by words in it: Arrow passes on their text, and no number.
_REFUSED = ("ACCESS_DENIED", "Access Denied", "INVALID_ACCESS_KEY_ID", "SIGNATURE", "403")
_UNREACHABLE = ("NETWORK_CONNECTION", "curlCode", "resolve host", "timed out")


def read_error(path: str, action: str, cause: Exception) -> StorageError:
    """The error for a read of `path` that failed; it keeps the cause's errno."""
    number = (cause.errno or 0) if isinstance(cause, OSError) else 0
    return _failure(path, f"{action}: {os.strerror(number) if number else cause}", _READING.get(number, ""), cause)


def write_error(path: str, action: str, cause: OSError) -> StorageError:
    """The error for a change at `path` that failed; it keeps the cause's errno."""
    number = cause.errno or 0
    reason = cause.strerror or (os.strerror(number) if number else str(cause))
    if isinstance(cause.filename, str) and _is_about_another(cause.filename, path):
        reason = f"{os.path.basename(cause.filename)}: {reason}"
    hints = _CREATING if action == CANNOT_WRITE else _WRITING
    failure = _failure(path, f"{action}: {reason}", hints.get(number, ""), cause)
    failure.is_of_output = True
    return failure


def object_error(path: str, action: str, cause: Exception, otherwise: str = "") -> StorageError:
    """The error for a request to an object store that failed; `otherwise` is the hint where the store's text suggests none."""
    text = str(cause).partition(" Detail: ")[0]
    hint = otherwise
    if any(word in text for word in _REFUSED):
        hint = "check the credentials (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or a profile) and what they allow"
    elif any(word in text for word in _UNREACHABLE):
        hint = "check the network and the endpoint (AWS_ENDPOINT_URL or ?endpoint_override=)"
    return _failure(path, f"{action}: {text}", hint, cause)


@contextmanager
def writing(path: str, action: str = CANNOT_WRITE) -> Iterator[None]:
    """Failures inside become a StorageError that names `path`."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise write_error(path, action, error) from error


def _is_about_another(name: str, path: str) -> bool:
    """Whether an error is about another file than the one that `path` names, or will name."""
    last = os.path.basename(name)
    return last not in (os.path.basename(path), os.curdir, "") and not last.endswith(UNFINISHED)


def _failure(path: str, problem: str, hint: str, cause: Exception) -> StorageError:
    failure = StorageError(f"{path}: {problem}" + (f"; {hint}" if hint else ""), file=path)
    failure.errno = cause.errno if isinstance(cause, OSError) else None
    return failure
