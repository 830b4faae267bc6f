"""The findings of verify, one fault at a time, and cases that only look like one."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import kafkalog
from kafkalog.errors import ERROR, INFO, REASONS, SEVERITIES
from kafkalog.format.checkpoint import PartitionMetadata, encode_partition_metadata
from kafkalog.format.reference import Record, encode_batch
from kafkalog.format.snapshot import PRODUCERS, encode_snapshot
from kafkalog.log.checks import partition as checks
from kafkalog.log.checks.finding import Finding
from kafkalog.tasks.verify import verify
from tests.builders.small_logs import FIRST_TIME, made_batch, marker, read_rows, transactional_batch, write_segment

TOPIC_IDS = ("AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg")


def write_log(folder: Path, base_offset: int, *entries: bytes, index: bytes = b"") -> Path:
    """A segment with an index, as a broker leaves it."""
    log = write_segment(folder, base_offset, *entries)
    log.with_suffix(".index").write_bytes(index)
    return log


def idempotent_batch(first_offset: int, count: int, base_sequence: int, epoch: int = 0) -> bytes:
    return made_batch(first_offset, count, producer_id=5, producer_epoch=epoch, base_sequence=base_sequence)


def codes(path: Path) -> list[tuple[str, int | None]]:
    return [(finding.reason, finding.position) for finding in kafkalog.verify(path)]


def only(path: Path) -> Finding:
    found = list(kafkalog.verify(path))
    assert len(found) == 1, found
    return found[0]


def test_a_healthy_log_has_no_findings_and_is_counted(tmp_path: Path) -> None:
    write_log(tmp_path / "orders-0", 0, made_batch(0), made_batch(10))
    write_log(tmp_path / "orders-0", 20, made_batch(20))
    found = kafkalog.verify(tmp_path)
    assert (len(found), found.is_healthy, found.partitions) == (0, True, ["orders-0"])
    assert (found.batch_count, found.record_count) == (3, 30)
    assert found.log_bytes == sum(path.stat().st_size for path in (tmp_path / "orders-0").glob("*.log"))


def test_all_damage_of_a_segment_is_found_in_one_run_and_nothing_else(tmp_path: Path) -> None:
    batches = [made_batch(offset) for offset in range(0, 100, 10)]
    log = write_log(tmp_path / "orders-0", 0, *batches)
    starts = [sum(map(len, batches[:number])) for number in range(10)]
    content = bytearray(log.read_bytes())
    content[starts[2] + 100] ^= 1  # a value
    content[starts[5] + 10] ^= 0x40  # the length
    content[starts[8] + 3] ^= 1  # the offset, which no checksum covers
    log.write_bytes(content)
    found = kafkalog.verify(tmp_path)
    assert [(each.position, each.length) for each in found] == [(starts[at], len(batches[at])) for at in (2, 5, 8)]
    assert found.findings[0].reason == "crc"
    assert found.record_count == 70


def test_a_gap_is_a_warning_until_something_shows_that_a_cleaner_was_here(tmp_path: Path) -> None:
    write_log(tmp_path / "orders-0", 0, made_batch(0), made_batch(30))
    assert (only(tmp_path).reason, only(tmp_path).severity) == ("gap", "warning")
    sparse = encode_batch([Record(50, FIRST_TIME, b"k", b"v"), Record(53, FIRST_TIME, b"k", b"v")])
    write_log(tmp_path / "orders-0", 0, made_batch(0), made_batch(30), sparse)
    assert codes(tmp_path) == []


def test_a_log_that_the_cleaner_checkpoint_names_may_have_gaps(tmp_path: Path) -> None:
    write_log(tmp_path / "orders-0", 0, made_batch(0), made_batch(30))
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 35\n")
    assert codes(tmp_path) == []
    assert codes(tmp_path / "orders-0") == []


def test_a_segment_that_ends_before_the_next_begins_is_reported_at_its_end(tmp_path: Path) -> None:
    log = write_log(tmp_path / "orders-0", 0, made_batch(0))
    write_log(tmp_path / "orders-0", 15, made_batch(15))
    finding = only(tmp_path)
    assert (finding.reason, finding.position, finding.base_offset, finding.last_offset) == (
        *("gap-at-end", log.stat().st_size),
        *(10, 14),
    )


@pytest.mark.parametrize(
    ("sequences", "reason"),
    [((0, 10), None), ((0, 11), "sequence-gap"), ((0, 5), "sequence-duplicate"), (((1 << 31) - 5, 5), None), ((7, 17), None)],
)
def test_sequence_numbers_of_a_producer_follow_one_another(
    tmp_path: Path, sequences: tuple[int, int], reason: str | None
) -> None:
    first = idempotent_batch(0, 10, sequences[0])
    write_log(tmp_path / "orders-0", 0, first, idempotent_batch(10, 10, sequences[1]))
    assert codes(tmp_path) == ([] if reason is None else [(reason, len(first))])


def test_a_new_epoch_of_a_producer_begins_with_sequence_0_and_none_goes_back(tmp_path: Path) -> None:
    first = idempotent_batch(0, 10, 0, epoch=1)
    write_log(tmp_path / "orders-0", 0, first, idempotent_batch(10, 10, 0, epoch=2))
    assert codes(tmp_path) == []
    write_log(tmp_path / "orders-0", 0, first, idempotent_batch(10, 10, 10, epoch=2))
    assert codes(tmp_path) == [("sequence-gap", len(first))]
    write_log(tmp_path / "orders-0", 0, first, idempotent_batch(10, 10, 0, epoch=0))
    assert codes(tmp_path) == [("producer-epoch", len(first))]


def test_after_damage_any_sequence_number_is_right(tmp_path: Path) -> None:
    batches = [idempotent_batch(offset, 10, offset) for offset in range(0, 40, 10)]
    log = write_log(tmp_path / "orders-0", 0, *batches)
    content = bytearray(log.read_bytes())
    content[len(batches[0]) + 70] ^= 1
    log.write_bytes(content)
    assert codes(tmp_path) == [("crc", len(batches[0]))]


def test_an_index_entry_between_two_batches_is_a_mismatch_at_its_place(tmp_path: Path) -> None:
    batches = [made_batch(offset) for offset in range(0, 40, 10)]
    at = len(batches[0])
    right = struct.pack(">ii", 19, at)
    write_log(tmp_path / "orders-0", 0, *batches, index=right)
    write_log(tmp_path / "orders-0", 40, made_batch(40))
    assert codes(tmp_path) == []
    for entry in (struct.pack(">ii", 19, at + 1), struct.pack(">ii", 9, at), struct.pack(">ii", 45, at), right[:7]):
        write_log(tmp_path / "orders-0", 0, *batches, index=entry)
        assert codes(tmp_path) == [("index-mismatch", 0)]


def test_the_zeros_of_an_index_that_is_still_open_are_no_entries(tmp_path: Path) -> None:
    log = write_log(tmp_path / "orders-0", 0, made_batch(0), made_batch(10), index=bytes(1 << 20))
    log.with_suffix(".timeindex").write_bytes(bytes(12 * 1000))
    assert codes(tmp_path) == []


def test_an_aborted_transaction_has_to_be_in_the_index_of_its_markers_segment(tmp_path: Path) -> None:
    log = write_log(tmp_path / "orders-0", 0, transactional_batch(0, 3, 1), marker(3, 1, commit=False))
    assert only(tmp_path).reason == "index-mismatch"
    log.with_suffix(".txnindex").write_bytes(struct.pack(">hqqqq", 0, 1, 0, 3, 4))
    assert codes(tmp_path) == []
    for wrong in ((0, 2, 0, 3, 4), (0, 1, 1, 3, 4), (0, 1, 0, 2, 3), (0, 1, 0, 3, 3)):
        log.with_suffix(".txnindex").write_bytes(struct.pack(">hqqqq", *wrong))
        assert "index-mismatch" in {reason for reason, _ in codes(tmp_path)}


def test_a_snapshot_has_to_say_what_the_log_says(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    write_log(folder, 0, idempotent_batch(0, 10, 0))
    write_log(folder, 10, made_batch(10))
    state = np.zeros(1, PRODUCERS)
    for last_sequence, wrong in ((9, False), (8, True)):
        state[0] = (5, 0, last_sequence, 9, 9, FIRST_TIME + 9, -1, -1)
        (folder / "00000000000000000010.snapshot").write_bytes(encode_snapshot(state))
        assert codes(tmp_path) == ([("snapshot-mismatch", 10)] if wrong else [])


def test_a_checkpoint_beyond_the_end_says_that_the_end_is_lost(tmp_path: Path) -> None:
    write_log(tmp_path / "orders-0", 0, made_batch(0))
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\norders 0 11\n")
    finding = only(tmp_path)
    assert (finding.reason, finding.found) == ("checkpoint-mismatch", "11")
    (tmp_path / "replication-offset-checkpoint").write_text("0\n2\norders 0 11\n")
    assert only(tmp_path).reason == "file-format"


def test_partitions_of_a_topic_have_one_topic_id(tmp_path: Path) -> None:
    for number, topic_id in enumerate(TOPIC_IDS):
        write_log(tmp_path / f"orders-{number}", 0, made_batch(0))
        (tmp_path / f"orders-{number}" / "partition.metadata").write_bytes(
            encode_partition_metadata(PartitionMetadata(0, topic_id))
        )
    assert (only(tmp_path).reason, only(tmp_path).partition) == ("topic-id", 1)


def test_leftovers_are_reported_and_foreign_folders_too(tmp_path: Path) -> None:
    write_log(tmp_path / "orders-0", 0, made_batch(0))
    (tmp_path / "orders-0" / "00000000000000000000.log.deleted").write_bytes(b"x")
    (tmp_path / f"old-0.{'a' * 32}-delete").mkdir()
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "orders-0" / "00000000000000000099.index").write_bytes(b"")
    reasons = sorted((finding.reason, finding.severity) for finding in kafkalog.verify(tmp_path))
    assert reasons == [("foreign-folder", "warning"), ("leftover", INFO), ("leftover", INFO), ("orphan", INFO)]


def test_the_tail_of_a_log_is_damage_if_the_broker_says_that_it_closed_it(tmp_path: Path) -> None:
    log = write_log(tmp_path / "orders-0", 0, made_batch(0))
    log.write_bytes(log.read_bytes() + bytes(100))
    assert (only(tmp_path).reason, only(tmp_path).severity) == ("zero-tail", INFO)
    (tmp_path / ".kafka_cleanshutdown").write_bytes(b"")
    assert (only(tmp_path).reason, only(tmp_path).severity) == ("zero-tail", ERROR)


def test_a_file_that_is_not_one_is_a_finding_and_the_rest_is_checked(tmp_path: Path) -> None:
    log = write_log(tmp_path / "orders-0", 0, made_batch(0))
    (tmp_path / "orders-0" / "00000000000000000010.log").symlink_to(log)
    found = kafkalog.verify(tmp_path)
    assert "unreadable" in {finding.reason for finding in found}
    assert found.record_count == 10


def test_a_fault_of_every_entry_is_not_reported_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MAX_OF_A_KIND", 4)
    write_log(tmp_path / "orders-0", 0, *[made_batch(0) for _ in range(20)])
    found = list(kafkalog.verify(tmp_path))
    assert [finding.reason for finding in found] == ["offset-order"] * 4
    assert "left out" in found[-1].detail


def test_topics_and_partitions_can_be_chosen_and_the_table_is_the_same(tmp_path: Path) -> None:
    for name in ("orders-0", "orders-1", "users-0"):
        write_log(tmp_path / name, 0, made_batch(0), made_batch(30))
    found = kafkalog.verify(tmp_path, topics=["orders"], partitions=[1])
    assert [(finding.topic, finding.partition) for finding in found] == [("orders", 1)]
    rows = read_rows(tmp_path, "findings")
    assert [(row["topic"], row["reason"], row["position"]) for row in rows] == [
        (finding.topic, finding.reason, finding.position) for finding in kafkalog.verify(tmp_path)
    ]
    with pytest.raises(kafkalog.UsageError):
        kafkalog.verify(tmp_path, topics=["nothing"])


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_every_reason_code_has_a_severity_and_says_what_to_do(reason: str) -> None:
    assert REASONS[reason].severity in SEVERITIES
    assert REASONS[reason].advice.endswith(".")


def test_a_transaction_that_a_producer_began_after_other_batches_is_replayed_from_its_first(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    plain = [made_batch(at, 1, producer_id=5, producer_epoch=0, base_sequence=at) for at in range(3)]
    write_log(folder, 0, *plain, *[transactional_batch(at, 1, 5, at) for at in range(3, 8)])
    write_log(folder, 8, made_batch(8))
    state = np.zeros(1, PRODUCERS)
    for first_offset, wrong in ((3, False), (4, True)):
        state[0] = (5, 0, 7, 7, 0, FIRST_TIME + 7, -1, first_offset)
        (folder / "00000000000000000008.snapshot").write_bytes(encode_snapshot(state))
        assert codes(tmp_path) == ([("snapshot-mismatch", 10)] if wrong else [])


def test_a_single_file_is_checked_by_itself(tmp_path: Path) -> None:
    log = write_log(tmp_path / "orders-0", 0, transactional_batch(0, 3, 1), marker(3, 1, commit=False))
    assert codes(log) == []
    with pytest.raises(kafkalog.UsageError, match="give the folder"):
        kafkalog.verify(log.with_suffix(".index"))


def test_an_abort_marker_that_is_in_the_log_before_its_index_entry_is_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker appends the marker first, and the folder was listed before either."""
    folder = tmp_path / "orders-0"
    log = write_log(folder, 0, transactional_batch(0, 3, producer_id=7))
    logs = kafkalog.open(folder)
    with log.open("ab") as file:
        file.write(marker(3, producer_id=7, commit=False))
    entry = struct.pack(">hqqqq", 0, 7, 0, 3, 4)

    def catch_up(seconds: float) -> None:
        log.with_suffix(".txnindex").write_bytes(entry)

    monkeypatch.setattr("kafkalog.log.checks.run.time.sleep", catch_up)
    assert not list(verify(logs))


