"""Damaged metadata: a state that was, from a copy that is intact, or an error that says what and where."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

import kafkalog
from kafkalog.clusters.metadata import ClusterRead, read_image
from kafkalog.clusters.places import find_disks
from kafkalog.format import control
from kafkalog.format.reference import Record, encode_batch, encode_control_batch
from kafkalog.log.report import ReadReport
from kafkalog.tables.logs import Logs
from tests.campaigns.cluster_damage import (
    NEIGHBOURS,
    MetadataLog,
    OffsetsLog,
    chosen,
    cut,
    damage_offsets,
    damage_snapshot,
    flip,
    flip_content,
    golden_snapshots,
)
from tests.campaigns.hostile_metadata import (
    Case,
    group_cases,
    metadata_cases,
    read_group_case,
    read_metadata_case,
)
from tests.clusters import packed

METADATA = "__cluster_metadata-0"
LOG = f"{0:020}.log"


@pytest.fixture(scope="module")
def log(unpacked: Path) -> MetadataLog:
    return MetadataLog.of(unpacked / "three" / "b1" / "d1" / METADATA)


def test_a_cut_at_any_batch_leaves_the_state_before_it(log: MetadataLog) -> None:
    sizes = [end + step for end, _ in log.ends[::17] for step in (-1, 0)]
    tally = cut(log, [0, *sizes])
    assert tally.wrong == []
    assert tally.outcomes["state"] > 20


@pytest.mark.parametrize("row", [0, 70, 150, 202])
def test_a_cut_or_a_flipped_bit_leaves_the_state_before_it_and_a_word_about_it(row: int, log: MetadataLog) -> None:
    window = log.window(row)
    at = min(row, NEIGHBOURS)
    positions = chosen(window.start_of(at), window.ends[at][0], 29)
    cuts, flips = cut(window, positions), flip(window, positions, range(0, 8, 3))
    assert cuts.wrong == flips.wrong == []
    assert sum(cuts.outcomes.values()) > 20
    assert flips.outcomes["state before the damage"] + flips.outcomes["NoLogs"] + flips.outcomes["CorruptBatch"] > 50


def test_every_bit_of_the_header_of_a_batch_is_noticed(log: MetadataLog) -> None:
    window = log.window(100)
    start = window.ends[2][0]
    tally = flip(window, range(start, start + 61), range(0, 8, 3))
    assert tally.wrong == []
    assert set(tally.outcomes) == {"state before the damage"}


def test_changed_content_under_a_right_checksum_raises_nothing_but_our_errors(log: MetadataLog) -> None:
    tally = flip_content(log, range(100, len(log.data), 997))
    assert tally.wrong == []
    assert tally.outcomes["read"] > 15


def test_a_damaged_snapshot_is_an_error_or_the_whole_state(golden_folder: Path) -> None:
    tally = damage_snapshot(next(golden_snapshots(golden_folder)), 499, 499)
    assert tally.wrong == []
    assert tally.outcomes["CorruptBatch"] > 50


def test_damaged_offsets_are_reported_and_what_is_left_is_right(unpacked: Path) -> None:
    (file,) = (unpacked / "three").glob("b1/d*/__consumer_offsets-2/*.log")
    for title, tally in damage_offsets(OffsetsLog(file.read_bytes()), 61, 211, 97):
        assert tally.wrong == [], title
        assert sum(tally.outcomes.values()) > 5


@pytest.mark.parametrize("case", metadata_cases(), ids=lambda case: case.name)
def test_hostile_metadata_are_an_error_or_the_state_that_kafka_has(case: Case) -> None:
    _, wrong = read_metadata_case(case)
    assert wrong == ""


@pytest.mark.parametrize("case", group_cases(), ids=lambda case: case.name)
def test_hostile_records_of_groups_change_nothing_else(case: Case) -> None:
    _, wrong = read_group_case(case)
    assert wrong == ""


def copies(three: Path, folder: Path) -> list[Path]:
    """The metadata of the three nodes, to be changed."""
    found = []
    for node in ("b1", "b2", "b3"):
        target = folder / node / "d1" / METADATA
        shutil.copytree(three / node / "d1" / METADATA, target)
        shutil.copy(three / node / "d1" / "meta.properties", target.parent)
        found.append(target / LOG)
    return found


def read(folder: Path, *, strict: bool = False, at: int | None = None, report: ReadReport | None = None) -> ClusterRead:
    return read_image(find_disks(folder).partitions, strict=strict, at=at, report=report)


def spoil(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 4
    file.write_bytes(data)


def test_an_intact_copy_takes_the_place_of_a_damaged_one(three: Path, tmp_path: Path, log: MetadataLog) -> None:
    first, *_ = copies(three, tmp_path)
    spoil(first, 20_000)
    found = read(tmp_path, strict=True)
    assert found.is_complete
    assert found.image.offset == 547
    assert found.log == str(tmp_path / "b2" / "d1" / METADATA)
    assert [each.file for each in found.problems] == [str(first)]


def test_without_an_intact_copy_the_state_ends_before_the_damage_that_comes_last(three: Path, tmp_path: Path) -> None:
    for number, file in enumerate(copies(three, tmp_path)):
        spoil(file, 10_000 + 5000 * number)
    report = ReadReport()
    found = read(tmp_path, report=report)
    assert found.log == str(tmp_path / "b3" / "d1" / METADATA)
    assert not found.is_complete
    assert len(report.dropped) == 3
    assert packed.facts_of_image(read(three, at=found.image.offset).image) == packed.facts_of_image(found.image)
    with pytest.raises(kafkalog.CorruptBatch, match="crc"):
        read(tmp_path, strict=True)


def test_the_copy_with_the_newest_end_wins(three: Path, tmp_path: Path, log: MetadataLog) -> None:
    first, second, third = copies(three, tmp_path)
    ends = [log.ends[number][0] for number in (50, 150, 100)]
    for file, end in zip((first, second, third), ends, strict=True):
        file.write_bytes(log.data[:end])
    found = read(tmp_path)
    assert found.log == str(second.parent)
    assert found.image.offset == log.ends[150][1]


# Snapshots


def snapshot_of(log: MetadataLog, folder: Path, end_offset: int, *, footer: bool = True) -> Path:
    """A snapshot of the state before `end_offset`: the records up to there, which a replay takes for the state itself."""
    logs = Logs(str(folder), find_disks(folder).partitions)
    rows = logs.read("records", ["value"], topics="__cluster_metadata", stop_offset=end_offset).read_all().to_pylist()
    records = [Record(number, 0, None, row["value"]) for number, row in enumerate(rows, 1)]
    last = len(records) + 1
    value = struct.pack(">hq", 0, 1234) + b"\0"

    def controlled(kind: int, offset: int, content: bytes) -> bytes:
        return encode_control_batch(struct.pack(">hh", 0, kind), content, offset=offset, timestamp=0, leader_epoch=0)

    parts = [controlled(control.SNAPSHOT_HEADER, 0, value), encode_batch(records, leader_epoch=0)]
    parts += [controlled(control.SNAPSHOT_FOOTER, last, b"\0\0\0")] if footer else []
    file = folder / METADATA / f"{end_offset:020}-{1:010}.checkpoint"
    file.write_bytes(b"".join(parts))
    return file


def without_start(three: Path, log: MetadataLog, folder: Path, start: int) -> Path:
    """A log directory whose metadata log begins at the offset where batch `start` ends."""
    target = folder / "d1"
    shutil.copytree(three / "b1" / "d1" / METADATA, target / METADATA)
    end, offset = log.ends[start]
    for file in (target / METADATA).glob(f"{0:020}.*"):
        file.unlink()
    (target / METADATA / f"{offset + 1:020}.log").write_bytes(log.data[end:])
    return target


def test_a_snapshot_and_the_log_after_it_give_the_same_state(three: Path, tmp_path: Path, log: MetadataLog) -> None:
    shutil.copytree(three / "b1" / "d1" / METADATA, tmp_path / "d1" / METADATA)
    end = log.ends[120][1] + 1
    made = snapshot_of(log, tmp_path / "d1", end)
    with_both = read(tmp_path)
    assert with_both.snapshot == str(made)
    assert packed.differences(packed.facts_of_image(read(three).image), packed.facts_of_image(with_both.image)) == []
    cut_off = without_start(three, log, tmp_path / "other", 100)
    with pytest.raises(kafkalog.NoLogs, match="no snapshot here covers what came before"):
        read(cut_off)
    shutil.copy(made, cut_off / METADATA)
    found = read(cut_off, strict=True)
    assert packed.differences(packed.facts_of_image(read(three).image), packed.facts_of_image(found.image)) == []
    for at in (end - 1, end, 547):
        assert packed.facts_of_image(read(cut_off, at=at).image) == packed.facts_of_image(read(three, at=at).image)
    with pytest.raises(kafkalog.UsageError, match=f"offsets {end - 1} to 547"):
        read(cut_off, at=end - 2)


def test_a_snapshot_without_its_end_is_not_used(three: Path, tmp_path: Path, log: MetadataLog) -> None:
    shutil.copytree(three / "b1" / "d1" / METADATA, tmp_path / "d1" / METADATA)
    made = snapshot_of(log, tmp_path / "d1", log.ends[120][1] + 1, footer=False)
    found = read(tmp_path, strict=True)
    assert found.snapshot is None
    (problem,) = found.problems
    assert "snapshot-incomplete" in str(problem)
    assert packed.facts_of_image(found.image) == packed.facts_of_image(read(three).image)
    cut_off = without_start(three, log, tmp_path / "other", 100)
    shutil.copy(made, cut_off / METADATA)
    with pytest.raises(kafkalog.CorruptBatch, match="snapshot-incomplete"):
        read(cut_off)


def test_a_snapshot_of_another_node_that_goes_further_than_every_log_is_the_state(
    three: Path, tmp_path: Path, log: MetadataLog
) -> None:
    shutil.copytree(three / "b1" / "d1" / METADATA, tmp_path / "d1" / METADATA)
    end = log.ends[150][1] + 1
    made = snapshot_of(log, tmp_path / "d1", end)
    (tmp_path / "d1" / METADATA / LOG).write_bytes(log.data[: log.ends[50][0]])
    found = read(tmp_path)
    assert (found.snapshot, found.log, found.image.offset) == (str(made), None, end - 1)
    assert packed.facts_of_image(found.image) == packed.facts_of_image(read(three, at=end - 1).image)


def test_a_snapshot_can_be_given_as_a_file(three: Path) -> None:
    found = kafkalog.open(three / "b1" / "d1" / "bootstrap.checkpoint").read("features").read_all().to_pylist()
    assert {row["feature"]: row["level"] for row in found}["metadata.version"] == 30


# Other records, other disks


def test_records_of_a_later_release_are_counted_and_change_nothing(three: Path, tmp_path: Path, log: MetadataLog) -> None:
    shutil.copytree(three / "b1" / "d1" / METADATA, tmp_path / "d1" / METADATA)
    later = [b"\x01\x63\x00\x00", b"\x01\x02\x09\x00", b"\x02\x02\x00\x00"]
    records = [Record(548 + number, 0, None, value) for number, value in enumerate(later)]
    file = tmp_path / "d1" / METADATA / LOG
    file.write_bytes(log.data + encode_batch(records, leader_epoch=1))
    found = read(tmp_path, strict=True)
    assert found.image.offset == 550
    assert found.image.unknown == {"type 99 version 0": 1, "TOPIC_RECORD version 9": 1, "frame version 2": 1}
    assert packed.facts_of_image(found.image) == packed.facts_of_image(read(three).image)


def test_disks_of_two_clusters_are_refused_and_named(unpacked: Path) -> None:
    with pytest.raises(kafkalog.UsageError, match=r"disks of two clusters: .*/single39/b1/d1 belongs to cluster 2Vfn"):
        kafkalog.cluster([unpacked / "single39", unpacked / "three"])
    with pytest.raises(kafkalog.UsageError, match="disks of two clusters"):
        kafkalog.groups(unpacked)


def test_disks_without_metadata_or_offsets_say_where_these_are(three: Path, tmp_path: Path) -> None:
    with pytest.raises(kafkalog.NoLogs, match=r"none of the log directories has __cluster_metadata-0 .* kafkalog cluster FOLDER"):
        kafkalog.cluster(three / "b1" / "d2")
    with pytest.raises(kafkalog.NoLogs, match=r"no partition of __consumer_offsets here.* kafkalog groups FOLDER"):
        kafkalog.groups(three / "b1" / "d1" / "orders-0")
    (tmp_path / METADATA).mkdir()
    (tmp_path / METADATA / LOG).touch()
    with pytest.raises(kafkalog.NoLogs, match="holds no record and no snapshot"):
        kafkalog.cluster(tmp_path)


def test_a_damaged_copy_of_the_offsets_is_replaced_by_an_intact_one(three: Path, tmp_path: Path) -> None:
    shutil.copytree(three, tmp_path / "three")
    (folder,) = (tmp_path / "three").glob("b1/d*/__consumer_offsets-0")
    spoil(folder / LOG, 700)
    expected = kafkalog.groups(three).as_dict()["groups"]
    found = kafkalog.groups(tmp_path / "three")
    assert found.as_dict()["groups"] == expected
    assert found.report.is_clean
    for other in (tmp_path / "three").glob("b[23]/d*/__consumer_offsets-0"):
        shutil.rmtree(other)
    alone = kafkalog.groups(tmp_path / "three")
    assert [dropped.reason for dropped in alone.report.dropped] == ["crc"]
    with pytest.raises(kafkalog.CorruptBatch):
        Logs("", find_disks(tmp_path / "three").partitions).read("group_offsets").read_all()


def test_a_copy_that_cannot_be_read_is_replaced_by_another_one_and_reported(three: Path, tmp_path: Path) -> None:
    first, *_ = copies(three, tmp_path)
    target = first.parent / "elsewhere"
    first.rename(target)
    first.symlink_to(target)
    report = ReadReport()
    found = read(tmp_path, report=report)
    assert found.image.offset == 547
    assert found.log == str(tmp_path / "b2" / "d1" / METADATA)
    assert [str(first) in problem for problem in report.unread] == [True]


def test_a_checkpoint_of_epochs_that_a_crash_left_out_of_date_is_no_damage(three: Path, tmp_path: Path, log: MetadataLog) -> None:
    first, second, third = copies(three, tmp_path)
    for file in (first, second, third):
        (file.parent / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    found = read(tmp_path, strict=True)
    assert found.is_complete
    assert packed.facts_of_image(found.image) == packed.facts_of_image(read(three).image)


def test_a_short_copy_with_a_wrong_epoch_in_its_last_batch_does_not_win(three: Path, tmp_path: Path, log: MetadataLog) -> None:
    first, *_ = copies(three, tmp_path)
    (start, _), (end, _) = log.ends[50:52]
    data = bytearray(log.data[:end])
    data[start + 13] ^= 1  # of the epoch, which no checksum covers
    first.write_bytes(data)
    found = read(tmp_path)
    assert found.log == str(tmp_path / "b2" / "d1" / METADATA)
    assert packed.facts_of_image(found.image) == packed.facts_of_image(read(three).image)


def test_an_offset_that_only_damaged_copies_reach_is_not_taken_for_an_earlier_one(
    three: Path, tmp_path: Path, log: MetadataLog
) -> None:
    first, second, third = copies(three, tmp_path)
    spoil(first, log.ends[30][0] + 70)
    for file in (second, third):
        file.write_bytes(log.data[: log.ends[60][0]])
    found = read(tmp_path, at=500)
    assert not found.is_complete
    assert found.image.offset == log.ends[60][1]
    with pytest.raises(kafkalog.CorruptBatch):
        read(tmp_path, at=500, strict=True)


def test_a_log_directory_without_partitions_is_one_of_the_cluster(three: Path, tmp_path: Path) -> None:
    shutil.copytree(three / "b1" / "d1", tmp_path / "b1" / "d1")
    (tmp_path / "b1" / "d3").mkdir()
    shutil.copy(three / "b1" / "d2" / "meta.properties", tmp_path / "b1" / "d3")
    for places in (tmp_path, [tmp_path / "b1" / "d1", tmp_path / "b1" / "d3"]):
        (node, *_) = kafkalog.cluster(places).nodes
        assert node.log_directories == (str(tmp_path / "b1" / "d1"), str(tmp_path / "b1" / "d3"))
    (tmp_path / "nothing").mkdir()
    with pytest.raises(kafkalog.NoLogs, match="no Kafka log here"):
        kafkalog.cluster([tmp_path / "b1" / "d1", tmp_path / "nothing"])


def test_old_copies_in_a_hidden_folder_are_not_of_the_cluster(three: Path, tmp_path: Path) -> None:
    shutil.copytree(three / "b1" / "d1", tmp_path / "disks" / "d1")
    shutil.copytree(three / "b2" / "d1", tmp_path / "disks" / ".snapshot" / "hourly" / "d1")
    assert [each.path for each in find_disks(tmp_path / "disks").directories] == [str(tmp_path / "disks" / "d1")]


def test_a_log_directory_with_an_unreadable_meta_properties_is_one(tmp_path: Path) -> None:
    (tmp_path / "b1" / "d1").mkdir(parents=True)
    (tmp_path / "b1" / "d1" / "meta.properties").write_bytes(b"\xff")
    (found,) = find_disks(tmp_path).directories
    assert (found.path, found.properties, found.partitions) == (str(tmp_path / "b1" / "d1"), None, ())
