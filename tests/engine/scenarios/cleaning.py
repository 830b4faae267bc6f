"""Compaction: records that a pass keeps, logs that it picks, tombstones and their horizons, grouping, large records, crashes."""

from __future__ import annotations

from typing import Any

from .loading import BEYOND, name
from .payloads import GZIP, LZ4, batch, keyed, messages, produced
from .script import HOUR_MS, MINUTE_MS, START_MS, Script, scenario, text

COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0, "delete.retention.ms": HOUR_MS, "segment.bytes": 1024}


def key(number: int) -> bytes:
    return b"key %d" % number


def put(log: Script, *numbers: int, value: bytes | None = b"value", refused: str | None = None, **fields: Any) -> None:
    """One batch with these keys."""
    log.append(batch(keyed(*((key(number), value) for number in numbers)), **fields), refused=refused)


def clean(log: Script, end: int, **fields: Any) -> None:
    """Roll, replicate everything and clean all that is not active."""
    log.roll()
    log.high_watermark(end)
    log.clean(**fields)
    log.read(0)
    log.state()


@scenario
def the_latest_record_of_each_key_stays(log: Script) -> None:
    log.open(COMPACTED)
    for number in range(60):
        put(log, number % 7)
    clean(log, 60, gives={"cleaned": True})
    log.reopen()
    log.state(logEndOffset=60)


@scenario
def a_pass_says_what_it_read_and_wrote(log: Script) -> None:
    log.open(COMPACTED)
    for number in (0, 1, 0, 1, 0):
        put(log, number)
    clean(log, 5, gives={"cleaned": True, "firstDirty": 0, "firstUncleanable": 5})


@scenario
def nothing_to_clean_is_left_alone(log: Script) -> None:
    log.open(COMPACTED)
    log.clean(gives={"cleaned": False})
    put(log, 1)
    log.clean(gives={"cleaned": False})
    log.roll()
    log.clean(gives={"cleaned": False})
    log.high_watermark(1)
    log.clean(gives={"cleaned": True})
    log.clean(gives={"cleaned": False})


@scenario
def a_log_has_to_be_dirty_enough(log: Script) -> None:
    log.open({**COMPACTED, "min.cleanable.dirty.ratio": 0.5})
    for number in range(20):
        put(log, number)
    clean(log, 20, gives={"cleaned": True})
    put(log, 1)
    clean(log, 21, gives={"cleaned": False})
    for number in range(30):
        put(log, number)
    clean(log, 51, gives={"cleaned": True})


@scenario
def records_younger_than_the_lag_wait(log: Script) -> None:
    log.open({**COMPACTED, "min.compaction.lag.ms": HOUR_MS})
    for number in range(20):
        put(log, number % 3)
    clean(log, 20, gives={"cleaned": False})
    log.advance(HOUR_MS + 1)
    log.append(batch(keyed((key(1), b"new"), at=START_MS + HOUR_MS + 1)))
    clean(log, 21, gives={"cleaned": True})


@scenario
def records_older_than_the_longest_lag_come_first(log: Script) -> None:
    log.open({**COMPACTED, "min.cleanable.dirty.ratio": 0.9, "max.compaction.lag.ms": HOUR_MS})
    for number in range(10):
        put(log, number)
    clean(log, 10, gives={"cleaned": True})
    put(log, 1)
    clean(log, 11, gives={"cleaned": False})
    log.advance(HOUR_MS + 1)
    log.clean(gives={"cleaned": True})


@scenario
def the_end_of_a_log_waits_for_the_high_watermark(log: Script) -> None:
    log.open({**COMPACTED, "segment.bytes": 300})
    for _ in range(20):
        put(log, 1)
    log.roll()
    log.high_watermark(9)
    log.clean()
    log.read(0)
    log.high_watermark(20)
    log.clean(gives={"firstUncleanable": 20})


@scenario
def duplicates_are_known_after_cleaning(log: Script) -> None:
    log.open({**COMPACTED, "segment.bytes": 2048})
    first = produced(keyed((key(1), b"v"), (key(2), b"v"), (key(3), b"v")), 1, 0, 0)
    second = produced(keyed((key(3), b"v"), (key(1), b"v"), (key(4), b"v")), 2, 0, 0)
    third = produced(keyed((key(1), b"v"), (key(4), b"v")), 3, 0, 0)
    for payload in (first, second, third):
        log.append(payload)
    clean(log, 8)
    log.reopen()
    log.append(first, gives={"firstOffset": 0, "lastOffset": 2})
    log.append(third, gives={"firstOffset": 6, "lastOffset": 7})
    log.append(second, gives={"firstOffset": 3, "lastOffset": 5})
    log.append(produced(keyed((key(2), b"v")), 4, 0, 0), gives={"firstOffset": 8})
    clean(log, 9)
    log.reopen()
    log.append(first, gives={"firstOffset": 0, "lastOffset": 2})


