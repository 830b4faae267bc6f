"""Opening a log: after a clean close, after a crash, and after its files were changed, lost or left half renamed."""

from __future__ import annotations

from .payloads import GZIP, batch, in_transaction, marker, messages, produced, records
from .script import START_MS, Script, scenario, text
from .transactions import INTERLEAVED
from .writing import ONE_RECORD, fill

FIRST_LOG = "00000000000000000000.log"
BEYOND = (1 << 31) + 1
DAY_MS = 86_400_000


def name(offset: int, suffix: str) -> str:
    return f"{offset:020d}.{suffix}"


@scenario
def an_empty_log_file_is_an_empty_log(log: Script) -> None:
    log.open()
    log.close(clean=False)
    log.damage(FIRST_LOG, truncate_to=0)
    log.open()
    log.append(batch(1), gives={"firstOffset": 0})


@scenario
def a_folder_without_segments_gets_one(log: Script) -> None:
    log.open()
    log.close(clean=False)
    log.damage(FIRST_LOG, delete=True)
    log.open(gives={"segments": [0]})


@scenario
def a_log_whose_files_are_gone_begins_at_its_checkpoint(log: Script) -> None:
    log.open(log_start=500, gives={"segments": [500]})
    log.state(logStartOffset=500, logEndOffset=500)
    log.append(batch(1), gives={"firstOffset": 500})


@scenario
def a_clean_close_is_believed(log: Script) -> None:
    log.open({"segment.bytes": 1000, "index.interval.bytes": 1})
    fill(log, 40)
    log.reopen(gives={"clean": True, "recoveryPoint": 40})
    log.state(logEndOffset=40)
    log.crash(gives={"clean": False})
    log.state(logEndOffset=40)


@scenario
def recovery_finds_the_same_end_and_indexes(log: Script) -> None:
    log.open({"segment.bytes": 700, "index.interval.bytes": 300})
    for number in range(60):
        log.append(batch(records(1, at=START_MS + 10 * number, size=100)))
    log.reopen()
    log.state(logEndOffset=60)
    log.close()
    log.open(recovery_point=60, clean=False)
    log.state(recoveryPoint=60)
    log.close()
    log.open(recovery_point=10, clean=False)
    log.state(logEndOffset=60, recoveryPoint=10)
    log.flush(gives={"recoveryPoint": 60})


def _indexed(log: Script) -> None:
    log.open({"segment.bytes": 200, "index.interval.bytes": 1, "segment.index.bytes": 120})
    for number in range(12):
        log.append(batch(records(1, at=START_MS + 10 * number)))


@scenario
def lost_indexes_are_rebuilt(log: Script) -> None:
    _indexed(log)
    log.close(clean=False)
    for base in range(0, 12, 2):
        log.damage(name(base, "index"), delete=True)
        log.damage(name(base, "timeindex"), delete=True)
    log.open()
    for number in range(12):
        log.read(number, max=1, gives={"batches": [[number, number]]})
        log.offset_for_time(ms=START_MS + 10 * number, gives={"offset": number})


@scenario
def indexes_of_nonsense_are_rebuilt(log: Script) -> None:
    _indexed(log)
    log.close(clean=False)
    for base in range(0, 12, 2):
        for suffix in ("index", "timeindex"):
            log.damage(name(base, suffix), truncate_to=0)
            log.damage(name(base, suffix), append=text(b"  "))
    log.open()
    for number in (0, 5, 11):
        log.read(number, max=1, gives={"batches": [[number, number]]})
        log.offset_for_time(ms=START_MS + 10 * number, gives={"offset": number})


@scenario
def a_lost_offset_index_means_recovery_even_after_a_clean_close(log: Script) -> None:
    _indexed(log)
    log.close()
    log.damage(name(2, "index"), delete=True)
    log.open()
    log.read(3, max=1, gives={"batches": [[3, 3]]})
    log.ls()


@scenario
def a_lost_time_index_is_not_rebuilt_without_recovery(log: Script) -> None:
    log.open({"segment.bytes": 200, "index.interval.bytes": 1})
    for offset in range(12):
        log.follow(messages(1, 1, first=offset, at=START_MS + 10 * offset))
    log.close()
    for base in (0, 4, 8):
        log.damage(name(base, "timeindex"), delete=True)
    log.open(recovery_point=13, clean=False)
    log.ls()


