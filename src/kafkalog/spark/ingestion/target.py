"""The place that an ingest writes to: a local folder or an object store, behind the few operations that its protocol needs.

Paths are relative to the target. What is published is durable and whole: a reader sees a file under its name completely or not
at all.
"""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import secrets
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

from kafkalog.errors import StorageError, path_text
from kafkalog.storage import path_of_file_uri

from ..errors import TARGET_BUSY, SparkSourceError

if TYPE_CHECKING:
    from pyarrow import fs

LOCK: Final = "_kafkalog/lock"
CLAIMS: Final = "_kafkalog/claims"
SYNC_BYTES: Final = 16 << 20
HINTS: Final = {
    errno.ENOSPC: "; free some space, or choose another target",
    errno.EACCES: "; choose a folder that you may write to",
    errno.EROFS: "; choose a folder that you may write to",
    errno.ENOTDIR: "; a part of the path is a file",
}


class Target(Protocol):
    """What the protocol of an ingest asks of its storage."""

    @property
    def name(self) -> str:
        """How people write it."""
        ...

    def size(self, path: str) -> int | None:
        """Bytes of a file, None if there is none."""
        ...

    def list(self, folder: str) -> list[str]:
        """The names in a folder, sorted; empty where there is no folder."""
        ...

    def read(self, path: str) -> bytes: ...

    def publish(self, path: str, content: bytes, unfinished: str) -> None:
        """Write a file that no one has written before; it appears whole, and stays. `unfinished` may be its name until then."""
        ...

    @contextmanager
    def output(self, path: str) -> Iterator[Any]:
        """A new file open for writing, durable when the block has ended well."""
        ...

    def move(self, moves: Iterable[tuple[str, str]]) -> None:
        """Give each file its new name, durably; what has it already is left alone, so that a broken move can be done again."""
        ...

    def remove(self, folder: str) -> None:
        """Remove a folder with all that it holds."""
        ...

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the target for one run; SparkSourceError while another run holds it."""
        ...


def open_target(place: str) -> Target:
    """The target at a path or URI; nothing is made yet."""
    place = _without_file_scheme(place)
    if "://" in place:
        from kafkalog.storage.object_store import filesystem_of_uri

        return ObjectTarget(*filesystem_of_uri(place))
    return LocalTarget(os.path.abspath(place))


def _failed(path: str, action: str, cause: OSError) -> StorageError:
    number = cause.errno or 0
    text = os.strerror(number) if number else str(cause)
    failure = StorageError(f"{path}: {action} failed: {text}{HINTS.get(number, '')}", file=path)
    failure.errno = cause.errno
    return failure


def _busy(name: str, holder: str, advice: str) -> SparkSourceError:
    return SparkSourceError(TARGET_BUSY, f"{path_text(name)}: another ingest is at work here{holder}; {advice}")


class SteadyFile(io.RawIOBase):
    """A file that goes to the disk while it is written, so that its end does not have to wait for all of it."""

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
        # What fails here fails again in sync(), which tells.
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
    """A folder of this machine, or one that all workers mount."""

    def __init__(self, root: str) -> None:
        self.root = root

    @property
    def name(self) -> str:
        return self.root

    def size(self, path: str) -> int | None:
        try:
            return os.stat(self._absolute(path)).st_size
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _failed(self._absolute(path), "looking it up", error) from error

    def list(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self._absolute(folder)))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _failed(self._absolute(folder), "listing", error) from error

    def read(self, path: str) -> bytes:
        try:
            return Path(self._absolute(path)).read_bytes()
        except OSError as error:
            raise _failed(self._absolute(path), "reading", error) from error

    def publish(self, path: str, content: bytes, unfinished: str) -> None:
        final = self._absolute(path)
        folders = {os.path.dirname(final)}
        try:
            self._make_folders(os.path.dirname(final), folders)
            with self.output(unfinished) as file:
                file.write(content)
            try:
                # A link never replaces: of two runs that pass a lock which the file system does not honour, one fails here.
                os.link(self._absolute(unfinished), final)
            except PermissionError:  # a file system without links
                os.rename(self._absolute(unfinished), final)
            self._sync_folders(folders)
        except FileExistsError:
            raise _busy(self.root, f" and has published {path}", "run this again when it has ended") from None
        except OSError as error:
            raise _failed(final, "writing", error) from error

    @contextmanager
    def output(self, path: str) -> Iterator[Any]:
        final = self._absolute(path)
        folders = {os.path.dirname(final)}
        try:
            self._make_folders(os.path.dirname(final), folders)
            with open(final, "xb", buffering=0) as raw, SteadyFile(raw) as file:
                yield file
                file.sync()
            self._sync_folders(folders)
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise _failed(final, "writing", error) from error

    def move(self, moves: Iterable[tuple[str, str]]) -> None:
        folders: set[str] = set()
        for source, destination in moves:
            before, after = self._absolute(source), self._absolute(destination)
            try:
                self._make_folders(os.path.dirname(after), folders)
                os.rename(before, after)
            except FileNotFoundError:
                if not os.path.exists(after):
                    raise StorageError(f"{after}: gone, and so is {before}; the target was changed by hand", file=after) from None
            except OSError as error:
                raise _failed(after, "moving a file there", error) from error
            folders.add(os.path.dirname(after))
        self._sync_folders(folders)

    def _make_folders(self, folder: str, made: set[str]) -> None:
        """Make the folder and those above it; each that gains a name is to be made durable."""
        if os.path.isdir(folder):
            return
        self._make_folders(os.path.dirname(folder), made)
        with suppress(FileExistsError):
            os.mkdir(folder)
        made.add(os.path.dirname(folder))

    def remove(self, folder: str) -> None:
        try:
            shutil.rmtree(self._absolute(folder))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _failed(self._absolute(folder), "removing", error) from error

    @contextmanager
    def lock(self) -> Iterator[None]:
        path = self._absolute(LOCK)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise _failed(path, "making the lock", error) from error
        try:
            self._take(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _take(self, descriptor: int) -> None:
        try:
            # The kernel lets go of it when the process ends, however it ends.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _busy(self.root, "", "run this again when it has ended") from None

    def _absolute(self, path: str) -> str:
        return os.path.join(self.root, path)

    def _sync_folders(self, folders: Iterable[str]) -> None:
        for folder in sorted(folders):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


class ObjectTarget:
    """A prefix of an object store. A key appears when its upload is complete; to move is to copy within the store."""

    def __init__(self, filesystem: fs.FileSystem, prefix: str, root: str) -> None:
        self.filesystem = filesystem
        self.prefix = prefix
        self.root = root

    @property
    def name(self) -> str:
        return self.prefix + self.root

    def size(self, path: str) -> int | None:
        info = self._call("looking it up", path, self.filesystem.get_file_info, self._inner(path))
        return info.size if info.is_file else None

    def list(self, folder: str) -> list[str]:
        from pyarrow import fs

        selector = fs.FileSelector(self._inner(folder), allow_not_found=True)
        found = self._call("listing", folder, self.filesystem.get_file_info, selector)
        return sorted(info.base_name for info in found)

    def read(self, path: str) -> bytes:
        with self._call("opening", path, self.filesystem.open_input_file, self._inner(path)) as file:
            return bytes(self._call("reading", path, file.readall))

    def publish(self, path: str, content: bytes, unfinished: str) -> None:
        if self.size(path) is not None:
            raise _busy(self.name, f" and has published {path}", "run this again when it has ended")
        self._call("writing", path, self._write, path, content)

    def _write(self, path: str, content: bytes) -> None:
        with self.filesystem.open_output_stream(self._inner(path)) as stream:
            stream.write(content)

    @contextmanager
    def output(self, path: str) -> Iterator[Any]:
        file = self._call("writing", path, self.filesystem.open_output_stream, self._inner(path))
        try:
            yield file
            self._call("writing", path, file.close)
        except BaseException:
            # Whatever arrives of it lies among unpublished files.
            with suppress(OSError):
                file.close()
            raise

    def move(self, moves: Iterable[tuple[str, str]]) -> None:
        for source, destination in moves:
            if self.size(source) is not None:
                self._call("copying a file there", destination, self._copy, source, destination)
            elif self.size(destination) is None:
                raise StorageError(f"{self.name}/{destination}: gone, and so is {source}; the target was changed by hand")

    def _copy(self, source: str, destination: str) -> None:
        self.filesystem.copy_file(self._inner(source), self._inner(destination))
        self.filesystem.delete_file(self._inner(source))

    def remove(self, folder: str) -> None:
        with suppress(FileNotFoundError):
            self._call("removing", folder, self.filesystem.delete_dir, self._inner(folder))

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Written first and listed then: of two runs at the same time at least one sees the other."""
        own = f"{secrets.token_hex(8)}.json"
        holder = {"host": socket.gethostname(), "process": os.getpid(), "since": int(time.time())}
        self._call("writing", CLAIMS, self._write, f"{CLAIMS}/{own}", json.dumps(holder).encode())
        try:
            for other in self.list(CLAIMS):
                if other != own:
                    self._require_dead(f"{CLAIMS}/{other}")
            yield
        finally:
            self._call("removing", CLAIMS, self.filesystem.delete_file, self._inner(f"{CLAIMS}/{own}"))

    def _require_dead(self, claim: str) -> None:
        """Remove the claim of a run that was killed on this machine; that of any other run stands."""
        holder = json.loads(self.read(claim))
        if holder["host"] == socket.gethostname() and not os.path.exists(f"/proc/{holder['process']}"):
            self._call("removing", claim, self.filesystem.delete_file, self._inner(claim))
            return
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(holder["since"]))
        raise _busy(
            self.name,
            f" (process {holder['process']} on {holder['host']}, since {since})",
            f"run this again when it has ended, or, if it was killed, remove {self.name}/{claim}",
        )

    def _inner(self, path: str) -> str:
        return f"{self.root}/{path}"

    def _call(self, action: str, path: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StorageError(f"{self.name}/{path}: {action} failed: {str(error).partition(' Detail: ')[0]}") from error


def is_within(path: str, folder: str) -> bool:
    """Whether a path or URI lies at or under a folder, however both are spelled."""
    inner, outer = _plain_place(path), _plain_place(folder)
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


def _plain_place(place: str) -> str:
    """A place in the one spelling that others of it have, too: without links, credentials and what a query says."""
    place = _without_file_scheme(place)
    if "://" not in place:
        return os.path.realpath(place)
    parts = urlsplit(place, allow_fragments=False)
    scheme = "s3" if parts.scheme in ("s3a", "s3n") else parts.scheme
    return f"{scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")


def _without_file_scheme(place: str) -> str:
    return path_of_file_uri(place) if place.lower().startswith("file://") else place


