"""The stopped cluster that topics are moved into: its metadata, and the log directories in which its brokers keep partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kafkalog.errors import KafkaLogError, UsageError
from kafkalog.format import names
from kafkalog.format.checkpoint import decode_clean_shutdown
from kafkalog.payloads.cluster_image import METADATA_VERSION, ClusterImage
from kafkalog.storage.fs import Fs

from ..cluster_rebuild.disks import Disk, require_one_cluster
from ..cluster_rebuild.features import ELIGIBLE_LEADERS, FIRST_WITH_DIRECTORIES
from .metadata_log import MetadataLog, read_metadata_log

NO_EPOCH = -1


@dataclass(frozen=True)
class Target:
    """A cluster; `places` are the log directories of each broker that may get partitions, in a fixed order."""

    disks: tuple[Disk, ...]
    log: MetadataLog
    places: Mapping[int, tuple[Disk, ...]]

    def __repr__(self) -> str:
        return f"Target({self.cluster_id}, {len(self.disks)} disks, brokers {', '.join(map(str, self.places))})"

    @property
    def image(self) -> ClusterImage:
        return self.log.image

    @property
    def cluster_id(self) -> str:
        return str(self.disks[0].meta.cluster_id)

    @property
    def has_directories(self) -> bool:
        """Whether the metadata say in which log directory each replica is."""
        return self.image.features[METADATA_VERSION] >= FIRST_WITH_DIRECTORIES

    @property
    def newest_metadata_version(self) -> int:
        """The newest that its brokers know."""
        levels = [self.image.features[METADATA_VERSION]]
        for broker in self.image.brokers.values():
            levels += broker.supported_features.get(METADATA_VERSION, ())
        return max(levels)

    def place(self, node: int, turn: int) -> Disk:
        """A log directory of a broker: another one each turn, the same in every run."""
        return self.places[node][turn % len(self.places[node])]


def read_target(disks: Sequence[Disk], sources: Sequence[Disk], fs: Fs) -> Target:
    """The cluster whose disks these are; UsageError if nothing can be moved into it as it is."""
    require_one_cluster(disks, merged=False)
    if all(disk.meta.cluster_id is None for disk in disks):
        raise UsageError("no folder after --into has a meta.properties with a cluster.id: it is not that of a cluster")
    given = {disk.path for disk in sources}
    for disk in disks:
        if disk.path in given:
            raise UsageError(f"{disk.path}: given as a source and after --into")
    log = read_metadata_log(disks, fs)
    places = {node: tuple(found) for node, found in _places(disks, log.image)}
    if not places:
        known = ", ".join(map(str, sorted(log.image.brokers))) or "none"
        why = f"no folder after --into is a log directory of a broker that the cluster knows ({known})"
        raise UsageError(f"{why}; give those that the topics are to be moved to")
    if log.image.features.get(ELIGIBLE_LEADERS, 0):
        _require_clean(disks, log.image, places)
    return Target(tuple(disks), log, places)


def _places(disks: Iterable[Disk], image: ClusterImage) -> Iterator[tuple[int, list[Disk]]]:
    """The log directories of each broker that is registered, and not one that holds the metadata alone."""
    by_node: dict[int, list[Disk]] = {}
    for disk in sorted(disks, key=lambda each: each.path):
        broker = image.brokers.get(disk.node_id)
        if broker is not None and (not broker.log_dirs or disk.meta.directory_id in broker.log_dirs):
            by_node.setdefault(disk.node_id, []).append(disk)
    for node, found in sorted(by_node.items()):
        # Before directory ids nothing says that a folder is metadata.log.dir only, except that it never got a partition.
        with_data = [disk for disk in found if disk.partitions or disk.metadata is None]
        yield node, found if image.brokers[node].log_dirs or not with_data else with_data


def _require_clean(disks: Iterable[Disk], image: ClusterImage, places: Mapping[int, object]) -> None:
    """With eligible leader replicas a broker that comes back from a crash loses its place in every isr."""
    for disk in disks:
        if disk.node_id in places and _shutdown_epoch(disk) != image.brokers[disk.node_id].broker_epoch:
            why = "a partition whose only replica is on a broker that was not stopped cleanly would get no leader"
            what = f"{disk.path}: broker {disk.node_id} was not stopped cleanly, and the cluster has {ELIGIBLE_LEADERS}"
            raise UsageError(f"{what}: {why}; start the cluster, stop it, and try again")


def _shutdown_epoch(disk: Disk) -> int:
    """The epoch in which a broker was stopped cleanly."""
    content = disk.read(names.CLEAN_SHUTDOWN)
    try:
        return NO_EPOCH if content is None else decode_clean_shutdown(content).broker_epoch
    except KafkaLogError:
        return NO_EPOCH
