"""The tables of a cluster equal what its Admin API said, and what Kafka's own classes say of the metadata left on the disks."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kafkalog
from kafkalog.clusters.metadata import read_image
from kafkalog.tables.logs import Logs
from kafkalog.tables.schemas import CLUSTER_TABLES, TABLES
from tests.clusters import packed

Rows = list[dict[str, Any]]


def logs_of(cluster: Path) -> Logs:
    return Logs(str(cluster), packed.partitions_of(packed.log_directories(cluster)))


def rows(cluster: Path, table: str, columns: list[str] | None = None, **choices: Any) -> Rows:
    found: Rows = logs_of(cluster).read(table, columns, **choices).read_all().to_pylist()
    return found


def missing(expected: list[Any], found: list[Any]) -> list[Any]:
    """What only one of the two has."""
    return [each for each in expected if each not in found] + [each for each in found if each not in expected]


def test_topics_equal_the_image_of_kafkas_own_classes(cluster: Path) -> None:
    facts = packed.facts_of_records(packed.image_lines(cluster)[1:], in_one_delta=True)
    fields = {
        "leader": "leader",
        "leaderEpoch": "leader_epoch",
        "partitionEpoch": "partition_epoch",
        "replicas": "replicas",
        "isr": "isr",
        "directories": "directories",
        "eligibleLeaderReplicas": "elr",
        "lastKnownElr": "last_known_elr",
        "addingReplicas": "adding_replicas",
        "removingReplicas": "removing_replicas",
    }
    columns = [column.name for column in TABLES["topics"].columns]
    found = {(row["topic"], row["partition"]): row for row in rows(cluster, "topics", columns)}
    assert found.keys() == facts["partitions"].keys()
    for key, expected in facts["partitions"].items():
        assert {name: found[key][ours] for name, ours in fields.items()} == {name: expected[name] for name in fields}, key
        assert found[key]["topic_id"] == facts["topics"][key[0]]


def test_topics_have_the_ids_and_replicas_that_the_admin_api_named(cluster: Path) -> None:
    expected = [(each["topic"], each["topicId"], each["partition"], each["replicas"]) for each in packed.admin(cluster)["topics"]]
    found = [(row["topic"], row["topic_id"], row["partition"], row["replicas"]) for row in rows(cluster, "topics")]
    assert len(found) > 30
    assert missing(expected, found) == []


def number_or_text(value: str) -> float | str:
    """The Admin API normalises numbers."""
    try:
        return float(value)
    except ValueError:
        return value


def test_configs_equal_those_of_the_admin_api(cluster: Path) -> None:
    names = ("resourceType", "resourceName", "name", "value")
    expected = [(*(each[name] for name in names[:3]), number_or_text(each["value"])) for each in packed.admin(cluster)["configs"]]
    found = [
        (row["resource_type"], row["resource_name"], row["name"], number_or_text(row["value"]))
        for row in rows(cluster, "configs")
    ]
    assert len(found) == len(expected) > 30
    assert missing(expected, found) == []


def test_acls_equal_those_of_the_admin_api(cluster: Path) -> None:
    names = ("resourceType", "resourceName", "patternType", "principal", "host", "operation", "permissionType")
    expected = [tuple(each[name] for name in names) for each in packed.admin(cluster)["acls"]]
    found = [tuple(row.values()) for row in rows(cluster, "acls")]
    assert len(found) == 7
    assert missing(expected, found) == []


def test_quotas_credentials_features_and_brokers_equal_those_of_the_admin_api(cluster: Path) -> None:
    admin = packed.admin(cluster)
    quotas = [(each["entity"], key, value) for each in admin["quotas"] for key, value in each["values"].items()]
    found = [
        ({part["type"]: part["name"] for part in row["entity"]}, row["key"], row["value"])
        for row in rows(cluster, "quotas", ["entity", "key", "value"])
    ]
    assert len(found) == 6
    assert missing(quotas, found) == []
    scram = [(user, each["mechanism"], each["iterations"]) for user, several in admin["scram"].items() for each in several]
    assert missing(scram, [tuple(row.values()) for row in rows(cluster, "credentials")]) == []
    assert {row["feature"]: row["level"] for row in rows(cluster, "features")} == admin["features"]
    racks = {each["id"]: each["rack"] for each in admin["cluster"]["nodes"]}
    assert {row["broker_id"]: row["rack"] for row in rows(cluster, "brokers")} == racks


def test_groups_equal_those_of_the_admin_api(cluster: Path) -> None:
    expected = [(each["groupId"], each["type"], each["protocol"], each["state"]) for each in packed.admin(cluster)["groups"]]
    found = [(row["group_id"], row["type"], row["protocol"], row["state"]) for row in rows(cluster, "groups")]
    assert len(found) == 8
    assert missing(expected, found) == []


def test_committed_offsets_equal_those_of_the_admin_api(cluster: Path) -> None:
    names = ("groupId", "topic", "partition", "offset", "leaderEpoch", "metadata")
    expected = [tuple(each[name] for name in names) for each in packed.admin(cluster)["groupOffsets"]]
    ours = ["group_id", "topic", "partition", "committed_offset", "leader_epoch", "metadata"]
    found = [tuple(row.values()) for row in rows(cluster, "group_offsets", ours)]
    assert len(found) == 30
    assert missing(expected, found) == []


def test_ends_of_logs_are_those_of_the_admin_api_and_lag_is_the_difference(cluster: Path) -> None:
    latest = {name: each["latest"] for name, each in packed.admin(cluster)["partitionOffsets"].items()}
    found = rows(cluster, "group_offsets")
    for row in found:
        assert row["log_end_offset"] == latest[f"{row['topic']}-{row['partition']}"]
        assert row["lag"] == row["log_end_offset"] - row["committed_offset"]
        assert (row["lag_ms"] == 0) if row["lag"] == 0 else row["lag_ms"] > 0


def test_lag_in_time_is_from_the_first_record_not_committed_to_the_newest_one(cluster: Path) -> None:
    (row,) = rows(cluster, "group_offsets", topics="txn-offsets-in")
    newest = max(packed.partitions_of(packed.log_directories(cluster)), key=lambda each: each.topic == "txn-offsets-in")
    records = Logs(newest.folder, [newest]).read("records", ["offset", "timestamp_ms"]).read_all().to_pylist()
    unread = [each["timestamp_ms"] for each in records if each["offset"] >= row["committed_offset"]]
    assert len(unread) == row["lag"]
    assert row["lag_ms"] == max(unread) - unread[0]


def test_the_history_has_every_commit_with_what_became_of_it(cluster: Path) -> None:
    found = [row for row in rows(cluster, "offset_commits") if row["group_id"] == "g-tx"]
    assert [(row["committed_offset"], row["state"]) for row in found] == [
        (10, "committed"),
        (15, "aborted"),
        (20, "committed"),
        (30, "aborted"),
        (44, "committed"),
        (70, "pending"),
    ]
    deleted = [row for row in rows(cluster, "offset_commits") if row["state"] == "deleted"]
    assert {(row["group_id"], row["topic"]) for row in deleted} >= {("g-gone", "logs"), ("g-meta", "deleted")}
    assert {row["committed_offset"] for row in deleted} == {None}


def test_members_have_their_assignments_by_the_names_of_topics(cluster: Path) -> None:
    found = {row["group_id"]: row["member_list"] for row in rows(cluster, "groups", ["group_id", "member_list"])}
    (static,) = found["g-kept"]
    assert static["instance_id"] == "static-1"
    assert static["assigned"] == ["payments-0", "payments-1", "payments-2"]
    (member,) = found["g-kept-new"]
    assert member["assigned"] == ["users-0", "users-1"]


@pytest.mark.parametrize("table", CLUSTER_TABLES)
def test_every_column_can_be_read_alone_and_has_its_type(table: str, three: Path) -> None:
    logs = logs_of(three)
    whole = logs.read(table, [column.name for column in TABLES[table].columns]).read_all()
    assert whole.num_rows > 0
    for column in TABLES[table].columns:
        alone = logs.read(table, [column.name]).read_all()
        assert alone.schema.field(0).type == column.type
        assert alone.column(0).to_pylist() == whole.column(column.name).to_pylist(), column.name
        alone.validate(full=True)


def test_a_log_that_is_not_on_the_disks_has_no_end_and_no_lag(three: Path) -> None:
    kept = [each for each in packed.partitions_of(packed.log_directories(three)) if each.topic != "orders"]
    found = Logs("", kept).read("group_offsets").read_all().to_pylist()
    absent = [row for row in found if row["topic"] == "orders"]
    assert len(absent) == 12
    assert {(row["log_end_offset"], row["lag"], row["lag_ms"]) for row in absent} == {(None, None, None)}


def test_offsets_of_a_topic_that_was_created_again_since_have_no_lag(three: Path, tmp_path: Path) -> None:
    shutil.copytree(three / "b1", tmp_path / "b1")
    for folder in tmp_path.glob("b1/d*/payments-*"):
        (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    found = rows(tmp_path, "group_offsets", topics="payments")
    assert {row["lag"] for row in found} == {None}


def test_topics_and_partitions_choose_rows_of_the_cluster(three: Path) -> None:
    assert [row["partition"] for row in rows(three, "topics", topics="orders", partitions=[1, 4])] == [1, 4]
    assert {row["topic"] for row in rows(three, "group_offsets", topics=["users", "audit"])} == {"users", "audit"}
    with pytest.raises(kafkalog.UsageError, match="did you mean orders"):
        rows(three, "topics", topics="order")
    with pytest.raises(kafkalog.UsageError, match="has no meaning for acls"):
        rows(three, "acls", topics="orders")


def test_a_table_can_be_read_as_it_was_at_an_offset(three: Path) -> None:
    assert "deleted" in {row["topic"] for row in rows(three, "topics", at=257)}
    assert "deleted" not in {row["topic"] for row in rows(three, "topics", at=258)}
    with pytest.raises(kafkalog.UsageError, match=r"at=3 has no meaning for groups"):
        rows(three, "groups", at=3)
    for at in (-1, 548):
        with pytest.raises(kafkalog.UsageError, match=rf"no state at offset {at}: .* offsets 0 to 547"):
            rows(three, "topics", at=at)


def test_secrets_are_in_no_table(three: Path) -> None:
    logs = logs_of(three)
    credentials = read_image(logs.partitions).image.credentials.values()
    text = "".join(
        str(logs.read(table, [column.name for column in TABLES[table].columns]).read_all().to_pylist())
        for table in CLUSTER_TABLES
    )
    assert "SCRAM-SHA-512" in text
    for credential in credentials:
        for secret in (credential.salt, credential.stored_key, credential.server_key):
            assert packed.as_base64(secret) not in text
            assert repr(secret)[2:-1] not in text


def test_an_arrow_table_of_no_columns_has_its_rows(three: Path) -> None:
    found: pa.Table = logs_of(three).read("acls", []).read_all()
    assert found.num_rows == 7


def test_several_places_give_the_tables_of_all_their_copies(three: Path, tmp_path: Path) -> None:
    folders = packed.log_directories(three)
    for table in CLUSTER_TABLES:
        assert kafkalog.open(folders).read(table).read_all().equals(logs_of(three).read(table).read_all()), table
    for folder in folders:
        shutil.copytree(folder, tmp_path / folder.parent.name / folder.name)
    spoilt = kafkalog.open(packed.log_directories(tmp_path))
    (copy,) = [each for each in spoilt.partitions if each.topic == "__cluster_metadata"]
    log = Path(copy.segments[0].log.path)
    data = bytearray(log.read_bytes())
    data[20_000] ^= 1
    log.write_bytes(data)
    assert kafkalog.open(packed.log_directories(tmp_path)).read("acls").read_all().num_rows == 7
