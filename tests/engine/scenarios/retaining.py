"""Retention by time, size and log start, DeleteRecords, and their effect on snapshots and epochs."""

from __future__ import annotations

from .payloads import batch, keyed, messages, produced, records
from .script import HOUR_MS, MINUTE_MS, START_MS, Script, scenario
from .writing import ONE_RECORD, fill

OLD_MS = START_MS - HOUR_MS
FIVE_PER_SEGMENT = {"segment.bytes": 5 * ONE_RECORD}


def fill_old(log: Script, count: int) -> None:
    for _ in range(count):
        log.append(batch(records(1, at=OLD_MS)))


@scenario
def retention_by_time_takes_segments_below_the_high_watermark(log: Script) -> None:
    log.open({**FIVE_PER_SEGMENT, "retention.ms": 999})
    fill_old(log, 30)
    log.retention(gives={"deleted": 0})
    for mark in (4, 5, 14, 25):
        log.high_watermark(mark)
        log.retention()
    log.state(logStartOffset=25)
    log.high_watermark(30)
    log.retention(gives={"after": [30, 30, 30, 30, 1]})
    log.retention(gives={"deleted": 0})
    log.append(batch(1), gives={"firstOffset": 30})


@scenario
def retention_of_everything_keeps_the_end_offset(log: Script) -> None:
    log.open({"segment.bytes": 100, "retention.ms": 0})
    log.retention(gives={"deleted": 0, "after": [0, 0, 0, 0, 1]})
    fill_old(log, 25)
    log.high_watermark(25)
    log.retention(gives={"after": [25, 25, 25, 25, 1]})
    log.retention(gives={"deleted": 0})
    log.append(batch(1), gives={"firstOffset": 25})


@scenario
def retention_waits_for_times_that_have_not_come(log: Script) -> None:
    log.open({**FIVE_PER_SEGMENT, "retention.ms": 10_000_000})
    fill(log, 15)
    log.high_watermark(15)
    log.retention(gives={"deleted": 0, "after": [0, 15, 15, 15, 3]})
    log.advance(10_000_001)
    log.retention(gives={"after": [15, 15, 15, 15, 1]})


@scenario
def a_young_segment_protects_older_ones_behind_it(log: Script) -> None:
    log.open({"segment.bytes": ONE_RECORD, "retention.ms": 900, "file.delete.delay.ms": 0})
    log.append(batch(records(1, at=START_MS + 100)))
    log.append(batch(records(1, at=START_MS)))
    log.append(batch(records(1, at=START_MS + 100)))
    log.high_watermark(3)
    log.advance(950)
    log.retention(gives={"deleted": 0})
    log.delete_records(offset=1, gives={"moved": True})
    log.retention(gives={"deleted": 2})
    log.retention(gives={"deleted": 0})


@scenario
def retention_by_size_takes_what_is_too_much(log: Script) -> None:
    log.open({**FIVE_PER_SEGMENT, "retention.bytes": 10 * ONE_RECORD})
    fill(log, 15)
    log.high_watermark(15)
    log.retention(gives={"deleted": 1, "after": [5, 15, 15, 15, 2]})


@scenario
def retention_by_size_leaves_what_is_not_too_much(log: Script) -> None:
    log.open({**FIVE_PER_SEGMENT, "retention.bytes": 15 * ONE_RECORD})
    fill(log, 15)
    log.high_watermark(15)
    log.retention(gives={"deleted": 0, "after": [0, 15, 15, 15, 3]})


@scenario
def a_compacted_topic_keeps_old_segments(log: Script) -> None:
    log.open({**FIVE_PER_SEGMENT, "retention.ms": 10_000, "cleanup.policy": "compact"})
    for _ in range(15):
        log.append(batch(keyed((b"k", b"v"), at=OLD_MS)))
    log.high_watermark(15)
    log.retention(gives={"deleted": 0})
    log.delete_records(offset=5, refused="PolicyViolationException")


