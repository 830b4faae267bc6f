"""The records of the new metadata, in the order in which a controller can apply them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from kafkalog.payloads.cluster_image import BROKER, CLIENT_METRICS, GROUP, METADATA_VERSION, TOPIC, ClusterImage
from kafkalog.payloads.messages import ZERO_UUID
from kafkalog.payloads.metadata_snapshot import NewMetadataRecord

from .features import Levels
from .result import PlannedPartition

NO_LEADER = -1  # the controller elects one as soon as a broker of the isr is there
NO_BROKER_EPOCH = -1
UNASSIGNED = ZERO_UUID  # a broker says later in which of its directories such a replica is
OTHER_RESOURCES = (BROKER, CLIENT_METRICS, GROUP)


def metadata_records(
    levels: Levels,
    partitions: Iterable[PlannedPartition],
    configs: Mapping[str, Mapping[str, str]],
    next_producer_id: int,
    nodes: Sequence[int],
    image: ClusterImage | None,
) -> list[NewMetadataRecord]:
    """Everything that the controllers of these nodes begin with."""
    return [
        *_features(levels),
        *partition_records(partitions, has_directories=levels.has_directories),
        *(config_record(TOPIC, topic, key, value) for topic in sorted(configs) for key, value in sorted(configs[topic].items())),
        *(_known(image, {"", *map(str, nodes)}) if image is not None else ()),
        new_record("ProducerIdsRecord", 0, brokerId=nodes[0], brokerEpoch=NO_BROKER_EPOCH, nextProducerId=next_producer_id),
    ]


def new_record(record: str, version: int, /, **data: object) -> NewMetadataRecord:
    """A record of a name and version, such as TopicRecord, with these fields."""
    return NewMetadataRecord(record, version, data)


def _features(levels: Levels) -> Iterator[NewMetadataRecord]:
    """The metadata.version comes first: it says in which versions the others are written."""
    for name in sorted(levels.levels, key=lambda each: (each != METADATA_VERSION, each)):
        yield new_record("FeatureLevelRecord", 0, name=name, featureLevel=levels.levels[name])


def partition_records(partitions: Iterable[PlannedPartition], *, has_directories: bool) -> Iterator[NewMetadataRecord]:
    """The topics and their partitions; a release before 3.7 knows no directories."""
    named = set()
    for each in partitions:
        if each.topic not in named:
            named.add(each.topic)
            yield new_record("TopicRecord", 0, name=each.topic, topicId=each.topic_id)
        directories = {"directories": list(each.directories)} if has_directories else {}
        yield new_record(
            "PartitionRecord",
            int(has_directories),
            partitionId=each.partition,
            topicId=each.topic_id,
            replicas=list(each.replicas),
            isr=list(each.isr),
            leader=NO_LEADER,
            leaderEpoch=each.leader_epoch,
            partitionEpoch=0,
            **directories,
        )


def config_record(resource_type: int, resource: str, name: str, value: str) -> NewMetadataRecord:
    """A setting of a topic, broker or other resource."""
    return new_record("ConfigRecord", 0, resourceType=resource_type, resourceName=resource, name=name, value=value)


def _known(image: ClusterImage, brokers: Collection[str]) -> Iterator[NewMetadataRecord]:
    """What an older copy of the metadata knows besides topics: configs of brokers, groups and subscriptions, who may do what."""
    for (resource_type, resource), settings in sorted(image.configs.items()):
        if resource_type in OTHER_RESOURCES and (resource_type != BROKER or resource in brokers):
            yield from (config_record(resource_type, resource, name, value) for name, value in sorted(settings.items()))
    for acl in image.acls.values():
        yield new_record(
            "AccessControlEntryRecord",
            0,
            id=acl.acl_id,
            resourceType=acl.resource_type,
            resourceName=acl.resource_name,
            patternType=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permissionType=acl.permission_type,
        )
    for credential in image.credentials.values():
        yield new_record(
            "UserScramCredentialRecord",
            0,
            name=credential.name,
            mechanism=credential.mechanism,
            salt=credential.salt,
            storedKey=credential.stored_key,
            serverKey=credential.server_key,
            iterations=credential.iterations,
        )
    for entity, values in image.quotas.items():
        parts = [{"entityType": kind, "entityName": name} for kind, name in entity]
        for key, value in sorted(values.items()):
            yield new_record("ClientQuotaRecord", 0, entity=parts, key=key, value=value, remove=False)
    for token in image.delegation_tokens.values():
        yield new_record(
            "DelegationTokenRecord",
            0,
            owner=token.owner,
            requester=token.requester,
            renewers=list(token.renewers),
            issueTimestamp=token.issue_timestamp,
            maxTimestamp=token.max_timestamp,
            expirationTimestamp=token.expiration_timestamp,
            tokenId=token.token_id,
        )
