"""`python -m tools.testing`: writes docs/testing.md, with the number of tests in each folder as pytest collects them now."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.parity.page import counts, parts

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "testing.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
CAMPAIGNS = ROOT / "tests" / "campaigns" / "data" / "figures.toml"
INTRODUCTION = """\
<!-- Made by `make docs`; edit tools/testing.py, CONTRIBUTING.md or tests/campaigns/data/figures.toml instead. -->

# How it is tested

Whoever points a tool at the only copy of their data has to be able to check it. Four questions, and what answers them:
"""
ANSWERS = {
    "Are the answers right?": "Kafka's own code is the judge: brokers of ten releases wrote the golden logs, Kafka's tools and "
    "consumers say what is in them, and scripts that ran on Kafka's log engine replay here with the same results and bytes",
    "What if the data is damaged, or made by an enemy?": "every cut, every flipped bit, lying lengths and counts with the right "
    "checksum; memory and time are bounded whatever a file says",
    "What if it is killed in the middle?": "every writing command is cut off before every step, at every system call and on a "
    "full disk; a second run has to complete",
    "What if a broker is working on the same files?": "ingests, streams and verifies next to a real broker, "
    "compared record by record",
}
SUITE = """\
`make test` runs all of it, `.ci/run` with nothing skipped for want of a tool: with Java and Maven for Kafka's own classes and
brokers, strace for injected errors, and root for the commands of other users.
"""
PARITY = """\
The scenarios of their public tests, each with the test or script here that covers it, or why it does not apply, are listed in
`tests/parity/README.md`; a test keeps the list true.
"""
CAMPAIGN_TEXT = """\
Programs that run for minutes or hours; the suite runs a short form of each. The figures are those of the last full run.
"""
DOCS = """\
The commands of the README, the quick start and the [recipes](recipes/index.md) run as they are written, and print what the
pages show. Every option that a page names exists, and every option is in the [reference](cli.md). The links of this site are
checked when it is built. Figures in [benchmarks](benchmarks.md) come from one run of one command, which the page names.
"""


def collected() -> dict[str, int]:
    """How many tests pytest finds in each folder below tests/."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=600).stdout
    return dict(Counter(re.findall(r"^tests/(\w+)/\S+::", found, re.MULTILINE)))


def about_folders() -> dict[str, str]:
    """What CONTRIBUTING.md says of each folder of tests."""
    return dict(re.findall(r"^    tests/(\w+) +(\S.*)$", CONTRIBUTING.read_text(encoding="utf-8"), re.MULTILINE))


def campaigns() -> list[dict[str, Any]]:
    return list(tomllib.loads(CAMPAIGNS.read_text(encoding="utf-8"))["campaign"])


def render(tests: dict[str, int]) -> str:
    """The page, with these numbers of tests."""
    return "\n".join([INTRODUCTION, _answers(), *_suite(tests), *_parity(), *_campaigns(), f"## The docs\n\n{DOCS}"])


def shown_tests(page: str) -> dict[str, int]:
    """The numbers of tests that a page has."""
    return {
        name: int(count.replace(",", ""))
        for name, count in re.findall(r"^\| `tests/(\w+)` \|.*\| ([\d,]+) \|$", page, re.MULTILINE)
    }


def _answers() -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {question} | {answer} |" for question, answer in ANSWERS.items()), ""])


def _suite(tests: dict[str, int]) -> Iterator[str]:
    about = about_folders()
    yield f"## The suite: {sum(tests.values()):,} tests\n"
    yield SUITE
    yield "| folder | what it is about | tests |\n|---|---|---:|"
    for name in sorted(tests, key=lambda name: list(about).index(name)):
        yield f"| `tests/{name}` | {about[name]} | {tests[name]:,} |"
    yield ""


def _parity() -> Iterator[str]:
    yield "## Against the tests of Kafka and Spark\n"
    yield PARITY
    yield "| | scenarios | apply | covered |\n|---|---:|---:|---:|"
    for part in parts():
        yield f"| {part.title} | {' | '.join(f'{number:,}' for number in counts(part.scenarios))} |"
    yield ""


def _campaigns() -> Iterator[str]:
    yield f"## Campaigns\n\n{CAMPAIGN_TEXT}"
    yield "| command | what happens | what the last run found |\n|---|---|---|"
    for each in campaigns():
        yield f"| `{each['command']}` | {each['what']} | {each['figures']} ([more]({each['page']})) |"
    yield ""


def main() -> None:
    PAGE.write_text(render(collected()), encoding="utf-8")


if __name__ == "__main__":
    main()
