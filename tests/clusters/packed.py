"""The packed clusters: unpacked once per session, and what their Admin API and Kafka's own classes said of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import kafkalog
from kafkalog.log.partition import Partition
from kafkalog.payloads.cluster_image import ClusterImage
from tests.golden import sets

DATA = Path(__file__).resolve().parent / "data"
ARCHIVE = "clusters"
NAMES = ("three", "single39")


def unpack(folder: Path) -> Path:
    """The folder with both sets."""
    return sets.unpack(ARCHIVE, folder, DATA)


def log_directories(cluster: Path) -> list[Path]:
    return sorted(cluster.glob("b*/d*"))


def partitions_of(folders: Iterable[Path]) -> list[Partition]:
    return [partition for folder in folders for partition in kafkalog.open(folder).partitions]


def admin(cluster: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((cluster / "expected/admin.json").read_text(encoding="utf-8"))
    return found


def image_lines(cluster: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (cluster / "expected/image.jsonl").read_text(encoding="utf-8").splitlines()]


Facts = dict[str, dict[Any, Any]]


def facts_of_records(records: Iterable[dict[str, Any]], *, in_one_delta: bool = False) -> Facts:
    """What records of a written MetadataImage say, by kind and key.

    A replay in one delta keeps the settings of deleted topics (`data/README.md`): these are left out.
    """
    facts: Facts = {kind: {} for kind in KINDS}
    names: dict[str, str] = {}
    for record in records:
        data, kind = record["data"], record["type"]
        if kind == "TOPIC_RECORD":
            names[data["topicId"]] = data["name"]
            facts["topics"][data["name"]] = data["topicId"]
        elif kind == "PARTITION_RECORD":
            facts["partitions"][names[data["topicId"]], data["partitionId"]] = {
                name: data.get(name) or ([] if name in LISTS else 0) for name in PARTITION_FIELDS
            }
        elif kind == "CONFIG_RECORD":
            facts["configs"][data["resourceType"], data["resourceName"], data["name"]] = data["value"]
        elif kind == "ACCESS_CONTROL_ENTRY_RECORD":
            facts["acls"][data["id"]] = tuple(value for name, value in data.items() if name != "id")
        elif kind == "USER_SCRAM_CREDENTIAL_RECORD":
            facts["credentials"][data["name"], data["mechanism"]] = (
                data["iterations"],
                data["salt"],
                data["storedKey"],
                data["serverKey"],
            )
        elif kind == "CLIENT_QUOTA_RECORD":
            entity = tuple(sorted((each["entityType"], each["entityName"]) for each in data["entity"]))
            facts["quotas"][entity, data["key"]] = data["value"]
        elif kind == "FEATURE_LEVEL_RECORD":
            facts["features"][data["name"]] = data["featureLevel"]
        elif kind == "REGISTER_BROKER_RECORD":
            facts["brokers"][data["brokerId"]] = {name: data.get(name) or 0 for name in BROKER_FIELDS}
        elif kind == "REGISTER_CONTROLLER_RECORD":
            facts["controllers"][data["controllerId"]] = (data["incarnationId"], len(data["endPoints"]), len(data["features"]))
        elif kind == "PRODUCER_IDS_RECORD":
            facts["producer ids"]["next"] = data["nextProducerId"]
    there = set(names.values())
    if in_one_delta:
        facts["configs"] = {key: value for key, value in facts["configs"].items() if key[0] != 2 or key[1] in there}
    return facts


KINDS = (
    "topics",
    "partitions",
    "configs",
    "acls",
    "credentials",
    "quotas",
    "features",
    "brokers",
    "controllers",
    "producer ids",
)
LISTS = {
    "replicas": "replicas",
    "isr": "isr",
    "removingReplicas": "removing_replicas",
    "addingReplicas": "adding_replicas",
    "directories": "directories",
    "eligibleLeaderReplicas": "eligible_leader_replicas",
    "lastKnownElr": "last_known_elr",
}
PARTITION_FIELDS = (*LISTS, "leader", "leaderEpoch", "partitionEpoch", "leaderRecoveryState")
BROKER_FIELDS = ("brokerEpoch", "incarnationId", "endPoints", "rack", "fenced", "inControlledShutdown", "logDirs")


def facts_of_image(image: ClusterImage) -> Facts:
    """The same of our image."""
    facts: Facts = {kind: {} for kind in KINDS}
    for topic in image.topics.values():
        facts["topics"][topic.name] = topic.topic_id
        for number, found in topic.partitions.items():
            lists = {name: list(getattr(found, ours)) for name, ours in LISTS.items()}
            facts["partitions"][topic.name, number] = {
                **lists,
                "leader": found.leader,
                "leaderEpoch": found.leader_epoch,
                "partitionEpoch": found.partition_epoch,
                "leaderRecoveryState": int(found.is_recovering),
            }
    for (kind, name), settings in image.configs.items():
        facts["configs"] |= {(kind, name, setting): value for setting, value in settings.items()}
    facts["acls"] = {acl_id: tuple(vars(acl).values())[1:] for acl_id, acl in image.acls.items()}
    facts["credentials"] = {
        key: (found.iterations, *map(as_base64, (found.salt, found.stored_key, found.server_key)))
        for key, found in image.credentials.items()
    }
    facts["quotas"] = {(entity, key): value for entity, values in image.quotas.items() for key, value in values.items()}
    facts["features"] = dict(image.features)
    for broker in image.brokers.values():
        endpoints = [
            {"name": each.name, "host": each.host, "port": each.port, "securityProtocol": each.security_protocol}
            for each in broker.endpoints
        ]
        values = (
            broker.broker_epoch,
            broker.incarnation_id,
            endpoints,
            broker.rack or 0,
            broker.is_fenced,
            broker.in_controlled_shutdown,
            list(broker.log_dirs),
        )
        facts["brokers"][broker.broker_id] = {name: value or 0 for name, value in zip(BROKER_FIELDS, values, strict=True)}
    for controller in image.controllers.values():
        facts["controllers"][controller.controller_id] = (
            controller.incarnation_id,
            len(controller.endpoints),
            len(controller.supported_features),
        )
    facts["producer ids"] = {} if image.next_producer_id is None else {"next": image.next_producer_id}
    return facts


def as_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def differences(expected: Facts, found: Facts) -> list[str]:
    """Every fact that the two do not share."""
    return [
        f"{kind} {key}: expected {expected[kind].get(key)!r}, found {found[kind].get(key)!r}"
        for kind in KINDS
        for key in expected[kind].keys() | found[kind].keys()
        if expected[kind].get(key) != found[kind].get(key)
    ]
