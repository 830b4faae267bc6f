"""Variable-length integers and sequence numbers: exact bytes and exact limits."""

from __future__ import annotations

import pytest

from kafkalog.errors import CorruptBatch
from kafkalog.format.batch import MAX_SEQUENCE, decrement_sequence, increment_sequence, last_sequence
from kafkalog.format.varint import (
    decode_uvarint,
    decode_varint,
    decode_varlong,
    encode_uvarint,
    encode_varint,
    encode_varlong,
    size_of_uvarint,
    size_of_varint,
    size_of_varlong,
)

ZIG_ZAG_SAMPLES = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (-2, "03"),
    (63, "7e"),
    (64, "8001"),
    (-64, "7f"),
    (-65, "8101"),
    (2**31 - 1, "feffffff0f"),
    (-(2**31), "ffffffff0f"),
]
LONG_SAMPLES = [(2**63 - 1, "feffffffffffffffff01"), (-(2**63), "ffffffffffffffffff01")]


@pytest.mark.parametrize(("value", "encoded"), ZIG_ZAG_SAMPLES)
def test_a_varint_has_the_bytes_that_kafka_gives_it(value: int, encoded: str) -> None:
    stored = bytes.fromhex(encoded)
    assert encode_varint(value) == stored
    assert decode_varint(stored, 0) == (value, len(stored))
    assert size_of_varint(value) == len(stored)


@pytest.mark.parametrize(("value", "encoded"), ZIG_ZAG_SAMPLES + LONG_SAMPLES)
def test_a_varlong_has_the_bytes_that_kafka_gives_it(value: int, encoded: str) -> None:
    stored = bytes.fromhex(encoded)
    assert encode_varlong(value) == stored
    assert decode_varlong(stored, 0) == (value, len(stored))
    assert size_of_varlong(value) == len(stored)


@pytest.mark.parametrize(("value", "encoded"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 1, "ffffffff0f")])
def test_an_unsigned_varint_is_not_zig_zagged(value: int, encoded: str) -> None:
    stored = bytes.fromhex(encoded)
    assert encode_uvarint(value) == stored
    assert decode_uvarint(stored, 0) == (value, len(stored))
    assert size_of_uvarint(value) == len(stored)


def test_more_bytes_than_needed_are_accepted() -> None:
    assert decode_varint(bytes.fromhex("8280808000"), 0) == (1, 5)
    assert decode_varlong(bytes.fromhex("82808080808080808000"), 0) == (1, 10)


def test_bits_above_the_width_are_dropped() -> None:
    assert decode_varint(bytes.fromhex("ffffffff7f"), 0) == (-(2**31), 5)
    assert decode_varlong(bytes.fromhex("ffffffffffffffffff7f"), 0) == (-(2**63), 10)


@pytest.mark.parametrize(("decode", "size"), [(decode_uvarint, 5), (decode_varint, 5), (decode_varlong, 10)])
def test_a_top_bit_on_the_last_byte_allowed_is_too_long(decode, size: int) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CorruptBatch) as error:
        decode(b"\x80" * size + b"\0", 0)
    assert error.value.reason == "varint"


@pytest.mark.parametrize("decode", [decode_uvarint, decode_varint, decode_varlong])
def test_an_integer_that_its_record_cuts_short_is_not_read_beyond(decode) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CorruptBatch) as error:
        decode(b"\x80\x01", 0, 1)
    assert error.value.reason == "record-structure"


def test_sequences_wrap_to_zero_and_never_become_negative() -> None:
    assert increment_sequence(MAX_SEQUENCE, 1) == 0
    assert increment_sequence(MAX_SEQUENCE - 2, 5) == 2
    assert increment_sequence(50, 4) == 54
    assert decrement_sequence(0, 1) == MAX_SEQUENCE
    assert decrement_sequence(2, 5) == MAX_SEQUENCE - 2
    assert decrement_sequence(54, 4) == 50


def test_a_batch_without_a_base_sequence_has_no_last_one() -> None:
    assert last_sequence(-1, 10) == -1
    assert last_sequence(MAX_SEQUENCE, 1) == 0


def test_a_negative_step_gives_the_number_that_kafka_gives() -> None:
    assert increment_sequence(2**31 - 4, -2) == -6  # seen with kafka-clients 4.3.0
    assert increment_sequence(2**31 - 4, -3) == -7
    assert increment_sequence(0, -(2**31)) == 0
