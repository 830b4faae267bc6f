"""The files in the root of a log directory, and what concerns several partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from kafkalog.errors import KafkaLogError
from kafkalog.format import checkpoint, names
from kafkalog.log.partition import Partition
from kafkalog.storage.store import SMALL_FILE, Store

from .finding import Finding, Place, finding_of, first_of_kind, make_finding

Offsets = Mapping[tuple[str, int], int]

ROOT_FILES: dict[str, Callable[[bytes], Any]] = {
    **dict.fromkeys(names.OFFSET_CHECKPOINTS, checkpoint.decode_offset_checkpoint),
    names.META_PROPERTIES: checkpoint.decode_meta_properties,
    names.CLEAN_SHUTDOWN: checkpoint.decode_clean_shutdown,
}


@dataclass
class LogDirectory:
    """The root of a log directory: offsets of partitions by checkpoint, and whether the broker shut down cleanly."""

    folder: str = ""
    offsets: dict[str, Offsets] = field(default_factory=dict)
    ended_well: bool = False
    findings: list[Finding] = field(default_factory=list)

    def offset(self, name: str, partition: Partition) -> int | None:
        """The offset of a partition in the checkpoint of that name."""
        return self.offsets.get(name, {}).get((partition.topic, partition.partition))


def read_log_directory(store: Store, folder: str) -> LogDirectory:
    """Read the root of a log directory; a missing file is not a finding, since a copy may lack it."""
    directory = LogDirectory(folder)
    for name, decode in ROOT_FILES.items():
        content = read_text_file(store, store.join(folder, name), decode, None, directory.findings)
        if content is not None and name in names.OFFSET_CHECKPOINTS:
            directory.offsets[name] = {(line.topic, line.partition): line.offset for line in content}
        elif content is not None and name == names.CLEAN_SHUTDOWN:
            directory.ended_well = True
    return directory


def read_text_file(
    store: Store, path: str, decode: Callable[[bytes], Any], partition: Partition | None, findings: list[Finding]
) -> Any:
    """The decoded file; None if it is missing, or, with a finding, if it cannot be read."""
    size = 0
    try:
        entry = store.stat(path)
        if entry is None or entry.kind != "file":
            return None
        size = entry.size
        return decode(store.read_small(path, SMALL_FILE))
    except KafkaLogError as error:
        finding = finding_of(error, path, partition)
        if finding.position is None:  # a text file: wrong as a whole
            finding = replace(finding, position=0, length=size)
        findings.append(finding)
        return None


def root_of(partition: Partition) -> str | None:
    """The log directory of a partition's folder; None for one that is not named as a broker names it."""
    named = partition.file is None and names.parse_folder_name(partition.store.name(partition.folder)) is not None
    return partition.store.parent(partition.folder) if named else None


def check_log_directory(store: Store, directory: LogDirectory, partitions: Sequence[Partition]) -> Iterator[Finding]:
    """Findings about the directory as a whole; `partitions` are all that were found in it."""
    yield from directory.findings
    yield from _leftovers(store, directory.folder)
    live = {(found.topic, found.partition) for found in partitions if not found.state}
    for name, offsets in directory.offsets.items():
        yield from first_of_kind(_missing(store.join(directory.folder, name), offsets.keys() - live))
    yield from _topic_ids(partitions)


def _missing(file: str, partitions: Set[tuple[str, int]]) -> Iterator[Finding]:
    for topic, number in sorted(partitions):
        yield make_finding("partition-missing", file, expected=f"a folder {topic}-{number}", found="none")


def _leftovers(store: Store, folder: str) -> Iterator[Finding]:
    for entry in store.list(folder):
        path = store.join(folder, entry.name)
        parsed = names.parse_folder_name(entry.name) if entry.kind == "folder" else None
        stored = names.parse_file_name(entry.name) if entry.kind == "file" else None
        if parsed is not None and parsed.state:
            yield make_finding("leftover", path, found=f"a folder put aside: {parsed.state}")
        elif stored is not None and stored.suffix:
            yield make_finding("leftover", path, None, Place(0, entry.size), found=f".{stored.suffix}")
        elif entry.kind == "folder" and parsed is None and entry.name != names.REMOTE_LOG_INDEX_CACHE:
            yield make_finding("foreign-folder", path, expected="<topic>-<partition>", found=entry.name)


def _topic_ids(partitions: Sequence[Partition]) -> Iterator[Finding]:
    first: dict[str, tuple[str, Partition]] = {}
    for partition in partitions:
        if partition.state:
            continue
        path = partition.store.join(partition.folder, names.PARTITION_METADATA)
        metadata = read_text_file(partition.store, path, checkpoint.decode_partition_metadata, partition, [])
        if metadata is None:
            continue
        topic_id, other = first.setdefault(partition.topic, (metadata.topic_id, partition))
        if topic_id != metadata.topic_id:
            expected = f"{topic_id}, as in {other}"
            yield make_finding("topic-id", path, partition, Place(0), expected=expected, found=metadata.topic_id)
