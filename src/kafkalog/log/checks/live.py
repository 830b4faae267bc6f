"""A broker at work: what it explains is no finding.

Files are read one after the other, and meanwhile a broker appends, rolls, cleans and deletes segments. So an index entry can be
of a segment that has been replaced, a checkpoint of offsets that were not there when the folder was listed, an abort marker in a
log whose .txnindex was read before the entry was written. Where something is wrong with a partition whose files have changed
since they were listed, it is looked at again, from a new listing, and only what is found again is reported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from kafkalog.errors import KafkaLogError
from kafkalog.log.folders import find_partitions
from kafkalog.log.partition import Partition

from .finding import Finding

LOOKS = 4
# A broker writes the entries that belong to a batch right after it, but may have to wait for the disk.
PAUSES_SECONDS = (0.1, 0.3, 1.0, 1.0)
assert len(PAUSES_SECONDS) == LOOKS


def look_again(partition: Partition, found: list[Finding], look: Callable[[Partition], list[Finding]]) -> Iterator[Finding]:
    """Of the findings of one partition those that a broker at work does not explain; `look` checks a new listing of it."""
    for pause in PAUSES_SECONDS:
        fresh = _listed(partition) if found else partition
        if fresh is None:  # deleted, with its topic
            return
        if not found or _files(fresh) == _files(partition):
            break
        time.sleep(pause)
        partition = _listed(fresh) or fresh
        again = set(look(partition))
        found = [finding for finding in found if finding in again]
    yield from found


def _files(partition: Partition) -> frozenset[tuple[str, int, int]]:
    return frozenset((stored.path, stored.size, stored.mtime_ns) for stored in partition.files)


def _listed(partition: Partition) -> Partition | None:
    """The partition as its files are now; None if it is gone. One that cannot be listed stays as it was found."""
    if partition.file is not None and not partition.files:  # a KRaft snapshot, which is written once
        return partition
    place = partition.file or partition.folder
    try:
        if partition.store.stat(place) is None:
            return None
        (fresh,) = find_partitions(partition.store, place)
    except (KafkaLogError, ValueError):
        return partition
    return fresh