@scenario
def index_files_without_a_log_go(log: Script) -> None:
    log.open({"segment.bytes": 5 * ONE_RECORD, "index.interval.bytes": 1})
    log.close(clean=False)
    for suffix in ("index", "timeindex"):
        log.damage(name(5, suffix), append="")
        log.damage(name(0, suffix), truncate_to=0)
    log.open()
    log.state()
    fill(log, 10)


@scenario
def truncation_right_after_opening(log: Script) -> None:
    log.open({"segment.bytes": 5 * ONE_RECORD})
    fill(log, 30)
    log.crash()
    log.truncate(offset=3, gives={"after": [0, 3, 0, 0, 1]})


@scenario
def files_marked_as_deleted_are_deleted_on_opening(log: Script) -> None:
    log.open({"segment.bytes": 5 * ONE_RECORD, "retention.ms": 999})
    for _ in range(20):
        log.append(batch(records(1, at=START_MS - 10_000)))
    log.high_watermark(20)
    log.retention()
    log.ls()
    log.crash(gives={"segments": [20]})
    log.ls()


@scenario
def garbage_at_the_end_is_cut_off(log: Script) -> None:
    log.open({"segment.bytes": 1000, "index.interval.bytes": 1})
    fill(log, 20)
    for tail in (b"\0" * 40, b"nonsense " * 30, batch(1, first=20)[:-1], b"\1"):
        log.close(clean=False)
        log.damage(name(13, "log"), append=text(tail))
        log.damage(name(13, "index"), append=text(b"garbage!"))
        log.open(recovery_point=10)
        log.state(logEndOffset=20)


@scenario
def a_bad_batch_ends_its_segment_and_takes_what_follows(log: Script) -> None:
    log.open({"segment.bytes": 5 * ONE_RECORD})
    fill(log, 18)
    log.close(clean=False)
    log.damage(name(5, "log"), xor=[2 * ONE_RECORD + 70, 1])
    log.open(gives={"segments": [0, 5]})
    log.state(logEndOffset=7)
    log.append(batch(1), gives={"firstOffset": 7})


@scenario
def each_damaged_message_of_a_segment_in_turn(log: Script) -> None:
    log.open()
    fill(log, 6)
    for number in (5, 3, 1, 0):
        log.close(clean=False)
        log.damage(FIRST_LOG, xor=[number * ONE_RECORD + 64, 255])
        log.open()
        log.state(logEndOffset=number)
        log.read(0, gives={"size": number * ONE_RECORD})


@scenario
def segments_that_overlap_by_more_than_an_index_can_say_are_split_apart(log: Script) -> None:
    log.open({"index.interval.bytes": 1})
    log.follow(batch(1, leader_epoch=0))
    log.follow(batch(1, first=BEYOND, leader_epoch=0), gives={"after": [0, BEYOND + 1, 0, 0, 2]})
    log.follow(batch(1, first=BEYOND + 1, leader_epoch=0), gives={"after": [0, BEYOND + 2, 0, 0, 2]})
    log.follow(batch(2, first=BEYOND + 2, leader_epoch=0, codec=GZIP), gives={"after": [0, BEYOND + 4, 0, 0, 2]})
    log.reopen()


@scenario
def old_wrappers_far_apart_roll_by_their_last_offset(log: Script) -> None:
    log.open({"segment.bytes": 1000, "index.interval.bytes": 1})
    log.follow(messages(1, 1))
    for first in (BEYOND, BEYOND + 2, BEYOND + 4):
        log.follow(messages(1, 2, first=first, codec=GZIP))
    log.state()
    log.reopen()


def _overflowed(log: Script, *payloads: bytes, base: int = 0) -> None:
    """A segment whose offsets are out of range for its name, as a fault of Kafka before 1.1 left them."""
    log.open({"index.interval.bytes": 1, "file.delete.delay.ms": 1000})
    log.close(clean=False)
    if base:
        log.damage(FIRST_LOG, delete=True)
    for payload in payloads:
        log.damage(name(base, "log"), append=text(payload))


OVERFLOWED = (
    batch(1, first=0, leader_epoch=0),
    batch(2, first=BEYOND, leader_epoch=0),
    batch(1, first=2 * BEYOND + 5, leader_epoch=0),
)


