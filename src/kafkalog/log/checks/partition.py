"""The check of one partition: its entries in order, and its other files compared with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kafkalog.errors import ERROR, INFO, KafkaLogError, SegmentError, TornTail
from kafkalog.format import checkpoint, control, names
from kafkalog.format.entry_table import UNKNOWN_CONTROL, EntryTable, Ints
from kafkalog.log.entry_order import MAX_INDEX_DELTA, Order, OutOfPlace, order_error
from kafkalog.log.partition import Partition, Segment
from kafkalog.log.reading import ReadOptions, SegmentPlacement, decoded_bases, torn_by_crash
from kafkalog.log.report import ReadReport
from kafkalog.segment.decode import DecodedWindow, EntryProblem, RecordDecoder
from kafkalog.segment.salvage import SalvageWalk
from kafkalog.segment.windows import Window, WindowBuffers, rows_of

from .directory import LogDirectory, read_text_file
from .finding import MAX_OF_A_KIND, Finding, Place, finding_of, first_of_kind, make_finding, with_more
from .indexes import SegmentIndexes
from .producers import Sequences, Snapshots
from .record_rules import check_empty_batches, check_records, has_sparse_sets, is_plain, is_rewritten, place_of
from .transaction_index import AbortedTransactions

# Topics that brokers compact, whatever a copy without checkpoints says.
COMPACTED_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
# A wrong checksum may be due to a wrong length: the next entry must be searched for.
BREAKS_FRAMING = ("crc", "torn-write")


class PartitionCheck:
    """Checks one partition, fed with decoded windows in log order. Findings collect in `found`."""

    def __init__(
        self, partition: Partition, directory: LogDirectory, options: ReadOptions, decoder: RecordDecoder, report: ReadReport
    ) -> None:
        self.partition = partition
        self.directory = directory
        self.options = options
        self.decoder = decoder
        self.report = report
        cleaned = directory.offset(names.CLEANER_CHECKPOINT, partition) is not None
        self.compacted = cleaned or partition.topic in COMPACTED_TOPICS
        self.order = Order(partition, neighbours=True)
        self.order.contiguous = not self.compacted
        self.sequences = Sequences(partition)
        self.snapshots = Snapshots(partition)
        self.transactions = AbortedTransactions(partition)
        self.held: list[Finding] = []
        self.found: list[Finding] = []
        self.was_read = True
        self.counts: Counter[str] = Counter()

    def limited(self, found: list[Finding]) -> Iterator[Finding]:
        """The first findings of each kind; the last of them says that there are more."""
        for finding in found:
            self.counts[finding.reason] += 1
            if self.counts[finding.reason] < MAX_OF_A_KIND:
                yield finding
            elif self.counts[finding.reason] == MAX_OF_A_KIND:
                yield with_more(finding)

    # -- one segment after the other -----------------------------------------------------------------------------------------

    def begin(self, segment: Segment, contents: dict[str, bytes]) -> None:
        """The following entries belong to `segment`; `contents` are those of its index files that could be read."""
        self.segment = segment
        self.contents = contents
        self.indexes = SegmentIndexes(self.partition, segment, contents)
        self.transactions.begin()
        self.is_salvaged = False
        self.segment_was_read = True
        self.overflows = False
        self.last_control_type = UNKNOWN_CONTROL
        self.first_control_type = UNKNOWN_CONTROL
        self.order.begin(segment)
        self.found += first_of_kind(self.snapshots.compare_at(segment.base_offset, compacted=self.compacted))

    def add(self, window: Window, decoded: DecodedWindow) -> None:
        """Add a window whose entries are all checked and decoded. After a wrong checksum, resynchronise entry by entry."""
        self._add_part(decoded, np.arange(window.count if decoded.left is None else decoded.left))
        if decoded.left is not None and not self.is_salvaged:
            for part, rows in self.decoder.decode_in_parts(window, np.arange(decoded.left, window.count)):
                self._add_part(part, rows)

    def _add_part(self, decoded: DecodedWindow, rows: NDArray[np.int64]) -> None:
        if self.is_salvaged:
            return
        problems = decoded.problems
        lost = next((problem for problem in problems if problem.error.reason in BREAKS_FRAMING), None)
        if lost is not None:
            rows, problems = rows[rows < lost.entry], [problem for problem in problems if problem.entry < lost.entry]
        self._examine(decoded, rows, problems)
        if lost is not None:
            self._salvage_from(lost.error.position)

    def stop_at(self, problem: SegmentError) -> None:
        """The entries cannot be walked from here on."""
        if not self.is_salvaged:
            self._salvage_from(problem.position)

    def fail(self, error: KafkaLogError, file: str) -> None:
        """The file could not be read."""
        self.was_read = self.segment_was_read = False
        gone = self.partition.store.stat(file) is None
        reason = "changed" if gone else "unreadable"
        if isinstance(error, SegmentError):
            self.found.append(finding_of(error, file, self.partition))
        else:
            self.found.append(make_finding(reason, file, self.partition, detail=str(error)))
            self.report.unread.append(str(error))
        self._lose_track()

    def end(self) -> None:
        """The segment is done. One that could not be read to its end is not compared with other files."""
        if not self.segment_was_read:
            return
        missing = self.order.missing_at_end()
        size = self.segment.log.size
        if missing is not None and not any(stop >= size for _, stop in self.indexes.damage):
            detail = f"offsets {missing[0]} to {missing[1]} are missing before the next segment"
            place = Place(size, 0, *missing)
            self._hold(make_finding("gap-at-end", self.segment.log.path, self.partition, place, detail=detail))
            self.sequences.forget()
        self.found += self.indexes.finish(ended_well=self.directory.ended_well, compacted=self.compacted)
        if self.partition.file is None:  # a single file comes without its indexes
            content = self.contents.get("txnindex")
            self.found += first_of_kind(self.transactions.finish(self.segment, content, compacted=self.compacted))
        if self.segment.log.kind in ("checkpoint", names.BOOTSTRAP_CHECKPOINT):
            self._check_kraft_snapshot()

    # -- entries -------------------------------------------------------------------------------------------------------------

    def _examine(self, decoded: DecodedWindow, rows: NDArray[np.int64], problems: list[EntryProblem]) -> None:
        for problem in problems:
            self._damage(problem.error)
        if problems:
            rows = np.setdiff1d(rows, [problem.entry for problem in problems])
        window = decoded.window
        table, bases = rows_of(window.entries, rows), decoded_bases(decoded, rows)
        self._look_for_compaction(table, decoded)
        misplaced = self._out_of_place(window.file, table, bases)
        if misplaced:
            kept = np.setdiff1d(np.arange(len(rows)), misplaced)
            rows, table, bases = rows[kept], table[kept], bases[kept]
        if not len(rows):
            return
        self._look_into_records(decoded, rows)
        self._add_intact(table, bases, window.file)
        if window.facts.legacy_count < window.count:
            self._add_batches(table, window.file)

    def _look_into_records(self, decoded: DecodedWindow, rows: NDArray[np.int64]) -> None:
        """Compare the records of these entries with their headers."""
        is_whole = len(rows) == decoded.window.count
        for group in decoded.groups:
            chosen = np.ones(len(group.entries), np.bool_) if is_whole else np.isin(group.entries, rows)
            self.report.kept_records += int(group.row_counts[chosen].sum())
            if not is_plain(decoded.window):
                positions = set() if is_whole else set(group.entry_table.position[chosen].tolist())
                found = check_records(group, self.partition)
                self.found += [finding for finding in found if is_whole or finding.position in positions]

    def _out_of_place(self, file: str, table: EntryTable, bases: Ints) -> list[int]:
        """The rows that contradict adjacent entries."""
        found = self.order.check(table, bases)
        for problem in found:
            if problem.reason == "gap":
                self._hold_gap(file, table, problem)
            else:
                self._damage(order_error(file, table, problem))
        return [problem.row for problem in found if not problem.entry_stays]

    def _hold_gap(self, file: str, table: EntryTable, problem: OutOfPlace) -> None:
        error = order_error(file, table, problem)
        self._hold(finding_of(error, file, self.partition))
        self.sequences.forget()
        if not problem.entry_stays:  # its own offset may be wrong, or all is well and the log compacted
            self._lose_track()
            self.indexes.damage.append((error.position, error.position + error.length))

    def _look_for_compaction(self, table: EntryTable, decoded: DecodedWindow) -> None:
        if self.compacted or is_plain(decoded.window):
            return
        if is_rewritten(table) or any(has_sparse_sets(group) for group in decoded.groups):
            self.compacted = True
            self.order.contiguous = False
            self.held.clear()

    def _add_intact(self, table: EntryTable, bases: Ints, file: str) -> None:
        """Add entries that are intact and in place: everything else is compared with these."""
        self.report.kept_batches += len(table)
        self.indexes.add(table, bases)
        if self.indexes.last_offset - self.segment.base_offset > MAX_INDEX_DELTA and not self.overflows:
            self.overflows = self.segment.base_offset >= 0
            row = int(np.argmax(table.last_offset - self.segment.base_offset > MAX_INDEX_DELTA))
            if self.overflows:
                self.found.append(make_finding("segment-overflow", file, self.partition, place_of(table.header(row))))

    def _add_batches(self, table: EntryTable, file: str) -> None:
        """Add the same entries if v2 batches are among them: only these have producers and control records."""
        self.found += check_empty_batches(table, file, self.partition)
        self.transactions.add(table)
        self.snapshots.replay(table)
        if not self.compacted:
            for finding in self.sequences.check(table, file):
                self._hold(finding)
        if not table.position[0]:
            self.first_control_type = int(table.control_type[0])
        self.last_control_type = int(table.control_type[-1])

    # -- damage --------------------------------------------------------------------------------------------------------------

    def _salvage_from(self, position: int) -> None:
        """Continue after damage at `position` to the end of the segment, from one intact entry to the next."""
        self.is_salvaged = True
        segment = self.segment
        placement = SegmentPlacement(self.partition, segment, self.options, skipped=False)
        placement.order.last_offset, placement.order.epoch = self.order.last_offset, self.order.epoch
        placement.order.stop = position
        placement.order.contiguous = self.order.contiguous
        buffers = WindowBuffers()
        try:
            with self.partition.open_log(segment) as source:
                stop = segment.stop_in(source)
                for salvaged in SalvageWalk(source, position, stop, self.options.limits, placement).windows(buffers):
                    for problem in salvaged.problems:
                        self._damage(torn_by_crash(problem, stop))
                    if salvaged.window is not None:
                        self._examine_salvaged(salvaged.window, salvaged.entries)
                        buffers.give_back(salvaged.window)
        except KafkaLogError as error:
            self.fail(error, segment.log.path)

    def _examine_salvaged(self, window: Window, entries: NDArray[np.int64]) -> None:
        if len(entries):
            for decoded, rows in self.decoder.decode_in_parts(window, entries):
                self._examine(decoded, rows, decoded.problems)

    def _damage(self, error: SegmentError) -> None:
        """Report a damaged byte range. The tail of a log that was not closed is not damage."""
        is_tail = isinstance(error, TornTail) and self.segment.is_newest
        severity = None
        if is_tail:
            severity = ERROR if self.directory.ended_well else INFO
        else:
            self._lose_track()
            self.indexes.damage.append((error.position, error.position + max(error.length, 1)))
        self.found.append(finding_of(error, self.segment.log.path, self.partition, severity=severity))

    def _lose_track(self) -> None:
        """Entries are missing: what producers and transactions did there is unknown."""
        self.sequences.forget()
        self.snapshots.is_whole = False
        self.transactions.is_whole = False

    def _hold(self, finding: Finding) -> None:
        if not self.compacted and len(self.held) <= MAX_OF_A_KIND:
            self.held.append(finding)

    def _check_kraft_snapshot(self) -> None:
        ends = self.first_control_type, self.last_control_type
        if ends != (control.SNAPSHOT_HEADER, control.SNAPSHOT_FOOTER) and not self.indexes.damage:
            log, expected = self.segment.log, "a snapshot header first and a snapshot footer last"
            place = Place(log.size, 0)
            self.found.append(make_finding("snapshot-incomplete", log.path, self.partition, place, expected=expected))

    # -- the partition as a whole --------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """All segments are done."""
        for text in self.partition.problems:
            self.found.append(make_finding("unreadable", self.partition.folder, self.partition, detail=text))
            self.report.unread.append(text)
        self.found += self.held
        end_offset = self._end_offset()
        self.found += self.snapshots.finish(end_offset, compacted=self.compacted)
        self.found += self._files()
        if self.was_read and self.partition.file is None and self.partition.segments:
            self.found += first_of_kind(self._checkpoints(end_offset))

    def _end_offset(self) -> int:
        newest = self.partition.segments[-1].base_offset if self.partition.segments else 0
        return max(self.order.last_offset + 1, newest)

    def _files(self) -> Iterator[Finding]:
        partition = self.partition
        texts = {
            names.LEADER_EPOCH_CHECKPOINT: checkpoint.decode_leader_epoch_checkpoint,
            names.PARTITION_METADATA: checkpoint.decode_partition_metadata,
            names.QUORUM_STATE: checkpoint.decode_quorum_state,
        }
        bases = {segment.base_offset for segment in partition.segments}
        found: list[Finding] = []
        for stored in partition.files:
            if stored.suffix:
                yield make_finding("leftover", stored.path, partition, Place(0, stored.size), found=f".{stored.suffix}")
            elif stored.kind in texts:
                read_text_file(partition.store, stored.path, texts[stored.kind], partition, found)
            elif stored.kind in ("index", "timeindex", "txnindex") and stored.base_offset not in bases:
                yield make_finding("orphan", stored.path, partition, Place(0, stored.size))
        yield from found

    def _checkpoints(self, end_offset: int) -> Iterator[Finding]:
        """Checkpoints with offsets that the log does not have."""
        partition, directory = self.partition, self.directory
        for name in names.OFFSET_CHECKPOINTS:
            offset = directory.offset(name, partition)
            if offset is not None and not 0 <= offset <= end_offset:
                file = partition.store.join(directory.folder, name)
                wanted = f"an offset from 0 to {end_offset}, where the log ends"
                yield make_finding("checkpoint-mismatch", file, partition, expected=wanted, found=offset)
        file = partition.store.join(partition.folder, names.LEADER_EPOCH_CHECKPOINT)
        before = None
        for line in partition.epochs:
            if before is not None and (line.epoch <= before.epoch or line.start_offset <= before.start_offset):
                wanted = f"more than epoch {before.epoch} from offset {before.start_offset}"
                yield make_finding(
                    "checkpoint-mismatch", file, partition, severity=ERROR, expected=wanted, found=_epoch_line(line)
                )
            elif line.start_offset > end_offset:
                wanted = f"an offset up to {end_offset}, where the log ends"
                yield make_finding("checkpoint-mismatch", file, partition, expected=wanted, found=_epoch_line(line))
            before = line


def _epoch_line(line: checkpoint.EpochStart) -> str:
    return f"epoch {line.epoch} from offset {line.start_offset}"
