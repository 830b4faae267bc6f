"""The state of a KRaft cluster, replayed from the records of `__cluster_metadata` and its snapshots.

The rules are those of Kafka's MetadataDelta and MetadataImage: a record adds, changes or removes one thing, and the records of
a metadata transaction (KIP-868) count once it has ended. A replay is a fold: `apply` takes one decoded record after the other,
so any prefix of the log gives the state at that offset.

Secrets (salts and keys of SCRAM credentials) are kept, because a rebuilt cluster needs them; nothing here shows them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kafkalog.format.quantities import plural, repr_text

from .internal_topics import MetadataRecord

NO_LEADER: Final = -1
NO_LEADER_CHANGE: Final = -2
METADATA_VERSION: Final = "metadata.version"
BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION = (f"{what}_TRANSACTION_RECORD" for what in ("BEGIN", "END", "ABORT"))
TRANSACTION_MARKERS: Final = frozenset((BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION))

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
CONFIG_RESOURCES: Final = {
    TOPIC: "TOPIC",
    BROKER: "BROKER",
    BROKER_LOGGER: "BROKER_LOGGER",
    CLIENT_METRICS: "CLIENT_METRICS",
    GROUP: "GROUP",
}
MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
ACL_RESOURCES: Final = {
    1: "ANY",
    2: "TOPIC",
    3: "GROUP",
    4: "CLUSTER",
    5: "TRANSACTIONAL_ID",
    6: "DELEGATION_TOKEN",
    7: "USER",
}
PATTERN_TYPES: Final = {1: "ANY", 2: "MATCH", 3: "LITERAL", 4: "PREFIXED"}
OPERATIONS: Final = {
    1: "ANY",
    2: "ALL",
    3: "READ",
    4: "WRITE",
    5: "CREATE",
    6: "DELETE",
    7: "ALTER",
    8: "DESCRIBE",
    9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS",
    11: "ALTER_CONFIGS",
    12: "IDEMPOTENT_WRITE",
    13: "CREATE_TOKENS",
    14: "DESCRIBE_TOKENS",
    15: "TWO_PHASE_COMMIT",
}
PERMISSION_TYPES: Final = {1: "ANY", 2: "DENY", 3: "ALLOW"}
# What Kafka calls the levels of metadata.version: each release and how many it has, from the first of KRaft's on.
_RELEASES: Final[tuple[tuple[str, int, int], ...]] = (
    *(("3.0", 1, 1), ("3.1", 0, 1), ("3.2", 0, 1), ("3.3", 0, 4), ("3.4", 0, 1), ("3.5", 0, 3), ("3.6", 0, 3)),
    *(("3.7", 0, 5), ("3.8", 0, 1), ("3.9", 0, 1), ("4.0", 0, 4), ("4.1", 0, 2), ("4.2", 0, 2), ("4.3", 0, 1)),
)
METADATA_VERSIONS: Final = dict(
    enumerate((f"{release}-IV{first + step}" for release, first, count in _RELEASES for step in range(count)), 1)
)
# Words in the names of settings that hold secrets: the settings of type PASSWORD of brokers, connectors and clients.
SECRET_SETTINGS: Final = ("password", "passphrase", "secret", "jaas.config", "private.key", "keystore.key", "certificate")


def code_name(names: dict[int, str], code: int) -> str:
    """Kafka's name of a code; UNKNOWN(n) for one of a later release."""
    return names.get(code, f"UNKNOWN({code})")


def is_secret_setting(name: str) -> bool:
    """Whether the value of a setting must not be shown; listener prefixes and upper case make no difference."""
    lowered = name.lower()
    return any(word in lowered for word in SECRET_SETTINGS) or lowered.endswith("truststore.certificates")


