"""`kafkalog report` as a user types it: the page, its policy, and text of an enemy that stays text."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kafkalog.format.markup import shortened
from kafkalog.format.reference import Record, encode_batch
from tests.builders.small_logs import FIRST_TIME, made_batch, marker, transactional_batch, write_segment
from tests.cli.runner import Run, run_on_terminal, without_styles

NOW = FIRST_TIME + 3_600_000
HOSTILE = b"\xff\x1b[2J\xe2\x80\xae</script><script>alert(1)</script><!-- more than is shown"
HOSTILE_FOLDER = "<img src=x onerror=alert(3)>'\"&-0"


class Page(HTMLParser):
    """What a browser would make of the page: its elements with their attributes, and the text of tables."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: dict[str, str] = {}
        self.data: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        self.texts[inside] = self.texts.get(inside, "") + data
        if inside == "td":
            self.data.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    write_segment(folder / "orders-0", 0, made_batch(0, leader_epoch=1), made_batch(10, leader_epoch=2))
    write_segment(folder / "payments-0", 0, transactional_batch(0, 3, 7), marker(3, 7, commit=True), transactional_batch(4, 2, 8))
    return folder


def page_of(run: Run, *arguments: object, code: int = 0) -> Page:
    ended = run("report", *arguments, "--now", NOW)
    assert ended.code == code, ended.errors
    return Page(ended.text)


def test_the_page_has_every_section_and_nothing_to_load(run: Run, logs: Path) -> None:
    page = page_of(run, logs)
    assert page.open == []
    sections = [each["id"] for each in page.of("section")]
    wanted = [
        "summary",
        "findings",
        "disk",
        "time",
        "formats",
        "records",
        "transactions",
        "producers",
        "epochs",
        "savings",
        "made",
    ]
    assert sections == wanted
    assert [each["href"] for each in page.of("a")][1:] == [f"#{name}" for name in wanted]
    for tag, attributes in page.tags:
        assert not {"src", "style", "srcset", "action"} & set(attributes), tag
        assert not any(name.startswith("on") for name in attributes), tag
        assert tag not in ("link", "img", "iframe", "object", "form", "base")
    identifiers = [each["id"] for _, each in page.tags if each.get("id")]
    assert len(identifiers) == len(set(identifiers))


def test_the_policy_allows_exactly_the_style_and_the_script_of_the_page(run: Run, logs: Path) -> None:
    text = run("report", logs, "--now", NOW).text
    (policy,) = [each["content"] for each in Page(text).of("meta") if each.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    style = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    script = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()}'" for each in (*style, *script)]
    assert policy == f"default-src 'none'; style-src {hashes[0]}; script-src {hashes[1]}; base-uri 'none'; form-action 'none'"
    assert len(hashes) == 2


def test_drawings_and_tables_say_what_they_show(run: Run, logs: Path) -> None:
    page = page_of(run, logs)
    named = {str(each["id"]) for each in page.of("title") if each.get("id")} | {str(each["id"]) for each in page.of("desc")}
    for drawing in page.of("svg"):
        if drawing.get("role") == "img":
            assert set(str(drawing["aria-labelledby"]).split()) <= named
        else:
            assert drawing["aria-hidden"] == "true"
    assert len(page.of("caption")) == len(page.of("table")) > 10
    assert all(each.get("scope") == "col" for each in page.of("th"))
    assert [attributes["lang"] for attributes in page.of("html")] == ["en"]


def test_names_keys_and_values_of_an_enemy_stay_text(run: Run, tmp_path: Path) -> None:
    records = [Record(at, FIRST_TIME, HOSTILE, HOSTILE, ((HOSTILE, HOSTILE),)) for at in range(3)]
    write_segment(tmp_path / HOSTILE_FOLDER, 0, encode_batch(records))
    broken = tmp_path / "broken-0"
    path = write_segment(broken, 0, made_batch(0), made_batch(10))
    path.write_bytes(path.read_bytes()[:-3] + b"\0\0\0")
    surrogate = os.fsencode(tmp_path) + b"/x\xff\n-0"
    os.mkdir(surrogate)
    Path(os.fsdecode(surrogate), f"{0:020d}.log").write_bytes(made_batch(0))
    page = page_of(run, tmp_path, tmp_path / HOSTILE_FOLDER, os.fsdecode(surrogate), code=1)
    assert page.open == []
    assert len(page.of("script")) == 3
    assert not page.of("img")
    cells = " ".join(page.data)
    assert "<img src=x onerror=alert(3)>'\"&" in cells
    assert "</script><script>alert(1)</script>" in cells
    assert "\\xff\\x1b[2J\\u202e" in cells
    assert "x\\udcff\\n" in cells
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e\ud800-\udfff]", "".join(page.texts.values()))


def test_the_data_for_the_script_is_json_that_ends_no_element(run: Run, tmp_path: Path) -> None:
    write_segment(tmp_path / HOSTILE_FOLDER, 0, made_batch(0))
    text = run("report", tmp_path / HOSTILE_FOLDER, "--now", NOW).text
    found = re.search(r'<script type="application/json" id="treemap-data">(.*?)</script>', text)
    assert found is not None
    assert not set("<>&") & set(found[1])
    assert json.loads(found[1])[0][0] == HOSTILE_FOLDER


