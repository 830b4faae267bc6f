"""A cluster as text: what it is, its nodes, its topics."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog.format.quantities import moment_text, plural
from kafkalog.tasks.cluster import Cluster, NodeSummary, TopicSummary

from .escape import printable
from .layout import BOLD, Style, grid

UNKNOWN = "-"
NODE_HEADS = ("node", "roles", "rack", "state", "endpoints", "log directories here")
TOPIC_HEADS = ("topic", "partitions", "replicas", "leaderless", "under-replicated", "reassigning", "settings")
TIME = "%Y-%m-%d %H:%M:%S"


class ClusterPage:
    """The lines of what `kafkalog cluster` found, for one output."""

    def __init__(self, found: Cluster, style: Style) -> None:
        self.found = found
        self.style = style

    def lines(self) -> Iterator[str]:
        yield self.style.paint(printable(f"cluster {self.found.cluster_id or 'without an id'}"), BOLD)
        facts = list(self._facts())
        width = max(len(name) for name, _ in facts)
        for name, value in facts:
            yield printable(f"  {name:<{width}}  {value}")
        yield ""
        yield from grid(self.style, NODE_HEADS, list(map(_node, self.found.nodes)), left=frozenset({0, 1, 2, 3, 4}))
        if self.found.topics:
            yield ""
            yield from grid(self.style, TOPIC_HEADS, list(map(_topic, self.found.topics)))
        if self.found.image.brokers and all(broker.is_fenced for broker in self.found.image.brokers.values()):
            yield ""
            yield "no broker was online: partitions without a leader get one at the next start"

    def _facts(self) -> Iterator[tuple[str, str]]:
        found, image = self.found, self.found.image
        time = "" if image.timestamp_ms < 0 else f", {moment_text(image.timestamp_ms, TIME)}"
        yield "metadata", f"offset {image.offset}, epoch {image.epoch}{time}"
        yield "from", " and ".join(path for path in (found.snapshot, found.log) if path)
        yield "features", self._features()
        leader = "" if image.leader_id is None else f", led by {image.leader_id}"
        yield "voters", (", ".join(map(str, sorted(image.voters))) or "unknown") + leader
        partitions = sum(topic.partitions for topic in found.topics)
        leaderless = sum(topic.leaderless for topic in found.topics)
        yield "topics", f"{len(found.topics)} with {plural(partitions, 'partition')}, {leaderless} of them without a leader"
        yield "settings", ", ".join(f"{kind} {count}" for kind, count in found.config_counts.items()) or "none"
        security = plural(len(image.acls), "ACL"), plural(len(image.credentials), "SCRAM credential")
        tokens = [plural(len(image.delegation_tokens), "delegation token")] if image.delegation_tokens else []
        yield "security", ", ".join([*security, *tokens])
        yield "quotas", str(len(image.quotas))
        if found.group_count is not None:
            yield "groups", f"{found.group_count}, in {plural(found.offsets_partitions, 'partition')} of __consumer_offsets"
        if image.unknown:
            unknown = ", ".join(f"{count} {kind}" for kind, count in sorted(image.unknown.items()))
            yield "not understood", f"records of a later release: {unknown}"
        if image.dangling:
            yield "contradictory", ", ".join(f"{count} {kind}" for kind, count in sorted(image.dangling.items()))

    def _features(self) -> str:
        version = self.found.metadata_version
        named = {name: str(level) for name, level in sorted(self.found.image.features.items())}
        if version and "metadata.version" in named:
            named["metadata.version"] += f" ({version})"
        return ", ".join(f"{name} {level}" for name, level in named.items()) or "none"


def _node(node: NodeSummary) -> tuple[str, ...]:
    return (
        str(node.node_id),
        ", ".join(node.roles) or UNKNOWN,
        printable(node.rack or UNKNOWN),
        node.state or UNKNOWN,
        printable(", ".join(node.endpoints) or UNKNOWN),
        str(len(node.log_directories) or UNKNOWN),
    )


def _topic(topic: TopicSummary) -> tuple[str, ...]:
    counts = topic.partitions, topic.replicas, topic.leaderless, topic.under_replicated, topic.reassigning, topic.configs
    return (printable(topic.topic), *map(str, counts))