@dataclass(frozen=True)
class PartitionState:
    """A partition as the controller knows it. `directories` is empty where none are assigned (before 3.7)."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    is_recovering: bool = False
    directories: tuple[str, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @classmethod
    def of(cls, data: dict[str, Any]) -> PartitionState:
        """The partition of a PartitionRecord."""
        return cls(
            replicas=tuple(data["replicas"]),
            isr=tuple(data["isr"]),
            leader=data["leader"],
            leader_epoch=data["leaderEpoch"],
            partition_epoch=data["partitionEpoch"],
            removing_replicas=tuple(data["removingReplicas"] or ()),
            adding_replicas=tuple(data["addingReplicas"] or ()),
            is_recovering=data.get("leaderRecoveryState", 0) == 1,
            directories=tuple(data.get("directories") or ()),
            eligible_leader_replicas=tuple(data.get("eligibleLeaderReplicas") or ()),
            last_known_elr=tuple(data.get("lastKnownElr") or ()),
        )

    def changed(self, data: dict[str, Any]) -> PartitionState:
        """The partition after a PartitionChangeRecord: what the record leaves out stays as it is."""
        leader = data.get("leader", NO_LEADER_CHANGE)
        has_new_leader = leader != NO_LEADER_CHANGE
        recovery = data.get("leaderRecoveryState", -1)

        def after(name: str, before: tuple[Any, ...]) -> tuple[Any, ...]:
            given = data.get(name)
            return before if given is None else tuple(given)

        return PartitionState(
            replicas=after("replicas", self.replicas),
            isr=after("isr", self.isr),
            leader=leader if has_new_leader else self.leader,
            leader_epoch=self.leader_epoch + has_new_leader,
            partition_epoch=self.partition_epoch + 1,
            removing_replicas=after("removingReplicas", self.removing_replicas),
            adding_replicas=after("addingReplicas", self.adding_replicas),
            is_recovering=self.is_recovering if recovery < 0 else recovery == 1,
            directories=tuple(data.get("directories") or self.directories),
            eligible_leader_replicas=after("eligibleLeaderReplicas", self.eligible_leader_replicas),
            last_known_elr=after("lastKnownElr", self.last_known_elr),
        )


@dataclass
class TopicState:
    """A topic, with its partitions by number."""

    name: str
    topic_id: str
    partitions: dict[int, PartitionState] = field(default_factory=dict)

    def __repr__(self) -> str:
        return repr_text("TopicState", self.name, self.topic_id, plural(len(self.partitions), "partition"))


@dataclass(frozen=True)
class Endpoint:
    """Where a node listens."""

    name: str
    host: str
    port: int
    security_protocol: int = 0

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"

    @classmethod
    def several(cls, given: list[dict[str, Any]]) -> tuple[Endpoint, ...]:
        return tuple(cls(each["name"], each["host"], each["port"], each.get("securityProtocol", 0)) for each in given)


SupportedVersions = dict[str, tuple[int, int]]


def _supported(features: list[dict[str, Any]]) -> SupportedVersions:
    return {each["name"]: (each["minSupportedVersion"], each["maxSupportedVersion"]) for each in features}


@dataclass(frozen=True)
class BrokerState:
    """A broker's registration. `log_dirs` are the ids of its log directories (from 3.7 on)."""

    broker_id: int
    broker_epoch: int
    incarnation_id: str
    endpoints: tuple[Endpoint, ...]
    supported_features: SupportedVersions
    rack: str | None
    is_fenced: bool
    in_controlled_shutdown: bool = False
    log_dirs: tuple[str, ...] = ()
    cordoned_log_dirs: tuple[str, ...] | None = None
    is_migrating_zk_broker: bool = False

    @classmethod
    def of(cls, data: dict[str, Any]) -> BrokerState:
        cordoned = data.get("cordonedLogDirs")
        return cls(
            broker_id=data["brokerId"],
            broker_epoch=data["brokerEpoch"],
            incarnation_id=data["incarnationId"],
            endpoints=Endpoint.several(data["endPoints"]),
            supported_features=_supported(data["features"]),
            rack=data["rack"],
            is_fenced=data["fenced"],
            in_controlled_shutdown=data.get("inControlledShutdown", False),
            log_dirs=tuple(data.get("logDirs") or ()),
            cordoned_log_dirs=None if cordoned is None else tuple(cordoned),
            is_migrating_zk_broker=data.get("isMigratingZkBroker", False),
        )

    def changed(self, data: dict[str, Any]) -> BrokerState:
        """The broker after a BrokerRegistrationChangeRecord."""
        fenced, shutdown = data.get("fenced", 0), data.get("inControlledShutdown", 0)
        cordoned = data.get("cordonedLogDirs")
        return replace(
            self,
            is_fenced=self.is_fenced if not fenced else fenced > 0,
            in_controlled_shutdown=self.in_controlled_shutdown if not shutdown else shutdown > 0,
            log_dirs=tuple(data.get("logDirs") or self.log_dirs),
            cordoned_log_dirs=self.cordoned_log_dirs if cordoned is None else tuple(cordoned),
        )


