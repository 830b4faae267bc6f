"""What a notebook shows of results: small tables in which hostile names stay text."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.format.html_table import ROWS_SHOWN, html_table
from kafkalog.format.printable import printable
from kafkalog.format.reference import Record, encode_batch
from tests.builders.small_logs import made_batch, transactional_batch, write_segment

HOSTILE = "<img src=x onerror=alert(1)>\u202e&\x1b[2J"
ALLOWED = {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "pre"}


class Page(HTMLParser):
    """The tags and the text of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert {name for name, _ in attrs} <= {"style"}
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + " "


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a hostile name: a damaged batch, an open transaction, a torn tail."""
    folder = tmp_path_factory.mktemp("hostile") / HOSTILE
    broken = bytearray(encode_batch([Record(10, 1, HOSTILE.encode(), b"v")]))
    broken[-1] ^= 1
    write_segment(folder / "orders-0", 0, made_batch(0), bytes(broken), transactional_batch(11, 2, 7), made_batch(13)[:70])
    return folder


def report_of_a_read(path: Path) -> Any:
    logs = kafkalog.open(path)
    logs.read(on_damage="skip").read_all()
    return logs.report


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (kafkalog.open, "1 segment"),
        (kafkalog.ls, "partitions"),
        (kafkalog.verify, "the stored checksum does not match the bytes"),
        (kafkalog.profile, "records"),
        (kafkalog.transactions, "producer 7"),
        (report_of_a_read, "crc"),
    ],
    ids=["open", "ls", "verify", "profile", "transactions", "report"],
)
def test_results_are_tables_in_a_notebook_and_hostile_names_stay_text(
    hostile: Path, make: Callable[[Path], Any], says: str
) -> None:
    page = Page(make(hostile)._repr_html_())
    assert set(page.tags) <= ALLOWED
    assert "table" in page.tags
    assert says in page.text
    assert "<img src=x onerror=alert(1)>" in page.text
    assert page.text.replace("\n", " ").isprintable()


def test_a_long_table_ends_with_how_many_rows_are_left_out() -> None:
    page = Page(html_table("numbers", ["n"], [[number] for number in range(ROWS_SHOWN + 7)], more=3))
    assert page.tags.count("td") == ROWS_SHOWN
    assert "and 10 more" in page.text
    assert "table" not in Page(html_table("nothing", ["n"], [])).tags
    assert "1234567" in Page(html_table("large", ["n"], [[1_234_567, None]])).text  # as --position takes it


def test_findings_end_with_the_verdict_and_the_commands_to_type(hostile: Path) -> None:
    findings = kafkalog.verify(hostile)
    assert findings.verdict is not None
    assert findings.verdict.next_steps
    shown = " ".join(Page(findings._repr_html_()).text.split())
    for text in (findings.verdict.text, *(step.command for step in findings.verdict.next_steps)):
        assert " ".join(printable(text).split()) in shown
