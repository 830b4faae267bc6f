"""Output on a terminal: fitted to its width, safe, and never binary."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.cells import cell_len

from kafkalog.cli.render.layout import shorten, shorten_middle
from kafkalog.cli.render.progress import ReadProgress
from tests.cli.runner import batch_of, run_on_terminal, without_styles, write_topic
from tests.conftest import require

HOSTILE = (
    b"\x1b]0;owned\x07",
    "\u202etxt".encode(),
    b"\x9b2J",
    "日本語のとても長いテキスト🎉".encode() * 5,
    b"[red]markup[/red]",
    b"a\rb",
)


def hostile_logs(folder: Path) -> Path:
    write_topic(folder, "hostile-0", batch_of(*HOSTILE, header=b"\x1b[2J"))
    return folder


def test_nothing_follows_the_last_line_where_colorama_is_installed(tmp_path: Path) -> None:
    require("colorama")
    write_topic(tmp_path, "orders-0", batch_of(b"x"))
    assert run_on_terminal("verify", tmp_path).text.endswith(".\n")


@pytest.mark.parametrize("columns", [40, 80, 140])
def test_rows_fit_the_terminal_and_only_the_heading_is_styled(tmp_path: Path, columns: int) -> None:
    ended = run_on_terminal("table", "records", hostile_logs(tmp_path), "--quiet", columns=columns)
    assert ended.code == 0
    lines = without_styles(ended.text).splitlines()
    rows = [line for line in lines if not line.startswith("kafkalog:")]
    assert len(rows) == len(HOSTILE) + 1
    assert all(line.isprintable() and cell_len(line) <= columns for line in rows)
    assert ended.text.count("\x1b") == 2
    assert "…" in ended.text


def test_columns_without_room_are_named(tmp_path: Path) -> None:
    ended = run_on_terminal("table", "batches", hostile_logs(tmp_path), columns=80)
    note = "".join(line for line in ended.text.splitlines() if "no room" in line)
    assert "leader_epoch" in note
    assert "--columns" in note


def test_cat_recommends_only_options_that_it_has(tmp_path: Path) -> None:
    for options in ((), ("--decode", "json")):
        ended = run_on_terminal("cat", hostile_logs(tmp_path), "--headers", *options, columns=40)
        note = " ".join(ended.text.split())
        assert "no room on this terminal for" in note
        assert "--columns" not in note
        assert "see everything with --pretty or --format json" in note


@pytest.mark.parametrize("name", ["json", "csv"])
def test_json_and_csv_reach_a_terminal_escaped_and_whole(tmp_path: Path, name: str) -> None:
    ended = run_on_terminal("table", "records", hostile_logs(tmp_path), "--format", name, "--columns", "offset,value,headers")
    assert ended.code == 0
    lines = ended.text.splitlines()
    assert all(line.isprintable() for line in lines)
    if name == "json":
        assert json.loads(lines[0])["value"].encode() == HOSTILE[0]


@pytest.mark.parametrize("name", ["arrow", "parquet"])
def test_binary_formats_refuse_a_terminal(tmp_path: Path, name: str) -> None:
    ended = run_on_terminal("table", "records", hostile_logs(tmp_path), "--format", name)
    assert ended.code == 2
    assert "is binary and not for a terminal" in ended.text
    assert "\x1b" not in ended.text


def test_an_error_on_a_terminal_is_escaped(tmp_path: Path) -> None:
    ended = run_on_terminal("table", "records", tmp_path / "no\x1b[2Jsuch\u202e")
    assert ended.code == 4
    assert "\\x1b[2J" in ended.text
    assert "\\u202e" in ended.text
    assert "\x1b" not in ended.text


def test_shortening_keeps_to_the_width_also_for_wide_characters() -> None:
    for width in range(2, 12):
        for text in ("x" * 30, "日本語のテキストです", "a日b本c語d" * 3):
            assert cell_len(shorten(text, width)) <= width
            assert shorten(text, width).endswith("…")
            assert cell_len(shorten_middle(text, width)) <= width
    assert shorten_middle("upgraded-compacted-3", 17) == "upgraded…pacted-3"
    assert shorten_middle("short", 5) == "short"
    assert shorten("folder/00000000000000000000.log", 10, keep_end=True) == "…00000.log"


def test_progress_is_not_shown_where_nobody_would_see_it() -> None:
    progress = ReadProgress(100, wanted=True)
    progress.begin -= 60
    with progress:
        progress.update()
        assert progress.bar is None  # standard error is no terminal here


def test_progress_shows_after_a_while_and_goes_away_again(tmp_path: Path) -> None:
    write_topic(tmp_path, "many-0", *(batch_of(*[b"x" * 1000] * 100, base_offset=base) for base in range(0, 40_000, 100)))
    program = (
        "import sys; from kafkalog.cli.render import progress; progress.SHOW_AFTER_SECONDS = 0.0; "
        "from kafkalog.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    ended = run_on_terminal("table", "records", tmp_path, "--format", "json", "--output", tmp_path / "out.json", program=program)
    assert ended.code == 0
    assert "MB" in ended.text
    assert ended.text.rstrip("\n").endswith("\x1b[2K") or "\x1b[?25h" in ended.text
    assert (tmp_path / "out.json").read_text().count("\n") == 40_000