@dataclass(frozen=True)
class ControllerState:
    """A controller's registration (from 3.7 on)."""

    controller_id: int
    incarnation_id: str
    endpoints: tuple[Endpoint, ...]
    supported_features: SupportedVersions
    is_ready_to_migrate: bool = False


@dataclass(frozen=True)
class Voter:
    """A voter of the metadata quorum; a static one has neither directory nor endpoints here."""

    voter_id: int
    directory_id: str | None = None
    endpoints: tuple[Endpoint, ...] = ()


@dataclass(frozen=True)
class Acl:
    """An access control entry, with Kafka's codes."""

    acl_id: str
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


@dataclass(frozen=True)
class ScramCredential:
    """A user's SCRAM credential. The secrets are not part of its `repr`."""

    name: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


@dataclass(frozen=True)
class DelegationToken:
    """A delegation token; its secret is made from the id and the cluster's key, so the id is not part of its `repr`."""

    token_id: str = field(repr=False)
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int


# The parts of an entity that a quota is for, sorted by type; None as a name is the default of that type.
QuotaEntity = tuple[tuple[str, str | None], ...]


class ClusterImage:
    """The cluster at one offset of its metadata log: `offset` and `epoch` are those of the last record that was read.

    `unknown` counts records of types and versions that a later release writes, `dangling` those that name a topic, broker or
    entry that is not there, or begin or end a transaction out of turn: neither changes anything.
    """

    def __init__(self) -> None:
        self.offset = -1
        self.epoch = -1
        self.timestamp_ms = -1
        self.topics: dict[str, TopicState] = {}  # by topic id
        self.configs: dict[tuple[int, str], dict[str, str]] = {}  # by type and name of the resource
        self.acls: dict[str, Acl] = {}
        self.credentials: dict[tuple[str, int], ScramCredential] = {}
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.features: dict[str, int] = {}
        self.brokers: dict[int, BrokerState] = {}
        self.controllers: dict[int, ControllerState] = {}
        self.delegation_tokens: dict[str, DelegationToken] = {}
        self.next_producer_id: int | None = None
        self.zk_migration_state = 0
        self.unknown: Counter[str] = Counter()
        self.dangling: Counter[str] = Counter()
        # Of the raft layer's control records.
        self.kraft_version = 0
        self.voters: dict[int, Voter] = {}
        self.leader_id: int | None = None
        self._transaction: list[MetadataRecord] | None = None

    def __repr__(self) -> str:
        partitions = sum(len(topic.partitions) for topic in self.topics.values())
        counts = plural(len(self.topics), "topic"), plural(partitions, "partition"), plural(len(self.brokers), "broker")
        return f"ClusterImage(offset {self.offset}, epoch {self.epoch}, {', '.join(counts)})"

    @property
    def sorted_topics(self) -> list[TopicState]:
        """The topics in order of their names; of two with one name, which no controller makes, the newer one is the last."""
        return sorted(self.topics.values(), key=lambda topic: topic.name)

    @property
    def topics_by_name(self) -> dict[str, TopicState]:
        return {topic.name: topic for topic in self.sorted_topics}

    @property
    def in_transaction(self) -> bool:
        """Whether a metadata transaction has begun that the log does not end: its records do not count."""
        return self._transaction is not None

    def apply(self, record: MetadataRecord) -> None:
        """Take the next record into account."""
        if record.name in TRANSACTION_MARKERS:
            self._apply_marker(record.name)
        elif self._transaction is not None:
            self._transaction.append(record)
        else:
            self._apply(record)

    def _apply_marker(self, name: str) -> None:
        """Kafka refuses a begin in a transaction, and an end without one: everything stays as it was."""
        if (self._transaction is None) != (name == BEGIN_TRANSACTION):
            self.dangling[name] += 1
            return
        waiting, self._transaction = self._transaction or [], [] if name == BEGIN_TRANSACTION else None
        for each in waiting if name == END_TRANSACTION else ():
            self._apply(each)

    def apply_control(self, name: str, data: dict[str, Any]) -> None:
        """Take a control record of the raft layer into account: leader, voters, version of KRaft."""
        if name == "LeaderChangeMessage":
            self.leader_id = data["leaderId"]
            if not any(voter.directory_id for voter in self.voters.values()):
                self.voters = {each["voterId"]: Voter(each["voterId"]) for each in data["voters"]}
        elif name == "VotersRecord":
            self.voters = {
                each["voterId"]: Voter(each["voterId"], each["voterDirectoryId"], Endpoint.several(each["endpoints"]))
                for each in data["voters"]
            }
        elif name == "KRaftVersionRecord":
            self.kraft_version = data["kRaftVersion"]

    def skip(self, what: str) -> None:
        """Count a record that these schemas do not know."""
        self.unknown[what] += 1

    def _apply(self, record: MetadataRecord) -> None:
        handle = _HANDLERS.get(record.name)
        if handle is None:
            self.unknown[record.name] += 1
        elif not handle(self, record.data):
            self.dangling[record.name] += 1


