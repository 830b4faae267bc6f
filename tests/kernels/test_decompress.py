"""Payloads that kernels decompress: the frames of every client, and never anything else than what `codecs` gives."""

from __future__ import annotations

import gzip
import itertools
import random
from collections.abc import Iterator

import cramjam
import lz4.frame
import numpy as np
import pytest
import zstandard

from kafkalog import codecs
from kafkalog.codecs import GZIP, LZ4, SNAPPY, ZSTD, compress
from kafkalog.errors import CodecError, OutputFull
from kafkalog.kernels import decompress as kernel
from kafkalog.kernels import native
from kafkalog.kernels._jit import kernel as compiled
from kafkalog.kernels.bytes import Bytes, Int, Ints
from kafkalog.segment.memory import DecodeScratch

pytestmark = pytest.mark.skipif(native.IS_OFF, reason="the JIT is off")
ROOM = 1 << 20
CHANCE = random.Random(1)
JSON = b"".join(b'{"order":%d,"note":"%s"}' % (number, CHANCE.randbytes(6).hex().encode()) for number in range(3000))
CONTENTS = [b"a", b"kafka" * 40, bytes(100_000), CHANCE.randbytes(200_000), JSON, b"ab" * 500 + b"xyz" * 500 + b"0123456789" * 90]
ALL = (GZIP, SNAPPY, LZ4, ZSTD)


@compiled
def decompress(data: Bytes, codec: Int, arena: Bytes, tools: Ints) -> Int:
    return kernel.decompress(data, 0, data.shape[0], codec, 2, arena, 0, tools)


def by_kernel(codec: int, payload: bytes, *, limit: int = ROOM) -> bytes | None:
    """What the kernel makes of a payload; None if it leaves it to `codecs`."""
    scratch = DecodeScratch()
    scratch.enlarge_arena(ROOM)
    tools = scratch.tools(limit, check_crcs=False)
    kernel.add_codec(tools, codec)
    size = decompress(np.frombuffer(payload, np.uint8).copy(), codec, scratch.arena, tools)
    return scratch.arena[:size].tobytes() if size >= 0 else None


def by_codecs(codec: int, payload: bytes) -> bytes | None:
    room = bytearray(ROOM)
    try:
        return bytes(room[: codecs.decompress(codec, payload, memoryview(room), magic=2)])
    except (CodecError, OutputFull):
        return None


def lz4_frames(content: bytes) -> Iterator[bytes]:
    """Every combination of flags and block sizes that a frame with independent blocks can have."""
    for size, *flags in itertools.product(range(4, 8), *[(False, True)] * 3):
        block, whole, length = flags
        yield lz4.frame.compress(
            content, block_size=size, block_linked=False, block_checksum=block, content_checksum=whole, store_size=length
        )


def frames(content: bytes) -> Iterator[tuple[int, bytes]]:
    """The content in the frames of many clients, each of which the kernel has to know."""
    yield from ((codec, compress(codec, content)) for codec in ALL)
    yield from ((LZ4, frame) for frame in lz4_frames(content))
    yield SNAPPY, bytes(cramjam.snappy.compress_raw(content))
    yield from ((GZIP, gzip.compress(content, level, mtime=level)) for level in (0, 1, 6, 9))
    yield from ((ZSTD, zstandard.ZstdCompressor(level, write_checksum=level > 1).compress(content)) for level in (1, 3))


@pytest.mark.parametrize("content", CONTENTS, ids=len)
def test_the_frames_of_every_client_stay_in_the_kernel(content: bytes) -> None:
    for codec, payload in frames(content):
        assert by_kernel(codec, payload) == content, (codecs.NAMES[codec], payload[:16].hex())


@pytest.mark.parametrize("codec", ALL)
def test_no_cut_payload_is_taken_for_a_whole_one(codec: int) -> None:
    for payload in (frame for number, frame in frames(b'{"a": 1}' * 100) if number == codec):
        for size in range(len(payload)):
            found = by_kernel(codec, payload[:size])
            assert found is None or found == by_codecs(codec, payload[:size])


