"""Reads by offset and by time, under each isolation."""

from __future__ import annotations

from .payloads import GZIP, batch, empty, in_transaction, messages, records
from .script import START_MS, Script, scenario
from .writing import ONE_RECORD, fill


@scenario
def a_read_up_to_the_log_end_finds_every_offset(log: Script) -> None:
    log.open()
    log.append(batch(3))
    log.append(batch(2))
    for offset in range(5):
        log.read(offset, gives={"batches": [[0, 2], [3, 4]] if offset < 3 else [[3, 4]]})
    log.read(5, gives={"batches": [], "size": 0})


@scenario
def a_read_stops_at_the_high_watermark(log: Script) -> None:
    log.open()
    log.append(batch(3))
    log.append(batch(2))
    for mark in (0, 3, 5):
        log.high_watermark(mark)
        for offset in range(6):
            log.read(offset, "uncommitted")
    log.read(3, "uncommitted", gives={"batches": [[3, 4]]})


@scenario
def a_committed_read_stops_at_the_last_stable_offset(log: Script) -> None:
    log.open()
    log.append(batch(3))
    log.append(batch(2))
    log.transactional(in_transaction(2, 1, 0, 0))
    log.read(0, "committed", gives={"batches": []})
    log.high_watermark(3)
    log.read(0, "committed", gives={"batches": [[0, 2]]})
    log.high_watermark(7)
    log.read(0, "committed", gives={"batches": [[0, 2], [3, 4]]})
    log.read(5, "committed", gives={"batches": []})
    log.end_transaction(1, 0)
    log.high_watermark(8)
    log.read(5, "committed", gives={"batches": [[5, 6], [7, 7]]})


@scenario
def a_committed_read_never_sees_an_open_transaction(log: Script) -> None:
    log.open()
    for number in range(6):
        log.transactional(in_transaction(1, 15, 0, number))
        log.high_watermark(2 * number + 1)
        log.read(2 * number, "committed", min_one=False, gives={"size": 0})
        log.end_transaction(15, 0, commit=False)
        log.high_watermark(2 * number + 2)


@scenario
def offsets_outside_of_the_log_are_refused(log: Script) -> None:
    log.open({"segment.bytes": 1024})
    log.truncate_fully(offset=1024)
    log.append(batch(1), gives={"firstOffset": 1024})
    log.read(1025, gives={"size": 0})
    log.read(0, refused="OffsetOutOfRangeException")
    log.read(1023, refused="OffsetOutOfRangeException")
    log.read(1026, refused="OffsetOutOfRangeException")
    log.read(1026, "uncommitted", refused="OffsetOutOfRangeException")


@scenario
def a_read_of_too_few_bytes(log: Script) -> None:
    log.open({"segment.bytes": ONE_RECORD + 1})
    fill(log, 4)
    log.read(1, max=0, min_one=False, gives={"size": 0, "firstEntryIncomplete": False})
    log.read(1, max=1, min_one=False, list=False, gives={"size": 1, "firstEntryIncomplete": True})
    log.read(1, max=1, gives={"size": ONE_RECORD, "firstEntryIncomplete": False})
    log.read(1, max=100, list=False, gives={"size": ONE_RECORD})
    log.read(1, max=1_000_000, gives={"batches": [[1, 1]]})


@scenario
def a_read_at_a_gap_goes_on_behind_it(log: Script) -> None:
    log.open({"segment.bytes": 3 * ONE_RECORD})
    for offset in (0, 1, 2, 50, 51, 52, 53):
        log.follow(batch(1, first=offset, leader_epoch=0))
    log.read(3, max=1, gives={"batches": [[50, 50]]})
    log.read(49, gives={"batches": [[50, 50], [51, 51]], "segment": 50})
    log.read(53, gives={"batches": [[53, 53]]})


@scenario
def a_read_before_the_first_offset_of_a_segment_begins_there(log: Script) -> None:
    log.open()
    log.follow(batch(2, first=50, leader_epoch=0))
    log.read(41, gives={"batches": [[50, 51]]})
    log.read(50, gives={"batches": [[50, 51]]})
    log.read(51, gives={"batches": [[50, 51]]})
    log.read(52, gives={"batches": []})


