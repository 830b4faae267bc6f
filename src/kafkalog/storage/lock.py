"""The lock that a broker holds on its log directory: `.lock`, taken with a POSIX record lock as Java takes it.

Such a lock belongs to a process: closing any descriptor of the file releases it. So this process opens the file once, however
many of its tasks hold the lock.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from kafkalog.errors import StorageError

from .ownership import make_file, owner_of_new, ownership_of
from .unfinished import user_name

LOCK_FILE = ".lock"
_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FLOCK = struct.Struct("hhqqi4x")  # Linux: l_type, l_whence, l_start, l_len, l_pid


@dataclass
class _Held:
    descriptor: int
    is_ours: bool  # whether we made the file
    holders: int = 1


_turn = threading.Lock()
_held: dict[tuple[int, int], _Held] = {}  # by device and inode


@contextmanager
def broker_lock(log_directory: str) -> Iterator[None]:
    """Keep brokers out of a log directory; StorageError if one is running there. A lock file that we make is removed again."""
    path = os.path.join(log_directory, LOCK_FILE)
    with _turn:
        key = _take(log_directory, path)
    try:
        yield
    finally:
        with _turn:
            _release(key, path)


def is_broker_running(log_directory: str) -> bool | None:
    """Whether a process holds the lock of a log directory; None if that is unknown. Nothing is locked or written."""
    path = os.path.join(log_directory, LOCK_FILE)
    if sys.platform != "linux":  # others order the fields of a lock differently
        return None
    with _turn:
        if _key_of(path) in _held:
            return True
        try:
            descriptor = os.open(path, _LOOK)
        except FileNotFoundError:
            return False
        except (OSError, ValueError):
            return None
        try:
            found = fcntl.fcntl(descriptor, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        except OSError:
            return None
        finally:
            os.close(descriptor)
    return bool(_FLOCK.unpack(found)[0] != fcntl.F_UNLCK)


def _take(log_directory: str, path: str) -> tuple[int, int]:
    if (key := _key_of(path)) in _held:
        _held[key].holders += 1
        return key
    while True:
        descriptor, is_new = _open(log_directory, path)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)  # the holder of the lock needs the file, even if we made it
            raise StorageError(f"{log_directory}: a broker is running on this log directory; stop it first", file=path) from error
        status = os.fstat(descriptor)
        if (key := (status.st_dev, status.st_ino)) == _key_of(path):
            _held[key] = _Held(descriptor, is_new)
            return key
        os.close(descriptor)  # its maker removed it before we had the lock


def _release(key: tuple[int, int], path: str) -> None:
    held = _held[key]
    held.holders -= 1
    if held.holders:
        return
    del _held[key]
    if held.is_ours and _key_of(path) == key:
        with suppress(OSError):
            os.unlink(path)
    os.close(held.descriptor)


def _open(log_directory: str, path: str) -> tuple[int, bool]:
    """(a descriptor of the lock file, whether we made it now)"""
    while True:
        try:
            with suppress(FileNotFoundError):
                return os.open(path, _OPEN), False
            with suppress(FileExistsError):
                return _make(log_directory), True
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise StorageError(f"{path}: cannot lock the log directory: {reason}{_whose(log_directory)}", file=path) from error


def _make(log_directory: str) -> int:
    folder = os.open(log_directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        owner = owner_of_new(ownership_of(os.fstat(folder)), None)
        if owner is not None:
            return make_file(LOCK_FILE, folder, owner)
        return os.open(LOCK_FILE, _OPEN | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=folder)
    finally:
        os.close(folder)


def _whose(log_directory: str) -> str:
    """Whom to run as, if the log directory belongs to another user."""
    with suppress(OSError):
        owner = os.stat(log_directory).st_uid
        if owner != os.geteuid():
            return f"; run this as {user_name(owner)}, to whom the log directory belongs"
    return ""


def _key_of(path: str) -> tuple[int, int] | None:
    with suppress(OSError, ValueError):
        status = os.lstat(path)
        return status.st_dev, status.st_ino
    return None
