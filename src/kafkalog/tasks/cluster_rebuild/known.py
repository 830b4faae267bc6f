"""What is left of the cluster's metadata: on one of the disks, or in an older copy that the user has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kafkalog.clusters.metadata import ClusterRead, read_image
from kafkalog.errors import KafkaLogError, UsageError
from kafkalog.format import names
from kafkalog.format.quantities import plural
from kafkalog.log.folders import find_partitions
from kafkalog.log.partition import Partition
from kafkalog.payloads.cluster_image import TOPIC, ClusterImage
from kafkalog.storage import open_store

from ..partitions import PathLike
from .disks import METADATA_TOPIC, Disk
from .result import CHOSEN, KNOWN, LOST, Note


@dataclass(frozen=True)
class Known:
    """The newest state of the metadata that could be replayed, if any."""

    image: ClusterImage | None = None
    notes: list[Note] = field(default_factory=list)


def find_known(disks: Sequence[Disk], given: Sequence[PathLike]) -> Known:
    """The state that knows the most of the folders that are there; of equal ones one that was given, then the newest.

    Controllers whose disks were formatted again have a log too, a new one that knows nothing of the old topics.
    """
    on_disks = [disk.metadata for disk in disks if disk.metadata is not None and disk.metadata.files]
    named = [each for path in given for each in _copies_at(path)]
    groups = [[*on_disks, *named], *([each] for each in named), *([each] for each in on_disks), *_earlier_rebuilds(disks)]
    ids = Counter(partition.topic_id for disk in disks for partition in disk.partitions)
    best, most, problem = None, (-1, False, (-1, -1)), ""
    for copies in filter(None, groups):
        try:
            read = read_image(copies)
        except KafkaLogError as error:
            problem = problem or str(error)
            continue
        score = sum(ids[topic_id] for topic_id in read.image.topics), copies[0] in named, read.rank
        if score > most:
            best, most = read, score
    if best is None:
        lost = f"no copy of {METADATA_TOPIC} is left" if not problem else f"the metadata that is left cannot be used: {problem}"
        return Known(None, [Note(LOST, f"{lost}: everything below is from the folders of partitions themselves")])
    return _described(best)


def _described(read: ClusterRead) -> Known:
    """What a state knows, in a few words."""
    image = read.image
    resources = len([each for each in image.configs if each[0] != TOPIC])
    parts = [
        plural(len(image.topics), "topic"),
        f"settings of {plural(len(image.configs) - resources, 'topic')}",
        f"{resources} other settings",
        plural(len(image.acls), "ACL"),
        plural(len(image.credentials), "SCRAM credential"),
        plural(len(image.quotas), "quota"),
    ]
    source = read.log or read.snapshot
    notes = [Note(KNOWN, f"metadata up to offset {image.offset} in epoch {image.epoch} ({source}): {', '.join(parts)}")]
    notes += [Note(LOST, f"metadata: {problem}") for problem in read.problems]
    if not read.is_complete:
        notes.append(Note(LOST, "the metadata ends early, at damage: later changes are not known"))
    if image.unknown:
        kinds = ", ".join(f"{name} ({count})" for name, count in image.unknown.items())
        notes.append(Note(LOST, f"metadata records of a later release, left out: {kinds}"))
    if image.kraft_version or any(voter.directory_id for voter in image.voters.values()):
        text = "the quorum had dynamic voters; the new one has static ones: set controller.quorum.voters on every node"
        notes.append(Note(CHOSEN, text))
    return Known(image, notes)


def _earlier_rebuilds(disks: Sequence[Disk]) -> Iterator[list[Partition]]:
    """Each bootstrap.checkpoint with topics; that of a disk which was only formatted has none."""
    for disk in disks:
        try:
            found = find_partitions(disk.store, disk.store.join(disk.path, names.BOOTSTRAP_CHECKPOINT))
            if read_image(found).image.topics:
                yield found
        except KafkaLogError:
            continue


def _copies_at(path: PathLike) -> list[Partition]:
    """The copies of the metadata at a path: a log directory, its __cluster_metadata-0, or one file of that."""
    store, place = open_store(path)
    found = find_partitions(store, place)
    copies = [each for each in found if each.file is not None or (each.topic == METADATA_TOPIC and not each.state)]
    if not copies:
        raise UsageError(
            f"--metadata {place}: no {METADATA_TOPIC}-0 here; give a log directory that has it, or a .checkpoint file"
        )
    return copies
