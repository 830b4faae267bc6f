"""docs/testing.md says what there is: every folder of tests, and the figures of the pages that describe the campaigns."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.tidy.source import ROOT
from tools.testing import PAGE, about_folders, campaigns, render, shown_tests


def test_the_page_is_the_generated_one() -> None:
    """Except for the numbers of tests, which every new test changes."""
    page = PAGE.read_text(encoding="utf-8")
    assert page == render(shown_tests(page)), "run make docs"


def test_every_large_folder_of_tests_is_on_the_page_with_about_as_many_tests() -> None:
    """That a few tests are missing is no error; `make docs` counts again."""
    shown = shown_tests(PAGE.read_text(encoding="utf-8"))
    functions = {path.name: functions_in(path) for path in (ROOT / "tests").iterdir() if path.is_dir()}
    assert set(shown) - set(functions) == set(), "run make docs"
    assert {name for name, count in functions.items() if shown.get(name, 0) < 0.8 * count - 20} == set(), "run make docs"
    assert set(shown) - set(about_folders()) == set()


def functions_in(folder: Path) -> int:
    return sum(
        len(re.findall(r"^def test_", path.read_text(encoding="utf-8"), re.MULTILINE)) for path in folder.rglob("test_*.py")
    )


@pytest.mark.parametrize("campaign", campaigns(), ids=lambda campaign: f"{campaign['command']} {campaign['page']}")
def test_the_figures_of_a_campaign_are_those_of_its_page(campaign: dict[str, Any]) -> None:
    page = (ROOT / "docs" / campaign["page"]).read_text(encoding="utf-8")
    numbers = re.findall(r"\d[\d,]*\d", campaign["figures"])
    assert numbers
    assert [number for number in numbers if number not in page] == []


@pytest.mark.parametrize("campaign", campaigns(), ids=lambda campaign: f"{campaign['command']} {campaign['page']}")
def test_the_command_of_a_campaign_exists(campaign: dict[str, Any]) -> None:
    kind, *rest = campaign["command"].split()
    if kind == "make":
        assert f"\n{rest[0]}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
    else:
        file = rest[1].replace(".", "/") + ".py" if rest[0] == "-m" else rest[0]
        assert (ROOT / file).is_file()
