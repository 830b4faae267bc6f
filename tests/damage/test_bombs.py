"""Small files that ask for much, next to a damaged partition: the damage is found, in bounded memory and time."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from .bombs import BOMB, BOMBS, SEGMENT, minimal_records, write_ordinary
from .measured import MIB, measure

# Address space that a process may reserve: enough for what libraries map at their start and for the limits of one entry.
SPACE = 8 << 30

# The peak memory of each bomb in MiB, including 200 of the program.
VERIFIED = {
    "zstd-minimal-records": 900,
    "zero-values": 900,
    "minimal-headers": 500,
    "lying-counts": 400,
    "wrapper": 600,
    "nested-wrappers": 400,
    "sparse-snapshot": 400,
    "sparse-indexes": 400,
    "long-indexes": 2000,
    "long-checkpoints": 900,
}


@pytest.mark.parametrize("name", VERIFIED)
def test_a_bomb_does_not_blind_verify(name: str, tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    segment = write_ordinary(directory) / SEGMENT
    BOMBS[name](directory)
    damaged = bytearray(segment.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    segment.write_bytes(damaged)
    done = measure(tmp_path, "verify", directory, "--json", "--quiet", limit=SPACE)
    assert (done.code, done.errors) in ((1, ""), (3, "")), done
    lines = [json.loads(line) for line in done.output.splitlines()]
    found = [line for line in lines if "verdict" not in line]
    assert "crc" in {finding["reason"] for finding in found if finding["topic"] == "ordinary"}
    assert any(finding["topic"] != "ordinary" for finding in found)  # the bomb itself is reported, too
    assert done.peak < VERIFIED[name] * MIB
    assert done.seconds < 60


def test_records_of_a_bomb_and_of_the_partition_beside_it_are_read_in_parts(tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    write_ordinary(directory)
    minimal_records(directory, batches=5)
    done = measure(tmp_path, "cat", directory, "--format", "parquet", "--output", tmp_path / "out", limit=SPACE)
    assert done.code == 0, done.errors
    assert pq.read_metadata(tmp_path / "out").num_rows == 1000 + 5_000_001
    assert done.peak < 1200 * MIB


@pytest.mark.parametrize(("name", "most"), [("wrapper", 800), ("minimal-headers", 900)])
def test_a_bomb_is_dumped_in_bounded_memory(name: str, most: int, tmp_path: Path) -> None:
    BOMBS[name](tmp_path)
    done = measure(tmp_path, "dump", "--files", tmp_path / BOMB / SEGMENT, "--print-data-log", limit=SPACE)
    assert done.code == 0, done.errors
    assert done.peak < most * MIB


@pytest.mark.parametrize("name", ["wrapper", "zstd-minimal-records", "minimal-headers"])
def test_of_a_bomb_as_many_records_are_explained_as_can_be_of_use(name: str, tmp_path: Path) -> None:
    BOMBS[name](tmp_path)
    done = measure(tmp_path, "explain", tmp_path / BOMB / SEGMENT, "--json", limit=SPACE)
    assert done.seconds < 20
    assert done.peak < 900 * MIB
