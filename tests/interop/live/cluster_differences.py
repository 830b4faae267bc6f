"""What a running cluster says, compared with what the cluster said that the disks are from."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any


def differences(
    state: Mapping[str, Any],
    folder: Path,
    admin: Mapping[str, Any],
    records: Path,
    *,
    without: Collection[str] = (),
    places: bool = True,
    merged_into: int | None = None,
) -> list[str]:
    """Everything that differs from what the Admin API and consumers said before, except in partitions `without`.

    `state` and `folder` are of RunningCluster.check; `places`: replicas and log directories have to be the same too.

    `merged_into` is the only node of a cluster that was put into one.
    """
    found = list(_topics(state, admin, without, places=places, merged_into=merged_into))
    found += _offsets(state, dict(admin["partitionOffsets"]), without)
    found += _groups(state, admin, without)
    found += _transactions(state, admin)
    if places and merged_into is None:
        found += _directories(state, admin)
    for partition in sorted({f"{each['topic']}-{each['partition']}" for each in admin["topics"]} - set(without)):
        for suffix in (".jsonl", ".read_committed.jsonl"):
            found += _records(folder / f"{partition}{suffix}", records / f"{partition}{suffix}")
    return found


def _topics(
    state: Mapping[str, Any], admin: Mapping[str, Any], without: Collection[str], *, places: bool, merged_into: int | None
) -> Iterator[str]:
    there = {f"{each['topic']}-{each['partition']}": each for each in state["topics"]}
    wanted = {f"{each['topic']}-{each['partition']}": each for each in admin["topics"]}
    for name in sorted(there.keys() ^ wanted.keys()):
        yield f"{name}: {'not there' if name in wanted else 'not expected'}"
    for name in sorted(there.keys() & wanted.keys() - set(without)):
        now, before = there[name], wanted[name]
        if now["topicId"] != before["topicId"]:
            yield f"{name}: topic id {now['topicId']}, was {before['topicId']}"
        if now["leader"] < 0:
            yield f"{name}: no leader"
        replicas = before["replicas"] if merged_into is None else [merged_into]
        if places and sorted(now["replicas"]) != sorted(replicas):
            yield f"{name}: replicas {now['replicas']}, were {replicas}"


def _offsets(state: Mapping[str, Any], wanted: Mapping[str, Any], without: Collection[str]) -> Iterator[str]:
    for name in sorted(wanted.keys() - set(without)):
        now = state["partitionOffsets"].get(name)
        before = {key: wanted[name][key] for key in ("earliest", "latest", "lastStable")}
        if now != before:
            yield f"{name}: offsets {now}, were {before}"


def _groups(state: Mapping[str, Any], admin: Mapping[str, Any], without: Collection[str]) -> Iterator[str]:
    now = {_commit(each) for each in state["groupOffsets"]}
    before = {_commit(each) for each in admin["groupOffsets"] if f"{each['topic']}-{each['partition']}" not in without}
    yield from (f"group offset {each} is gone" for each in sorted(before - now, key=repr))
    yield from (f"group offset {each} is new" for each in sorted(now - before, key=repr) if not without)
    kinds = {each["groupId"]: each["type"] for each in admin["groups"]}
    for group, kind in sorted(kinds.items()):
        if state["groups"].get(group) != kind:
            yield f"group {group}: {state['groups'].get(group)}, was {kind}"


def _commit(each: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(each[name] for name in ("groupId", "topic", "partition", "offset", "leaderEpoch", "metadata"))


def _transactions(state: Mapping[str, Any], admin: Mapping[str, Any]) -> Iterator[str]:
    now = {(each["transactionalId"], each["producerId"], each["state"]) for each in state["transactions"]}
    before = {(each["transactionalId"], each["producerId"], each["state"]) for each in admin["transactions"]}
    yield from (f"transactional id {each} differs" for each in sorted(now ^ before))


def _directories(state: Mapping[str, Any], admin: Mapping[str, Any]) -> Iterator[str]:
    now = {(each["broker"], Path(each["dir"]).name): sorted(each["partitions"]) for each in state["logDirs"]}
    before = {(each["broker"], Path(each["dir"]).name): sorted(each["partitions"]) for each in admin["logDirs"]}
    for place in sorted(now.keys() | before.keys()):
        if now.get(place) != before.get(place):
            yield f"log directory {place}: {now.get(place)}, was {before.get(place)}"


def _records(found: Path, expected: Path) -> Iterator[str]:
    if not expected.exists():
        return
    now = [json.loads(line) for line in found.read_text().splitlines()] if found.exists() else []
    before = [json.loads(line) for line in expected.read_text().splitlines()]
    if now != before:
        same = min(len(now), len(before))
        at = next((row for row in range(same) if now[row] != before[row]), same)
        yield f"{found.name}: {len(now)} records, were {len(before)}; the first difference is number {at}"
