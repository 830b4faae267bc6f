"""docs/parity.md says what is so: every test that it names exists, its counts are right, and enough is covered."""

from __future__ import annotations

import re

from tests.spark import parity

LEAST_COVERED = 0.9


def test_the_page_is_the_generated_one() -> None:
    assert parity.PAGE.read_text(encoding="utf-8") == parity.render(), "run python -m tests.spark.parity"


def test_every_test_that_is_named_exists() -> None:
    named = {test for suite in parity.suites() for scenario in suite["scenarios"] for test in scenario.get("tests", ())}
    named |= set(re.findall(r"test_\w+\.py::test_\w+", parity.render()))
    missing = {test for test in named if test.partition("::")[2] not in parity.tests_of(test.partition("::")[0])}
    assert not missing
    assert len(named) > 40


def test_a_scenario_says_one_thing_of_itself() -> None:
    for suite in parity.suites():
        for scenario in suite["scenarios"]:
            assert len(scenario.keys() & {"tests", "differs", "not_here"}) == 1, scenario
            assert set(scenario) <= {"what", "tests", "differs", "not_here"}, scenario


def test_nine_tenths_of_what_applies_are_covered() -> None:
    scenarios = [scenario for suite in parity.suites() for scenario in suite["scenarios"]]
    _, apply, covered = parity.counts(scenarios)
    assert covered >= LEAST_COVERED * apply
