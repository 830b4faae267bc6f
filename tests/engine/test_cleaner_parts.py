"""The parts of the cleaner by themselves: the map of offsets, the choice of what to clean, groups, chunks, transactions."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from kafkalog import codecs
from kafkalog.engine.cleaner import Cleaner, CleaningAborted, OffsetMap
from kafkalog.engine.cleaner.cleaning import group_segments
from kafkalog.engine.cleaner.kept_records import CleanedTransactions
from kafkalog.engine.cleaner.selection import CHECKPOINT_FILE, find_cleanable_offsets, log_to_clean
from kafkalog.engine.transaction_index import AbortedTransaction
from kafkalog.errors import CleaningFailed, CorruptRecord, InvalidArgument, InvalidRecord, InvalidState
from kafkalog.format.batch import BATCH_LENGTH_POSITION
from kafkalog.format.control import ABORT, COMMIT
from kafkalog.kernels import offset_map as kernel
from kafkalog.kernels._jit import kernel as compiled
from kafkalog.kernels._jit import wrapping
from tests.engine.compacted_logs import DELETE_RETENTION_MS, NOW, Log

# SipHash-2-4 with 128 bits of the bytes 0, 1, 2, …, keyed with 0 to 15: the vectors that its authors give.
SIPHASH = {0: "a3817f04ba25a8e66df67214c7550293", 1: "da87c1d86b99af44347659119b22fc45", 15: "5493e99933b0a8117e08ec0f97cfc3d9"}


@wrapping
@compiled
def _hash(key: np.ndarray, secret: np.ndarray) -> tuple[np.uint64, np.uint64]:
    return kernel.hash_of(key, 0, key.shape[0], secret)


# the map


@pytest.mark.parametrize("size", SIPHASH)
def test_keys_are_hashed_by_siphash_as_its_authors_define_it(size: int) -> None:
    secret = np.frombuffer(bytes(range(16)), np.uint64)
    low, high = _hash(np.frombuffer(bytes(range(size)), np.uint8), secret)
    assert (int(low).to_bytes(8, "little") + int(high).to_bytes(8, "little")).hex() == SIPHASH[size]


def test_the_map_agrees_with_a_dictionary_up_to_its_last_slot() -> None:
    chance, offsets = random.Random(3), OffsetMap(24 * 50)
    expected: dict[bytes, int] = {}
    keys = [chance.randbytes(chance.randrange(40)) for _ in range(200)]
    for offset in range(400):
        key = chance.choice(keys)
        if len(expected) < 50:
            offsets.put(key, offset)
            expected[key] = offset
            assert offsets.latest_offset == offset
    assert offsets.size == len(expected) == offsets.slots == 50
    assert [offsets.get(key) for key in keys] == [expected.get(key, -1) for key in keys]
    assert offsets.utilization == 1


def test_a_full_map_refuses_a_key_and_an_emptied_one_knows_none() -> None:
    offsets = OffsetMap(24 * 2 + 23)
    offsets.put(b"a", 1)
    offsets.put(b"b", 2)
    with pytest.raises(InvalidArgument):
        offsets.put(b"a", 3)
    offsets.clear()
    assert (offsets.size, offsets.latest_offset, offsets.get(b"a")) == (0, -1, -1)


def test_two_maps_hash_differently_so_that_nobody_can_make_keys_collide() -> None:
    assert OffsetMap(24).secret.tolist() != OffsetMap(24).secret.tolist()


# the choice of what to clean


def dirty_log(segments: int = 3) -> Log:
    log = Log()
    for number in range(segments):
        log.append([(b"k", b"%d" % number), (b"other-%d" % number, b"v")])
        log.roll()
    return log


def test_everything_before_the_active_segment_is_cleaned_and_the_checkpoint_says_so() -> None:
    log = dirty_log()
    result = log.clean()
    assert result is not None
    assert (result.to_clean.first_dirty_offset, result.to_clean.first_uncleanable_offset, result.end_offset) == (0, 6, 6)
    assert log.selection.checkpoints() == {("t", 0): 6}
    assert [(record.offset, record.value) for record in log.records] == [(1, b"v"), (3, b"v"), (4, b"2"), (5, b"v")]
    assert log.log.segments.base_offsets == [0, 6]


def test_a_log_that_is_not_compacted_or_not_dirty_enough_is_left_alone() -> None:
    log = dirty_log()
    log.log.update_config(log.log.config.with_settings({"cleanup.policy": "delete"}))
    assert log.clean() is None
    log.log.update_config(log.log.config.with_settings({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1"}))
    assert log.clean() is None


def test_the_greatest_lag_makes_a_log_due_however_little_of_it_is_dirty() -> None:
    log = dirty_log()
    settings = {"min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": "5000"}
    log.log.update_config(log.log.config.with_settings(settings))
    log.clock.now = NOW + 4000
    assert log.clean() is None
    log.clock.now = NOW + 6000
    assert log.clean() is not None


def test_the_least_lag_keeps_what_is_too_new() -> None:
    log = dirty_log(2)
    log.clock.now += 10_000
    log.append([(b"k", b"new")])
    log.roll()
    log.log.update_config(log.log.config.with_settings({"min.compaction.lag.ms": "5000"}))
    assert find_cleanable_offsets(log.log, None, log.clock.now).first_uncleanable_offset == 4


def test_an_open_transaction_ends_what_can_be_cleaned() -> None:
    log = dirty_log(1)
    log.append([(b"k", b"open")], producer_id=6, is_transactional=True)
    log.roll()
    log.append([(b"k", b"behind")])
    log.roll()
    offsets = find_cleanable_offsets(log.log, None, log.clock.now)
    assert (offsets.first_dirty_offset, offsets.first_uncleanable_offset) == (0, 2)
    assert log_to_clean(log.log, offsets).first_uncleanable_offset == 2


@pytest.mark.parametrize("offset", [-1, 1000])
def test_a_checkpoint_outside_the_log_is_set_back_to_its_start(offset: int) -> None:
    log = dirty_log(0)
    log.append([(b"k", b"v")])
    log.selection.done_cleaning(log.log, offset)
    assert find_cleanable_offsets(log.log, offset, log.clock.now).is_reset
    assert log.clean() is None
    assert log.selection.checkpoints() == {("t", 0): 0}


def test_a_checkpoint_file_that_cannot_be_read_counts_as_none_and_stays_as_it_is() -> None:
    log = dirty_log()
    path = f"/logs/{CHECKPOINT_FILE}"
    log.fs.open(path).write(0, b"nonsense")
    assert log.clean() is not None
    assert log.fs.read(path, 0, 100) == b"nonsense"


def test_truncation_lowers_the_checkpoint_but_never_raises_it() -> None:
    log = dirty_log()
    log.clean()
    log.selection.maybe_truncate_checkpoint(log.log, 10)
    assert log.selection.checkpoints() == {("t", 0): 6}
    log.selection.maybe_truncate_checkpoint(log.log, 2)
    assert log.selection.checkpoints() == {("t", 0): 2}


def test_a_log_whose_pass_failed_is_left_alone_from_then_on() -> None:
    log = dirty_log()
    _damage(log, lambda data: data[:-20])
    with pytest.raises(InvalidState):
        log.clean()
    assert log.clean() is None


def test_a_log_that_cannot_be_measured_is_named_with_the_cause() -> None:
    log = dirty_log()
    _damage(log, lambda data: data[:8] + b"\0\0\0\1" + data[12:])
    with pytest.raises(CleaningFailed) as failure:
        log.clean()
    assert isinstance(failure.value.__cause__, CorruptRecord)


def _damage(log: Log, change: Callable[[bytes], bytes]) -> None:
    """Change the bytes of the first segment behind the engine's back."""
    segment = log.log.segments.values[0]
    data = change(segment.log.read(0, segment.size))
    file = log.fs.open(segment.log.path)
    file.truncate(0)
    file.write(0, data)
    segment.log.size = len(data)


