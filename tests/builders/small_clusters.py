"""Small disks of clusters without metadata: log directories with a few batches, as files by their path."""

from __future__ import annotations

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
from kafkalog.format.snapshot import PRODUCERS, encode_snapshot
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


def write_files(folder: Path, files: Files) -> None:
    """Write them below a folder."""
    for name, content in files.items():
        path = folder / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
