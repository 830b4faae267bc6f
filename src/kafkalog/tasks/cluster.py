"""A cluster at a glance, from the disks of its nodes: what its metadata say, and how many groups it has."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkalog.clusters.copies import OFFSETS_TOPIC
from kafkalog.clusters.groups import read_groups
from kafkalog.clusters.metadata import metadata_copies, read_image
from kafkalog.clusters.places import Disks, Path, find_disks, read_quorum_state
from kafkalog.errors import Limits
from kafkalog.format.html_table import html_table
from kafkalog.format.quantities import plural, repr_text
from kafkalog.log.report import ReadReport
from kafkalog.payloads.cluster_image import (
    CONFIG_RESOURCES,
    METADATA_VERSION,
    METADATA_VERSIONS,
    NO_LEADER,
    TOPIC,
    ClusterImage,
    PartitionState,
    Voter,
    code_name,
)
from kafkalog.tables.choices import whole_number

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


@dataclass(frozen=True)
class TopicSummary:
    """A topic: how many partitions, in how many replicas, and how many of them had no leader or not all replicas in the isr."""

    topic: str
    topic_id: str
    partitions: int
    replicas: int  # the most of any partition
    leaderless: int
    under_replicated: int
    reassigning: int
    configs: int


@dataclass(frozen=True)
class NodeSummary:
    """A node of the cluster, and what of it is here: its roles, and the log directories found."""

    node_id: int
    roles: tuple[str, ...]
    rack: str | None
    state: str  # of a broker: online, fenced or shutting down, as the metadata last had it; else ""
    endpoints: tuple[str, ...]
    log_directories: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Cluster:
    """A cluster by its metadata at one offset. `image` has everything that they say, `problems` what is damaged.

    `group_count` is None where no partition of `__consumer_offsets` is here, and for an earlier offset.
    """

    paths: tuple[str, ...]
    cluster_id: str | None
    image: ClusterImage
    nodes: tuple[NodeSummary, ...]
    topics: tuple[TopicSummary, ...]
    snapshot: str | None
    log: str | None
    is_complete: bool
    problems: tuple[str, ...]
    group_count: int | None
    offsets_partitions: int
    report: ReadReport = field(compare=False)

    def __repr__(self) -> str:
        brokers = plural(len(self.image.brokers), "broker")
        return repr_text("Cluster", self.cluster_id, f"offset {self.image.offset}", brokers, plural(len(self.topics), "topic"))

    def _repr_html_(self) -> str:
        heads = ("topic", "partitions", "replicas", "leaderless", "under-replicated", "settings")
        rows = [
            (each.topic, each.partitions, each.replicas, each.leaderless, each.under_replicated, each.configs)
            for each in self.topics
        ]
        return html_table(repr(self), heads, rows)

    @property
    def metadata_version(self) -> str | None:
        """What Kafka calls the level of metadata.version; None for one of a later release."""
        return METADATA_VERSIONS.get(self.image.features.get(METADATA_VERSION, -1))

    @property
    def config_counts(self) -> dict[str, int]:
        """How many settings differ from their defaults, by what they belong to."""
        counts: Counter[str] = Counter()
        for (kind, _), settings in self.image.configs.items():
            counts[code_name(CONFIG_RESOURCES, kind)] += len(settings)
        return dict(sorted(counts.items()))

    def as_dict(self) -> dict[str, Any]:
        """The cluster as plain values, for JSON; secrets are not among them."""
        image = self.image
        return {
            "paths": list(self.paths),
            "cluster_id": self.cluster_id,
            "metadata": {
                "offset": image.offset,
                "epoch": image.epoch,
                "timestamp_ms": image.timestamp_ms,
                "snapshot": self.snapshot,
                "log": self.log,
                "complete": self.is_complete,
                "in_transaction": image.in_transaction,
                "problems": list(self.problems),
                "unknown_records": dict(image.unknown),
                "dangling_records": dict(image.dangling),
            },
            "metadata_version": self.metadata_version,
            "features": dict(sorted(image.features.items())),
            "kraft_version": image.kraft_version,
            "leader": image.leader_id,
            "voters": sorted(image.voters),
            "nodes": [vars(node) for node in self.nodes],
            "topics": [vars(topic) for topic in self.topics],
            "configs": self.config_counts,
            "acls": len(image.acls),
            "quotas": len(image.quotas),
            "credentials": len(image.credentials),
            "delegation_tokens": len(image.delegation_tokens),
            "groups": self.group_count,
            "offsets_partitions": self.offsets_partitions,
            "next_producer_id": image.next_producer_id,
        }


def cluster(
    paths: Path | Sequence[Path],
    *,
    at: int | None = None,
    limits: Limits | None = None,
    filesystem: FileSystem | None = None,
) -> Cluster:
    """The cluster whose log directories are at or below `paths`, by the newest of all copies of its metadata.

    With `at`, the cluster right after the record at that offset of the metadata log. Damage does not raise: the state ends before
    it, and `problems` says so. NoLogs without metadata, UsageError for the disks of two clusters.
    """
    return cluster_of(find_disks(paths, filesystem=filesystem), None if at is None else whole_number("at", at), limits)


def cluster_of(disks: Disks, at: int | None = None, limits: Limits | None = None) -> Cluster:
    """The same of disks that were found before."""
    report = ReadReport()
    read = read_image(disks.partitions, at=at, limits=limits, report=report)
    image = read.image
    if at is None:
        _add_quorum(image, disks)
    numbers = {each.partition for each in disks.partitions if each.topic == OFFSETS_TOPIC and not each.state}
    groups = len(read_groups(disks.partitions, limits=limits, report=report).groups) if numbers and at is None else None
    return Cluster(
        paths=tuple(map(os.fsdecode, disks.places)),
        cluster_id=disks.cluster_id,
        image=image,
        nodes=_nodes(image, disks),
        topics=topic_summaries(image),
        snapshot=read.snapshot,
        log=read.log,
        is_complete=read.is_complete,
        problems=tuple(map(str, read.problems)),
        group_count=groups,
        offsets_partitions=len(numbers),
        report=report,
    )


def _add_quorum(image: ClusterImage, disks: Disks) -> None:
    """A log of which the first records are gone need not say who leads and votes; quorum-state does (voters before 3.9)."""
    states = [state for copy in metadata_copies(disks.partitions) if (state := read_quorum_state(copy)) is not None]
    for state in sorted(states, key=lambda state: state.leader_epoch):
        if state.leader_epoch == image.epoch and state.leader_id >= 0:
            image.leader_id = state.leader_id
        for voter in () if image.voters else state.current_voters:
            image.voters[voter] = Voter(voter)


def topic_summaries(image: ClusterImage) -> tuple[TopicSummary, ...]:
    """The topics of an image, by name."""
    return tuple(
        TopicSummary(
            topic.name,
            topic.topic_id,
            len(topic.partitions),
            max((len(found.replicas) for found in topic.partitions.values()), default=0),
            sum(found.leader == NO_LEADER for found in topic.partitions.values()),
            sum(len(found.isr) < len(found.replicas) for found in topic.partitions.values()),
            sum(map(_is_moving, topic.partitions.values())),
            len(image.configs.get((TOPIC, topic.name), ())),
        )
        for topic in image.sorted_topics
    )


def _is_moving(partition: PartitionState) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


def _nodes(image: ClusterImage, disks: Disks) -> tuple[NodeSummary, ...]:
    controllers = {*image.controllers, *image.voters}
    return tuple(
        NodeSummary(
            node_id,
            tuple(role for role, ids in (("broker", image.brokers), ("controller", controllers)) if node_id in ids),
            image.brokers[node_id].rack if node_id in image.brokers else None,
            _state(image, node_id),
            _endpoints(image, node_id),
            tuple(each.path for each in disks.directories if each.properties and each.properties.node_id == node_id),
        )
        for node_id in sorted({*image.brokers, *controllers, *disks.node_ids})
    )


def _state(image: ClusterImage, node_id: int) -> str:
    broker = image.brokers.get(node_id)
    if broker is None:
        return ""
    if broker.in_controlled_shutdown:
        return "shut down" if broker.is_fenced else "shutting down"
    return "fenced" if broker.is_fenced else "online"


def _endpoints(image: ClusterImage, node_id: int) -> tuple[str, ...]:
    of_broker = image.brokers[node_id].endpoints if node_id in image.brokers else ()
    of_controller = image.controllers[node_id].endpoints if node_id in image.controllers else ()
    of_voter = image.voters[node_id].endpoints if node_id in image.voters else ()
    return tuple(dict.fromkeys(map(str, (*of_broker, *of_controller, *of_voter))))
