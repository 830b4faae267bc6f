"""The damaged golden log directory after a real broker's recovery, compared with `reindex` and `salvage`; and healthy ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.format.checkpoint import EpochStart, decode_leader_epoch_checkpoint
from kafkalog.log.rebuild import RebuildOptions
from kafkalog.tasks.reindex import ReindexOptions, reindex_partitions
from kafkalog.tasks.salvage import salvage_partitions

PARTITIONS = [
    "open-compact-0", "open-none-0", "open-preallocate-0", "open-preallocate-zstd-0", "open-txn-0",
    "__transaction_state-0", "__transaction_state-1",
]  # fmt: skip
RECOVERY_MS = 1_794_734_500_000  # when that broker ran: producers that write old timestamps were long silent by then


@pytest.mark.parametrize("name", PARTITIONS)
def test_reindex_gives_byte_for_byte_what_recovery_left(golden: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    damaged = golden("4.3.0-damaged") / "4.3.0-damaged" / name
    recovered = golden("4.3.0-damaged-recovered") / "4.3.0-damaged-recovered" / name
    (result,) = reindex_partitions(damaged, ReindexOptions(out=tmp_path, broker=RebuildOptions(now_ms=RECOVERY_MS)))
    rebuilt = {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
    expected = {path.name: path.read_bytes() for path in recovered.iterdir() if path.suffix != ".log"}
    del expected["partition.metadata"]
    # Afterwards that broker became the leader, and noted its new epoch at the end of the log.
    epochs = decode_leader_epoch_checkpoint(expected.pop("leader-epoch-checkpoint"))
    end_offset = max(int(name[:20]) for name in expected if name.endswith(".snapshot"))
    assert decode_leader_epoch_checkpoint(rebuilt.pop("leader-epoch-checkpoint")) == epochs[:-1]
    assert epochs[-1] == EpochStart(4, end_offset)
    assert {name for name in {*rebuilt, *expected} if rebuilt.get(name) != expected.get(name)} == set()
    assert result.state == "written"


@pytest.mark.parametrize("name", PARTITIONS)
def test_salvage_keeps_what_recovery_kept_and_what_it_cut(golden: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    damaged = golden("4.3.0-damaged") / "4.3.0-damaged" / name
    recovered = golden("4.3.0-damaged-recovered") / "4.3.0-damaged-recovered" / name
    (result,) = salvage_partitions([damaged], tmp_path)
    for log in recovered.glob("*.log"):
        assert (tmp_path / name / log.name).read_bytes()[: log.stat().st_size] == log.read_bytes()
    kept_by_broker = sum(log.stat().st_size for log in recovered.glob("*.log"))
    assert result.kept_bytes - kept_by_broker == (25_093 - 5_657 if name == "open-preallocate-0" else 0)


@pytest.mark.parametrize("era", ["0.8.2.2", "0.11.0.3", "4.3.0"])
def test_a_healthy_log_is_salvaged_byte_for_byte(golden: Callable[[str], Path], tmp_path: Path, era: str) -> None:
    source = golden(era) / era
    results = list(salvage_partitions([source], tmp_path))
    assert len(results) > 10
    for result in results:
        assert (result.report.dropped, result.report.tails, result.lost) == ([], [], [])
        logs = {path.name: path.read_bytes() for path in (source / result.name).glob("*.log")}
        assert {path.name: path.read_bytes() for path in (tmp_path / result.name).glob("*.log")} == logs