def test_no_compaction_is_advised_for_a_topic_with_records_without_a_key(run: Run, tmp_path: Path) -> None:
    """It would delete them."""
    for topic, rest in (("users", b"k"), ("events", None)):
        keys = [*[b"k"] * 50, rest]
        records = [Record(offset, FIRST_TIME + offset, key, b"value " * 20) for offset, key in enumerate(keys)]
        write_segment(tmp_path / "logs" / f"{topic}-0", 0, encode_batch(records))
    run("report", tmp_path / "logs", "--now", NOW, "-o", tmp_path / "page.html")
    text = re.sub("<[^>]*>", "", (tmp_path / "page.html").read_text())
    assert "--topic users --out compacted" in text
    assert "--topic events --out compacted" not in text
    assert "is for topics with cleanup.policy=compact only" in text
    assert "In users about " in text


def test_no_saving_is_advised_for_a_damaged_topic_and_findings_name_what_repairs_them(run: Run, tmp_path: Path) -> None:
    """Commands that rewrite a topic end at its damage."""
    records = [Record(offset, FIRST_TIME + offset, b"k", b"value " * 20) for offset in range(50)]
    logs = tmp_path / "logs"
    for topic in ("users", "clicks"):
        write_segment(logs / f"{topic}-0", 0, encode_batch(records), made_batch(50))
    broken = logs / "clicks-0" / f"{0:020}.log"
    broken.write_bytes(broken.read_bytes()[:-3] + b"odd")
    (logs / "users-0" / f"{0:020}.index").write_bytes(b"odd")
    (logs / "meta.properties").write_text("version=1\n")
    (logs / "rescued").mkdir()
    write_segment(logs / f"gone-0.{'0' * 32}-delete", 0, made_batch(0))
    run("report", logs, "--now", NOW, "-o", tmp_path / "page.html")
    text = re.sub("<[^>]*>", "", (tmp_path / "page.html").read_text())
    assert "--topic users --out compacted" in text
    assert "--topic clicks --" not in text
    assert "(damaged topics are to be salvaged first)" in text
    for typed in (
        f"kafkalog reindex {logs}/users-0 --in-place",
        f"kafkalog undelete {logs}",
        f"mv -- {logs}/rescued {logs}.rescued",
    ):
        assert typed in text


def test_exit_codes_are_those_of_a_read(run: Run, logs: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    ended = run("report", logs, "-o", target)
    assert (ended.code, ended.out) == (0, b"")
    said = r"kafkalog: wrote a report of 2 partitions, \d+ B, \d+ findings, \S+ KiB, to .*report\.html\n"
    assert re.fullmatch(said, ended.errors)
    path = logs / "orders-0" / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    assert run("report", logs, "-o", target, "--quiet").code == 1
    assert "crc" in target.read_text(encoding="utf-8")
    before = target.read_bytes()
    assert run("report", logs, "-o", target, "--on-damage", "strict").code == 1
    assert target.read_bytes() == before
    assert run("report", logs, "-o", target, "--topic", "nothing").code == 2
    assert run("report", logs, "-o", logs / "orders-0" / f"{9:020d}.log").code == 2


def test_an_empty_partition_has_a_report(run: Run, tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-0", 0)
    page = page_of(run, tmp_path)
    assert page.of("section")[0]["id"] == "summary"


def test_progress_counts_both_passes_and_goes_away_again(tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-0", 0, *(made_batch(at, 1000) for at in range(0, 200_000, 1000)))
    program = (
        "import sys; from kafkalog.cli.render import progress; progress.SHOW_AFTER_SECONDS = 0.0; "
        "from kafkalog.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    ended = run_on_terminal("report", tmp_path, "-o", tmp_path / "report.html", program=program)
    assert ended.code == 0, ended.text
    size = (tmp_path / "orders-0" / f"{0:020d}.log").stat().st_size
    assert f"/{2 * size / 1e6:.1f} MB" in without_styles(ended.text)
    last = ended.text.rstrip("\n").rpartition("\n")[2]
    assert re.search(r"wrote a report of 1 partition, .*, to .*report\.html$", last), last


def test_a_terminal_is_no_place_for_a_page(logs: Path) -> None:
    ended = run_on_terminal("report", logs)
    assert ended.code == 2
    assert "--output report.html" in ended.text


def test_a_long_text_is_shortened_and_a_long_command_is_not(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 200) / ("e" * 200) / ("f" * 100 + "$(reboot)") / "orders-0"
    write_segment(folder, 0, made_batch(0), made_batch(10))
    (folder / f"{0:020d}.index").write_bytes(b"12345678")
    text = run("report", folder.parent, "--now", NOW).text
    words = re.findall(r"<span>([^<]*)</span>", text)
    assert html.unescape(next(word for word in words if "reboot" in word)).startswith(f"'{tmp_path}")
    assert any(html.unescape(word) in (f"'{folder}'", f"'{folder.parent}'") for word in words)
    assert shortened("x" * 401) == "x" * 400 + "…"
