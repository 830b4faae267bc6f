"""Appends as leader and follower, rolling, truncation, leader epochs, the high watermark."""

from __future__ import annotations

from .payloads import GZIP, LZ4, batch, empty, in_transaction, messages, produced, records
from .script import HOUR_MS, MINUTE_MS, START_MS, Script, scenario

ONE_RECORD = len(batch(1))
TEN_PER_SEGMENT = {"segment.bytes": 10 * ONE_RECORD}


def fill(log: Script, count: int, **fields: int) -> None:
    """Batches of one record each."""
    for _ in range(count):
        log.append(batch(1), **fields)


@scenario
def a_raft_leader_assigns_offsets_itself(log: Script) -> None:
    log.open()
    log.append(batch(3, first=0, leader_epoch=0), origin="raft_leader", gives={"after": [0, 3, 0, 0, 1]})
    log.append(batch(3, first=1, leader_epoch=0), origin="raft_leader", refused="UnexpectedAppendOffsetException")
    log.append(batch(3, first=3, leader_epoch=0), origin="raft_leader", gives={"after": [0, 6, 0, 0, 1]})


@scenario
def an_append_says_its_first_offset(log: Script) -> None:
    log.open()
    log.append(batch(3), gives={"firstOffset": 0, "lastOffset": 2})
    log.append(batch(3), gives={"firstOffset": 3, "lastOffset": 5})
    log.roll()
    log.append(batch(3), gives={"firstOffset": 6, "lastOffset": 8})


@scenario
def truncation_below_an_open_transaction_forgets_it(log: Script) -> None:
    log.open()
    log.append(batch(3))
    log.transactional(in_transaction(2, 17, 10, 0))
    log.state(firstUnstableOffset=3)
    log.reopen()
    log.state(firstUnstableOffset=3)
    log.truncate(offset=0)
    log.state(firstUnstableOffset=-1, producers=[])


@scenario
def full_truncation_below_an_open_transaction_forgets_it(log: Script) -> None:
    log.open()
    log.append(batch(3))
    log.transactional(in_transaction(2, 17, 10, 0))
    log.reopen()
    log.truncate_fully(offset=0)
    log.state(firstUnstableOffset=-1, producers=[], logStartOffset=0, logEndOffset=0)


@scenario
def full_truncation_can_keep_an_earlier_log_start(log: Script) -> None:
    log.open()
    log.append(batch(3))
    log.transactional(in_transaction(2, 17, 10, 0))
    log.reopen()
    log.truncate_fully(offset=2, log_start=1)
    log.state(firstUnstableOffset=-1, producers=[], logStartOffset=1, logEndOffset=2)


@scenario
def the_high_watermark_follows_truncation_and_stays_within_the_log(log: Script) -> None:
    log.open()
    log.append(batch(3), gives={"after": [0, 3, 0, 0, 1]})
    log.high_watermark(1, hw_set=1)
    log.high_watermark(5, hw_set=3)
    log.follow(batch(3, first=3, leader_epoch=0))
    log.high_watermark(6, hw_set=6)
    log.truncate(offset=3, gives={"after": [0, 3, 3, 3, 1]})
    log.append(batch(3), gives={"after": [0, 6, 3, 3, 1]})
    log.truncate_fully(offset=4, gives={"after": [4, 4, 4, 4, 1]})


@scenario
def a_roll_moves_nothing_but_the_active_segment(log: Script) -> None:
    log.open()
    log.append(batch(3))
    log.read(0, "uncommitted", min_one=False, gives={"size": 0})
    log.high_watermark(3)
    log.read(0, "uncommitted", min_one=False, gives={"batches": [[0, 2]]})
    log.roll(gives={"base": 3})
    log.read(0, "uncommitted", min_one=False, gives={"batches": [[0, 2]]})
    log.append(batch(3))
    log.read(3, "uncommitted", min_one=False, gives={"size": 0})


