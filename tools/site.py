"""What mkdocs does besides, for `make site`: the changelog as a page, and fences that our tests read shown as plain text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# The first word of a fence that pygments knows; the others ("map v2", "hex index") are for tests.
LANGUAGES = ("bash", "console", "ini", "json", "python", "sql", "text")
FENCE = re.compile(rf"^```(?!(?:{'|'.join(LANGUAGES)})\s*$)\w.*$", re.MULTILINE)


def on_files(files: Any, config: Any) -> Any:
    """Called by mkdocs with the files of docs/."""
    from mkdocs.structure.files import File

    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "changelog.md", content=changelog.replace("](docs/", "](")))
    return files


def on_page_markdown(markdown: str, **_context: Any) -> str:
    """Called by mkdocs with the text of each page."""
    return FENCE.sub("```text", markdown)
