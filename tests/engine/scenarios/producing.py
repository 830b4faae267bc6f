"""Idempotent producers: sequences, duplicates, epochs, expiry, and their state across restarts, truncation and compaction."""

from __future__ import annotations

from .payloads import CLOSED_SEQUENCE, batch, empty, in_transaction, keyed, marker, produced, records
from .script import HOUR_MS, MINUTE_MS, START_MS, Script, scenario

OUT_OF_ORDER = "OutOfOrderSequenceException"
FENCED = "InvalidProducerEpochException"


@scenario
def sequences_have_to_follow_each_other(log: Script) -> None:
    log.open()
    log.append(produced(1, 1, 0, 0))
    log.append(produced(1, 1, 0, 1))
    log.append(produced(1, 1, 0, 1), gives={"firstOffset": 1})
    log.append(produced(1, 1, 0, 5), refused=OUT_OF_ORDER)
    log.append(produced(1, 1, 1, 0), gives={"firstOffset": 2})
    log.append(produced(1, 1, 0, 2), refused=FENCED)


@scenario
def a_new_producer_may_begin_anywhere_a_new_epoch_only_at_zero(log: Script) -> None:
    log.open()
    log.append(produced(1, 1, 0, 16))
    log.append(produced(1, 1, 1, 5), refused=OUT_OF_ORDER)
    log.append(produced(1, 1, 1, 0))
    log.append(produced(1, 2, 3, 7))


@scenario
def sequences_wrap_to_zero(log: Script) -> None:
    log.open()
    log.append(produced(1, 1, 0, CLOSED_SEQUENCE))
    log.append(produced(1, 1, 0, 0), gives={"firstOffset": 1})
    log.append(produced(1, 1, 0, 1))


@scenario
def a_batch_wraps_in_its_middle(log: Script) -> None:
    log.open()
    log.append(produced(20, 1, 0, CLOSED_SEQUENCE - 9))
    log.append(produced(1, 1, 0, 10), gives={"firstOffset": 20})
    log.append(produced(1, 1, 0, 10), gives={"firstOffset": 20})


@scenario
def a_wrap_that_comes_too_early_is_refused(log: Script) -> None:
    log.open()
    log.append(produced(1, 1, 0, CLOSED_SEQUENCE))
    log.append(produced(1, 1, 0, 1), refused=OUT_OF_ORDER)


@scenario
def the_last_five_batches_are_known_as_duplicates(log: Script) -> None:
    log.open()
    for number in range(6):
        log.append(produced(1, 1, 0, number), gives={"firstOffset": number})
    log.append(produced(3, 1, 0, 6), gives={"firstOffset": 6, "lastOffset": 8})
    log.append(produced(3, 1, 0, 6), gives={"firstOffset": 6, "lastOffset": 8})
    log.append(produced(2, 1, 0, 7), refused=OUT_OF_ORDER)
    log.append(produced(1, 1, 0, 2), gives={"firstOffset": 2})
    log.append(produced(1, 1, 0, 1), refused=OUT_OF_ORDER)
    log.append(produced(1, 1, 0, 9), gives={"firstOffset": 9})
    log.append(produced(1, 1, 0, 9), gives={"firstOffset": 9})
    log.state(logEndOffset=10)


@scenario
def an_old_epoch_is_fenced(log: Script) -> None:
    log.open()
    log.append(produced(1, 1, 1, 0))
    log.append(produced(1, 1, 0, 0), refused=FENCED)


@scenario
def plain_records_move_the_end_of_the_producer_state(log: Script) -> None:
    log.open()
    log.append(batch(1))
    log.roll()
    log.state(mapEndOffset=1, producers=[])


