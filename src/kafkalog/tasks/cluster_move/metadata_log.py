"""The metadata log of a stopped cluster, on the disks of its voters: whether the copies agree, and new records for all of them.

A quorum that starts elects a voter whose log has the highest epoch at its end, and then the highest offset, among a majority;
what others have beyond or instead of that is cut off. So the records go to the end of the newest copy, in an epoch that no voter
has seen yet, as if a leader had been elected once more; and every voter gets the same bytes, after what its copy lacks of the
newest one, as it would fetch it. Then it does not matter who wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kafkalog.clusters.metadata import ClusterRead, read_image
from kafkalog.clusters.places import read_quorum_state
from kafkalog.engine.config import LogConfig
from kafkalog.errors import KafkaLogError, Limits, StorageError, UsageError
from kafkalog.format.entry_table import Ints
from kafkalog.format.java import MAX_INT64
from kafkalog.format.reference import Record, encode_batch
from kafkalog.log.partition import Partition
from kafkalog.log.segments import iter_headers
from kafkalog.payloads.cluster_image import METADATA_VERSION, ClusterImage
from kafkalog.payloads.message_writing import encode_cluster_metadata
from kafkalog.payloads.metadata_snapshot import NewMetadataRecord
from kafkalog.storage.fs import Fs

from ..broker_start import load_partition
from ..cluster_rebuild.disks import Disk
from ..locking import like_its_log
from ..opening import LogOpening
from ..verdict import EMPTIED, REFUSED, UNKNOWN

MAX_BATCH_BYTES = 4 << 20  # KRaft takes batches of up to 8 MiB, and the records of one move must not be taken apart
NOT_ROLLED = LogConfig.of({"segment.ms": str(MAX_INT64)})  # a controller begins a segment when it is time to
SETTLE = "start the cluster, wait until all controllers have caught up, stop it, and try again"


@dataclass(frozen=True)
class Voter:
    """A voter's copy of the metadata log, with its entries: (base offset, last offset, leader epoch, checksum) each."""

    disk: Disk
    partition: Partition
    entries: Ints
    end_offset: int
    highest_epoch: int  # of its log, and of the elections that it took part in

    def __repr__(self) -> str:
        return f"Voter({self.disk.node_id}, end offset {self.end_offset}, {self.partition.folder!r})"

    @property
    def rank(self) -> tuple[int, int]:
        """The one that is elected has the highest."""
        return (int(self.entries[-1, 2]) if len(self.entries) else -1), self.end_offset

    @property
    def start_offset(self) -> int:
        return int(self.entries[0, 0]) if len(self.entries) else self.end_offset


@dataclass(frozen=True)
class MetadataLog:
    """The copies of all voters, the newest first, and the state that they are in."""

    voters: tuple[Voter, ...]
    image: ClusterImage

    @property
    def newest(self) -> Voter:
        return self.voters[0]

    @property
    def next_epoch(self) -> int:
        """An epoch that no voter has seen."""
        return max(voter.highest_epoch for voter in self.voters) + 1

    def lacks(self, topic_ids: Sequence[str]) -> list[Voter]:
        """The voters whose copies do not know all of these topics."""
        return [
            voter for voter in self.voters if any(each not in read_image([voter.partition]).image.topics for each in topic_ids)
        ]


def read_metadata_log(disks: Sequence[Disk], fs: Fs) -> MetadataLog:
    """The metadata of a stopped cluster, which is intact and the same for all voters; UsageError with what to do, otherwise."""
    copies = [disk for disk in disks if disk.metadata is not None and disk.metadata.segments]
    if not copies:
        where = "it is in the first of log.dirs, or in metadata.log.dir, of each controller"
        raise UsageError(f"none of the folders after --into has __cluster_metadata-0 ({where}); give those of all controllers")
    of_voters = _of_voters(copies, _read_whole(copies).image)
    read = _read_whole(of_voters)  # a broker that only follows may have what was never decided
    voters = sorted((_voter(disk, fs) for disk in of_voters), key=lambda each: each.rank, reverse=True)
    for voter in voters[1:]:
        _require_same(voters[0], voter)
    return MetadataLog(tuple(voters), read.image)


def _read_whole(disks: Sequence[Disk]) -> ClusterRead:
    """The state of the cluster; UsageError unless all of it is known."""
    try:
        read = read_image([disk.metadata for disk in disks if disk.metadata is not None], strict=True)
    except KafkaLogError as error:
        raise UsageError(f"the metadata of the cluster cannot be read whole: {error}; {SETTLE}") from error
    image = read.image
    if read.problems or not read.is_complete:
        problem = read.problems[0] if read.problems else "it ends early"
        raise UsageError(f"a copy of the metadata of the cluster is damaged: {problem}; {SETTLE}")
    if image.unknown:
        kinds = ", ".join(sorted(image.unknown))
        raise UsageError(f"the metadata of the cluster has records of a later release ({kinds}): this version must not add to it")
    if image.in_transaction:
        raise UsageError(f"the metadata of the cluster ends in a transaction that is open; {SETTLE}")
    if METADATA_VERSION not in image.features:
        raise UsageError("the metadata of the cluster has no metadata.version: it never ran with KRaft of 3.3 or later")
    return read


