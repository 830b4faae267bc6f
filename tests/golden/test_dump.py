"""`kafkalog dump` says of real brokers' files what Kafka's own DumpLogSegments said of them: no exception list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.golden import sets
from tests.golden.compare_dump import Recording, Tally, compare_era, compare_recording, compares, recordings


@pytest.mark.parametrize("era", [era for era in sets.eras() if compares(era)])
def test_every_line_of_every_file_equals_what_kafkas_own_tool_printed(era: str, golden: Callable[[str], Path]) -> None:
    tally = compare_era(golden(era), era)
    assert tally.differences == []
    assert tally.files > 60
    assert tally.lines > 1500


def test_the_internal_topics_were_recorded_with_their_decoders(golden: Callable[[str], Path]) -> None:
    decoded = [one for one in recordings(golden("4.3.0"), "4.3.0") if one.options.contents is not None]
    assert {one.files[0].parent.name.rpartition("-")[0] for one in decoded} >= {
        "__cluster_metadata",
        "__consumer_offsets",
        "__transaction_state",
    }


def test_the_comparison_sees_a_line_that_differs_and_one_that_is_missing(golden: Callable[[str], Path]) -> None:
    folder = golden("4.3.0")
    one = next(each for each in recordings(folder, "4.3.0") if each.files[0].name.endswith(".log"))
    tally = Tally()
    changed = Recording(one.files, one.options, one.stdout.replace(b"magic: 2", b"magic: 1", 1), one.stderr)
    compare_recording(changed, folder / "4.3.0", tally)
    assert len(tally.differences) == 1
    compare_recording(Recording(one.files, one.options, one.stdout + b"more\n", one.stderr), folder / "4.3.0", tally)
    assert len(tally.differences) > 1
