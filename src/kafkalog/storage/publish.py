"""Write so that a crash at any moment leaves the old or the new, never a mix: the one way in which kafkalog writes to a disk.

A file is written under another name beside its place, made durable, renamed, and its folder made durable. A folder of files is
filled beside its place and appears with one rename. What a crash leaves behind is named `.<name>.inprogress`, is never read, and
is removed by the next run for the same target: a lock tells whether somebody is still writing there. A folder of that name that
somebody else made is not touched.

A file that replaces another belongs to the same user and has the same mode; a new one belongs to the owner of its folder.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType
from typing import Self

from kafkalog.errors import StorageError

from .beside import UNFINISHED, unfinished_path
from .fs import Buffer, Fs
from .own_folders import refusal
from .owned import OwnedFs
from .ownership import Ownership, Pattern
from .unsynced import UnsyncedFs

__all__ = [
    "UNFINISHED", "StagedFolder", "holds", "make_folders", "publish_files", "replace_file", "sync_names", "unfinished_path",
    "write_file", "writing",
]  # fmt: skip

_HINTS = {
    errno.ENOSPC: "free some space, or write to another disk",
    errno.EDQUOT: "the quota is used up; write to another place",
    errno.EFBIG: "the limit for the size of a file is reached (`ulimit -f`, or the file system's)",
    errno.EACCES: "run this as the owner, or choose a folder that you may write to",
    errno.EPERM: "run this as the owner, or choose a folder that you may write to",
    errno.EROFS: "mounted read-only; write to another place",
    errno.EIO: "the device could not write: check the disk",
    errno.EXDEV: "on two file systems; write to a folder on one",
}


@contextmanager
def writing(path: str, action: str = "cannot write") -> Iterator[None]:
    """Failures inside become a StorageError that names `path`."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        hint = _HINTS.get(error.errno or 0)
        reason = error.strerror or (os.strerror(error.errno) if error.errno else str(error))
        if isinstance(error.filename, str) and _is_about_another(error.filename, path):
            reason = f"{os.path.basename(error.filename)}: {reason}"
        failure = StorageError(f"{path}: {action}: {reason}" + (f"; {hint}" if hint else ""), file=path)
        failure.errno = error.errno
        raise failure from error


def _is_about_another(name: str, path: str) -> bool:
    """Whether an error is about another file than the one that `path` names, or will name."""
    return os.path.basename(name) not in (os.path.basename(path), os.path.basename(unfinished_path(path)), os.curdir, "")


def make_folders(fs: Fs, path: str, like: Ownership | None = None) -> None:
    """`path` and the folders above it that are missing, each durable before the next."""
    kind = fs.kind(path)
    if kind not in ("folder", "missing"):
        with writing(path, "cannot make this folder"):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    if kind == "folder":
        return
    above = os.path.dirname(path) or os.curdir
    make_folders(fs, above, like)
    with writing(path, "cannot make this folder"):
        fs.make_folder(path, like)
        fs.sync_folder(above)


def replace_file(fs: Fs, path: str, parts: Iterable[Buffer], temporary: str | None = None) -> None:
    """The file of these parts, in one step in the place of what was at `path`; it stays there once its folder is synced.

    It is written at `temporary`, beside its place. The caller holds a lock against other writers.
    """
    temporary = temporary or unfinished_path(path)
    with writing(path):
        with suppress(FileNotFoundError):
            fs.remove(temporary)
        try:
            write_file(fs, temporary, parts, replaced_ownership(fs, path))
            fs.rename(temporary, path)
        except BaseException:
            with suppress(OSError):
                fs.remove(temporary)
            raise


def publish_files(fs: Fs, folder: str, files: Mapping[str, Iterable[Buffer]]) -> None:
    """Files of one folder, complete and durable."""
    for name, parts in files.items():
        replace_file(fs, os.path.join(folder, name), parts)
    sync_names(fs, folder)


def replaced_ownership(fs: Fs, path: str) -> Ownership | None:
    """Whom the file at `path` belongs to, and its mode; None if there is none."""
    return fs.ownership(path) if fs.kind(path) == "file" else None


