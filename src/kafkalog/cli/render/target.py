"""Where output goes: standard output, or a file that appears under its name only when it is complete."""

from __future__ import annotations

import errno
import io
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kafkalog.errors import StorageError, UsageError

STDOUT = "-"


class Sink(io.RawIOBase):
    """Writes all of what it is given to a file descriptor, at once: nothing waits in a buffer when something fails."""

    def __init__(self, descriptor: int, name: str) -> None:
        super().__init__()
        self.descriptor = descriptor
        self.target = name
        self.written = 0
        self.released = False

    def release(self) -> None:
        """Drop what still comes: Arrow's writers write their end even when thrown away, and the number may be another file's."""
        self.released = True

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return os.isatty(self.descriptor)

    def write(self, data: object) -> int:
        remaining = memoryview(data).cast("B")  # type: ignore[arg-type]
        size = len(remaining)
        while remaining and not self.released:
            try:
                done = os.write(self.descriptor, remaining)
            except BrokenPipeError:
                raise
            except OSError as error:
                raise write_error(self.target, error) from error
            remaining = remaining[done:]
        self.written += size
        return size

    def tell(self) -> int:
        return self.written


def write_error(target: str, cause: OSError) -> StorageError:
    hints = {
        errno.ENOSPC: "; free some space, or write to another disk",
        errno.EACCES: "; choose a folder that you can write to",
        errno.ENOENT: "; create the folder first",
        errno.EISDIR: "; give the name of a file in it",
    }
    number = cause.errno or 0
    failure = StorageError(f"{target}: cannot write: {os.strerror(number)}{hints.get(number, '')}", file=target)
    failure.errno = cause.errno
    return failure


@contextmanager
def open_target(output: str) -> Iterator[Sink]:
    """A sink for `output`. A regular file gets its name when the block ends well; after an error nothing of it is left."""
    with _open(output) as sink:
        try:
            yield sink
        finally:
            sink.release()


@contextmanager
def _open(output: str) -> Iterator[Sink]:
    if output == STDOUT:
        yield Sink(standard_output(), "standard output")
        return
    from kafkalog.storage import local_path  # here: of this module a help text needs only a constant

    path = Path(os.path.realpath(local_path(output)))
    try:
        existing = path.stat() if path.exists() else None
        special = existing is not None and not stat.S_ISREG(existing.st_mode)
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC) if special else -1
    except OSError as error:
        raise write_error(output, error) from error
    if not special:
        with _published(path, output, existing) as sink:
            yield sink
        return
    try:
        yield Sink(descriptor, output)
    finally:
        os.close(descriptor)


@contextmanager
def _published(path: Path, output: str, existing: os.stat_result | None) -> Iterator[Sink]:
    unfinished = path.with_name(f".{path.name[:200]}.{secrets.token_hex(6)}.inprogress")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise write_error(output, error) from error
    try:
        try:
            if existing is not None:
                os.fchmod(descriptor, stat.S_IMODE(existing.st_mode))
            yield Sink(descriptor, output)
            _call(output, os.fsync, descriptor)
        finally:
            os.close(descriptor)
        _call(output, os.replace, unfinished, path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise
    _sync_folder(path.parent, output)


def _call(output: str, function: object, *arguments: object) -> None:
    try:
        function(*arguments)  # type: ignore[operator]
    except OSError as error:
        raise write_error(output, error) from error


def _sync_folder(folder: Path, output: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise StorageError(
            f"{output}: written, but its folder could not be synced: it may be lost in a crash; run the command again"
        ) from error
    finally:
        os.close(descriptor)


def standard_output() -> int:
    """The descriptor of standard output; StorageError where there is none (`>&-`)."""
    try:
        os.fstat(1)
    except OSError as error:
        raise StorageError("standard output is closed; give --output FILE") from error
    return 1


def refuse_kafka_file(option: str, output: str) -> None:
    """UsageError if `output` is named like a file of a log: reading must never overwrite one."""
    from kafkalog.format.names import parse_file_name

    name = os.path.basename(output)
    if output != STDOUT and parse_file_name(name) is not None:
        raise UsageError(
            f"{option} {output}: this is the name of a Kafka file; choose another name so that no log is overwritten"
        )
