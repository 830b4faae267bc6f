"""Read on behind sectors that the device cannot give."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from kafkalog.errors import StorageError

from .store import ByteSource, Fingerprint

STEP = 4096


class PatchedSource:
    """A source with zeros where `source` fails with an I/O error; `on_failure(position, size)` hears of each such place once."""

    def __init__(self, source: ByteSource, on_failure: Callable[[int, int], None]) -> None:
        self._source = source
        self._on_failure = on_failure
        self._failed: set[int] = set()

    @property
    def path(self) -> str:
        return self._source.path

    @property
    def size(self) -> int:
        return self._source.size

    @property
    def fingerprint(self) -> Fingerprint:
        return self._source.fingerprint

    @property
    def minimum_gap(self) -> int:
        return self._source.minimum_gap

    def read_into(self, position: int, target: memoryview) -> int:
        try:
            return self._source.read_into(position, target)
        except StorageError as error:
            if error.errno != errno.EIO:
                raise
        return self._read_in_steps(position, target)

    def _read_in_steps(self, position: int, target: memoryview) -> int:
        """Fill `target` piece by piece, along the boundaries of 4 KiB that a disk fails in."""
        done = 0
        while done < len(target) and position + done < self.size:
            here = position + done
            size = min(STEP - here % STEP, len(target) - done, self.size - here)
            try:
                done += self._source.read_into(here, target[done : done + size])
            except StorageError as error:
                if error.errno != errno.EIO:
                    raise
                target[done : done + size] = bytes(size)
                done += size
                self._note(here - here % STEP)
        return done

    def _note(self, start: int) -> None:
        if start not in self._failed:
            self._failed.add(start)
            self._on_failure(start, min(STEP, self.size - start))

    def read(self, position: int, size: int) -> bytes:
        target = bytearray(max(0, min(size, self.size - position)))
        return bytes(target[: self.read_into(position, memoryview(target))])

    def refresh(self) -> int:
        return self._source.refresh()

    def fileno(self) -> int | None:
        """None, so that every read passes through here."""
        return None

    def data_ranges(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        return self._source.data_ranges(start, stop)

    def close(self) -> None:
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()