def test_a_pass_that_is_given_up_leaves_the_log_as_it_was() -> None:
    log = dirty_log()
    before = log.files()

    def give_up() -> None:
        if any(name.endswith(".cleaned") for name in log.files()):
            raise CleaningAborted

    result = log.clean(check=give_up)
    assert result is not None
    assert result.is_aborted
    assert result.end_offset == 0
    after = {name: data for name, data in log.files().items() if not name.endswith(CHECKPOINT_FILE)}
    assert after == {name: data for name, data in before.items() if not name.endswith(CHECKPOINT_FILE)}


# groups and chunks


def test_segments_are_grouped_while_logs_and_indexes_fit_one() -> None:
    log = dirty_log(5)
    segments = log.log.log_segments(0, 10)
    size = segments[0].size
    log.log.update_config(log.log.config.with_settings({"internal.segment.bytes": str(2 * size)}))
    assert [len(group) for group in group_segments(segments, log.log, 10)] == [2, 2, 1]
    log.log.update_config(log.log.config.with_settings({"internal.segment.bytes": str(100 * size)}))
    assert [len(group) for group in group_segments(segments, log.log, 10)] == [5]
    assert [len(group) for group in group_segments(segments, log.log, 1 << 32)] == [4, 1]


@pytest.mark.parametrize("by_kernels", [True, False])
def test_a_batch_larger_than_the_buffers_is_read_all_the_same(by_kernels: bool) -> None:
    log = Log(segment_bytes=1 << 22)
    log.append([(b"k", bytes(50_000))])
    log.append([(b"k", b"last")])
    log.roll()
    log.clean(io_buffer_bytes=128, max_io_buffer_bytes=256, by_kernels=by_kernels)
    assert [record.value for record in log.records] == [b"last"]


