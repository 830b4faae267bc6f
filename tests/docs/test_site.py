"""The docs as a site: every link leads somewhere, every page is found, and a reader's browser asks no other host for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import kafkalog
from tests.conftest import require
from tests.tidy.source import ROOT

# What a browser loads by itself; a link that a reader clicks is not among it.
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


class Loaded(HTMLParser):
    """The addresses that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        address = dict(attributes).get(LOADED.get(tag, ""))
        self.addresses += [address] if address else []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make site` builds it: a warning ends the build."""
    require("mkdocs", "mkdocstrings")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": "default"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_of_docs_is_in_the_site_and_the_changelog(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(site) for path in site.rglob("*.html")}
    assert built - {Path("404.html")} == pages | {Path("changelog.html")}


def test_a_page_loads_nothing_from_another_host(site: Path) -> None:
    wrong = []
    for path in site.rglob("*.html"):
        loaded = Loaded()
        loaded.feed(path.read_text(encoding="utf-8"))
        assert loaded.addresses
        wrong += [(path.name, address) for address in loaded.addresses if re.match(r"(?:[a-z]+:)?//", address)]
    for path in site.rglob("*.css"):
        wrong += [(path.name, url) for url in re.findall(r"(?:@import|url\()\s*['\"]?((?:https?:)?//[^'\")]*)", path.read_text())]
    assert wrong == []


def test_fences_that_tests_read_are_shown_as_text(site: Path) -> None:
    assert [path.name for path in site.rglob("*.html") if "<p>```" in path.read_text(encoding="utf-8")] == []


def test_every_public_name_is_on_the_page_of_the_python_api() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    named = re.findall(r"^::: kafkalog\.(\w+)$", page, re.MULTILINE)
    assert sorted(named) == sorted(set(kafkalog.__all__) - {"__version__"})
