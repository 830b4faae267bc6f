"""`python -m tools.spark_versions [VERSION…]`: the Spark tests on each supported PySpark, in environments under build/spark.

Extra arguments for pytest come after `--`. Ends with a table for docs/spark.md: passed, skipped and why, failed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "spark"
# The newest release of each line that pyproject.toml allows.
VERSIONS = ("4.0.5", "4.1.4", "4.2.1", "4.3.0")
EXTRAS = "test,spark,jre,avro,s3"


@dataclass(frozen=True)
class Outcome:
    """What the tests of one version came to."""

    version: str
    tests: int
    failed: int
    skipped: Counter[str]

    @property
    def passed(self) -> int:
        return self.tests - self.failed - self.skipped.total()


def environment(version: str) -> Path:
    """The Python of an environment with this PySpark, made if need be; everything else is of the versions in constraints.txt."""
    folder = FOLDER / version
    python = folder / "bin" / "python"
    ready = folder / ".ready"
    if ready.exists() and ready.stat().st_mtime >= max(
        (ROOT / name).stat().st_mtime for name in ("pyproject.toml", "constraints.txt")
    ):
        return python
    venv.create(folder, with_pip=True, clear=True, symlinks=True)
    constraints = folder / "constraints.txt"
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    constraints.write_text("\n".join([*(line for line in lines if not line.startswith("pyspark==")), f"pyspark=={version}", ""]))
    quiet = ["--quiet", "--disable-pip-version-check"]
    command = [str(python), "-m", "pip", "install", *quiet, "--constraint", str(constraints), "--editable", f".[{EXTRAS}]"]
    subprocess.run(command, cwd=ROOT, check=True)
    ready.touch()
    return python


def run(version: str, arguments: Sequence[str]) -> Outcome:
    """The tests on this version; their output goes to the terminal."""
    python = environment(version)
    report = FOLDER / f"{version}.xml"
    report.unlink(missing_ok=True)
    print(f"-- PySpark {version}", flush=True)
    choices = arguments or ["tests/spark", "-q", "-n", "2", "--dist", "worksteal"]
    subprocess.run([str(python), "-m", "pytest", f"--junit-xml={report}", *choices], cwd=ROOT, check=False)
    return read_report(version, report)


def read_report(version: str, report: Path) -> Outcome:
    """What a JUnit file says."""
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    reasons = (case.find("skipped") for case in cases)
    skipped = Counter(re.sub(r"^Skipped: ", "", found.get("message", "")) for found in reasons if found is not None)
    return Outcome(version, len(cases), len(failed), skipped)


def table(outcomes: Sequence[Outcome]) -> str:
    lines = ["| PySpark | passed | failed | skipped |", "|---|---:|---:|---|"]
    for each in outcomes:
        reasons = "; ".join(f"{count}: {reason}" for reason, count in each.skipped.most_common())
        lines.append(f"| {each.version} | {each.passed} of {each.tests} | {each.failed} | {reasons or '–'} |")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    own, _, rest = " ".join(arguments).partition("--")
    outcomes = [run(version, rest.split()) for version in own.split() or VERSIONS]
    print(table(outcomes))
    return 1 if any(each.failed for each in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
