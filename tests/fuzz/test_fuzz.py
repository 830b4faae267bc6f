"""The short form of the fuzz run: `make fuzz` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.format.reference import decode_entries
from tests.conftest import require
from tests.fuzz.run import fuzz
from tests.fuzz.seeds import seeds
from tests.property.oracle import joined_entry, reference_outcome, sealed, split_entry


def test_every_seed_is_a_sound_segment() -> None:
    found = dict(seeds())
    assert len(found) > 10
    assert {name: reference_outcome(data).reason for name, data in found.items()} == dict.fromkeys(found, "")


@pytest.mark.slow
def test_a_short_fuzz_run_finds_nothing(tmp_path: Path) -> None:
    require("atheris")
    result = fuzz(tmp_path, seconds=25)
    assert not result.failed, result.output[-6000:]
    assert result.runs > 100, result.output[-2000:]


def test_an_entry_taken_apart_and_put_together_is_the_entry() -> None:
    """The mutator relies on this: its changes to the content reach the decoder under right lengths and checksums."""
    for name, data in seeds():
        for entry in decode_entries(data):
            split = split_entry(entry.data)
            if split is None:
                assert name.startswith("messages") or entry.size == 61
            else:
                assert reference_outcome(joined_entry(*split)) == reference_outcome(entry.data)
            changed = entry.data[:-1] + bytes([entry.data[-1] ^ 1])
            assert reference_outcome(changed).reason == "crc"
            assert reference_outcome(sealed(changed)).reason != "crc"
