"""`verify` next to a broker at work: segments removed or cleaned after the listing are no fault of the log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from tests.living.changing import batch_of, when_opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """orders-0 in three segments with all that a broker writes, as the engine leaves it."""
    config = kafkalog.LogConfig.of({"segment.bytes": "1048576"})
    with kafkalog.LogDirectory(str(tmp_path)) as directory:
        log = directory.open_log("orders", 0, config)
        for first in range(0, 300, 10):
            if first in (100, 200):
                log.roll()
            log.append(batch_of(range(10)), leader_epoch=0)
    found = tmp_path / "orders-0"
    assert kafkalog.verify(tmp_path).is_healthy
    assert len(list(found.glob("*.log"))) == 3
    return found


def retire(folder: Path, base_offset: int) -> Callable[[], None]:
    """Retention: the files of a segment get names that end in .deleted."""

    def change() -> None:
        for path in list(folder.glob(f"{base_offset:020}.*")):
            path.rename(path.with_name(f"{path.name}.deleted"))

    return change


def clean(folder: Path) -> Callable[[], None]:
    """Compaction: the first two segments become one, which holds the records of the second."""

    def change() -> None:
        for kind in ("log", "index", "timeindex"):
            (folder / f"{100:020}.{kind}").rename(folder / f"{0:020}.{kind}")
        (folder / f"{0:020}.index").write_bytes(b"")
        (folder / f"{0:020}.timeindex").write_bytes(b"")
        (folder / f"{100:020}.snapshot").unlink(missing_ok=True)

    return change


@pytest.mark.parametrize("suffix", ["log", "index", "timeindex"])
def test_a_segment_that_retention_removed_after_the_listing_is_no_finding(
    folder: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_happened = when_opened(monkeypatch, folder / f"{0:020}.{suffix}", retire(folder, 0))
    assert kafkalog.verify(folder.parent).at_least("warning") == []
    assert has_happened()


@pytest.mark.parametrize("name", [f"{0:020}.log", f"{0:020}.index", f"{100:020}.log", f"{100:020}.index"])
def test_segments_that_were_cleaned_after_the_listing_are_no_finding(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_happened = when_opened(monkeypatch, folder / name, clean(folder))
    assert kafkalog.verify(folder.parent).at_least("warning") == []
    assert has_happened()


def test_a_snapshot_that_the_broker_removed_after_the_listing_does_not_end_the_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = sorted(folder.glob("*.snapshot"))[0]
    has_happened = when_opened(monkeypatch, snapshot, snapshot.unlink)
    assert kafkalog.verify(folder.parent).at_least("warning") == []
    assert has_happened()
