"""The transaction index of a segment compared with the markers in it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kafkalog.errors import SegmentError
from kafkalog.format import batch, control, index
from kafkalog.format.entry_table import EntryTable

from ..partition import Partition, Segment
from ..producer_replay import decisive_rows
from ..transactions import Transaction, TransactionReplay
from .finding import Finding, Place, finding_of, make_finding

INVOLVED = batch.TRANSACTIONAL | batch.CONTROL


class AbortedTransactions:
    """The replayed transactions of a partition; those aborted in a segment must be in its `.txnindex`."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.first_offset = partition.segments[0].base_offset if partition.segments else 0
        self.replay = TransactionReplay()
        self.is_whole = True  # False after damage: markers may be lost there
        self.begin()

    def begin(self) -> None:
        """The following entries belong to the next segment."""
        self.aborted: dict[int, Transaction] = {}
        self.abort_markers: dict[int, int] = {}  # offset: producer id

    def add(self, table: EntryTable) -> None:
        involved = np.flatnonzero((table.attributes & INVOLVED != 0) & (table.magic == 2))
        if not len(involved):
            return
        self.replay.replay([table[decisive_rows(table, involved)]])
        self.aborted |= {done.marker_offset: done for done in self.replay.finished if done.state == "aborted"}
        self.replay.finished.clear()
        markers = np.flatnonzero((table.control_type == control.ABORT) & (table.magic == 2))
        offsets, producers = table.base_offset[markers].tolist(), table.producer_id[markers].tolist()
        self.abort_markers |= dict(zip(offsets, producers, strict=True))

    def finish(self, segment: Segment, content: bytes | None, *, compacted: bool) -> Iterator[Finding]:
        """Findings about the `.txnindex` of the segment; `content` is None if there is none."""
        stored = segment.siblings.get("txnindex")
        file = stored.path if stored is not None else segment.log.path.removesuffix("log") + "txnindex"
        if content is None and stored is not None:
            return  # could not be read, which has been reported
        try:
            entries = index.read_txn_index(content or b"")
        except SegmentError as error:
            yield finding_of(error, file, self.partition)
            return
        size = index.TXN_INDEX_ENTRY.itemsize
        rest = len(content or b"") % size
        if rest:
            yield self._mismatch(file, len(entries), f"entries of {size} bytes", f"{rest} bytes at the end")
        listed: set[int] = set()
        greatest = -1
        for row, (_, producer_id, first, last, last_stable) in enumerate(entries.tolist()):
            problem = self._problem(producer_id, first, last, last_stable, greatest, compacted)
            listed.add(last)
            greatest = max(greatest, last)
            if problem is not None:
                yield self._mismatch(file, row, *problem)
        for offset in sorted(self.aborted.keys() - listed) if self.is_whole else ():
            done = self.aborted[offset]
            wanted = f"the transaction of producer {done.producer_id}, offsets {done.first_offset} to {offset}, aborted"
            yield self._mismatch(file, len(entries), wanted, "no such entry")

    def _problem(
        self, producer_id: int, first: int, last: int, last_stable: int, greatest: int, compacted: bool
    ) -> tuple[str, str] | None:
        """(expected, found) if the entry cannot be right."""
        entry = f"producer {producer_id}, offsets {first} to {last}, last stable offset {last_stable}"
        if last <= greatest:
            return "entries in the order of their markers", entry
        if self.is_whole and self.abort_markers.get(last) != producer_id:
            return f"an abort marker of producer {producer_id} at offset {last}", entry
        if not 0 <= first <= last or not 0 <= last_stable <= last + 1:
            return "a first offset before the marker, a last stable offset up to the one after it", entry
        done = self.aborted.get(last)
        if done is None or compacted or not self.is_whole:
            return None
        # What began before the first remaining segment cannot be replayed.
        if first >= self.first_offset and first != done.first_offset:
            return f"first offset {done.first_offset}", entry
        if last_stable >= self.first_offset and last_stable != done.last_stable_offset:
            return f"last stable offset {done.last_stable_offset}", entry
        return None

    def _mismatch(self, file: str, row: int, expected: str, found: str) -> Finding:
        size = index.TXN_INDEX_ENTRY.itemsize
        return make_finding("index-mismatch", file, self.partition, Place(row * size, size), expected=expected, found=found)
