"""Clients that were at work before a cluster was lost, and go on: groups of both protocols, and transactional producers."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from .cluster import RunningCluster

GROUPS = ("g-classic", "g-new")
TRANSACTIONAL_ID = "tx-1"
TRANSACTED = "metrics-3"


def clients_go_on(
    cluster: RunningCluster, state: Mapping[str, Any], records: Path, ends: Mapping[str, int], written: Collection[str] = ()
) -> list[str]:
    """What goes wrong when a member of each group reads to the end, and an old transactional id begins a new transaction.

    `state` is what the cluster said of itself, `records` what consumers got before; `written` are partitions with one record
    more.
    """
    words: list[str] = []
    expected: list[str] = []
    for group in GROUPS:
        protocol = "consumer" if state["groups"][group] == "Consumer" else "classic"
        words += ["goon", group, protocol, "--"]
        expected += _rest(group, state, records, written)
    said = cluster.client(*words, "transact", TRANSACTIONAL_ID, TRANSACTED)
    return _differences([*expected, f"{TRANSACTED} {ends[TRANSACTED]}"], said)


def _rest(group: str, state: Mapping[str, Any], records: Path, written: Collection[str]) -> list[str]:
    """What a member of the group gets of each partition: first and last offset, and how many records."""
    lines = []
    committed = {
        f"{each['topic']}-{each['partition']}": each["offset"] for each in state["groupOffsets"] if each["groupId"] == group
    }
    for place, offset in sorted(committed.items()):
        offsets = [json.loads(line)["offset"] for line in (records / f"{place}.jsonl").read_text().splitlines()]
        if place in written:
            offsets.append(state["partitionOffsets"][place]["latest"])
        left = [each for each in offsets if each >= offset]
        lines += [f"{place} {left[0]} {left[-1]} {len(left)}"] if left else []
    return lines


def _differences(expected: list[str], said: list[str]) -> list[str]:
    return [f"expected {line!r}" for line in expected if line not in said] + [
        f"not expected: {line!r}" for line in said if line not in expected
    ]
