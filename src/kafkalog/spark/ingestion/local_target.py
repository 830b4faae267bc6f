"""A target that is a folder of this machine, or one that all workers mount.

The folder may belong to another user than the one who runs the ingest, for example root. So every path below it is walked name by
name without following links, and a folder that is emptied has to be ours or the target owner's: whatever is there, nothing
outside changes.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import shutil
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from typing import Any, Final

from kafkalog.errors import StorageError
from kafkalog.storage.failures import write_error
from kafkalog.storage.fs import LocalFs
from kafkalog.storage.ownership import Ownership, current_umask, is_there
from kafkalog.storage.publish import make_folders
from kafkalog.storage.store import short_repr
from kafkalog.storage.unfinished import NAME_BYTES, OPEN_FOLDER, UNFINISHED_MODE, is_marked

from ..errors import SparkSourceError
from .target import OWN_FOLDER, bad_target, busy

LOCK: Final = f"{OWN_FOLDER}/lock"
SYNC_BYTES: Final = 16 << 20
MOST_NESTED: Final = 100  # folders in a staging folder, of which an ingest makes two or three
# From a file system without hard links; the lock still keeps runs apart there.
NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class SteadyFile(io.RawIOBase):
    """A file that is flushed while it is written, so that the final sync is short."""

    def __init__(self, raw: io.FileIO) -> None:
        super().__init__()
        self.raw = raw
        self.unsynced = 0
        self.syncing: threading.Thread | None = None

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.raw.tell()

    def write(self, data: object) -> int:
        remaining = memoryview(data).cast("B")  # type: ignore[arg-type]
        size = len(remaining)
        while remaining:
            remaining = remaining[self.raw.write(remaining) :]
        self.unsynced += size
        if self.unsynced >= SYNC_BYTES and (self.syncing is None or not self.syncing.is_alive()):
            self.unsynced = 0
            self.syncing = threading.Thread(target=self._sync_early, name="kafkalog-sync", daemon=True)
            self.syncing.start()
        return size

    def _sync_early(self) -> None:
        # An error here comes again in sync(), which raises it.
        with suppress(OSError, ValueError):
            os.fdatasync(self.raw.fileno())

    def sync(self) -> None:
        """Return when everything is on the disk."""
        os.fsync(self.raw.fileno())

    def close(self) -> None:
        if self.syncing is not None:
            self.syncing.join()
            self.syncing = None
        super().close()


class LocalTarget:
    """A folder; see `Target` for what its methods promise."""

    # The kernel releases the lock when its process ends, so everything in staging is of runs that have ended.
    staged_are_dead = True

    def __init__(self, root: str) -> None:
        self.root = root

    def __repr__(self) -> str:
        return f"LocalTarget({short_repr(self.root)})"

    @property
    def name(self) -> str:
        return self.root

    def owner(self) -> int | None:
        try:
            return os.stat(self.root).st_uid
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed("", "looking it up", error) from error

    def size(self, path: str) -> int | None:
        try:
            with self._folder(os.path.dirname(path)) as folder:
                return os.stat(os.path.basename(path), dir_fd=folder, follow_symlinks=False).st_size
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed(path, "looking it up", error) from error

    def unfinished(self, folder: str) -> list[str]:
        return self.list(folder)

    def list(self, folder: str) -> list[str]:
        try:
            with self._folder(folder) as descriptor:
                return sorted(os.listdir(descriptor))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._failed(folder, "listing", error) from error

    def read(self, path: str) -> bytes:
        with self.open(path) as file:
            try:
                return bytes(file.read())
            except OSError as error:
                raise self._failed(path, "reading", error) from error

    def require_room(self, paths: Iterable[str]) -> None:
        """Names that are short enough, in folders that are not links, on this file system, and writable."""
        try:
            with self._folder("") as root:
                device = os.fstat(root).st_dev
            for folder, group in groupby(sorted(paths), os.path.dirname):
                for path in group:
                    self._require_short(path)
                self._require_movable(folder, device)
        except OSError as error:
            raise self._failed("", "looking it up", error) from error

    def _require_short(self, path: str) -> None:
        for part in path.split("/"):
            size = len(os.fsencode(part))
            if size > NAME_BYTES:
                raise bad_target(self._absolute(path), f"a name of {size} bytes; at most {NAME_BYTES} are possible")

    def _require_movable(self, folder: str, device: int) -> None:
        """SparkSourceError unless a staged file can be moved to the folder, or to one that is made there."""
        while folder:
            try:
                with self._folder(folder) as descriptor:
                    if os.fstat(descriptor).st_dev != device:
                        raise bad_target(self._absolute(folder), "on another file system than the target")
                    if not os.access(".", os.W_OK | os.X_OK, dir_fd=descriptor, effective_ids=True):
                        raise bad_target(self._absolute(folder), "not writable; give it to the user who runs the ingest")
                return
            except FileNotFoundError:
                folder = os.path.dirname(folder)

    def publish(self, path: str, content: bytes, unfinished: str) -> None:
        try:
            with self.output(unfinished) as file:
                file.write(content)
            with self._folder(os.path.dirname(path), make=True) as after, self._folder(os.path.dirname(unfinished)) as before:
                self._link(os.path.basename(unfinished), os.path.basename(path), before, after)
                os.fsync(after)
        except FileExistsError:
            raise busy(self.root, f" and has published {path}") from None
        except OSError as error:
            raise self._failed(path, "writing", error) from error

    def _link(self, source: str, destination: str, before: int, after: int) -> None:
        try:
            # A link never replaces a file: if two runs pass a lock that the file system ignores, one fails here.
            os.link(source, destination, src_dir_fd=before, dst_dir_fd=after, follow_symlinks=False)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            if is_there(destination, after):
                raise FileExistsError(errno.EEXIST, "published", destination) from None
            os.rename(source, destination, src_dir_fd=before, dst_dir_fd=after)

    @contextmanager
    def output(self, path: str) -> Iterator[Any]:
        try:
            with self._folder(os.path.dirname(path), make=True) as folder:
                descriptor = self._open_file(path, folder, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
                with open(descriptor, "wb", buffering=0) as raw, SteadyFile(raw) as file:
                    yield file
                    file.sync()
                os.fsync(folder)
        except OSError as error:
            raise self._failed(path, "writing", error) from error

    def move(self, moves: Iterable[tuple[str, str]]) -> None:
        for folder, group in groupby(moves, lambda move: os.path.dirname(move[1])):
            try:
                with self._folder(folder, make=True) as descriptor:
                    for source, destination in group:
                        self._move(source, destination, descriptor)
                    os.fsync(descriptor)
            except OSError as error:
                raise self._failed(folder, "moving files there", error) from error

    def _move(self, source: str, destination: str, folder: int) -> None:
        name = os.path.basename(destination)
        try:
            with self._folder(os.path.dirname(source)) as staging:
                os.rename(os.path.basename(source), name, src_dir_fd=staging, dst_dir_fd=folder)
        except FileNotFoundError:
            if not is_there(name, folder):
                missing = self._absolute(destination)
                message = f"{missing}: missing, and so is {self._absolute(source)}; the target was changed by hand"
                raise StorageError(message, file=missing) from None

    def delete(self, paths: Iterable[str]) -> None:
        for folder, group in groupby(paths, os.path.dirname):
            try:
                with self._folder(folder) as descriptor:
                    for path in group:
                        with suppress(FileNotFoundError):
                            os.unlink(os.path.basename(path), dir_fd=descriptor)
                    os.fsync(descriptor)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise self._failed(folder, "deleting files there", error) from error

    def open(self, path: str) -> Any:
        try:
            with self._folder(os.path.dirname(path)) as folder:
                return open(self._open_file(path, folder, os.O_RDONLY), "rb")
        except OSError as error:
            raise self._failed(path, "opening", error) from error

    def remove(self, folder: str) -> None:
        parent, name = os.path.split(folder)
        try:
            with self._folder(parent) as above:
                with self._folder(folder):  # a folder, and no link
                    self._require_own(folder, above, name)
                shutil.rmtree(name, dir_fd=above)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise self._failed(folder, "removing", error) from error

    def _require_own(self, folder: str, above: int, name: str) -> None:
        """SparkSourceError if a folder there belongs neither to us nor to the target's owner, or is nested too deep."""
        allowed = self._owners()
        for place, _, _, descriptor in os.fwalk(name, dir_fd=above, follow_symlinks=False):
            owner = os.fstat(descriptor).st_uid
            found = self._absolute(folder) + place.removeprefix(name)
            if owner not in allowed:
                raise bad_target(found, f"belongs to user {owner}, so it is not emptied; look at it, then remove it")
            if place.count(os.sep) > MOST_NESTED:
                raise bad_target(found, "folders nested deeper than an ingest makes them; look at them, then remove them")

    def _owners(self) -> set[int]:
        """The users who may have made what is in our own folder: we, or those who can change the target anyway."""
        return {os.geteuid(), os.stat(self.root).st_uid, 0}

    @contextmanager
    def lock(self) -> Iterator[None]:
        try:
            with self._folder(OWN_FOLDER, make=True) as folder:
                with suppress(FileExistsError):
                    os.close(self._open_file(LOCK, folder, os.O_RDWR | os.O_CREAT | os.O_EXCL))
                descriptor = self._open_file(LOCK, folder, os.O_RDWR)
        except OSError as error:
            raise self._failed(LOCK, "making the lock", error) from error
        try:
            self._lock(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        try:
            # The kernel releases it when the process ends, however it ends.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise busy(self.root, "") from None

    # -- names below the target ----------------------------------------------------------------------------------------------

    def _absolute(self, path: str) -> str:
        return os.path.join(self.root, path)

    def _failed(self, path: str, action: str, error: OSError) -> OSError:
        return error if isinstance(error, StorageError) else write_error(self._absolute(path), f"{action} failed", error)

    @contextmanager
    def _folder(self, path: str, *, make: bool = False) -> Iterator[int]:
        """A descriptor of a folder, walked name by name; SparkSourceError at a link. New folders are durable."""
        if make:
            _make_root(self.root)
        descriptor = os.open(self.root, OPEN_FOLDER & ~os.O_NOFOLLOW)
        try:
            parts = path.split("/") if path else []
            for depth, part in enumerate(parts, 1):
                above, descriptor = descriptor, -1
                try:
                    descriptor = self._enter("/".join(parts[:depth]), part, above, make)
                finally:
                    os.close(above)
            yield descriptor
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _enter(self, path: str, part: str, above: int, make: bool) -> int:
        try:
            descriptor = os.open(part, OPEN_FOLDER, dir_fd=above)
            _hand_over_folder(descriptor, above)
            return descriptor
        except FileNotFoundError:
            if not make:
                raise
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            raise self._unexpected(path, os.stat(part, dir_fd=above, follow_symlinks=False), "a folder") from None
        with suppress(FileExistsError):
            os.mkdir(part, UNFINISHED_MODE if _is_for_another(above) else 0o777, dir_fd=above)
        os.fsync(above)
        return self._enter(path, part, above, make=False)

    def _open_file(self, path: str, folder: int, flags: int) -> int:
        """A descriptor of a regular file; SparkSourceError for anything else, links included."""
        name = os.path.basename(path)
        try:
            # O_NONBLOCK: opening a FIFO would wait.
            descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666, dir_fd=folder)
            if flags & os.O_EXCL:
                _hand_over(descriptor, folder)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
                raise
            raise self._unexpected(path, os.stat(name, dir_fd=folder, follow_symlinks=False), "a file") from None
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode):
            return descriptor
        os.close(descriptor)
        raise self._unexpected(path, found, "a file")

    def _unexpected(self, path: str, found: os.stat_result, expected: str) -> SparkSourceError:
        kinds = {stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a folder", stat.S_IFREG: "a file", stat.S_IFIFO: "a FIFO"}
        kind = kinds.get(stat.S_IFMT(found.st_mode), "something else")
        return bad_target(self._absolute(path), f"{kind} where an ingest has {expected}; look at it, then remove it")


def _is_for_another(folder: int) -> bool:
    """Whether we are root in the folder of another user, who will own what we make there."""
    return os.geteuid() == 0 and os.fstat(folder).st_uid != 0


def _hand_over(descriptor: int, folder: int) -> None:
    """Give a file that root just made in a user's target to the owner of its folder, who continues there."""
    owner = os.fstat(folder)
    if _is_for_another(folder) and os.fstat(descriptor).st_uid == 0:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def _hand_over_folder(descriptor: int, above: int) -> None:
    """The same for a folder, also for one that a killed run of root's left. Its mode marks it as made for this: any other folder
    of root's may have been renamed to its name."""
    if _is_for_another(above) and is_marked(found := os.fstat(descriptor)):
        owner = os.fstat(above)
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
        os.fchmod(descriptor, 0o777 & ~current_umask() | found.st_mode & stat.S_ISGID)


def _make_root(folder: str) -> None:
    """Make the folder of a target and those above it, durably; they belong to us."""
    if not os.path.isdir(folder):
        make_folders(LocalFs(), os.path.realpath(folder), Ownership(os.geteuid(), os.getegid()))