@scenario
def a_producers_last_sequence_stays_as_an_empty_batch(log: Script) -> None:
    log.open(COMPACTED)
    put(log, 0)
    for producer in (1, 2, 3):
        log.append(produced(keyed((key(0), b"v")), producer, 0, 0))
    log.append(produced(keyed((key(1), b"v")), 2, 0, 1))
    clean(log, 5)
    log.append(produced(keyed((key(5), b"v")), 1, 0, 1), gives={"firstOffset": 5})


@scenario
def records_larger_than_the_buffer(log: Script) -> None:
    log.open({**COMPACTED, "segment.bytes": 20_000})
    for number in (1, 2, 1, 3):
        put(log, number, value=bytes(3000))
    clean(log, 4, io_buffer=300, gives={"cleaned": True})


@scenario
def records_larger_than_the_largest_message_of_today(log: Script) -> None:
    log.open({**COMPACTED, "segment.bytes": 20_000, "max.message.bytes": 8000})
    for number in (1, 2, 1, 3):
        put(log, number, value=bytes(3000))
    log.config(config={"max.message.bytes": "1500"})
    clean(log, 4, io_buffer=300, max_io_buffer=1000, gives={"cleaned": True})


@scenario
def a_damaged_front_of_a_large_record_ends_the_pass(log: Script) -> None:
    log.open({**COMPACTED, "segment.bytes": 20_000, "max.message.bytes": 8000})
    for number in (1, 2, 1, 3):
        put(log, number, value=bytes(3000))
    log.roll()
    log.close()
    log.damage(name(0, "log"), xor=[3075 + 16, 253])
    log.open()
    log.high_watermark(4)
    log.clean(io_buffer=300, max_io_buffer=1000, refused="CorruptRecordException")
    log.clean(gives={"cleaned": False})


@scenario
def a_record_longer_than_its_file_ends_the_pass(log: Script) -> None:
    log.open({**COMPACTED, "segment.bytes": 20_000, "max.message.bytes": 8000})
    for number in (1, 2, 1, 3):
        put(log, number, value=bytes(3000))
    log.roll()
    log.close()
    log.damage(name(0, "log"), truncate_to=1024)
    log.open()
    log.high_watermark(4)
    log.clean(io_buffer=300, max_io_buffer=1000, refused="IllegalStateException")
    log.clean(gives={"cleaned": False})


@scenario
def tombstones_go_after_their_time(log: Script) -> None:
    log.open(COMPACTED)
    for number in range(10):
        put(log, number)
    for number in range(0, 10, 2):
        put(log, number, value=None)
    clean(log, 15)
    log.advance(HOUR_MS - 1)
    put(log, 50)
    clean(log, 16)
    log.advance(MINUTE_MS)
    put(log, 51)
    clean(log, 17)


@scenario
def tombstones_without_retention_go_at_the_next_pass(log: Script) -> None:
    log.open({**COMPACTED, "delete.retention.ms": 0})
    put(log, 1)
    put(log, 1, value=None)
    put(log, 2)
    clean(log, 3)
    put(log, 3)
    clean(log, 4)


@scenario
def a_small_map_cleans_part_of_a_segment(log: Script) -> None:
    log.open(COMPACTED)
    for number in (0, 1, 0, 1, 0, 2, 3, 2):
        put(log, number)
    log.roll()
    log.high_watermark(8)
    for _ in range(6):
        log.clean(dedupe_bytes=72)
        log.read(0)


@scenario
def a_map_too_small_for_one_record_is_refused(log: Script) -> None:
    log.open(COMPACTED)
    put(log, 1, 2, 3)
    log.roll()
    log.high_watermark(3)
    log.clean(dedupe_bytes=24)
    log.clean(dedupe_bytes=48, load_factor=1.0)


@scenario
def records_without_a_key_go(log: Script) -> None:
    log.open({**COMPACTED, "cleanup.policy": "delete"})
    log.append(batch(3))
    log.append(batch(2, codec=GZIP))
    log.config(config={"cleanup.policy": "compact"})
    put(log, 1)
    clean(log, 6, gives={"cleaned": True})
    log.append(batch(1), refused="RecordValidationException")