@scenario
def a_segment_rolls_when_its_first_record_is_old_enough(log: Script) -> None:
    log.open({"segment.ms": HOUR_MS})
    log.append(batch(1), gives={"after": [0, 1, 0, 0, 1]})
    log.advance(HOUR_MS + 1)
    log.append(batch(1, at=START_MS + HOUR_MS + 1), gives={"after": [0, 2, 0, 0, 2]})
    log.append(batch(1, at=START_MS + HOUR_MS + 1), gives={"after": [0, 3, 0, 0, 2]})
    log.append(batch(1, at=START_MS), gives={"after": [0, 4, 0, 0, 2]})
    log.advance(HOUR_MS)
    log.append(batch(1, at=START_MS + HOUR_MS + 1 + HOUR_MS), gives={"after": [0, 5, 0, 0, 2]})
    log.append(batch(1, at=START_MS + HOUR_MS + 2 + HOUR_MS), gives={"after": [0, 6, 0, 0, 3]})


@scenario
def a_segment_without_timestamps_rolls_by_the_clock(log: Script) -> None:
    log.open({"segment.ms": HOUR_MS})
    log.follow(messages(0, 1))
    log.advance(HOUR_MS + 1)
    log.follow(messages(0, 1, first=1), gives={"after": [0, 2, 0, 0, 2]})
    log.follow(messages(0, 1, first=2), gives={"after": [0, 3, 0, 0, 2]})


@scenario
def a_quiet_log_rolls_by_the_time_of_what_comes_next(log: Script) -> None:
    log.open({"segment.ms": HOUR_MS})
    log.advance(HOUR_MS + 1)
    log.append(batch(1, at=START_MS + HOUR_MS + 1), gives={"after": [0, 1, 0, 0, 1]})
    log.advance(HOUR_MS + 1)
    log.append(batch(1, at=START_MS + HOUR_MS + 1), gives={"after": [0, 2, 0, 0, 1]})


@scenario
def an_empty_active_segment_is_rolled_in_place(log: Script) -> None:
    log.open()
    log.roll(gives={"base": 0, "after": [0, 0, 0, 0, 1]})
    log.append(batch(1))
    log.roll(gives={"base": 1})
    log.roll(gives={"base": 1, "after": [0, 1, 0, 0, 2]})
    log.append(batch(1), gives={"firstOffset": 1})


@scenario
def a_follower_keeps_gaps_between_offsets(log: Script) -> None:
    log.open({"segment.bytes": ONE_RECORD * 3})
    for offset in (0, 1, 2, 3, 10, 17, 24, 31, 38):
        log.follow(batch(1, first=offset, leader_epoch=0))
    for offset, found in ((4, 10), (10, 10), (11, 17), (30, 31), (38, 38)):
        log.read(offset, max=1, gives={"batches": [[found, found]]})


@scenario
def a_follower_refuses_offsets_out_of_order(log: Script) -> None:
    log.open()
    payload = b"".join(batch(1, first=offset, leader_epoch=0) for offset in (0, 1, 3, 2, 4))
    log.follow(payload, refused="OffsetsOutOfOrderException")
    log.state(logEndOffset=0)


@scenario
def a_follower_refuses_what_lies_before_its_end(log: Script) -> None:
    log.open()
    fill(log, 2)
    for magic in (0, 1):
        log.follow(messages(magic, 1, first=1), refused="UnexpectedAppendOffsetException")
        log.follow(messages(magic, 1, first=1, codec=LZ4), refused="UnexpectedAppendOffsetException")
    log.follow(batch(1, first=1, leader_epoch=0), refused="UnexpectedAppendOffsetException")
    log.follow(batch(1, first=1, leader_epoch=0, codec=LZ4), refused="UnexpectedAppendOffsetException")
    log.state(logEndOffset=2)


@scenario
def an_empty_log_refuses_what_lies_before_its_start(log: Script) -> None:
    log.open()
    log.truncate_fully(offset=7, gives={"after": [7, 7, 7, 7, 1]})
    for magic in (0, 1):
        log.follow(messages(magic, 3, first=4), refused="UnexpectedAppendOffsetException")
        log.follow(messages(magic, 3, first=4, codec=LZ4), refused="UnexpectedAppendOffsetException")
    log.follow(batch(3, first=4, leader_epoch=0), refused="UnexpectedAppendOffsetException")
    log.follow(batch(3, first=4, leader_epoch=0, codec=LZ4), refused="UnexpectedAppendOffsetException")
    log.follow(batch(3, first=9, leader_epoch=0), gives={"after": [7, 12, 7, 7, 1]})


