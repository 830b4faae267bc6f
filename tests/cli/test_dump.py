"""`kafkalog dump` as a user types it."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from kafkalog.cli.commands import dump as command
from kafkalog.tasks.dump import contents, options
from tests.cli.runner import COMMAND, Run, batch_of, run_on_terminal, write_topic


def test_the_help_names_what_the_task_knows() -> None:
    assert command.STYLES == options.STYLES
    assert tuple(contents.DECODERS) == command.DECODERS
    assert command.STRING_DECODER == contents.STRING_DECODER
    names = {option for parameter in command.dump.params for option in parameter.opts}
    assert {f"--{name}" for name in command.DECODERS} <= names


def test_piped_lines_are_raw_and_those_on_a_terminal_are_safe(tmp_path: Path, run: Run) -> None:
    path = write_topic(tmp_path, "hostile-0", batch_of(b"\x1b]0;owned\x07", "\u202etxt".encode(), b"a\rb", header=b"\x1b[2J"))
    piped = run("dump", "--print-data-log", "--files", path)
    assert piped.code == 0
    assert b"\x1b]0;owned\x07" in piped.out
    shown = run_on_terminal("dump", "--print-data-log", "--files", path)
    assert shown.code == 0
    assert all(line.isprintable() for line in shown.text.split("\n"))
    assert "\\x1b]0;owned\\x07" in shown.text


def test_several_files_one_of_them_unknown(tmp_path: Path, run: Run) -> None:
    path = write_topic(tmp_path, "orders-0", batch_of(b"a"))
    other = path.with_suffix(".log.deleted")
    other.write_bytes(b"")
    ended = run("dump", "--files", f"{other},{path}")
    assert ended.code == 0
    assert ended.errors == f"Ignoring unknown file {other}\n"
    assert [line.partition(":")[0] for line in ended.text.splitlines()] == [
        f"Dumping {other}",
        f"Dumping {path}",
        "Log starting offset",
        "baseOffset",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 2, "Missing option '--files'"),
        (("--files", "a,,b"), 2, "empty name"),
        (("--files", "{folder}/00000000000000000009.log"), 4, "no such file or folder"),
        (("--files", "{folder}"), 0, "it is a folder, give the files in it"),
        (("--files", "{folder}/name.log"), 2, "named after its first offset"),
        (("--files", "{log}", "--value-decoder-class", "my.Decoder"), 2, "StringDecoder"),
        (("--files", "{log}", "--style", "0.8"), 1, "no message of Kafka 0.8"),
        (("--files", "{damaged}"), 1, "--on-damage salvage\nTo copy everything that is intact: kafkalog salvage "),
    ],
)
def test_each_failure_has_its_exit_code_and_says_what_to_do(
    arguments: tuple[str, ...], code: int, says: str, tmp_path: Path, run: Run
) -> None:
    log = write_topic(tmp_path, "orders-0", batch_of(b"a"))
    damaged = write_topic(tmp_path, "damaged-0", batch_of(b"a"), bytes(60))
    (log.parent / "name.log").write_bytes(b"")
    ended = run("dump", *(each.format(folder=log.parent, log=log, damaged=damaged) for each in arguments))
    assert ended.code == code
    assert says in ended.errors


def test_a_decoder_class_without_its_name_prints_text(tmp_path: Path, run: Run) -> None:
    path = write_topic(tmp_path, "orders-0", batch_of(b"value", key=b"key"))
    assert "key: key payload: value" in run("dump", "--files", path, "--value-decoder-class").text


def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path) -> None:
    path = write_topic(tmp_path, "orders-0", *(batch_of(b"v" * 2000, base_offset=offset) for offset in range(2000)))
    child = subprocess.Popen(
        [*COMMAND, "dump", "--print-data-log", "--files", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline()
    child.stdout.close()
    assert child.stderr is not None
    errors = child.stderr.read()
    child.stderr.close()
    assert (child.wait(60), errors.decode()) == (141, "")


def test_an_interrupt_ends_it_with_its_own_exit_code(tmp_path: Path) -> None:
    path = write_topic(tmp_path, "orders-0", *(batch_of(b"v" * 2000, base_offset=offset) for offset in range(2000)))
    child = subprocess.Popen(
        [*COMMAND, "dump", "--print-data-log", "--files", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline()
    time.sleep(0.5)  # it waits for a reader now
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert b"interrupted" in errors
