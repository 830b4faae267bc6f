"""The console script as a user types it: in a pipe, on a pseudo-terminal, in this process."""

from __future__ import annotations

import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path

from kafkalog.format.names import segment_file_name
from kafkalog.format.reference import Record, encode_batch

COMMAND = [sys.executable, "-m", "kafkalog"]
CTRL_C = b"\x03"


@dataclass(frozen=True)
class Ended:
    code: int
    out: bytes
    errors: str

    @property
    def text(self) -> str:
        return self.out.decode()


Run = Callable[..., Ended]


def run_child(*arguments: object, timeout: float = 240) -> Ended:
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, timeout=timeout, check=False)
    return Ended(done.returncode, done.stdout, done.stderr.decode())


def run_on_terminal(
    *arguments: object,
    columns: int = 100,
    lines: int = 40,
    timeout: float = 240,
    program: str = "",
    answers: Sequence[tuple[bytes, bytes]] = (),
) -> Ended:
    """Standard output and error are a terminal; what both wrote comes as `out`, with plain line ends.

    With `program`, that Python text runs instead of the console script. Each of `answers` is typed when its question is seen.
    """
    leader, follower = pty.openpty()
    ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    for name in ("NO_COLOR", "COLUMNS", "LINES"):
        environment.pop(name, None)
    command = [*([sys.executable, "-c", program] if program else COMMAND), *map(str, arguments)]
    with subprocess.Popen(
        command,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environment,
        start_new_session=True,
        preexec_fn=lambda: ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C is a signal
    ) as child:
        os.close(follower)
        try:
            seen = _read_terminal(leader, time.monotonic() + timeout, list(answers))
            code = child.wait(60)
        finally:
            child.kill()  # no effect on one that has ended
    os.close(leader)
    return Ended(code, seen.replace(b"\r\n", b"\n"), "")


def _read_terminal(leader: int, deadline: float, answers: list[tuple[bytes, bytes]]) -> bytes:
    seen = typed = b""
    answered = 0
    while time.monotonic() < deadline:
        if not select.select([leader], [], [], 1)[0]:
            # A signal right before Python begins to read is seen when the read ends; a person types it again, too.
            # Not once it was seen: the second one would kill a Python that is ending.
            os.write(leader, typed if typed == CTRL_C and b"interrupted" not in seen else b"")
        else:
            try:
                part = os.read(leader, 1 << 16)
            except OSError:  # how Linux reports that the last user of a terminal has closed it
                break
            if not part:
                break
            seen += part
            if answers and answers[0][0] in seen[answered:]:
                answered = len(seen)
                typed = answers.pop(0)[1]
                os.write(leader, typed)
    return seen


def without_styles(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def write_topic(folder: Path, name: str, *batches: bytes, base_offset: int = 0) -> Path:
    """A partition folder with one segment of these entries; the path of the segment."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    path = folder / name / segment_file_name(base_offset)
    path.write_bytes(b"".join(batches))
    return path


def batch_of(*values: bytes | None, base_offset: int = 0, key: bytes | None = None, header: bytes | None = None) -> bytes:
    headers = () if header is None else ((header, header),)
    return encode_batch([Record(base_offset + number, 1000 + number, key, value, headers) for number, value in enumerate(values)])