def test_an_index_entry_that_a_broker_at_work_never_writes_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "orders-0"
    log = write_log(folder, 0, transactional_batch(0, 3, producer_id=7), marker(3, producer_id=7, commit=False))
    logs = kafkalog.open(folder)
    appended = [made_batch(4 + number, 1) for number in range(20)]

    def go_on(seconds: float) -> None:
        with log.open("ab") as file:
            file.write(appended.pop(0))

    go_on(0)
    monkeypatch.setattr("kafkalog.log.checks.run.time.sleep", go_on)
    assert [finding.reason for finding in verify(logs)] == ["index-mismatch"]


def test_a_segment_that_is_rolled_and_deleted_while_verify_runs_is_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "orders-0"
    first = write_log(folder, 0, made_batch(0))
    write_log(folder, 10, made_batch(10))
    logs = kafkalog.open(folder)
    for path in folder.glob(first.with_suffix(".*").name):
        path.unlink()
    write_log(folder, 20, made_batch(20))
    monkeypatch.setattr("kafkalog.log.checks.run.time.sleep", lambda seconds: None)
    assert not list(verify(logs))


def test_of_a_log_that_cannot_be_read_nothing_else_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    log = write_log(folder, 0, *(made_batch(at) for at in range(0, 50, 10)), index=struct.pack(">ii", 19, 200))
    write_log(folder, 50, made_batch(50))
    log.with_suffix(".timeindex").write_bytes(struct.pack(">qi", FIRST_TIME + 49, 49))
    log.rename(tmp_path / "elsewhere")
    log.symlink_to(tmp_path / "elsewhere")  # which even root cannot read
    found = kafkalog.verify(folder)
    assert {finding.reason for finding in found} <= {"unreadable", "not-a-file", "orphan"}
    assert found.errors
