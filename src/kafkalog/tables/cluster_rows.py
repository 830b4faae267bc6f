"""The tables of a whole cluster: rows of its metadata and of its groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from kafkalog.clusters.groups import Positions, committed_offsets, read_groups
from kafkalog.clusters.metadata import metadata_copies, read_image
from kafkalog.clusters.places import cluster_id_of, directories_of
from kafkalog.errors import KafkaLogError, Limits, NoLogs, UsageError
from kafkalog.log.folders import no_topic
from kafkalog.log.partition import Partition
from kafkalog.log.report import ReadReport
from kafkalog.payloads import cluster_image
from kafkalog.payloads.cluster_image import ClusterImage, code_name
from kafkalog.payloads.group_image import Commit, GroupsImage, GroupState, Member
from kafkalog.segment.columns import MAX_TIMESTAMP_MS

from .rows import Row
from .schemas import CLUSTER_TABLES, GROUP_TABLES, METADATA_TABLES, TABLES

OFFSETS_TOPIC: Final = "__consumer_offsets"


@dataclass(frozen=True)
class ClusterSource:
    """The disks of a cluster, to be read once for a table. `at` is an offset of the metadata log."""

    partitions: Sequence[Partition]
    limits: Limits
    report: ReadReport
    strict: bool = True
    at: int | None = None
    columns: frozenset[str] = frozenset()

    @cached_property
    def image(self) -> ClusterImage:
        cluster_id_of(directories_of(self.partitions))
        return read_image(self.partitions, at=self.at, limits=self.limits, report=self.report, strict=self.strict).image

    @cached_property
    def groups(self) -> GroupsImage:
        return self._groups(history=False)

    @cached_property
    def history(self) -> GroupsImage:
        return self._groups(history=True)

    def _groups(self, *, history: bool) -> GroupsImage:
        cluster_id_of(directories_of(self.partitions))
        if not any(found.topic == OFFSETS_TOPIC and not found.state for found in self.partitions):
            raise NoLogs(
                f"no partition of {OFFSETS_TOPIC} here, where groups commit their offsets; it is on the brokers' disks: give all "
                "log directories of the cluster: kafkalog groups FOLDER…"
            )
        return read_groups(self.partitions, history=history, limits=self.limits, report=self.report, strict=self.strict)

    @cached_property
    def positions(self) -> Positions:
        return Positions(self.partitions, self.limits, with_times="lag_ms" in self.columns)

    @cached_property
    def topic_names(self) -> dict[str, str]:
        """Names of topics by id: of the metadata where it is there, else from the folders."""
        names = {found.topic_id: found.topic for found in self.partitions if found.topic_id and not found.state}
        try:
            return names | {topic.topic_id: topic.name for topic in self.image.topics.values()} if self._has_metadata else names
        except KafkaLogError:
            return names

    @property
    def _has_metadata(self) -> bool:
        return bool(metadata_copies(self.partitions))


def cluster_rows(table: str, source: ClusterSource, topics: Sequence[str] | None, numbers: Sequence[int] | None) -> Iterator[Row]:
    """The rows of a table of the cluster; only of these topics and partition numbers."""
    assert table in CLUSTER_TABLES, table
    found = _ROWS[table](source)
    if topics is None and numbers is None:
        yield from found
        return
    if "topic" not in {column.name for column in TABLES[table].columns}:
        argument = f"topics={topics!r}" if topics is not None else f"partitions={numbers!r}"
        raise UsageError(f"{argument} has no meaning for {table}, whose rows are not of a topic")
    yield from _chosen(list(found), topics, numbers)


def _chosen(rows: list[Row], topics: Sequence[str] | None, numbers: Sequence[int] | None) -> Iterator[Row]:
    there = sorted({row["topic"] for row in rows})
    for topic in topics or ():
        if topic not in there:
            raise UsageError(no_topic(topic, there))
    for row in rows:
        if (topics is None or row["topic"] in topics) and (numbers is None or row["partition"] in numbers):
            yield row


def _topic_rows(source: ClusterSource) -> Iterator[Row]:
    for topic in source.image.sorted_topics:
        for number, found in sorted(topic.partitions.items()):
            yield {
                "topic": topic.name,
                "topic_id": topic.topic_id,
                "partition": number,
                "leader": found.leader,
                "leader_epoch": found.leader_epoch,
                "partition_epoch": found.partition_epoch,
                "replicas": found.replicas,
                "isr": found.isr,
                "elr": found.eligible_leader_replicas,
                "last_known_elr": found.last_known_elr,
                "adding_replicas": found.adding_replicas,
                "removing_replicas": found.removing_replicas,
                "leader_recovery_state": "RECOVERING" if found.is_recovering else "RECOVERED",
                "directories": found.directories,
            }


def _config_rows(source: ClusterSource) -> Iterator[Row]:
    for (kind, resource), settings in sorted(source.image.configs.items()):
        for name, value in sorted(settings.items()):
            is_secret = cluster_image.is_secret_setting(name)
            yield {
                "resource_type": code_name(cluster_image.CONFIG_RESOURCES, kind),
                "resource_name": resource,
                "name": name,
                "value": None if is_secret else value,
                "is_sensitive": is_secret,
            }


def _acl_rows(source: ClusterSource) -> Iterator[Row]:
    rows = [
        {
            "resource_type": code_name(cluster_image.ACL_RESOURCES, acl.resource_type),
            "resource_name": acl.resource_name,
            "pattern_type": code_name(cluster_image.PATTERN_TYPES, acl.pattern_type),
            "principal": acl.principal,
            "host": acl.host,
            "operation": code_name(cluster_image.OPERATIONS, acl.operation),
            "permission_type": code_name(cluster_image.PERMISSION_TYPES, acl.permission_type),
            "id": acl.acl_id,
        }
        for acl in source.image.acls.values()
    ]
    yield from sorted(rows, key=lambda row: tuple(row.values()))


def _broker_rows(source: ClusterSource) -> Iterator[Row]:
    for broker_id, broker in sorted(source.image.brokers.items()):
        yield {
            "broker_id": broker_id,
            "broker_epoch": broker.broker_epoch,
            "rack": broker.rack,
            "is_fenced": broker.is_fenced,
            "in_controlled_shutdown": broker.in_controlled_shutdown,
            "endpoints": list(map(str, broker.endpoints)),
            "log_dirs": broker.log_dirs,
            "cordoned_log_dirs": broker.cordoned_log_dirs,
            "incarnation_id": broker.incarnation_id,
            "supported_features": [
                {"feature": name, "min_level": low, "max_level": high}
                for name, (low, high) in sorted(broker.supported_features.items())
            ],
        }


def _quota_rows(source: ClusterSource) -> Iterator[Row]:
    for entity, values in sorted(source.image.quotas.items(), key=repr):
        parts = {kind: "" if name is None else name for kind, name in entity}
        for key, value in sorted(values.items()):
            yield {
                "user": parts.get("user"),
                "client_id": parts.get("client-id"),
                "ip": parts.get("ip"),
                "key": key,
                "value": value,
                "entity": [{"type": kind, "name": name} for kind, name in entity],
            }


def _credential_rows(source: ClusterSource) -> Iterator[Row]:
    for (user, mechanism), credential in sorted(source.image.credentials.items()):
        yield {
            "user": user,
            "mechanism": code_name(cluster_image.MECHANISMS, mechanism),
            "iterations": credential.iterations,
        }


def _feature_rows(source: ClusterSource) -> Iterator[Row]:
    for feature, level in sorted(source.image.features.items()):
        release = cluster_image.METADATA_VERSIONS.get(level) if feature == cluster_image.METADATA_VERSION else None
        yield {"feature": feature, "level": level, "release": release}


def _group_rows(source: ClusterSource) -> Iterator[Row]:
    names = source.topic_names if "member_list" in source.columns else {}
    for group in source.groups.groups.values():
        yield {
            "group_id": group.group_id,
            "type": group.type,
            "protocol": group.protocol,
            "state": group.state,
            "assignor": group.chosen_assignor,
            "epoch": group.epoch,
            "leader": group.leader,
            "members": len(group.members),
            "changed": _time(group.changed_timestamp),
            "member_list": [_member(group, member, names) for _, member in sorted(group.members.items())],
        }


def _member(group: GroupState, member: Member, names: dict[str, str]) -> Row:
    assigned = [(names.get(topic, topic), number) for topic, number in member.assigned]
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "assigned": [f"{topic}-{number}" for topic, number in sorted(assigned)],
    }


def _time(milliseconds: int | None) -> int | None:
    """A time that fits into microseconds, as `records` has it; null beyond."""
    return None if milliseconds is None or abs(milliseconds) > MAX_TIMESTAMP_MS else milliseconds


def _commit_row(commit: Commit) -> Row:
    return {
        "group_id": commit.group_id,
        "topic": commit.topic,
        "partition": commit.partition,
        "committed_offset": commit.offset,
        "leader_epoch": commit.leader_epoch,
        "metadata": commit.metadata,
        "commit_time": _time(commit.commit_timestamp),
        "topic_id": commit.topic_id,
        "record_offset": commit.record_offset,
    }


def _group_offset_rows(source: ClusterSource) -> Iterator[Row]:
    for commit in committed_offsets(source.groups):
        position: dict[str, Any] = vars(source.positions.of(commit))
        yield {**_commit_row(commit), "expire_time": _time(commit.expire_timestamp), **position}


def _offset_commit_rows(source: ClusterSource) -> Iterator[Row]:
    for commit in source.history.history or ():
        yield {**_commit_row(commit), "state": commit.state, "producer_id": commit.producer_id}


_ROWS: Final[dict[str, Callable[[ClusterSource], Iterator[Row]]]] = {
    "topics": _topic_rows,
    "configs": _config_rows,
    "acls": _acl_rows,
    "brokers": _broker_rows,
    "quotas": _quota_rows,
    "credentials": _credential_rows,
    "features": _feature_rows,
    "groups": _group_rows,
    "group_offsets": _group_offset_rows,
    "offset_commits": _offset_commit_rows,
}
assert set(_ROWS) == {*METADATA_TABLES, *GROUP_TABLES}
