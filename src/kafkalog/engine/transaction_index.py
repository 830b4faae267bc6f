"""The .txnindex of a segment: the transactions whose abort marker is in it. The file is created with its first entry."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from kafkalog.errors import CorruptIndex, InvalidArgument, LogRefusal
from kafkalog.format.index import TXN_INDEX_ENTRY, TXN_INDEX_VERSION
from kafkalog.storage.fs import Fs, OpenFile

from .producer_state import CompletedTransaction

_ENTRY: Final = struct.Struct(">hqqqq")
assert _ENTRY.size == TXN_INDEX_ENTRY.itemsize
_PIECE_BYTES: Final = _ENTRY.size << 12  # read at once: a sparse file of any size is easily made


class AbortedTransaction(NamedTuple):
    """A transaction aborted by the marker at `last_offset`, and the last stable offset when the marker was written."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    @classmethod
    def of(cls, completed: CompletedTransaction, last_stable_offset: int) -> AbortedTransaction:
        return cls(completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset)


class TransactionIndex:
    """The aborted transactions of the segment that begins at `start_offset`, in the order of their markers.

    Its file stays open only while entries are added: a log may have more of them than a process may open files.
    """

    def __init__(self, start_offset: int, fs: Fs, path: str) -> None:
        self.path = path
        self._start_offset = start_offset
        self._fs = fs
        self._file: OpenFile | None = None
        self._last_offset: int | None = None
        self._has_file = fs.kind(path) != "missing"
        self._size = fs.size(path) if self._has_file else 0  # where the next entry goes: after everything in the file
        self._is_durable = False  # also for a file that existed: it may have been written without a sync

    @property
    def is_empty(self) -> bool:
        return self._size < _ENTRY.size

    def append(self, aborted: AbortedTransaction) -> None:
        if self._last_offset is not None and aborted.last_offset <= self._last_offset:
            raise InvalidArgument(
                f"{self.path}: a transaction ending at {aborted.last_offset} cannot follow one ending at {self._last_offset}"
            )
        self._last_offset = aborted.last_offset
        if self._file is None:
            self._file = self._fs.open(self.path, create=True)
            self._size = self._file.size
        self._has_file, self._is_durable = True, False
        self._file.write(self._size, _ENTRY.pack(TXN_INDEX_VERSION, *aborted))
        self._size += _ENTRY.size

    def all_aborted(self) -> list[AbortedTransaction]:
        return list(self._entries())

    def collect_aborted(self, fetch_offset: int, upper_bound_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """The aborted transactions with records from `fetch_offset` up to `upper_bound_offset`, as far as this index has them.

        The second value is True if later segments have no more of them.
        """
        found = []
        for aborted in self._entries():
            if aborted.last_offset >= fetch_offset and aborted.first_offset < upper_bound_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions that ended at `offset` or later."""
        last_offset = None
        for row, aborted in enumerate(self._entries()):
            if aborted.last_offset >= offset:
                self._truncate(row * _ENTRY.size)
                self._last_offset = last_offset
                return
            last_offset = aborted.last_offset

    def reset(self) -> None:
        """Drop all entries; an existing file stays, empty."""
        if self._has_file:
            self._truncate(0)
        self._last_offset = None

    def sanity_check(self) -> None:
        """Raise CorruptIndex if an entry cannot belong to this segment."""
        for aborted in self._entries():
            if aborted.last_offset < self._start_offset:
                raise CorruptIndex(f"{self.path}: a transaction ended at offset {aborted.last_offset}, before the segment begins")

    def rename_to(self, path: str) -> None:
        """Rename the file, if there is one."""
        try:
            if self._fs.kind(self.path) != "missing":
                self._fs.rename(self.path, path)
        finally:
            self.path = path

    def update_parent_folder(self, folder: str) -> None:
        """Follow the partition's folder to its new name."""
        self.path = os.path.join(folder, os.path.basename(self.path))

    def delete_if_exists(self) -> bool:
        """Delete the file; whether there was one."""
        self.close()
        with suppress(FileNotFoundError):
            self._fs.remove(self.path)
            return True
        return False

    def flush(self) -> None:
        if self._has_file and not self._is_durable:
            with self._opened() as file:
                file.sync()
            self._is_durable = True

    def release(self) -> None:
        """Close the file until it is needed again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def close(self) -> None:
        """Close the file; a closed index reads as empty."""
        self.release()
        self._has_file = False
        self._size = 0

    @contextmanager
    def _opened(self) -> Iterator[OpenFile]:
        """The existing file, opened."""
        if self._file is not None:
            yield self._file
            return
        file = self._fs.open(self.path)
        try:
            yield file
        finally:
            file.close()

    def _truncate(self, size: int) -> None:
        self._is_durable = False
        with self._opened() as file:
            file.truncate(size)
        self._size = min(self._size, size)

    def _entries(self) -> Iterator[AbortedTransaction]:
        if not self._has_file:
            return
        stop = self._size - self._size % _ENTRY.size
        for position in range(0, stop, _PIECE_BYTES):
            with self._opened() as file:
                stored = file.read(position, min(_PIECE_BYTES, stop - position))
            for version, *fields in _ENTRY.iter_unpack(stored):
                # Kafka checks only the first of the version's two bytes, and accepts a negative one.
                if version >> 8 > TXN_INDEX_VERSION:
                    raise LogRefusal(f"{self.path}: entries of version {version}, which is newer than {TXN_INDEX_VERSION}")
                yield AbortedTransaction(*fields)