@scenario
def a_time_finds_the_first_record_that_late_with_its_epoch(log: Script) -> None:
    log.open({"segment.bytes": 200, "index.interval.bytes": 1})
    log.offset_for_time(ms=0, gives={"found": False})
    log.append(batch(records(1, at=START_MS)), leader_epoch=0)
    log.append(batch(records(1, at=START_MS + 1)), leader_epoch=1)
    log.offset_for_time(ms=START_MS, gives={"offset": 0, "timestamp": START_MS, "leaderEpoch": 0})
    log.offset_for_time(ms=START_MS + 1, gives={"offset": 1, "timestamp": START_MS + 1, "leaderEpoch": 1})
    log.offset_for_time(ms=START_MS + 2, gives={"found": False})
    log.offset_for_time(ms=-2, gives={"offset": 0, "timestamp": -1, "leaderEpoch": 0})
    log.offset_for_time(ms=-4, gives={"offset": 0, "timestamp": -1, "leaderEpoch": 0})
    log.offset_for_time(ms=-1, gives={"offset": 2, "timestamp": -1, "leaderEpoch": 1})
    log.become_leader(epoch=2)
    log.offset_for_time(ms=-1, gives={"offset": 2, "leaderEpoch": 2})


@scenario
def the_greatest_timestamp_finds_its_first_record(log: Script) -> None:
    log.open({"segment.bytes": 200, "index.interval.bytes": 1})
    log.append(batch(records(1, at=START_MS)))
    log.append(batch(records(1, at=START_MS + 1)))
    log.append(batch(records(1, at=START_MS)))
    log.offset_for_time(ms=-3, gives={"offset": 1, "timestamp": START_MS + 1, "leaderEpoch": 0})


@scenario
def a_time_is_found_inside_batches_and_across_segments(log: Script) -> None:
    log.open({"segment.bytes": 400, "index.interval.bytes": 60})
    for number in range(12):
        content = [*records(1, at=START_MS + 20 * number), *records(1, first=1, at=START_MS + 20 * number + 10)]
        log.append(batch(content, codec=GZIP if number % 2 else 0))
    for milliseconds in (0, 5, 10, 11, 115, 230):
        log.offset_for_time(ms=START_MS + milliseconds, gives={"offset": (milliseconds + 9) // 10})
    log.offset_for_time(ms=START_MS + 231, gives={"found": False})
    log.offset_for_time(ms=0, gives={"offset": 0})


@scenario
def a_time_is_found_in_old_messages(log: Script) -> None:
    log.open({"index.interval.bytes": 1})
    log.follow(messages(0, 2))
    log.follow(messages(1, 2, first=2, at=START_MS + 5))
    log.follow(messages(1, 3, first=4, at=START_MS + 9, codec=GZIP))
    log.offset_for_time(ms=START_MS, gives={"offset": 2})
    log.offset_for_time(ms=START_MS + 6, gives={"offset": 4})
    log.offset_for_time(ms=-3, gives={"timestamp": START_MS + 9})


@scenario
def a_time_skips_batches_without_records(log: Script) -> None:
    log.open({"index.interval.bytes": 1})
    log.follow(empty(0, 3, producer_id=3, producer_epoch=0, base_sequence=0))
    log.offset_for_time(ms=-3)
    log.offset_for_time(ms=START_MS, gives={"found": False})
    log.follow(batch(1, first=4, leader_epoch=0))
    log.offset_for_time(ms=START_MS, gives={"offset": 4})


@scenario
def log_append_time_is_the_time_that_is_found(log: Script) -> None:
    log.open({"message.timestamp.type": "LogAppendTime", "index.interval.bytes": 1})
    log.append(batch(records(3, at=START_MS - 500)), gives={"logAppendTime": START_MS})
    log.advance(10)
    log.append(batch(records(3, at=START_MS - 500), codec=GZIP), gives={"logAppendTime": START_MS + 10})
    log.offset_for_time(ms=START_MS, gives={"offset": 0})
    log.offset_for_time(ms=START_MS + 1, gives={"offset": 3, "timestamp": START_MS + 10})
    log.offset_for_time(ms=-3, gives={"offset": 3})


@scenario
def no_segment_in_a_tier_has_a_latest_offset(log: Script) -> None:
    log.open()
    log.offset_for_time(ms=-5, gives={"offset": -1, "timestamp": -1})
    fill(log, 2)
    log.offset_for_time(ms=-5, gives={"offset": -1})


@scenario
def reads_go_through_the_index_and_without_it(log: Script) -> None:
    log.open({"index.interval.bytes": 150})
    fill(log, 40)
    for offset in (0, 1, 7, 20, 39):
        log.read(offset, max=ONE_RECORD, gives={"batches": [[offset, offset]], "position": offset * ONE_RECORD})
    log.crash()
    log.read(39, max=ONE_RECORD, gives={"position": 39 * ONE_RECORD})


@scenario
def a_batch_that_spans_the_end_of_the_wanted_bytes_is_cut(log: Script) -> None:
    log.open()
    fill(log, 3)
    log.read(0, max=2 * ONE_RECORD + 5, list=False, gives={"size": 2 * ONE_RECORD + 5})
    log.read(0, max=2 * ONE_RECORD, gives={"batches": [[0, 0], [1, 1]]})
