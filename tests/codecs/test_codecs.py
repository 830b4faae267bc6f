"""Codecs: exact bytes, round trips, what other clients write, and every cut and flipped byte."""

from __future__ import annotations

import gzip
import random
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator

import cramjam
import lz4.block
import lz4.frame
import numpy as np
import pytest
import zstandard

from kafkalog import codecs
from kafkalog.errors import CodecError, CodecMissing, OutputFull, UsageError

ALL = range(len(codecs.NAMES))
COMPRESSING = (codecs.GZIP, codecs.SNAPPY, codecs.LZ4, codecs.ZSTD)
TEXT = b"".join(b'{"id":%d,"user":"user-%d","status":"paid"}' % (number, number * 7919 % 1000) for number in range(8))
XERIAL_HEADER = bytes.fromhex("82534e41505059000000000100000001")


def expand(codec: int, payload: object, *, room: int = 1 << 20, magic: int = 2) -> bytes:
    out = memoryview(bytearray(room))
    size = codecs.decompress(codec, payload, out, magic=magic)  # type: ignore[arg-type]
    return bytes(out[:size])


def samples() -> Iterator[bytes]:
    noise = random.Random(1).randbytes(150_000)
    yield from (b"", b"a", TEXT, TEXT * 500, noise, bytes(300_000), noise[:70_000] + TEXT * 300)


def raw_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def gzip_member(data: bytes, *, extra: bytes = b"", name: bytes = b"", comment: bytes = b"", header_crc: bool = False) -> bytes:
    flags = bool(extra) << 2 | bool(name) << 3 | bool(comment) << 4 | header_crc << 1
    header = bytes((0x1F, 0x8B, 8, flags, 1, 2, 3, 4, 0, 3))
    header += (struct.pack("<H", len(extra)) + extra if extra else b"") + (name + b"\0" if name else b"")
    header += comment + b"\0" if comment else b""
    header += struct.pack("<H", zlib.crc32(header) & 0xFFFF) if header_crc else b""
    deflater = zlib.compressobj(wbits=-15)
    return header + deflater.compress(data) + deflater.flush() + struct.pack("<II", zlib.crc32(data), len(data))


def lz4_frame(data: bytes, **options: object) -> bytes:
    frame: bytes = lz4.frame.compress(data, block_linked=False, **{"store_size": False, **options})
    return frame


def lz4_blocks(*blocks: bytes, header: str = "04224d18604082") -> bytes:
    return bytes.fromhex(header) + b"".join(struct.pack("<I", len(block)) + block for block in blocks) + bytes(4)


def zstd_frame(data: bytes, **options: bool) -> bytes:
    return zstandard.ZstdCompressor(**options).compress(data)  # type: ignore[arg-type]


# Payloads that other clients have written and Kafka reads: (codec, payload, decompressed content).
FOREIGN: dict[str, tuple[int, bytes]] = {
    "gzip-two-members": (codecs.GZIP, gzip.compress(TEXT[:99], mtime=0) + gzip.compress(TEXT[99:], mtime=0)),
    "gzip-name": (codecs.GZIP, gzip_member(TEXT, name=b"file.json")),
    "gzip-all-header-fields": (codecs.GZIP, gzip_member(TEXT, extra=b"abc", name=b"n", comment=b"c", header_crc=True)),
    "gzip-stored-blocks": (codecs.GZIP, gzip.compress(TEXT, compresslevel=0, mtime=0)),
    "gzip-trailing-garbage": (codecs.GZIP, gzip.compress(TEXT, mtime=0) + b"garbage that is not a member"),
    "gzip-trailing-zeros": (codecs.GZIP, gzip.compress(TEXT, mtime=0) + bytes(40)),
    "snappy-raw": (codecs.SNAPPY, raw_snappy(TEXT)),
    "snappy-two-streams": (
        codecs.SNAPPY,
        codecs.compress(codecs.SNAPPY, TEXT[:99]) + codecs.compress(codecs.SNAPPY, TEXT[99:]),
    ),
    "snappy-version-0": (codecs.SNAPPY, XERIAL_HEADER[:8] + bytes(8) + codecs.compress(codecs.SNAPPY, TEXT)[16:]),
    "snappy-trailing-bytes": (codecs.SNAPPY, codecs.compress(codecs.SNAPPY, TEXT) + b"abc"),
    "lz4-content-checksum": (codecs.LZ4, lz4_frame(TEXT, content_checksum=True)),
    "lz4-block-checksum": (codecs.LZ4, lz4_frame(TEXT, block_checksum=True)),
    "lz4-content-size": (codecs.LZ4, lz4_frame(TEXT, store_size=True)),
    "lz4-everything": (
        codecs.LZ4,
        lz4_frame(TEXT, store_size=True, block_checksum=True, content_checksum=True, block_size=lz4.frame.BLOCKSIZE_MAX4MB),
    ),
    "lz4-256-kib-blocks": (codecs.LZ4, lz4_frame(TEXT, block_size=lz4.frame.BLOCKSIZE_MAX256KB)),
    "lz4-1-mib-blocks": (codecs.LZ4, lz4_frame(TEXT, block_size=lz4.frame.BLOCKSIZE_MAX1MB)),
    "lz4-bytes-after-the-end": (codecs.LZ4, codecs.compress(codecs.LZ4, TEXT) + b"anything"),
    "lz4-end-with-the-top-bit": (codecs.LZ4, codecs.compress(codecs.LZ4, TEXT)[:-1] + b"\x80"),
    "zstd-two-frames": (codecs.ZSTD, zstd_frame(TEXT[:99]) + codecs.compress(codecs.ZSTD, TEXT[99:])),
    "zstd-checksum": (codecs.ZSTD, zstd_frame(TEXT, write_checksum=True)),
    "zstd-content-size": (codecs.ZSTD, zstd_frame(TEXT)),
    "zstd-skippable-frame": (codecs.ZSTD, bytes.fromhex("532a4d1803000000") + b"abc" + zstd_frame(TEXT)),
}