# What each type of record does; False if it names something that is not there.


def _add_topic(image: ClusterImage, data: dict[str, Any]) -> bool:
    image.topics[data["topicId"]] = TopicState(data["name"], data["topicId"])
    return True


def _remove_topic(image: ClusterImage, data: dict[str, Any]) -> bool:
    topic = image.topics.pop(data["topicId"], None)
    if topic is None:
        return False
    image.configs.pop((TOPIC, topic.name), None)
    return True


def _add_partition(image: ClusterImage, data: dict[str, Any]) -> bool:
    topic = image.topics.get(data["topicId"])
    if topic is None:
        return False
    topic.partitions[data["partitionId"]] = PartitionState.of(data)
    return True


def _change_partition(image: ClusterImage, data: dict[str, Any]) -> bool:
    topic = image.topics.get(data["topicId"])
    number = data["partitionId"]
    if topic is None or number not in topic.partitions:
        return False
    topic.partitions[number] = topic.partitions[number].changed(data)
    return True


def _clear_elr(image: ClusterImage, data: dict[str, Any]) -> bool:
    """No name means every topic."""
    chosen = [topic for topic in image.topics.values() if data["topicName"] in ("", topic.name)]
    cleared: dict[str, Any] = {"eligibleLeaderReplicas": [], "lastKnownElr": []}
    for topic in chosen:
        for number, partition in topic.partitions.items():
            if partition.eligible_leader_replicas or partition.last_known_elr:
                topic.partitions[number] = partition.changed(cleared)
    return bool(chosen) or not data["topicName"]


def _set_config(image: ClusterImage, data: dict[str, Any]) -> bool:
    resource = data["resourceType"], data["resourceName"]
    if data["value"] is not None:
        image.configs.setdefault(resource, {})[data["name"]] = data["value"]
        return True
    settings = image.configs.get(resource, {})
    known = settings.pop(data["name"], None) is not None
    if not settings:
        image.configs.pop(resource, None)
    return known


def _set_feature(image: ClusterImage, data: dict[str, Any]) -> bool:
    if data["featureLevel"] == 0 and data["name"] != METADATA_VERSION:
        image.features.pop(data["name"], None)
    else:
        image.features[data["name"]] = data["featureLevel"]
    return True


def _set_quota(image: ClusterImage, data: dict[str, Any]) -> bool:
    parts = ((each["entityType"], each["entityName"]) for each in data["entity"])
    entity = tuple(sorted(parts, key=lambda part: (part[0], part[1] or "")))
    if not data["remove"]:
        image.quotas.setdefault(entity, {})[data["key"]] = data["value"]
        return True
    values = image.quotas.get(entity, {})
    known = values.pop(data["key"], None) is not None
    if not values:
        image.quotas.pop(entity, None)
    return known


def _set_producer_ids(image: ClusterImage, data: dict[str, Any]) -> bool:
    image.next_producer_id = data["nextProducerId"]
    return True


def _register_broker(image: ClusterImage, data: dict[str, Any]) -> bool:
    image.brokers[data["brokerId"]] = BrokerState.of(data)
    return True


def _unregister_broker(image: ClusterImage, data: dict[str, Any]) -> bool:
    return image.brokers.pop(data["brokerId"], None) is not None


