"""A profile says what counting by hand says, and its estimates are as wrong as they admit."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from pyarrow import fs

import kafkalog
from kafkalog import codecs
from kafkalog.errors import CorruptBatch, Limits, UsageError
from kafkalog.format.reference import Record, encode_batch, encode_empty_batch
from kafkalog.kernels import counting as kernel
from kafkalog.kernels.bytes import Ints
from kafkalog.log.batches import read_batches
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import ReadReport
from kafkalog.tables.logs import Logs, open_logs
from kafkalog.tasks.profile.keys import LastRecords
from kafkalog.tasks.profile.ranking import HeavyItems
from kafkalog.tasks.profile.result import Profile
from kafkalog.tasks.profile.saving import ZstdTrial
from tests.builders.small_logs import FIRST_TIME, compress, made_batch, marker, transactional_batch, write_segment
from tests.golden import sets
from tests.property.generated_logs import GeneratedLog, logs
from tests.tasks.counted import assert_equal, count_by_hand

EVERYTHING = 1 << 20
NOW = FIRST_TIME + 86_400_000
DAY = 86_400_000


@pytest.mark.parametrize("era", sets.eras())
def test_the_logs_of_real_brokers_have_what_was_counted_by_hand(era: str, golden: Callable[[str], Path]) -> None:
    folder = golden(era) / era
    assert_equal(kafkalog.profile(folder, top=EVERYTHING), count_by_hand(folder))


@settings(max_examples=int(os.environ.get("KAFKALOG_KERNEL_EXAMPLES", "60")))
@given(logs())
def test_logs_of_any_shape_have_what_was_counted_by_hand(log: GeneratedLog) -> None:
    with tempfile.TemporaryDirectory() as name:
        write_segment(Path(name, "any-0"), log.base_offset, log.data)
        assert_equal(kafkalog.profile(name, top=EVERYTHING, threads=1), count_by_hand(Path(name)))


@pytest.mark.parametrize("switch", ["NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"])
def test_the_same_is_counted_without_the_compiler_and_with_bounds_checks(switch: str) -> None:
    environment = {**os.environ, switch: "1", "KAFKALOG_KERNEL_EXAMPLES": "10"}
    chosen = f"{__file__}::test_logs_of_any_shape_have_what_was_counted_by_hand"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", chosen]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout


def test_a_quick_profile_agrees_wherever_headers_know(golden: Callable[[str], Path]) -> None:
    folder = golden("4.3.0") / "4.3.0"
    topics = [name for name, count in kafkalog.profile(folder, quick=True).topics.items() if not count.uncounted_sets]
    assert len(topics) > 20
    whole, quick = (kafkalog.profile(folder, topics=topics, top=EVERYTHING, quick=quick) for quick in (False, True))
    for count in (*whole.topics.values(), *whole.partitions.values(), *whole.codecs.values()):
        count.raw_bytes = 0
    for name in ("topics", "partitions", "codecs", "producers", "batch_records", "batch_bytes", "zstd", "disk", "pinned_bytes"):
        assert getattr(quick, name) == getattr(whole, name), name
    assert quick.compaction is None
    assert quick.keys.items == ()


def test_a_quick_profile_says_whose_records_it_did_not_count(golden: Callable[[str], Path]) -> None:
    folder = golden("0.10.2.2") / "0.10.2.2"
    whole, quick = (kafkalog.profile(folder, quick=quick).total for quick in (False, True))
    assert quick.uncounted_sets > 0 == whole.uncounted_sets
    assert (quick.bytes, quick.batches) == (whole.bytes, whole.batches)
    assert quick.records < whole.records


# -- rankings in a bounded table -------------------------------------------------------------------------------------------------


def add_texts(heavy: HeavyItems, texts: list[bytes], weights: list[int]) -> None:
    sizes = np.array([len(text) for text in texts], np.int64)
    starts = np.cumsum(sizes) - sizes
    content = np.frombuffer(b"".join(texts), np.uint8)
    ids = np.empty(len(texts), np.int64)
    kernel.hash_texts(content, starts, sizes, np.ones(len(texts), np.uint8), 3, ids)
    heavy.add(ids, content, starts, sizes, np.array(weights, np.int64), np.ones(len(texts), np.int64))


@pytest.mark.parametrize("most", [8, 64, 512])
def test_a_full_table_is_never_more_wrong_than_it_says(most: int) -> None:
    chance = random.Random(most)
    true: Counter[bytes] = Counter()
    heavy = HeavyItems(most, 64)
    for _ in range(20):
        texts = [b"key-%d" % int(chance.paretovariate(0.4)) for _ in range(500)]
        weights = [chance.randrange(200) for _ in texts]
        for text, weight in zip(texts, weights, strict=True):
            true[text] += weight
        add_texts(heavy, texts, weights)
    found = heavy.ranking(EVERYTHING)
    assert found.distinct is None
    assert 0 < len(found.items) <= most
    shown = {item.name: item.bytes for item in found.items}
    for name, size in true.items():
        assert shown.get(name, 0) <= size <= shown.get(name, 0) + found.error_bytes
    assert found.error_bytes <= 4 * sum(true.values()) / most


def test_a_table_with_room_is_exact_and_keeps_the_beginning_of_long_names() -> None:
    heavy = HeavyItems(1 << 13, 64)
    texts = [b"%d-" % (number % 5000) + b"x" * 100 for number in range(12_000)]
    add_texts(heavy, texts, [1] * len(texts))
    found = heavy.ranking(EVERYTHING)
    assert (found.distinct, found.error_bytes) == (5000, 0)
    assert {item.name: (item.bytes, item.size) for item in found.items} == {
        text[:64]: (times, len(text)) for text, times in Counter(texts).items()
    }


def test_ids_of_many_keys_do_not_collide_and_spread_over_all_bits() -> None:
    texts = [b"%d" % number for number in range(100_000)] + [number.to_bytes(8, "big") for number in range(100_000)]
    sizes = np.array([len(text) for text in texts], np.int64)
    ids = np.empty(len(texts), np.int64)
    content = np.frombuffer(b"".join(texts), np.uint8)
    kernel.hash_texts(content, np.cumsum(sizes) - sizes, sizes, np.ones(len(texts), np.uint8), 0, ids)
    assert len(np.unique(ids)) == len(texts)
    assert ids.min() > 0
    ones = [(ids >> bit & 1).mean() for bit in range(63)]
    assert all(abs(share - 0.5) < 0.01 for share in ones), ones


def test_samples_of_keys_by_hash_vary_as_samples_by_chance_would() -> None:
    """An interval is made of this variance: keys that are numbers in a row must not be spread better or worse than by chance."""
    count, rounds = 3000, 400
    content = np.arange(count, dtype=np.int64).view(np.uint8)
    starts, sizes, ids = np.arange(count) * 8, np.full(count, 8), np.empty(count, np.int64)
    for bits in (2, 4, 6):
        chosen = []
        for seed in range(rounds):
            kernel.hash_texts(content, starts, sizes, np.ones(count, np.uint8), seed, ids)
            chosen.append(int((ids & ((1 << bits) - 1) == 0).sum()))
        share = 0.5**bits
        assert np.mean(chosen) == pytest.approx(count * share, rel=0.02)
        assert 0.75 < np.var(chosen) / (count * share * (1 - share)) < 1.25


# -- duplicates ------------------------------------------------------------------------------------------------------------------


def keys_of(count: int, seed: int) -> tuple[Ints, Ints]:
    """Ids with repetitions, and skewed sizes."""
    chance = np.random.default_rng(seed)
    numbers = chance.integers(0, count, 3 * count)
    content = numbers.astype(np.int64).view(np.uint8)
    ids = np.empty(len(numbers), np.int64)
    starts = np.arange(len(numbers)) * 8
    kernel.hash_texts(content, starts, np.full(len(ids), 8), np.ones(len(ids), np.uint8), seed, ids)
    return ids, (100 * chance.pareto(3, len(ids))).astype(np.int64)


def test_intervals_of_duplicates_hold_the_truth_as_often_as_they_should() -> None:
    rounds, hits, errors = 200, [0, 0], [0.0, 0.0]
    for seed in range(rounds):
        ids, sizes = keys_of(4000, seed)
        sample = LastRecords(salt=seed * 0x9E3779B1, most_slots=1 << 9)
        for part in np.array_split(np.arange(len(ids)), 7):
            sample.add(ids[part], sizes[part], np.ones(len(part), np.uint8))
        assert sample.level > 0
        assert sample.used <= 1 << 8
        last = dict(zip(ids.tolist(), sizes.tolist(), strict=True))
        sums = sample.sums()
        for at, (estimated, truth) in enumerate(((sums.keys, len(last)), (sums.last_bytes, sum(last.values())))):
            interval = estimated.estimate(0, 1 << 60)
            hits[at] += interval.low <= truth <= interval.high
            errors[at] += estimated.value / truth - 1
    assert all(0.9 <= hit / rounds <= 0.99 for hit in hits), hits
    assert all(abs(error / rounds) < 0.02 for error in errors), errors


def test_the_last_record_of_a_key_stays_and_those_of_aborted_transactions_never_do(tmp_path: Path) -> None:
    keyed = [Record(at, FIRST_TIME, b"k%d" % (at % 2), b"v" * 10) for at in range(4)]
    gone = Record(4, FIRST_TIME, b"k1", None)
    producer = {"transactional": True, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    aborted = encode_batch([Record(5, FIRST_TIME, b"k0", b"x")], **producer)  # type: ignore[arg-type]
    entries = encode_batch(keyed), encode_batch([gone]), aborted, marker(6, 7, commit=False)
    write_segment(tmp_path / "t-0", 0, *entries)
    found = kafkalog.profile(tmp_path).compaction
    assert found is not None
    assert (found.keyed_records, found.keys.value, found.duplicates.value) == (5, 2, 3)
    assert (found.aborted_records, found.aborted_bytes) == (1, len(aborted))
    assert (found.tombstones.value, found.tombstone_bytes.value) == (1, len(entries[1]))


def test_the_same_key_in_two_partitions_is_no_duplicate(tmp_path: Path) -> None:
    for number in range(2):
        write_segment(tmp_path / f"t-{number}", 0, encode_batch([Record(0, FIRST_TIME, b"same", b"v")]))
    found = kafkalog.profile(tmp_path)
    assert found.compaction is not None
    assert (found.compaction.keys.value, found.compaction.duplicates.value) == (2, 0)
    assert [(item.name, item.records) for item in found.keys.items] == [(b"same", 2)]


# -- zstd ------------------------------------------------------------------------------------------------------------------------


def uneven_log(folder: Path) -> Logs:
    """Batches of all sizes, some of which shrink and some do not."""
    chance = random.Random(5)
    entries, offset = [], 0
    for _ in range(400):
        count = chance.choice([1, 3, 20])
        text = chance.randbytes(300) if chance.random() < 0.4 else b"the same again " * 20
        records = [Record(offset + at, FIRST_TIME, None, text) for at in range(count)]
        entries.append(encode_batch(records, codec=chance.choice([0, 3]), compress=compress))
        offset += count
    write_segment(folder / "t-0", 0, *entries)
    return open_logs(folder)


def tried(found: Logs, **choices: int) -> ZstdTrial:
    trial = ZstdTrial(found.partitions, Limits(), **choices)
    for headers in read_batches(found.partitions, ReadOptions(frozenset()), ReadReport()):
        trial.add(headers.partition, headers.file, headers.entries)
    return trial


def test_intervals_of_zstd_hold_the_truth_as_often_as_they_should(tmp_path: Path) -> None:
    found = uneven_log(tmp_path)
    truth, _ = tried(found).result()
    assert truth.bytes is not None
    assert truth.bytes.is_exact
    assert truth.batches == 400
    hits, rounds, middle = 0, 150, 0.0
    for seed in range(rounds):
        sampled, by_topic = tried(found, whole_bytes=0, draws=60, seed=seed).result()
        assert sampled.bytes is not None
        assert sampled == by_topic["t"]
        hits += sampled.bytes.low <= truth.bytes.value <= sampled.bytes.high
        middle += sampled.bytes.value / truth.bytes.value / rounds
    assert 0.9 <= hits / rounds <= 0.99, hits
    assert abs(middle - 1) < 0.03


def test_zstd_saves_what_zstd_saves_and_nothing_of_what_is_zstd(tmp_path: Path) -> None:
    records = [Record(at, FIRST_TIME, None, b"again and again ") for at in range(100)]
    plain, packed = encode_batch(records), encode_batch(records, codec=codecs.ZSTD, compress=compress)
    write_segment(tmp_path / "plain-0", 0, plain)
    write_segment(tmp_path / "packed-0", 0, packed)
    found = kafkalog.profile(tmp_path)
    assert found.zstd_by_topic["plain"].bytes is not None
    assert found.zstd_by_topic["plain"].bytes.value == len(plain) - len(packed)
    assert (found.zstd_by_topic["packed"].of_bytes, found.zstd.of_bytes) == (0, len(plain))
    assert found.codecs["zstd"].ratio == pytest.approx(len(plain) / len(packed))


# -- timestamps in the future ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quick", [False, True])
def test_a_timestamp_in_the_future_holds_its_segment_and_all_after_it(tmp_path: Path, quick: bool) -> None:
    folder = tmp_path / "t-0"
    late = [Record(at, NOW + at * DAY, None, b"v") for at in (10, 11, 12)]
    sizes = [
        write_segment(folder, 0, made_batch(0)).stat().st_size,
        write_segment(folder, 10, encode_batch(late), encode_batch([Record(13, NOW - DAY, None, b"v")])).stat().st_size,
        write_segment(folder, 20, made_batch(20)).stat().st_size,
    ]
    found = kafkalog.profile(tmp_path, now_ms=NOW, retention_ms=5, quick=quick)
    (pinned,) = found.pinned
    assert (Path(pinned.file).name, pinned.bytes) == ("00000000000000000010.log", sizes[1])
    assert pinned.records == (1 if quick else 3)
    assert (pinned.largest_timestamp_ms, pinned.held_until_ms) == (NOW + 12 * DAY, NOW + 12 * DAY + 5)
    assert found.pinned_bytes == sizes[1] + sizes[2]


def test_a_clock_that_is_some_minutes_ahead_pins_nothing(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, encode_batch([Record(0, NOW + 60_000, None, b"v")]))
    assert kafkalog.profile(tmp_path, now_ms=NOW).pinned == ()


# -- the rest --------------------------------------------------------------------------------------------------------------------


def damaged(folder: Path) -> Path:
    first, second = bytearray(made_batch(0)), made_batch(10)
    first[-1] ^= 1
    write_segment(folder / "t-0", 0, bytes(first), second, made_batch(20))
    return folder


def test_damage_is_left_out_and_reported_or_raised(tmp_path: Path) -> None:
    folder = damaged(tmp_path)
    for how in ("skip", "salvage"):
        found = kafkalog.profile(folder, on_damage=how)
        assert (found.total.records, found.total.batches) == (20, 2)
        assert [dropped.reason for dropped in found.report.dropped] == ["crc"]
    with pytest.raises(CorruptBatch):
        kafkalog.profile(folder, on_damage="strict")


def test_only_what_was_chosen_is_counted(tmp_path: Path) -> None:
    for name in ("a-0", "a-1", "b-0"):
        write_segment(tmp_path / name, 0, made_batch(0))
    assert list(kafkalog.profile(tmp_path, topics=["a"], partitions=[1]).partitions) == [("a", 1)]
    for wrong in ({"topics": ["c"]}, {"partitions": [5]}, {"top": 0}, {"threads": 0}, {"on_damage": "hide"}):
        with pytest.raises(UsageError):
            kafkalog.profile(tmp_path, **wrong)


def test_records_before_the_log_start_take_their_room(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, made_batch(0), made_batch(10))
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 15\n")
    assert kafkalog.profile(tmp_path).total.records == 20


def test_a_segment_of_nothing_but_emptied_batches_takes_its_room(tmp_path: Path) -> None:
    entries = [encode_empty_batch(base_offset=at, last_offset=at, max_timestamp=FIRST_TIME) for at in range(3)]
    write_segment(tmp_path / "t-0", 0, *entries)
    total = kafkalog.profile(tmp_path).total
    assert (total.bytes, total.batches, total.records) == (3 * 61, 3, 0)


def test_files_that_are_no_log_and_leftovers_count_for_the_disk(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "t-0", 0, made_batch(0), indexed=[0])
    path.with_suffix(".log.deleted").write_bytes(bytes(100))
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_text("0\n0\n")
    write_segment(tmp_path / ("gone-0." + "0" * 32 + "-delete"), 0, bytes(50))
    disk = kafkalog.profile(tmp_path).disk
    assert (disk.log_bytes, disk.index_bytes, disk.other_bytes, disk.leftover_bytes) == (path.stat().st_size, 8, 4, 150)


def test_a_record_with_a_header_name_twice_is_one_record_of_that_name(tmp_path: Path) -> None:
    few = ((b"trace", b"1"), (b"retry", b"x"), (b"trace", b"2"))
    many = tuple((b"n%d" % (at % 40), b"") for at in range(100))
    records = [Record(at, 1, b"k", b"v", headers) for at, headers in enumerate((few, (), many, few))]
    write_segment(tmp_path / "t-0", 0, encode_batch(records))
    found = {item.name: item.records for item in kafkalog.profile(tmp_path, top=EVERYTHING).headers.items}
    assert found == {b"trace": 2, b"retry": 2, **{b"n%d" % at: 1 for at in range(40)}}
    assert_equal(kafkalog.profile(tmp_path, top=EVERYTHING), count_by_hand(tmp_path))


def plain(found: Profile) -> dict[str, object]:
    """All of it except what depends on time and place; an object store has no blocks."""
    disk = {name: size for name, size in vars(found.disk).items() if not name.endswith("disk_bytes")}
    return {**found.as_dict(), "disk": disk, "now_ms": 0, "path": ""}


def test_an_object_store_gives_the_same(golden: Callable[[str], Path]) -> None:
    folder = golden("3.9.1") / "3.9.1"
    store = fs.SubTreeFileSystem(str(folder.parent), fs.LocalFileSystem())
    topics = sorted(kafkalog.profile(folder, quick=True).topics)[::6]
    for quick in (False, True):
        there = kafkalog.profile("3.9.1", filesystem=store, topics=topics, quick=quick)
        assert plain(kafkalog.profile(folder, topics=topics, quick=quick)) == plain(there)


def test_threads_change_nothing(golden: Callable[[str], Path]) -> None:
    folder = golden("2.8.2") / "2.8.2"
    assert plain(kafkalog.profile(folder, threads=1)) == plain(kafkalog.profile(folder, threads=3))


def test_an_open_transaction_is_counted_as_it_is(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, transactional_batch(0, 3, 7))
    found = kafkalog.profile(tmp_path)
    assert found.compaction is not None
    assert (found.compaction.keyed_records, found.compaction.aborted_records) == (3, 0)
    assert [item.name for item in found.producers.items] == [7]
