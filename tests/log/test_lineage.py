"""Whether a log still holds what was read of it: by its last entry, by the epochs of its entries, by its checkpoint."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from crc32c import crc32c

import kafkalog
from kafkalog.errors import Limits
from kafkalog.format.checkpoint import EpochStart
from kafkalog.format.reference import Record, encode_batch, encode_message
from kafkalog.log.lineage import Lineage, find_divergence, is_in_place, last_entry_before, trace
from kafkalog.log.partition import Partition
from kafkalog.log.segments import end_offset
from tests.builders.small_logs import made_batch, write_segment


def listed(folder: Path) -> Partition:
    (partition,) = kafkalog.open(folder).partitions
    return partition


def write(folder: Path, *epochs: int, checkpoint: bool = True, first: int = 0) -> Partition:
    """A log of batches of ten records, one of each epoch given."""
    write_segment(folder, first, *(made_batch(first + 10 * number, leader_epoch=epoch) for number, epoch in enumerate(epochs)))
    starts = {epoch: first + 10 * epochs.index(epoch) for epoch in epochs}
    lines = "".join(f"{epoch} {start}\n" for epoch, start in starts.items())
    path = folder / "leader-epoch-checkpoint"
    path.write_text(f"0\n{len(starts)}\n{lines}") if checkpoint else path.unlink(missing_ok=True)
    return listed(folder)


def read_all(partition: Partition) -> Lineage:
    end = end_offset(partition, Limits())
    return trace(partition, end, last_entry_before(partition, end, Limits()))


def diverged(partition: Partition, read: Lineage) -> int | None:
    found = find_divergence(partition, read, end_offset(partition, Limits()), Limits())
    return None if found is None else found.offset


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ((0, 0, 1, 1), None),
        ((0, 0, 1, 1, 1, 2), None),
        ((0, 0, 1), 30),
        ((0, 0, 1, 2), 30),
        ((0, 0, 2, 2, 2), 20),
        ((0, 0, 0, 0, 0), 20),  # a leader whose log is of an older epoch was elected uncleanly
        ((0, 2), 10),
        ((), 0),
    ],
    ids=str,
)
@pytest.mark.parametrize("checkpoint", [True, False], ids=["with a checkpoint", "without"])
def test_the_place_where_a_log_was_truncated_and_written_again(
    tmp_path: Path, now: tuple[int, ...], expected: int | None, checkpoint: bool
) -> None:
    read = read_all(write(tmp_path / "orders-0", 0, 0, 1, 1))
    assert read.epochs == (EpochStart(0, 0), EpochStart(1, 20))
    assert diverged(write(tmp_path / "orders-0", *now, checkpoint=checkpoint), read) == expected


def test_offsets_that_compaction_removed_are_asked_of_the_checkpoint(tmp_path: Path) -> None:
    read = read_all(write(tmp_path / "orders-0", 0, 0, 1, 1))
    write_segment(tmp_path / "orders-0", 0, made_batch(0), made_batch(50, leader_epoch=2))
    (tmp_path / "orders-0" / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n1 20\n2 40\n")
    assert diverged(listed(tmp_path / "orders-0"), read) is None
    (tmp_path / "orders-0" / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n1 20\n2 30\n")
    assert diverged(listed(tmp_path / "orders-0"), read) == 30


def test_a_stale_checkpoint_does_not_contradict_the_entry_that_was_read(tmp_path: Path) -> None:
    read = read_all(write(tmp_path / "orders-0", 0, 0, 1, 1))
    (tmp_path / "orders-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n7 10\n")
    assert diverged(listed(tmp_path / "orders-0"), read) is None


def test_other_content_under_the_same_epoch_shows_without_a_place(tmp_path: Path) -> None:
    read = read_all(write(tmp_path / "orders-0", 0))
    records = [Record(offset, 1, b"key", b"other") for offset in range(10)]
    write_segment(tmp_path / "orders-0", 0, encode_batch(records, leader_epoch=0), made_batch(10))
    found = find_divergence(listed(tmp_path / "orders-0"), read, 20, Limits())
    assert found is not None
    assert found.offset is None


def test_a_batch_that_compaction_thinned_out_is_the_same_log(tmp_path: Path) -> None:
    read = read_all(write(tmp_path / "orders-0", 0, 0))
    left = bytearray(encode_batch([Record(10, 1, b"key", b"value")], leader_epoch=0))
    left[23:27] = struct.pack(">i", 9)  # it still ends at offset 19
    left[17:21] = struct.pack(">I", crc32c(bytes(left[21:])))
    write_segment(tmp_path / "orders-0", 0, made_batch(0, leader_epoch=0), bytes(left))
    found = last_entry_before(listed(tmp_path / "orders-0"), 20, Limits())
    assert found is not None
    assert (found.base_offset, found.last_offset, found.record_count) == (10, 19, 1)
    assert diverged(listed(tmp_path / "orders-0"), read) is None


def test_old_formats_have_no_epochs_but_a_checksum(tmp_path: Path) -> None:
    message = encode_message(Record(0, -1, b"key", b"value"), magic=0)
    write_segment(tmp_path / "orders-0", 0, message)
    read = read_all(listed(tmp_path / "orders-0"))
    assert read.epochs == ()
    write_segment(tmp_path / "orders-0", 0, message, encode_message(Record(1, -1, b"key", b"value"), magic=0))
    assert find_divergence(listed(tmp_path / "orders-0"), read, 2, Limits()) is None
    write_segment(tmp_path / "orders-0", 0, encode_message(Record(0, -1, b"key", b"other"), magic=0))
    assert find_divergence(listed(tmp_path / "orders-0"), read, 1, Limits()) is not None


def test_an_entry_is_in_place_only_where_its_own_header_is(tmp_path: Path) -> None:
    partition = write(tmp_path / "orders-0", 0, 0, 1)
    mark = last_entry_before(partition, 30, Limits())
    assert mark is not None
    assert (mark.base_offset, mark.last_offset, mark.leader_epoch) == (20, 29, 1)
    assert is_in_place(partition, mark, Limits())
    assert not is_in_place(write(tmp_path / "orders-0", 0, 0, 2), mark, Limits())
    assert not is_in_place(write(tmp_path / "orders-0", 0), mark, Limits())
    assert not is_in_place(write(tmp_path / "payments-0", 0, 0, 1, first=10), mark, Limits())


def test_entries_after_the_listing_are_not_looked_at(tmp_path: Path) -> None:
    partition = write(tmp_path / "orders-0", 0, 0)
    write(tmp_path / "orders-0", 0, 0, 1)
    mark = last_entry_before(partition, 1000, Limits())
    assert mark is not None
    assert mark.last_offset == 19
