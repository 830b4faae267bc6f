"""The generated pages say what the code says."""

from __future__ import annotations

import pytest

from tests.tidy.source import ROOT
from tools.docs import PAGES


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_page_is_what_make_docs_would_write(name: str) -> None:
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == PAGES[name](), "run make docs"


def test_every_option_and_exit_code_is_on_the_page() -> None:
    page = PAGES["cli.md"]()
    for word in ("--on-damage", "--encoding", "--report", "Exit codes:", "141", "Examples:"):
        assert word in page
