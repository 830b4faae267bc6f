"""The checksum kernels against zlib and the crc32c library; the same file runs compiled, bounds-checked and with the JIT off."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from collections.abc import Callable

import crc32c as crc32c_library
import numpy as np
import pytest

from kafkalog.format.entry_table import FIELD_COUNT, EntryTable
from kafkalog.kernels import crc, native

IN_CHILD = "KAFKALOG_KERNEL_TEST_CHILD"
KERNELS = [
    pytest.param(crc.crc32, zlib.crc32, id="crc32"),
    pytest.param(crc.crc32c, crc32c_library.crc32c, id="crc32c"),
]
Kernel = Callable[[np.ndarray, int, int], int]


@pytest.mark.parametrize(("kernel", "library"), KERNELS)
def test_every_length_up_to_three_steps_at_every_alignment_agrees_with_the_library(
    kernel: Kernel, library: Callable[[bytes], int]
) -> None:
    data = np.random.default_rng(11).integers(0, 256, 128, dtype=np.uint8)
    for start in range(17):
        for stop in range(start, start + 3 * crc.STEP_BYTES + 2):
            assert kernel(data, start, stop) == library(data[start:stop].tobytes())


@pytest.mark.parametrize(("kernel", "library"), KERNELS)
def test_random_slices_agree_with_the_library(kernel: Kernel, library: Callable[[bytes], int]) -> None:
    random = np.random.default_rng(12)
    data = random.integers(0, 256, 3000, dtype=np.uint8)
    for start, stop in np.sort(random.integers(0, len(data) + 1, (40, 2)), axis=1).tolist():
        assert kernel(data, start, stop) == library(data[start:stop].tobytes())


@pytest.mark.parametrize("function", [native.crc32_function(), native.NOT_FOUND], ids=["native", "tables"])
def test_the_one_wrong_checksum_among_many_messages_is_found(function: int) -> None:
    random = np.random.default_rng(13)
    sizes = [26, 27, 100, 271, 272, 273, 5000, 65551, *random.integers(26, 400, 12).tolist()]
    table = EntryTable(np.zeros((FIELD_COUNT, len(sizes)), np.int64))
    table.size = sizes
    table.position = 1000 + np.cumsum(sizes) - sizes
    data = random.integers(0, 256, sum(sizes), dtype=np.uint8)
    table.crc = [
        zlib.crc32(data[at - 1000 + 16 : stop - 1000].tobytes()) for at, stop in zip(table.position, table.stop, strict=True)
    ]
    matches = np.empty(len(sizes), np.bool_)
    crc.check_messages(function, data, table.fields, np.arange(len(sizes)), 1000, matches)
    assert matches.all()
    table.crc[7] ^= 1
    crc.check_messages(function, data, table.fields, np.arange(len(sizes)), 1000, matches)
    assert np.flatnonzero(~matches).tolist() == [7]


def test_the_published_check_values_come_out() -> None:
    data = np.frombuffer(b"123456789", dtype=np.uint8)
    assert crc.crc32(data, 0, 9) == 0xCBF43926
    assert crc.crc32c(data, 0, 9) == 0xE3069283
    assert crc.crc32(data, 4, 4) == crc.crc32c(data, 4, 4) == 0


def test_bytes_with_the_highest_bit_set_do_not_wrap() -> None:
    data = np.full(100, 0xFF, dtype=np.uint8)
    assert crc.crc32(data, 0, 100) == zlib.crc32(b"\xff" * 100)
    assert crc.crc32c(data, 0, 100) == crc32c_library.crc32c(b"\xff" * 100)


def test_read_only_bytes_are_accepted() -> None:
    data = np.frombuffer(bytes(range(64)), dtype=np.uint8)
    assert not data.flags.writeable
    assert crc.crc32c(data, 1, 63) == crc32c_library.crc32c(bytes(range(1, 63)))


@pytest.mark.skipif(IN_CHILD in os.environ, reason="this is the child")
@pytest.mark.parametrize("switch", ["NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"])
def test_the_same_tests_pass_without_the_jit_and_with_bounds_checks(switch: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", __file__]
    child = subprocess.run(command, env=os.environ | {switch: "1", IN_CHILD: "1"}, capture_output=True, text=True, timeout=240)
    assert child.returncode == 0, child.stdout + child.stderr
