"""Small clusters in the current folder, rebuilt, and what the new metadata says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kafkalog
from kafkalog.format.reference import decode_entries, decode_records
from kafkalog.payloads.internal_topics import MetadataRecord, decode_cluster_metadata
from kafkalog.tasks.cluster_rebuild import RebuildResult
from tests.builders.small_clusters import CopyFiles, disk_files, write_files
from tests.builders.small_logs import made_batch

LONGER = made_batch(0, leader_epoch=1) + made_batch(10, leader_epoch=2)
SHORTER = made_batch(0, leader_epoch=1)


def disk(path: str, node: int | None, partitions: dict[str, CopyFiles], **choices: Any) -> str:
    write_files(Path(), disk_files(path, node, partitions, **choices))
    return path


def rebuild(*disks: str, **choices: Any) -> RebuildResult:
    return kafkalog.cluster_rebuild(disks, "out", **choices)


def records_in(path: str | Path) -> list[MetadataRecord]:
    """The metadata of a snapshot, by our own decoder."""
    entries = [entry for entry in decode_entries(Path(path).read_bytes()) if not entry.is_control]
    return [decode_cluster_metadata(record.value or b"") for entry in entries for record in decode_records(entry)]


def written(kind: str, folder: str = "out/node-1/d1") -> list[dict[str, Any]]:
    return [record.data for record in records_in(f"{folder}/bootstrap.checkpoint") if record.name == kind]


def tree(folder: str | Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


def notes(result: RebuildResult, kind: str) -> str:
    return "\n".join(result.notes_of(kind))
