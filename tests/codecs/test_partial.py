"""The bytes that Kafka's streams return from damaged payloads before they fail."""

from __future__ import annotations

import struct

import pytest

from kafkalog import codecs
from kafkalog.codecs.partial import BREAKS, CLOSED, ENDS, FAILS, decompressed_part
from kafkalog.errors import CodecError

TEXT = b"".join(b"line %d of some text\n" % number for number in range(20_000))


def _part(codec: int, payload: bytes) -> tuple[bytes, str]:
    with pytest.raises(CodecError):
        codecs.decompressed(codec, payload, limit=1 << 24)
    return tuple(decompressed_part(codec, payload))  # type: ignore[return-value]


def test_gzip_with_a_wrong_checksum_comes_whole_and_then_fails() -> None:
    payload = bytearray(codecs.compress(codecs.GZIP, TEXT))
    payload[-8] ^= 1
    assert _part(codecs.GZIP, bytes(payload)) == (TEXT, FAILS)


def test_gzip_that_is_cut_gives_what_is_there() -> None:
    payload = codecs.compress(codecs.GZIP, TEXT)
    data, failure = _part(codecs.GZIP, payload[: len(payload) // 2])
    assert TEXT.startswith(data)
    assert len(data) > len(TEXT) // 4
    assert failure == FAILS


def test_a_first_gzip_member_comes_before_a_damaged_second() -> None:
    second = bytearray(codecs.compress(codecs.GZIP, TEXT))
    second[-5] ^= 1
    assert _part(codecs.GZIP, codecs.compress(codecs.GZIP, b"first") + second) == (b"first" + TEXT, FAILS)


def test_snappy_gives_what_whole_calls_gave_before_a_damaged_block() -> None:
    payload = bytearray(codecs.compress(codecs.SNAPPY, TEXT))
    (first_size,) = struct.unpack_from(">i", payload, 16)
    payload[16 + 4 + first_size + 4] ^= 0xFF
    assert _part(codecs.SNAPPY, bytes(payload)) == (TEXT[: 32 << 10], FAILS)


@pytest.mark.parametrize("size", [-1, (512 << 20) + 1])
def test_a_snappy_block_of_absurd_size_breaks_the_reader(size: int) -> None:
    payload = codecs.compress(codecs.SNAPPY, b"short")[:16] + struct.pack(">i", size) + bytes(9)
    assert _part(codecs.SNAPPY, payload) == (b"", BREAKS)


def test_raw_snappy_gives_all_or_nothing() -> None:
    assert _part(codecs.SNAPPY, b"\x05\xff\xff") == (b"", CLOSED)


def test_lz4_gives_whole_blocks() -> None:
    payload = codecs.compress(codecs.LZ4, TEXT)
    data, failure = _part(codecs.LZ4, payload[:-6])
    assert data == TEXT[: len(TEXT) // (64 << 10) * (64 << 10)]
    assert failure == FAILS


@pytest.mark.parametrize("payload", [b"", b"\x04", b"\x04\x22\x4d\x18\x60", bytes(20)])
def test_lz4_without_a_sound_header_is_not_even_opened(payload: bytes) -> None:
    assert _part(codecs.LZ4, payload) == (b"", CLOSED)


def test_gzip_without_a_sound_header_is_not_even_opened() -> None:
    assert _part(codecs.GZIP, b"\x1f\x8c" + bytes(20)) == (b"", CLOSED)


def test_zstd_that_is_cut_fails_but_after_a_whole_frame_it_ends() -> None:
    frame = codecs.compress(codecs.ZSTD, TEXT)
    assert _part(codecs.ZSTD, frame[:-10])[1] == FAILS
    assert _part(codecs.ZSTD, frame + frame[:3]) == (TEXT, ENDS)


def test_damaged_zstd_gives_what_whole_calls_gave() -> None:
    frame = bytearray(codecs.compress(codecs.ZSTD, TEXT))
    frame[-3] ^= 0xFF
    data, failure = _part(codecs.ZSTD, bytes(frame))
    assert TEXT.startswith(data)
    assert len(data) % (16 << 10) == 0
    assert failure == FAILS
