"""README.md of this folder is true: every test and script that it names exists, its counts are right, and enough is covered."""

from __future__ import annotations

import re

from tests.engine.comparison import SAFER
from tests.parity import page

LEAST_COVERED = {"Spark's own Kafka source": 0.9, "Kafka's own log": 0.95}
LEAST_NAMED = {"Spark's own Kafka source": 40, "Kafka's own log": 400}


def test_the_page_is_the_generated_one() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.render(), "run python -m tests.parity.page"


def test_everything_that_is_named_exists() -> None:
    for part in page.parts():
        reasons = " ".join(scenario.get("differs", "") for scenario in part.scenarios)
        named = part.named | set(re.findall(r"[\w/]*test_\w+\.py::test_\w+", reasons))
        missing = {test for test in named if not _exists(part, test)}
        assert not missing
        assert len(named) > LEAST_NAMED[part.title] / 2


def _exists(part: page.Part, test: str) -> bool:
    file, _, name = test.rpartition("::")
    return name in (page.tests_of(part.folder / file) if file else part.scripts)


def test_every_difference_of_the_replay_has_its_reason_on_the_page() -> None:
    for _, theirs, ours in SAFER:
        assert theirs in page.safer()
        assert f"`{ours.removesuffix('Exception')}`" in page.safer()
    assert page.safer() in page.render()


def test_a_scenario_says_one_thing_of_itself() -> None:
    for part in page.parts():
        for scenario in part.scenarios:
            assert len(scenario.keys() & {"tests", "differs", "not_here"}) == 1, scenario
            assert set(scenario) <= {"theirs", "what", "tests", "differs", "not_here"}, scenario
        for suite in part.suites:
            theirs = [scenario["theirs"] for scenario in suite["scenarios"] if "theirs" in scenario]
            assert len(set(theirs)) == len(theirs), suite["name"]


def test_enough_of_what_applies_is_covered() -> None:
    for part in page.parts():
        scenarios, apply, covered = page.counts(part.scenarios)
        assert covered >= LEAST_COVERED[part.title] * apply
        assert scenarios >= LEAST_NAMED[part.title] / 4
