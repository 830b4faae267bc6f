"""Run the scripts on Kafka's own engine and record the results: `python -m tests.engine.scenarios.record [name…]`.

Needs Java and Maven. Without names everything is recorded and packed into tests/engine/data; with names only the results are
shown.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.engine.oracle.kafka_engine import run_scripts
from tests.engine.oracle.rerun import write_pack

from .script import Script, scripts


def record(written: list[Script], folder: Path) -> list[str]:
    """One case folder per script, with the answers and files of the engine; the differences from what was expected."""
    for script in written:
        (folder / script.name).mkdir()
        (folder / script.name / "script.jsonl").write_text("".join(f"{each.line}\n" for each in script.operations))
    run_scripts([folder / script.name for script in written], folder)
    return [difference for script in written for difference in differences(script, folder / script.name)]


def differences(script: Script, case: Path) -> list[str]:
    """Where the recorded results of a script are not what it expects."""
    results = [json.loads(line) for line in (case / "results.jsonl").read_text().splitlines()]
    pairs = zip(script.operations, results, strict=True)
    return [f"{script.name}: {text}" for operation, result in pairs if (text := operation.difference(result))]


def _show(case: Path) -> None:
    for line, result in zip((case / "script.jsonl").open(), (case / "results.jsonl").open(), strict=True):
        sys.stdout.write(f"{line[:160].rstrip()}\n    {result[:1500].rstrip()}\n")


def main(*names: str) -> int:
    chosen = [script for script in scripts() if not names or script.name in names]
    with tempfile.TemporaryDirectory() as place:
        wrong = record(chosen, Path(place))
        for name in names:
            _show(Path(place) / name)
        if not names and not wrong:
            write_pack(Path(place), "scenarios")
    sys.stdout.write("".join(f"{text}\n" for text in wrong) + f"{len(chosen)} scripts, {len(wrong)} not as expected\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
