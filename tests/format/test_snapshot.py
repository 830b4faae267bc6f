"""Producer state snapshots: exact bytes, and every way to be none."""

from __future__ import annotations

import struct

import crc32c
import numpy as np
import pytest

from kafkalog.errors import UnsupportedFormat
from kafkalog.format.snapshot import PRODUCERS, decode_snapshot, encode_snapshot

ONE_PRODUCER = bytes.fromhex(
    "0001c5943c6d000000010000000000000009000100000014000000000000000e0000000400000000000003e800000003ffffffffffffffff"
)
NO_PRODUCERS = bytes.fromhex("000148674bc700000000")
FIELDS = (9, 1, 20, 14, 4, 1000, 3, -1)


def _signed(body: bytes, version: int = 1) -> bytes:
    return struct.pack(">hI", version, crc32c.crc32c(body)) + body


def test_a_snapshot_of_one_producer_has_56_bytes() -> None:
    assert len(ONE_PRODUCER) == 56
    assert decode_snapshot(ONE_PRODUCER).tolist() == [FIELDS]
    assert encode_snapshot(np.array([FIELDS], PRODUCERS)) == ONE_PRODUCER


def test_an_empty_snapshot_has_10_bytes() -> None:
    assert decode_snapshot(NO_PRODUCERS).tolist() == []
    assert encode_snapshot(np.empty(0, PRODUCERS)) == NO_PRODUCERS


@pytest.mark.parametrize("size", range(56))
def test_a_snapshot_cut_anywhere_is_refused(size: int) -> None:
    with pytest.raises(UnsupportedFormat):
        decode_snapshot(ONE_PRODUCER[:size])


def test_every_flipped_bit_is_found() -> None:
    for bit in range(8 * len(ONE_PRODUCER)):
        damaged = bytearray(ONE_PRODUCER)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(UnsupportedFormat) as error:
            decode_snapshot(damaged)
        assert error.value.reason == ("version" if bit < 16 else "crc")


@pytest.mark.parametrize("count", [-1, 2, 2**31 - 1, -(2**31)])
def test_a_count_that_does_not_match_is_refused_though_the_checksum_is_right(count: int) -> None:
    with pytest.raises(UnsupportedFormat) as error:
        decode_snapshot(_signed(struct.pack(">i", count) + ONE_PRODUCER[10:]))
    assert error.value.reason == "file-format"


def test_a_version_from_the_future_is_named() -> None:
    with pytest.raises(UnsupportedFormat) as error:
        decode_snapshot(_signed(NO_PRODUCERS[6:], version=2))
    assert (error.value.reason, error.value.found) == ("version", 2)
