"""Logs written by real brokers read equal to what Kafka's own tools said of them: no exception list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.golden import sets
from tests.golden.compare import compare_era
from tests.golden.expected import read_era


@pytest.mark.parametrize("era", sets.eras())
def test_a_log_directory_of_a_real_broker_reads_equal_to_what_its_tools_said(era: str, golden: Callable[[str], Path]) -> None:
    expected = read_era(golden(era) / era)
    totals = compare_era(expected)
    assert totals.differences.lines == []
    assert totals.differences.count == 0
    assert totals.partitions == len(expected.manifest["cases"]) > 0
    assert totals.records == sum(case.get("records", 0) for case in expected.manifest["cases"])


def test_every_era_of_the_formats_is_there() -> None:
    assert sets.eras()[:3] == ["0.8.2.2", "0.9.0.1", "0.10.0.1"]
    assert {"0.10.2.2", "0.11.0.3", "1.1.1", "2.8.2", "3.9.1", "4.3.0", "4.3.0-unclean", "4.3.0-damaged"} <= set(sets.eras())
