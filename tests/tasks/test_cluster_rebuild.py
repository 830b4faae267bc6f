"""`cluster rebuild`: each way in which a rebuilt cluster would lose records, and what comes back of the metadata."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

import kafkalog
from kafkalog.errors import UsageError
from kafkalog.format.java import hash_of_text
from kafkalog.format.reference import Record, encode_batch
from kafkalog.payloads.messages import ZERO_UUID
from kafkalog.payloads.metadata_snapshot import NewMetadataRecord, encode_metadata_snapshot
from kafkalog.tasks.cluster_rebuild.coordinators import CoordinatorFacts
from kafkalog.tasks.cluster_rebuild.options import read_configs
from tests.builders.small_clusters import (
    CLUSTER,
    OTHER_ID,
    STRAY,
    TOPIC_ID,
    CopyFiles,
    directory_id,
    disk_files,
    write_files,
)
from tests.builders.small_logs import made_batch
from tests.clusters import packed
from tests.tasks.rebuilt import LONGER, SHORTER, disk, notes, rebuild, records_in, tree, written


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# -- what a rebuilt cluster would lose -----------------------------------------------------------------------------------------


def test_the_disks_are_only_read_and_everything_of_them_is_in_the_output() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER, epochs=[(1, 0), (2, 10)])})
    before = tree("b1")
    result = rebuild("b1")
    assert tree("b1") == before
    assert result.state == "written"
    made = tree("out/node-1")
    assert {name: made[name] for name in before if not name.endswith("bootstrap.checkpoint")} == {
        name: content for name, content in before.items() if not name.endswith("bootstrap.checkpoint")
    }
    (partition,) = written("PARTITION_RECORD")
    assert partition["directories"] == [directory_id(1)]
    assert (partition["replicas"], partition["isr"], partition["leader"], partition["leaderEpoch"]) == ([1], [1], -1, 2)
    assert written("TOPIC_RECORD") == [{"name": "orders", "topicId": TOPIC_ID}]


def test_nothing_of_the_output_is_a_link_to_the_original() -> None:
    """A broker cuts even closed segments in place, where a follower has to drop the end of its log."""
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)})
    rebuild("b1")
    originals = {path.stat().st_ino for path in Path("b1").rglob("*") if path.is_file()}
    made = [path for path in Path("out").rglob("*") if path.is_file()]
    assert made
    assert not originals & {path.stat().st_ino for path in made}
    assert not any(path.is_symlink() for path in made)


def test_a_topic_whose_settings_are_unknown_is_not_deleted_by_the_default_of_a_week() -> None:
    internal = {f"{name}-0": CopyFiles(SHORTER, OTHER_ID) for name in ("__share_group_state", "_schemas")}
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER), **internal})
    result = rebuild("b1")
    keep = {"retention.ms": "-1", "retention.bytes": "-1"}
    assert result.configs == {"orders": keep, "__share_group_state": keep, "_schemas": keep}
    assert {(each["resourceName"], each["name"], each["value"]) for each in written("CONFIG_RECORD")} == {
        (topic, *setting) for topic in result.configs for setting in keep.items()
    }
    assert "settings of" in notes(result, "lost")


def test_the_coordinators_topics_are_compacted_and_no_other_is() -> None:
    disk("b1/d1", 1, {"__consumer_offsets-0": CopyFiles(b""), "__transaction_state-0": CopyFiles(b"", OTHER_ID)})
    configs = rebuild("b1").configs
    assert [configs[topic]["cleanup.policy"] for topic in ("__consumer_offsets", "__transaction_state")] == ["compact"] * 2
    assert not any("retention.ms" in settings for settings in configs.values())


def test_a_topic_that_was_compacted_is_named_and_its_policy_left_alone() -> None:
    disk("b1/d1", 1, {"users-0": CopyFiles(LONGER)}, compacted=["users"])
    result = rebuild("b1")
    assert "users was compacted" in notes(result, "lost")
    assert "cleanup.policy" not in result.configs["users"]


def test_settings_of_the_user_go_over_those_that_keep_everything() -> None:
    disk("b1/d1", 1, {"users-0": CopyFiles(LONGER), "orders-0": CopyFiles(LONGER, OTHER_ID)}, compacted=["users"])
    configs = read_configs(b"users/cleanup.policy=compact\n*/retention.ms = 1000\n", "topics.properties")
    result = rebuild("b1", configs=configs)
    assert result.configs == {
        "users": {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "compact"},
        "orders": {"retention.ms": "1000", "retention.bytes": "-1"},
    }
    assert "was compacted" not in notes(result, "lost")


def _transaction(producer_id: int, previous: int = -1) -> bytes:
    """A batch of __transaction_state: key and value version 0, or version 1 with the id before."""
    key = struct.pack(">hh", 0, 2) + b"tx"
    if previous < 0:
        value = struct.pack(">hqhibi", 0, producer_id, 0, 60_000, 4, -1) + struct.pack(">qq", 0, 0)
    else:
        tagged = b"\x01\x00\x08" + struct.pack(">q", previous)
        value = struct.pack(">hqhibb", 1, producer_id, 0, 60_000, 4, 0) + struct.pack(">qq", 0, 0) + tagged
    return encode_batch([Record(0, 0, key, value)])


@pytest.mark.parametrize(
    ("name", "copy", "highest"),
    [
        ("orders-0", CopyFiles(made_batch(0, producer_id=4711, producer_epoch=0, base_sequence=0)), 4711),
        ("orders-0", CopyFiles(SHORTER, snapshot_ids=[3, 9000]), 9000),
        ("__transaction_state-0", CopyFiles(_transaction(5999)), 5999),
        ("__transaction_state-0", CopyFiles(_transaction(12, previous=7001)), 7001),
        ("orders-0", CopyFiles(SHORTER), -1),
    ],
)
def test_a_new_producer_gets_no_id_whose_first_record_would_count_as_repeated(name: str, copy: CopyFiles, highest: int) -> None:
    disk("b1/d1", 1, {name: copy})
    result = rebuild("b1")
    (record,) = written("PRODUCER_IDS_RECORD")
    assert record["nextProducerId"] == result.next_producer_id
    assert result.next_producer_id % 1000 == 0
    assert result.next_producer_id >= highest + 1 + 1000  # a block that a broker took and nobody wrote with


def test_an_id_in_a_copy_that_is_not_in_sync_counts_too() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)})
    disk("b2/d1", 2, {"orders-0": CopyFiles(made_batch(0, producer_id=8000, producer_epoch=0, base_sequence=0))})
    assert rebuild("b1", "b2").next_producer_id > 8000


def test_a_stale_copy_is_no_leader_that_cuts_the_good_one() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(SHORTER)})
    disk("b2/d1", 2, {"orders-0": CopyFiles(LONGER)})
    disk("b3/d1", 3, {"orders-0": CopyFiles(LONGER)})
    result = rebuild("b1", "b2", "b3")
    (partition,) = written("PARTITION_RECORD")
    assert partition["isr"] == [2, 3]
    assert partition["replicas"] == [2, 3, 1]
    assert partition["directories"] == [directory_id(2), directory_id(3), directory_id(1)]
    assert "not in sync" in notes(result, "chosen")


def test_of_equal_lengths_the_later_epoch_is_in_sync() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(made_batch(0, 20, leader_epoch=1))})
    disk("b2/d1", 2, {"orders-0": CopyFiles(made_batch(0, 10, leader_epoch=1) + made_batch(10, 5, leader_epoch=2))})
    rebuild("b1", "b2")
    (partition,) = written("PARTITION_RECORD")
    assert partition["isr"] == [2]


def test_an_epoch_without_records_in_a_checkpoint_makes_no_copy_better() -> None:
    """A controlled stop moves leadership: the copy that lost its last batch has the later epoch in its checkpoint."""
    disk("b1/d1", 1, {"orders-0": CopyFiles(SHORTER, epochs=[(1, 0), (5, 20)])})
    disk("b2/d1", 2, {"orders-0": CopyFiles(LONGER, epochs=[(1, 0), (2, 10)])})
    result = rebuild("b1", "b2")
    (partition,) = written("PARTITION_RECORD")
    assert partition["isr"] == [2]
    assert "lost its tail: epoch 5 began at offset 20, the log ends at 10" in notes(result, "lost")


def test_no_leader_epoch_runs_backwards() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER, epochs=[(1, 0), (2, 10), (7, 20)]), "orders-1": CopyFiles(LONGER)})
    rebuild("b1")
    assert [each["leaderEpoch"] for each in written("PARTITION_RECORD")] == [7, 2]


def test_the_feature_that_would_leave_every_partition_without_a_leader_is_left_out() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)})
    result = rebuild("b1")
    assert written("FEATURE_LEVEL_RECORD")[0] == {"name": "metadata.version", "featureLevel": 30}
    assert result.features == {"metadata.version": 30, "group.version": 1, "transaction.version": 2}
    assert "eligible.leader.replicas.version is left out" in notes(result, "chosen")


def test_a_directory_without_an_id_is_unassigned_and_none_is_made_up() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)})
    Path("b1/d1/meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={CLUSTER}\n")
    rebuild("b1")
    assert written("PARTITION_RECORD")[0]["directories"] == [ZERO_UUID]
    assert "directory.id" not in Path("out/node-1/d1/meta.properties").read_text()


def test_releases_before_directories_get_no_record_that_they_cannot_read() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)}, levels=None)
    rebuild("b1", release="3.6")
    (record,) = (each for each in records_in("out/node-1/d1/bootstrap.checkpoint") if each.name == "PARTITION_RECORD")
    assert (record.version, "directories" in record.data) == (0, False)


def test_a_disk_without_partitions_was_not_stopped_uncleanly() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)})
    disk("controller/metadata", 100, {}, clean=False)
    result = rebuild("b1", "controller")
    assert "not stopped cleanly" not in notes(result, "known")
    assert records_in("out/node-100/metadata/bootstrap.checkpoint") == records_in("out/node-1/d1/bootstrap.checkpoint")
    assert not Path("out/node-100/metadata/.kafka_cleanshutdown").exists()


def test_a_controller_whose_disk_is_gone_gets_a_new_one() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)})
    rebuild("b1", controllers=[100])
    made = dict(line.split("=") for line in Path("out/node-100/metadata/meta.properties").read_text().splitlines())
    assert (made["node.id"], made["cluster.id"], len(made["directory.id"])) == ("100", CLUSTER, 22)
    assert written("PARTITION_RECORD", "out/node-100/metadata")


def test_a_broker_that_died_checks_its_logs_again() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER + b"\x00\x01torn")}, clean=False)
    result = rebuild("b1")
    assert "not stopped cleanly: " in notes(result, "known")
    assert not Path("out/node-1/d1/.kafka_cleanshutdown").exists()
    assert result.partitions[0].copies[0].end_offset == 20


def test_stray_folders_get_their_names_back() -> None:
    disk("b1/d1", 1, {f"orders-0{STRAY}": CopyFiles(LONGER)})
    rebuild("b1")
    assert Path("out/node-1/d1/orders-0/00000000000000000000.log").read_bytes() == LONGER
    assert [path.name for path in Path("out/node-1/d1").iterdir() if path.is_dir()] == ["orders-0"]


def test_deleted_records_of_a_stray_folder_stay_deleted() -> None:
    """A broker that makes a folder stray takes it out of the checkpoint that says where the log begins."""
    copy = CopyFiles(made_batch(0, leader_epoch=1) + made_batch(10, leader_epoch=1), epochs=[(1, 7)])
    disk("b1/d1", 1, {f"orders-0{STRAY}": copy, "users-0": CopyFiles(LONGER, OTHER_ID, epochs=[(1, 0), (2, 10)])})
    result = rebuild("b1")
    assert Path("out/node-1/d1/log-start-offset-checkpoint").read_text() == "0\n1\norders 0 7\n"
    assert "orders-0: the log begins at offset 7" in notes(result, "chosen")
    kafkalog.cluster_rebuild("b1", in_place=True)
    assert Path("b1/d1/log-start-offset-checkpoint").read_text() == "0\n1\norders 0 7\n"


def test_a_stray_folder_gets_no_offsets_of_the_live_one_of_its_name() -> None:
    disk("b1/d1", 1, {f"orders-0{STRAY}": CopyFiles(LONGER), "orders-0": CopyFiles(made_batch(0, 1), OTHER_ID)})
    Path("b1/d1/log-start-offset-checkpoint").write_text("0\n1\norders 0 1\n")
    rebuild("b1", prefer="stray")
    assert Path("out/node-1/d1/log-start-offset-checkpoint").read_text() == "0\n0\n"
    assert Path("out/node-1/d1/replication-offset-checkpoint").read_text() == "0\n0\n"


def test_a_stray_and_a_live_folder_of_one_topic_are_one_copy() -> None:
    disk("b1/d1", 1, {f"orders-0{STRAY}": CopyFiles(LONGER), "orders-0": CopyFiles(SHORTER)})
    result = rebuild("b1")
    assert [copy.end_offset for copy in result.partitions[0].copies] == [20]
    assert "is left out: a broker takes one folder of a partition" in notes(result, "chosen")


def test_two_topics_of_one_name_are_not_mixed() -> None:
    """A broker that lost its metadata made the old folders stray, and a client created the topic again."""
    disk("b1/d1", 1, {f"orders-0{STRAY}": CopyFiles(LONGER), "orders-0": CopyFiles(made_batch(0, 1), OTHER_ID)})
    with pytest.raises(UsageError, match=r"orders: 2 topics of this name .*--topic-id orders=ID, or --prefer stray"):
        rebuild("b1")
    assert not Path("out").exists()
    assert rebuild("b1", prefer="stray", dry_run=True).partitions[0].topic_id == TOPIC_ID
    assert rebuild("b1", prefer="live", dry_run=True).partitions[0].topic_id == OTHER_ID
    assert rebuild("b1", topic_ids={"orders": OTHER_ID}, dry_run=True).partitions[0].topic_id == OTHER_ID
    with pytest.raises(UsageError, match="the folders have"):
        rebuild("b1", topic_ids={"orders": "A" * 21 + "B"})


def test_a_folder_without_a_topic_id_gets_that_of_the_other_copies() -> None:
    """Without the file a broker would take the folder for a stray one."""
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER, None)})
    disk("b2/d1", 2, {"orders-0": CopyFiles(LONGER)})
    rebuild("b1", "b2")
    assert Path("out/node-1/d1/orders-0/partition.metadata").read_text() == f"version: 0\ntopic_id: {TOPIC_ID}"


def test_a_topic_without_any_id_gets_a_new_one_that_stays_the_same() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER, None)})
    first, second = (rebuild("b1", dry_run=True).partitions[0].topic_id for _ in range(2))
    assert first == second
    assert len(first) == 22


# -- partitions that are not there ---------------------------------------------------------------------------------------------


def test_a_missing_partition_would_send_every_key_elsewhere_so_it_is_asked_for() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER), "orders-2": CopyFiles(LONGER)})
    with pytest.raises(UsageError, match="orders: no copy of partition 1, of 3; give the disk that has it, or --missing-empty"):
        rebuild("b1")
    result = rebuild("b1", missing_empty=True)
    assert [each["partitionId"] for each in written("PARTITION_RECORD")] == [0, 1, 2]
    assert written("PARTITION_RECORD")[1]["directories"] == [ZERO_UUID]
    assert "they begin empty" in notes(result, "lost")


def _commit(group: str, topic: str, partition: int) -> bytes:
    def text(word: str) -> bytes:
        return struct.pack(">h", len(word)) + word.encode()

    key = struct.pack(">h", 1) + text(group) + text(topic) + struct.pack(">i", partition)
    return encode_batch([Record(0, 0, key, struct.pack(">hq", 1, 42) + text("") + struct.pack(">qq", 0, 0))])


def test_committed_offsets_show_that_the_last_partitions_of_a_topic_are_missing() -> None:
    offsets = {"__consumer_offsets-0": CopyFiles(_commit("group", "orders", 3), OTHER_ID)}
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER), **offsets})
    result = rebuild("b1", dry_run=True)
    assert any("orders: no copy of partition 1, 2, 3, of 4" in obstacle for obstacle in result.obstacles)


def test_a_committed_offset_of_a_partition_that_no_topic_has_does_not_size_the_plan() -> None:
    offsets = {"__consumer_offsets-0": CopyFiles(_commit("group", "orders", (1 << 31) - 1), OTHER_ID)}
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER), **offsets})
    result = rebuild("b1", dry_run=True)
    assert result.obstacles == []
    assert "1 committed offset of orders: for partitions that no topic has" in notes(result, "lost")


def test_a_folder_of_a_partition_that_no_topic_has_is_to_be_moved_away() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER), "orders-2147483647": CopyFiles(LONGER)})
    with pytest.raises(UsageError, match=r"orders-2147483647: a topic has at most 100000 partitions here; move it out"):
        rebuild("b1")


def test_of_many_missing_partitions_some_are_named() -> None:
    disk("b1/d1", 1, {"orders-99": CopyFiles(LONGER)})
    with pytest.raises(UsageError, match=r"partition 0, 1, 2, 3, 4, 5, 6, 7 and 91 more, of 100;"):
        rebuild("b1")


def test_a_topic_that_is_gone_altogether_is_named() -> None:
    offsets = {"__consumer_offsets-0": CopyFiles(_commit("group", "lost-topic", 0), OTHER_ID)}
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER), **offsets})
    assert "lost-topic" in notes(rebuild("b1"), "lost")


def test_groups_stay_where_their_coordinator_looks_for_them() -> None:
    """With another number of partitions each group would be looked for in another one, and begin again."""
    assert hash_of_text("group") == 98629247
    wrong = 98629247 % 50
    disk("b1/d1", 1, {f"__consumer_offsets-{number}": CopyFiles(b"") for number in range(49) if number != wrong})
    write_files(Path(), disk_files("b1/d1", 1, {f"__consumer_offsets-{wrong}": CopyFiles(_commit("group", "orders", 0))}))
    result = rebuild("b1", dry_run=True)
    assert any("__consumer_offsets: no copy of partition 49, of 50" in obstacle for obstacle in result.obstacles)


def test_the_number_of_partitions_follows_from_where_names_are() -> None:
    names = [f"group-{number}" for number in range(40)]
    facts = CoordinatorFacts(names={"__consumer_offsets": {(name, abs(hash_of_text(name)) % 50) for name in names}})
    assert facts.partition_count("__consumer_offsets", 48) == 50
    assert CoordinatorFacts(names={"t": {("group", 3), ("group", 4)}}).partition_count("t", 2) is None


def test_a_damaged_only_copy_is_salvaged_first() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)})
    Path("b1/d1/orders-0/leader-epoch-checkpoint").write_text("not a checkpoint")
    with pytest.raises(UsageError, match="orders-0: no copy that a broker can load") as caught:
        rebuild("b1")
    assert f"kafkalog salvage {Path('b1/d1/orders-0').absolute()} --out rescued" in str(caught.value)


def test_a_copy_that_would_stop_its_broker_is_made_again_from_the_others() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)})
    disk("b2/d1", 2, {"orders-0": CopyFiles(LONGER)})
    Path("b1/d1/orders-0/leader-epoch-checkpoint").write_text("not a checkpoint")
    rebuild("b1", "b2")
    (partition,) = written("PARTITION_RECORD")
    assert (partition["replicas"], partition["isr"]) == ([2, 1], [2])
    assert partition["directories"] == [directory_id(2), ZERO_UUID]
    assert not Path("out/node-1/d1/orders-0").exists()


def test_a_segment_size_with_which_a_broker_of_4_0_ends_at_start_is_raised() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER), "users-0": CopyFiles(LONGER)})
    configs = read_configs(b"orders/segment.bytes=16000\nusers/segment.bytes=many\n", "topics.properties")
    result = rebuild("b1", configs=configs, release="4.0", dry_run=True)
    assert [result.configs[topic]["segment.bytes"] for topic in ("orders", "users")] == ["1048576", "many"]
    assert "orders (was 16000): from Kafka 4.0 on" in notes(result, "chosen")
    assert rebuild("b1", configs=configs, release="3.9", dry_run=True).configs["orders"]["segment.bytes"] == "16000"


# -- a copy of the metadata ----------------------------------------------------------------------------------------------------


def test_a_metadata_log_that_is_there_is_used_and_left_out(unpacked_three: Path) -> None:
    disks = sorted(unpacked_three.glob("b*/d*"))
    result = rebuild(*map(str, disks))
    assert result.configs["orders"] == {"min.insync.replicas": "2", "retention.ms": "604800000000"}
    assert not list(Path("out").rglob("__cluster_metadata-0"))
    names = [record.name for record in records_in("out/node-1/d1/bootstrap.checkpoint")]
    counts = {name: names.count(name) for name in dict.fromkeys(names)}
    assert counts["ACCESS_CONTROL_ENTRY_RECORD"] == 7
    assert counts["USER_SCRAM_CREDENTIAL_RECORD"] == 3
    assert counts["CLIENT_QUOTA_RECORD"] == 6
    assert (counts["TOPIC_RECORD"], counts["PARTITION_RECORD"]) == (15, 35)
    logs = next(each for each in written("PARTITION_RECORD") if each["topicId"] == "MiUEmus_RlO5Yo9h7xuL0w")
    assert logs["replicas"] == [2]
    assert "the order of replicas" not in notes(result, "lost")


def test_secrets_are_in_no_journal(unpacked_three: Path) -> None:
    rebuild(*map(str, sorted(unpacked_three.glob("b*/d*"))))
    credential = written("USER_SCRAM_CREDENTIAL_RECORD")[0]
    journal = Path("out/cluster.rebuild.jsonl").read_text()
    assert credential["name"] not in journal
    for secret in ("salt", "storedKey", "serverKey"):
        assert credential[secret].hex() not in journal
        assert repr(credential[secret]) not in journal


def test_an_older_copy_of_the_metadata_says_how_old_it_is(unpacked_three: Path) -> None:
    known = {"topicId": TOPIC_ID, "partitionId": 0, "replicas": [2, 1], "isr": [2], "leader": 2, "leaderEpoch": 0}
    folder = Path("old/__cluster_metadata-0")
    folder.mkdir(parents=True)
    (folder / f"{10:020d}-{3:010d}.checkpoint").write_bytes(
        encode_metadata_snapshot(
            [
                NewMetadataRecord("FeatureLevelRecord", 0, {"name": "metadata.version", "featureLevel": 25}),
                NewMetadataRecord("TopicRecord", 0, {"name": "orders", "topicId": TOPIC_ID}),
                NewMetadataRecord("PartitionRecord", 1, known),
                NewMetadataRecord(
                    "ConfigRecord", 0, {"resourceType": 2, "resourceName": "orders", "name": "retention.ms", "value": "5"}
                ),
                NewMetadataRecord("TopicRecord", 0, {"name": "gone", "topicId": OTHER_ID}),
                NewMetadataRecord("ProducerIdsRecord", 0, {"brokerId": 1, "brokerEpoch": 1, "nextProducerId": 50_000}),
            ],
            0,
        )
    )
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)})
    disk("b2/d1", 2, {"orders-0": CopyFiles(LONGER)})
    result = rebuild("b1", "b2", metadata=["old"])
    assert result.features == {"metadata.version": 25}
    assert result.configs == {"orders": {"retention.ms": "5"}}
    assert result.partitions[0].replicas == (2, 1)
    assert result.next_producer_id == 50_000
    assert "older than 1 partition (orders-0)" in notes(result, "lost")
    assert "no disk has a folder: gone" in notes(result, "lost")


def old_metadata(path: str, topic_id: str, *, offset: int = 10, epoch: int = 3, partitions: Sequence[int] = (0,)) -> None:
    """A metadata log's folder with one snapshot, which knows the topic `orders`."""
    known = {"topicId": topic_id, "replicas": [1], "isr": [1], "leader": 1, "leaderEpoch": 9}
    records = [
        NewMetadataRecord("FeatureLevelRecord", 0, {"name": "metadata.version", "featureLevel": 30}),
        NewMetadataRecord("TopicRecord", 0, {"name": "orders", "topicId": topic_id}),
        *(NewMetadataRecord("PartitionRecord", 1, {**known, "partitionId": number}) for number in partitions),
    ]
    folder = Path(path) / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    (folder / f"{offset:020d}-{epoch:010d}.checkpoint").write_bytes(encode_metadata_snapshot(records, 0))


