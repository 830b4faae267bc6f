"""Transactions: first unstable and last stable offset, markers, fencing, verification guards, aborted transactions."""

from __future__ import annotations

from .payloads import batch, empty, in_transaction, marker, produced, records
from .script import HOUR_MS, START_MS, Script, scenario

FENCED = "InvalidProducerEpochException"
COORDINATOR_FENCED = "TransactionCoordinatorFencedException"
INVALID_STATE = "InvalidTxnStateException"


@scenario
def plain_records_are_stable_at_once(log: Script) -> None:
    log.open()
    log.append(batch(3))
    log.state(firstUnstableOffset=-1)
    log.high_watermark(3)
    log.state(lastStableOffset=3)


@scenario
def a_transaction_is_unstable_until_its_marker_is_replicated(log: Script) -> None:
    log.open()
    log.transactional(in_transaction(3, 137, 5, 0))
    log.state(firstUnstableOffset=0)
    log.transactional(in_transaction(1, 137, 5, 3))
    log.state(firstUnstableOffset=0)
    log.end_transaction(137, 5)
    log.state(firstUnstableOffset=0)
    log.high_watermark(5)
    log.state(firstUnstableOffset=-1, lastStableOffset=5)


@scenario
def the_state_of_a_producer_follows_its_transaction(log: Script) -> None:
    log.open()
    log.transactional(in_transaction(5, 1, 5, 0))
    log.state()
    log.end_transaction(1, 5, coordinator_epoch=15)
    log.append(produced(3, 2, 5, 0))
    log.state()


INTERLEAVED = (
    (1, 5), (0, 3), (2, 2), (1, 4), (3, 3), (0, 2), (1, 10), "abort 1", (2, 6), (4, 3), (0, 10), (3, 9), "commit 3",
    (4, 8), (2, 7), "abort 2", (0, 10), (4, 4), "commit 4",
)  # fmt: skip


def _after_interleaved(log: Script) -> None:
    """The first and second transaction aborted; each step of the high watermark frees one more."""
    log.high_watermark(30)
    log.state(firstUnstableOffset=8)
    log.high_watermark(75)
    log.state(firstUnstableOffset=36)
    log.high_watermark(90)
    log.state(firstUnstableOffset=-1)
    log.read(0, "committed", gives={"aborted": [[1, 0], [2, 8]]})
    log.read(80, "committed", gives={"aborted": []})


@scenario
def aborted_transactions_are_indexed_as_they_end(log: Script) -> None:
    log.open()
    sequences = [0] * 5
    for step in INTERLEAVED:
        if isinstance(step, str):
            outcome, who = step.split()
            log.end_transaction(int(who), 0, commit=outcome == "commit")
            continue
        producer, size = step
        if producer:
            log.transactional(in_transaction(size, producer, 0, sequences[producer]))
            sequences[producer] += size
        else:
            log.append(batch(size))
    _after_interleaved(log)


@scenario
def aborted_transactions_of_replicated_batches_are_indexed(log: Script) -> None:
    log.open()
    payload, offset, sequences = b"", 0, [0] * 5
    for step in INTERLEAVED:
        if isinstance(step, str):
            outcome, who = step.split()
            payload += marker(int(who), 0, commit=outcome == "commit", offset=offset)
            offset += 1
            continue
        producer, size = step
        content = records(size, first=offset)
        if producer:
            payload += in_transaction(content, producer, 0, sequences[producer], leader_epoch=0)
            sequences[producer] += size
        else:
            payload += batch(content, leader_epoch=0)
        offset += size
    log.follow(payload, gives={"after": [0, 90, 0, 0, 1]})
    _after_interleaved(log)


@scenario
def an_old_coordinator_is_fenced(log: Script) -> None:
    log.open()
    log.transactional(in_transaction(10, 1, 0, 0))
    log.end_transaction(1, 0, commit=False, coordinator_epoch=1)
    log.transactional(in_transaction(5, 1, 0, 10))
    log.end_transaction(1, 0, coordinator_epoch=2)
    log.end_transaction(1, 0, commit=False, coordinator_epoch=1, refused=COORDINATOR_FENCED)


