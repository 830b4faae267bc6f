"""The rules by which records of `__consumer_offsets` become groups and committed offsets."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import crc32c
import pytest

from kafkalog.errors import KafkaLogError
from kafkalog.format import batch
from kafkalog.log.folders import find_partitions
from kafkalog.payloads.group_image import GroupsImage
from kafkalog.payloads.internal_topics import CoordinatorRecord
from kafkalog.tables.logs import Logs
from kafkalog.tables.schemas import GROUP_TABLES, TABLES
from kafkalog.tasks.groups import groups_of
from tests.builders.memory_store import MemoryStore
from tests.clusters import packed

FOLDER = "/disk/__consumer_offsets-0"


def commit(offset: int | None, group: str = "g", partition: int = 0) -> CoordinatorRecord:
    key = {"group": group, "topic": "orders", "partition": partition}
    value = {"offset": offset, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 7}
    return CoordinatorRecord(1, key, 3, None if offset is None else value)


def of_group(kind: int, group: str = "g", **value: Any) -> CoordinatorRecord:
    member = {"memberId": value.pop("memberId")} if "memberId" in value else {}
    return CoordinatorRecord(kind, {"groupId": group, **member}, 0, value or None)


def committed(image: GroupsImage, group: str = "g") -> dict[int, int | None]:
    return {number: found.offset for (_, number), found in image.offsets.get(group, {}).items()}


def test_a_commit_in_a_transaction_counts_once_it_is_committed() -> None:
    image = GroupsImage(history=True)
    image.apply(commit(1), 0, 0)
    image.apply(commit(5), 0, 1, 900)
    assert committed(image) == {0: 1}
    assert [each.offset for each in image.pending] == [5]
    image.end_transaction(0, 900, commit=True)
    assert committed(image) == {0: 5}
    image.apply(commit(9), 0, 3, 900)
    image.end_transaction(0, 900, commit=False)
    assert committed(image) == {0: 5}
    assert [each.state for each in image.history or ()] == ["committed", "committed", "aborted"]


def test_a_later_commit_outside_of_the_transaction_stays() -> None:
    image = GroupsImage()
    image.apply(commit(5), 0, 0, 900)
    image.apply(commit(8), 0, 1)
    image.end_transaction(0, 900, commit=True)
    assert committed(image) == {0: 8}


def test_a_commit_that_a_later_one_of_its_transaction_replaced_ends_with_the_transaction() -> None:
    image = GroupsImage(history=True)
    image.apply(commit(5), 0, 0, 900)
    image.apply(commit(6), 0, 1, 900)
    assert [each.offset for each in image.pending] == [6]
    image.end_transaction(0, 900, commit=True)
    assert committed(image) == {0: 6}
    assert [each.state for each in image.history or ()] == ["committed", "committed"]


def test_a_marker_ends_the_transaction_in_its_own_partition_only() -> None:
    image = GroupsImage()
    image.apply(commit(5, "a"), 0, 0, 900)
    image.apply(commit(6, "b"), 1, 0, 900)
    image.end_transaction(1, 900, commit=True)
    assert (committed(image, "a"), committed(image, "b")) == ({}, {0: 6})


def test_a_tombstone_deletes_the_offset_and_what_is_pending_for_it() -> None:
    image = GroupsImage(history=True)
    image.apply(commit(1), 0, 0)
    image.apply(commit(5), 0, 1, 900)
    image.apply(commit(None), 0, 2)
    image.end_transaction(0, 900, commit=True)
    assert committed(image) == {}
    assert image.groups == {}
    assert [each.state for each in image.history or ()] == ["committed", "aborted", "deleted"]


def test_the_state_of_a_group_of_the_new_protocol_follows_its_members() -> None:
    image = GroupsImage()
    image.apply(of_group(3, epoch=1), 0, 0)
    assert (image.groups["g"].type, image.groups["g"].state) == ("Consumer", "Empty")
    image.apply(of_group(5, memberId="m", clientId="c", clientHost="/h", serverAssignor="uniform"), 0, 1)
    assert image.groups["g"].state == "Assigning"
    image.apply(of_group(6, assignmentEpoch=1), 0, 2)
    image.apply(of_group(8, memberId="m", memberEpoch=0, state=1, assignedPartitions=[]), 0, 3)
    assert image.groups["g"].state == "Reconciling"
    image.apply(of_group(8, memberId="m", memberEpoch=1, state=0, assignedPartitions=[{"topicId": "t", "partitions": [2]}]), 0, 4)
    assert (image.groups["g"].state, image.groups["g"].chosen_assignor) == ("Stable", "uniform")
    assert image.groups["g"].members["m"].assigned == (("t", 2),)
    image.apply(of_group(5, memberId="m"), 0, 5)
    assert image.groups["g"].state == "Empty"
    image.apply(of_group(3), 0, 6)
    assert image.groups == {}


def test_a_group_that_was_converted_is_of_its_last_protocol() -> None:
    image = GroupsImage()
    classic = {"protocolType": "consumer", "generation": 3, "protocol": "range", "leader": None, "members": []}
    image.apply(CoordinatorRecord(2, {"group": "g"}, 3, classic), 0, 0)
    assert (image.groups["g"].type, image.groups["g"].epoch) == ("Classic", 3)
    image.apply(of_group(3, epoch=4), 0, 1)
    image.apply(CoordinatorRecord(2, {"group": "g"}, None, None), 0, 2)
    assert (image.groups["g"].type, image.groups["g"].epoch) == ("Consumer", 4)


def test_share_and_streams_groups_are_told_apart() -> None:
    image = GroupsImage()
    image.apply(of_group(11, "s", epoch=1, metadataHash=0), 0, 0)
    image.apply(of_group(10, "s", memberId="m", clientId="c", clientHost="/h"), 0, 1)
    image.apply(of_group(17, "t", epoch=1), 0, 2)
    image.apply(of_group(19, "t", memberId="m", clientId="c", clientHost="/h"), 0, 3)
    found = {name: (group.type, group.protocol, group.state) for name, group in image.groups.items()}
    assert found == {"s": ("Share", "share", "Stable"), "t": ("Streams", "streams", "NotReady")}


@pytest.mark.parametrize("number", [0, 1])
def test_changed_records_under_a_right_checksum_raise_nothing_but_our_errors(number: int, three: Path) -> None:
    (folder,) = three.glob(f"b1/d*/__consumer_offsets-{number}")
    whole = (folder / f"{0:020}.log").read_bytes()
    starts = [0]
    while starts[-1] < len(whole):
        (length,) = struct.unpack_from(">i", whole, starts[-1] + batch.BATCH_LENGTH_POSITION)
        starts.append(starts[-1] + batch.LOG_OVERHEAD + length)
    chance = random.Random(number)
    read = 0
    for _ in range(30):
        position = chance.randrange(len(whole))
        start, stop = max(each for each in starts if each <= position), min(each for each in starts if each > position)
        if position < start + batch.HEADER_SIZE:
            continue
        data = bytearray(whole)
        data[position] ^= 1 << chance.randrange(8)
        struct.pack_into(">I", data, start + batch.CRC_POSITION, crc32c.crc32c(bytes(data[start + batch.CRC_START : stop])))
        partitions = find_partitions(MemoryStore({f"{FOLDER}/{0:020}.log": bytes(data)}), FOLDER)
        groups_of((FOLDER,), partitions, history=True).as_dict()
        for table in GROUP_TABLES:
            columns = [column.name for column in TABLES[table].columns]
            try:
                read += Logs(FOLDER, partitions).read(table, columns, threads=1).read_all().num_rows > 0
            except KafkaLogError:
                continue
    assert read > 20


def test_two_groups_with_the_same_lag_are_in_the_order_of_their_names(three: Path) -> None:
    partitions = [each for each in packed.partitions_of(packed.log_directories(three)) if each.topic == "__consumer_offsets"]
    found = groups_of(("",), partitions)
    assert [each.lag for each in found] == [None] * 8
    assert [each.group.group_id for each in found] == sorted(each.group.group_id for each in found)
