"""Finding entries after damage, against a slow search of every position; compiled, bounds-checked and with the JIT off."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate

import crc32c as crc32c_library
import numpy as np
import pytest

from kafkalog.kernels import crc, resync
from kafkalog.kernels._jit import kernel
from kafkalog.kernels.bytes import Bytes
from kafkalog.kernels.resync import FoundEntry, ReadInto, ResyncBounds, Resynchronizer, find_next_entry

IN_CHILD = "KAFKALOG_KERNEL_TEST_CHILD"
ROUNDS = 4 if os.environ.get("NUMBA_DISABLE_JIT") else 60


def make_batch(offset: int, payload: bytes, *, count: int = 1, epoch: int = 0, attributes: int = 0) -> bytes:
    covered = struct.pack(">hiqqqhii", attributes, count - 1, 1000, 1000, -1, -1, -1, count) + payload
    return struct.pack(">qiibI", offset, 9 + len(covered), epoch, 2, crc32c_library.crc32c(covered)) + covered


def make_message(offset: int, value: bytes, *, magic: int, key: bytes | None = None) -> bytes:
    front = struct.pack(">bb", magic, 0) + (struct.pack(">q", 1000) if magic else b"")
    keyed = struct.pack(">i", -1) if key is None else struct.pack(">i", len(key)) + key
    covered = front + keyed + struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(covered), zlib.crc32(covered)) + covered


def make_entry(kind: int, offset: int, payload: bytes) -> bytes:
    return make_batch(offset, payload) if kind == 2 else make_message(offset, payload, magic=kind, key=payload[:3] or None)


def make_segment(random: np.random.Generator, count: int, kinds: tuple[int, ...] = (0, 1, 2), largest: int = 300) -> list[bytes]:
    sizes = random.integers(0, largest, count).tolist()
    return [make_entry(int(random.choice(kinds)), 100 + row, random.bytes(size)) for row, size in enumerate(sizes)]


def reader(data: bytes, most: int = 1 << 30) -> ReadInto:
    def read_into(position: int, target: memoryview) -> int:
        piece = data[position : position + min(len(target), most)]
        target[: len(piece)] = piece
        return len(piece)

    return read_into


def find_all(data: bytes, bounds: ResyncBounds | None = None) -> list[FoundEntry]:
    """Every entry as a salvage finds them, its bounds rising with each."""
    search = Resynchronizer(reader(data), len(data))
    found: list[FoundEntry] = []
    bounds = bounds or ResyncBounds()
    start = 0
    while (entry := search.find(start, bounds)) is not None:
        found.append(entry)
        start = entry.stop
        epoch = max(bounds.minimum_epoch, entry.leader_epoch)
        bounds = replace(bounds, minimum_offset=entry.last_offset, minimum_epoch=epoch)
    return found


def slow_entries(data: bytes) -> Iterator[tuple[int, int]]:
    """(position, size) of all that has a valid checksum, wherever it begins."""
    for position in range(len(data) - 25):
        offset, length, check, magic = struct.unpack_from(">qiIb", data, position)
        stop = position + 12 + length
        if offset < 0 or magic not in (0, 1, 2) or length < (14, 22, 49)[magic] or stop > len(data):
            continue
        if magic == 2:
            (check,) = struct.unpack_from(">I", data, position + 17)
            valid = crc32c_library.crc32c(data[position + 21 : stop]) == check
        else:
            valid = zlib.crc32(data[position + 16 : stop]) == check
        if valid:
            yield position, stop - position


def positions_of(entries: list[bytes]) -> list[int]:
    return list(accumulate((len(entry) for entry in entries[:-1]), initial=0))


def tiny_windows(monkeypatch: pytest.MonkeyPatch, pending: int = 1 << 20) -> None:
    """Windows smaller than the entries, so that most candidates have to wait for their end."""
    monkeypatch.setattr(resync, "FIRST_WINDOW_BYTES", 128)
    monkeypatch.setattr(resync, "WINDOW_BYTES", 192)
    monkeypatch.setattr(resync, "MAX_PENDING", pending)
    monkeypatch.setattr(resync, "FIRST_PENDING", min(pending, 2))


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_an_intact_entry_is_found_after_any_number_of_lost_bytes(kind: int) -> None:
    entry = make_entry(kind, 7, b"some value")
    for lost in (0, 1, 15, 60, 61, 200):
        data = b"\xff" * lost + entry
        found = find_next_entry(reader(data), 0, len(data), ResyncBounds())
        assert found == FoundEntry(lost, len(entry), kind, 7, 7, 0 if kind == 2 else -1)


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_a_flipped_bit_anywhere_under_the_checksum_hides_the_entry_and_only_it(kind: int) -> None:
    first, second = make_entry(kind, 7, b"abc"), make_entry(kind, 8, b"def")
    for position in range(21 if kind == 2 else 16, len(first)):
        data = bytearray(first + second)
        data[position] ^= 1 << (position % 8)
        assert [entry.base_offset for entry in find_all(bytes(data))] == [8]


def test_an_entry_cut_by_the_end_is_not_found() -> None:
    entry = make_batch(7, b"x" * 50)
    for size in range(len(entry)):
        assert find_next_entry(reader(entry[:size]), 0, size, ResyncBounds()) is None


def test_a_header_with_the_right_checksum_and_impossible_fields_is_no_entry() -> None:
    impossible = [
        make_batch(7, b"x", attributes=5),
        make_batch(-7, b"x"),
        make_batch((1 << 63) - 1, b"x", count=2),
        make_batch(7, b"x", epoch=-2),
        make_message(7, b"x", magic=3),
        make_batch(7, b"x", count=-3),
    ]
    for data in impossible:
        assert find_next_entry(reader(data), 0, len(data), ResyncBounds()) is None


def test_upper_attribute_bits_and_an_unknown_epoch_do_not_hide_a_batch() -> None:
    data = make_batch(7, b"x", attributes=0x5500 | 0x44, epoch=-1)
    found = find_next_entry(reader(data), 0, len(data), ResyncBounds(minimum_epoch=4))
    assert found is not None
    assert found.leader_epoch == -1


def test_an_emptied_batch_of_a_compacted_log_is_found() -> None:
    covered = struct.pack(">hiqqqhii", 0, 4, -1, -1, 9, 0, 3, 0)
    data = b"?" * 33 + struct.pack(">qiibI", 7, 49, 0, 2, crc32c_library.crc32c(covered)) + covered
    found = find_next_entry(reader(data), 0, len(data), ResyncBounds())
    assert found == FoundEntry(33, 61, 2, 7, 11, 0)


def test_bounds_are_exclusive_below_and_inclusive_above() -> None:
    data = b"".join(make_batch(offset, b"v", epoch=offset // 2) for offset in range(10))
    assert find_all(data, ResyncBounds(minimum_offset=3, maximum_offset=6))[0].base_offset == 4
    assert [entry.base_offset for entry in find_all(data, ResyncBounds(3, 6))] == [4, 5, 6]
    assert [entry.base_offset for entry in find_all(data, ResyncBounds(minimum_epoch=4))] == [8, 9]
    assert [entry.base_offset for entry in find_all(data, ResyncBounds(maximum_epoch=0))] == [0, 1]
    assert find_all(data, ResyncBounds(batch_bytes=61)) == []


def test_reads_that_come_in_pieces_change_nothing() -> None:
    data = b"\0" * 100 + make_batch(7, b"v" * 100)
    assert find_next_entry(reader(data, most=7), 0, len(data), ResyncBounds()) is not None


def test_a_file_that_is_shorter_than_announced_ends_the_search() -> None:
    data = b"\0" * 100 + make_batch(7, b"v" * 100)
    assert find_next_entry(reader(data), 0, len(data) + 5000, ResyncBounds()) is not None
    assert find_next_entry(reader(data[:-1]), 0, len(data), ResyncBounds()) is None


@pytest.mark.parametrize("pending", [1 << 20, 4])
def test_every_intact_entry_is_found_after_every_kind_of_damage(monkeypatch: pytest.MonkeyPatch, pending: int) -> None:
    tiny_windows(monkeypatch, pending)
    for seed in range(ROUNDS):
        random = np.random.default_rng(seed)
        entries = make_segment(random, 12)
        data = damage(random, seed % 6, b"".join(entries))
        intact = {
            entry
            for position, entry in zip(positions_of(entries), entries, strict=True)
            if data[position : position + len(entry)] == entry
        }
        found = find_all(data, ResyncBounds(minimum_offset=99))
        assert intact <= {data[entry.position : entry.stop] for entry in found}, seed
        assert {(entry.position, entry.size) for entry in found} <= set(slow_entries(data)), seed


def damage(random: np.random.Generator, kind: int, data: bytes) -> bytes:
    target = bytearray(data)
    for _ in range(2):
        at = int(random.integers(0, len(data) - 100))
        if kind == 0:
            target[at] ^= 1 << int(random.integers(0, 8))
        elif kind == 1:
            target[at : at + 8] = b"\xff" * 8
        elif kind == 2:
            target[at & ~511 : (at & ~511) + 512] = bytes(min(512, len(data) - (at & ~511)))
        elif kind == 3:
            target[at : at + 90] = random.bytes(90)
        elif kind == 4:
            target[at : at + 4] = struct.pack(">i", int(random.choice([-1, 0, 13, 48, 200, 2**31 - 1])))
        else:
            target[at : at + 64] = target[:64]
    return bytes(target[: len(data)])


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 14, 48, 49, 50, 1000, 2**31 - 1])
def test_a_lying_length_costs_no_other_batch(length: int) -> None:
    entries = [make_batch(offset, b"v" * 40) for offset in range(6)]
    for victim, position in enumerate(positions_of(entries)):
        data = bytearray(b"".join(entries))
        struct.pack_into(">i", data, position + 8, length)
        assert [entry.base_offset for entry in find_all(bytes(data))] == [offset for offset in range(6) if offset != victim]


def test_candidates_that_wait_for_a_far_end_do_not_hide_a_valid_outer_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_windows(monkeypatch)
    inner = make_batch(60, b"inner")
    outer = make_batch(50, b"a" * 700 + inner + b"b" * 700, count=3)
    found = find_all(b"\xff" * 10 + outer + make_batch(53, b"next"))
    assert [entry.base_offset for entry in found] == [50, 53]


def test_a_search_may_go_back_and_may_widen_its_bounds() -> None:
    data = b"".join(make_batch(offset, b"v") for offset in range(5))
    search = Resynchronizer(reader(data), len(data))
    offsets = [
        search.find(start, bounds) for start, bounds in ((200, ResyncBounds(3)), (0, ResyncBounds()), (1, ResyncBounds(2)))
    ]
    assert [entry and entry.base_offset for entry in offsets] == [4, 0, 3]


def test_three_batches_inside_a_value_whose_own_header_is_damaged_are_not_taken_for_records() -> None:
    forged = b"".join(make_batch(offset, b"forged", epoch=3) for offset in (5000, 5001, 5002))
    good = [make_batch(offset, b"good" * 20, epoch=3) for offset in range(20, 30)]
    outer = bytearray(make_batch(19, b"start" + forged + b"end", epoch=3))
    outer[16] = 9
    data = bytes(outer) + b"".join(good)
    for bounds in (ResyncBounds(18, 29, 3), ResyncBounds(18), ResyncBounds()):
        assert [entry.base_offset for entry in find_all(data, bounds)] == list(range(20, 30))


def test_a_forged_batch_of_a_later_epoch_does_not_shut_out_the_rest() -> None:
    data = (
        b"??"
        + make_batch(20, b"forged", epoch=9)
        + b"??"
        + b"".join(make_batch(offset, b"v", epoch=3) for offset in range(21, 30))
    )
    assert [entry.base_offset for entry in find_all(data)] == list(range(21, 30))


def test_an_older_copy_after_an_intact_run_does_not_shut_out_that_run() -> None:
    run = b"".join(make_batch(offset, b"v") for offset in range(20, 24))
    data = b"??" + run + b"damage" + make_batch(15, b"copy") + b"damage" + make_batch(25, b"v")
    assert [entry.base_offset for entry in find_all(data)] == [20, 21, 22, 23, 25]


def test_hostile_headers_beyond_the_pending_limit_are_still_all_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_windows(monkeypatch, pending=3)
    hostile = b"".join(
        make_batch(offset, b"")[:8] + struct.pack(">i", 1500) + make_batch(offset, b"")[12:] for offset in range(40)
    )
    data = hostile + make_batch(100, b"v" * 500) + make_batch(101, b"v" * 500)
    assert [entry.base_offset for entry in find_all(data)] == [100, 101]


@kernel
def shift(shifts: crc.Tables, state: np.uint64, size: int) -> np.uint64:
    return resync.shift(shifts, state, size)


@kernel
def advance(tables: crc.Tables, state: np.uint64, data: Bytes, start: int, stop: int) -> np.uint64:
    return crc.advance(tables, state, data, start, stop)


def test_appending_zero_bytes_is_what_shift_computes() -> None:
    for tables in (crc.CRC32_TABLES, crc.CRC32C_TABLES):
        shifts = resync._build_shift_tables(tables)
        for size in (0, 1, 2, 3, 255, 1000):
            direct = advance(tables, np.uint64(0xDEADBEEF), np.zeros(size, dtype=np.uint8), 0, size)
            assert shift(shifts, np.uint64(0xDEADBEEF), size) == direct
        half = np.uint64(shift(shifts, np.uint64(0xDEADBEEF), 2**30))
        assert shift(shifts, half, 2**30 - 1) == shift(shifts, np.uint64(0xDEADBEEF), 2**31 - 1)


@pytest.mark.skipif(IN_CHILD in os.environ, reason="this is the child")
@pytest.mark.parametrize("switch", ["NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"])
def test_the_same_tests_pass_without_the_jit_and_with_bounds_checks(switch: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", __file__]
    child = subprocess.run(command, env=os.environ | {switch: "1", IN_CHILD: "1"}, capture_output=True, text=True, timeout=280)
    assert child.returncode == 0, child.stdout + child.stderr
