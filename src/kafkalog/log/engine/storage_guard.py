"""What a failing disk means for a log: the first failure is reported, and from then on nothing is done any more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kafkalog.errors import LogStorageFailure


class StorageGuard:
    """Turns failures of the file system into LogStorageFailure. After one, nobody knows what is on the disk."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.failure: OSError | None = None

    @contextmanager
    def doing(self, action: str) -> Iterator[None]:
        """`action` may fail, and is refused if one failed before."""
        if self.failure is not None:
            raise LogStorageFailure(f"{self.folder}: {action} refused after a failure before ({self.failure}); open it again")
        try:
            yield
        except OSError as error:
            self.failure = error
            raise LogStorageFailure(f"{self.folder}: {action} failed: {error}") from error