@scenario
def an_old_coordinator_is_fenced_without_any_data(log: Script) -> None:
    log.open()
    log.follow(in_transaction(10, 1, 0, 0, leader_epoch=1) + marker(1, 0, commit=True, offset=10, leader_epoch=1), leader_epoch=1)
    log.end_transaction(1, 0, commit=False, coordinator_epoch=2, leader_epoch=1)
    log.end_transaction(1, 0, commit=False, coordinator_epoch=2, leader_epoch=1)
    log.end_transaction(1, 0, commit=False, coordinator_epoch=1, leader_epoch=1, refused=COORDINATOR_FENCED)


@scenario
def an_old_coordinator_is_fenced_after_a_restart(log: Script) -> None:
    log.open()
    log.transactional(in_transaction(1, 1, 0, 0))
    log.end_transaction(1, 0, commit=False, coordinator_epoch=1)
    log.transactional(in_transaction(1, 1, 0, 1))
    log.end_transaction(1, 0, coordinator_epoch=2)
    log.reopen()
    log.transactional(in_transaction(1, 1, 0, 2))
    log.end_transaction(1, 0, coordinator_epoch=1, refused=COORDINATOR_FENCED)
    log.end_transaction(1, 0, coordinator_epoch=2)


@scenario
def a_marker_of_an_old_epoch_is_refused(log: Script) -> None:
    log.open()
    log.end_transaction(1, 5, commit=False, coordinator_epoch=1)
    log.end_transaction(1, 4, commit=False, coordinator_epoch=1, refused=FENCED)


@scenario
def a_marker_may_come_from_a_producer_nobody_knows(log: Script) -> None:
    log.open()
    log.end_transaction(1, 2, commit=False, coordinator_epoch=27)
    log.state(firstUnstableOffset=-1)
    log.append(produced(1, 1, 2, 7), refused="OutOfOrderSequenceException")
    log.append(produced(1, 1, 1, 0), refused=FENCED)
    log.append(produced(1, 1, 2, 0), gives={"firstOffset": 1})


@scenario
def a_marker_can_raise_the_epoch(log: Script) -> None:
    log.open()
    log.append(produced(1, 1, 1, 5))
    log.end_transaction(1, 2, commit=False, coordinator_epoch=0)
    log.append(produced(1, 1, 1, 6), refused=FENCED)
    log.append(produced(1, 1, 2, 17), refused="OutOfOrderSequenceException")
    log.append(produced(1, 1, 2, 0), gives={"firstOffset": 2})


@scenario
def a_plain_batch_inside_a_transaction_is_refused(log: Script) -> None:
    log.open()
    log.transactional(in_transaction(1, 1, 2, 0))
    log.append(produced(1, 1, 2, 1), refused=INVALID_STATE)
    log.end_transaction(1, 2)
    log.append(produced(1, 1, 2, 1))


@scenario
def a_transaction_over_segments_is_found_when_read(log: Script) -> None:
    log.open({"segment.bytes": len(in_transaction(3, 137, 5, 0))})
    log.transactional(in_transaction(3, 137, 5, 0))
    log.transactional(in_transaction(3, 137, 5, 3), gives={"after": [0, 6, 0, 0, 2]})
    log.end_transaction(137, 5, commit=False)
    log.high_watermark(7)
    log.state(firstUnstableOffset=-1)
    log.read(0, "committed", max=2048, gives={"aborted": [[137, 0]]})
    log.read(3, "committed", max=2048, gives={"aborted": [[137, 0]]})


@scenario
def stability_waits_for_the_oldest_of_several_transactions(log: Script) -> None:
    log.open()
    log.transactional(in_transaction(3, 137, 5, 0))
    log.append(batch(3))
    log.transactional(in_transaction(3, 983, 5, 0))
    log.state(firstUnstableOffset=0)
    log.end_transaction(137, 5, commit=False)
    log.high_watermark(10)
    log.state(firstUnstableOffset=6)
    log.end_transaction(983, 5)
    log.high_watermark(11)
    log.state(firstUnstableOffset=-1)


