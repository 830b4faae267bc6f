"""The log directories of a cluster: found below the given folders, and checked to belong to one cluster."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog.errors import KafkaLogError, NoLogs, UsageError
from kafkalog.format.checkpoint import MetaProperties, QuorumState, decode_meta_properties, decode_quorum_state
from kafkalog.format.names import META_PROPERTIES, QUORUM_STATE, parse_folder_name
from kafkalog.log.folders import find_partitions
from kafkalog.log.partition import Partition
from kafkalog.storage import open_store
from kafkalog.storage.store import SMALL_FILE, Store

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

Path = str | os.PathLike[str]
# A folder of clusters, of brokers, of their log directories; such as backup/node-1/data below backup.
DEPTH = 3


@dataclass(frozen=True)
class LogDirectory:
    """A log directory: what its meta.properties say (None if they cannot be read), and its partitions."""

    path: str
    properties: MetaProperties | None
    partitions: tuple[Partition, ...]


@dataclass(frozen=True)
class Disks:
    """The log directories of one cluster. `places` are the paths as they were given."""

    places: tuple[str, ...]
    directories: tuple[LogDirectory, ...]

    @property
    def partitions(self) -> list[Partition]:
        return [partition for directory in self.directories for partition in directory.partitions]

    @property
    def cluster_id(self) -> str | None:
        return cluster_id_of(self.directories)

    @property
    def node_ids(self) -> list[int]:
        """The nodes whose disks these are."""
        found = {each.properties.node_id for each in self.directories if each.properties}
        return sorted(node_id for node_id in found if node_id is not None)


def find_disks(places: Path | Sequence[Path], *, filesystem: FileSystem | None = None) -> Disks:
    """The log directories at these places, or up to three levels below them; UsageError if they are of several clusters.

    A place may also be a partition folder or a file. NoLogs if there is no log at or below one of them.
    """
    given = [places] if isinstance(places, str | os.PathLike) else list(places)
    if not given:
        raise UsageError("give at least one path")
    found: dict[str, LogDirectory] = {}
    for each in given:
        store, place = open_store(each, filesystem=filesystem)
        for directory in _below(store, place):
            found.setdefault(directory.path, directory)
    directories = tuple(found.values())
    cluster_id_of(directories)
    return Disks(tuple(map(os.fsdecode, given)), directories)


def _below(store: Store, place: str) -> list[LogDirectory]:
    try:
        return [_directory(store, place, find_partitions(store, place))]
    except NoLogs:
        found = [_listed(store, path) for path in log_directories(store, place)]
        if not found:
            raise
        return found


def log_directories(store: Store, folder: str, depth: int = DEPTH) -> Iterator[str]:
    """The log directories at a folder or below it: with a meta.properties or a partition's folder. Hidden ones do not count.

    A log directory is not searched any further.
    """
    entries = store.list(folder)
    if any(_is_of_log_directory(entry.name, entry.kind) for entry in entries):
        yield folder
        return
    for entry in entries if depth else ():
        if entry.kind == "folder" and not entry.name.startswith("."):
            yield from log_directories(store, store.join(folder, entry.name), depth - 1)


def _is_of_log_directory(name: str, kind: str) -> bool:
    return name == META_PROPERTIES if kind == "file" else kind == "folder" and parse_folder_name(name) is not None


def _listed(store: Store, path: str) -> LogDirectory:
    """A log directory; it may have no partition yet."""
    try:
        return _directory(store, path, find_partitions(store, path))
    except NoLogs:
        return LogDirectory(path, read_properties(store, path), ())


def _directory(store: Store, place: str, partitions: list[Partition]) -> LogDirectory:
    """`place` is a log directory, or a partition folder or a file: then nothing else of its log directory is read."""
    path = place if all(found.folder != place and found.file is None for found in partitions) else partitions[0].folder
    home = path if path == place and partitions[0].folder != place else store.parent(partitions[0].folder)
    return LogDirectory(path, read_properties(store, home), tuple(partitions))


def directories_of(partitions: Iterable[Partition]) -> list[LogDirectory]:
    """The log directories that these partitions are in."""
    found: dict[str, list[Partition]] = {}
    for partition in partitions:
        found.setdefault(partition.store.parent(partition.folder), []).append(partition)
    return [LogDirectory(path, read_properties(each[0].store, path), tuple(each)) for path, each in found.items()]


def cluster_id_of(directories: Iterable[LogDirectory]) -> str | None:
    """The cluster's id; UsageError if the directories name several, None if they name none."""
    known = [(each.properties.cluster_id, each.path) for each in directories if each.properties and each.properties.cluster_id]
    for other, path in known[1:]:
        first, first_path = known[0]
        if other != first:
            raise UsageError(
                f"disks of two clusters: {first_path} belongs to cluster {first}, {path} to cluster {other}; "
                "give those of one cluster"
            )
    return known[0][0] if known else None


def read_properties(store: Store, log_directory: str) -> MetaProperties | None:
    """What meta.properties of a log directory say; None if it is missing or cannot be read."""
    try:
        path = store.join(log_directory, META_PROPERTIES)
        entry = store.stat(path)
        if entry is None or entry.kind != "file":
            return None
        return decode_meta_properties(store.read_small(path, SMALL_FILE))
    except KafkaLogError:
        return None


def read_quorum_state(partition: Partition) -> QuorumState | None:
    """The quorum-state next to a copy of the metadata log; None if it is missing or cannot be read."""
    found = [stored for stored in partition.files if stored.kind == QUORUM_STATE and not stored.suffix]
    try:
        return decode_quorum_state(partition.store.read_small(found[0].path, SMALL_FILE)) if found else None
    except KafkaLogError:
        return None
