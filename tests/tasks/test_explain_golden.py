"""Every file that real brokers wrote, explained: each byte has exactly one field, and the values are the oracle's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from kafkalog.format.names import parse_file_name
from tests.golden import sets
from tests.tasks.explained import assert_every_byte_has_one_field, compare_with_reference

EVERYTHING = 1 << 30
NOTHING_TO_EXPLAIN = ".lock"


def files_of(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != NOTHING_TO_EXPLAIN]


@pytest.mark.parametrize("era", sets.eras())
def test_each_byte_belongs_to_exactly_one_field(era: str, golden: Callable[[str], Path]) -> None:
    damaged_by_hand = era.endswith("-damaged")
    for path in files_of(golden(era) / era):
        data = path.read_bytes()
        explanation = kafkalog.explain(path, count=EVERYTHING)
        fields = assert_every_byte_has_one_field(explanation, data)
        assert (explanation.start, explanation.stop, explanation.size) == (0, len(data), len(data)), path
        assert bool(fields) == bool(data)
        assert damaged_by_hand or not explanation.problems, (path, explanation.problems)


@pytest.mark.parametrize("era", sets.eras())
def test_the_values_are_those_of_the_reference_codec(era: str, golden: Callable[[str], Path]) -> None:
    entries = 0
    for path in files_of(golden(era) / era):
        name = parse_file_name(path.name)
        if name is not None and name.kind in ("log", "checkpoint", "bootstrap.checkpoint"):
            healthy, refused = compare_with_reference(path.read_bytes())
            entries += healthy
            assert not refused or "damaged" in era or "unclean" in era, path
    assert entries
