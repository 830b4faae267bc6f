"""`kafkalog estimate` as a user types it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.runner import COMMAND, Run, batch_of, run_on_terminal, without_styles, write_topic


def test_the_worked_numbers_are_shown(run: Run) -> None:
    ended = run("estimate", "--key-size", 3, "--value-size", 5)
    assert ended.code == 0
    assert "8 offset + 4 size + 30 message = 42" in ended.text
    assert "61 header + 15 record = 76" in ended.text
    assert "v2 is smaller than v1 from 3 records a batch on: 106 bytes instead of 126" in ended.text


def test_json_lines_come_from_standard_input() -> None:
    lines = b'{"key":"key","value":"hello"}\n{"value":"hello"}\n'
    done = subprocess.run([*COMMAND, "estimate", "-", "--json"], input=lines, capture_output=True, timeout=240, check=True)
    sizes = json.loads(done.stdout)["sizes"]
    assert {"format": "v1", "codec": "none", "batch_records": 2, "bytes": 81} in sizes
    assert {each["codec"] for each in sizes} == {"none", "gzip", "snappy", "lz4", "zstd"}


def test_a_segment_is_measured_with_the_codecs_asked_for(run: Run, tmp_path: Path) -> None:
    path = write_topic(tmp_path, "orders-0", batch_of(*[b"x" * 100] * 20, header=b"h"))
    ended = run("estimate", path, "--codec", "none,zstd", "--batch", "5,20")
    assert ended.code == 0
    assert [line.split()[:2] for line in ended.text.splitlines() if line.startswith("v") and " none " in line] == [
        ["v0", "none"],
        ["v1", "none"],
        ["v2", "none"],
    ]
    assert "v0 and v1 have no headers" in ended.text


def test_lines_fit_a_terminal_of_80_columns() -> None:
    ended = run_on_terminal("estimate", "--count", 1000, "--key-size", 20, "--value-size", 170, columns=80)
    assert ended.code == 0
    assert max(map(len, without_styles(ended.text).splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give PATH, or sizes"),
        (("x.jsonl", "--count", 3), "exclude each other"),
        (("--value-size", 3, "--codec", "zstd"), "need PATH"),
        (("--value-size", 3, "--codec", "zst"), "Did you mean zstd?"),
        (("--value-size", 3, "--headers", "8"), "8:16"),
        (("--value-size", 3, "--batch", "0"), "at least one record"),
        (("--value-size", 3, "--count", 10**9), "allowed are 1 to"),
    ],
)
def test_arguments_that_cannot_be_honoured_are_refused(run: Run, arguments: tuple[object, ...], words: str) -> None:
    ended = run("estimate", *arguments)
    assert ended.code == 2
    assert words in ended.errors
