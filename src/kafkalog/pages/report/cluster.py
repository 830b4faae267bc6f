"""The cluster that these disks are of, by its metadata."""

from __future__ import annotations

import os
from collections.abc import Iterator

from kafkalog.format.markup import Child, Markup, element, joined
from kafkalog.format.quantities import plural
from kafkalog.pages.tables import Cell, Column, code, facts, number, table
from kafkalog.tasks.cluster import Cluster
from kafkalog.tasks.overview.result import Overview

from .section import Section, command, more_rows, time_text

MOST_TOPICS = 1000


def section(overview: Overview) -> Section | None:
    found = overview.cluster
    if found is None:
        return None
    parts = [facts(_facts(found)), _problems(found), _nodes(found), _topics(overview, found), _commands(found)]
    return Section("cluster", "Cluster", joined(parts))


def _facts(found: Cluster) -> Iterator[tuple[str, Child]]:
    image = found.image
    version = f" ({found.metadata_version})" if found.metadata_version else ""
    features = {
        name: str(level) + (version if name == "metadata.version" else "") for name, level in sorted(image.features.items())
    }
    partitions = sum(topic.partitions for topic in found.topics)
    leaderless = sum(topic.leaderless for topic in found.topics)
    yield "Cluster id", found.cluster_id or "–"
    yield "Metadata", f"offset {image.offset:,}, epoch {image.epoch}, {time_text(image.timestamp_ms)}"
    yield "Voters", ", ".join(map(str, sorted(image.voters))) or "–"
    yield "Topics", f"{len(found.topics):,} with {plural(partitions, 'partition')}, {leaderless:,} without a leader"
    yield "Settings", ", ".join(f"{kind} {count}" for kind, count in found.config_counts.items()) or "none"
    yield "ACLs, quotas, SCRAM credentials", f"{len(image.acls):,}, {len(image.quotas):,}, {len(image.credentials):,}"
    yield "Features", ", ".join(f"{name} {level}" for name, level in features.items()) or "none"
    if image.unknown:
        yield "Records of a later release", f"{sum(image.unknown.values()):,}, which change nothing here"


def _problems(found: Cluster) -> Markup | None:
    if not found.problems:
        return None
    what = "A damaged copy was not used" if found.is_complete else "The state ends before damage"
    return element("p", f"{what}: {found.problems[0]}", class_="hint warning")


def _nodes(found: Cluster) -> Markup:
    columns = [
        Column("node", True),
        Column("roles"),
        Column("rack"),
        Column("state"),
        Column("endpoints", is_wide=True),
        Column("log directories here", True),
    ]
    rows = [
        [
            number(node.node_id),
            ", ".join(node.roles),
            node.rack or "–",
            node.state or "–",
            ", ".join(node.endpoints) or "–",
            number(len(node.log_directories)),
        ]
        for node in found.nodes
    ]
    return table("Nodes, as the metadata last had them", columns, rows)


def _topics(overview: Overview, found: Cluster) -> Markup | None:
    if not found.topics:
        return None
    heads = ("partitions", "replicas", "without leader", "isr too small", "reassigning", "settings", "partitions here")
    here: dict[str, int] = {topic: len({each.partition for each in views}) for topic, views in overview.topics.items()}
    rows = [
        [
            topic.topic,
            *map(
                number,
                (
                    topic.partitions,
                    topic.replicas,
                    topic.leaderless,
                    topic.under_replicated,
                    topic.reassigning,
                    topic.configs,
                    here.get(topic.topic, 0),
                ),
            ),
        ]
        for topic in found.topics[:MOST_TOPICS]
    ]
    cells: list[list[Cell | Child]] = [list(row) for row in rows]
    more = more_rows(len(rows), len(found.topics), command("kafkalog", "cluster", *overview.paths))
    return table(
        "Topics of the cluster", [Column("topic"), *(Column(head, True) for head in heads)], cells, more=more, filtered=True
    )


def _commands(found: Cluster) -> Markup:
    """The log directory with the metadata, where the tables can be read."""
    folder = os.path.dirname(found.log or os.path.dirname(found.snapshot or ""))
    lines = [code(command("kafkalog", "table", name, folder)) for name in ("topics", "configs", "acls")]
    return element("div", element("p", "All of it, as tables:"), [element("div", line) for line in lines])
