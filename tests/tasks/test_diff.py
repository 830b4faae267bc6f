"""`kafkalog.diff`: what it finds in two copies, at which batch and byte, and what it takes for explained."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from kafkalog.codecs import GZIP, LZ4, SNAPPY, ZSTD
from kafkalog.errors import REASONS, UsageError
from kafkalog.format.checkpoint import PartitionMetadata, encode_partition_metadata
from kafkalog.format.reference import Record, encode_batch, encode_message, encode_wrapper
from kafkalog.log.comparison.difference import DIFFERENCES, Difference
from kafkalog.storage.fs import LocalFs
from tests.builders.small_logs import compress, made_batch, made_records, marker, transactional_batch, write_segment
from tests.campaigns.two_copies import find_planted
from tests.engine.compacted_logs import Log, random_steps, run_steps

BATCHES = tuple(made_batch(offset, leader_epoch=1) for offset in range(0, 200, 10))
CLEANED = "0\n1\nt 0 200\n"
NAME = "t-0"


def copies(tmp_path: Path, a: list[bytes], b: list[bytes]) -> tuple[Path, Path]:
    """Two log directories with one partition each, of one segment."""
    for side, entries in (("a", a), ("b", b)):
        write_segment(tmp_path / side / NAME, 0, *entries)
    return tmp_path / "a", tmp_path / "b"


def rows(found: kafkalog.tasks.diff.Comparison) -> list[tuple[str, str, int | None, int | None]]:  # type: ignore[name-defined]
    return [(row.reason, row.side, row.first_offset, row.last_offset) for row in found]


def only(a: Path, b: Path, **choices: object) -> Difference:
    found = kafkalog.diff(a, b, **choices)  # type: ignore[arg-type]
    assert len(found) == 1, list(found)
    return next(iter(found))


def flip(entry: bytes, position: int, mask: int = 1) -> bytes:
    changed = bytearray(entry)
    changed[position] ^= mask
    return bytes(changed)


def replaced(number: int, entry: bytes) -> list[bytes]:
    return [*BATCHES[:number], entry, *BATCHES[number + 1 :]]


def keyed_batch(first_offset: int, keys: list[bytes], values: list[bytes | None] | None = None) -> bytes:
    given: list[bytes | None] = [b"value"] * len(keys) if values is None else values
    records = [Record(first_offset + at, 5, key, given[at], ()) for at, key in enumerate(keys)]
    return encode_batch(records, compress=compress)


# -- nothing -------------------------------------------------------------------------------------------------------------------


def test_two_copies_are_the_same(tmp_path: Path) -> None:
    found = kafkalog.diff(*copies(tmp_path, [*BATCHES], [*BATCHES]))
    assert found.is_same
    assert found.text == "the copies are the same: 1 partition, 20 batches"
    assert [step.command for step in found.next_steps] == [f"kafkalog verify {tmp_path / 'a'}"]


def test_segments_of_replicas_may_begin_at_other_offsets(tmp_path: Path) -> None:
    copies(tmp_path, [*BATCHES[:7]], [*BATCHES[:12]])
    write_segment(tmp_path / "a" / NAME, 70, *BATCHES[7:])
    write_segment(tmp_path / "b" / NAME, 120, *BATCHES[12:15])
    write_segment(tmp_path / "b" / NAME, 150, *BATCHES[15:])
    assert kafkalog.diff(tmp_path / "a", tmp_path / "b").is_same


def test_single_partitions_are_compared_whatever_their_folders_are_called(tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-0", 0, *BATCHES)
    write_segment(tmp_path / "copy of orders", 0, *BATCHES[:-1])
    assert only(tmp_path / "orders-0", tmp_path / "copy of orders").reason == "shorter"
    assert kafkalog.diff(tmp_path / "orders-0", tmp_path / "orders-0" / f"{0:020d}.log").is_same


def test_a_segment_file_is_compared_for_the_offsets_that_it_holds(tmp_path: Path) -> None:
    copies(tmp_path, [*BATCHES], [*BATCHES[:5]])
    segment = write_segment(tmp_path / "b" / NAME, 50, *BATCHES[5:10])
    assert kafkalog.diff(tmp_path / "a" / NAME, segment).is_same


def test_empty_copies(tmp_path: Path) -> None:
    a, b = copies(tmp_path, [], [])
    assert kafkalog.diff(a, b).is_same
    write_segment(a / NAME, 0, *BATCHES)
    assert rows(kafkalog.diff(a, b)) == [("shorter", "b", 0, 199)]


# -- what nothing explains -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damaged", ["a", "b"])
def test_a_flipped_bit_is_found_with_its_byte_on_the_side_that_has_it(tmp_path: Path, damaged: str) -> None:
    wrong = replaced(7, flip(BATCHES[7], 100, 0x10))
    a, b = copies(tmp_path, wrong if damaged == "a" else [*BATCHES], wrong if damaged == "b" else [*BATCHES])
    row = only(a, b)
    assert (row.reason, row.kind, row.side, row.first_offset, row.last_offset) == ("crc", "damage", damaged, 70, 79)
    assert row.a is not None
    assert row.b is not None
    assert row.a.position == row.b.position == sum(map(len, BATCHES[:7]))
    assert row.byte == 100
    assert (row.byte_a, row.byte_b) == ((wrong[7][100], BATCHES[7][100]) if damaged == "a" else (BATCHES[7][100], wrong[7][100]))
    found = kafkalog.diff(a, b)
    assert not found.is_explained
    other = "b" if damaged == "a" else "a"
    assert f"{other} has what {damaged} has lost" in found.text
    assert [step.command.split()[1] for step in found.next_steps] == ["explain", "explain", "salvage"]


@pytest.mark.parametrize("number", [0, 7, 19])
def test_a_length_that_leads_nowhere_takes_one_batch(tmp_path: Path, number: int) -> None:
    a, b = copies(tmp_path, [*BATCHES], replaced(number, flip(BATCHES[number], 8, 0x40)))
    found = kafkalog.diff(a, b)
    if number < 19:
        assert [(row.side, row.first_offset, row.last_offset) for row in found] == [("b", 10 * number, 10 * number + 9)]
        assert not found.is_explained
    else:  # at the end of the newest segment it is an unfinished write
        assert {row.reason for row in found} == {"unfinished", "shorter"}
        assert found.is_explained


def test_damages_are_rows_of_their_own_unless_they_touch_each_other(tmp_path: Path) -> None:
    wrong = [flip(batch, 90) if number in (4, 5, 8) else batch for number, batch in enumerate(BATCHES)]
    assert rows(kafkalog.diff(*copies(tmp_path, wrong, [*BATCHES]))) == [("crc", "a", 40, 59), ("crc", "a", 80, 89)]


def test_the_same_damage_in_both_copies_is_damage_of_both(tmp_path: Path) -> None:
    wrong = replaced(3, flip(BATCHES[3], 90))
    found = kafkalog.diff(*copies(tmp_path, wrong, wrong))
    assert rows(found) == [("crc", "a", 30, 39), ("crc", "b", 30, 39)]
    assert "Each side has something that the other has lost" in found.text


def test_a_missing_batch_in_the_middle_is_found(tmp_path: Path) -> None:
    found = kafkalog.diff(*copies(tmp_path, [*BATCHES], [*BATCHES[:6], *BATCHES[8:]]))
    assert rows(found) == [("missing", "b", 60, 79)]
    (row,) = found
    assert row.a is not None
    assert (row.a.position, row.b, row.batch_count, row.record_count) == (sum(map(len, BATCHES[:6])), None, 2, 20)
    assert "--fill-gaps" in found.next_steps[-1].command


def test_missing_batches_with_common_ones_between_them_are_rows_of_their_own(tmp_path: Path) -> None:
    kept = [batch for number, batch in enumerate(BATCHES) if number not in (3, 5, 6, 9)]
    found = kafkalog.diff(*copies(tmp_path, kept, [*BATCHES]))
    assert rows(found) == [("missing", "a", 30, 39), ("missing", "a", 50, 69), ("missing", "a", 90, 99)]


def test_a_diverged_epoch_is_found_at_its_first_batch_and_the_newer_side_is_named(tmp_path: Path) -> None:
    other = [
        encode_batch([Record(at, 7, b"k", b"other", ()) for at in range(base, base + 10)], leader_epoch=3) for base in (150, 160)
    ]
    a, b = copies(tmp_path, [*BATCHES], [*BATCHES[:15], *other])
    found = kafkalog.diff(a, b)
    assert rows(found) == [("diverged", "", 150, 169), ("shorter", "b", 170, 199)]
    row = found.unexplained[0]
    assert row.a is not None
    assert row.b is not None
    assert (row.a.leader_epoch, row.b.leader_epoch, row.batch_count, row.record_count) == (1, 3, 2, 20)
    assert "A broker would follow b, whose last batch has leader epoch 3 and offset 169" in found.text
    assert found.partitions[0].newer == "b"
    assert found.next_steps[-1].command == f"kafkalog salvage {b / NAME} {a / NAME} --out rescued"


def test_other_records_under_the_same_epoch_are_found_though_both_checksums_match(tmp_path: Path) -> None:
    records = made_records(70, 10)
    records[3] = Record(73, records[3].timestamp, b"key-73", b"VALUE-73", ())
    row = only(*copies(tmp_path, [*BATCHES], replaced(7, encode_batch(records, leader_epoch=1))))
    assert (row.reason, row.first_offset, row.last_offset, row.record_count) == ("content", 73, 73, 1)


@pytest.mark.parametrize(("position", "mask", "reason"), [(15, 2, "epoch"), (7, 70 ^ 72, "offset")])
def test_flipped_bits_outside_of_the_checksum_are_found(tmp_path: Path, position: int, mask: int, reason: str) -> None:
    kept = [*BATCHES[:8], *BATCHES[9:]]  # a gap on both sides, so that the wrong offset fits in
    wrong = [*kept]
    wrong[7] = flip(wrong[7], position, mask)
    row = only(*copies(tmp_path, kept, wrong))
    assert (row.reason, row.byte) == (reason, position)
    assert not row.is_explained


def test_an_offset_that_contradicts_its_neighbours_is_damage(tmp_path: Path) -> None:
    row = only(*copies(tmp_path, [*BATCHES], replaced(7, flip(BATCHES[7], 2, 0x40))))
    assert (row.reason, row.side, row.first_offset, row.last_offset) == ("offset-order", "b", 70, 79)


def test_a_missing_segment_file_is_found(tmp_path: Path) -> None:
    for side, bases in (("a", (0, 100, 150)), ("b", (0, 150))):
        for base, stop in zip(bases, {"a": (100, 150, 200), "b": (100, 200)}[side], strict=True):
            write_segment(tmp_path / side / NAME, base, *BATCHES[base // 10 : stop // 10])
    assert rows(kafkalog.diff(tmp_path / "a", tmp_path / "b")) == [("missing", "b", 100, 149)]


# -- where a copy begins and ends ----------------------------------------------------------------------------------------------


def test_retention_explains_a_later_start_unless_the_epochs_begin_before(tmp_path: Path) -> None:
    a, b = copies(tmp_path, [*BATCHES], [])
    (b / NAME / f"{0:020d}.log").unlink()
    write_segment(b / NAME, 50, *BATCHES[5:])
    row = only(a, b)
    assert (row.reason, row.side, row.first_offset, row.last_offset, row.batch_count) == ("retention", "b", 0, 49, 5)
    assert row.explained_by == "retention"
    (b / NAME / "leader-epoch-checkpoint").write_text("0\n1\n1 50\n")
    assert only(a, b).reason == "retention"
    (b / NAME / "leader-epoch-checkpoint").write_text("0\n1\n1 0\n")
    assert (only(a, b).reason, only(a, b).is_explained) == ("start-lost", False)


def test_delete_records_explains_a_later_start(tmp_path: Path) -> None:
    a, b = copies(tmp_path, [*BATCHES], [])
    (b / NAME / f"{0:020d}.log").unlink()
    write_segment(b / NAME, 50, *BATCHES[5:])
    (b / "log-start-offset-checkpoint").write_text("0\n1\nt 0 73\n")
    row = only(a, b)
    assert (row.reason, row.explained_by, row.last_offset) == ("delete-records", "DeleteRecords", 49)


def test_a_shorter_copy_is_explained_unless_its_checkpoints_say_that_it_was_longer(tmp_path: Path) -> None:
    a, b = copies(tmp_path, [*BATCHES], [*BATCHES[:15]])
    row = only(a, b)
    assert (row.reason, row.side, row.first_offset, row.last_offset) == ("shorter", "b", 150, 199)
    (b / "replication-offset-checkpoint").write_text("0\n1\nt 0 150\n")
    assert only(a, b).is_explained
    (b / "replication-offset-checkpoint").write_text("0\n1\nt 0 180\n")
    row = only(a, b)
    assert (row.reason, row.is_explained) == ("end-lost", False)
    assert row.detail == "replication-offset-checkpoint has offset 180, and the log ends at 150"


def test_an_epoch_that_begins_after_the_end_shows_a_lost_end(tmp_path: Path) -> None:
    a, b = copies(tmp_path, [*BATCHES], [*BATCHES[:15]])
    (b / NAME / "leader-epoch-checkpoint").write_text("0\n2\n1 0\n2 150\n")
    assert only(a, b).reason == "shorter"  # the epoch of a leader that wrote nothing
    (b / NAME / "leader-epoch-checkpoint").write_text("0\n2\n1 0\n2 170\n")
    assert only(a, b).reason == "end-lost"


@pytest.mark.parametrize("left", [5, 40, 150])
def test_an_unfinished_write_at_the_end_is_explained(tmp_path: Path, left: int) -> None:
    found = kafkalog.diff(*copies(tmp_path, [*BATCHES], [*BATCHES[:15], BATCHES[15][:left]]))
    assert rows(found) == [("shorter", "b", 150, 199), ("unfinished", "b", None, None)]
    assert found.is_explained
    assert found.text == "the copies differ only in what unfinished tail explains: 1 partition"


# -- batches that are cut differently ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [0, GZIP, SNAPPY, LZ4, ZSTD])
def test_the_same_records_in_other_batches_are_explained(tmp_path: Path, codec: int) -> None:
    larger = [made_batch(offset, 25, leader_epoch=1, codec=codec) for offset in range(0, 200, 25)]
    row = only(*copies(tmp_path, [*BATCHES], larger))
    assert (row.reason, row.explained_by, row.first_offset, row.last_offset) == ("re-encoded", "re-encoding", 0, 199)


def test_a_record_that_differs_is_found_in_batches_that_are_cut_differently(tmp_path: Path) -> None:
    larger = [made_batch(offset, 25, leader_epoch=1, codec=ZSTD) for offset in range(0, 200, 25)]
    records = made_records(100, 25)
    records[7] = Record(107, records[7].timestamp, b"key-107", None, ())
    larger[4] = encode_batch(records, leader_epoch=1)
    del larger[6]
    found = kafkalog.diff(*copies(tmp_path, [*BATCHES], larger))
    assert rows(found) == [("re-encoded", "", 0, 199), ("content", "", 107, 107), ("missing", "b", 150, 174)]


def test_headers_and_timestamps_count(tmp_path: Path) -> None:
    one, other = (encode_batch([Record(0, 5, b"k", b"v", ((b"h", value),))]) for value in (b"1", b"2"))
    later = encode_batch([Record(0, 6, b"k", b"v", ((b"h", b"1"),))])
    for number, entry in enumerate((other, later)):
        assert only(*copies(tmp_path / str(number), [one], [entry])).reason == "content"


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("is_compressed", [False, True])
def test_old_formats(tmp_path: Path, magic: int, is_compressed: bool) -> None:
    times = [-1 if magic == 0 else 1000 + at for at in range(60)]
    records = [Record(at, times[at], b"key-%d" % (at % 7), b"value-%d" % at, ()) for at in range(60)]
    if is_compressed:
        entries = [encode_wrapper(records[at : at + 10], codec=GZIP, compress=compress, magic=magic) for at in range(0, 60, 10)]
    else:
        entries = [encode_message(record, magic=magic) for record in records]
    assert kafkalog.diff(*copies(tmp_path / "same", entries, entries)).is_same
    assert only(*copies(tmp_path / "flipped", entries, [*entries[:3], flip(entries[3], 30), *entries[4:]])).reason == "crc"
    missing = only(*copies(tmp_path / "missing", entries, [*entries[:2], *entries[4:]]))
    assert (missing.reason, missing.record_count) == ("missing", 20 if is_compressed else 2)
    converted = encode_batch([*records], compress=compress)
    assert only(*copies(tmp_path / "converted", entries, [converted])).reason == "re-encoded"


def test_transactions_and_their_markers(tmp_path: Path) -> None:
    entries = [
        transactional_batch(0, 5, 7),
        marker(5, 7, commit=True),
        transactional_batch(6, 5, 7, 5),
        marker(11, 7, commit=False),
    ]
    assert kafkalog.diff(*copies(tmp_path / "same", entries, entries)).is_same
    row = only(*copies(tmp_path / "markers", entries, [*entries[:3], marker(11, 7, commit=True)]))
    assert (row.reason, row.first_offset) == ("content", 11)
    assert rows(kafkalog.diff(*copies(tmp_path / "gap", entries, [entries[0], *entries[2:]]))) == [("missing", "b", 5, 5)]


# -- compaction ----------------------------------------------------------------------------------------------------------------

KEYED = [keyed_batch(10 * number, [b"key-%d" % ((10 * number + at) % 15) for at in range(10)]) for number in range(10)]


def test_a_missing_batch_of_a_compacted_topic_is_explained_if_later_records_have_its_keys(tmp_path: Path) -> None:
    a, b = copies(tmp_path, KEYED, [*KEYED[:3], *KEYED[5:]])
    assert only(a, b).reason == "missing"  # nothing says that it was compacted
    assert only(a, b, compacted=True).reason == "compacted"
    (b / "cleaner-offset-checkpoint").write_text(CLEANED)
    row = only(a, b)
    assert (row.reason, row.side, row.first_offset, row.last_offset, row.record_count) == ("compacted", "b", 30, 49, 20)
    assert row.explained_by == "compaction"


def test_all_records_that_compaction_removed_are_counted_however_scattered(tmp_path: Path) -> None:
    entries = [keyed_batch(number, [b"odd" if number % 2 else b"even"]) for number in range(3001)]
    a, b = copies(tmp_path, entries, [*entries[:-1:2], *entries[-2:]])
    row = only(a, b, compacted=True)
    assert (row.reason, row.first_offset, row.last_offset) == ("compacted", 1, 2997)
    assert (row.batch_count, row.record_count) == (1499, 1499)
    unexplained = kafkalog.diff(a, b)
    assert (len(unexplained.partitions[0].differences), unexplained.partitions[0].left_out) == (1000, 499)
    assert "1499 differences that nothing explains" in unexplained.text


def test_a_missing_batch_of_a_compacted_topic_is_lost_if_no_later_record_has_its_keys(tmp_path: Path) -> None:
    unique = [keyed_batch(100, [b"once", b"key-1"]), keyed_batch(102, [b"twice", b"twice"])]
    after = keyed_batch(104, [b"key-%d" % at for at in range(15)])
    a, b = copies(tmp_path, [*KEYED, *unique, after], [*KEYED[:3], *KEYED[5:], after])
    (a / "cleaner-offset-checkpoint").write_text(CLEANED)
    found = kafkalog.diff(a, b)
    assert rows(found) == [("compacted", "b", 30, 103), ("key-lost", "b", 100, 100), ("key-lost", "b", 103, 103)]
    assert [row.record_count for row in found] == [22, 1, 1]


def test_tombstones_and_what_they_delete_are_explained(tmp_path: Path) -> None:
    gone = [keyed_batch(100, [b"gone", b"gone"]), keyed_batch(102, [b"gone"], [None])]
    after = keyed_batch(103, [b"key-1"])
    a, b = copies(tmp_path, [*KEYED, *gone, after], [*KEYED, after])
    (a / "cleaner-offset-checkpoint").write_text(CLEANED)
    assert only(a, b).reason == "compacted"


def test_aborted_records_of_a_compacted_topic_are_explained_and_committed_ones_are_not(tmp_path: Path) -> None:
    aborted = [transactional_batch(100, 5, 7), marker(105, 7, commit=False)]
    committed = [transactional_batch(106, 5, 7, 5), marker(111, 7, commit=True)]
    after = keyed_batch(112, [b"key-1"])
    a, b = copies(tmp_path, [*KEYED, *aborted, *committed, after], [*KEYED, after])
    (a / "cleaner-offset-checkpoint").write_text(CLEANED)
    assert rows(kafkalog.diff(a, b)) == [
        ("compacted", "b", 100, 111),
        *[("key-lost", "b", offset, offset) for offset in range(106, 111)],
    ]


def dirty_and_clean(seed: int, folder: Path) -> tuple[Path, Path]:
    """A log of random appends, transactions, old formats and earlier passes of the cleaner, and what one more makes of it."""
    chance = random.Random(seed)
    cleaned = folder / f"cleaned-{seed}"
    cleaned.mkdir(parents=True)
    log = Log(str(cleaned), LocalFs())
    run_steps(log, random_steps(chance, chance.randrange(5, 40)))
    log.roll()
    log.close()
    dirty = shutil.copytree(cleaned, folder / f"dirty-{seed}")
    log = Log(str(cleaned), LocalFs(), log.clock.now + chance.choice((0, 2000)))
    log.clean_all()
    log.close()
    return dirty, cleaned


def test_logs_before_and_after_the_cleaner_differ_in_nothing_else(tmp_path: Path) -> None:
    reasons: set[str] = set()
    for seed in range(12):
        found = kafkalog.diff(*dirty_and_clean(seed, tmp_path))
        assert found.is_explained, (seed, list(found))
        reasons.update(row.reason for row in found)
    assert reasons == {"compacted", "rewritten"}


def test_a_loss_in_a_cleaned_log_is_found_if_the_cleaner_would_have_kept_it(tmp_path: Path) -> None:
    dirty, cleaned = dirty_and_clean(3, tmp_path)
    (segment, *_) = [path for path in sorted((cleaned / NAME).glob("*.log")) if path.stat().st_size]
    content = segment.read_bytes()
    size = 12 + struct.unpack(">i", content[8:12])[0]
    segment.write_bytes(content[size:])
    found = kafkalog.diff(dirty, cleaned)
    assert not found.is_explained
    assert {row.reason for row in found.unexplained} <= {"key-lost", "missing"}


# -- log directories -----------------------------------------------------------------------------------------------------------


def two_directories(tmp_path: Path) -> tuple[Path, Path]:
    a, b = copies(tmp_path, [*BATCHES], [*BATCHES])
    write_segment(a / "only-here-0", 0, *BATCHES)
    return a, b


def test_a_partition_that_a_backup_lacks_is_not_explained(tmp_path: Path) -> None:
    row = only(*two_directories(tmp_path))
    assert (row.reason, row.topic, row.side, row.is_explained) == ("partition-missing", "only-here", "b", False)


def test_a_partition_in_one_of_two_log_directories_of_a_cluster_is_explained(tmp_path: Path) -> None:
    a, b = two_directories(tmp_path)
    for folder, node in ((a, 1), (b, 2)):
        (folder / "meta.properties").write_text(f"version=0\nbroker.id={node}\ncluster.id=c\n")
    assert only(a, b).explained_by == "placement of replicas"
    (b / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=c\n")  # a copy of the same directory
    assert not only(a, b).is_explained


def test_two_topics_of_one_name_are_not_compared(tmp_path: Path) -> None:
    a, b = copies(tmp_path, [*BATCHES], [*KEYED])
    for folder, topic_id in ((a, "AAAAAAAAAAAAAAAAAAAAAQ"), (b, "AAAAAAAAAAAAAAAAAAAAAg")):
        (folder / NAME / "partition.metadata").write_bytes(encode_partition_metadata(PartitionMetadata(0, topic_id)))
    row = only(a, b)
    assert (row.reason, row.detail) == ("topic-id", "AAAAAAAAAAAAAAAAAAAAAQ in a, AAAAAAAAAAAAAAAAAAAAAg in b")


def test_a_partition_is_compared_with_the_one_of_its_name_in_a_log_directory(tmp_path: Path) -> None:
    a, b = two_directories(tmp_path)
    assert kafkalog.diff(a / NAME, b).is_same
    assert kafkalog.diff(a, b / NAME).is_same
    with pytest.raises(UsageError, match="no partition only-here-0 here"):
        kafkalog.diff(a / "only-here-0", b)


def test_topics_and_partitions_are_chosen_as_everywhere(tmp_path: Path) -> None:
    a, b = two_directories(tmp_path)
    assert kafkalog.diff(a, b, topics="t").is_same
    with pytest.raises(UsageError, match="no topic 'u' here"):
        kafkalog.diff(a, b, topics="u")
    with pytest.raises(UsageError, match="threads=0"):
        kafkalog.diff(a, b, threads=0)


# -- anything else -------------------------------------------------------------------------------------------------------------


def test_random_bytes_and_cuts_never_raise_and_are_never_taken_for_the_same(tmp_path: Path) -> None:
    chance = random.Random(4)
    a, b = copies(tmp_path, [*BATCHES], [*BATCHES])
    log = b / NAME / f"{0:020d}.log"
    whole = log.read_bytes()
    for _ in range(150):
        content = bytearray(whole)
        for _ in range(chance.randrange(1, 5)):
            at = chance.randrange(len(content))
            content[at : at + chance.choice((1, 4, 40))] = chance.randbytes(chance.choice((0, 1, 4, 40, 400)))
        if bytes(content) == whole:
            continue
        log.write_bytes(content)
        found = kafkalog.diff(a, b, threads=1)
        assert not found.is_same
        assert all(row.reason in REASONS or row.reason in DIFFERENCES for row in found)


def test_an_unreadable_file_is_a_row(tmp_path: Path) -> None:
    a, b = copies(tmp_path, [*BATCHES[:10]], [*BATCHES[:10]])
    write_segment(a / NAME, 100, *BATCHES[10:])
    write_segment(b / NAME, 100, *BATCHES[10:]).unlink()
    (b / NAME / f"{100:020d}.log").symlink_to("nowhere")
    assert "unreadable" in [row.reason for row in kafkalog.diff(a, b)]


def test_damage_in_one_copy_of_real_logs_is_found_and_nothing_else(golden: Callable[[str], Path], tmp_path: Path) -> None:
    era = "4.3.0"
    left = golden(era) / era
    right = shutil.copytree(left, tmp_path / "copy")
    assert kafkalog.diff(left, right, threads=1).is_same
    chance = random.Random(1)
    for folder in sorted(right.glob("*-0"))[:6]:
        logs = [path for path in sorted(folder.glob("*.log")) if path.stat().st_size > 200]
        if not logs or folder.name.startswith("__"):
            continue
        log = chance.choice(logs)
        content = log.read_bytes()
        at = chance.randrange(len(content))
        log.write_bytes(flip(content, at, 1 << chance.randrange(8)))
        found = kafkalog.diff(left / folder.name, folder, threads=1)
        assert not found.is_same, (log, at)
        log.write_bytes(content)


def test_each_planted_fault_is_found_in_two_copies_and_nothing_else(tmp_path: Path) -> None:
    for planted, found, _ in find_planted(tmp_path, 4 << 20):
        first = found.unexplained[0]
        assert (first.reason, first.first_offset, first.last_offset) == (
            planted.reason,
            planted.first_offset,
            planted.last_offset,
        )
        spot = first.a if first.b is None else first.b
        assert spot is not None
        assert spot.position == planted.position
        assert {row.reason for row in found.unexplained} <= {planted.reason, "epoch"}
