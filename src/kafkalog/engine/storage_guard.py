"""What a failing disk means for a log: the first failure is reported, and from then on nothing is done any more."""

from __future__ import annotations

from types import TracebackType

from kafkalog.errors import LogStorageFailure


class StorageGuard:
    """Turns failures of the file system into LogStorageFailure. After one, nobody knows what is on the disk."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.failure: OSError | None = None

    def fail(self, error: Exception) -> None:
        """From now on refuse everything: a file beside the log cannot be read, so nobody knows what the disk still holds."""
        self.failure = error if isinstance(error, OSError) else OSError(str(error))

    def doing(self, action: str) -> GuardedAction:
        """For `with`: `action` may fail, and is refused if one failed before."""
        return GuardedAction(self, action)


class GuardedAction:
    """Something that is done with the files of a log."""

    __slots__ = ("_action", "_guard")

    def __init__(self, guard: StorageGuard, action: str) -> None:
        self._guard = guard
        self._action = action

    def __enter__(self) -> None:
        guard = self._guard
        if guard.failure is not None:
            raise LogStorageFailure(f"{guard.folder}: {self._action} refused after a failure ({guard.failure}); open it again")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if isinstance(error, OSError):
            self._guard.failure = error
            raise LogStorageFailure(f"{self._guard.folder}: {self._action} failed: {error}") from error