@scenario
def the_log_start_can_pass_the_begin_of_a_transaction(log: Script) -> None:
    log.open()
    log.transactional(in_transaction(5, 1, 0, 0))
    log.append(batch(3))
    log.roll()
    log.transactional(in_transaction(5, 1, 0, 5))
    log.high_watermark(13)
    log.delete_records(offset=5, gives={"moved": True})
    log.state(firstUnstableOffset=5)


@scenario
def retention_can_pass_the_begin_of_a_transaction(log: Script) -> None:
    log.open()
    log.transactional(in_transaction(5, 1, 0, 0))
    log.append(batch(3))
    log.roll()
    log.transactional(in_transaction(5, 1, 0, 5))
    log.high_watermark(13)
    log.delete_records(offset=8, gives={"moved": True})
    log.retention(gives={"deleted": 1})
    log.state(firstUnstableOffset=8)


@scenario
def transactions_are_rebuilt_after_a_crash(log: Script) -> None:
    log.open()
    log.transactional(in_transaction(3, 137, 5, 0))
    log.end_transaction(137, 5, commit=False)
    log.high_watermark(4)
    log.crash()
    log.high_watermark(4)
    log.state(firstUnstableOffset=-1)
    log.read(0, "committed", gives={"aborted": [[137, 0]]})


@scenario
def open_transactions_are_rebuilt_after_a_crash(log: Script) -> None:
    log.open()
    log.append(batch(2))
    log.transactional(in_transaction(3, 137, 5, 0))
    log.roll()
    log.transactional(in_transaction(2, 138, 0, 0))
    log.crash()
    log.high_watermark(7)
    log.state(firstUnstableOffset=2, lastStableOffset=2)
    log.transactional(in_transaction(1, 137, 5, 3))
    log.end_transaction(137, 5, commit=False)
    log.high_watermark(9)
    log.state(firstUnstableOffset=5)


@scenario
def a_finished_transaction_survives_in_a_snapshot(log: Script) -> None:
    log.open()
    log.transactional(in_transaction(1, 1, 0, 0))
    log.transactional(in_transaction(1, 1, 0, 1))
    log.end_transaction(1, 0, commit=False)
    log.reopen()
    log.high_watermark(3)
    log.state(firstUnstableOffset=-1)
    log.transactional(in_transaction(1, 1, 0, 2), gives={"firstOffset": 3})


@scenario
def an_unfinished_transaction_survives_in_a_snapshot(log: Script) -> None:
    log.open()
    log.append(batch(1))
    log.transactional(in_transaction(1, 1, 0, 0))
    log.transactional(in_transaction(1, 1, 0, 1))
    log.reopen()
    log.state(firstUnstableOffset=1)
    log.append(in_transaction(1, 1, 0, 2), gives={"firstOffset": 3})
    log.end_transaction(1, 0)
    log.high_watermark(5)
    log.state(firstUnstableOffset=-1)


@scenario
def an_empty_transaction_survives_in_a_snapshot(log: Script) -> None:
    log.open()
    log.end_transaction(1, 0, commit=False, coordinator_epoch=3)
    log.reopen()
    log.state(firstUnstableOffset=-1)
    log.end_transaction(1, 0, commit=False, coordinator_epoch=2, refused=COORDINATOR_FENCED)


@scenario
def truncation_opens_a_transaction_again(log: Script) -> None:
    log.open()
    log.transactional(in_transaction(2, 1, 0, 0))
    log.transactional(in_transaction(2, 2, 0, 0))
    log.end_transaction(1, 0)
    log.end_transaction(2, 0)
    log.high_watermark(6)
    log.state(firstUnstableOffset=-1)
    log.truncate(offset=5)
    log.state(firstUnstableOffset=2)
    log.truncate(offset=4)
    log.state(firstUnstableOffset=0)
    log.truncate(offset=2)
    log.state(firstUnstableOffset=0)


@scenario
def truncation_shortens_the_transaction_index(log: Script) -> None:
    log.open()
    for number, producer in enumerate(range(1, 5)):
        log.transactional(in_transaction(1, producer, 0, 0), gives={"firstOffset": 2 * number})
        log.end_transaction(producer, 0, commit=False)
    log.high_watermark(8)
    log.truncate(offset=5)
    log.read(0, "committed", gives={"aborted": [[1, 0], [2, 2]]})
    log.truncate(offset=0)
    log.state(producers=[])