@scenario
def sequences_of_compacted_batches_are_those_of_their_headers(log: Script) -> None:
    log.open()
    kept = [records(1, first=23)[0], records(1, first=25)[0]]
    log.follow(batch(kept, base_offset=23, last_offset=26, producer_id=1, producer_epoch=0, base_sequence=0, leader_epoch=0))
    log.state()
    log.append(produced(1, 1, 0, 3), refused=OUT_OF_ORDER)
    log.append(produced(1, 1, 0, 4), gives={"firstOffset": 27})


@scenario
def truncation_rebuilds_producers_from_compacted_batches(log: Script) -> None:
    log.open()
    kept = [records(1, first=23)[0], records(1, first=25)[0]]
    log.follow(batch(kept, base_offset=23, last_offset=26, producer_id=1, producer_epoch=0, base_sequence=0, leader_epoch=0))
    log.follow(batch(2, first=27, leader_epoch=0))
    log.truncate(offset=27)
    log.append(produced(1, 1, 0, 4), gives={"firstOffset": 27})


@scenario
def truncation_rebuilds_producers_from_empty_batches(log: Script) -> None:
    log.open()
    log.follow(empty(23, 24, producer_id=1, producer_epoch=0, base_sequence=0))
    log.follow(batch(2, first=25, leader_epoch=0))
    log.truncate(offset=25)
    log.append(produced(1, 1, 0, 2), gives={"firstOffset": 25})


@scenario
def truncation_goes_back_to_the_snapshot_before_it(log: Script) -> None:
    log.open()
    for number in range(3):
        log.append(produced(1, 1, 0, number))
        log.roll()
    for offset in (2, 1, 0):
        log.truncate(offset=offset)
        log.state(mapEndOffset=offset)


@scenario
def truncation_rebuilds_producers_without_any_snapshot(log: Script) -> None:
    log.open()
    log.append(produced(1, 1, 0, 0))
    log.append(produced(1, 1, 0, 1))
    log.truncate(offset=1)
    log.append(produced(1, 1, 0, 1), gives={"firstOffset": 1})


@scenario
def full_truncation_forgets_producers_and_snapshots(log: Script) -> None:
    log.open({"segment.bytes": len(produced(1, 1, 0, 0))})
    for number in range(3):
        log.append(produced(1, 1, 0, number))
    log.ls()
    log.truncate_fully(offset=29)
    log.state(mapEndOffset=29, producers=[])
    log.append(produced(1, 1, 0, 0), gives={"firstOffset": 29})


@scenario
def each_roll_leaves_a_snapshot(log: Script) -> None:
    log.open()
    for number in range(3):
        log.append(produced(1, 1, 0, number))
        log.roll()
    log.append(produced(1, 1, 0, 3))
    log.flush()
    log.ls()


@scenario
def truncation_to_a_segments_start_loads_its_snapshot(log: Script) -> None:
    log.open({"segment.bytes": 1024})
    log.append(produced(records(1, size=512), 1, 0, 0))
    log.append(produced(records(1, size=512), 1, 0, 1), gives={"after": [0, 2, 0, 0, 2]})
    log.truncate(offset=1, gives={"after": [0, 1, 0, 0, 2]})
    log.state(mapEndOffset=1)


@scenario
def producers_expire_by_the_clock(log: Script) -> None:
    log.open(producer_id_expiration_ms=200, expiration_check_interval_ms=100)
    log.append(produced(1, 23, 0, 0))
    log.advance(100)
    log.append(produced(1, 24, 0, 0, at=START_MS + 100))
    log.advance(100)
    log.state()
    log.advance(100)
    log.state(producers=[])


@scenario
def a_producer_that_expired_may_begin_anywhere(log: Script) -> None:
    log.open(producer_id_expiration_ms=5000, expiration_check_interval_ms=1000)
    log.append(produced(1, 1, 0, 0))
    log.advance(4000)
    log.append(produced(1, 1, 0, 2, at=START_MS + 4000), refused=OUT_OF_ORDER)
    log.advance(2000)
    log.append(produced(1, 1, 0, 2, at=START_MS + 6000), gives={"firstOffset": 1})