@scenario
def a_compacted_topic_with_delete_drops_old_segments(log: Script) -> None:
    log.open({**FIVE_PER_SEGMENT, "retention.ms": 10_000, "cleanup.policy": "compact,delete"})
    for _ in range(15):
        log.append(batch(keyed((b"k", b"v"), at=OLD_MS)))
    log.high_watermark(15)
    log.retention(gives={"after": [15, 15, 15, 15, 1]})


@scenario
def segments_below_the_log_start_go_under_every_policy(log: Script) -> None:
    log.open({**FIVE_PER_SEGMENT, "retention.ms": 10_000, "cleanup.policy": "compact,delete"})
    for _ in range(15):
        log.append(batch(keyed((b"k", b"v"), at=START_MS)))
    log.high_watermark(15)
    log.delete_records(offset=6, gives={"moved": True})
    log.config(config={"cleanup.policy": "compact"})
    log.retention(gives={"deleted": 1, "after": [6, 15, 15, 15, 2]})
    log.config(config={"cleanup.policy": ""})
    log.delete_records(offset=11, gives={"moved": True})
    log.retention(gives={"deleted": 1})


@scenario
def delete_records_moves_the_start_and_retention_follows(log: Script) -> None:
    log.open(FIVE_PER_SEGMENT)
    fill(log, 15)
    log.high_watermark(15)
    log.delete_records(offset=1, gives={"moved": True})
    log.retention(gives={"deleted": 0, "after": [1, 15, 15, 15, 3]})
    log.delete_records(offset=6)
    log.retention(gives={"deleted": 1, "after": [6, 15, 15, 15, 2]})
    log.delete_records(offset=15)
    log.retention(gives={"after": [15, 15, 15, 15, 1]})
    log.read(14, refused="OffsetOutOfRangeException")


@scenario
def the_log_start_cannot_pass_the_high_watermark(log: Script) -> None:
    log.open({"segment.bytes": 512})
    fill(log, 30)
    log.high_watermark(25)
    log.delete_records(offset=26, refused="OffsetOutOfRangeException")
    log.delete_records(offset=-1, gives={"moved": True, "after": [25, 30, 25, 25, 5]})
    log.delete_records(offset=20, gives={"moved": False})


def _retain_three_segments(log: Script, *, empty_active: bool) -> None:
    log.open({"retention.bytes": 0, "retention.ms": MINUTE_MS, "file.delete.delay.ms": 0})
    for number in range(3):
        log.append(produced(1, 1, 0, number))
        if number < 2 or empty_active:
            log.roll()
    log.high_watermark(3)
    log.ls()
    log.advance(MINUTE_MS + 1)
    log.retention(gives={"after": [3, 3, 3, 3, 1]})
    log.ls()


@scenario
def retention_takes_snapshots_with_their_segments(log: Script) -> None:
    _retain_three_segments(log, empty_active=False)


@scenario
def retention_takes_snapshots_below_an_empty_active_segment(log: Script) -> None:
    _retain_three_segments(log, empty_active=True)


@scenario
def snapshots_below_the_log_start_go(log: Script) -> None:
    log.open({"retention.bytes": -1, "file.delete.delay.ms": 1000})
    for number in range(3):
        log.append(produced(1, 1, 0, number))
        if number < 2:
            log.roll()
    log.high_watermark(3)
    log.delete_records(offset=2)
    log.retention(gives={"deleted": 2})
    log.ls()
    log.advance(1000)
    log.ls()


@scenario
def producers_outlive_the_segments_that_told_of_them(log: Script) -> None:
    size = len(produced(1, 1, 0, 0))
    log.open({"segment.bytes": size, "retention.bytes": 2 * size})
    log.append(produced(1, 1, 0, 0))
    log.append(produced(1, 2, 0, 0))
    log.append(produced(1, 2, 0, 1))
    log.high_watermark(3)
    log.retention(gives={"deleted": 1})
    log.append(produced(1, 1, 0, 1), gives={"firstOffset": 3})


