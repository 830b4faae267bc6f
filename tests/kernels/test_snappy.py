"""Snappy blocks against those of snappy-java 1.1.10.7, Kafka's own library; compiled, bounds-checked and with the JIT off."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import cramjam
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from kafkalog.codecs import SNAPPY, compress
from kafkalog.kernels import snappy
from tests.interop.tools.snappy_blocks import large_source

IN_CHILD = "KAFKALOG_TEST_CHILD"
JIT_OFF = bool(os.environ.get("NUMBA_DISABLE_JIT"))

# The block of `Snappy.rawCompress` for each source; of large ones the sizes of source and block, and the block's CRC-32.
# Made by `python -m tests.interop.tools.snappy_blocks`.
GIVEN = json.loads((Path(__file__).parent / "data" / "snappy_blocks.json").read_text())
BLOCKS = [tuple(base64.b64decode(part) for part in block) for block in GIVEN["blocks"]]


@pytest.mark.parametrize(("source", "expected"), BLOCKS, ids=lambda part: f"{len(part)} bytes")
def test_a_block_has_the_bytes_that_javas_library_gives(source: bytes, expected: bytes) -> None:
    assert snappy.compress(memoryview(source)) == expected


@pytest.mark.parametrize(("size", "block_size", "checksum"), GIVEN["large"][: 3 if JIT_OFF else None])
def test_a_large_block_has_the_bytes_that_javas_library_gives(size: int, block_size: int, checksum: int) -> None:
    block = snappy.compress(memoryview(large_source([source for source, _ in BLOCKS], size)))
    assert (len(block), zlib.crc32(block)) == (block_size, checksum)


def test_the_codec_frames_such_blocks() -> None:
    source, block = BLOCKS[0]
    assert compress(SNAPPY, source)[16:] == len(block).to_bytes(4, "big") + block


@settings(max_examples=20 if JIT_OFF else 300)
@given(st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([b"topic-", b"\0" * 70, b"key"])), min_size=1, max_size=60))
def test_a_block_decompresses_to_its_source_and_fits_the_room(parts: list[bytes]) -> None:
    source = b"".join(parts) or b"\0"
    target = np.zeros(snappy.max_compressed_size(len(source)), np.uint8)
    size = snappy.compress_into(np.frombuffer(source, np.uint8), target, np.zeros(snappy.MAX_TABLE, np.int64))
    assert bytes(cramjam.snappy.decompress_raw(target[:size].tobytes())) == source


@pytest.mark.skipif(IN_CHILD in os.environ, reason="this is the child")
@pytest.mark.parametrize("switch", ["NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"])
def test_the_same_tests_pass_without_the_jit_and_with_bounds_checks(switch: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", __file__]
    child = subprocess.run(command, env=os.environ | {switch: "1", IN_CHILD: "1"}, capture_output=True, text=True, timeout=240)
    assert child.returncode == 0, child.stdout + child.stderr