@scenario
def expired_producers_are_not_loaded_from_a_snapshot(log: Script) -> None:
    log.open(producer_id_expiration_ms=5000)
    log.append(produced(1, 1, 0, 0))
    log.append(produced(1, 1, 0, 1))
    log.close()
    log.advance(10_000)
    log.open(producer_id_expiration_ms=5000)
    log.state(producers=[])
    log.append(produced(1, 1, 0, 2, at=START_MS + 10_000))


@scenario
def producers_that_are_still_young_are_loaded(log: Script) -> None:
    log.open(producer_id_expiration_ms=HOUR_MS)
    log.append(produced(1, 1, 0, 0))
    log.append(produced(1, 2, 0, 0))
    log.close()
    log.advance(MINUTE_MS)
    log.open(producer_id_expiration_ms=HOUR_MS)
    log.append(produced(1, 1, 0, 1), gives={"firstOffset": 2})
    log.append(produced(1, 2, 0, 1), gives={"firstOffset": 3})


@scenario
def a_replica_takes_what_its_producer_state_does_not_explain(log: Script) -> None:
    log.open(producer_id_expiration_ms=5000)
    log.follow(produced(1, 1, 0, 0, leader_epoch=0))
    log.advance(700_000)
    log.follow(produced(records(1, first=1, at=START_MS + 700_000), 1, 0, 1, leader_epoch=0))
    log.follow(produced(records(1, first=2, at=START_MS + 700_000), 1, 0, 9, leader_epoch=0), gives={"after": [0, 3, 0, 0, 1]})
    log.state()


@scenario
def loading_accepts_a_producers_first_batch_whatever_it_is(log: Script) -> None:
    log.open()
    log.follow(produced(1, 1, 5, 40, leader_epoch=0))
    log.roll()
    log.crash()
    log.append(produced(1, 1, 5, 41), gives={"firstOffset": 1})
    log.append(produced(1, 1, 5, 43), refused=OUT_OF_ORDER)


@scenario
def a_reload_remembers_one_batch_of_each_producer(log: Script) -> None:
    log.open()
    for number in range(4):
        log.append(produced(1, 1, 0, number))
    log.reopen()
    log.append(produced(1, 1, 0, 3), gives={"firstOffset": 3})
    log.append(produced(1, 1, 0, 2), refused=OUT_OF_ORDER)
    log.append(produced(1, 1, 0, 4), gives={"firstOffset": 4})


@scenario
def snapshots_behind_the_end_go_on_truncation(log: Script) -> None:
    log.open()
    for number in range(5):
        log.append(produced(1, 1, 0, number))
        log.roll()
    log.truncate(offset=3)
    log.ls()
    log.state(mapEndOffset=3)


@scenario
def one_snapshot_is_enough_while_nothing_is_written(log: Script) -> None:
    log.open()
    log.append(produced(1, 1, 0, 0))
    log.roll()
    log.ls()
    log.roll()
    log.reopen()
    log.reopen()
    log.ls()


@scenario
def a_snapshot_may_hold_no_producers(log: Script) -> None:
    log.open()
    log.append(batch(2))
    log.roll()
    log.ls()
    log.reopen()
    log.state(producers=[], mapEndOffset=2)


@scenario
def a_damaged_snapshot_is_passed_over(log: Script) -> None:
    for change in ({"truncate_to": 0}, {"truncate_by": 7}, {"xor": [4, 255]}, {"xor": [-1, 255]}):
        if log.operations:
            log.truncate_fully(offset=0)
        else:
            log.open()
        log.append(produced(1, 1, 0, 0))
        log.roll()
        log.append(produced(1, 1, 0, 1))
        log.roll()
        log.append(produced(1, 1, 0, 2))
        log.close(clean=False)
        log.damage("00000000000000000002.snapshot", **change)
        log.open(recovery_point=3)
        log.state(mapEndOffset=3)
        log.append(produced(1, 1, 0, 3), gives={"firstOffset": 3})