def _of_voters(copies: Sequence[Disk], image: ClusterImage) -> list[Disk]:
    """The disks with the copies of the voters; UsageError if one is missing. Copies of brokers are left alone: they follow."""
    voters = {number: voter.directory_id for number, voter in image.voters.items()}
    if not voters:
        states = (read_quorum_state(disk.metadata) for disk in copies if disk.metadata is not None)
        voters = {number: None for state in states if state is not None for number in state.current_voters}
    if not voters:
        raise UsageError(f"the metadata of the cluster does not say who its controllers are; {SETTLE}")
    found = []
    for number, directory_id in sorted(voters.items()):
        its = [disk for disk in copies if disk.meta.node_id == number and directory_id in (None, disk.meta.directory_id)]
        if not its:
            where = "the folder with its __cluster_metadata-0"
            raise UsageError(
                f"controller {number} of the cluster: no copy of its metadata log was given, and all controllers need the new "
                f"records: those without might outvote the others; add {where} after --into"
            )
        if len(its) > 1:
            raise UsageError(f"two copies of the metadata log of controller {number}: {its[0].path}, {its[1].path}; give one")
        found += its
    return found


def _voter(disk: Disk, fs: Fs) -> Voter:
    """A voter's copy; UsageError if a controller could not load all of it."""
    partition = disk.metadata
    assert partition is not None
    loaded = load_partition(fs, partition, ())
    if loaded.outcome in (REFUSED, UNKNOWN, EMPTIED) or loaded.loss is not None:
        what = loaded.detail or "a controller would cut it"
        raise UsageError(f"{partition.folder}: damaged ({what}); move it away, and {SETTLE}: the others give it a new one")
    tables = [
        np.stack([entries.base_offset, entries.last_offset, entries.leader_epoch, entries.crc], axis=1)
        for _, entries in iter_headers(partition, Limits())
    ]
    entries = np.concatenate(tables) if tables else np.empty((0, 4), np.int64)
    if loaded.end_offset is not None:
        entries = entries[entries[:, 1] < loaded.end_offset]
    state = read_quorum_state(partition)
    seen = -1 if state is None else state.leader_epoch
    end = int(entries[-1, 1]) + 1 if len(entries) else partition.start_offset
    return Voter(disk, partition, entries, end, max(seen, int(entries[:, 2].max()) if len(entries) else -1))


def _require_same(newest: Voter, other: Voter) -> None:
    """UsageError unless a copy is the newest one, or its beginning."""
    if other.end_offset < newest.start_offset:
        raise UsageError(
            f"{other.partition.folder} ends at offset {other.end_offset}, before {newest.partition.folder} begins; {SETTLE}"
        )
    start = max(newest.start_offset, other.start_offset)
    ours, theirs = (
        each.entries[(each.entries[:, 0] >= start) & (each.entries[:, 1] < other.end_offset)] for each in (newest, other)
    )
    if ours.shape == theirs.shape and np.array_equal(ours, theirs) and (not len(ours) or ours[-1, 1] == other.end_offset - 1):
        return
    same = min(len(ours), len(theirs))
    differing = np.flatnonzero((ours[:same] != theirs[:same]).any(axis=1))
    at = int(theirs[differing[0], 0]) if len(differing) else int(other.end_offset)
    both = f"{other.partition.folder} and {newest.partition.folder}"
    raise UsageError(f"{both} differ from offset {at} on, so it is not known what the controllers have agreed on; {SETTLE}")


def encode_records(records: Sequence[NewMetadataRecord], offset: int, epoch: int, timestamp_ms: int) -> bytes:
    """One batch of these records, which a controller takes whole or not at all."""
    values = [encode_cluster_metadata(each.name, each.version, each.data) for each in records]
    stored = [Record(offset + number, timestamp_ms, None, value) for number, value in enumerate(values)]
    batch = encode_batch(stored, leader_epoch=epoch)
    if len(batch) > MAX_BATCH_BYTES:
        raise UsageError(f"{len(records)} records of metadata are too many for one step; move fewer topics at once")
    return batch


def append_everywhere(log: MetadataLog, batch: bytes, epoch: int, fs: Fs, now_ms: int) -> None:
    """Append what it lacks and then the batch (which may be empty) to the copy of each voter, the newest last.

    After a kill the newest copy is either as it was, or one that has it all.
    """
    for voter in reversed(log.voters):
        missing = b"".join(_after(log.newest, voter.end_offset))
        if missing or batch:
            _append(voter, missing + batch, epoch, fs, now_ms)


def _after(newest: Voter, offset: int) -> Iterator[bytes]:
    """The entries of a copy from an offset on."""
    for source, entries in iter_headers(newest.partition, Limits()):
        for entry in entries:
            if offset <= entry.base_offset and entry.last_offset < newest.end_offset:
                yield bytes(source.read(entry.position, entry.size))


def _append(voter: Voter, content: bytes, epoch: int, fs: Fs, now_ms: int) -> None:
    """Recover the copy as KRaft does at every start, append, and make it durable."""
    partition = voter.partition
    opening = LogOpening(partition.topic, partition.partition, NOT_ROLLED, now_ms)
    try:
        with fs.lock(partition.folder), opening.opened(like_its_log(fs, partition.folder), partition.folder) as log:
            if log.log_end_offset != voter.end_offset:
                what = f"ends at offset {log.log_end_offset}, no longer at {voter.end_offset}"
                raise StorageError(f"{partition.folder}: {what}: a broker was running; try again", file=partition.folder)
            log.append_as_follower(content, epoch)
            log.flush()
    except BlockingIOError as error:
        raise StorageError(f"{partition.folder}: another kafkalog is writing here; wait for it") from error
