"""Unfinished work: its names next to the finished file or folder, and folders for it that are safe to empty.

A folder for unfinished work has a name that can be guessed, in a place where others may write. So it is opened without following
links, step by step; it has to belong to the user we run as and be closed to other writers; and what is removed is named relative
to its descriptor, so a path that is swapped meanwhile leads nowhere.
"""

from __future__ import annotations

import errno
import hashlib
import os
import pwd
import secrets
import shlex
import stat
from contextlib import suppress

from kafkalog.errors import StorageError, path_text

NAME_BYTES = 255  # what file systems allow as one name
UNFINISHED = ".inprogress"
_DIGEST_LETTERS = 16

OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
UNFINISHED_MODE = stat.S_ISVTX | stat.S_IRWXU  # for us alone; the sticky bit, which has no effect in such a folder, is our mark
_PROBE, _PROBE_MODE = ".probe.inprogress", 0o640
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


# -- names ---------------------------------------------------------------------------------------------------------------------


def name_beside(name: str, suffix: str, prefix: str = "") -> str:
    """The name between a prefix and a suffix; if that is too long, a part of the name and a digest that keeps it unique."""
    whole = f"{prefix}{name}{suffix}"
    if len(os.fsencode(whole)) <= NAME_BYTES:
        return whole
    room = NAME_BYTES - len(os.fsencode(prefix + suffix)) - _DIGEST_LETTERS - 1
    part = name
    while len(os.fsencode(part)) > room:
        part = part[:-1]
    return f"{prefix}{part}~{hashlib.sha256(os.fsencode(name)).hexdigest()[:_DIGEST_LETTERS]}{suffix}"


def path_beside(path: str, suffix: str, prefix: str = "") -> str:
    """The same for the last part of a path."""
    folder, name = os.path.split(path)
    return os.path.join(folder, name_beside(name, suffix, prefix))


def unfinished_path(path: str) -> str:
    """Where the file or folder for `path` is kept until it is complete."""
    return path_beside(path, UNFINISHED, ".")


# -- folders -------------------------------------------------------------------------------------------------------------------


def user_name(user: int) -> str:
    """The name of a user of this machine, or the number."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def refusal(path: str, problem: str) -> StorageError:
    """The error for something in the place of a folder of ours."""
    command = f"`rm -r {shlex.quote(path_text(path))}`"
    return StorageError(f"{path}: {problem}; it is left alone: look at it, then remove it ({command})", file=path)


def require_own(descriptor: int, path: str) -> None:
    """StorageError unless the open folder, which `path` names, is ours and only we may write to it."""
    found = os.fstat(descriptor)
    is_ours = found.st_uid == os.geteuid() and not found.st_mode & _OTHERS_WRITE
    if is_ours or has_no_owners(descriptor):
        return
    if found.st_uid != os.geteuid():
        owner, we = user_name(found.st_uid), user_name(os.geteuid())
        raise refusal(path, f"belongs to {owner}, so this command, which runs as {we}, did not make it")
    raise refusal(path, f"others may write to it (mode {stat.S_IMODE(found.st_mode):04o}), so what is in it may be theirs")


def has_no_owners(folder: int) -> bool:
    """Whether the file system of the open folder keeps no owners and modes (FAT, some of CIFS), so that they prove nothing.

    A file is made to find out. Where they are kept it is ours, and has the mode that we give it, whoever made the folder.
    """
    probe = f".{os.getpid()}{_PROBE}"
    try:
        descriptor = os.open(probe, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    except OSError:
        return False
    try:
        with suppress(PermissionError):
            os.fchmod(descriptor, _PROBE_MODE)  # whatever the folder's access control list made of it
        found = os.fstat(descriptor)
        return (found.st_uid, stat.S_IMODE(found.st_mode)) != (os.geteuid(), _PROBE_MODE)
    finally:
        os.close(descriptor)
        with suppress(OSError):
            os.unlink(probe, dir_fd=folder)


def require_unfinished(descriptor: int, above: os.stat_result, path: str) -> None:
    """The same for a folder of unfinished work: StorageError also if another folder of ours may have been renamed to it.

    A user who may change the folder above can do that, but cannot give it the mode that ours have. It gets that mode now.
    """
    require_own(descriptor, path)
    if _may_be_changed_by_others(above) and not is_unfinished(descriptor):
        raise refusal(path, "made for something else, and renamed by somebody who may write to the folder above")
    with suppress(PermissionError):  # on a file system without modes
        os.fchmod(descriptor, UNFINISHED_MODE | os.fstat(descriptor).st_mode & stat.S_ISGID)


def is_unfinished(descriptor: int) -> bool:
    """Whether the open folder was made by us, and for unfinished work."""
    return is_marked(os.fstat(descriptor)) or has_no_owners(descriptor)


def is_marked(folder: os.stat_result) -> bool:
    """Whether a folder is ours and has the mode of unfinished work; below a setgid folder it has that bit, too."""
    return folder.st_uid == os.geteuid() and stat.S_IMODE(folder.st_mode) & ~stat.S_ISGID == UNFINISHED_MODE


def _may_be_changed_by_others(folder: os.stat_result) -> bool:
    is_open = folder.st_mode & _OTHERS_WRITE and not folder.st_mode & stat.S_ISVTX
    return bool(is_open) or folder.st_uid not in (0, os.geteuid())


def empty_folder(descriptor: int) -> None:
    """Remove everything in the open folder: of a link only the link, of another file system nothing.

    What is in its folders is moved up into it until all is gone: then no depth of them needs recursion, or many descriptors.
    """
    device = os.fstat(descriptor).st_dev
    while found := _content(descriptor):
        for name, status in found:
            with suppress(FileNotFoundError):
                if not stat.S_ISDIR(status.st_mode):
                    os.unlink(name, dir_fd=descriptor)
                elif status.st_dev == device:
                    _remove_folder(name, descriptor)
                else:
                    raise OSError(errno.EBUSY, f"{os.strerror(errno.EBUSY)}: another file system is mounted there", name)


def _content(descriptor: int) -> list[tuple[str, os.stat_result]]:
    with os.scandir(descriptor) as entries:
        return [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]


def _remove_folder(name: str, above: int) -> None:
    """Remove a folder; those in it that are not empty are moved to the folder above."""
    folder = os.open(name, OPEN_FOLDER, dir_fd=above)
    try:
        for inner, status in _content(folder):
            if not stat.S_ISDIR(status.st_mode):
                os.unlink(inner, dir_fd=folder)
                continue
            try:
                os.rmdir(inner, dir_fd=folder)
            except OSError:
                os.rename(inner, secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=above)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=above)