@scenario
def retention_drops_epochs_whose_records_went(log: Script) -> None:
    log.open({**FIVE_PER_SEGMENT, "retention.bytes": 10 * ONE_RECORD})
    for number in range(15):
        log.append(batch(1), leader_epoch=number // 5)
    log.high_watermark(15)
    log.retention(gives={"deleted": 1})
    log.state(epochs=[[1, 5], [2, 10]])


@scenario
def retention_moves_the_start_of_an_epoch_that_lives_on(log: Script) -> None:
    log.open({**FIVE_PER_SEGMENT, "retention.bytes": 10 * ONE_RECORD})
    for number in range(15):
        log.append(batch(1), leader_epoch=0 if number < 7 else 1 if number < 10 else 2)
    log.high_watermark(15)
    log.retention(gives={"deleted": 1})
    log.state(epochs=[[0, 5], [1, 7], [2, 10]])


@scenario
def retention_of_everything_keeps_the_last_epoch_at_the_end(log: Script) -> None:
    log.open({**FIVE_PER_SEGMENT, "retention.ms": 999})
    for number in range(20):
        log.append(batch(records(1, at=OLD_MS)), leader_epoch=0 if number < 18 else 1)
    log.high_watermark(20)
    log.retention(gives={"after": [20, 20, 20, 20, 1]})
    log.state(epochs=[[1, 20]])


@scenario
def removed_files_are_renamed_first(log: Script) -> None:
    log.open({**FIVE_PER_SEGMENT, "retention.ms": 999, "file.delete.delay.ms": 1000, "segment.index.bytes": 1000})
    fill_old(log, 20)
    log.high_watermark(20)
    log.retention()
    log.ls()
    log.advance(999)
    log.ls()
    log.advance(1)
    log.ls()


@scenario
def an_old_active_segment_is_rolled_so_that_it_can_go(log: Script) -> None:
    log.open({"retention.ms": 1000})
    fill(log, 3)
    log.high_watermark(3)
    log.advance(1001)
    log.retention(gives={"deleted": 1, "after": [3, 3, 3, 3, 1]})


@scenario
def segments_without_timestamps_are_kept_by_their_files_age(log: Script) -> None:
    log.open({"retention.ms": 1000, "segment.bytes": 200})
    for offset in range(10):
        log.follow(messages(0, 1, first=offset))
    log.high_watermark(10)
    log.advance(2000)
    log.retention(gives={"deleted": 0})


@scenario
def a_retention_of_minus_one_keeps_everything(log: Script) -> None:
    log.open({**FIVE_PER_SEGMENT, "retention.ms": -1, "retention.bytes": -1})
    fill_old(log, 15)
    log.high_watermark(15)
    log.advance(1000 * HOUR_MS)
    log.retention(gives={"deleted": 0})


@scenario
def timestamps_of_the_future_keep_a_segment(log: Script) -> None:
    log.open({**FIVE_PER_SEGMENT, "retention.ms": 1000})
    log.append(batch(records(1, at=START_MS + HOUR_MS)))
    fill(log, 10)
    log.high_watermark(11)
    log.advance(MINUTE_MS)
    log.retention(gives={"deleted": 0})
    log.advance(HOUR_MS)
    log.retention()


@scenario
def retention_across_a_restart_keeps_the_log_start(log: Script) -> None:
    log.open({**FIVE_PER_SEGMENT, "retention.ms": 999})
    fill_old(log, 12)
    log.high_watermark(7)
    log.retention(gives={"deleted": 1})
    log.reopen()
    log.state(logStartOffset=5)
    log.high_watermark(7)
    log.delete_records(offset=7)
    log.reopen()
    log.state(logStartOffset=7)
    log.high_watermark(9)
    log.delete_records(offset=9)
    log.crash()
    log.state(logStartOffset=7)