def test_an_entry_that_claims_more_than_the_file_has_is_corrupt() -> None:
    log = dirty_log()
    length = struct.pack(">i", 1 << 24)
    _damage(log, lambda data: data[:BATCH_LENGTH_POSITION] + length + data[BATCH_LENGTH_POSITION + 4 :])
    to_clean = log_to_clean(log.log, find_cleanable_offsets(log.log, None, NOW))
    with pytest.raises(CorruptRecord):
        Cleaner(OffsetMap(2400)).clean(to_clean, NOW)


@pytest.mark.parametrize("by_kernels", [True, False])
def test_too_few_bytes_for_an_entry_are_corrupt_only_if_they_say_a_size_that_none_has(by_kernels: bool) -> None:
    for tail, error in ((b"\xff" * 13, CorruptRecord), (b"\xff" * 11, InvalidState), (bytes(8) + b"\0\0\0\x50", InvalidState)):
        log = dirty_log()
        _damage(log, lambda data, tail=tail: data + tail)  # type: ignore[misc]
        with pytest.raises(error):
            log.clean(by_kernels=by_kernels)


def test_a_map_too_small_for_one_key_cleans_nothing() -> None:
    log = dirty_log()
    result = log.clean(4, load_factor=0.1)
    assert result is not None
    assert (result.end_offset, result.stats.messages_read) == (0, 0)


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_of_many_records_is_rewritten_with_its_codec(codec: int) -> None:
    log = Log(segment_bytes=1 << 22)
    log.append([(b"%d" % number, bytes(100)) for number in range(9000)], codec=codec)
    log.append([(b"%d" % number, b"new") for number in range(0, 9000, 2)], codec=codec)
    log.roll()
    log.clean(20_000)
    assert [entry.codec for entry in log.entries] == [codec, codec]
    assert len(log.records) == 9000
    assert {record.key for record in log.records} == {b"%d" % number for number in range(9000)}


# deletes and transactions


