"""The log directories that are given: whose they are, which partitions they hold, and what was put aside on them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from kafkalog.clusters.places import log_directories
from kafkalog.errors import KafkaLogError, NoLogs, StorageError, UsageError
from kafkalog.format import names
from kafkalog.format.checkpoint import MetaProperties, PartitionOffset, decode_meta_properties, decode_offset_checkpoint
from kafkalog.log.folders import find_partitions
from kafkalog.log.partition import Partition, shown
from kafkalog.storage import local_path, open_store
from kafkalog.storage.lock import is_broker_running
from kafkalog.storage.store import SMALL_FILE, Store

from ..partitions import PathLike

METADATA_TOPIC = "__cluster_metadata"
LIVE, STRAY = "", "stray"


@dataclass(frozen=True)
class Disk:
    """A log directory. `partitions` are the live and the stray ones; `aside` those being deleted or moved here."""

    store: Store
    path: str
    meta: MetaProperties
    partitions: tuple[Partition, ...] = ()
    aside: tuple[Partition, ...] = ()
    metadata: Partition | None = None

    def __repr__(self) -> str:
        return f"Disk({shown(self.path)}, node {self.meta.node_id}, {len(self.partitions)} partitions)"

    @property
    def node_id(self) -> int:
        """The number of its node; only for disks that were checked to have one."""
        assert self.meta.node_id is not None
        return self.meta.node_id

    def read(self, name: str) -> bytes | None:
        """A small file of its root; None if it is not there."""
        path = self.store.join(self.path, name)
        entry = self.store.stat(path)
        return self.store.read_small(path, SMALL_FILE) if entry is not None and entry.kind == "file" else None

    @cached_property
    def offsets(self) -> dict[str, dict[tuple[str, int], PartitionOffset]]:
        """The entries of each offset checkpoint, by topic and number; none if it is missing or cannot be read."""
        return {name: self._entries(name) for name in names.OFFSET_CHECKPOINTS}

    @cached_property
    def live(self) -> frozenset[tuple[str, int]]:
        """The partitions that have a folder of their own name."""
        return frozenset((each.topic, each.partition) for each in self.partitions if each.state == LIVE)

    def _entries(self, name: str) -> dict[tuple[str, int], PartitionOffset]:
        try:
            found = decode_offset_checkpoint(self.read(name) or b"")
        except KafkaLogError:
            return {}
        return {(entry.topic, entry.partition): entry for entry in found}

    @property
    def was_shut_down(self) -> bool:
        """Whether its broker was stopped cleanly."""
        return self.store.stat(self.store.join(self.path, names.CLEAN_SHUTDOWN)) is not None


def read_disks(paths: Sequence[PathLike]) -> list[Disk]:
    """The log directories at the paths, or up to three folders below them; StorageError if a broker is running on one.

    UsageError if one is given twice.
    """
    found = [(store, place) for path in paths for store, place in _log_directories(path)]
    seen: dict[str, str] = {}
    for _, place in found:
        real = os.path.realpath(place)
        if real in seen:
            raise UsageError(f"{place}: the same log directory as {seen[real]}; give each disk once")
        seen[real] = place
        if is_broker_running(place):
            raise StorageError(f"{place}: a broker is running on this log directory; stop it first", file=place)
    return [read_disk(store, place) for store, place in found]


def _log_directories(path: PathLike) -> Iterator[tuple[Store, str]]:
    store, place = open_store(local_path(path))
    found = list(log_directories(store, place))
    if not found:
        what = "no log directory here or up to three folders below: no meta.properties and no topic-partition folders"
        raise NoLogs(f"{place}: {what}", file=place)
    yield from ((store, each) for each in found)


def read_disk(store: Store, path: str) -> Disk:
    """What a log directory holds."""
    bare = Disk(store, path, MetaProperties(1, None, None, None))
    content = bare.read(names.META_PROPERTIES)
    meta = bare.meta if content is None else _meta(path, content)
    try:
        found = find_partitions(store, path)
    except NoLogs:
        found = []
    data = [each for each in found if each.topic != METADATA_TOPIC]
    return Disk(
        store,
        path,
        meta,
        tuple(each for each in data if each.state in (LIVE, STRAY)),
        tuple(each for each in data if each.state not in (LIVE, STRAY)),
        next((each for each in found if each.topic == METADATA_TOPIC and not each.state), None),
    )


def _meta(path: str, content: bytes) -> MetaProperties:
    try:
        return decode_meta_properties(content)
    except KafkaLogError as error:
        file = os.path.join(path, names.META_PROPERTIES)
        raise UsageError(f"{file}: cannot be read ({error}); copy it from a backup, or write it: {META_HELP}") from error


META_HELP = "node.id, cluster.id, version=1, and directory.id if another disk of the broker has one"


def require_one_cluster(disks: Sequence[Disk], *, merged: bool) -> None:
    """UsageError unless the disks are of one cluster, each once, and each says of which node it is (unless they are merged)."""
    by_cluster = _grouped((each.meta.cluster_id, each.path) for each in disks if each.meta.cluster_id is not None)
    if len(by_cluster) > 1:
        listed = "; ".join(f"{cluster}: {', '.join(paths)}" for cluster, paths in by_cluster.items())
        raise UsageError(f"disks of {len(by_cluster)} clusters ({listed}); give those of one cluster")
    by_directory = _grouped((each.meta.directory_id, each.path) for each in disks if each.meta.directory_id is not None)
    for directory, paths in by_directory.items():
        if len(paths) > 1:
            raise UsageError(
                f"{' and '.join(paths)} are copies of one log directory (directory.id {directory}); give one of them"
            )
    nameless = [each.path for each in disks if each.meta.node_id is None]
    if nameless and not merged:
        what = f"{', '.join(nameless)}: no meta.properties with a node.id, so it is unknown whose disk it is"
        raise UsageError(f"{what}; write one ({META_HELP}), or put everything into one new node with --node")


def _grouped(pairs: Iterable[tuple[str | None, str]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for key, path in pairs:
        groups.setdefault(str(key), []).append(path)
    return groups