@scenario
def sequences_of_the_coordinator_are_not_looked_at(log: Script) -> None:
    log.open()
    log.append(in_transaction(1, 1, 0, 0), origin="coordinator", verify="start")
    log.append(in_transaction(1, 1, 0, 7), origin="coordinator", verify="start")
    log.end_transaction(1, 0)
    log.append(in_transaction(1, 1, 1, 3), origin="coordinator", verify="start")
    log.append(in_transaction(1, 1, 0, 0), origin="coordinator", verify="start", refused=FENCED)
    log.state()


@scenario
def many_producers_keep_their_order_in_a_snapshot(log: Script) -> None:
    log.open()
    for number in range(40):
        log.append(produced(1, (number * 7919) % 4096 + (number % 3 << 33), 0, 0))
    log.roll()
    log.reopen()
    log.roll()
    log.ls()


@scenario
def an_epoch_may_rise_again_and_again(log: Script) -> None:
    log.open()
    for epoch in range(3):
        log.append(produced(2, 1, epoch, 0))
        log.append(produced(1, 1, epoch, 2))
    log.append(produced(1, 1, 2, 2), gives={"firstOffset": 8})
    log.append(produced(1, 1, 1, 3), refused=FENCED)
    log.reopen()
    log.append(produced(1, 1, 1, 3), refused=FENCED)
    log.append(produced(1, 1, 2, 3), gives={"firstOffset": 9})


@scenario
def a_duplicate_across_a_roll_is_still_one(log: Script) -> None:
    log.open({"segment.bytes": len(produced(1, 1, 0, 0))})
    for number in range(4):
        log.append(produced(1, 1, 0, number))
    log.append(produced(1, 1, 0, 1), gives={"firstOffset": 1, "after": [0, 4, 0, 0, 5]})


@scenario
def a_marker_counts_as_a_sign_of_life(log: Script) -> None:
    log.open(producer_id_expiration_ms=5000, expiration_check_interval_ms=1000)
    log.transactional(in_transaction(1, 1, 0, 0))
    log.advance(4000)
    log.end_transaction(1, 0)
    log.advance(4000)
    log.state()
    log.advance(2000)
    log.state(producers=[])


@scenario
def producers_of_open_transactions_do_not_expire(log: Script) -> None:
    log.open(producer_id_expiration_ms=5000, expiration_check_interval_ms=1000)
    log.transactional(in_transaction(1, 1, 0, 0))
    log.append(produced(1, 2, 0, 0))
    log.advance(60_000)
    log.state(firstUnstableOffset=0)
    log.end_transaction(1, 0)
    log.advance(6000)
    log.state(producers=[])


@scenario
def keyed_records_of_producers_are_kept_by_key_and_sequence(log: Script) -> None:
    log.open({"cleanup.policy": "compact"})
    log.append(produced(keyed((b"a", b"1"), (b"b", b"1")), 1, 0, 0))
    log.append(produced(keyed((b"a", b"2")), 1, 0, 2))
    log.roll()
    log.append(produced(keyed((b"c", b"1")), 2, 0, 0))
    log.high_watermark(4)
    log.advance(HOUR_MS)
    log.clean()
    log.read(0)
    log.append(produced(keyed((b"d", b"1")), 1, 0, 3), gives={"firstOffset": 4})
    log.append(produced(keyed((b"d", b"1")), 1, 0, 3), gives={"firstOffset": 4})


@scenario
def markers_from_the_leader_end_transactions_here_too(log: Script) -> None:
    log.open()
    log.follow(in_transaction(2, 1, 0, 0, leader_epoch=0))
    log.state(firstUnstableOffset=0)
    log.follow(marker(1, 0, commit=True, offset=2, coordinator_epoch=3))
    log.high_watermark(3)
    log.state(firstUnstableOffset=-1)