@pytest.mark.parametrize("codec", ALL)
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_compressed_data_comes_back(codec: int, magic: int) -> None:
    for data in samples():
        if codec == codecs.ZSTD and magic < 2:
            continue
        payload = codecs.compress(codec, data, magic=magic)
        assert payload == codecs.compress(codec, bytearray(data), magic=magic)
        assert expand(codec, payload, magic=magic) == data


@pytest.mark.parametrize(("codec", "level"), [(codecs.GZIP, 1), (codecs.LZ4, 9), (codecs.ZSTD, -1), (codecs.ZSTD, 9)])
def test_levels_change_the_bytes_and_not_the_data(codec: int, level: int) -> None:
    data = TEXT * 20 + random.Random(2).randbytes(300) * 2 + TEXT[::-1] * 3
    payload = codecs.compress(codec, data, level=level)
    assert payload != codecs.compress(codec, data)
    assert expand(codec, payload) == data


@pytest.mark.parametrize("name", FOREIGN)
def test_payloads_of_other_clients_are_read(name: str) -> None:
    codec, payload = FOREIGN[name]
    assert expand(codec, payload) == TEXT


@pytest.mark.parametrize("codec", ALL)
def test_payload_and_target_may_be_slices_of_numpy_arrays(codec: int) -> None:
    payload = codecs.compress(codec, TEXT)
    window = np.frombuffer(b"before" + payload + b"after", np.uint8)
    arena = np.zeros(4 << 10, np.uint8)
    size = codecs.decompress(codec, window[6 : 6 + len(payload)], arena.data[10:])  # type: ignore[arg-type]
    assert arena[10 : 10 + size].tobytes() == TEXT
    assert not arena[:10].any()