def test_metadata_of_controllers_that_were_formatted_again_does_not_hide_the_old_topics() -> None:
    """Its log is newer, and knows nothing of them but a topic that a client has created again."""
    disk("b1/d1", 1, {f"orders-0{STRAY}": CopyFiles(LONGER), "orders-0": CopyFiles(made_batch(0, 1), OTHER_ID)})
    old_metadata("b1/d1", OTHER_ID, offset=900, epoch=9)
    with pytest.raises(UsageError, match=r"orders: 2 topics of this name .*--prefer stray"):
        rebuild("b1")
    assert rebuild("b1", prefer="stray", dry_run=True).partitions[0].topic_id == TOPIC_ID
    old_metadata("old", TOPIC_ID)
    result = rebuild("b1", prefer="stray", metadata=["old"], dry_run=True)
    assert result.configs == {}  # known: it had no settings of its own
    assert result.partitions[0].leader_epoch == 9


def test_a_topic_of_which_the_metadata_has_no_partition_any_more_is_planned_by_its_folders() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)})
    old_metadata("b1/d1", TOPIC_ID, partitions=())
    assert [each.partition for each in rebuild("b1").partitions] == [0]


def test_a_partition_of_the_metadata_that_no_topic_has_is_not_believed() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)})
    old_metadata("b1/d1", TOPIC_ID, partitions=(0, (1 << 31) - 1))
    result = rebuild("b1")
    assert [each.partition for each in result.partitions] == [0]
    assert "has partition 2147483647, which is not believed" in notes(result, "lost")


def test_a_topic_that_the_metadata_does_not_know_is_kept_and_named() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER), "new-0": CopyFiles(LONGER, OTHER_ID)})
    old_metadata("b1/d1", TOPIC_ID)
    result = rebuild("b1")
    assert result.topics == ["new", "orders"]
    assert "does not know: new: they are kept" in notes(result, "chosen")
    assert set(result.configs) == {"new"}


def test_damaged_metadata_is_named_and_everything_is_from_the_folders() -> None:
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)})
    write_files(Path(), {f"b1/d1/__cluster_metadata-0/{0:020d}.log": b"not a log"})
    assert "cannot be used" in notes(rebuild("b1"), "lost")


@pytest.fixture
def unpacked_three(golden_folder: Path) -> Path:
    return packed.unpack(golden_folder.parent / "clusters") / "three"
