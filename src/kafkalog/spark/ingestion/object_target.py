"""A target in an object store, through `pyarrow.fs`. A key appears when its upload is complete; a move is a copy in the store.

What must happen once (taking the lease, publishing a commit) is a conditional put in S3. For Arrow's other stores there is none
here: the content is compared before it is written, so there only the lease keeps two runs apart.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

from kafkalog.errors import KafkaLogError, StorageError, path_text
from kafkalog.storage.failures import object_error
from kafkalog.storage.object_store import filesystem_of_uri
from kafkalog.storage.publish import publish_object
from kafkalog.storage.s3 import S3Requests
from kafkalog.storage.store import short_repr

from ..errors import STORAGE, SparkSourceError
from .lease import LEASE, Lease
from .target import bad_target, busy

if TYPE_CHECKING:
    from pyarrow import fs

LOGGER = logging.getLogger("kafkalog.spark")

S3_KEY_BYTES: Final = 1024


class Requests(Protocol):
    """The requests of the protocol besides reading and writing; keys as the store spells them."""

    @property
    def is_atomic(self) -> bool:
        """Whether a put compares and writes in one step."""
        ...

    def get(self, key: str) -> tuple[bytes, str] | None: ...

    def put(self, key: str, content: bytes, tag: str | None) -> str | None: ...

    def unfinished_uploads(self, prefix: str) -> Iterable[tuple[str, str]]: ...

    def abort_upload(self, key: str, identity: str) -> None: ...


def object_target(uri: str) -> ObjectTarget:
    """The target that a URI names."""
    filesystem, prefix, root = filesystem_of_uri(uri)
    if filesystem.type_name == "s3":
        return ObjectTarget(filesystem, prefix, root, lambda: S3Requests(uri, filesystem.region))
    return ObjectTarget(filesystem, prefix, root, lambda: PlainRequests(filesystem))


class PlainRequests:
    """Any other store: compares first, then writes; the content is its own tag. Unfinished uploads expire there."""

    is_atomic = False

    def __init__(self, filesystem: fs.FileSystem) -> None:
        self.filesystem = filesystem

    def get(self, key: str) -> tuple[bytes, str] | None:
        try:
            with self.filesystem.open_input_file(key) as file:
                content = bytes(file.readall())
        except FileNotFoundError:
            return None
        return content, content.hex()

    def put(self, key: str, content: bytes, tag: str | None) -> str | None:
        before = self.get(key)
        if (None if before is None else before[1]) != tag:
            return None
        with self.filesystem.open_output_stream(key) as stream:
            stream.write(content)
        return content.hex()

    def unfinished_uploads(self, prefix: str) -> Iterable[tuple[str, str]]:
        return ()

    def abort_upload(self, key: str, identity: str) -> None:
        return


class ObjectSlot:
    """One small object of a target: its lease, or a commit."""

    def __init__(self, target: ObjectTarget, path: str = LEASE) -> None:
        self.target = target
        self.path = path
        self.key = target.inner(path)

    @property
    def is_atomic(self) -> bool:
        return self.target.requests.is_atomic

    def read(self) -> tuple[bytes, str] | None:
        found: tuple[bytes, str] | None = self.target.ask("reading", self.path, self.target.requests.get, self.key)
        return found

    def write(self, content: bytes, tag: str | None) -> str | None:
        written: str | None = self.target.ask("writing", self.path, self.target.requests.put, self.key, content, tag)
        return written


class ObjectTarget:
    """A prefix of an object store; see `Target` for what its methods promise."""

    # A living run can lose its lease: only a commit with the number that it wants proves that it will never publish.
    staged_are_dead = False

    def __init__(self, filesystem: fs.FileSystem, prefix: str, root: str, make_requests: Callable[[], Requests]) -> None:
        self.filesystem = filesystem
        self.prefix = prefix
        self.root = root
        self.make_requests = make_requests
        self.lease: Lease | None = None

    def __repr__(self) -> str:
        return f"ObjectTarget({short_repr(self.name)})"

    @property
    def name(self) -> str:
        return self.prefix + self.root

    @cached_property
    def requests(self) -> Requests:
        """Made on demand: a task that only writes files does not need it."""
        return self.make_requests()

    def owner(self) -> int | None:
        return None

    def size(self, path: str) -> int | None:
        info = self.ask("looking it up", path, self.filesystem.get_file_info, self.inner(path))
        return info.size if info.is_file else None

    def unfinished(self, folder: str) -> list[str]:
        begun = {key.removeprefix(self.inner(folder) + "/").partition("/")[0] for key, _ in self._uploads(folder)}
        return sorted(begun.union(self.list(folder)))

    def list(self, folder: str) -> list[str]:
        from pyarrow import fs

        selector = fs.FileSelector(self.inner(folder), allow_not_found=True)
        found = self.ask("listing", folder, self.filesystem.get_file_info, selector)
        return sorted(info.base_name for info in found)

    def _uploads(self, folder: str) -> Sequence[tuple[str, str]]:
        try:
            return tuple(self.requests.unfinished_uploads(self.inner(folder) + "/"))
        except StorageError as error:  # not permitted, or not supported by the store: they only cost space
            LOGGER.warning("uploads of killed runs stay in the store: %s", path_text(str(error)))
            return ()

    def read(self, path: str) -> bytes:
        with self.open(path) as file:
            return bytes(self.ask("reading", path, file.readall))

    def require_room(self, paths: Iterable[str]) -> None:
        if self.filesystem.type_name != "s3":
            return
        for path in paths:
            size = len(self.inner(path).partition("/")[2].encode("utf-8", "surrogateescape"))
            if size > S3_KEY_BYTES:
                raise bad_target(f"{self.name}/{path}", f"a key of {size} bytes; at most {S3_KEY_BYTES} are possible")

    def publish(self, path: str, content: bytes, unfinished: str) -> None:
        if self.lease is not None:
            self.lease.require()
        if publish_object(ObjectSlot(self, path), content) is None:
            raise busy(self.name, f" and has published {path}")

    @contextmanager
    def output(self, path: str) -> Iterator[Any]:
        file = self.ask("writing", path, self.filesystem.open_output_stream, self.inner(path))
        try:
            yield file
            self.ask("writing", path, file.close)
        except BaseException:
            # Whatever is stored of it is among unpublished files.
            with suppress(OSError):
                file.close()
            raise

    def move(self, moves: Iterable[tuple[str, str]]) -> None:
        for source, destination in moves:
            if self.size(source) is not None and self._copied(source, destination):
                continue
            if self.size(destination) is None:
                raise StorageError(f"{self.name}/{destination}: missing, and so is {source}; the target was changed by hand")

    def _copied(self, source: str, destination: str) -> bool:
        """Whether the file was copied; False if another run has moved it meanwhile."""
        try:
            self.ask("copying a file there", destination, self.filesystem.copy_file, self.inner(source), self.inner(destination))
        except (StorageError, FileNotFoundError):
            if self.size(source) is not None:
                raise
            return False
        with suppress(FileNotFoundError):
            self.ask("removing", source, self._delete, source)
        return True

    def _delete(self, path: str) -> None:
        try:
            self.filesystem.delete_file(self.inner(path))
        except OSError:
            if self.size(path) is not None:
                raise

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            with suppress(FileNotFoundError):
                self.ask("deleting", path, self._delete, path)

    def open(self, path: str) -> Any:
        return self.ask("opening", path, self.filesystem.open_input_file, self.inner(path))

    def remove(self, folder: str) -> None:
        for key, identity in self._uploads(folder):
            try:
                self.requests.abort_upload(key, identity)
            except StorageError as error:
                LOGGER.warning("an upload of a killed run stays in the store: %s", path_text(str(error)))
        with suppress(FileNotFoundError):
            self.ask("removing", folder, self.filesystem.delete_dir, self.inner(folder))

    @contextmanager
    def lock(self) -> Iterator[None]:
        lease = Lease(ObjectSlot(self), self.name)
        with lease.held():
            if self.requests.is_atomic:
                self._require_conditions(lease)
            self.lease = lease
            try:
                yield
            except SparkSourceError as error:
                self._name_cause(lease, error)
                raise
            finally:
                self.lease = None

    def _name_cause(self, lease: Lease, error: SparkSourceError) -> None:
        """Raise the error that says so, if storage failed because another run took over and cleaned up."""
        if error.code != STORAGE:
            return
        try:
            lease.require()
        except SparkSourceError as cause:
            raise cause from error
        except StorageError:  # the original error says as much
            return

    def _require_conditions(self, lease: Lease) -> None:
        """SparkSourceError if the store ignores conditions, or boto3 and Arrow use different stores."""
        with lease.guard:
            if self.requests.put(self.inner(LEASE), b"{}", None) is not None:
                raise bad_target(
                    self.name,
                    "this store ignores If-None-Match, without which two runs at once could write records twice; "
                    "choose a store with conditional writes",
                )
            if self.size(LEASE) is None:
                raise bad_target(
                    self.name,
                    "Arrow does not find what boto3 has written: they use different endpoints or regions; "
                    "give both in the URI: s3://bucket/folder?region=…&endpoint_override=…",
                )

    def inner(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def ask(self, action: str, path: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (FileNotFoundError, KafkaLogError):
            raise
        except OSError as error:
            raise object_error(f"{self.name}/{path}", f"{action} failed", error) from error