def write_file(fs: Fs, path: str, parts: Iterable[Buffer], like: Ownership | None = None) -> None:
    """A new file of these parts, durable once its folder is."""
    file = fs.create(path, like)
    try:
        for part in parts:
            file.write(part)
        file.sync()
    finally:
        file.close()


def holds(fs: Fs, path: str, parts: Iterable[Buffer]) -> bool:
    """Whether the file at `path` has exactly these bytes already."""
    if fs.kind(path) != "file":
        return False
    position = 0
    for part in parts:
        if fs.read(path, position, len(part)) != part:
            return False
        position += len(part)
    return not fs.read(path, position, 1)


def sync_names(fs: Fs, folder: str) -> None:
    """Make durable which names are in `folder`."""
    with writing(folder, "what was written there is complete, but may not stay: outcome unknown, run again"):
        fs.sync_folder(folder)


class StagedFolder:
    """A new folder, filled out of sight. `publish` lets it appear, complete and durable; without it nothing stays.

    Who writes more than whole files into `staging` does so on `unsynced`, and calls `sync_files` in the end. Meanwhile it is
    closed to everybody else. `original` is the pattern of what it is a copy of, if it is one.
    """

    def __init__(self, fs: Fs, target: str, original: Pattern | None = None) -> None:
        self.pattern = _pattern_of_new(fs, target, original)
        self.fs = OwnedFs(fs, self.pattern)
        self.unsynced = UnsyncedFs(self.fs)
        self.target = target
        self.staging = unfinished_path(target)
        self.published = False
        self._is_ours = self._is_held = False
        self._held = ExitStack()

    def __enter__(self) -> Self:
        make_folders(self.fs, os.path.dirname(self.target), self.pattern.folder._replace(mode=None))
        with writing(self.target):
            try:
                # Known before it is made: a signal may come right after.
                self._is_ours = self.fs.kind(self.staging) == "missing"
                try:
                    self.fs.make_private_folder(self.staging)
                except FileExistsError:
                    self._is_ours = False
                self._hold()
                self._clear()  # what a run that was killed left behind
            except (BlockingIOError, FileNotFoundError) as error:  # held by another process, or published by it while we came
                raise StorageError(f"{self.target}: another process is writing it; wait for it", file=self.target) from error
            except BaseException:
                self._take_back()
                raise
        return self

    def _hold(self) -> None:
        """Hold what is ours; StorageError if somebody else made it."""
        if self.fs.kind(self.staging) not in ("folder", "missing"):
            raise refusal(self.staging, "a link or no folder, so this command did not make it")
        self._held.enter_context(self.fs.lock(self.staging))
        self.fs.require_private(self.staging)
        self._is_ours = self._is_held = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self.published:
            self._held.close()
        else:
            self._take_back()

    def _take_back(self) -> None:
        with self._held, suppress(OSError):
            if self._is_held:
                self._clear()
            if self._is_ours:
                self.fs.remove_folder(self.staging)

    def _clear(self) -> None:
        self.fs.empty(self.staging)

    def write(self, name: str, parts: Iterable[Buffer]) -> None:
        """A file of the folder."""
        with writing(os.path.join(self.target, name)):
            write_file(self.fs, os.path.join(self.staging, name), parts)

    def sync_files(self) -> None:
        """Make durable what others wrote into the folder."""
        for name in self.fs.list(self.staging):
            with writing(os.path.join(self.target, name)):
                file = self.fs.open(os.path.join(self.staging, name))
                try:
                    file.sync()
                finally:
                    file.close()

    def publish(self) -> None:
        with writing(self.target):
            self.fs.give(self.staging)
            self.fs.sync_folder(self.staging)
            self.fs.rename(self.staging, self.target)
        self.published = True
        sync_names(self.fs, os.path.dirname(self.target))


def _pattern_of_new(fs: Fs, target: str, original: Pattern | None) -> Pattern:
    above = os.path.dirname(target)
    while fs.kind(above) != "folder" and above != os.path.dirname(above):
        above = os.path.dirname(above)
    owner = fs.ownership(above)
    return Pattern.below(owner) if original is None else Pattern.of_copy(owner, original)
