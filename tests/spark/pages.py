"""The blocks of code of docs/spark.md, for the tests that run them as written."""

from __future__ import annotations

import re

from tests.tidy.source import ROOT

PAGE = ROOT / "docs" / "spark.md"


def blocks(heading: str, kind: str) -> list[str]:
    """The blocks of a kind under a heading, in order."""
    text = PAGE.read_text(encoding="utf-8")
    section = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", without_comments(text), re.MULTILINE | re.DOTALL)
    assert section is not None, f"docs/spark.md has no heading {heading!r}"
    found = re.findall(rf"^```{kind}\n(.*?)^```$", section[1], re.MULTILINE | re.DOTALL)
    assert found, f"docs/spark.md has no {kind} under {heading!r}"
    return found


def without_comments(text: str) -> str:
    """The page with `# …` inside of blocks indented, so that it is no heading."""
    return re.sub(r"^```.*?^```$", lambda block: block[0].replace("\n# ", "\n # "), text, flags=re.MULTILINE | re.DOTALL)