@scenario
def an_overflowed_segment_is_split_on_opening(log: Script) -> None:
    _overflowed(log, *OVERFLOWED)
    log.open(gives={"segments": [0, BEYOND, 2 * BEYOND + 5]})
    log.read(0, gives={"batches": [[0, 0]]})
    log.read(2, gives={"batches": [[BEYOND, BEYOND + 1]]})
    log.ls()
    log.advance(1000)
    log.ls()
    log.crash()


@scenario
def a_segment_whose_offsets_all_overflow_becomes_another(log: Script) -> None:
    _overflowed(log, batch(1, first=BEYOND, leader_epoch=0), batch(1, first=BEYOND + 1, leader_epoch=0))
    log.open()
    log.read(BEYOND, gives={"batches": [[BEYOND, BEYOND], [BEYOND + 1, BEYOND + 1]]})


@scenario
def a_batch_that_only_ends_beyond_the_limit_is_split_off(log: Script) -> None:
    _overflowed(log, batch(3, first=(1 << 31) - 2, leader_epoch=0))
    log.open()
    log.read((1 << 31) - 2, gives={"batches": [[(1 << 31) - 2, 1 << 31]]})


def _split(log: Script) -> None:
    """An overflowed segment that was split, with its own files still there as deleted ones."""
    _overflowed(log, *OVERFLOWED)
    log.open()
    log.close(clean=False)


def _renamed(log: Script, base: int, before: str, after: str) -> None:
    log.damage(name(base, "log") + before, rename=name(base, "log") + after)


@scenario
def a_split_that_ended_before_any_swap_is_undone(log: Script) -> None:
    _split(log)
    log.damage(name(0, "log"), delete=True)
    for base in (BEYOND, 2 * BEYOND + 5):
        _renamed(log, base, "", ".cleaned")
    _renamed(log, 0, ".deleted", "")
    log.open(gives={"segments": [0, BEYOND, 2 * BEYOND + 5]})
    log.read(0, gives={"batches": [[0, 0]]})


@scenario
def a_split_that_ended_within_the_renaming_is_undone(log: Script) -> None:
    _split(log)
    log.damage(name(0, "log"), delete=True)
    _renamed(log, BEYOND, "", ".cleaned")
    _renamed(log, 2 * BEYOND + 5, "", ".swap")
    _renamed(log, 0, ".deleted", "")
    log.open(gives={"segments": [0, BEYOND, 2 * BEYOND + 5]})
    log.read(0, gives={"batches": [[0, 0]]})


@scenario
def a_split_whose_parts_are_all_renamed_is_completed(log: Script) -> None:
    _split(log)
    for base in (0, BEYOND, 2 * BEYOND + 5):
        _renamed(log, base, "", ".swap")
    _renamed(log, 0, ".deleted", "")
    log.open(gives={"segments": [0, BEYOND, 2 * BEYOND + 5]})
    log.read(BEYOND, gives={"batches": [[BEYOND, BEYOND + 1]]})
    log.ls()


@scenario
def a_split_whose_source_is_gone_is_completed(log: Script) -> None:
    _split(log)
    for base in (0, BEYOND, 2 * BEYOND + 5):
        _renamed(log, base, "", ".swap")
    log.damage(name(0, "log") + ".deleted", delete=True)
    log.open(gives={"segments": [0, BEYOND, 2 * BEYOND + 5]})


@scenario
def a_split_with_one_swap_left_is_completed(log: Script) -> None:
    _split(log)
    _renamed(log, 2 * BEYOND + 5, "", ".swap")
    log.open(gives={"segments": [0, BEYOND, 2 * BEYOND + 5]})
    log.read(2 * BEYOND, gives={"batches": [[2 * BEYOND + 5, 2 * BEYOND + 5]]})


@scenario
def a_lost_epoch_checkpoint_is_rebuilt_by_recovery_only(log: Script) -> None:
    log.open()
    for offset, epoch in enumerate((1, 2, 2, 3)):
        log.follow(batch(1, first=offset, leader_epoch=epoch), leader_epoch=epoch)
    log.state(epochs=[[1, 0], [2, 1], [3, 3]])
    log.close(clean=False)
    log.damage("leader-epoch-checkpoint", delete=True)
    log.open()
    log.state(epochs=[[1, 0], [2, 1], [3, 3]])
    log.close()
    log.damage("leader-epoch-checkpoint", delete=True)
    log.open()
    log.state(epochs=[])


