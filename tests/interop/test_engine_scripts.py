"""The packed results of the replay are those of Kafka's own engine: it runs the hand-written scripts once more."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.conftest import unavailable
from tests.engine.comparison import compare_trees
from tests.engine.oracle.kafka_engine import NoEngine, run_scripts
from tests.engine.replay import find_cases
from tests.golden import sets

DATA = Path(__file__).resolve().parents[1] / "engine" / "data"


def test_kafkas_engine_does_what_was_recorded(golden_folder: Path, tmp_path: Path) -> None:
    packed = find_cases(sets.unpack("scenarios", golden_folder.parent / "engine", DATA) / "scenarios")
    cases = [tmp_path / case.name for case in packed]
    for case, again in zip(packed, cases, strict=True):
        again.mkdir()
        shutil.copy(case / "script.jsonl", again)
    try:
        run_scripts(cases, tmp_path)
    except NoEngine as error:
        unavailable(str(error))
    for case, again in zip(packed, cases, strict=True):
        assert (again / "results.jsonl").read_text() == (case / "results.jsonl").read_text(), case.name
        difference = compare_trees(case / "data", again / "data", recompressed=False)
        assert difference is None, f"{case.name}: {difference}"
