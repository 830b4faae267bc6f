"""`cluster move`: what a cluster knows afterwards, what would lose records, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.errors import StorageError, UsageError
from kafkalog.format.checkpoint import decode_offset_checkpoint
from kafkalog.format.names import OFFSET_CHECKPOINTS
from kafkalog.format.snapshot import decode_snapshot
from kafkalog.payloads.cluster_image import TOPIC, ClusterImage, TopicState
from kafkalog.payloads.metadata_snapshot import NewMetadataRecord
from kafkalog.storage.lock import broker_lock
from kafkalog.tasks.cluster_move import MoveOptions, MoveResult, move_topics
from kafkalog.tasks.cluster_rebuild.disks import read_disks
from tests.builders.small_clusters import (
    LEVELS,
    OTHER_ID,
    STRAY,
    TOPIC_ID,
    CopyFiles,
    cluster_records,
    directory_id,
    disk_files,
    metadata_batch,
    metadata_files,
    write_files,
)
from tests.builders.small_logs import FIRST_TIME, made_batch
from tests.clusters import packed
from tests.tasks.rebuilt import LONGER, disk, tree

LOG = f"{0:020d}.log"
TARGET = "VGFyZ2V0IG9mIHRoZSB0ZQ"
PLAIN = {"metadata.version": 30}
METADATA = "__cluster_metadata-0"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def target(
    *nodes: int, own: str = "users", levels: dict[str, int] = PLAIN, records: Sequence[NewMetadataRecord] = (), **choices: Any
) -> bytes:
    """The disks t1/d1, t2/d1, … of a stopped cluster with one topic of its own; the batch of its metadata."""
    nodes = nodes or (1,)
    known = cluster_records({node: [directory_id(node, 7)] for node in nodes}, levels=levels)
    known.append(NewMetadataRecord("TopicRecord", 0, {"name": own, "topicId": OTHER_ID}))
    batch = metadata_batch(0, *known, *records)
    for node in nodes:
        path = f"t{node}/d1"
        files = disk_files(path, node, {f"{own}-0": CopyFiles(LONGER, OTHER_ID)}, number=7, cluster=TARGET, **choices)
        write_files(Path(), files | metadata_files(path, nodes, batch))
    return batch


def source(**partitions: CopyFiles) -> None:
    disk("b1/d1", 1, {name.replace("_", "-"): copy for name, copy in partitions.items()} or {"orders-0": CopyFiles(LONGER)})


def move(*into: str, topics: Sequence[str] = ("orders",), **choices: Any) -> MoveResult:
    return kafkalog.cluster_move("b1", into or "t1", topics, **choices)


def image(*folders: str) -> ClusterImage:
    return kafkalog.cluster(folders or ["t1"]).image


def topic(name: str, *folders: str) -> TopicState:
    return image(*folders).topics_by_name[name]


# -- what a cluster knows afterwards --------------------------------------------------------------------------------------------


def test_a_topic_keeps_its_id_its_records_and_its_leader_epoch_and_the_disks_are_only_read() -> None:
    target()
    source(orders_0=CopyFiles(LONGER, epochs=[(1, 0), (2, 10), (7, 20)]))
    before, own = tree("b1"), tree("t1/d1/users-0")
    result = move()
    assert (result.state, result.metadata_epoch) == ("written", 2)
    assert (tree("b1"), tree("t1/d1/users-0")) == (before, own)
    found = topic("orders")
    state = found.partitions[0]
    assert (found.topic_id, state.leader, state.leader_epoch, state.partition_epoch) == (TOPIC_ID, -1, 7, 0)
    assert (state.replicas, state.isr, state.directories) == ((1,), (1,), (directory_id(1, 7),))
    assert Path("t1/d1/orders-0", LOG).read_bytes() == LONGER
    assert not Path("t1/d1/.lock").exists()
    assert list(kafkalog.verify("t1/d1", topics="orders")) == []


def test_the_log_is_one_that_a_broker_loads_after_a_clean_stop_and_holds_to_be_committed() -> None:
    target()
    source()
    move()
    found = {
        name: {entry.topic: entry.offset for entry in decode_offset_checkpoint(Path("t1/d1", name).read_bytes())}
        for name in OFFSET_CHECKPOINTS
        if Path("t1/d1", name).exists()
    }
    assert found == {
        "recovery-point-offset-checkpoint": {"orders": 20},
        "replication-offset-checkpoint": {"users": 0, "orders": 20},
    }


def test_the_torn_end_of_a_log_whose_broker_was_killed_is_cut_off_before_it_is_moved_among_clean_ones() -> None:
    target()
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER + made_batch(20)[:-1])}, clean=False)
    move()
    assert Path("t1/d1/orders-0", LOG).read_bytes() == LONGER


def test_records_that_were_deleted_stay_deleted() -> None:
    target()
    source(orders_0=CopyFiles(LONGER, epochs=[(1, 4), (2, 10)]))
    Path("b1/d1/log-start-offset-checkpoint").write_bytes(b"0\n1\norders 0 4\n")
    move(names={"orders": "orders.old"})
    assert Path("t1/d1/log-start-offset-checkpoint").read_bytes() == b"0\n1\norders.old 0 4\n"


def test_another_name_is_in_the_metadata_and_on_the_disk_and_the_id_stays() -> None:
    target(own="orders")
    source()
    move(names={"orders": "orders.old"})
    assert {name: found.topic_id for name, found in image().topics_by_name.items()} == {
        "orders": OTHER_ID,
        "orders.old": TOPIC_ID,
    }
    assert TOPIC_ID in Path("t1/d1/orders.old-0/partition.metadata").read_text()


def test_a_second_topic_made_of_a_backup_of_the_same_one_gets_an_id_of_its_own() -> None:
    target(own="orders")
    source(orders_0=CopyFiles(LONGER, OTHER_ID))
    result = move(names={"orders": "orders.old"})
    assert result.topics[0].topic_id not in (OTHER_ID, TOPIC_ID)
    assert topic("orders.old").topic_id == result.topics[0].topic_id
    assert result.topics[0].topic_id in Path("t1/d1/orders.old-0/partition.metadata").read_text()
    assert move(names={"orders": "orders.old"}).state == "already there"


def test_every_controller_gets_the_same_bytes_in_an_epoch_that_none_has_seen() -> None:
    batch = target(1, 2, 3)
    Path("t3/d1", METADATA, "quorum-state").write_text('{"leaderId":-1,"leaderEpoch":8,"votedId":2,"data_version":1}')
    source()
    result = move("t1", "t2", "t3")
    logs = {Path(f"t{node}/d1", METADATA, LOG).read_bytes() for node in (1, 2, 3)}
    assert len(logs) == 1
    assert logs.pop().startswith(batch)
    assert (result.metadata_epoch, image("t1").epoch) == (9, 9)


def test_a_copy_that_had_not_caught_up_first_gets_what_it_lacks() -> None:
    batch = target(1, 2, 3)
    more = metadata_batch(image("t1").offset + 1, NewMetadataRecord("NoOpRecord", 0, {}))
    for node in (1, 3):
        Path(f"t{node}/d1", METADATA, LOG).write_bytes(batch + more)
    source()
    move("t1", "t2", "t3")
    logs = [Path(f"t{node}/d1", METADATA, LOG).read_bytes() for node in (1, 2, 3)]
    assert logs == [logs[0]] * 3
    assert logs[0].startswith(batch + more)


def test_replicas_are_spread_over_the_brokers_and_each_has_a_copy() -> None:
    target(1, 2, 3)
    source(orders_0=CopyFiles(LONGER), orders_1=CopyFiles(LONGER))
    move("t1", "t2", "t3", replicas=2)
    found = topic("orders").partitions
    assert [found[number].replicas for number in (0, 1)] == [(1, 2), (2, 3)]
    assert found[0].directories == (directory_id(1, 7), directory_id(2, 7))
    places = sorted(str(path.parent) for path in Path().glob("t*/d1/orders-*"))
    assert places == ["t1/d1", "t2/d1", "t2/d1", "t3/d1"]


def test_a_topic_has_as_many_replicas_as_before_where_there_are_as_many_brokers() -> None:
    target(1, 2)
    disk("b1/d1", 1, {"orders-0": CopyFiles(LONGER)})
    disk("b1/d2", 2, {"orders-0": CopyFiles(LONGER)})
    disk("b1/d3", 3, {"orders-0": CopyFiles(LONGER)})
    result = move("t1", "t2")
    assert [each.replicas for each in result.partitions] == [(1, 2)]
    assert any("2 replicas, not 3 as before" in note for note in result.notes_of("chosen"))


def test_the_best_copy_is_moved() -> None:
    target()
    disk("b1/d1", 1, {"orders-0": CopyFiles(made_batch(0, leader_epoch=1))})
    disk("b1/d2", 2, {"orders-0": CopyFiles(LONGER)})
    move()
    assert Path("t1/d1/orders-0", LOG).read_bytes() == LONGER


# -- what would lose records ----------------------------------------------------------------------------------------------------


def test_without_a_retention_of_its_own_a_topic_keeps_everything() -> None:
    target()
    source()
    assert move().configs == {"orders": {"retention.ms": "-1", "retention.bytes": "-1"}}
    assert image().configs[TOPIC, "orders"] == {"retention.ms": "-1", "retention.bytes": "-1"}


def test_settings_of_the_source_go_with_the_topic_and_those_of_the_user_over_them(golden_folder: Path) -> None:
    three = packed.unpack(golden_folder.parent / "clusters") / "three"
    target(levels=LEVELS)
    kept = {"orders": {"retention.ms": "-1"}}
    disks = packed.log_directories(three)
    result = kafkalog.cluster_move(disks, "t1", ["orders", "payments"], configs=kept, dry_run=True)
    assert result.configs == {
        "orders": {"min.insync.replicas": "2", "retention.ms": "-1", "retention.bytes": "-1"},
        "payments": {"compression.type": "zstd", "retention.ms": "-1", "retention.bytes": "-1"},
    }
    (left,) = (note for note in result.notes_of("lost") if note.startswith("committed offsets"))
    assert "of 3 groups (g-classic, g-kept, g-new) are not moved; to see them: kafkalog groups" in left


def test_segments_smaller_than_a_broker_of_kafka_4_starts_with_are_not_asked_for() -> None:
    """A single topic with less ends every broker at its start."""
    target()
    source()
    result = move(configs={"orders": {"segment.bytes": "16000"}})
    assert result.configs["orders"]["segment.bytes"] == "1048576"
    target(levels={"metadata.version": 21})
    shutil.rmtree("t1/d1/orders-0")
    Path("t1/d1", result.journal_name).unlink()
    assert move(configs={"orders": {"segment.bytes": "16000"}}).configs["orders"]["segment.bytes"] == "16000"


@pytest.mark.parametrize(("highest", "expected"), [(4999, None), (5000, 6000), (8999, 9000)])
def test_new_producers_get_no_id_that_is_in_the_logs(highest: int, expected: int | None) -> None:
    target()
    source(orders_0=CopyFiles(made_batch(0, producer_id=highest, producer_epoch=0, base_sequence=0)))
    assert move().next_producer_id == expected
    assert image().next_producer_id == expected or 5000


def test_a_producer_of_the_cluster_is_not_taken_for_one_of_the_moved_log_with_the_same_id() -> None:
    """Its first record would count as repeated: acknowledged, and not written."""
    target()
    plain = made_batch(0, producer_id=7, producer_epoch=0, base_sequence=0)
    opened = made_batch(10, producer_id=8, producer_epoch=0, base_sequence=0, transactional=True)
    disk("b1/d1", 1, {"orders-0": CopyFiles(plain + opened)}, clean=False)
    result = move_topics(read_disks(["b1"]), read_disks(["t1"]), MoveOptions(("orders",)), now_ms=FIRST_TIME)
    (snapshot,) = Path("t1/d1/orders-0").glob("*.snapshot")
    assert snapshot.name == f"{20:020d}.snapshot"
    assert decode_snapshot(snapshot.read_bytes())["producer_id"].tolist() == [8]
    assert Path("t1/d1/orders-0", f"{20:020d}.log").stat().st_size == 0  # so that a recovery begins there
    assert any("--topic orders --partition 0 --start-offset 10" in note for note in result.notes_of("lost"))


# -- runs that stop, and runs again ----------------------------------------------------------------------------------------------


def test_a_second_run_touches_nothing() -> None:
    target()
    source()
    move()
    before = tree("t1")
    assert move(dry_run=True).state == move().state == "already there"
    assert tree("t1") == before


def test_a_dry_run_writes_nothing_and_says_the_same() -> None:
    target()
    source()
    before = tree("t1")
    planned = move(dry_run=True)
    assert tree("t1") == before
    assert {**move().as_dict(), "state": "not written"} == planned.as_dict()


def test_a_run_that_was_killed_before_the_last_controller_goes_on() -> None:
    batch = target(1, 2, 3)
    source()
    move("t1", "t2", "t3")
    done = tree(".")
    Path("t1/d1", METADATA, LOG).write_bytes(batch)
    assert move("t1", "t2", "t3").state == "written"
    assert {name: content for name, content in tree(".").items() if name.endswith((".log", ".jsonl"))} == {
        name: content for name, content in done.items() if name.endswith((".log", ".jsonl"))
    }


def test_a_topic_that_was_deleted_since_can_be_moved_again_and_one_of_several_is_named() -> None:
    target()
    source(orders_0=CopyFiles(LONGER), payments_0=CopyFiles(LONGER, "cGF5bWVudHMgb2YgdGhlIA"))
    move(topics=["orders", "payments"])
    found = image()
    removal = metadata_batch(found.offset + 1, NewMetadataRecord("RemoveTopicRecord", 0, {"topicId": TOPIC_ID}), epoch=2)
    with Path("t1/d1", METADATA, LOG).open("ab") as log:
        log.write(removal)
    shutil.rmtree("t1/d1/orders-0")
    with pytest.raises(UsageError, match=r"some of these topics .* are there; to move those that are not: --topic orders"):
        move(topics=["orders", "payments"])
    assert move().state == "written"
    assert topic("orders").topic_id == TOPIC_ID


def test_the_journal_says_what_was_moved_where() -> None:
    target()
    source()
    result = move()
    events = [json.loads(line) for line in Path("t1/d1", result.journal_name).read_text().splitlines()]
    assert [event["event"] for event in events if event["event"] not in ("known", "lost", "chosen")] == [
        "move",
        "configs",
        "partition",
        "metadata",
    ]
    assert events[0]["topics"] == [{"source": "orders", "topic": "orders", "topic_id": TOPIC_ID}]
    assert events[-1]["offset"] == result.metadata_offset


# -- what is refused -----------------------------------------------------------------------------------------------------------


def _torn_apart() -> None:
    """Controllers 1 and 2 have different records at one offset."""
    batch, offset = target(1, 2), image("t1").offset + 1
    for node, name in ((1, "one"), (2, "two")):
        record = NewMetadataRecord("TopicRecord", 0, {"name": name, "topicId": TOPIC_ID})
        Path(f"t{node}/d1", METADATA, LOG).write_bytes(batch + metadata_batch(offset, record))


def _damaged() -> None:
    batch = bytearray(target() + metadata_batch(7, NewMetadataRecord("NoOpRecord", 0, {})))
    batch[90] ^= 1
    Path("t1/d1", METADATA, LOG).write_bytes(batch)


def _unclean() -> None:
    target(levels=LEVELS)
    Path("t1/d1/.kafka_cleanshutdown").unlink()


def _unknown_broker() -> None:
    target()
    path = Path("t1/d1/meta.properties")
    path.write_text(path.read_text().replace(directory_id(1, 7), directory_id(9, 7)))


def _in_the_way() -> None:
    target()
    write_files(Path(), disk_files("t1/d1", 1, {"orders-0": CopyFiles(LONGER)}, number=7, cluster=TARGET))


def _without_metadata() -> None:
    target()
    shutil.rmtree(f"t1/d1/{METADATA}")


def _formatted() -> None:
    target()
    Path("t1/d1", METADATA, LOG).write_bytes(b"")


def _begun() -> None:
    target(records=[NewMetadataRecord("BeginTransactionRecord", 0, {"name": None})])


REFUSED: dict[str, tuple[Callable[[], object], Sequence[str], str]] = {
    "a topic of that name": (lambda: target(own="orders"), ["t1"], r"has a topic orders already .*--as orders=NAME, or delete"),
    "controllers that differ": (_torn_apart, ["t1", "t2"], r"differ from offset \d+ on.*start the cluster, wait"),
    "a controller is missing": (lambda: target(1, 2), ["t1"], "controller 2 .*add the folder with its"),
    "damaged metadata": (_damaged, ["t1"], "metadata.* (damaged|cannot be read whole)"),
    "an open transaction": (_begun, ["t1"], "ends in a transaction that is open"),
    "no metadata": (_without_metadata, ["t1"], "none of the folders after --into has __cluster_metadata-0"),
    "a cluster that never ran": (_formatted, ["t1"], "holds no record"),
    "a broker of no cluster": (_unknown_broker, ["t1"], "no folder after --into is a log directory of a broker .* knows"),
    "not stopped cleanly": (_unclean, ["t1"], "broker 1 was not stopped cleanly, and .*eligible.leader.replicas"),
    "a folder in the way": (_in_the_way, ["t1"], "orders-0 is in the way"),
    "a disk of the source": (target, ["b1", "t1"], "disks of 2 clusters"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_could_not_be_undone_is_refused_and_nothing_is_written(case: str) -> None:
    make, into, message = REFUSED[case]
    make()
    source()
    before = tree(".")
    with pytest.raises(UsageError, match=message):
        move(*into)
    assert tree(".") == before


def test_a_running_broker_is_left_alone() -> None:
    target()
    source()
    for running in ("t1/d1", "b1/d1"):
        with broker_lock(str(Path(running).absolute())), pytest.raises(StorageError, match=f"{running}: a broker is running"):
            move()


def test_a_cluster_is_not_moved_into_itself() -> None:
    target()
    with pytest.raises(UsageError, match="t1/d1: given as a source and after --into"):
        kafkalog.cluster_move("t1", "t1", "users", names={"users": "more"})


def test_the_id_of_a_topic_that_is_there_under_another_name_is_not_given_out_twice() -> None:
    target(own="users")
    source(orders_0=CopyFiles(LONGER, OTHER_ID))
    with pytest.raises(UsageError, match=r"its topic id .* is there already, as users; .*--as orders=NAME"):
        move()


def test_damage_is_healed_before_a_topic_is_moved() -> None:
    target()
    batch = bytearray(LONGER + made_batch(20, leader_epoch=2))
    batch[len(LONGER) // 2 + 70] ^= 1
    disk("b1/d1", 1, {"orders-0": CopyFiles(bytes(batch))}, clean=False)
    with pytest.raises(UsageError, match=r"loses whole batches; .*kafkalog salvage"):
        move()


def test_partitions_of_which_nothing_is_left_begin_empty_only_if_asked_for() -> None:
    target()
    source(orders_1=CopyFiles(LONGER))
    with pytest.raises(UsageError, match="orders: no copy of partition 0, of 2; give the disk that has it, or --missing-empty"):
        move()
    move(missing_empty=True)
    assert sorted(topic("orders").partitions) == [0, 1]
    assert not Path("t1/d1/orders-0").exists()


def test_a_stray_folder_is_moved_under_its_name() -> None:
    target()
    disk("b1/d1", 1, {f"orders-0{STRAY}": CopyFiles(LONGER)})
    move()
    assert Path("t1/d1/orders-0", LOG).read_bytes() == LONGER


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"topics": ["order"]}, "--topic order: no disk has a folder of it; there are: orders"),
        ({"topics": ["__consumer_offsets"]}, "one of Kafka's own topics"),
        ({"topics": []}, "say which topics to move"),
        ({"names": {"users": "x"}}, "users is not among the topics to move"),
        ({"names": {"orders": "a b"}}, "not a name that a topic can have"),
        ({"replicas": 0}, "at least 1"),
        ({"replicas": 2}, "--replicas 2: the disks of 1 broker were given"),
        ({"configs": {"orders": {"remote.storage.enable": "true"}}}, "in tiered storage"),
    ],
)
def test_what_cannot_be_meant_is_named(choices: dict[str, Any], message: str) -> None:
    target()
    source()
    with pytest.raises(UsageError, match=message):
        move(**choices)


def test_what_only_a_broker_has_that_follows_does_not_count() -> None:
    """It may have fetched records that the controllers then dropped."""
    batch = target(1, 2)
    more = metadata_batch(image("t1").offset + 1, NewMetadataRecord("NoOpRecord", 0, {}))
    Path("t2/d1", METADATA, LOG).write_bytes(batch + more)
    for node in (1, 2):
        state = Path(f"t{node}/d1", METADATA, "quorum-state")
        state.write_text(state.read_text().replace(', {"voterId": 2}', ""))
    source()
    result = move("t1", "t2", replicas=2)
    assert [Path(folder).parent for folder in result.metadata] == [Path("t1/d1").absolute()]
    assert result.metadata_offset == image("t2").offset
    assert Path("t2/d1", METADATA, LOG).read_bytes() == batch + more
    assert [each.replicas for each in result.partitions] == [(1, 2)]
