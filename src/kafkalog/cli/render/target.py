"""Where output goes: standard output, or a file that appears under its name only when it is complete."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from kafkalog.errors import StorageError, UsageError

STDOUT = "-"


class Sink(io.RawIOBase):
    """Writes everything to a file descriptor at once: nothing waits in a buffer when something fails."""

    def __init__(self, descriptor: int, name: str) -> None:
        super().__init__()
        self.descriptor = descriptor
        self.target = name
        self.written = 0
        self.released = False

    def release(self) -> None:
        """Drop later writes: Arrow's writers write their end even when thrown away, and the number may be another file's."""
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
                from kafkalog.storage.failures import CANNOT_WRITE, write_error

                raise write_error(self.target, CANNOT_WRITE, error) from error
            remaining = remaining[done:]
        self.written += size
        return size

    def tell(self) -> int:
        return self.written


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
    # Here: a help text needs only a constant of this module.
    from kafkalog.storage import local_path
    from kafkalog.storage.failures import writing
    from kafkalog.storage.publish import streamed_file

    path = os.path.realpath(local_path(output))
    with writing(output):
        is_special = os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode)
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC) if is_special else -1
    if not is_special:
        with streamed_file(path, output) as descriptor:
            yield Sink(descriptor, output)
        return
    try:
        yield Sink(descriptor, output)
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
