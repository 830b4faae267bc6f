"""Bad sectors: unreadable bytes are left out and reported, everything else is read (T-23)."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

import kafkalog
from kafkalog.errors import StorageError, UsageError
from kafkalog.format.reference import Record, encode_batch
from kafkalog.storage.local import SECTOR_BYTES, LocalFile, LocalStore, PatchedSource

BAD_START, BAD_STOP = 2 * SECTOR_BYTES, 3 * SECTOR_BYTES


@pytest.fixture
def bad_sector(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every read that touches one sector of 4 KiB fails, as a dying disk makes it fail."""
    whole = LocalFile.read_into

    def read_into(self: LocalFile, position: int, target: memoryview) -> int:
        if self.path.endswith(".log") and position < BAD_STOP and position + len(target) > BAD_START:
            error = StorageError(f"{self.path}: cannot read at byte {position}", file=self.path)
            error.errno = errno.EIO
            raise error
        return whole(self, position, target)

    monkeypatch.setattr(LocalFile, "read_into", read_into)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """40 batches of 10 records, about 500 bytes each."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    batches = []
    for base in range(0, 400, 10):
        records = [Record(base + delta, 1000, b"key", b"v" * 30) for delta in range(10)]
        batches.append(encode_batch(records, base_offset=base))
    (folder / "00000000000000000000.log").write_bytes(b"".join(batches))
    return folder


@pytest.mark.usefixtures("bad_sector")
def test_zeros_stand_in_for_a_sector_that_cannot_be_read(partition: Path) -> None:
    file = partition / "00000000000000000000.log"
    failures: list[tuple[int, int]] = []
    opened = LocalStore(str(partition)).open(str(file))
    with PatchedSource(opened, lambda position, size: failures.append((position, size))) as source:
        found = source.read(0, source.size)
        assert source.read(BAD_START + 10, 5) == bytes(5)
    stored = file.read_bytes()
    assert found == stored[:BAD_START] + bytes(SECTOR_BYTES) + stored[BAD_STOP:]
    assert failures == [(BAD_START, SECTOR_BYTES)]


@pytest.mark.usefixtures("bad_sector")
@pytest.mark.parametrize("threads", [1, 2])
def test_salvage_reads_every_batch_outside_of_a_bad_sector(partition: Path, threads: int) -> None:
    logs = kafkalog.open(partition)
    table = logs.read("records", on_damage="salvage", skip_io_errors=True, threads=threads).read_all()
    stored = (partition / "00000000000000000000.log").stat().st_size
    size = stored // 40
    intact = [number for number in range(40) if (number + 1) * size <= BAD_START or number * size >= BAD_STOP]
    assert table["offset"].to_pylist() == [number * 10 + delta for number in intact for delta in range(10)]
    assert "unreadable" in logs.report.reasons


@pytest.mark.usefixtures("bad_sector")
def test_without_the_option_the_file_is_named_and_the_read_continues_with_others(partition: Path) -> None:
    logs = kafkalog.open(partition)
    assert logs.read("records", on_damage="skip").read_all().num_rows == 0
    assert "cannot read" in logs.report.unread[0]
    with pytest.raises(StorageError, match="cannot read"):
        logs.read("records").read_all()


def test_strict_and_skipping_io_errors_contradict_each_other(partition: Path) -> None:
    with pytest.raises(UsageError, match="skip_io_errors"):
        kafkalog.open(partition).read("records", skip_io_errors=True)
