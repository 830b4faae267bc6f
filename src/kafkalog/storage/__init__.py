"""Where bytes live: local files and object stores behind one reading interface."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from kafkalog.errors import StorageError, UsageError
from kafkalog.storage.failures import read_error
from kafkalog.storage.local import LocalFile, LocalStore
from kafkalog.storage.store import ByteSource, Entry, Fingerprint, Store

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

__all__ = [
    "ByteSource",
    "Entry",
    "Fingerprint",
    "LocalFile",
    "LocalStore",
    "Store",
    "is_file_uri",
    "local_path",
    "open_store",
    "path_of_file_uri",
]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
# Hadoop and Spark write one slash where there is no host.
_FILE_SCHEME = re.compile("file:/", re.IGNORECASE)


def open_store(path: str | os.PathLike[str], *, filesystem: FileSystem | None = None) -> tuple[Store, str]:
    """The store that holds `path`, and the path as that store spells it; StorageError if nothing is there.

    A plain path or a `file:` URI is local; `s3://`, `gs://`, `abfs://`, `hdfs://` go through `pyarrow.fs`, with the endpoint,
    region and credentials from the URI's query or the usual AWS environment variables. With `filesystem`, `path` is a path in
    it.
    """
    text = os.fsdecode(path)
    if not text:
        raise UsageError(
            "the path is empty; give a log folder, a topic-partition folder, a .log file or a URI such as s3://bucket/folder"
        )
    scheme = _SCHEME.match(text)
    if filesystem is not None and filesystem.type_name != "local":
        from kafkalog.storage.object_store import store_of  # pyarrow is loaded only for what needs it

        return store_of(filesystem, text)
    if is_file_uri(text):
        return _open_local(path_of_file_uri(text))
    if scheme is None:
        return _open_local(text)
    from kafkalog.storage.object_store import store_of_uri

    return store_of_uri(text)


def is_file_uri(place: str) -> bool:
    """Whether a place is a URI of a local file: `file:/folder`, `file:///folder` or `file://localhost/folder`."""
    return _FILE_SCHEME.match(place) is not None


def local_path(place: str | os.PathLike[str]) -> str:
    """The path of a place on a disk of this machine; UsageError for a URI of an object store or another machine."""
    text = os.fsdecode(place)
    if is_file_uri(text):
        return path_of_file_uri(text)
    if _SCHEME.match(text):
        raise UsageError(f"{text}: not on a disk of this machine; give a path, or write ./{text} if that is its name")
    return text


def path_of_file_uri(uri: str) -> str:
    """The local path of a `file:` URI; UsageError for a file on another machine."""
    parts = urlsplit(uri, allow_fragments=False)
    if parts.netloc not in ("", "localhost"):
        raise UsageError(f"{uri}: a file on another machine; write file:///folder for a path of this one")
    # Two leading slashes would stay two: POSIX does not define what they mean.
    return unquote(re.sub("^/+", "/", parts.path), errors="surrogateescape")


def _open_local(text: str) -> tuple[Store, str]:
    try:
        # abspath would drop `link/..` from the text, where the kernel goes to the parent of the link's target.
        path = os.path.realpath(text) if ".." in text.split("/") else os.path.abspath(text)
    except (OSError, ValueError) as error:
        raise read_error(text, "not a path", error) from error
    store = LocalStore(path)
    if store.stat(path) is None:
        raise StorageError(f"{path}: no such file or folder; {_nearest_folder(path)}", file=path)
    return store, path


def _nearest_folder(path: str) -> str:
    missing = path
    while not os.path.lexists(os.path.dirname(missing)):
        missing = os.path.dirname(missing)
    folder = os.path.dirname(missing)
    if os.path.islink(missing):
        return f"the target of the symbolic link {missing} does not exist"
    return f"{folder} exists, but has no {os.path.basename(missing)!r}"