@pytest.mark.parametrize("codec", ALL)
def test_a_target_of_exactly_the_size_is_enough_and_one_byte_less_is_full(codec: int) -> None:
    for data in samples():
        payload = codecs.compress(codec, data)
        assert expand(codec, payload, room=len(data)) == data
        for room in {0, len(data) // 2, len(data) - 1} if data else ():
            with pytest.raises(OutputFull):
                expand(codec, payload, room=room)


@pytest.mark.parametrize("name", FOREIGN)
def test_a_small_target_is_full_for_every_kind_of_frame(name: str) -> None:
    codec, payload = FOREIGN[name]
    assert expand(codec, payload, room=len(TEXT)) == TEXT
    for room in (0, 10, 98, 99, 100, len(TEXT) - 1):
        with pytest.raises(OutputFull):
            expand(codec, payload, room=room)


def test_nothing_is_written_after_the_target() -> None:
    for codec in ALL:
        arena = memoryview(bytearray(b"\xaa" * 200_000))
        payload = codecs.compress(codec, TEXT * 300)
        with pytest.raises(OutputFull):
            codecs.decompress(codec, payload, arena[: len(TEXT)])
        assert arena[len(TEXT) :] == b"\xaa" * (200_000 - len(TEXT))


def test_lz4_of_magic_0_has_the_broken_header_checksum_and_later_ones_the_right_one() -> None:
    assert codecs.compress(codecs.LZ4, TEXT, magic=0)[:7].hex() == "04224d1860401a"
    assert codecs.compress(codecs.LZ4, TEXT, magic=1)[:7].hex() == "04224d18604082"
    assert codecs.compress(codecs.LZ4, b"").hex() == "04224d1860408200000000"


@pytest.mark.parametrize(
    ("levels", "size", "checksum"),
    [((1, 2), 3010, 85123711), ((3,), 2861, 832497430), ((4,), 2833, 3736284311), ((10,), 2848, 3866537916)],
)
def test_an_lz4_level_gives_the_block_that_kafkas_library_makes_of_it(levels: tuple[int, ...], size: int, checksum: int) -> None:
    """Sizes and checksums are those of lz4-java 1.10.2, the library of Kafka 4.3."""
    numbers = b"".join(b"%d beta " % number**3 for number in range(400))
    for level in levels:
        block = codecs.compress(codecs.LZ4, numbers, level=level)[11:-4]
        assert (len(block), zlib.crc32(block)) == (size, checksum)


@pytest.mark.parametrize("frame", [lz4_frame(TEXT), lz4_frame(TEXT, store_size=True)])
def test_lz4_header_checksum_counts_from_magic_1_on(frame: bytes) -> None:
    position = 14 if frame[4] & 8 else 6
    wrong = frame[:position] + bytes((frame[position] ^ 1,)) + frame[position + 1 :]
    assert expand(codecs.LZ4, wrong, magic=0) == TEXT
    for magic in (1, 2):
        assert expand(codecs.LZ4, frame, magic=magic) == TEXT
        with pytest.raises(CodecError, match="header checksum"):
            expand(codecs.LZ4, wrong, magic=magic)


BAD_LZ4 = {
    "linked blocks": bytes.fromhex("04224d18404082") + bytes(4),
    "version 2": bytes.fromhex("04224d18a04082") + bytes(4),
    "reserved flag": bytes.fromhex("04224d18624082") + bytes(4),
    "dictionary": bytes.fromhex("04224d18614082") + bytes(8),
    "block size 3": bytes.fromhex("04224d18603082") + bytes(4),
    "reserved bit of the block descriptor": bytes.fromhex("04224d18604182") + bytes(4),
    "other magic": bytes.fromhex("03224d18604082") + bytes(4),
}


@pytest.mark.parametrize("name", BAD_LZ4)
def test_lz4_frames_that_kafka_refuses_are_refused_whatever_their_checksum(name: str) -> None:
    for magic in (0, 2):
        with pytest.raises(CodecError, match=r"lz4: (frame flags|block descriptor|a frame begins)"):
            expand(codecs.LZ4, BAD_LZ4[name], magic=magic)


def test_an_lz4_block_above_the_frames_block_size_is_refused() -> None:
    block = lz4.block.compress(bytes(65_537), store_size=False)
    with pytest.raises(CodecError) as caught:
        expand(codecs.LZ4, lz4_blocks(block))
    assert not isinstance(caught.value, OutputFull)
    with pytest.raises(CodecError, match="65537 bytes"):
        expand(codecs.LZ4, bytes.fromhex("04224d18604082") + struct.pack("<I", 65_537) + bytes(65_541))


def test_lz4_block_checksums_are_verified_and_content_checksum_and_size_are_not() -> None:
    frame = lz4_frame(TEXT, block_checksum=True)
    with pytest.raises(CodecError):
        expand(codecs.LZ4, frame[:-5] + bytes((frame[-5] ^ 1,)) + frame[-4:])
    stored = lz4_frame(random.Random(4).randbytes(65_536), block_checksum=True)
    assert len(expand(codecs.LZ4, stored)) == 65_536
    with pytest.raises(CodecError):
        expand(codecs.LZ4, stored[:-5] + bytes((stored[-5] ^ 1,)) + stored[-4:])
    frame = lz4_frame(TEXT, content_checksum=True)
    assert expand(codecs.LZ4, frame[:-1] + bytes((frame[-1] ^ 1,))) == TEXT
    lie = bytearray(lz4_frame(TEXT, store_size=True))
    lie[6:14] = b"\xff" * 8
    assert expand(codecs.LZ4, lie, magic=0) == TEXT


def test_bad_further_streams_of_snappy_are_judged_as_java_does() -> None:
    stream = codecs.compress(codecs.SNAPPY, TEXT)
    with pytest.raises(CodecError, match="inside its header"):
        expand(codecs.SNAPPY, stream + XERIAL_HEADER[:15])
    with pytest.raises(CodecError, match="version"):
        expand(codecs.SNAPPY, stream + XERIAL_HEADER[:8] + bytes(8) + stream[16:])
    assert expand(codecs.SNAPPY, stream + b"\x82SNAXXXX" + stream[8:]) == TEXT * 2


@pytest.mark.parametrize(
    ("payload", "codec"),
    [(b"", codecs.GZIP), (b"", codecs.SNAPPY), (b"", codecs.LZ4), (XERIAL_HEADER + bytes(4), codecs.SNAPPY)],
)
def test_an_empty_payload_or_block_is_an_error_as_in_java(payload: bytes, codec: int) -> None:
    with pytest.raises(CodecError):
        expand(codec, payload)


def test_nothing_at_all_is_nothing_for_zstd_as_in_java() -> None:
    assert expand(codecs.ZSTD, b"") == b""


def judge(codec: int, payload: bytes, magic: int = 2) -> bytes | None:
    """The decompressed payload, or None; an error outside the tree fails the test."""
    try:
        return expand(codec, payload, room=4 << 10, magic=magic)
    except CodecError:
        return None


PLAIN = {codecs.NAMES[codec]: (codec, codecs.compress(codec, TEXT)) for codec in COMPRESSING}


@pytest.mark.parametrize("name", [*PLAIN, *FOREIGN])
def test_a_payload_cut_anywhere_never_passes_for_the_whole(name: str) -> None:
    codec, payload = (PLAIN | FOREIGN)[name]
    spare = {
        "gzip-trailing-garbage": 28,
        "gzip-trailing-zeros": 40,
        "snappy-trailing-bytes": 3,
        "lz4-bytes-after-the-end": 8,
    }
    for stop in range(len(payload) - spare.get(name, 0)):
        assert judge(codec, payload[:stop]) != TEXT, stop


@pytest.mark.parametrize("name", [*PLAIN, *FOREIGN])
def test_a_flipped_byte_raises_nothing_but_codec_errors(name: str) -> None:
    codec, payload = (PLAIN | FOREIGN)[name]
    refused = 0
    for position in range(len(payload)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(payload)
            damaged[position] ^= flip
            refused += judge(codec, bytes(damaged)) is None
    assert refused > 20
    assert expand(codec, payload) == TEXT


@pytest.mark.parametrize("codec", COMPRESSING)
def test_random_bytes_after_a_good_start_raise_nothing_but_codec_errors(codec: int) -> None:
    randomness = random.Random(codec)
    payload = codecs.compress(codec, TEXT)
    for _ in range(2_000):
        start = payload[: randomness.randrange(20)]
        magic = 2 if codec == codecs.ZSTD else randomness.choice((0, 2))
        judge(codec, start + randomness.randbytes(randomness.randrange(60)), magic)


def test_batches_of_megabytes_in_several_frames() -> None:
    part = random.Random(3).randbytes(100_000) * 15
    for codec in COMPRESSING:
        data = part * 2 if codec != codecs.LZ4 else part
        payload = codecs.compress(codec, part) * (len(data) // len(part))
        assert expand(codec, payload, room=len(data)) == data
        with pytest.raises(OutputFull):
            expand(codec, payload, room=len(data) - 1)


def test_threads_do_not_disturb_each_other() -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        data = random.Random(seed).randbytes(2_000) * 8
        try:
            for _ in range(60):
                for codec in COMPRESSING:
                    assert expand(codec, codecs.compress(codec, data), room=len(data)) == data
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_codec_names_and_numbers() -> None:
    assert [codecs.codec_id(name) for name in codecs.NAMES] == list(ALL)
    with pytest.raises(UsageError, match="none, gzip, snappy, lz4, zstd"):
        codecs.codec_id("brotli")


def test_a_codec_that_the_format_does_not_have() -> None:
    for codec, magic in ((5, 2), (7, 0), (-1, 2), (codecs.ZSTD, 1)):
        with pytest.raises(CodecError) as caught:
            expand(codec, b"x", magic=magic)
        assert caught.value.reason == "codec-unknown"
    with pytest.raises(UsageError):
        codecs.compress(codecs.ZSTD, TEXT, magic=1)
    with pytest.raises(UsageError):
        codecs.compress(5, TEXT)


@pytest.mark.parametrize(("codec", "level"), list(enumerate([1, 10, 1, 18, 23])))
def test_a_level_that_the_codec_does_not_have_is_a_usage_error(codec: int, level: int) -> None:
    with pytest.raises(UsageError, match="level"):
        codecs.compress(codec, TEXT, level=level)


@pytest.mark.parametrize(
    ("codec", "package"), [(codecs.GZIP, "isal"), (codecs.SNAPPY, "cramjam"), (codecs.LZ4, "lz4"), (codecs.ZSTD, "zstandard")]
)
def test_a_missing_library_is_named(codec: int, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "_loaded", {})
    monkeypatch.delitem(sys.modules, f"kafkalog.codecs.{codecs.NAMES[codec]}", raising=False)
    for module in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(CodecMissing, match=f"pip install {package}$"):
        codecs.decompress(codec, b"x", memoryview(bytearray(8)))


def test_importing_the_codecs_imports_no_library() -> None:
    heavy = "isal", "cramjam", "lz4", "zstandard", "numpy"
    program = f"import sys, kafkalog.codecs; print([name for name in {heavy!r} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
