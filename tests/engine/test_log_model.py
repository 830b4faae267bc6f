"""A partition log against a model that is a plain list of batches: its content, committed records, what survives a restart."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafkalog.engine.building import RecordsBuilder
from kafkalog.engine.config import LogConfig
from kafkalog.engine.entries import Entry, iter_entries
from kafkalog.engine.partition_log import PartitionLog
from kafkalog.engine.schedule import ManualClock, Schedule

NOW = 1_700_000_000_000
OUTSIDE_OFFSETS = 16  # the rest of a batch, from its magic on, is stored as it was sent
CONFIG = {"internal.segment.bytes": 700, "index.interval.bytes": 100, "segment.index.bytes": 240, "file.delete.delay.ms": 0}


def records_of(producer_id: int, sequence: int, count: int, *, transactional: bool = False) -> bytes:
    builder = RecordsBuilder(
        0,
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 0,
        base_sequence=sequence,
        is_transactional=transactional,
    )
    for offset in range(count):
        builder.append(offset, NOW, b"key", b"value %d of %d" % (sequence + offset, producer_id))
    return builder.build()


@dataclass
class Batch:
    """A batch of the model; `sent` is empty for a marker."""

    base_offset: int
    last_offset: int
    producer_id: int
    sent: bytes = b""
    is_transactional: bool = False
    is_abort: bool = False

    @property
    def is_marker(self) -> bool:
        return not self.sent


class LogMachine(RuleBasedStateMachine):
    """Appends, transactions, rolls, truncations and restarts, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = ManualClock(NOW)
        self.batches: list[Batch] = []
        self.sequences: dict[int, int] = {}
        self.log_start_offset = 0
        self.high_watermark = 0

    @initialize(segment_bytes=st.sampled_from([300, 700, 100_000]), interval=st.sampled_from([0, 100, 4096]))
    def open_new(self, segment_bytes: int, interval: int) -> None:
        self.config = LogConfig.of(CONFIG | {"internal.segment.bytes": segment_bytes, "index.interval.bytes": interval})
        self.open(0, clean=True)

    def open(self, recovery_point: int, *, clean: bool) -> None:
        self.schedule = Schedule(self.clock)
        self.log = PartitionLog.open(
            str(Path(self.folder.name) / "t-0"),
            self.config,
            clock=self.clock,
            schedule=self.schedule,
            log_start_offset=self.log_start_offset,
            recovery_point=recovery_point,
            clean=clean,
            transaction_verification=False,
        )

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close_handlers()
        self.folder.cleanup()

    # the model

    @property
    def end_offset(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else self.log_start_offset

    def transactions(self) -> Iterator[tuple[int, int, Batch | None]]:
        """Producer, first offset and marker of every transaction; None while it is open."""
        opened: dict[int, int] = {}
        for batch in self.batches:
            if batch.is_marker:
                if batch.producer_id in opened:
                    yield batch.producer_id, opened.pop(batch.producer_id), batch
            elif batch.is_transactional:
                opened.setdefault(batch.producer_id, batch.base_offset)
        for producer_id, first_offset in opened.items():
            yield producer_id, first_offset, None

    def last_stable_offset(self) -> int:
        unstable = [
            first_offset
            for _, first_offset, marker in self.transactions()
            if marker is None or marker.base_offset >= self.high_watermark
        ]
        return min([*unstable, self.high_watermark])

    def committed(self, stop: int) -> list[Batch]:
        """The batches that a read_committed reader sees before `stop`."""
        aborted = {
            offset
            for producer_id, first_offset, marker in self.transactions()
            if marker is not None and marker.is_abort
            for offset in range(first_offset, marker.base_offset)
            if any(batch.base_offset == offset and batch.producer_id == producer_id for batch in self.batches)
        }
        return [
            batch
            for batch in self.batches
            if not batch.is_marker
            and batch.last_offset < stop
            and batch.last_offset >= self.log_start_offset
            and batch.base_offset not in aborted
        ]

    def is_open(self, producer_id: int) -> bool:
        return any(producer == producer_id and marker is None for producer, _, marker in self.transactions())

    # the rules

    @rule(count=st.integers(1, 4))
    def append_plain(self, count: int) -> None:
        self._append(records_of(-1, -1, count), count, -1)

    @rule(producer_id=st.integers(0, 2), count=st.integers(1, 3), transactional=st.booleans())
    def append_of_a_producer(self, producer_id: int, count: int, transactional: bool) -> None:
        transactional = transactional or self.is_open(producer_id)
        sequence = self.sequences.get(producer_id, 0)
        data = records_of(producer_id, sequence, count, transactional=transactional)
        self._append(data, count, producer_id, transactional)
        self.sequences[producer_id] = sequence + count

    def _append(self, data: bytes, count: int, producer_id: int, transactional: bool = False) -> None:
        done = self.log.append(data, leader_epoch=3)
        base_offset = self.end_offset
        assert (done.first_offset, done.last_offset) == (base_offset, base_offset + count - 1)
        self.batches.append(Batch(base_offset, done.last_offset, producer_id, data, transactional))

    @precondition(lambda self: self.sequences)
    @rule(which=st.integers(0, 2), commit=st.booleans())
    def end_transaction(self, which: int, commit: bool) -> None:
        producer_id = sorted(self.sequences)[which % len(self.sequences)]
        done = self.log.end_transaction(producer_id, 0, commit, leader_epoch=3)
        assert done.first_offset == self.end_offset
        self.batches.append(Batch(done.first_offset, done.first_offset, producer_id, is_abort=not commit))

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(force=st.booleans())
    def flush(self, force: bool) -> None:
        self.log.flush(force)

    @rule(which=st.integers(0, 30))
    def raise_high_watermark(self, which: int) -> None:
        bounds = [offset for offset in self._bounds() if offset >= self.high_watermark]
        self.high_watermark = bounds[which % len(bounds)]
        assert self.log.update_high_watermark(self.high_watermark) == self.high_watermark

    @rule(which=st.integers(0, 30))
    def delete_records(self, which: int) -> None:
        bounds = [offset for offset in self._bounds() if offset <= self.last_stable_offset() and not self._cuts(offset)]
        if not bounds:
            return
        self.log_start_offset = bounds[which % len(bounds)]
        self.log.delete_records(self.log_start_offset)
        self.log.delete_old_segments()
        self._forget_what_no_segment_holds()

    def _cuts(self, offset: int) -> bool:
        """Whether a transaction begins before `offset` and ends after it: a reload of the log then forgets that it began."""
        return any(
            first < offset and (marker is None or marker.base_offset >= offset) for _, first, marker in self.transactions()
        )

    def _bounds(self) -> list[int]:
        """Where batches begin, and where the log ends."""
        starts = [batch.base_offset for batch in self.batches if batch.base_offset >= self.log_start_offset]
        return [*starts, self.end_offset]

    def _forget_what_no_segment_holds(self) -> None:
        """Markers deleted with their segment no longer end a transaction that a reader would learn of."""
        first = min(segment.base_offset for segment in self.log.segments)
        self.batches = [batch for batch in self.batches if batch.last_offset >= first]

    @rule(which=st.integers(0, 30))
    def truncate(self, which: int) -> None:
        bounds = self._bounds()
        offset = bounds[which % len(bounds)]
        self.log.truncate_to(offset)
        self.batches = [batch for batch in self.batches if batch.last_offset < offset]
        self._settle()

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        if clean:
            self.log.flush(True)
            self.log.close()
        else:
            self.log.close_handlers()
        self.open(self.log.recovery_point, clean=clean)
        self._settle()

    def _settle(self) -> None:
        """After a restart or truncation the high watermark is set again, and each producer's next sequence comes from the log."""
        self.high_watermark = self.end_offset
        self.log.update_high_watermark(self.high_watermark)
        states = self.log.producers.active_producers
        self.sequences = {producer_id: state.last_sequence + 1 for producer_id, state in states.items()}

    # the invariants

    @invariant()
    def offsets_are_as_the_model_says(self) -> None:
        if hasattr(self, "log"):
            self.schedule.run_due()
            log = self.log
            assert (log.log_start_offset, log.log_end_offset) == (self.log_start_offset, self.end_offset)
            assert (log.high_watermark, log.last_stable_offset) == (self.high_watermark, self.last_stable_offset())

    @invariant()
    def a_reader_gets_every_batch_as_it_was_sent(self) -> None:
        if hasattr(self, "log"):
            entries = list(self._read("log_end", self.end_offset))
            expected = [batch for batch in self.batches if batch.last_offset >= self.log_start_offset]
            assert [(entry.base_offset, entry.last_offset) for entry in entries] == [
                (batch.base_offset, batch.last_offset) for batch in expected
            ]
            for entry, batch in zip(entries, expected, strict=True):
                assert entry.is_control_batch == batch.is_marker
                if not batch.is_marker:
                    stored = bytes(entry.data[entry.start : entry.start + entry.size])
                    assert stored[OUTSIDE_OFFSETS:] == batch.sent[OUTSIDE_OFFSETS:]

    def _read(self, isolation: str, stop: int) -> Iterator[Entry]:
        offset = self.log_start_offset
        while offset < stop:
            found = self.log.read(offset, 500, isolation=isolation)  # type: ignore[arg-type]
            for entry in iter_entries(found.data):
                yield entry
                offset = entry.last_offset + 1

    @invariant()
    def a_reader_of_what_is_committed_gets_nothing_else(self) -> None:
        if hasattr(self, "log"):
            stop = self.last_stable_offset()
            found = self.log.read(self.log_start_offset, 1 << 20, isolation="committed")
            seen: list[int] = []
            while found.data:
                next_offset = self._filter(iter_entries(found.data), found.aborted or (), seen)
                if next_offset >= stop:
                    break
                found = self.log.read(next_offset, 1 << 20, isolation="committed")
            assert seen == [batch.base_offset for batch in self.committed(stop)]

    @staticmethod
    def _filter(entries: Iterator[Entry], aborted: tuple[tuple[int, int], ...], seen: list[int]) -> int:
        """The filter of a consumer: between an aborted transaction's first offset and its marker its producer is left out."""
        waiting = sorted((first_offset, producer_id) for producer_id, first_offset in aborted)
        active: set[int] = set()
        next_offset = 0
        for entry in entries:
            while waiting and waiting[0][0] <= entry.last_offset:
                active.add(waiting.pop(0)[1])
            if entry.is_control_batch:
                active.discard(entry.producer_id)
            elif not (entry.is_transactional and entry.producer_id in active):
                seen.append(entry.base_offset)
            next_offset = entry.last_offset + 1
        return next_offset


LogMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestLogAgainstTheModel = LogMachine.TestCase