@scenario
def the_last_batch_of_a_pass_stays_even_if_empty(log: Script) -> None:
    log.open({**COMPACTED, "segment.bytes": 500})
    for number in range(12):
        put(log, number)
    log.roll()
    for number in range(12):
        put(log, number)
    clean(log, 24)
    log.reopen()
    log.state(logEndOffset=24)


@scenario
def small_segments_are_joined(log: Script) -> None:
    log.open({**COMPACTED, "segment.bytes": 300, "index.interval.bytes": 1})
    for number in range(30):
        put(log, number % 4)
    clean(log, 30)
    log.config(config={"segment.bytes": "100000"})
    put(log, 7)
    clean(log, 31)


@scenario
def joined_segments_stay_below_the_size_of_their_indexes(log: Script) -> None:
    log.open({**COMPACTED, "segment.bytes": 300, "index.interval.bytes": 1, "segment.index.bytes": 48})
    for number in range(30):
        put(log, number)
    clean(log, 30)


@scenario
def sparse_segments_are_not_joined_beyond_what_an_index_can_say(log: Script) -> None:
    log.open({**COMPACTED, "segment.bytes": 400, "index.interval.bytes": 1})
    content = keyed((key(1), b"v"))
    log.append(batch(content))
    for step in (1, 2, 3):
        log.follow(batch(keyed((key(1), b"v"), first=step * BEYOND), leader_epoch=0))
        log.append(batch(content))
    clean(log, 3 * BEYOND + 2)
    put(log, 2)
    clean(log, 3 * BEYOND + 3)