def _transactions(log: Script) -> None:
    log.open({"segment.bytes": 640})
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


def _reads_both_aborts(log: Script) -> None:
    log.high_watermark(90)
    for offset in (0, 30, 60):
        log.read(offset, "committed")
    log.state(firstUnstableOffset=-1)


@scenario
def transaction_indexes_are_rebuilt_with_the_segments(log: Script) -> None:
    _transactions(log)
    log.ls()
    log.close(clean=False)
    for base in (0, 19, 29, 36, 49, 58, 59, 67, 74, 75, 85):
        for suffix in ("index", "txnindex"):
            log.damage(name(base, suffix), delete=True)
    log.open()
    _reads_both_aborts(log)


@scenario
def only_segments_behind_the_recovery_point_are_recovered(log: Script) -> None:
    _transactions(log)
    log.flush()
    log.checkpoint()
    log.state()
    log.crash()
    _reads_both_aborts(log)
    log.ls()


@scenario
def the_last_segment_is_recovered_without_snapshots(log: Script) -> None:
    _transactions(log)
    log.close(clean=False)
    for base in (14, 17, 19, 29, 30, 36, 39, 49, 58, 59, 67, 74, 75, 85):
        log.damage(name(base, "snapshot"), delete=True)
    log.open(recovery_point=85)
    _reads_both_aborts(log)
    log.ls()


@scenario
def snapshots_are_made_again_where_there_are_none(log: Script) -> None:
    log.open({"segment.bytes": 640})
    fill(log, 40)
    for fields in ({"clean": True}, {"clean": False, "recovery_point": 40}, {"clean": False, "recovery_point": 0}):
        log.close()
        for base in (*range(8, 48, 8), 40):
            log.damage(name(base, "snapshot"), delete=True)
        log.open(**fields)
        log.ls()


@scenario
def snapshots_behind_the_end_go_on_opening(log: Script) -> None:
    log.open()
    log.close(clean=False)
    log.damage(name(42, "snapshot"), append="")
    log.open()
    log.ls()


@scenario
def of_stray_snapshots_the_largest_is_kept_until_it_is_used(log: Script) -> None:
    log.open()
    for number in range(4):
        log.append(produced(1, 1, 0, number))
        if number < 2:
            log.roll()
    log.close()
    log.damage(name(3, "snapshot"), append="")
    log.open(clean=False)
    log.ls()
    log.reopen()
    log.ls()


@scenario
def producers_below_the_log_start_are_loaded_from_their_segment(log: Script) -> None:
    log.open()
    log.append(produced(1, 1, 0, 0))
    log.append(produced(1, 2, 0, 0))
    log.high_watermark(2)
    log.delete_records(offset=1)
    log.crash(log_start=1)
    log.append(produced(1, 1, 0, 1), gives={"firstOffset": 2})
    log.append(produced(1, 2, 0, 1), gives={"firstOffset": 3})


@scenario
def producers_of_removed_segments_are_gone_after_recovery(log: Script) -> None:
    log.open()
    log.append(produced(1, 1, 0, 0))
    log.roll()
    log.append(produced(1, 2, 0, 0))
    log.high_watermark(2)
    log.delete_records(offset=1)
    log.retention(gives={"deleted": 1})
    log.close(clean=False)
    log.damage(name(1, "snapshot"), delete=True)
    log.open(log_start=1)
    log.state()


@scenario
def a_log_that_ends_before_its_start_begins_anew(log: Script) -> None:
    log.open()
    for _ in range(5):
        log.append(batch(1))
        log.roll()
    log.high_watermark(5)
    log.delete_records(offset=4)
    log.close(clean=False)
    log.damage(name(1, "log"), truncate_to=0)
    log.damage(name(1, "log"), append=text(b"corruptRecord"))
    log.open(log_start=4)
    log.state(logStartOffset=4, logEndOffset=4)


