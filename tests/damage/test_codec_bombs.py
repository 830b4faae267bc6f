"""Small payloads that decompress to huge ones (fault model T-08, T-09), each tried in a process of its own with a limit."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import lz4.block
import pytest

from kafkalog import codecs

MIB = 1 << 20
GIB = 1 << 30
LZ4_HEADER = bytes.fromhex("04224d18604082")
XERIAL_HEADER = bytes.fromhex("82534e41505059000000000100000001")

# Decompresses the file named by its argument and says how that ended, and how much time of the processor and how much memory it
# took besides the target. The limit is on the growth: what libraries reserve at their start grows with the number of cores.
# The peak is that of this program: Linux counts what the process was before it into ru_maxrss.
CHILD = """
import json, mmap, resource, sys, time
def memory(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith(name))
from kafkalog import codecs
from kafkalog.errors import CodecError
codec, room, path, address_space = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
codecs.decompress(codec, codecs.compress(codec, b"the library is loaded before anything is measured"), memoryview(bytearray(64)))
if address_space:
    limit = memory("VmSize") + address_space
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
with open(path, "rb") as file:
    payload = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
out = memoryview(bytearray(b"\\1") * room)
before = memory("VmHWM")
start = time.process_time()
try:
    outcome = str(codecs.decompress(codec, payload, out))
except CodecError as error:
    outcome = type(error).__name__
seconds = time.process_time() - start
grown = memory("VmHWM") - before
print(json.dumps([outcome, seconds, grown]))
"""


def run_child(path: Path, codec: int, room: int, address_space: int = 0) -> tuple[str, float, int]:
    """Outcome, seconds and grown bytes of a decompression; fails when the process died."""
    command = [sys.executable, "-c", CHILD, str(codec), str(room), str(path), str(address_space)]
    child = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert child.returncode == 0, (child.returncode, child.stderr)
    outcome, seconds, grown = json.loads(child.stdout)
    return outcome, seconds, grown


def gzip_bomb() -> bytes:
    deflater = zlib.compressobj(9, wbits=-15)
    first = deflater.compress(bytes(MIB)) + deflater.flush(zlib.Z_FULL_FLUSH)
    last = deflater.compress(bytes(MIB)) + deflater.flush()
    header = bytes.fromhex("1f8b08000000000000ff")
    return header + first * (GIB // MIB - 1) + last + struct.pack("<II", 0, GIB)


def snappy_bomb() -> bytes:
    block = codecs.compress(codecs.SNAPPY, bytes(32 << 10))[16:]
    return XERIAL_HEADER + block * (GIB // (32 << 10))


def lz4_bomb() -> bytes:
    block: bytes = lz4.block.compress(bytes(64 << 10), store_size=False)
    return LZ4_HEADER + (struct.pack("<I", len(block)) + block) * (GIB // (64 << 10)) + bytes(4)


def zstd_bomb() -> bytes:
    repeated_byte = 0b010
    block = (128 << 10) << 3 | repeated_byte
    blocks = (block.to_bytes(3, "little") + b"\0") * (GIB // (128 << 10))
    return bytes.fromhex("28b52ffd0058") + blocks + bytes.fromhex("010000")


BOMBS: dict[int, Callable[[], bytes]] = {
    codecs.GZIP: gzip_bomb,
    codecs.SNAPPY: snappy_bomb,
    codecs.LZ4: lz4_bomb,
    codecs.ZSTD: zstd_bomb,
}


@pytest.mark.parametrize("codec", BOMBS, ids=lambda codec: codecs.NAMES[codec])
def test_a_bomb_of_a_gibibyte_stops_at_the_target_in_bounded_memory_and_time(codec: int, tmp_path: Path) -> None:
    bomb = tmp_path / "bomb"
    bomb.write_bytes(BOMBS[codec]())
    outcome, seconds, grown = run_child(bomb, codec, 64 * MIB)
    assert outcome == "OutputFull"
    assert seconds < 10
    assert grown <= 32 * MIB


LIES: dict[str, tuple[int, bytes]] = {
    "zstd-content-size-of-a-tebibyte": (codecs.ZSTD, bytes.fromhex("28b52ffde0 0000000000010000 010000")),
    "zstd-content-size-of-a-tebibyte-and-a-window": (codecs.ZSTD, bytes.fromhex("28b52ffdc0 58 0000000000010000 090000 61")),
    "zstd-window-of-2-gib": (codecs.ZSTD, bytes.fromhex("28b52ffd00 a8 090000 61")),
    "zstd-window-above-any": (codecs.ZSTD, bytes.fromhex("28b52ffd00 ff 090000 61")),
    "zstd-skippable-frame-of-4-gib": (codecs.ZSTD, bytes.fromhex("502a4d18 ffffffff")),
    "lz4-content-size-of-a-tebibyte": (codecs.LZ4, bytes.fromhex("04224d18 68 40 0000000000010000 b7 01000000")),
    "lz4-block-of-2-gib": (codecs.LZ4, LZ4_HEADER + bytes.fromhex("ffffff7f")),
    "lz4-stored-block-of-2-gib": (codecs.LZ4, LZ4_HEADER + bytes.fromhex("ffffffff")),
    "snappy-preamble-of-4-gib": (codecs.SNAPPY, bytes.fromhex("ffffffff0f 00 61")),
    "snappy-preamble-that-does-not-end": (codecs.SNAPPY, bytes.fromhex("ffffffffffffff")),
    "xerial-block-of-minus-1": (codecs.SNAPPY, XERIAL_HEADER + bytes.fromhex("ffffffff")),
    "xerial-block-of-0": (codecs.SNAPPY, XERIAL_HEADER + bytes.fromhex("00000000")),
    "xerial-block-of-2-gib": (codecs.SNAPPY, XERIAL_HEADER + bytes.fromhex("7fffffff")),
    "xerial-block-with-a-preamble-of-4-gib": (codecs.SNAPPY, XERIAL_HEADER + bytes.fromhex("00000007 ffffffff0f 00 61")),
    "gzip-extra-field-of-64-kib": (codecs.GZIP, bytes.fromhex("1f8b0804000000000000 ffff 6162")),
    "gzip-member-of-4-gib": (codecs.GZIP, bytes.fromhex("1f8b0800000000000000 0300 00000000 ffffffff")),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lying_header_is_refused_and_the_process_lives(name: str, tmp_path: Path) -> None:
    codec, payload = LIES[name]
    lie = tmp_path / "lie"
    lie.write_bytes(payload)
    outcome, seconds, grown = run_child(lie, codec, 8 * MIB, address_space=GIB)
    assert outcome == "CodecError"
    assert seconds < 10
    assert grown <= 8 * MIB


def test_a_window_of_128_mib_is_honoured_and_costs_only_what_is_used(tmp_path: Path) -> None:
    frame = tmp_path / "frame"
    frame.write_bytes(bytes.fromhex("28b52ffd00 88 090000 61"))
    outcome, _, grown = run_child(frame, codecs.ZSTD, MIB, address_space=GIB)
    assert outcome == "1"
    assert grown <= 8 * MIB
