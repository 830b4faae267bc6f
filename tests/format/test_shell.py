"""Commands that we print can be typed as they are, also with names that an enemy chose."""

from __future__ import annotations

import os
import subprocess

import pytest

from kafkalog.format.shell import path_word, shell_word

HOSTILE = (
    "orders-0",
    "two words",
    "it's",
    "$(touch owned)`touch owned`;touch owned",
    "\x1b[2Jescape",
    "line\nbreak",
    "\u202eltr",
    "a'b\\c\x07",
    os.fsdecode(b"not utf-8 \xff\xfe"),
    "\udcff7",
    "日本",
    "tab\there",
    "!history",
    "~root",
    "*",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_shell_reads_back_the_very_name(name: str) -> None:
    word = shell_word(name)
    assert word.isprintable()
    command = f"printf %s {word}".encode()
    assert subprocess.run(["bash", "-c", command], capture_output=True, check=True).stdout == os.fsencode(name)


def test_a_path_is_never_an_option() -> None:
    assert path_word("-rf") == "./-rf"
    assert path_word("/data/orders-0") == "/data/orders-0"
