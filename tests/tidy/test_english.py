"""Words by which our prose read as translated: they are out of the code and the pages, and stay out."""

from __future__ import annotations

import re

import pytest

from tests.tidy.source import ROOT, modules

# What lags, and what is left, is behind; so is what an interface hides, and a column of `transactions` has that name.
RIGHTLY_BEHIND = (
    r"(?:leaves?|leaving|left|lags?)[ -]behind|behind (?:one|the few)\b|offsets?'\)} behind|end\W+behind|behind = |, behind\)"
)
# A word, where it is right, and what to write instead.
WORDS = [
    ("anew", "", "again, re-…"),
    ("(?:is|are|was|were|be) told", "", "is reported"),
    ("held against", "", "compared with"),
    ("but for", "", "except"),
    ("does not fit", r"does not fit (?:in|into|one|a|its|the)\b", "does not match"),
    ("behind", RIGHTLY_BEHIND, "after"),
]
PAGES = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "tests/parity/README.md",
    *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))),
]


def texts() -> list[tuple[str, str]]:
    code = [(module.where, module.text) for module in modules("src/kafkalog", "tools")]
    return code + [(page, (ROOT / page).read_text(encoding="utf-8")) for page in PAGES]


def uses(text: str, word: str, allowed: str) -> list[str]:
    """The lines with the word, outside of what is allowed."""
    kept = re.sub(allowed, "", text) if allowed else text
    return [line.strip() for line in kept.splitlines() if re.search(rf"\b(?:{word})\b", line, re.IGNORECASE)]


@pytest.mark.parametrize(("word", "allowed", "better"), WORDS, ids=[word for word, _, _ in WORDS])
def test_the_prose_is_an_engineers_english(word: str, allowed: str, better: str) -> None:
    found = {where: lines for where, text in texts() if (lines := uses(text, word, allowed))}
    assert found == {}, f"write: {better}"


def test_a_word_is_found_and_its_right_use_is_not() -> None:
    behind = next(row for row in WORDS if row[0] == "behind")
    assert uses("the bytes behind the entry", *behind[:2]) == ["the bytes behind the entry"]
    assert uses("what a crash leaves behind", *behind[:2]) == []
