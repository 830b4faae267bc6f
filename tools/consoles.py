"""`python -m tools.consoles [PAGE…]`: runs the commands in the ```console blocks of a page and writes their output below them.

A page's blocks run in their order in one new folder that has the sample disk as `disk` (`kafkalog demo --make disk`). Output is
as in a pipe, standard error last; the path of the folder is left out of it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from kafkalog.cli.demo.disk import make_disk

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md",)
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (kafkalog .*)$")


def commands_of(text: str) -> list[str]:
    """The commands of all console blocks; ValueError if one is not kafkalog's."""
    lines = [line for block in BLOCK.findall(text) for line in block.splitlines() if line.startswith("$ ")]
    wrong = [line for line in lines if not COMMAND.match(line)]
    if wrong:
        raise ValueError(f"only kafkalog runs in a console block: {wrong}")
    return [line.removeprefix("$ ") for line in lines]


def renewed(text: str) -> str:
    """The page with the output that its commands have now."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        make_disk(folder / "disk")
        return BLOCK.sub(lambda block: f"```console\n{_renewed_block(block[1], folder)}```", text)


def _renewed_block(block: str, folder: Path) -> str:
    """Its commands, each with its output, and a blank line between two."""
    parts = [f"$ {command}\n{output_of(command, folder)}" for command in commands_of(f"```console\n{block}```")]
    return "\n".join(parts)


def output_of(command: str, folder: Path) -> str:
    """What the command writes when it runs in the folder; ValueError if it could not do its work."""
    words = [sys.executable, "-m", *shlex.split(command)]
    environment = {**os.environ, "KAFKALOG_NO_NOTICE": "1"}
    done = subprocess.run(
        words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):
        raise ValueError(f"{command}: exit code {done.returncode}: {done.stderr}")
    written = done.stdout + done.stderr
    written = written.replace(f"{folder}/", "").replace(str(folder), ".").rstrip("\n")
    return f"{written}\n" if written else ""


def main(pages: list[str]) -> int:
    for page in pages or PAGES:
        path = ROOT / page
        path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