def _change_broker(image: ClusterImage, data: dict[str, Any]) -> bool:
    """Only the registration of that epoch: a broker that came back has another."""
    broker = image.brokers.get(data["brokerId"])
    if broker is None or broker.broker_epoch != data["brokerEpoch"]:
        return False
    image.brokers[broker.broker_id] = broker.changed(data)
    return True


def _fence_broker(image: ClusterImage, data: dict[str, Any]) -> bool:
    return _change_broker(image, {"brokerId": data["id"], "brokerEpoch": data["epoch"], "fenced": 1})


def _unfence_broker(image: ClusterImage, data: dict[str, Any]) -> bool:
    return _change_broker(image, {"brokerId": data["id"], "brokerEpoch": data["epoch"], "fenced": -1})


def _register_controller(image: ClusterImage, data: dict[str, Any]) -> bool:
    image.controllers[data["controllerId"]] = ControllerState(
        data["controllerId"],
        data["incarnationId"],
        Endpoint.several(data["endPoints"]),
        _supported(data["features"]),
        data["zkMigrationReady"],
    )
    return True


def _add_acl(image: ClusterImage, data: dict[str, Any]) -> bool:
    image.acls[data["id"]] = Acl(
        data["id"],
        data["resourceType"],
        data["resourceName"],
        data["patternType"],
        data["principal"],
        data["host"],
        data["operation"],
        data["permissionType"],
    )
    return True


def _remove_acl(image: ClusterImage, data: dict[str, Any]) -> bool:
    return image.acls.pop(data["id"], None) is not None


def _add_credential(image: ClusterImage, data: dict[str, Any]) -> bool:
    image.credentials[data["name"], data["mechanism"]] = ScramCredential(
        data["name"], data["mechanism"], data["iterations"], data["salt"], data["storedKey"], data["serverKey"]
    )
    return True


def _remove_credential(image: ClusterImage, data: dict[str, Any]) -> bool:
    return image.credentials.pop((data["name"], data["mechanism"]), None) is not None


def _add_token(image: ClusterImage, data: dict[str, Any]) -> bool:
    image.delegation_tokens[data["tokenId"]] = DelegationToken(
        data["tokenId"],
        data["owner"],
        data["requester"],
        tuple(data["renewers"]),
        data["issueTimestamp"],
        data["maxTimestamp"],
        data["expirationTimestamp"],
    )
    return True


def _remove_token(image: ClusterImage, data: dict[str, Any]) -> bool:
    return image.delegation_tokens.pop(data["tokenId"], None) is not None


def _set_zk_migration(image: ClusterImage, data: dict[str, Any]) -> bool:
    image.zk_migration_state = data["zkMigrationState"]
    return True


_HANDLERS: Final[dict[str, Callable[[ClusterImage, dict[str, Any]], bool]]] = {
    "TOPIC_RECORD": _add_topic,
    "REMOVE_TOPIC_RECORD": _remove_topic,
    "PARTITION_RECORD": _add_partition,
    "PARTITION_CHANGE_RECORD": _change_partition,
    "CLEAR_ELR_RECORD": _clear_elr,
    "CONFIG_RECORD": _set_config,
    "FEATURE_LEVEL_RECORD": _set_feature,
    "CLIENT_QUOTA_RECORD": _set_quota,
    "PRODUCER_IDS_RECORD": _set_producer_ids,
    "REGISTER_BROKER_RECORD": _register_broker,
    "UNREGISTER_BROKER_RECORD": _unregister_broker,
    "BROKER_REGISTRATION_CHANGE_RECORD": _change_broker,
    "FENCE_BROKER_RECORD": _fence_broker,
    "UNFENCE_BROKER_RECORD": _unfence_broker,
    "REGISTER_CONTROLLER_RECORD": _register_controller,
    "ACCESS_CONTROL_ENTRY_RECORD": _add_acl,
    "REMOVE_ACCESS_CONTROL_ENTRY_RECORD": _remove_acl,
    "USER_SCRAM_CREDENTIAL_RECORD": _add_credential,
    "REMOVE_USER_SCRAM_CREDENTIAL_RECORD": _remove_credential,
    "DELEGATION_TOKEN_RECORD": _add_token,
    "REMOVE_DELEGATION_TOKEN_RECORD": _remove_token,
    "ZK_MIGRATION_STATE_RECORD": _set_zk_migration,
    "NO_OP_RECORD": lambda image, data: True,
}