def test_a_delete_gets_a_horizon_and_goes_with_the_first_pass_after_it() -> None:
    log = Log()
    log.append([(b"gone", b"v"), (b"gone", None), (b"stays", b"v")])
    log.roll()
    log.clean()
    assert log.entries[0].delete_horizon_ms == NOW + DELETE_RETENTION_MS
    assert [record.offset for record in log.records] == [1, 2]
    log.clock.now += DELETE_RETENTION_MS
    log.clean_again()
    assert [record.offset for record in log.records] == [2]
    assert log.entries[0].base_offset == 0  # a batch keeps its position


@pytest.mark.parametrize("codec", [codecs.NONE, codecs.LZ4])
def test_old_messages_that_stay_become_batches(codec: int) -> None:
    log = Log()
    log.append([(b"a", b"1"), (b"b", b"2"), (b"a", b"3")], magic=1, codec=codec)
    log.roll()
    log.clean()
    assert {entry.magic for entry in log.entries} == {2}
    assert [(record.offset, record.value) for record in log.records] == [(1, b"2"), (2, b"3")]


def test_the_last_batch_of_a_producer_stays_as_a_header() -> None:
    log = Log()
    log.append([(b"k", b"1")], producer_id=5)
    log.append([(b"k", b"2")])
    log.roll()
    log.clean()
    assert [(entry.producer_id, entry.records_count) for entry in log.entries] == [(5, 0), (-1, 1)]


def test_data_of_an_aborted_transaction_goes_and_its_marker_follows_two_passes_later() -> None:
    log = Log()
    log.append([(b"k", b"kept")])
    log.append([(b"k", b"aborted")], producer_id=6, is_transactional=True)
    log.end(6, commit=False)
    log.append([(b"other", b"v")], producer_id=6, is_transactional=True)
    log.end(6, commit=True)
    log.roll()
    log.clean()
    assert [record.value for record in log.records] == [b"kept", b"v"]
    assert len(log.log.collect_aborted_transactions(0, 100)) == 1
    log.clean_again()
    assert log.log.collect_aborted_transactions(0, 100) == []
    assert [entry.delete_horizon_ms for entry in log.entries if entry.is_control_batch] == [NOW + DELETE_RETENTION_MS, None]
    log.clock.now += DELETE_RETENTION_MS
    log.clean_again()
    assert sum(entry.is_control_batch for entry in log.entries) == 1


def test_transactions_know_data_of_the_aborted_ones_and_markers_without_data() -> None:
    transactions = CleanedTransactions()
    aborted = AbortedTransaction(7, 10, 20, 10)
    transactions.add_aborted([aborted, aborted])
    assert not transactions.on_data(7, 9)
    assert transactions.on_data(7, 12)
    assert not transactions.on_control(ABORT, 7, 20)
    assert transactions.take_kept() == (aborted,)
    assert transactions.take_kept() == ()
    assert not transactions.on_control(COMMIT, 7, 21)  # of the data at 9
    assert transactions.on_control(COMMIT, 7, 22)
    assert transactions.on_control(ABORT, 7, 23)
    assert transactions.on_control(None, 7, 24)
    assert not transactions.on_control(5, 7, 25)


@pytest.mark.parametrize("by_kernels", [True, False])
def test_a_control_batch_that_cannot_be_read_is_refused(by_kernels: bool) -> None:
    log = Log()
    log.append([(b"k", b"v")], producer_id=6, is_transactional=True)
    log.end(6, commit=True)
    log.roll()
    _damage(log, lambda data: data[:-17] + b"\xff" + data[-16:])  # the version of the control record's key
    with pytest.raises(InvalidRecord):
        log.clean(by_kernels=by_kernels)


# kernels


@pytest.mark.parametrize("switch", ["NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK", "KAFKALOG_NO_NATIVE"])
def test_kernels_give_the_same_without_the_compiler_with_bounds_checks_and_without_c_functions(switch: str) -> None:
    environment = {**os.environ, switch: "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    tests = "tests/engine/test_cleaner_kernels.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "[0]", tests]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
