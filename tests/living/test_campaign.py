"""The short form of the campaign against a living broker (`make living` is the whole one)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import require, unavailable
from tests.interop.live.broker import ROOT, resolve_jars

SIZES = {"ingests": 40, "batches": 10, "verifies": 6, "seconds": 12, "crashes": 1, "seed": 5}
SECONDS = 280


@pytest.mark.slow
def test_beside_a_living_broker_nothing_is_lost_doubled_or_wrong(tmp_path: Path) -> None:
    require("java", "mvn", "kafka", "pyspark")
    problem = resolve_jars()
    if problem is not None:
        unavailable(problem)
    sizes = [part for name, value in SIZES.items() for part in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "tests.campaigns.living_broker.run", "--without-spark", "--folder", str(tmp_path), *sizes]
    # A process of its own: its clients have threads and warnings of their own.
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "verifies: 0 lost, 0 doubled, 0 wrong, 0 false errors\n" in done.stdout
    counts = {what: int(count.replace(",", "")) for count, what in re.findall(r"^ *([\d,]+) (.*)$", done.stdout, re.MULTILINE)}
    assert counts["broker killed and started again"] == 1
    assert counts["consumers' views compared"] > 0
    assert counts["rows judged"] > counts["records written"] > 1000