@scenario
def transactions_without_data_leave_no_trace_in_the_index(log: Script) -> None:
    log.open()
    log.transactional(in_transaction(1, 1, 0, 0))
    log.end_transaction(1, 0, commit=False)
    log.end_transaction(1, 0, commit=False)
    log.end_transaction(2, 0, commit=False)
    log.high_watermark(4)
    log.read(0, "committed", gives={"aborted": [[1, 0]]})


@scenario
def a_batch_without_a_guard_is_refused_until_its_transaction_runs(log: Script) -> None:
    log.open()
    log.append(in_transaction(2, 23, 1, 4), refused=INVALID_STATE)
    log.append(in_transaction(2, 23, 1, 4), verify="start", gives={"guard": True})
    log.append(in_transaction(2, 23, 1, 6), verify="start", gives={"guard": False})
    log.append(in_transaction(2, 23, 1, 8))
    log.end_transaction(23, 1)
    log.append(in_transaction(2, 23, 1, 10), refused=INVALID_STATE)


@scenario
def a_guard_is_used_up_by_the_transaction(log: Script) -> None:
    log.open()
    log.append(produced(2, 23, 1, 3))
    log.append(in_transaction(2, 23, 1, 5), verify="start", verify_only=True, gives={"guard": True})
    log.append(in_transaction(2, 23, 1, 5), verify="reuse")
    log.end_transaction(23, 1)
    log.append(in_transaction(2, 23, 1, 7), verify="reuse", refused=INVALID_STATE)
    log.append(in_transaction(2, 23, 1, 7), verify="start", gives={"guard": True})


@scenario
def plain_batches_leave_a_guard_alone(log: Script) -> None:
    log.open()
    log.append(in_transaction(2, 23, 1, 3), verify="start", verify_only=True, gives={"guard": True})
    log.append(produced(2, 23, 1, 3))
    log.append(in_transaction(2, 23, 1, 5), verify="reuse", refused="OutOfOrderSequenceException")


@scenario
def a_guard_works_for_the_coordinator_too(log: Script) -> None:
    log.open()
    log.append(in_transaction(2, 23, 1, 0), origin="coordinator", refused=INVALID_STATE)
    log.append(in_transaction(2, 23, 1, 0), origin="coordinator", verify="start", gives={"guard": True})
    log.append(in_transaction(2, 23, 1, 0), origin="coordinator", verify="start", gives={"guard": False})
    log.end_transaction(23, 1)


@scenario
def a_marker_takes_the_guard_away(log: Script) -> None:
    log.open()
    log.append(in_transaction(1, 23, 1, 0), verify="start", verify_only=True, gives={"guard": True})
    log.end_transaction(23, 1)
    log.append(in_transaction(1, 23, 1, 0), verify="reuse", refused=INVALID_STATE)


@scenario
def without_verification_no_guard_is_needed(log: Script) -> None:
    log.open(transaction_verification=False)
    log.append(in_transaction(2, 23, 1, 0), gives={"firstOffset": 0})
    log.append(in_transaction(2, 23, 1, 2))
    log.end_transaction(23, 1)
    log.append(in_transaction(1, 23, 1, 4))


@scenario
def verification_switched_on_asks_for_a_guard(log: Script) -> None:
    log.open(transaction_verification=False)
    log.append(in_transaction(2, 23, 1, 0))
    log.end_transaction(23, 1)
    log.reopen(transaction_verification=True)
    log.append(in_transaction(2, 23, 1, 2), refused=INVALID_STATE)
    log.append(in_transaction(2, 23, 1, 2), verify="start", gives={"guard": True})


@scenario
def a_first_batch_under_a_guard_may_begin_anywhere_in_a_later_epoch(log: Script) -> None:
    log.open()
    log.append(in_transaction(2, 23, 1, 3), verify="start", gives={"firstOffset": 0})


