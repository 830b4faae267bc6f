"""The README has the figures of the pages that it names; tests/docs/test_recipes.py runs its commands."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from kafkalog.cli.demo.story import STEPS
from tests.tidy.source import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
# A contestant as the README introduces it, and its row in docs/benchmarks.md.
CONTESTANTS = {
    "**kafkalog**": "kafkalog",
    "Kafka's own FileRecords in a warm JVM, which copies nothing": "FileRecords loop, one core",
    "aiokafka's reader": "aiokafka",
    "kafka-python's reader": "kafka-python",
    "Kafka's DumpLogSegments, to /dev/null": "DumpLogSegments",
}


def cells(text: str, first: str) -> list[str]:
    """The other cells of the first table row that begins with this one."""
    (row, *_) = re.findall(rf"^\| {re.escape(first)} \|(.*)\|$", text, re.MULTILINE)
    return [cell.strip(" *") for cell in row.split("|")]


@pytest.mark.parametrize("name", CONTESTANTS)
def test_the_speed_table_has_the_figures_of_the_benchmarks(name: str) -> None:
    columns = cells(BENCHMARKS, "M records/s")
    measured = dict(zip(columns, cells(BENCHMARKS, CONTESTANTS[name]), strict=True))
    shown = dict(zip(cells(README, "M records/s"), cells(README, name), strict=True))
    assert set(shown) == {"none", "lz4", "zstd", "snappy", "gzip"}
    assert {codec: abs(float(figure) - float(measured[codec])) <= 0.0501 for codec, figure in shown.items()} == dict.fromkeys(
        shown, True
    )


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", README)
    assert len(links) > 20
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_the_picture_shows_the_steps_of_the_demo_and_loads_nothing() -> None:
    text = (ROOT / "docs" / "demo.svg").read_text(encoding="utf-8")
    picture = ElementTree.fromstring(text)
    about = picture.find("{http://www.w3.org/2000/svg}desc")
    assert about is not None
    assert about.text == "; ".join(step.command for step in STEPS), "run python -m tools.picture"
    kinds = {element.tag.rpartition("}")[2] for element in picture.iter()}
    assert kinds <= {"svg", "title", "desc", "style", "defs", "clipPath", "g", "rect", "circle", "text"}
    assert not re.search(r"@import|@font-face|url\((?!#)|href=|\bon\w+=", text)
    assert len(text) < 200_000
