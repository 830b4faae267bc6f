"""The Python of docs/python.md runs as written and prints what the page says.

`python -m tests.examples.test_python_page` rewrites the page.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from kafkalog.cli.demo.disk import make_disk
from tests.conftest import require
from tests.tidy.source import ROOT

PAGE = ROOT / "docs" / "python.md"
BLOCK = re.compile(r"(?P<code>```python\n(?P<text>.*?)```\n)\n```output\n.*?```\n", re.DOTALL)
END = "-- end of a block --"


def page_of_today(folder: Path) -> str:
    """The page with what its blocks print now: one program, in a folder with the sample disk."""
    make_disk(folder / "disk")
    page = PAGE.read_text(encoding="utf-8")
    program = "".join(f"{match['text']}\nprint({END!r})\n" for match in BLOCK.finditer(page))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    printed = iter(done.stdout.split(f"{END}\n"))
    return BLOCK.sub(lambda match: f"{match['code']}\n```output\n{next(printed)}```\n", page)


def test_the_page_shows_what_its_blocks_print(tmp_path: Path) -> None:
    require("pandas", "polars", "duckdb")
    assert PAGE.read_text(encoding="utf-8").count("```output") >= 5
    assert PAGE.read_text(encoding="utf-8") == page_of_today(tmp_path), "run python -m tests.examples.test_python_page"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        PAGE.write_text(page_of_today(Path(scratch)), encoding="utf-8")
