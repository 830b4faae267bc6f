"""The scenarios of Kafka's own tests as scripts: Kafka's engine did what each expects, and ours does the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.replay import find_cases, replay
from tests.engine.scenarios.record import differences
from tests.engine.scenarios.script import Script, scripts
from tests.golden import sets

DATA = Path(__file__).resolve().parent / "data"
SCRIPTS = {script.name: script for script in scripts()}


@pytest.fixture(scope="session")
def cases(golden_folder: Path) -> Path:
    return sets.unpack("scenarios", golden_folder.parent / "engine", DATA) / "scenarios"


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_scenario_ends_as_on_kafkas_own_engine(cases: Path, name: str) -> None:
    done = replay(cases / name)
    assert done.difference is None, str(done.difference)


def test_kafkas_engine_did_what_the_scripts_expect(cases: Path) -> None:
    assert [wrong for script in SCRIPTS.values() for wrong in differences(script, cases / script.name)] == []
    expectations = sum(bool(each.gives or each.refused) for script in SCRIPTS.values() for each in script.operations)
    assert expectations > 2 * len(SCRIPTS)


def test_the_recorded_scripts_are_those_of_the_modules(cases: Path) -> None:
    assert [case.name for case in find_cases(cases)] == sorted(SCRIPTS)
    for script in SCRIPTS.values():
        stored = (cases / script.name / "script.jsonl").read_text().splitlines()
        assert [_without_bytes(line) for line in stored] == [_without_bytes(each.line) for each in script.operations], script.name


def _without_bytes(line: str) -> dict[str, object]:
    """Compressed bytes depend on the release of the codec, so payloads are left out, but not their presence."""
    operation: dict[str, object] = json.loads(line)
    return operation | ({"records": bool(operation["records"])} if "records" in operation else {})


def test_an_expectation_that_is_not_met_is_reported(cases: Path) -> None:
    script = Script("an_append_says_its_first_offset")
    for each in SCRIPTS[script.name].operations:
        script.do("changed", "SomeException" if each.gives else None, {"lastOffset": 77} if not each.gives else None)
    told = differences(script, cases / script.name)
    assert len(told) == len(script.operations)
