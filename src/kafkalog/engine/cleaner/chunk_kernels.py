"""Map and filter chunks by kernels: thousands of v2 batches without an object for each.

What the kernels do not handle takes the plain path (`offset_map`, `rewriting`), one entry at a time. Both give the same bytes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kafkalog.errors import KafkaLogError
from kafkalog.format import batch
from kafkalog.format.entry_table import EntryTable
from kafkalog.kernels import compact_select as kernel
from kafkalog.kernels import compact_write, layout
from kafkalog.kernels.bytes import Ints

from ..entries import Entry
from .kept_records import DELETE, RETAIN_EMPTY, Decision, Retention, is_discardable
from .offset_map import OffsetMapping
from .rewriting import Filtered, filter_entry
from .workspace import TABLE_ENTRIES, Walk, Workspace


def map_chunk(workspace: Workspace, mapping: OffsetMapping, chunk: bytes, position: int) -> int:
    """Like `OffsetMapping.add_chunk`, by kernels; `position` is that of the chunk in its file."""
    walk = Walk(workspace, chunk, position)
    workspace.begin()
    workspace.rules[kernel.START_OFFSET] = mapping.start_offset
    workspace.rules[kernel.MAX_SIZE] = mapping.max_size
    has_more = True
    while has_more and not mapping.is_full:
        has_more = walk.next_window()
        _map_window(walk, mapping)
        if has_more and walk.count < TABLE_ENTRIES and not mapping.is_full:
            odd = walk.find_odd_entry()
            if odd is None:
                break
            mapping.add_entry(odd)
    mapping.stats.map_messages_read += int(workspace.totals[compact_write.MESSAGES_READ])
    return walk.at


def _map_window(walk: Walk, mapping: OffsetMapping) -> None:
    workspace, offsets = walk.workspace, mapping.offsets
    decisions, discarded = _decide_for_map(walk, mapping)
    row, ready = 0, kernel.NOT_READY
    while row < walk.count:
        status, row = kernel.map_batches(
            walk.data,
            workspace.entries.fields,
            decisions,
            row,
            walk.position,
            ready,
            workspace.rules,
            offsets.table,
            offsets.counts,
            offsets.secret,
            workspace.buffers,
            workspace.tools,
            workspace.totals,
        )
        if status == kernel.FULL:
            mapping.is_full = True
            return
        ready = walk.help(row, status)
        if status == compact_write.LEFT or (status == kernel.DECOMPRESS and ready == kernel.NOT_READY):
            if isinstance(problem := discarded.get(row), KafkaLogError):
                raise problem
            mapping.add_decided(walk.entry(row), is_aborted=bool(problem))
            if mapping.is_full:
                return
            row += 1


def _decide_for_map(walk: Walk, mapping: OffsetMapping) -> tuple[Ints, dict[int, bool | KafkaLogError]]:
    """What the kernel does with each entry, and whether the transactions discard an entry that takes the plain path."""
    entries = walk.entries
    decisions: Ints = np.full(walk.count, kernel.MAP_RECORDS, np.int64)
    decisions[entries.magic < batch.MAX_MAGIC] = kernel.BY_PLAIN_PATH
    discarded: dict[int, bool | KafkaLogError] = {}
    for row in np.flatnonzero(_is_of_transaction(entries)).tolist():
        entry = walk.entry(row)
        try:
            discarded[row] = is_discardable(entry, mapping.transactions)
        except KafkaLogError as error:
            discarded[row] = error
            decisions[row] = kernel.BY_PLAIN_PATH
            break
        if entry.is_control_batch:
            decisions[row] = kernel.COUNT_ONE
        elif discarded[row]:
            decisions[row] = kernel.COUNT_RECORDS
    return decisions, discarded


def _is_of_transaction(entries: EntryTable) -> NDArray[np.bool_]:
    """Which entries change the state of transactions."""
    marked = entries.attributes & (batch.TRANSACTIONAL | batch.CONTROL) != 0
    return marked & (entries.magic == batch.MAX_MAGIC)  # type: ignore[no-any-return]


class BulkFilter:
    """Filters the chunks of a segment like `rewriting.filter_chunk`, by kernels."""

    def __init__(self, workspace: Workspace, retention: Retention) -> None:
        self.workspace = workspace
        self.retention = retention
        # Decisions advance the state of transactions, so each is made once, even if its chunk ends before its entry.
        self._decided: dict[int, Decision | KafkaLogError] = {}
        kept = [last.data_offset for last in retention.last_records.values() if last.data_offset is not None]
        self._last_offsets: Ints = np.array(kept, np.int64)

    def filter_chunk(self, chunk: bytes, position: int, room: int) -> Filtered:
        """The kept entries of the chunk at `position` of the segment, up to the one that makes them exceed `room` bytes."""
        workspace = self.workspace
        workspace.begin()
        self._decided = {place: decision for place, decision in self._decided.items() if place >= position}
        workspace.rules[[kernel.NOW, kernel.NEW_HORIZON, kernel.ROOM]] = (
            self.retention.now_ms,
            self.retention.new_horizon_ms,
            room,
        )
        walk = Walk(workspace, chunk, position)
        has_more = True
        while has_more and workspace.written <= room:
            has_more = walk.next_window()
            self._filter_window(walk)
            if has_more and walk.count < TABLE_ENTRIES and workspace.written <= room:
                odd = walk.find_odd_entry()
                if odd is None:
                    break
                self._filter_plainly(odd)
        return self._filtered()

    def _filtered(self) -> Filtered:
        totals = self.workspace.totals
        self.retention.stats.invalid_messages += int(totals[compact_write.INVALID])
        return Filtered(
            self.workspace.output,
            int(totals[compact_write.BYTES_READ]),
            int(totals[compact_write.MESSAGES_READ]),
            int(totals[compact_write.MESSAGES_RETAINED]),
            int(totals[compact_write.MAX_OFFSET]),
        )

    def _filter_window(self, walk: Walk) -> None:
        workspace, offsets = self.workspace, self.retention.offsets
        decisions, keeping = self._decide(walk)
        row, ready = 0, kernel.NOT_READY
        while row < walk.count and workspace.written <= workspace.rules[kernel.ROOM]:
            status, row, horizon = kernel.filter_batches(
                walk.data,
                workspace.entries.fields,
                decisions,
                row,
                walk.position,
                ready,
                workspace.rules,
                offsets.table,
                offsets.counts,
                offsets.secret,
                workspace.buffers,
                workspace.tools,
                workspace.lz4_compress,
                workspace.totals,
            )
            if status == compact_write.COMPRESS:
                self._compress(row, horizon)
            if status in (compact_write.COMPRESS, kernel.FULL):
                row += 1
            self._note(keeping, row)
            ready = walk.help(row, status)
            if status == compact_write.LEFT or (status == kernel.DECOMPRESS and ready == kernel.NOT_READY):
                keeping.pop(row, None)
                self._filter_plainly(walk.entry(row))
                row += 1

    def _compress(self, row: int, horizon: int) -> None:
        """Finish a batch whose records need a codec that the kernel cannot call."""
        workspace = self.workspace
        payload = workspace.compress_raw(int(workspace.entries.attributes[row]) & batch.CODEC_MASK)
        workspace.put(payload, workspace.written + batch.HEADER_SIZE)
        checksum = workspace.tools[layout.CRC32C_FUNCTION]
        buffers = workspace.buffers
        compact_write.finish_batch(
            workspace.entries.fields, row, horizon, checksum, len(payload), buffers.records, buffers.output, workspace.totals
        )

    def _filter_plainly(self, entry: Entry) -> None:
        decision = self._decided.get(entry.position) or self.retention.decide(entry)
        if isinstance(decision, KafkaLogError):
            raise decision
        self.retention.note(decision)
        filtered = Filtered()
        filter_entry(entry, decision, self.retention, filtered)
        workspace = self.workspace
        workspace.put(filtered.output, workspace.written)
        totals = workspace.totals
        totals[compact_write.WRITTEN] += len(filtered.output)
        totals[compact_write.BYTES_READ] += filtered.bytes_read
        totals[compact_write.MESSAGES_READ] += filtered.messages_read
        totals[compact_write.MESSAGES_RETAINED] += filtered.messages_retained
        totals[compact_write.MAX_OFFSET] = max(totals[compact_write.MAX_OFFSET], filtered.max_offset)

    def _decide(self, walk: Walk) -> tuple[Ints, dict[int, Decision]]:
        """What happens to each entry, and the decisions that keep transactions in the index, by row."""
        entries = walk.entries
        decisions: Ints = np.full(walk.count, kernel.DELETE_EMPTY, np.int64)
        decisions[entries.last_offset + 1 == self.retention.upper_bound_offset] = kernel.RETAIN_EMPTY
        decisions[entries.magic < batch.MAX_MAGIC] = kernel.BY_PLAIN_PATH
        keeping = {}
        for row in np.flatnonzero(_is_of_transaction(entries) | self._may_be_last(entries)).tolist():
            position = int(entries.position[row])
            decision = self._decided.get(position) or self._decide_ahead(walk.entry(row))
            self._decided[position] = decision
            if isinstance(decision, KafkaLogError):
                decisions[row] = kernel.BY_PLAIN_PATH
                break
            decisions[row] = _bits(decision)
            if decision.kept_transactions:
                keeping[row] = decision
        return decisions, keeping

    def _decide_ahead(self, entry: Entry) -> Decision | KafkaLogError:
        """The decision, or what to raise when the entry is processed: the map or the output may be full before that."""
        try:
            return self.retention.decide(entry)
        except KafkaLogError as error:
            return error

    def _may_be_last(self, entries: EntryTable) -> NDArray[np.bool_]:
        """Which batches may be the last of their producer."""
        return (entries.producer_id >= 0) & np.isin(entries.last_offset, self._last_offsets)

    def _note(self, keeping: dict[int, Decision], stop: int) -> None:
        """Add to the index what the entries before `stop` keep there."""
        while keeping and (row := next(iter(keeping))) < stop:
            self.retention.note(keeping.pop(row))


def _bits(decision: Decision) -> int:
    if decision.retention == DELETE:
        return kernel.DELETE
    return (
        (kernel.RETAIN_EMPTY if decision.retention == RETAIN_EMPTY else kernel.DELETE_EMPTY)
        | (kernel.DISCARD_RECORDS if decision.discards_records else 0)
        | (kernel.ENDS_NOTHING if decision.ends_nothing else 0)
    )
