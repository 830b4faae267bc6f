"""The demo runs anywhere, shows what it says, fails if something else comes out, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kafkalog.cli.demo.disk import make_disk
from kafkalog.cli.demo.story import STEPS, Step
from kafkalog.cli.demo.telling import DemoFailed, Teller, without_styles
from kafkalog.cli.main import main
from kafkalog.cli.render.layout import Style
from tests.cli.runner import Run
from tests.conftest import require

PLAIN, COLOURED = Style(100, coloured=False), Style(80, coloured=True)
SAYS_HELLO = Step("Hello", "One line. Another line.", "python -c 'print(\"hello\\nthere\")'", expected=("hello",))


def test_the_demo_shows_every_step_and_cleans_up(tmp_path: Path) -> None:
    require("pyspark")
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "kafkalog", "demo"], env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    for step in STEPS:
        assert f"── {step.title} " in done.stdout
        assert f"\n$ {step.command}\n" in done.stdout
    assert done.stdout.count("(exit code 1)") == sum(step.exit_code == 1 for step in STEPS)
    assert "(left out: " not in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_every_step_says_why_in_two_or_three_lines_and_what_is_expected() -> None:
    assert [step.title for step in STEPS if not 1 < len(textwrap.wrap(step.why, 98)) < 4 or not step.expected] == []
    assert [step.title for step in STEPS if "\n" in step.why] == []


def test_the_disk_is_the_same_each_time(tmp_path: Path) -> None:
    assert main(["demo", "--make", str(tmp_path / "a")]) == 0
    make_disk(tmp_path / "b")
    first, second = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (tmp_path / "a", tmp_path / "b")
    )
    assert len(first) > 40
    assert first == second


@pytest.mark.parametrize("option", ["--make", "--keep"])
def test_a_folder_that_is_not_empty_is_left_alone(run: Run, tmp_path: Path, option: str) -> None:
    (tmp_path / "mine").write_text("content")
    ended = run("demo", option, tmp_path)
    assert (ended.code, "is there already" in ended.errors) == (2, True), ended
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_what_is_kept_is_all_of_it(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalog.cli.run.demo.STEPS", (SAYS_HELLO,))
    ended = run("demo", "--keep", tmp_path / "tour")
    assert (ended.code, ended.errors) == (0, "")
    assert f"$ cd {tmp_path / 'tour'}\n" in ended.text
    assert "\nhello\nthere\n" in ended.text
    assert (tmp_path / "tour" / "disk" / "orders-1").is_dir()


@pytest.mark.parametrize(
    "wrong",
    [
        Step("Hello", "", SAYS_HELLO.command, exit_code=1),
        Step("Hello", "", SAYS_HELLO.command, expected=("goodbye",)),
    ],
    ids=["exit code", "output"],
)
def test_it_fails_loudly_if_something_else_comes_out(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: Step
) -> None:
    with pytest.raises(DemoFailed, match="ended with exit code 0 and wrote\nhello"):
        Teller(tmp_path, PLAIN, on_terminal=False).tell([wrong])
    monkeypatch.setattr("kafkalog.cli.run.demo.STEPS", (wrong,))
    ended = run("demo", "--keep", tmp_path / "tour")
    assert (ended.code, ended.errors.startswith("kafkalog: the demo failed: python -c")) == (5, True)


def test_a_step_that_needs_spark_is_left_out_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    step = Step("SQL", "", "python revenue.py", needs_spark=True, program=("revenue.py", "raise SystemExit(3)\n"))
    Teller(tmp_path, PLAIN, on_terminal=False).tell([step], "PySpark is not installed: pip install it")
    assert capsys.readouterr().out.endswith("$ python revenue.py\n(left out: PySpark is not installed: pip install it)\n")


def test_what_is_expected_may_be_wrapped_on_a_narrow_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = "python -c 'print(\"offsets 1800 to\\n    1949\")'"
    Teller(tmp_path, PLAIN, on_terminal=False).tell([Step("Wrapped", "", command, expected=("offsets 1800 to 1949",))])
    assert "offsets 1800 to\n    1949\n" in capsys.readouterr().out


def test_errors_can_go_to_a_file_and_long_output_is_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = 'python -c \'import sys; print("x\\n" * 5); sys.exit("noise")\' 2> spark.log'
    Teller(tmp_path, PLAIN, on_terminal=False).tell([Step("Noise", "", command, exit_code=1, expected=("x", "noise"), lines=2)])
    assert capsys.readouterr().out.endswith(f"$ {command}\nx\nx\n… 3 more lines\n(exit code 1)\n")
    assert (tmp_path / "spark.log").read_text() == "noise\n"


def test_on_a_terminal_commands_see_its_width_and_may_use_colours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = "import os, sys; print(os.get_terminal_size(1).columns, sys.stdout.isatty(), sys.stderr.isatty())"
    step = Step("Width", "", f"python -c '{program}'", expected=("80 True False",))
    Teller(tmp_path, COLOURED, on_terminal=True).tell([step])
    shown = capsys.readouterr().out
    assert "\x1b[1m── Width \x1b[0m" in shown
    assert without_styles(shown).endswith("'\n80 True False\n")
