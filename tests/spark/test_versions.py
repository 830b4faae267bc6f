"""The versions of Spark: what is supported, tested and written down are the same ones."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.spark.pages import PAGE
from tests.tidy.source import ROOT
from tools.spark_versions import VERSIONS, Outcome, read_report, table

REPORT = """<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite>
<testcase classname="a" name="passes"/>
<testcase classname="a" name="fails"><failure message="no">no</failure></testcase>
<testcase classname="a" name="breaks"><error message="no">no</error></testcase>
<testcase classname="a" name="skips"><skipped type="pytest.skip" message="before 4.2 nothing">a.py:3</skipped></testcase>
</testsuite></testsuites>
"""


def test_the_supported_versions_are_the_tested_ones() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lowest, newest = VERSIONS[0].rpartition(".")[0], VERSIONS[-1].rpartition(".")[0]
    assert f"pyspark>={lowest}" in project["optional-dependencies"]["spark"]
    pinned = re.search(r"^pyspark==(.*)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert pinned is not None
    assert pinned[1] in VERSIONS
    assert f"It runs on Spark {lowest} to {newest}" in PAGE.read_text(encoding="utf-8")


def test_the_page_has_what_each_version_was_found_to_do() -> None:
    rows = re.findall(r"^\| (\d+\.\d+\.\d+) \| [\d,]+ of [\d,]+ \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert tuple(rows) == VERSIONS


def test_a_run_is_summed_up_with_the_reasons_of_what_was_skipped(tmp_path: Path) -> None:
    report = tmp_path / "4.0.5.xml"
    report.write_text(REPORT, encoding="utf-8")
    found = read_report("4.0.5", report)
    assert (found.tests, found.passed, found.failed) == (4, 1, 2)
    assert table([found, Outcome("4.3.0", 9, 0, type(found.skipped)())]).splitlines()[2:] == [
        "| 4.0.5 | 1 of 4 | 2 | 1: before 4.2 nothing |",
        "| 4.3.0 | 9 of 9 | 0 | – |",
    ]
