"""Producers of a log: a state machine that compares `ProducerStates` with a model which keeps all that was ever accepted."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafkalog.engine.appending import analyze_producers, start_verification
from kafkalog.engine.building import encode_batch, end_transaction_marker
from kafkalog.engine.entries import Entry, iter_entries
from kafkalog.engine.offsets import AppendOrigin, OffsetMetadata
from kafkalog.engine.producer_state import (
    TRANSACTION_VERSION_UNKNOWN,
    CompletedTransaction,
    ProducerAppend,
    ProducerState,
    VerificationGuard,
)
from kafkalog.engine.producers import ProducerSettings, ProducerStates
from kafkalog.engine.schedule import ManualClock
from kafkalog.errors import (
    InvalidArgument,
    InvalidProducerEpoch,
    InvalidTxnState,
    LogRefusal,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from kafkalog.format.batch import MAX_SEQUENCE, TRANSACTIONAL, increment_sequence
from kafkalog.format.control import EndTxnMarker
from kafkalog.format.java import NewestFirstMap
from kafkalog.storage.fs import LocalFs

NOW = 1_700_000_000_000
EXPIRATION_MS = 60_000


def data_batch(
    producer_id: int,
    epoch: int,
    sequence: int,
    *,
    count: int = 1,
    offset: int = 0,
    transactional: bool = False,
    timestamp: int = NOW,
) -> bytes:
    return encode_batch(
        b"",
        base_offset=offset,
        last_offset=offset + count - 1,
        records_count=count,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        attributes=TRANSACTIONAL if transactional else 0,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


class Log:
    """The part of a log that deals with producers: batches that pass the checks are written and taken over."""

    def __init__(self, folder: Path, *, verification: bool = False, expiration_ms: int = EXPIRATION_MS) -> None:
        self.folder = folder
        self.clock = ManualClock(NOW)
        self.settings = ProducerSettings(expiration_ms, transaction_verification=verification)
        self.producers = self.new_producers()
        self.data: list[bytes] = []
        self.end_offset = 0

    def new_producers(self) -> ProducerStates:
        return ProducerStates(LocalFs(), str(self.folder), self.clock, self.settings)

    def append(
        self,
        data: bytes,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        *,
        guard: VerificationGuard | None = None,
        version: int = TRANSACTION_VERSION_UNKNOWN,
    ) -> int:
        """The offset of the batch's first record, which for a duplicate is that of the first of its kind."""
        [entry] = iter_entries(bytearray(data))
        entry.set_last_offset(self.end_offset + entry.last_offset - entry.base_offset)
        analysis = analyze_producers(self.producers, [entry], OffsetMetadata(self.end_offset, 0, 0), origin, guard, version)
        if analysis.duplicate is not None:
            return analysis.duplicate.first_offset
        for append in analysis.appends:
            self.producers.update(append)
        for completed in analysis.completed:
            self.producers.complete_transaction(completed)
        self.data.append(bytes(entry.data))
        self.end_offset = self.producers.map_end_offset = entry.last_offset + 1
        return entry.base_offset

    def end(self, producer_id: int, epoch: int, *, commit: bool = True, coordinator_epoch: int = 0, version: int = 1) -> int:
        marker = EndTxnMarker(commit, coordinator_epoch)
        data = end_transaction_marker(producer_id, epoch, marker, timestamp=self.clock.now)
        return self.append(data, AppendOrigin.COORDINATOR, version=version)

    def entries(self) -> Iterable[Entry]:
        return iter_entries(b"".join(self.data))

    def reload(self) -> None:
        """Go through a snapshot, as a restart does."""
        self.producers.take_snapshot()
        self.producers = self.new_producers()
        self.producers.truncate_and_reload(0, self.end_offset, self.clock.now)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


@dataclass
class Sent:
    """A batch or a marker that the model accepted."""

    epoch: int
    offset: int
    first_sequence: int = -1
    last_sequence: int = -1
    count: int = 1
    is_marker: bool = False


@dataclass
class Known:
    """A producer in the model: all that it wrote, as far as the log may still know it."""

    sent: list[Sent] = field(default_factory=list)
    open_since: int | None = None
    coordinator_epoch: int = -1
    silent_since: int = NOW

    @property
    def epoch(self) -> int:
        return self.sent[-1].epoch if self.sent else -1

    @property
    def batches(self) -> list[Sent]:
        """The batches sent in the current epoch, without interruption by another one."""
        batches: list[Sent] = []
        for sent in reversed(self.sent):
            if sent.epoch != self.epoch:
                break
            if not sent.is_marker:
                batches.insert(0, sent)
        return batches[-5:]


