"""The commands of docs/explain.md print what the page says. `python -m tests.cli.test_explain_page` rewrites the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from kafkalog.format.reference import Record, encode_batch
from tests.cli.runner import COMMAND
from tests.tidy.source import ROOT

PAGE = ROOT / "docs" / "explain.md"
BLOCK = re.compile(r"```console\n\$ kafkalog (?P<arguments>.*)\n(?P<output>(?:.*\n)*?)```\n")


def make_logs(folder: Path) -> None:
    record = Record(5, 1000, b"k", b"v", ((b"h", None),))
    stored = encode_batch([record], leader_epoch=0)
    damaged = bytearray(stored)
    damaged[65] = 0x40  # the length of the key: 32 bytes, where seven bytes are left
    for name, data in (("orders-0/00000000000000000005.log", stored), ("damaged-0/00000000000000000000.log", bytes(damaged))):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(data)


def run(arguments: str, folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [*COMMAND, *arguments.split()]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=240, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.decode().replace(f"{folder.resolve()}/", "")


def page_of_today(folder: Path) -> str:
    make_logs(folder)

    def block(match: re.Match[str]) -> str:
        return f"```console\n$ kafkalog {match['arguments']}\n{run(match['arguments'], folder)}```\n"

    return BLOCK.sub(block, PAGE.read_text(encoding="utf-8"))


def test_the_page_shows_what_the_commands_print(tmp_path: Path) -> None:
    assert PAGE.read_text(encoding="utf-8") == page_of_today(tmp_path), "run python -m tests.cli.test_explain_page"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        sys.stdout.write(str(PAGE.write_text(page_of_today(Path(scratch)), encoding="utf-8")) + "\n")
