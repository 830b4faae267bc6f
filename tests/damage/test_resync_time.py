"""T-28: the search after damage stays linear whatever the bytes are.

The floors are a tenth of the fault model's, so that a slow or busy machine passes them; a search that is not linear is a hundred
times slower than they are.
"""

from __future__ import annotations

import struct
import time

import numpy as np
import pytest

from kafkalog.kernels.crc import crc32c
from kafkalog.kernels.resync import ReadInto, ResyncBounds, Resynchronizer

BOUNDS = ResyncBounds(minimum_offset=1000, maximum_offset=5_000_000)
SIZE = 64 << 20
HASHING_FLOOR, FILTER_FLOOR = 5, 40  # MB/s


def reader(data: np.ndarray) -> ReadInto:
    def read_into(position: int, target: memoryview) -> int:
        piece = data[position : position + len(target)]
        np.frombuffer(target, dtype=np.uint8)[: len(piece)] = piece
        return len(piece)

    return read_into


def search_nothing(data: np.ndarray, bounds: ResyncBounds = BOUNDS) -> tuple[float, float]:
    """(MB/s, bytes hashed for each byte) of a search that finds nothing; the best of three, in processor time."""
    best, hashed = 0.0, 0.0
    for _ in range(3):
        search = Resynchronizer(reader(data), len(data))
        begin = time.process_time()
        assert search.find(0, bounds) is None
        best = max(best, len(data) / (time.process_time() - begin) / 1e6)
        hashed = search.hashed_bytes / len(data)
    return best, hashed


def near_misses(batch_length: int) -> np.ndarray:
    header = struct.pack(">qiibIhiqqqhii", 2000, batch_length, 0, 2, 12345, 0, 9, 0, 0, 0, 0, 0, 10)
    return np.frombuffer(header * (SIZE // len(header)), dtype=np.uint8)


@pytest.fixture(scope="module", autouse=True)
def _compiled_kernels() -> None:
    search_nothing(near_misses(1000)[:4096])


@pytest.mark.parametrize("batch_length", [1000, 1 << 20, SIZE // 2])
def test_a_plausible_header_every_61_bytes_costs_a_bounded_number_of_checksum_bytes(batch_length: int) -> None:
    speed, hashed = search_nothing(near_misses(batch_length))
    assert speed >= HASHING_FLOOR
    assert hashed <= 4


def test_random_bytes_pass_the_header_filter_fast() -> None:
    speed, hashed = search_nothing(np.random.default_rng(5).integers(0, 256, SIZE, dtype=np.uint8))
    assert speed >= FILTER_FLOOR
    assert hashed <= 1


def test_text_passes_the_header_filter_fast_and_is_never_hashed() -> None:
    line = b'{"user": 4711, "name": "someone", "values": [1, 2, 3]}'
    speed, hashed = search_nothing(np.frombuffer(line * (SIZE // len(line)), dtype=np.uint8))
    assert speed >= FILTER_FLOOR
    assert hashed == 0


def test_a_hole_of_zeros_passes_the_header_filter_fast() -> None:
    speed, hashed = search_nothing(np.zeros(SIZE, dtype=np.uint8))
    assert speed >= FILTER_FLOOR
    assert hashed == 0


def test_many_searches_in_one_file_cost_one_pass_together() -> None:
    """Good batches between lies that claim the whole rest of the file: each search would look ahead as far as that again.

    Four times the file may take four times as long, and sixteen times if each search went to its end.
    """
    seconds = [search_all(count) for count in (5_000, 20_000)]
    assert seconds[1] < 10 * seconds[0]


def search_all(count: int) -> float:
    """Processor seconds of the searches that find all of `count` good batches."""
    good = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1) + b"v" * 100
    checksum = _crc32c(good)
    pieces = []
    size = count * (61 + 161)
    for number in range(count):
        claimed = size - number * 222 - 12 - 61
        pieces.append(struct.pack(">qiibIhiqqqhii", 2_000_000 + number, claimed, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 1))
        pieces.append(struct.pack(">qiibI", 2000 + number, 9 + len(good), 0, 2, checksum) + good)
    data = np.frombuffer(b"".join(pieces), dtype=np.uint8)
    search = Resynchronizer(reader(data), len(data))
    begin = time.process_time()
    start, found, bounds = 0, 0, ResyncBounds(1000)
    while (entry := search.find(start, bounds)) is not None:
        start, found, bounds = entry.stop, found + 1, ResyncBounds(entry.last_offset)
    seconds = time.process_time() - begin
    assert found == count
    assert search.hashed_bytes <= 4 * len(data)
    return seconds


def _crc32c(data: bytes) -> int:
    return int(crc32c(np.frombuffer(data, dtype=np.uint8), 0, len(data)))
