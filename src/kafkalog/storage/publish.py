"""Write so that a crash at any moment leaves the old or the new, never a mix: the one way in which kafkalog publishes.

A file is written under another name next to its place, synced, renamed, and its folder synced. A folder of files is filled next
to its place and appears with one rename. What a crash leaves behind is named `.<name>.inprogress`, is never read, and is removed
by the next run for the same target: a lock shows whether another process is still writing there. A folder of that name that
somebody else made is left alone. In an object store an object appears whole with its put, which is conditional.

A file that replaces another belongs to the same user and has the same mode; a new one belongs to the owner of its folder.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType
from typing import Protocol, Self

from kafkalog.errors import StorageError

from .failures import writing
from .fs import Buffer, Fs, LocalFs, LocalNewFile, NewFile
from .overlay import OwnedFs, UnsyncedFs
from .ownership import Ownership, Pattern
from .parallel import in_parallel
from .store import short_repr
from .unfinished import UNFINISHED, path_beside, refusal, unfinished_path


def make_folders(fs: Fs, path: str, like: Ownership | None = None) -> None:
    """Make `path` and the folders above it that are missing, each durable before the next."""
    kind = fs.kind(path)
    if kind not in ("folder", "missing"):
        with writing(path, "cannot make this folder"):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    if kind == "folder":
        return
    above = os.path.dirname(path) or os.curdir
    make_folders(fs, above, like)
    with writing(path, "cannot make this folder"):
        with suppress(FileExistsError):  # made by another process meanwhile
            fs.make_folder(path, like)
        fs.sync_folder(above)


def replace_file(fs: Fs, path: str, parts: Iterable[Buffer], temporary: str | None = None) -> None:
    """A file of these parts, which replaces what was at `path` in one step; it stays there once its folder is synced.

    It is written at `temporary`, next to its place. The caller holds a lock against other writers.
    """
    temporary = temporary or unfinished_path(path)
    with writing(path):
        with suppress(FileNotFoundError):
            fs.remove(temporary)
        with _replacement(fs, path, temporary) as file:
            for part in parts:
                file.write(part)


@contextmanager
def streamed_file(path: str, shown: str) -> Iterator[int]:
    """The descriptor of a file for `path`, filled by the block. It appears when the block ends well; else nothing of it is left.

    Several processes may write for one path: each has an unfinished file of its own, which only a kill leaves behind, and the
    last one to end stays. Errors of ours call it `shown`; those of the block pass through.
    """
    fs = LocalFs()
    with _replacement(fs, path, path_beside(path, f".{secrets.token_hex(6)}{UNFINISHED}", "."), shown) as file:
        assert isinstance(file, LocalNewFile)
        yield file.fileno()
    sync_names(fs, os.path.dirname(path))


@contextmanager
def _replacement(fs: Fs, path: str, temporary: str, shown: str | None = None) -> Iterator[NewFile]:
    """A new file at `temporary`, filled by the block, then synced and renamed to `path`; removed after an error."""
    shown = shown or path
    try:
        with writing(shown):
            file = fs.create(temporary, replaced_ownership(fs, path))
        try:
            yield file
            with writing(shown):
                file.sync()
        finally:
            file.close()
        with writing(shown):
            fs.rename(temporary, path)
    except BaseException:
        with suppress(OSError):
            fs.remove(temporary)
        raise


def publish_files(fs: Fs, folder: str, files: Mapping[str, Iterable[Buffer]]) -> None:
    """Write files of one folder, complete and durable."""
    for name, parts in files.items():
        replace_file(fs, os.path.join(folder, name), parts)
    sync_names(fs, folder)


def replaced_ownership(fs: Fs, path: str) -> Ownership | None:
    """The owner and mode of the file at `path`; None if there is none."""
    return fs.ownership(path) if fs.kind(path) == "file" else None


def write_file(fs: Fs, path: str, parts: Iterable[Buffer], like: Ownership | None = None) -> None:
    """Write a new file of these parts, durable once its folder is."""
    file = fs.create(path, like)
    try:
        for part in parts:
            file.write(part)
        file.sync()
    finally:
        file.close()


def holds(fs: Fs, path: str, parts: Iterable[Buffer]) -> bool:
    """Whether the file at `path` already has exactly these bytes."""
    if fs.kind(path) != "file":
        return False
    position = 0
    for part in parts:
        if fs.read(path, position, len(part)) != part:
            return False
        position += len(part)
    return not fs.read(path, position, 1)


def sync_names(fs: Fs, folder: str) -> None:
    """Make the names in `folder` durable."""
    with writing(folder, "its new files are complete, but a crash may lose them; run the command again"):
        fs.sync_folder(folder)


class StagedFolder:
    """A new folder, filled out of sight. `publish` makes it appear, complete and durable; without it nothing stays.

    Callers that write more than whole files into `staging` do so on `unsynced`, and finally call `sync_files`. Until then it is
    closed to everybody else. `original` is the pattern of the original, if it is a copy. `staging` is where it is filled, next to
    its place: in a broker's log directory under a name that brokers ignore.
    """

    def __init__(self, fs: Fs, target: str, original: Pattern | None = None, staging: str | None = None) -> None:
        self.pattern = _pattern_of_new(fs, target, original)
        self.fs = OwnedFs(fs, self.pattern)
        self.unsynced = UnsyncedFs(self.fs)
        self.target = target
        self.staging = staging or unfinished_path(target)
        self.published = False
        self._is_ours = self._is_locked = self._is_complete = False
        self._locks = ExitStack()

    def __repr__(self) -> str:
        return f"StagedFolder({short_repr(self.target)}, {'published' if self.published else 'unfinished'})"

    def __enter__(self) -> Self:
        make_folders(self.fs, os.path.dirname(self.target), self.pattern.folder._replace(mode=None))
        with writing(self.target):
            try:
                # Set before it is made: a signal may come right after.
                self._is_ours = self.fs.kind(self.staging) == "missing"
                try:
                    self.fs.make_private_folder(self.staging)
                except FileExistsError:
                    self._is_ours = False
                self._lock()
                self._clear()  # what a killed run left behind
            except (BlockingIOError, FileNotFoundError) as error:  # locked by another process, or just published by it
                raise StorageError(f"{self.target}: another process is writing it; wait for it", file=self.target) from error
            except BaseException:
                self._remove_staging()
                raise
        return self

    def _lock(self) -> None:
        """Lock the staging folder; StorageError if somebody else made it."""
        if self.fs.kind(self.staging) not in ("folder", "missing"):
            raise refusal(self.staging, "a link or no folder, so this command did not make it")
        self._locks.enter_context(self.fs.lock(self.staging))
        self.fs.require_private(self.staging)
        self._is_ours = self._is_locked = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self.published:
            self._locks.close()
        else:
            self._remove_staging()

    def _remove_staging(self) -> None:
        with self._locks, suppress(OSError):
            if self._is_complete and self.fs.kind(self.staging) == "missing":
                return  # a signal came right after it got its name
            if self._is_locked:
                self._clear()
            if self._is_ours:
                self.fs.remove_folder(self.staging)

    def _clear(self) -> None:
        self.fs.empty(self.staging)

    def write(self, name: str, parts: Iterable[Buffer]) -> None:
        """Write a file of the folder."""
        with writing(os.path.join(self.target, name)):
            write_file(self.fs, os.path.join(self.staging, name), parts)

    def sync_files(self) -> None:
        """Make durable what was written on `unsynced`."""
        for name in self.fs.list(self.staging):
            self.sync_file(name)

    def sync_file(self, name: str) -> None:
        """Make one file durable that was written on `unsynced`."""
        with writing(os.path.join(self.target, name)):
            file = self.fs.open(os.path.join(self.staging, name))
            try:
                file.sync()
            finally:
                file.close()

    def publish(self) -> None:
        self.finish()
        self.name()
        sync_names(self.fs, os.path.dirname(self.target))

    def finish(self) -> None:
        """Make its names durable; its files are."""
        with writing(self.target):
            self.fs.give(self.staging)
            self.fs.sync_folder(self.staging)
        self._is_complete = True

    def name(self) -> None:
        """Let it appear, durable once the folder above is synced; it is finished."""
        with writing(self.target):
            self.fs.rename(self.staging, self.target)
        self.published = True


def publish_together(folders: Sequence[StagedFolder], at_once: int) -> None:
    """Publish folders whose files were written on `unsynced`; the caller syncs the folders above.

    A disk takes several syncs in the time of one: `at_once` of them are waited for at the same time. One folder needs no threads.
    """
    at_once = at_once if len(folders) > 1 else 1
    files = [(folder, name) for folder in folders for name in folder.fs.list(folder.staging)]
    for _ in in_parallel(lambda each: each[0].sync_file(each[1]), files, at_once):
        pass
    for _ in in_parallel(StagedFolder.finish, folders, at_once):
        pass
    for folder in folders:
        folder.name()


def _pattern_of_new(fs: Fs, target: str, original: Pattern | None) -> Pattern:
    above = os.path.dirname(target)
    while fs.kind(above) != "folder" and above != os.path.dirname(above):
        above = os.path.dirname(above)
    owner = fs.ownership(above)
    return Pattern.below(owner) if original is None else Pattern.of_copy(owner, original)


class StoredObject(Protocol):
    """One small object of a store."""

    def read(self) -> tuple[bytes, str] | None:
        """Its content and a tag that no other content has; None if it is not there."""
        ...

    def write(self, content: bytes, tag: str | None) -> str | None:
        """Replace the content with this tag, or (None) make the object; the new tag, None if it has another tag by now."""
        ...


def publish_object(
    stored: StoredObject, content: bytes, tag: str | None = None, is_ours: Callable[[bytes], bool] | None = None
) -> str | None:
    """The tag of the object with this content, written if it still had the tag given; None if another writer was faster.

    `is_ours` recognises content of ours, by default exactly this.
    """
    written = stored.write(content, tag)
    if written is not None:
        return written
    # A put whose answer was lost finds, when it is sent again, what it wrote itself.
    found = stored.read()
    is_own = found is not None and (found[0] == content if is_ours is None else is_ours(found[0]))
    return found[1] if found is not None and is_own else None
