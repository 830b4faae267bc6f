"""Tells the story: shows each step, runs its command, and fails if something else comes out than the step says."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from ..render.layout import BOLD, DIM, Style
from .story import Step

PROGRAMS = {"kafkalog": [sys.executable, "-m", "kafkalog"], "python": [sys.executable]}
LINES_OF_FAILURE = 20
BLUE = "34"
WIDEST_TEXT = 100
RESET = "\x1b[0m"  # commands end with it on a terminal
WRITE = partial(print, flush=True)  # a command is seen before it ends


class DemoFailed(Exception):
    """A command of the demo did something else than its step says."""


@dataclass(frozen=True)
class Ended:
    """A command that has ended: its exit code, and what it wrote to standard output and to standard error."""

    exit_code: int
    out: str
    errors: str


class Teller:
    """Shows steps in `folder`; on a terminal of `style` the commands write as on a terminal, too."""

    def __init__(self, folder: Path, style: Style, *, on_terminal: bool, write: Callable[[str], None] = WRITE) -> None:
        self.folder = folder
        self.write = write
        self.style = style
        self.on_terminal = on_terminal
        self.environment = _environment(folder, style)

    def tell(self, steps: Sequence[Step], missing_for_spark: str | None = None) -> None:
        """Show and run the steps in their order; those that need Spark are only named if something is missing for it."""
        for number, step in enumerate(steps, 1):
            if step.prepare is not None:
                step.prepare(self.folder)
            self._show_why(step, f"{number} of {len(steps)}")
            if step.needs_spark and missing_for_spark is not None:
                self.write(f"(left out: {missing_for_spark})")
                continue
            self._show_output(step, self._run(step))

    def _show_why(self, step: Step, place: str) -> None:
        self.write("\n" + self.style.paint(f"── {step.title} ", BOLD) + self.style.paint(f"({place})", DIM))
        for line in textwrap.wrap(step.why, min(self.style.width, WIDEST_TEXT) - 2):
            self.write(self.style.paint(f"# {line}", DIM))
        if step.program is not None:
            name, text = step.program
            (self.folder / name).write_text(text, encoding="utf-8")
            self.write(self.style.paint(f"$ cat {name}", BLUE))
            self.write(text.rstrip("\n"))
        self.write(self.style.paint(f"$ {step.command}", BLUE))

    def _run(self, step: Step) -> Ended:
        command, _, errors_to = step.command.partition(" 2> ")
        program, *arguments = shlex.split(command)
        run = _run_on_terminal if self.on_terminal else _run_in_pipe
        with (self.folder / errors_to).open("w+b") if errors_to else tempfile.TemporaryFile() as errors:
            code, out = run([*PROGRAMS[program], *arguments], self.folder, self.environment, errors, self.style.width)
            errors.seek(0)
            ended = Ended(code, out, errors.read().decode("utf-8", "replace"))
        _check(step, ended)
        return Ended(code, out, "") if errors_to else ended

    def _show_output(self, step: Step, ended: Ended) -> None:
        lines = ended.out.removesuffix(RESET).rstrip("\n").splitlines()
        self.write("\n".join(lines[: step.lines]))
        if len(lines) > step.lines:
            self.write(self.style.paint(f"… {len(lines) - step.lines} more lines", DIM))
        if ended.errors:
            self.write(ended.errors.rstrip("\n"))
        if ended.exit_code:
            self.write(self.style.paint(f"(exit code {ended.exit_code})", DIM))


def _check(step: Step, ended: Ended) -> None:
    """DemoFailed if the exit code or the output is not what the step says."""
    written = without_styles(ended.out + ended.errors)
    in_one_line = " ".join(written.split())  # a narrow terminal breaks lines where it likes
    if ended.exit_code == step.exit_code and all(part in in_one_line for part in step.expected):
        return
    wanted = ", ".join([f"exit code {step.exit_code}", *map(repr, step.expected)])
    last = "\n".join(written.splitlines()[-LINES_OF_FAILURE:])
    raise DemoFailed(f"{step.command}: expected {wanted}; it ended with exit code {ended.exit_code} and wrote\n{last}")


def without_styles(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def _environment(folder: Path, style: Style) -> dict[str, str]:
    """If compiled kernels cannot be cached, each command would compile them again; then the demo has its own cache."""
    from kafkalog.kernels.cache import cache_folder

    environment = {**os.environ, "KAFKALOG_NO_NOTICE": "1", "COLUMNS": str(style.width)}
    if cache_folder() is None:
        environment["KAFKALOG_CACHE_DIR"] = str(folder / ".cache")
    return environment


def _run_in_pipe(command: list[str], folder: Path, environment: dict[str, str], errors: IO[bytes], width: int) -> tuple[int, str]:
    done = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, check=False
    )
    return done.returncode, done.stdout.decode("utf-8", "replace")


def _run_on_terminal(
    command: list[str], folder: Path, environment: dict[str, str], errors: IO[bytes], width: int
) -> tuple[int, str]:
    """The same with a terminal of `width` columns as standard output, so that commands use its width and colours."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    written = bytearray()
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=follower, stderr=errors
    ) as child:
        os.close(follower)
        while part := _read(leader):
            written += part
    os.close(leader)
    return child.returncode, written.decode("utf-8", "replace").replace("\r\n", "\n")


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 1 << 16)
    except OSError:  # how Linux reports that the last user of a terminal has closed it
        return b""