@scenario
def sparse_segments_after_a_reload_with_empty_indexes(log: Script) -> None:
    log.open({**COMPACTED, "segment.bytes": 400, "index.interval.bytes": 400})
    for offset in (0, 1, BEYOND // 2, BEYOND + 1):
        log.follow(batch(keyed((key(1), b"v"), first=offset), leader_epoch=0))
    log.reopen()
    clean(log, BEYOND + 2)


@scenario
def gaps_in_offsets_do_not_stop_a_pass(log: Script) -> None:
    log.open({**COMPACTED, "segment.bytes": 300})
    for offset in (0, 1, 2, 50, 51, 90, 95, 96):
        log.follow(batch(keyed((key(offset % 2), b"v"), first=offset), leader_epoch=0))
    clean(log, 97)
    put(log, 7)
    clean(log, 98)


@scenario
def a_crash_before_the_swap_undoes_a_pass(log: Script) -> None:
    log.open({**COMPACTED, "segment.bytes": 300, "file.delete.delay.ms": 10})
    for number in range(12):
        put(log, number % 5)
    log.roll()
    log.high_watermark(12)
    log.clean()
    log.ls()
    log.close(clean=False)
    log.damage(name(0, "log"), rename=name(0, "log") + ".cleaned")
    log.damage(name(0, "log") + ".deleted", rename=name(0, "log"))
    log.open()
    log.high_watermark(12)
    log.read(0)
    log.ls()


@scenario
def a_crash_after_the_swap_completes_a_pass(log: Script) -> None:
    log.open({**COMPACTED, "segment.bytes": 300, "file.delete.delay.ms": 10})
    for number in range(12):
        put(log, number % 5)
    log.roll()
    log.high_watermark(12)
    log.clean()
    log.close(clean=False)
    log.damage(name(0, "log"), rename=name(0, "log") + ".swap")
    log.open()
    log.high_watermark(12)
    log.read(0)
    log.ls()
    log.advance(10)
    log.clean()


@scenario
def files_that_a_pass_replaced_wait_for_their_delay(log: Script) -> None:
    log.open({**COMPACTED, "segment.bytes": 300, "file.delete.delay.ms": 1000})
    for number in range(12):
        put(log, number % 5)
    log.roll()
    log.high_watermark(12)
    log.clean()
    log.ls()
    log.advance(1000)
    log.ls()


@scenario
def preallocated_segments_are_cut_to_what_a_pass_wrote(log: Script) -> None:
    log.open({**COMPACTED, "preallocate": "true"})
    for number in (0, 1, 0, 1, 0):
        put(log, number)
    clean(log, 5)
    log.ls()


@scenario
def snapshots_of_joined_segments_go(log: Script) -> None:
    log.open({**COMPACTED, "file.delete.delay.ms": 0})
    for number in range(3):
        log.append(produced(keyed((key(1), b"v")), 1, 0, number))
        log.roll()
    log.ls()
    log.high_watermark(3)
    log.clean()
    log.advance(1)
    log.ls()


@scenario
def a_damaged_batch_on_the_way_ends_the_pass(log: Script) -> None:
    log.open(COMPACTED)
    for number in range(6):
        put(log, number % 2)
    log.roll()
    log.close()
    log.damage(name(0, "log"), xor=[200, 255])
    log.open()
    log.high_watermark(6)
    log.clean()
    log.clean()


@scenario
def compressed_batches_are_rewritten_when_records_go(log: Script) -> None:
    log.open(COMPACTED)
    put(log, 1, 2, 3, codec=LZ4)
    put(log, 4, 5, codec=GZIP)
    put(log, 2, 4, codec=GZIP)
    clean(log, 7)


@scenario
def old_messages_are_cleaned_as_they_are(log: Script) -> None:
    log.open({**COMPACTED, "delete.retention.ms": 1000 * HOUR_MS})
    log.follow(messages(0, keyed((key(1), b"a"), (key(2), b"a"))))
    log.follow(messages(1, keyed((key(1), b"b"), (key(3), b"b"), first=2)))
    log.follow(messages(1, keyed((key(3), b"c"), (key(2), b"c"), first=4), codec=GZIP))
    log.follow(messages(0, keyed((key(4), b"c"), (key(5), b"c"), first=6), codec=GZIP))
    log.follow(messages(1, keyed((key(4), b"d"), first=8)))
    clean(log, 9)


@scenario
def batches_stamped_by_the_log_stay_so(log: Script) -> None:
    log.open({**COMPACTED, "message.timestamp.type": "LogAppendTime"})
    put(log, 1, 2)
    log.advance(1000)
    put(log, 2, 3, codec=GZIP)
    put(log, 3)
    clean(log, 5)


@scenario
def leader_epochs_of_batches_survive_cleaning(log: Script) -> None:
    log.open(COMPACTED)
    for epoch in range(4):
        log.append(batch(keyed((key(1), b"v"), (key(epoch + 2), b"v"))), leader_epoch=epoch)
    clean(log, 8)
    log.epoch_end(epoch=1, gives={"epoch": 1, "end": 4})


@scenario
def truncation_takes_the_cleaners_checkpoint_back(log: Script) -> None:
    log.open({**COMPACTED, "segment.bytes": 300})
    for number in range(12):
        put(log, number % 5)
    log.roll()
    log.high_watermark(12)
    log.clean()
    log.truncate(offset=4)
    log.ls()
    for number in range(6):
        put(log, number % 3)
    clean(log, 10)


@scenario
def a_pass_starts_anew_when_its_checkpoint_is_wrong(log: Script) -> None:
    log.open({**COMPACTED, "cleanup.policy": "compact,delete", "segment.bytes": 300})
    for number in range(12):
        put(log, number % 5)
    log.roll()
    log.high_watermark(12)
    log.clean()
    log.delete_records(offset=12)
    log.retention()
    log.close()
    log.do("damage", file="data/cleaner-offset-checkpoint", truncate_to=0)
    log.do("damage", file="data/cleaner-offset-checkpoint", append=text(b"0\n1\nt 0 99\n"))
    log.open()
    put(log, 1)
    log.roll()
    log.high_watermark(13)
    log.clean(gives={"firstDirty": 12})


@scenario
def cleaning_twice_changes_nothing_more(log: Script) -> None:
    log.open(COMPACTED)
    for number in range(30):
        put(log, number % 4, number % 3 + 10)
    clean(log, 60)
    log.clean(gives={"cleaned": False})
    log.close()
    log.do("damage", file="data/cleaner-offset-checkpoint", delete=True)
    log.open()
    log.high_watermark(60)
    log.clean(gives={"cleaned": True})
    log.read(0)


@scenario
def a_pass_splits_a_segment_whose_offsets_are_too_far_apart(log: Script) -> None:
    log.open({**COMPACTED, "index.interval.bytes": 1, "file.delete.delay.ms": 1000})
    log.close(clean=False)
    for offset in (0, 1, BEYOND, BEYOND + 1):
        log.damage(name(0, "log"), append=text(batch(keyed((key(offset % 2), b"v"), first=offset), leader_epoch=0)))
    for suffix in ("index", "timeindex"):
        log.damage(name(0, suffix), append="")
    log.open(clean=True, recovery_point=1 << 62)
    log.roll()
    log.high_watermark(BEYOND + 2)
    log.clean()
    log.state()
    log.clean()
    log.read(0)