@scenario
def recovery_that_cuts_the_log_keeps_its_snapshots(log: Script) -> None:
    log.open({"segment.bytes": 640})
    for number in range(40):
        log.append(produced(1, 1, 0, number))
    log.close(clean=False)
    log.damage(name(16, "log"), truncate_to=100)
    log.open()
    log.ls()
    log.append(produced(1, 1, 0, 17), gives={"firstOffset": 17})


@scenario
def an_empty_active_segment_survives_recovery(log: Script) -> None:
    log.open()
    fill(log, 5)
    log.roll()
    log.crash()
    log.state(logEndOffset=5)
    log.append(batch(1), gives={"firstOffset": 5})


@scenario
def a_coordinator_epoch_may_fall_once_its_producer_expired(log: Script) -> None:
    log.open()
    log.end_transaction(1, 0, commit=False, coordinator_epoch=5)
    log.advance(DAY_MS)
    log.state(producers=[])
    log.end_transaction(1, 0, commit=False, coordinator_epoch=4)
    log.crash(recovery_point=0)
    log.state(logEndOffset=2)


@scenario
def an_empty_producer_state_needs_no_reload(log: Script) -> None:
    log.open()
    fill(log, 2)
    log.truncate(offset=1)
    log.state(mapEndOffset=1, producers=[])
    log.ls()


@scenario
def old_messages_are_loaded_without_producers(log: Script) -> None:
    log.open({"segment.bytes": 300})
    for offset in range(20):
        log.follow(messages(1, 1, first=offset))
    log.crash()
    log.state(producers=[], logEndOffset=20)
    log.reopen()
    log.ls()


@scenario
def a_half_swapped_compaction_is_completed_or_undone(log: Script) -> None:
    log.open({"segment.bytes": 3 * ONE_RECORD})
    fill(log, 9)
    log.close(clean=False)
    log.damage(FIRST_LOG, copy=name(0, "log") + ".swap")
    log.damage(name(3, "log"), copy=name(3, "log") + ".cleaned")
    log.damage(name(3, "index"), copy=name(3, "index") + ".cleaned")
    log.open(gives={"segments": [0, 3, 6]})
    log.ls()
    log.close(clean=False)
    log.damage(name(3, "log"), copy=name(3, "log") + ".swap")
    log.open(gives={"segments": [0, 3, 6]})
    log.ls()


@scenario
def a_swapped_segment_replaces_what_it_covers(log: Script) -> None:
    log.open({"segment.bytes": 3 * ONE_RECORD})
    fill(log, 9)
    log.close(clean=False)
    whole = b"".join(batch(1, first=offset, leader_epoch=0) for offset in (0, 4))
    log.damage(name(0, "log") + ".swap", append=text(whole))
    log.open(gives={"segments": [0, 6]})
    log.read(0, gives={"batches": [[0, 0], [4, 4]]})
    log.read(5, gives={"batches": [[6, 6], [7, 7], [8, 8]]})


@scenario
def an_unreadable_checkpoint_counts_as_none(log: Script) -> None:
    log.open({"segment.bytes": 3 * ONE_RECORD})
    fill(log, 9)
    log.close(clean=False)
    log.do("damage", file="data/recovery-point-offset-checkpoint", append=text(b"0\nx\n"))
    log.open(gives={"recoveryPointGiven": 0})
    log.state(logEndOffset=9)


@scenario
def an_aborted_transaction_is_found_after_recovery_of_its_marker(log: Script) -> None:
    log.open()
    log.follow(in_transaction(2, 11, 0, 0, leader_epoch=0))
    log.follow(batch(2, first=2, leader_epoch=0))
    log.follow(marker(11, 0, commit=False, offset=4))
    log.close(clean=False)
    log.damage(name(0, "txnindex"), truncate_to=0)
    log.open()
    log.high_watermark(5)
    log.read(0, "committed", gives={"aborted": [[11, 0]]})


@scenario
def a_damaged_transaction_index_is_rebuilt(log: Script) -> None:
    log.open()
    log.transactional(in_transaction(2, 11, 0, 0))
    log.end_transaction(11, 0, commit=False)
    for change in ({"xor": [9, 255]}, {"truncate_by": 3}, {"append": text(b"short")}):
        log.close(clean=False)
        log.damage(name(0, "txnindex"), **change)
        log.open()
        log.high_watermark(3)
        log.read(0, "committed", gives={"aborted": [[11, 0]]})
