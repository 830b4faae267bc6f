"""Topics that were moved into a cluster: what it says of them and of its own, compared with what both said before."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.clusters import packed

from .cluster import RunningCluster

OFFSETS = ("earliest", "latest", "lastStable")


def moved_differences(
    state: Mapping[str, Any], check: Path, unpacked: Path, source: str, into: str, names: Mapping[str, str]
) -> list[str]:
    """Everything that differs: partitions, topic ids, offsets and records of the moved topics, and of those that were there."""
    wanted = {topic: topic for topic in _topics(unpacked / into)}
    return [
        *topic_differences(state, check, unpacked, into, wanted),
        *topic_differences(state, check, unpacked, source, names),
        *(f"{name} is not there" for name in sorted({*wanted, *names.values()} - {each["topic"] for each in state["topics"]})),
    ]


def _topics(cluster: Path) -> set[str]:
    return {each["topic"] for each in packed.admin(cluster)["topics"]}


def topic_differences(state: Mapping[str, Any], check: Path, unpacked: Path, cluster: str, names: Mapping[str, str]) -> list[str]:
    """What differs of the topics of one cluster, which have these names now."""
    admin = packed.admin(unpacked / cluster)
    found = []
    ids = {each["topic"]: each["topicId"] for each in state["topics"]}
    for each in admin["topics"]:
        if each["topic"] not in names:
            continue
        topic, number = names[each["topic"]], each["partition"]
        before, now = f"{each['topic']}-{number}", f"{topic}-{number}"
        if ids.get(topic) != each["topicId"]:
            found.append(f"{topic}: topic id {ids.get(topic)}, was {each['topicId']}")
        offsets = {name: admin["partitionOffsets"][before][name] for name in OFFSETS}
        if state["partitionOffsets"].get(now) != offsets:
            found.append(f"{now}: offsets {state['partitionOffsets'].get(now)}, were {offsets}")
        for suffix in (".jsonl", ".read_committed.jsonl"):
            records = unpacked / f"{cluster}-records" / f"{before}{suffix}"
            if records.exists() and _lines(records) != _lines(check / f"{now}{suffix}"):
                found.append(f"{now}{suffix} is not what it was")
    return found


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def use_moved(cluster: RunningCluster, state: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    """What goes wrong when records are written to a moved topic and one of the cluster's own, and open transactions are ended."""
    places = [f"{names['orders']}-0", "orders-0"]
    opened = [
        place
        for place, found in sorted(state["partitionOffsets"].items())
        if place.startswith(f"{names['txn']}-") and found["latest"] != found["lastStable"]
    ]
    said = cluster.client("write", *places, "--", "abort", *opened, "--", "transact", "tx-1", f"{names['orders']}-1")
    expected = [f"{place} {state['partitionOffsets'][place]['latest']}" for place in [*places, f"{names['orders']}-1"]]
    expected += [f"{place} {state['partitionOffsets'][place]['lastStable']}" for place in opened]
    return [f"expected {line!r}, said {said}" for line in expected if line not in said]