@scenario
def a_guard_remembers_the_lowest_sequence_that_asked(log: Script) -> None:
    log.open()
    log.append(in_transaction(1, 23, 0, 3), verify="start", verify_only=True)
    log.append(in_transaction(1, 23, 0, 0), verify="start", verify_only=True)
    log.append(in_transaction(1, 23, 0, 3), verify="reuse", refused="OutOfOrderSequenceException")
    log.append(in_transaction(1, 23, 0, 0), verify="reuse", gives={"firstOffset": 0})


@scenario
def a_guard_expires_with_its_producer(log: Script) -> None:
    log.open(producer_id_expiration_ms=5000, expiration_check_interval_ms=1000)
    log.append(in_transaction(1, 23, 0, 0), verify="start", verify_only=True)
    log.advance(6000)
    log.append(in_transaction(records(1, at=START_MS + 6000), 23, 0, 0), verify="reuse", refused=INVALID_STATE)


@scenario
def an_epoch_raised_by_the_second_version_of_transactions(log: Script) -> None:
    log.open()
    log.append(in_transaction(1, 23, 0, 0), verify="start_v2")
    log.end_transaction(23, 1, tv=2)
    log.append(in_transaction(1, 23, 1, 0), verify="start_v2")
    log.end_transaction(23, 1, tv=2, refused=FENCED)
    log.end_transaction(23, 2, tv=2, commit=False)
    log.append(in_transaction(1, 23, 1, 0), verify="start_v2", refused=FENCED)
    log.append(in_transaction(1, 23, 2, 4), verify="start_v2", refused="OutOfOrderSequenceException")
    log.high_watermark(4)
    log.state(firstUnstableOffset=-1)


@scenario
def an_empty_control_batch_from_the_leader_changes_no_transaction(log: Script) -> None:
    log.open()
    log.follow(in_transaction(2, 1, 0, 0, leader_epoch=0))
    log.follow(empty(2, 2, transactional=True, control=True, producer_id=1, producer_epoch=0))
    log.state(firstUnstableOffset=0)
    log.follow(empty(3, 3, transactional=True, control=True, producer_id=2, producer_epoch=4))
    log.state()


@scenario
def markers_are_stamped_by_the_log(log: Script) -> None:
    log.open({"message.timestamp.type": "LogAppendTime"})
    log.transactional(in_transaction(1, 1, 0, 0))
    log.advance(77)
    log.end_transaction(1, 0, gives={"logAppendTime": START_MS + 77})
    log.offset_for_time(ms=-3)


@scenario
def a_late_transaction_holds_the_stable_offset(log: Script) -> None:
    log.open(max_txn_timeout_ms=900_000)
    log.transactional(in_transaction(1, 39, 2, 0))
    log.append(batch(3))
    log.high_watermark(4)
    log.advance(HOUR_MS)
    log.state(lastStableOffset=0)
    log.end_transaction(39, 2, commit=False)
    log.high_watermark(5)
    log.state(lastStableOffset=5)


@scenario
def a_fencing_abort_ends_the_transaction_of_the_old_epoch(log: Script) -> None:
    log.open()
    log.transactional(in_transaction(1, 1, 0, 0))
    log.end_transaction(1, 1, commit=False)
    log.high_watermark(2)
    log.state(firstUnstableOffset=-1)
    log.reopen()
    log.append(in_transaction(1, 1, 0, 1), verify="start", refused=FENCED)
    log.transactional(in_transaction(1, 1, 1, 0), gives={"firstOffset": 2})


@scenario
def markers_of_the_coordinator_may_not_come_from_clients(log: Script) -> None:
    log.open()
    log.append(marker(1, 0, commit=True, offset=0), refused="InvalidRecordException")
    log.append(marker(1, 0, commit=True, offset=0), origin="coordinator", tv=1, gives={"firstOffset": 0})


@scenario
def non_monotonic_coordinator_epochs_in_a_log_are_loaded(log: Script) -> None:
    log.open()
    for number, coordinator_epoch in enumerate((5, 2)):
        log.follow(in_transaction(1, 1, 0, number, first=2 * number, leader_epoch=0))
        log.follow(marker(1, 0, commit=True, offset=2 * number + 1, coordinator_epoch=coordinator_epoch))
    log.crash()
    log.state(firstUnstableOffset=-1)
    log.close(clean=False)
    log.damage("00000000000000000000.index", delete=True)
    log.open()
