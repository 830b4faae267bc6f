"""Small disks of clusters without metadata: log directories with a few batches, as files by their path."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kafkalog.format.checkpoint import (
    EpochStart,
    PartitionMetadata,
    PartitionOffset,
    encode_leader_epoch_checkpoint,
    encode_offset_checkpoint,
    encode_partition_metadata,
)
from kafkalog.format.names import parse_folder_name
from kafkalog.format.reference import Record, encode_batch
from kafkalog.format.snapshot import PRODUCERS, encode_snapshot
from kafkalog.payloads.message_writing import encode_cluster_metadata
from kafkalog.payloads.metadata_snapshot import NewMetadataRecord, encode_metadata_snapshot

Files = dict[str, bytes]
CLUSTER = "Y2x1c3RlciBvZiB0ZXN0cw"
TOPIC_ID = "dG9waWMgb2YgdGhlIHRlcw"
OTHER_ID = "b3RoZXIgdG9waWMgb2YgaQ"
STRAY = ".0123456789abcdef0123456789abcdef-stray"
LEVELS = {"metadata.version": 30, "group.version": 1, "transaction.version": 2, "eligible.leader.replicas.version": 1}


@dataclass(frozen=True)
class CopyFiles:
    """What a partition folder holds: batches, epochs as (epoch, first offset), producer ids of its snapshot."""

    batches: bytes
    topic_id: str | None = TOPIC_ID
    epochs: Sequence[tuple[int, int]] = ()
    snapshot_ids: Sequence[int] = ()


def directory_id(node: int, number: int = 1) -> str:
    return f"ZGlyZWN0b3J5{node:05d}{number:05d}"[:21] + "A"


def disk_files(
    path: str,
    node: int | None,
    partitions: Mapping[str, CopyFiles],
    *,
    number: int = 1,
    cluster: str = CLUSTER,
    levels: Mapping[str, int] | None = LEVELS,
    clean: bool = True,
    compacted: Sequence[str] = (),
) -> Files:
    """The files of a log directory; without a node it has no meta.properties."""
    files: Files = {}
    if node is not None:
        text = f"version=1\nnode.id={node}\ncluster.id={cluster}\ndirectory.id={directory_id(node, number)}\n"
        files[f"{path}/meta.properties"] = text.encode()
    if levels is not None:
        records = [
            NewMetadataRecord("FeatureLevelRecord", 0, {"name": name, "featureLevel": level}) for name, level in levels.items()
        ]
        files[f"{path}/bootstrap.checkpoint"] = encode_metadata_snapshot(records, 0)
    if clean:
        files[f"{path}/.kafka_cleanshutdown"] = b'{"version":0,"brokerEpoch":9}'
    offsets = []
    for name, copy in partitions.items():
        parsed = parse_folder_name(name)
        assert parsed is not None, name
        offsets.append(PartitionOffset(parsed.topic, parsed.partition, 0))
        files |= {f"{path}/{name}/{each}": content for each, content in _copy_files(copy).items()}
    files[f"{path}/replication-offset-checkpoint"] = encode_offset_checkpoint(offsets)
    if compacted:
        files[f"{path}/cleaner-offset-checkpoint"] = encode_offset_checkpoint(
            [PartitionOffset(topic, 0, 1) for topic in compacted]
        )
    return files


def _copy_files(copy: CopyFiles) -> Files:
    epochs = [EpochStart(*each) for each in copy.epochs]
    files = {f"{0:020d}.log": copy.batches, "leader-epoch-checkpoint": encode_leader_epoch_checkpoint(epochs)}
    if copy.topic_id is not None:
        files["partition.metadata"] = encode_partition_metadata(PartitionMetadata(0, copy.topic_id))
    if copy.snapshot_ids:
        producers = np.zeros(len(copy.snapshot_ids), PRODUCERS)
        producers["producer_id"] = copy.snapshot_ids
        files[f"{0:020d}.snapshot"] = encode_snapshot(producers)
    return files


def metadata_files(path: str, voters: Sequence[int], *batches: bytes, leader_epoch: int = 1) -> Files:
    """The files of a controller's copy of the metadata log."""
    folder = f"{path}/__cluster_metadata-0"
    state = {"clusterId": "", "leaderId": voters[0], "leaderEpoch": leader_epoch, "votedId": -1, "appliedOffset": 0}
    state |= {"currentVoters": [{"voterId": each} for each in voters], "data_version": 0}
    return {
        f"{folder}/{0:020d}.log": b"".join(batches),
        f"{folder}/leader-epoch-checkpoint": encode_leader_epoch_checkpoint([EpochStart(1, 0)]),
        f"{folder}/partition.metadata": encode_partition_metadata(PartitionMetadata(0, "AAAAAAAAAAAAAAAAAAAAAQ")),
        f"{folder}/quorum-state": json.dumps(state).encode(),
    }


def metadata_batch(offset: int, *records: NewMetadataRecord, epoch: int = 1) -> bytes:
    """A batch of a metadata log."""
    values = [encode_cluster_metadata(each.name, each.version, each.data) for each in records]
    stored = [Record(offset + number, 1000, None, value) for number, value in enumerate(values)]
    return encode_batch(stored, leader_epoch=epoch)


def cluster_records(
    brokers: Mapping[int, Sequence[str]], *, levels: Mapping[str, int] = LEVELS, next_producer_id: int = 5000
) -> list[NewMetadataRecord]:
    """What the metadata say of a cluster with these brokers and the ids of their log directories."""
    records = [
        NewMetadataRecord("FeatureLevelRecord", 0, {"name": name, "featureLevel": level}) for name, level in levels.items()
    ]
    for number, directories in brokers.items():
        data = {
            "brokerId": number,
            "incarnationId": "aW5jYXJuYXRpb24gaWQgbw",
            "brokerEpoch": 9,
            "endPoints": [],
            "features": [],
            "rack": None,
            "fenced": True,
            "logDirs": list(directories),
        }
        records.append(NewMetadataRecord("RegisterBrokerRecord", 3, data))
    data = {"brokerId": 1, "brokerEpoch": 9, "nextProducerId": next_producer_id}
    return [*records, NewMetadataRecord("ProducerIdsRecord", 0, data)]


def write_files(folder: Path, files: Files) -> None:
    """Write them below a folder."""
    for name, content in files.items():
        path = folder / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