def test_a_damaged_payload_gives_what_codecs_gives_or_is_left_to_them() -> None:
    chance = random.Random(2)
    agreed = 0
    for codec, payload in frames(JSON[:2000]):
        for _ in range(80):
            damaged = bytearray(payload) + chance.randbytes(chance.choice((0, 0, 0, 20)))
            first = 30 if chance.random() < 0.5 else len(payload)  # headers are where most can go wrong
            damaged[chance.randrange(min(first, len(payload)))] ^= 1 << chance.randrange(8)
            found = by_kernel(codec, bytes(damaged))
            assert found is None or found == by_codecs(codec, bytes(damaged)), (codecs.NAMES[codec], damaged.hex())
            agreed += found is not None
    assert agreed > 500  # among others those whose content checksum is wrong, which Kafka does not look at


@pytest.mark.parametrize("codec", ALL)
def test_a_payload_larger_than_the_limit_is_left(codec: int) -> None:
    for payload in (frame for number, frame in frames(bytes(50_000)) if number == codec):
        assert by_kernel(codec, payload, limit=50_000) == bytes(50_000)
        assert by_kernel(codec, payload, limit=49_999) is None


def test_zstd_frames_that_kafka_would_refuse_or_that_are_several_are_left() -> None:
    frame = compress(ZSTD, b"kafka" * 40)
    wide = bytearray(frame)
    wide[5] = 18 << 3  # a window of 256 MiB
    assert by_kernel(ZSTD, bytes(wide)) is None
    assert by_kernel(ZSTD, frame + frame) is None
    assert by_kernel(ZSTD, b"\x50\x2a\x4d\x18\x01\x00\x00\x00x" + frame) is None


def test_a_wrong_lz4_block_checksum_is_left_and_a_wrong_content_checksum_is_not_looked_at() -> None:
    checked = lz4.frame.compress(JSON, block_linked=False, block_checksum=True)
    assert by_kernel(LZ4, checked[:-5] + bytes([checked[-5] ^ 1]) + checked[-4:]) is None
    whole = lz4.frame.compress(JSON, block_linked=False, content_checksum=True)
    assert by_kernel(LZ4, whole[:-1] + bytes([whole[-1] ^ 1])) == JSON
    assert by_kernel(LZ4, whole[:-1]) is None


def test_a_wrong_lz4_header_checksum_is_left() -> None:
    frame = bytearray(lz4.frame.compress(JSON, block_linked=False, block_size=5))
    frame[6] ^= 1
    assert by_kernel(LZ4, bytes(frame)) is None


def test_linked_lz4_blocks_are_left_since_kafka_refuses_them() -> None:
    frame = lz4.frame.compress(JSON, block_linked=True)
    assert by_kernel(LZ4, frame) is None
    assert by_codecs(LZ4, frame) is None


def test_a_snappy_copy_may_overlap_itself_at_every_distance() -> None:
    for distance in range(1, 80):
        content = CHANCE.randbytes(distance) * (600 // distance + 2)
        block = bytes(cramjam.snappy.compress_raw(content))
        assert by_kernel(SNAPPY, block) == content


@pytest.mark.parametrize(
    "block",
    [
        pytest.param("0a" + "00" + "61" + "0101", id="a copy from before the start"),
        pytest.param("0a" + "00" + "61" + "0100", id="a copy from no distance"),
        pytest.param("02" + "00" + "61", id="fewer bytes than promised"),
        pytest.param("01" + "04" + "6162", id="more bytes than promised"),
        pytest.param("05" + "f4", id="the length of a literal is missing"),
        pytest.param("ffffffffff01" + "00" + "61", id="a size of more than five bytes"),
        pytest.param("", id="nothing"),
    ],
)
def test_snappy_blocks_that_are_wrong_are_left(block: str) -> None:
    assert by_kernel(SNAPPY, bytes.fromhex(block)) is None


def test_a_second_gzip_member_is_left_to_codecs() -> None:
    two = gzip.compress(JSON[:99]) + gzip.compress(JSON[99:])
    assert by_kernel(GZIP, two) is None
    assert by_codecs(GZIP, two) == JSON