@scenario
def a_follower_takes_any_mixture_of_producers_in_one_call(log: Script) -> None:
    log.open()
    log.follow(b"".join(produced(1, number + 1, 0, 0, first=number, leader_epoch=0) for number in range(4)))
    log.flush()
    log.read(0, gives={"batches": [[0, 0], [1, 1], [2, 2], [3, 3]]})


@scenario
def a_follower_stores_duplicates_as_its_leader_did(log: Script) -> None:
    log.open()
    log.follow(produced(2, 1, 0, 0, leader_epoch=0))
    log.follow(produced(2, 1, 0, 0, first=2, leader_epoch=0), gives={"after": [0, 4, 0, 0, 1]})
    steps = ((1, 0), (2, 0), (1, 1), (2, 1), (1, 1))
    payloads = [produced(1, who, 0, sequence, first=4 + row, leader_epoch=0) for row, (who, sequence) in enumerate(steps)]
    log.follow(b"".join(payloads))
    log.state(logEndOffset=9)


@scenario
def a_segment_rolls_by_size(log: Script) -> None:
    log.open({"segment.bytes": 10 * (ONE_RECORD - 1)})
    fill(log, 11)
    log.state(logEndOffset=11)
    log.read(0, gives={"size": 9 * ONE_RECORD})


@scenario
def a_hundred_records_come_back_over_many_segments(log: Script) -> None:
    log.open({"segment.bytes": ONE_RECORD + 10})
    for number in range(100):
        log.append(batch(records(1, at=START_MS + number)))
    log.flush(gives={"recoveryPoint": 100})
    for offset in (0, 1, 50, 98, 99):
        log.read(offset, max=1, gives={"batches": [[offset, offset]]})
    log.read(100, gives={"batches": []})


@scenario
def a_roll_flushes_what_is_behind_it(log: Script) -> None:
    log.open({"segment.bytes": ONE_RECORD})
    fill(log, 5)
    log.state(recoveryPoint=4)


@scenario
def an_offset_inside_a_compressed_batch_finds_the_batch(log: Script) -> None:
    log.open({"segment.bytes": 110})
    log.append(batch(2, codec=GZIP))
    log.append(batch(2, codec=GZIP))
    for offset, first in ((0, 0), (1, 0), (2, 2), (3, 2)):
        log.read(offset, max=1, gives={"batches": [[first, first + 1]]})


@scenario
def a_set_larger_than_a_segment_is_refused(log: Script) -> None:
    log.open({"segment.bytes": len(batch(2)) - 1})
    log.append(batch(2), refused="RecordBatchTooLargeException")
    log.append(batch(1), gives={"firstOffset": 0})


@scenario
def a_batch_above_the_message_limit_is_refused_from_clients_only(log: Script) -> None:
    large = records(2, size=100)
    log.open({"max.message.bytes": len(batch(large)) - 1})
    log.append(batch(2))
    log.append(batch(large), refused="RecordTooLargeException")
    log.follow(batch(records(2, first=2, size=100), leader_epoch=0), gives={"after": [0, 4, 0, 0, 1]})


