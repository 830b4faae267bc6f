"""Object stores and other remote file systems through `pyarrow.fs`: ranged reads only, no read-ahead and no cache.

A path is spelled `s3://bucket/key`, without the credentials and options that the user's URI may carry: paths end up in tables and
messages.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit, urlunsplit

import pyarrow as pa
from pyarrow import fs

from kafkalog.errors import SegmentChanged, StorageError, UnsupportedFormat, UsageError
from kafkalog.storage.failures import object_error
from kafkalog.storage.store import (
    Entry,
    Fingerprint,
    Kind,
    OpenedSource,
    is_plain_name,
    read_whole,
    require_plain_name,
    short_repr,
)

# At 100 MB/s these bytes take 0.7 ms, less than the first byte of another request.
MINIMUM_GAP = 65536

# S3 answers a listing after 20 to 100 ms, so this hides most of the waiting; a small store of one's own still keeps up.
REQUESTS_AT_ONCE = 16

SCHEMES = ("s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")

# Characters that mean something in a URI's path, and `%`, which the user may already have used to write others.
_SAFE_IN_PATH = "/%:@!$&'()*+,;=~-._"
# Opening in these fails at once for what is not an object; in others it could wait on a FIFO.
_ONLY_OBJECTS = ("s3", "gcs", "abfs")
# Any byte that is not frequent.
_UNREAD = 0xA5
CHECK_PATH = "check the path"
_FAILURES = (OSError, ValueError, pa.ArrowException)


def store_of_uri(uri: str) -> tuple[ObjectStore, str]:
    """The store that `uri` names and the path in it; StorageError if nothing is there or it cannot be reached."""
    filesystem, prefix, path = filesystem_of_uri(uri)
    return _checked(ObjectStore(filesystem, prefix), prefix + path)


def filesystem_of_uri(uri: str) -> tuple[fs.FileSystem, str, str]:
    """The file system that `uri` names, the prefix that people see before its paths, and the path in it."""
    try:
        # Without fragments: `#` is an ordinary character of a key.
        parts = urlsplit(uri, allow_fragments=False)
    except ValueError as error:
        raise UsageError(f"{uri.partition('?')[0].rpartition('@')[2]}: not a URI: {error}") from None
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    if parts.scheme not in SCHEMES:
        allowed = ", ".join(f"{scheme}://" for scheme in ("file", *SCHEMES))
        raise UsageError(f"{shown}: unknown storage {parts.scheme}://; give a path or one of {allowed}")
    # Hadoop's names for S3 are what Spark users have at hand.
    scheme = "s3" if parts.scheme in ("s3a", "s3n") else parts.scheme
    encoded = urlunsplit((scheme, parts.netloc, quote(parts.path, safe=_SAFE_IN_PATH), parts.query, ""))
    try:
        filesystem, path = fs.FileSystem.from_uri(encoded)
    except _FAILURES as error:
        # No cause is kept and the message is cleaned: the library may repeat the URI with its credentials.
        text = _without_secrets(str(error).replace(encoded, shown), parts)
        if isinstance(error, OSError):
            raise StorageError(f"{shown}: connecting failed: {text}", file=shown) from None
        raise UsageError(f"{shown}: not a usable {scheme}:// URI: {text}") from None
    host = parts.netloc.rpartition("@")[2]
    prefix = f"{scheme}://{host}" if path.startswith("/") else f"{scheme}://"
    return filesystem, prefix, path.rstrip("/")


def _without_secrets(text: str, parts: SplitResult) -> str:
    secrets = parts.netloc.rpartition("@")[0].split(":") + [value for _, value in parse_qsl(parts.query)]
    for secret in secrets:
        for spelling in (secret, unquote(secret), quote(secret, safe="")):
            text = text.replace(spelling, "***") if spelling else text
    return text


def store_of(filesystem: fs.FileSystem, path: str) -> tuple[ObjectStore, str]:
    """The store of a ready file system; `path` as that file system spells it, or with its scheme before it."""
    scheme, found, rest = path.partition("://")
    prefix = f"{scheme}://" if found else ""
    return _checked(ObjectStore(filesystem, prefix), prefix + (rest if found else path).rstrip("/"))


def _checked(store: ObjectStore, path: str) -> tuple[ObjectStore, str]:
    if store.stat(path) is None:
        raise StorageError(f"{path}: no such object or folder; check the bucket and the spelling of the key", file=path)
    return store, path


class ObjectFile(OpenedSource):
    """An object read by ranges: one request for each read.

    A handle of Arrow's is used by one thread at a time; a read takes an idle one or opens another.
    """

    minimum_gap = MINIMUM_GAP

    def __init__(self, store: ObjectStore, path: str) -> None:
        self._store = store
        self._path = path
        self._closed = False
        handle, self._fingerprint = store.open_object(path)
        self._idle = [handle]

    def __repr__(self) -> str:
        return f"ObjectFile({short_repr(self._path)}, {self.size} bytes)"

    def fileno(self) -> int | None:
        return None

    def read_into(self, position: int, target: memoryview) -> int:
        wanted = min(len(target), max(self.size - position, 0))
        done = 0
        while done < wanted:
            done += self._read_range(position + done, target[done:wanted])
        return done

    def refresh(self) -> int:
        handle, now = self._store.open_object(self._path)
        before = self._fingerprint
        # An object grows only by being replaced with a longer copy; the same size with another tag means other content.
        if now.size < before.size or (now.size == before.size and now.identity != before.identity):
            raise self._changed(min(now.size, before.size), now)
        # The earlier handles end where the object ended then.
        self._idle, self._fingerprint = [handle], now
        return now.size

    def data_ranges(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        stop = min(stop, self.size)
        if start < stop:
            yield start, stop

    def close(self) -> None:
        self._closed = True
        self._idle.clear()

    def _read_range(self, position: int, target: memoryview) -> int:
        """The number of bytes put into `target`, at least one."""
        if self._closed:
            raise StorageError(f"{self._path}: read after it was closed", file=self._path)
        idle = self._idle
        try:
            handle = idle.pop()
        except IndexError:
            handle, now = self._store.open_object(self._path)
            if now.size < self.size:
                raise self._changed(position, now) from None
        try:
            read = _read_counted if self._store.counts_bytes else self._read_s3
            count = read(handle, position, target)
        except _FAILURES as error:
            self._raise_if_shorter(self.size, position)
            raise object_error(self._path, f"reading {len(target)} bytes at byte {position} failed", error, CHECK_PATH) from error
        idle.append(handle)
        if count == 0:
            self._raise_if_shorter(self.size, position)
            raise StorageError(f"{self._path}: the store sent nothing for byte {position}; try again", file=self._path)
        return count

    def _read_s3(self, handle: Any, position: int, target: memoryview) -> int:
        """Read from S3, where the count cannot be trusted: of an object that became shorter, Arrow 26 claims all bytes asked for.

        The bytes it did not read stay as they were, so `_UNREAD` at the end shows it. Where the object itself holds that byte,
        the check costs one request in 256 reads.
        """
        target[-1] = _UNREAD
        handle.seek(position)
        count: int = handle.readinto(target)
        if target[-1] == _UNREAD:
            self._raise_if_shorter(position + len(target), position)
        return count

    def _raise_if_shorter(self, size: int, position: int) -> None:
        """SegmentChanged if the object now has fewer than `size` bytes: stores answer such reads with errors of their own."""
        try:
            _, now = self._store.open_object(self._path)
        except StorageError:
            return
        if now.size < size:
            raise self._changed(position, now) from None

    def _changed(self, position: int, now: Fingerprint) -> SegmentChanged:
        expected = f"{self.size} bytes with tag {self._fingerprint.identity}"
        found = f"{now.size} bytes with tag {now.identity}"
        return SegmentChanged("changed", file=self._path, position=position, expected=expected, found=found)


def _read_counted(handle: Any, position: int, target: memoryview) -> int:
    content: bytes = handle.read_at(len(target), position)
    target[: len(content)] = content
    return len(content)


class ObjectStore:
    """Folders and files of a `pyarrow.fs` file system; `prefix` is what people see before its paths."""

    requests_at_once = REQUESTS_AT_ONCE

    def __init__(self, filesystem: fs.FileSystem, prefix: str = "") -> None:
        _allow_requests_at_once()
        self._filesystem = filesystem
        self._prefix = prefix
        innermost = filesystem
        while isinstance(innermost, fs.SubTreeFileSystem):
            innermost = innermost.base_fs
        self.counts_bytes = innermost.type_name != "s3"
        self._only_objects = innermost.type_name in _ONLY_OBJECTS

    def __repr__(self) -> str:
        return f"ObjectStore({short_repr(self._prefix or self._filesystem.type_name)})"

    def list(self, folder: str) -> list[Entry]:
        try:
            found = self._filesystem.get_file_info(fs.FileSelector(self._inner(folder), recursive=False))
        except _FAILURES as error:
            raise object_error(folder, "listing the folder failed", error, CHECK_PATH) from error
        return sorted((_entry(info) for info in found), key=lambda entry: entry.name)

    def stat(self, path: str) -> Entry | None:
        inner = self._inner(path)
        try:
            info = self._filesystem.get_file_info(inner)
        except _FAILURES as error:
            raise object_error(path, "looking it up failed", error, CHECK_PATH) from error
        return None if info.type == fs.FileType.NotFound else _entry(info)

    def open(self, path: str) -> ObjectFile:
        if not self._only_objects:
            entry = self.stat(path)
            if entry is not None and entry.kind != "file":
                raise UnsupportedFormat("not-a-file", file=path, detail=entry.problem or "a folder")
        return ObjectFile(self, path)

    def open_object(self, path: str) -> tuple[Any, Fingerprint]:
        """A handle for ranged reads of `path`, and the fingerprint from the same response."""
        try:
            file = self._filesystem.open_input_file(self._inner(path))
            return file, _fingerprint(path, file)
        except FileNotFoundError as error:
            entry = self.stat(path)
            if entry is not None and entry.kind == "folder":
                raise UnsupportedFormat("not-a-file", file=path, detail="a folder") from error
            raise object_error(path, "opening failed", error, CHECK_PATH) from error
        except _FAILURES as error:
            raise object_error(path, "opening failed", error, CHECK_PATH) from error

    def read_small(self, path: str, limit: int) -> bytes:
        with self.open(path) as source:
            return read_whole(source, limit)

    def join(self, folder: str, name: str) -> str:
        return f"{folder.rstrip('/')}/{require_plain_name(folder, name)}"

    def parent(self, path: str) -> str:
        folder = self._inner(path).rpartition("/")[0]
        return self._prefix + folder if folder else path

    def name(self, path: str) -> str:
        return self._inner(path).rpartition("/")[2]

    def _inner(self, path: str) -> str:
        return path.removeprefix(self._prefix)


def _allow_requests_at_once() -> None:
    """Arrow lists on threads of its own, eight by default, unless the user has chosen how many."""
    if "ARROW_IO_THREADS" not in os.environ and pa.io_thread_count() < REQUESTS_AT_ONCE:
        pa.set_io_thread_count(REQUESTS_AT_ONCE)


def _entry(info: fs.FileInfo) -> Entry:
    kind: Kind = "other"
    if info.type == fs.FileType.File:
        kind = "file"
    elif info.type == fs.FileType.Directory:
        kind = "folder"
    problem = "" if kind != "other" else "neither an object nor a folder"
    # A key may hold any characters, such as `a/../b`; as a file name it would lead elsewhere.
    if not is_plain_name(info.base_name):
        kind, problem = "other", "its name is not the name of a file"
    return Entry(info.base_name, kind, info.size or 0, info.mtime_ns or 0, problem)


def _fingerprint(path: str, file: Any) -> Fingerprint:
    """Size, tag and time of the open object; the store sent them when it opened, so they cost no request."""
    try:
        metadata = {key.lower(): value for key, value in (file.metadata() or {}).items()}
    except _FAILURES:  # a file system without metadata
        metadata = {}
    return Fingerprint(_text(metadata.get("etag")) or path, file.size(), _time_ns(_text(metadata.get("last-modified"))))


def _text(value: bytes | str | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""


def _time_ns(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return 0
    return int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()) * 1_000_000_000