class ProducerMachine(RuleBasedStateMachine):
    """Producers that send, repeat, skip, are fenced and forgotten; the log is reloaded at any moment."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.log = Log(Path(self.folder.name))
        self.known: dict[int, Known] = {}
        self.ended: list[tuple[int, int]] = []  # first offset and marker of transactions above the high watermark

    def teardown(self) -> None:
        self.folder.cleanup()

    @initialize(start=st.sampled_from([0, 7]))
    def begin_after_a_gap(self, start: int) -> None:
        self.log.end_offset = self.log.producers.map_end_offset = start

    producer_ids = st.sampled_from([1, 17, 33, 2**40])

    @rule(
        producer_id=producer_ids,
        epoch_step=st.sampled_from([0, 0, 0, 0, 1, -1]),
        sequence_step=st.sampled_from([0, 0, 0, 0, 1, 3, -1, -4]),
        from_zero=st.booleans(),
        start=st.sampled_from([0, 0, 5, MAX_SEQUENCE - 1]),
        count=st.integers(1, 3),
        transactional=st.booleans(),
    )
    def send(
        self, producer_id: int, epoch_step: int, sequence_step: int, from_zero: bool, start: int, count: int, transactional: bool
    ) -> None:
        producer = self.known.get(producer_id, Known())
        epoch = max(0, producer.epoch + epoch_step)
        sequence = start
        if producer.batches:
            sequence = (producer.batches[-1].last_sequence + 1 + sequence_step) & MAX_SEQUENCE
        if from_zero and epoch_step == 1:
            sequence = 0
        expected = self._expected_of_data(producer, epoch, sequence, count, transactional)
        data = data_batch(producer_id, epoch, sequence, count=count, transactional=transactional, timestamp=self.log.clock.now)
        offset = self.log.end_offset
        if isinstance(expected, int):
            assert self.log.append(data) == expected
            if expected == offset:
                producer.sent.append(Sent(epoch, offset, sequence, increment_sequence(sequence, count - 1), count))
                producer.silent_since = self.log.clock.now
                if transactional and producer.open_since is None:
                    producer.open_since = offset
                self.known[producer_id] = producer
        else:
            with pytest.raises(expected):
                self.log.append(data)

    def _expected_of_data(
        self, producer: Known, epoch: int, sequence: int, count: int, transactional: bool
    ) -> int | type[LogRefusal]:
        last = increment_sequence(sequence, count - 1)
        if epoch == producer.epoch:
            for batch in producer.batches:
                if (batch.first_sequence, batch.last_sequence) == (sequence, last):
                    return batch.offset
        if epoch < producer.epoch:
            return InvalidProducerEpoch
        if producer.sent:
            before = producer.batches[-1].last_sequence if epoch == producer.epoch and producer.batches else -1
            if sequence != (before + 1) & MAX_SEQUENCE:
                return OutOfOrderSequence
        if producer.open_since is not None and not transactional:
            return InvalidTxnState
        return self.log.end_offset

    @precondition(lambda self: self.known)
    @rule(
        which=st.integers(0, 3),
        epoch_step=st.sampled_from([0, 0, 0, 1, -1]),
        coordinator_step=st.sampled_from([0, 0, 0, 1, -1]),
        commit=st.booleans(),
        version=st.sampled_from([1, 2]),
    )
    def end(self, which: int, epoch_step: int, coordinator_step: int, commit: bool, version: int) -> None:
        producer_id = sorted(self.known)[which % len(self.known)]
        producer = self.known[producer_id]
        epoch = max(0, producer.epoch + epoch_step)
        coordinator_epoch = max(0, producer.coordinator_epoch + coordinator_step)
        expected: type[LogRefusal] | None = None
        is_repeated = epoch == producer.epoch and producer.open_since is None
        if epoch < producer.epoch or (version == 2 and epoch == producer.epoch and not is_repeated):
            expected = InvalidProducerEpoch
        elif coordinator_epoch < producer.coordinator_epoch:
            expected = TransactionCoordinatorFenced
        offset = self.log.end_offset
        if expected is not None:
            with pytest.raises(expected):
                self.log.end(producer_id, epoch, commit=commit, coordinator_epoch=coordinator_epoch, version=version)
            return
        self.log.end(producer_id, epoch, commit=commit, coordinator_epoch=coordinator_epoch, version=version)
        producer.sent.append(Sent(epoch, offset, is_marker=True))
        producer.coordinator_epoch = coordinator_epoch
        producer.silent_since = self.log.clock.now
        if producer.open_since is not None:
            self.ended.append((producer.open_since, offset))
            producer.open_since = None

    @rule(behind=st.integers(0, 6))
    def raise_high_watermark(self, behind: int) -> None:
        high_watermark = max(0, self.log.end_offset - behind)
        self.log.producers.on_high_watermark_updated(high_watermark)
        self.ended = [(first, marker) for first, marker in self.ended if marker >= high_watermark]

    @rule()
    def reload(self) -> None:
        """Of every producer only its last batch is known afterwards, and ended transactions count as replicated."""
        self.log.reload()
        self.ended = []
        self._expire()
        for producer in self.known.values():
            last_batch = producer.batches[-1:]
            marker = Sent(producer.epoch, -1, is_marker=True)
            producer.sent = [*last_batch, marker]

    @rule(ms=st.sampled_from([1, EXPIRATION_MS // 2, EXPIRATION_MS]))
    def wait(self, ms: int) -> None:
        self.log.clock.now += ms
        self.log.producers.remove_expired_producers(self.log.clock.now)
        self._expire()

    def _expire(self) -> None:
        now = self.log.clock.now
        for producer_id, producer in list(self.known.items()):
            if producer.open_since is None and now - producer.silent_since >= EXPIRATION_MS:
                del self.known[producer_id]

    @invariant()
    def the_log_knows_what_the_model_knows(self) -> None:
        assert set(self.log.producers.active_producers) == set(self.known)
        for producer_id, producer in self.known.items():
            state = self.log.producers.active_producers[producer_id]
            assert (state.producer_epoch, state.current_txn_first_offset) == (producer.epoch, producer.open_since)
            cached = [(batch.first_sequence, batch.last_sequence, batch.first_offset) for batch in state.batches]
            assert cached == [(batch.first_sequence, batch.last_sequence, batch.offset) for batch in producer.batches]

    @invariant()
    def the_first_unstable_offset_is_that_of_the_first_transaction_not_yet_ended_and_replicated(self) -> None:
        unstable = [producer.open_since for producer in self.known.values() if producer.open_since is not None]
        unstable += [first for first, _ in self.ended]
        first = self.log.producers.first_unstable_offset
        assert (None if first is None else first.offset) == min(unstable, default=None)


ProducerMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestProducersAgainstTheModel = ProducerMachine.TestCase


def as_stored(state: ProducerState) -> tuple[object, ...]:
    return (state.producer_epoch, state.coordinator_epoch, state.last_timestamp, state.current_txn_first_offset, *state.batches)


def test_entries_read_again_lead_to_the_same_state(log: Log) -> None:
    for sequence in range(7):
        log.append(data_batch(1, 0, sequence))
    log.append(data_batch(2, 0, 0, transactional=True, count=3))
    log.append(data_batch(3, 4, 0, transactional=True))
    log.end(3, 4, commit=False)
    log.append(data_batch(3, 5, 0, transactional=True))
    log.end(1, 2)
    again = log.new_producers()
    again.load_from_entries(log.entries())
    states = {producer_id: as_stored(state) for producer_id, state in again.active_producers.items()}
    assert states == {producer_id: as_stored(state) for producer_id, state in log.producers.active_producers.items()}
    assert again.first_undecided_offset == log.producers.first_undecided_offset == 7


def test_a_sequence_continues_with_0_after_the_largest(log: Log) -> None:
    log.append(data_batch(1, 0, MAX_SEQUENCE - 1, count=2))
    assert log.append(data_batch(1, 0, 0)) == 2


def test_a_batch_that_wraps_is_recognised(log: Log) -> None:
    log.append(data_batch(1, 0, MAX_SEQUENCE, count=4))
    assert log.append(data_batch(1, 0, MAX_SEQUENCE, count=4)) == 0
    assert log.producers.active_producers[1].last_sequence == 2


def test_the_sixth_batch_back_is_out_of_order(log: Log) -> None:
    for sequence in range(6):
        log.append(data_batch(1, 0, sequence))
    assert log.append(data_batch(1, 0, 1)) == 1
    with pytest.raises(OutOfOrderSequence):
        log.append(data_batch(1, 0, 0))


def test_a_transaction_needs_the_coordinators_word(tmp_path: Path) -> None:
    log = Log(tmp_path, verification=True)
    batch = data_batch(1, 0, 0, transactional=True)
    with pytest.raises(InvalidTxnState):
        log.append(batch)
    guard = start_verification(log.producers, 1, 0, 0, supports_epoch_bump=False)
    assert guard is not None
    log.append(batch, guard=guard)
    assert start_verification(log.producers, 1, 1, 0, supports_epoch_bump=False) is None, "the transaction is open now"
    log.append(data_batch(1, 0, 1, transactional=True))


def test_a_guard_is_void_after_a_marker(tmp_path: Path) -> None:
    log = Log(tmp_path, verification=True)
    guard = start_verification(log.producers, 1, 0, 0, supports_epoch_bump=False)
    log.end(1, 0, commit=False)
    with pytest.raises(InvalidTxnState):
        log.append(data_batch(1, 0, 0, transactional=True), guard=guard)


def test_with_transactions_v2_the_guard_outlives_the_marker_of_the_epoch_before(tmp_path: Path) -> None:
    log = Log(tmp_path, verification=True)
    log.append(
        data_batch(1, 0, 0, transactional=True), guard=start_verification(log.producers, 1, 0, 0, supports_epoch_bump=True)
    )
    guard = start_verification(log.producers, 1, 0, 1, supports_epoch_bump=True)
    log.end(1, 1, version=2)
    assert log.append(data_batch(1, 1, 0, transactional=True), guard=guard) == 2


def test_a_lower_sequence_that_waits_for_verification_blocks_the_ones_above(tmp_path: Path) -> None:
    log = Log(tmp_path, verification=True)
    start_verification(log.producers, 1, 3, 0, supports_epoch_bump=False)
    guard = start_verification(log.producers, 1, 5, 0, supports_epoch_bump=False)
    with pytest.raises(OutOfOrderSequence):
        log.append(data_batch(1, 0, 5, transactional=True), guard=guard)
    log.append(data_batch(1, 0, 3, count=2, transactional=True), guard=guard)


def test_with_transactions_v2_a_new_producer_begins_with_0(tmp_path: Path) -> None:
    log = Log(tmp_path, verification=True)
    guard = start_verification(log.producers, 1, 4, 0, supports_epoch_bump=True)
    with pytest.raises(OutOfOrderSequence):
        log.append(data_batch(1, 0, 4, transactional=True), guard=guard)


def test_a_lingering_verification_expires(tmp_path: Path) -> None:
    log = Log(tmp_path, verification=True)
    start_verification(log.producers, 1, 0, 0, supports_epoch_bump=False)
    log.clock.now += EXPIRATION_MS
    log.producers.remove_expired_producers(log.clock.now)
    assert log.producers.verification(1) is None


def test_a_follower_takes_what_its_leader_took(log: Log) -> None:
    log.append(data_batch(1, 5, 3, transactional=True), AppendOrigin.REPLICATION)
    log.append(data_batch(1, 5, 100, transactional=True), AppendOrigin.REPLICATION)
    log.append(data_batch(1, 4, 7, transactional=True), AppendOrigin.REPLICATION)
    assert log.producers.active_producers[1].producer_epoch == 4
    with pytest.raises(InvalidTxnState):
        log.append(data_batch(1, 4, 8), AppendOrigin.REPLICATION)


def test_a_coordinators_batch_has_no_sequence_to_check(log: Log) -> None:
    log.append(data_batch(1, 0, -1, transactional=True), AppendOrigin.COORDINATOR)
    log.append(data_batch(1, 0, -1, transactional=True), AppendOrigin.COORDINATOR)
    assert log.producers.first_undecided_offset == 0


def test_a_marker_needs_the_version_of_its_protocol(log: Log) -> None:
    with pytest.raises(InvalidArgument):
        log.end(1, 0, version=TRANSACTION_VERSION_UNKNOWN)


def test_the_last_stable_offset_of_a_marker_is_that_of_the_next_open_transaction(log: Log) -> None:
    log.append(data_batch(1, 0, 0, transactional=True))
    log.append(data_batch(2, 0, 0, transactional=True))
    assert log.producers.last_stable_offset(CompletedTransaction(1, 0, 2, is_aborted=True)) == 1
    assert log.producers.last_stable_offset(CompletedTransaction(2, 1, 2, is_aborted=True)) == 0
    log.end(2, 0)
    assert log.producers.last_stable_offset(CompletedTransaction(1, 0, 3, is_aborted=True)) == 4


def test_a_transaction_is_late_when_its_producer_is_silent_beyond_the_timeout(log: Log) -> None:
    log.append(data_batch(1, 0, 0, transactional=True))
    late = NOW + log.settings.max_transaction_timeout_ms + 5 * 60 * 1000
    assert not log.producers.has_late_transaction(late)
    assert log.producers.has_late_transaction(late + 1)


def test_completing_a_transaction_that_was_not_begun_is_refused(log: Log) -> None:
    with pytest.raises(InvalidArgument):
        log.producers.complete_transaction(CompletedTransaction(1, 0, 2, is_aborted=True))


def test_an_append_of_two_batches_is_checked_as_a_whole(log: Log) -> None:
    appends: NewestFirstMap[ProducerAppend] = NewestFirstMap()
    first, second = iter_entries(data_batch(1, 0, 0, count=2) + data_batch(1, 0, 2, offset=2))
    for entry in (first, second):
        log.producers.update_producers(entry, appends, None, AppendOrigin.CLIENT, TRANSACTION_VERSION_UNKNOWN)
    assert not log.producers.active_producers, "nothing is known before it is written"
    for append in appends:
        log.producers.update(append)
    assert [batch.last_sequence for batch in log.producers.active_producers[1].batches] == [1, 2]
