"""`kafkalog verify` as a user types it."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from kafkalog.cli.commands import shared_options
from kafkalog.cli.commands import verify as command
from kafkalog.cli.render.writers import FORMATS
from kafkalog.errors import SEVERITIES
from kafkalog.tables.schemas import FINDINGS
from tests.builders.small_logs import made_batch, write_segment
from tests.cli.runner import COMMAND, Run, run_on_terminal, without_styles


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    log = write_segment(tmp_path / "logs" / "orders-0", 0, made_batch(0), made_batch(10))
    log.with_suffix(".index").write_bytes(b"")
    return tmp_path / "logs"


@pytest.fixture
def damaged(healthy: Path, tmp_path: Path) -> Path:
    shutil.copytree(healthy, tmp_path / "damaged")
    log = tmp_path / "damaged" / "orders-0" / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[100] ^= 1
    log.write_bytes(content)
    return tmp_path / "damaged"


def test_the_choices_are_those_of_the_code() -> None:
    assert command.SEVERITIES == SEVERITIES
    assert shared_options.FORMATS == FORMATS


def test_a_healthy_log_is_one_line_and_exit_code_0(run: Run, healthy: Path) -> None:
    ended = run("verify", healthy)
    assert (ended.code, ended.errors) == (0, "")
    checked = r"1 partition, 2 batches, 20 records in [\d,]+ bytes checked: nothing is wrong\.\n"
    assert re.fullmatch(checked + r"\nverdict: a broker will load these logs and lose nothing\.\n", ended.text)
    assert run("verify", healthy, "--quiet").text == ""


def test_damage_is_reported_with_its_place_and_advice_and_exit_code_1(run: Run, damaged: Path) -> None:
    ended = run("verify", damaged)
    assert ended.code == 1
    assert "orders-0\n  error    crc: the stored checksum does not match the bytes\n" in ended.text
    assert "00000000000000000000.log at byte 0" in ended.text
    assert "→ Copy the partition from another replica" in ended.text
    assert "checked: 1 error.\n\nverdict: a broker will load these logs, but cut orders-0 at offset 0" in ended.text
    assert max(map(len, ended.text.splitlines()[:-1])) <= 100  # the last one is a command, which is never broken


def test_json_lines_have_the_columns_of_the_table(run: Run, damaged: Path) -> None:
    ended = run("verify", damaged, "--json")
    assert ended.code == 1
    line, last = ended.text.splitlines()
    row = json.loads(line)
    assert list(row) == FINDINGS.default_columns
    assert (row["reason"], row["severity"], row["position"], row["topic"]) == ("crc", "error", 0, "orders")
    assert run("table", "findings", damaged, "--format", "json").text == line + "\n"
    verdict = json.loads(last)["verdict"]
    assert (verdict["starts"], verdict["partitions"][0]["outcome"], verdict["partitions"][0]["end_offset"]) == (True, "cut", 0)
    command = f"kafkalog salvage {damaged}/orders-0 --out rescued"
    assert verdict["next_steps"] == [{"why": "before it starts, copy what it would delete", "command": command}]


def test_the_last_line_is_a_command_to_type_whatever_the_width_and_the_name(run: Run, damaged: Path) -> None:
    hostile = damaged.rename(damaged.with_name("it's \x1b[2J" + " a long name" * 10))
    for text in (run("verify", hostile).text, without_styles(run_on_terminal("verify", hostile, columns=60).text)):
        command = text.replace("\r", "").splitlines()[-1]
        assert command.isprintable()
        assert text.splitlines()[-2] == "  before it starts, copy what it would delete:"
        words = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True).stdout.split(b"\0")
        assert words[:3] == [b"kafkalog", b"salvage", bytes(hostile / "orders-0")]


@pytest.mark.parametrize(("fail_on", "code"), [("error", 0), ("warning", 0), ("info", 1)])
def test_the_severity_that_makes_it_fail_can_be_chosen(run: Run, healthy: Path, fail_on: str, code: int) -> None:
    (healthy / "orders-0" / "00000000000000000000.log.deleted").write_bytes(b"")
    assert run("verify", healthy, "--fail-on", fail_on).code == code


def test_a_junit_report_has_a_case_for_each_partition(run: Run, damaged: Path, healthy: Path, tmp_path: Path) -> None:
    shutil.copytree(healthy / "orders-0", damaged / "orders-1")
    report = tmp_path / "verify.xml"
    assert run("verify", damaged, "--junit", report, "--quiet").code == 1
    suite = ElementTree.parse(report).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    failed = {case.get("name"): case.find("failure") is not None for case in suite}
    assert failed == {"orders-0": True, "orders-1": False}


def test_only_the_first_of_a_kind_are_shown_unless_all_are_asked_for(run: Run, healthy: Path) -> None:
    write_segment(healthy / "orders-0", 0, *[made_batch(0) for _ in range(9)])
    assert "and 3 more (--all shows them)" in run("verify", healthy).text
    assert run("verify", healthy, "--all").text.count("at byte") == 8


def test_a_file_that_cannot_be_read_is_exit_code_4(run: Run, healthy: Path) -> None:
    log = healthy / "orders-0" / "00000000000000000000.log"
    (healthy / "orders-0" / "00000000000000000020.log").symlink_to(log)
    ended = run("verify", healthy)
    assert ended.code == 4
    assert "unreadable" in ended.text


def test_mistakes_are_explained(run: Run, healthy: Path, tmp_path: Path) -> None:
    assert run("verify", tmp_path / "nowhere").code == 4
    assert "no such file or folder" in run("verify", tmp_path / "nowhere").errors
    assert run("verify", healthy, "--topic", "order").code == 2
    assert run("verify", healthy, "--output", tmp_path / "00000000000000000000.log").code == 2
    (tmp_path / "empty").mkdir()
    assert "no Kafka log here" in run("verify", tmp_path / "empty").errors


def test_untrusted_names_do_not_reach_a_terminal_raw(healthy: Path) -> None:
    (healthy / "\x1b[31mred").mkdir()
    ended = run_on_terminal("verify", healthy, columns=80)
    assert "\x1b[31mred" not in ended.out.decode()
    assert "\\x1b[31mred" in ended.out.decode()


@pytest.mark.parametrize(("setting", "coloured"), [("pass", True), ("os.environ['NO_COLOR'] = '1'", False)])
def test_severities_have_colours_on_a_terminal_unless_no_color_is_set(damaged: Path, setting: str, coloured: bool) -> None:
    (damaged / "orders-0" / "00000000000000000000.log.deleted").write_bytes(b"")
    (damaged / "odd").mkdir()
    program = f"import os, sys; {setting}; from kafkalog.cli.main import main; sys.exit(main(sys.argv[1:]))"
    shown = run_on_terminal("verify", damaged, "--quiet", program=program).text
    for severity, code in (("error", 31), ("warning", 33), ("info", 2)):
        assert (f"  \x1b[{code}m{severity}\x1b[0m " if coloured else f"  {severity} ") in shown
    assert ("\x1b" in shown.removesuffix("\x1b[0m")) is coloured  # colorama, if Numba finds it, writes that when Python ends
    assert "1 error, 1 warning, 1 info.\n" in shown
    refused = "verdict: the broker will not start with this log directory: odd is a folder"
    assert (f"\x1b[31m{refused}" if coloured else refused) in shown


# The command, which reports when it reads and reads slowly: Ctrl-C comes in the middle on any machine.
SLOWLY = """
import os, sys, time
from kafkalog.cli.main import main
preadv = os.preadv
def read_slowly(*arguments):
    print("reading", flush=True)
    time.sleep(0.5)
    return preadv(*arguments)
os.preadv = read_slowly
sys.exit(main(sys.argv[1:]))
"""


def test_ctrl_c_ends_it_with_130_and_no_traceback(healthy: Path) -> None:
    log = healthy / "orders-0" / "00000000000000000000.log"
    batches = b"".join(made_batch(offset, 10) for offset in range(0, 2000, 10))
    with log.open("wb") as file:
        for _ in range(1500):
            file.write(batches)
    command = [COMMAND[0], "-c", SLOWLY, "verify", str(healthy)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"reading\n"
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=120)
    assert child.returncode == 130
    assert b"Traceback" not in errors


def test_help_loads_nothing_heavy() -> None:
    program = """
import sys
from kafkalog.cli.main import main
main(["verify", "--help"])
print(sorted({"numpy", "numba", "pyarrow"} & set(sys.modules)))
"""
    ended = subprocess.run([COMMAND[0], "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.endswith("[]\n")
