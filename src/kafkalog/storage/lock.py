"""The lock that a broker holds on its log directory: `.lock`, taken with a POSIX record lock as Java takes it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kafkalog.errors import StorageError

LOCK_FILE = ".lock"
_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def broker_lock(log_directory: str) -> Iterator[None]:
    """Keep brokers out of a log directory; StorageError if one is running there. A lock file made for this goes away again."""
    path = os.path.join(log_directory, LOCK_FILE)
    existed = os.path.lexists(path)
    try:
        descriptor = os.open(path, _OPEN | os.O_CREAT, 0o644)
    except OSError as error:
        raise StorageError(f"{path}: cannot lock the log directory: {os.strerror(error.errno or 0)}", file=path) from error
    try:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StorageError(f"{log_directory}: a broker is running on this log directory; stop it first", file=path) from error
        yield
    finally:
        if not existed:
            with suppress(OSError):
                os.unlink(path)
        os.close(descriptor)