@scenario
def a_topic_id_is_kept_and_a_different_one_refused(log: Script) -> None:
    log.open(topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    log.append(batch(1))
    log.state(logEndOffset=1)
    log.reopen()
    log.reopen(topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    log.close()
    log.open(topic_id="AAAAAAAAAAAAAAAAAAAAAg", refused="InconsistentTopicIdException")
    log.open()


@scenario
def a_time_index_is_written_for_replicated_offsets_too(log: Script) -> None:
    log.open({"segment.bytes": 10000, "index.interval.bytes": 1})
    for number in range(100):
        log.follow(batch(records(1, first=100 + number, at=START_MS + number), leader_epoch=0))
    log.offset_for_time(ms=START_MS + 50, gives={"offset": 150})


@scenario
def truncation_anywhere_in_the_log(log: Script) -> None:
    log.open(TEN_PER_SEGMENT)
    fill(log, 10)
    log.truncate(offset=10, gives={"truncated": False, "after": [0, 10, 0, 0, 1]})
    log.truncate(offset=11, gives={"truncated": False, "after": [0, 10, 0, 0, 1]})
    log.truncate(offset=5, gives={"truncated": True, "after": [0, 5, 0, 0, 1]})
    log.truncate(offset=0, gives={"after": [0, 0, 0, 0, 1]})
    fill(log, 10)
    log.truncate_fully(offset=1, gives={"after": [1, 1, 1, 1, 1]})
    fill(log, 10)
    log.state(logEndOffset=11, size=10 * ONE_RECORD)
    log.truncate(offset=0, gives={"after": [0, 0, 0, 0, 1]})


@scenario
def truncation_over_segments_opens_full_size_indexes_again(log: Script) -> None:
    log.open({**TEN_PER_SEGMENT, "index.interval.bytes": ONE_RECORD - 1})
    for number in range(20):
        log.append(batch(records(1, at=START_MS + number)))
    log.state()
    log.truncate(offset=0, gives={"after": [0, 0, 0, 0, 1]})
    log.state()
    for number in range(10):
        log.append(batch(records(1, at=START_MS + 100 + number)))
    log.state(logEndOffset=10)


@scenario
def truncation_in_the_middle_of_a_batch_leaves_a_gap(log: Script) -> None:
    log.open()
    log.append(batch(5))
    log.append(batch(5))
    log.truncate(offset=7, gives={"after": [0, 7, 0, 0, 1]})
    log.append(batch(1), gives={"firstOffset": 7})
    log.read(5, gives={"batches": [[7, 7]]})


@scenario
def a_null_value_is_kept(log: Script) -> None:
    log.open()
    log.append(batch([records(1, key=b"key")[0], *records(1, first=1)]))
    tombstone = records(1, key=b"key")[0]
    log.append(batch([type(tombstone)(0, START_MS, None, None)]))
    log.read(0, gives={"batches": [[0, 1], [2, 2]]})


@scenario
def a_record_without_timestamp_is_taken(log: Script) -> None:
    log.open()
    log.append(batch(records(1, at=-1)), gives={"maxTimestamp": -1})
    log.offset_for_time(ms=0, gives={"found": False})


@scenario
def an_old_message_from_the_leader_ends_the_history_of_epochs(log: Script) -> None:
    log.open({"index.interval.bytes": 1})
    log.append(batch(1), leader_epoch=5)
    log.state(epochs=[[5, 0]])
    log.follow(messages(1, 1, first=1), leader_epoch=5)
    log.state(epochs=[])


@scenario
def a_leader_writes_its_epoch_into_each_batch(log: Script) -> None:
    log.open()
    log.become_leader(epoch=72)
    for _ in range(5):
        log.append(batch(1), leader_epoch=72)
    log.state(epochs=[[72, 0]])


@scenario
def a_follower_learns_epochs_from_what_it_copies(log: Script) -> None:
    log.open()
    for offset in range(5):
        log.follow(batch(1, first=offset, leader_epoch=42), leader_epoch=42)
    log.state(epochs=[[42, 0]])
    log.epoch_end(epoch=42, gives={"epoch": 42, "end": 5})


@scenario
def truncation_drops_epochs_that_began_behind_it(log: Script) -> None:
    log.open(TEN_PER_SEGMENT)
    epochs = [0] * 10 + [1] * 6 + [2] * 4
    for offset, epoch in enumerate(epochs):
        log.follow(batch(1, first=offset, leader_epoch=epoch), leader_epoch=2)
    log.truncate(offset=20)
    log.state(epochs=[[0, 0], [1, 10], [2, 16]])
    log.truncate(offset=11)
    log.state(epochs=[[0, 0], [1, 10]])
    log.truncate(offset=10)
    log.state(epochs=[[0, 0]])
    log.truncate(offset=0)
    log.state(epochs=[])


@scenario
def truncation_at_the_end_drops_epochs_that_have_no_records(log: Script) -> None:
    log.open({"segment.bytes": 1024 * 1024})
    log.append(batch(27), leader_epoch=17)
    log.append(batch(2), leader_epoch=19)
    log.become_leader(epoch=20)
    log.state(epochs=[[17, 0], [19, 27], [20, 29]])
    log.truncate(offset=29)
    log.state(epochs=[[17, 0], [19, 27]], logEndOffset=29)
    log.become_leader(epoch=24)
    log.truncate(offset=30)
    log.state(epochs=[[17, 0], [19, 27]], logEndOffset=29)


@scenario
def a_first_append_far_ahead_gives_the_segment_its_name(log: Script) -> None:
    log.open()
    log.follow(batch(1, first=1_000_000, leader_epoch=0))
    log.follow(batch(1, first=(1 << 31) + 5, leader_epoch=0), gives={"after": [0, (1 << 31) + 6, 0, 0, 2]})
    log.read(0, max=1, gives={"batches": [[1_000_000, 1_000_000]]})


@scenario
def offsets_too_far_apart_for_one_segment_roll_it(log: Script) -> None:
    log.open()
    log.append(batch(1))
    limit = (1 << 31) - 1
    log.follow(batch(1, first=limit, leader_epoch=0), gives={"after": [0, limit + 1, 0, 0, 1]})
    log.follow(batch(1, first=limit + 1, leader_epoch=0), gives={"after": [0, limit + 2, 0, 0, 2]})
    log.read(1, max=1, gives={"batches": [[limit, limit]]})
    log.read(limit + 1, max=1, gives={"batches": [[limit + 1, limit + 1]]})


@scenario
def an_empty_batch_from_the_leader_moves_the_end(log: Script) -> None:
    log.open()
    log.append(batch(2))
    log.follow(empty(2, 5, producer_id=9, producer_epoch=1, base_sequence=0), gives={"after": [0, 6, 0, 0, 1]})
    log.append(batch(1), gives={"firstOffset": 6})


@scenario
def settings_change_while_the_log_is_open(log: Script) -> None:
    log.open({"segment.bytes": 1024 * 1024})
    fill(log, 3)
    log.config(config={"segment.bytes": ONE_RECORD})
    fill(log, 3)
    log.state(logEndOffset=6)
    log.reopen()
    log.append(batch(1), gives={"firstOffset": 6})


@scenario
def flush_after_a_number_of_messages(log: Script) -> None:
    log.open({"flush.messages": 3})
    fill(log, 2)
    log.state(recoveryPoint=0)
    fill(log, 1)
    log.state(recoveryPoint=3)


@scenario
def flush_of_an_empty_active_segment_makes_its_indexes(log: Script) -> None:
    log.open()
    log.append(batch(1))
    log.roll()
    log.ls()
    log.flush(force=True)
    log.ls()


@scenario
def an_index_that_is_full_rolls_the_segment(log: Script) -> None:
    log.open({"segment.index.bytes": 36, "index.interval.bytes": 1})
    for number in range(12):
        log.append(batch(records(1, at=START_MS + number)))
    log.state(logEndOffset=12)


@scenario
def preallocated_segments_are_cut_when_they_roll_and_close(log: Script) -> None:
    log.open({"segment.bytes": 1000, "preallocate": "true"})
    fill(log, 15)
    log.ls()
    log.reopen()
    fill(log, 2)
    log.read(15, gives={"batches": [[15, 15], [16, 16]]})
    log.crash()
    log.state(logEndOffset=17)


@scenario
def the_newest_epoch_ends_at_the_log_end(log: Script) -> None:
    log.open()
    log.epoch_end(epoch=0, gives={"epoch": -1, "end": -1})
    log.append(batch(2), leader_epoch=1)
    log.append(batch(3), leader_epoch=3)
    log.epoch_end(epoch=0, gives={"epoch": 0, "end": 0})
    log.epoch_end(epoch=1, gives={"epoch": 1, "end": 2})
    log.epoch_end(epoch=2, gives={"epoch": 1, "end": 2})
    log.epoch_end(epoch=3, gives={"epoch": 3, "end": 5})
    log.epoch_end(epoch=4, gives={"epoch": -1, "end": -1})
    log.reopen()
    log.epoch_end(epoch=1, gives={"epoch": 1, "end": 2})


@scenario
def files_of_removed_segments_wait_for_their_delay(log: Script) -> None:
    log.open({**TEN_PER_SEGMENT, "file.delete.delay.ms": MINUTE_MS})
    fill(log, 25)
    log.truncate(offset=5)
    log.ls()
    log.advance(MINUTE_MS)
    log.ls()
