"""Which feature levels the new metadata begins with: they decide which releases can open it, and what clients may do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafkalog.errors import KafkaLogError, UsageError
from kafkalog.format import names
from kafkalog.format.reference import decode_entries, decode_records
from kafkalog.payloads.cluster_image import METADATA_VERSION, ClusterImage
from kafkalog.payloads.internal_topics import decode_cluster_metadata

from .coordinators import CoordinatorFacts
from .disks import Disk

ELIGIBLE_LEADERS = "eligible.leader.replicas.version"
KRAFT_VERSION = "kraft.version"
FEATURE_RECORD = "FEATURE_LEVEL_RECORD"

# The newest metadata.version of each release, and from which one on a release starts clusters with which level of a feature:
# MetadataVersion and Feature of Kafka 4.3.
RELEASES: Mapping[str, int] = {
    "3.3": 7, "3.4": 8, "3.5": 11, "3.6": 14, "3.7": 19, "3.8": 20, "3.9": 21, "4.0": 25, "4.1": 27, "4.2": 29, "4.3": 30,
}  # fmt: skip
DEFAULTS = (
    ("group.version", 22, 1),
    ("transaction.version", 24, 2),
    ("share.version", 28, 1),
    ("streams.version", 29, 1),
)
FIRST_WITH_DIRECTORIES = 17  # 3.7-IV2: PartitionRecord v1, which says in which log directory each replica is
OLDEST = min(RELEASES.values())


@dataclass(frozen=True)
class Levels:
    """Feature levels by name, and where they come from."""

    levels: Mapping[str, int]
    source: str

    @property
    def metadata_version(self) -> int:
        return self.levels[METADATA_VERSION]

    @property
    def has_directories(self) -> bool:
        return self.metadata_version >= FIRST_WITH_DIRECTORIES

    @property
    def release(self) -> str:
        """The release that first knew this metadata.version, such as "4.3"."""
        return next((name for name, level in RELEASES.items() if level >= self.metadata_version), "a later release")


def levels_of_release(release: str) -> Levels:
    """What a new cluster of this release has; UsageError for one that is not known."""
    name = ".".join(release.split(".")[:2])
    if name not in RELEASES:
        raise UsageError(f"--release {release}: known are {', '.join(RELEASES)}")
    version = RELEASES[name]
    levels = {METADATA_VERSION: version} | {feature: level for feature, first, level in DEFAULTS if version >= first}
    return Levels(levels, f"release {name}, as asked for")


def levels_of_image(image: ClusterImage | None) -> Levels | None:
    """The levels that the cluster had, as metadata that was found says."""
    if image is None or METADATA_VERSION not in image.features:
        return None
    return Levels(dict(image.features), "metadata that was found")


def levels_on_disks(disks: Iterable[Disk]) -> Levels | None:
    """What `bootstrap.checkpoint` says with which the disks were formatted; None if none has one."""
    found = [(levels, disk.path) for disk in disks if (levels := _bootstrap_levels(disk))]
    if not found:
        return None
    levels, path = max(found, key=lambda each: each[0][METADATA_VERSION])
    return Levels(levels, f"{names.BOOTSTRAP_CHECKPOINT} of {path}")


def _bootstrap_levels(disk: Disk) -> dict[str, int]:
    """The levels in the file, if there is one that can be read and says which metadata.version."""
    levels: dict[str, int] = {}
    try:
        for entry in decode_entries(disk.read(names.BOOTSTRAP_CHECKPOINT) or b""):
            if entry.is_control:
                continue
            for stored in decode_records(entry):
                record = decode_cluster_metadata(stored.value or b"")
                if record.name == FEATURE_RECORD:
                    levels[record.data["name"]] = record.data["featureLevel"]
    except KafkaLogError:
        return {}
    return levels if METADATA_VERSION in levels else {}


def settle(known: Levels, facts: CoordinatorFacts) -> tuple[Levels, list[str]]:
    """(the levels to write, what was changed and why): raised to what the data needs, without what would leave no leader."""
    levels, notes = dict(known.levels), []
    if levels.pop(ELIGIBLE_LEADERS, 0):
        why = "with it no partition would get a leader, since every broker registers for the first time"
        notes.append(f"{ELIGIBLE_LEADERS} is left out: {why}; raise it again once the cluster runs (kafka-features.sh upgrade)")
    levels.pop(KRAFT_VERSION, None)  # kept in control records of the quorum, not here
    if facts.has_new_groups and levels[METADATA_VERSION] >= DEFAULTS[0][1] and levels.get("group.version", 0) < 1:
        levels["group.version"] = 1
        notes.append("group.version 1: there are groups of the new protocol")
    return Levels(levels, known.source), notes
