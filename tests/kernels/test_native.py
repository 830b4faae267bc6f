"""The C functions that kernels call by address: found here, tested before use, and not needed."""

from __future__ import annotations

import importlib
import logging
import os
import random
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kafkalog
from kafkalog.codecs import LZ4, ZSTD, compress
from kafkalog.format import entry_table
from kafkalog.kernels import compression as kernel
from kafkalog.kernels import layout, native
from kafkalog.kernels._jit import kernel as compiled
from kafkalog.kernels.bytes import Bytes, Int, Ints
from kafkalog.segment.memory import DecodeScratch
from tests.builders.small_logs import made_batch, write_segment

pytestmark = pytest.mark.skipif(native.IS_OFF, reason="the JIT is off")
ROOM = 1 << 20
CONTENTS = [b"a", b"kafka" * 40, bytes(100_000), random.Random(1).randbytes(200_000), b'{"a": 1}' * 40_000]


@compiled
def decompress(data: Bytes, arena: Bytes, fields: Ints, payloads: Ints, tools: Ints) -> Int:
    return kernel.decompress(data, arena, fields, payloads, 0, tools)


def native_decompress(codec: int, payload: bytes, *, limit: int = ROOM) -> bytes | None:
    """The payload as the kernel decompresses it; None if it leaves it to `codecs`."""
    scratch = DecodeScratch()
    scratch.enlarge_arena(ROOM)
    fields = np.zeros((entry_table.FIELD_COUNT, 1), np.int64)
    fields[entry_table.MAGIC, 0], fields[entry_table.ATTRIBUTES, 0] = 2, codec
    payloads = np.zeros((layout.PAYLOAD_FIELDS, 1), np.int64)
    payloads[layout.STOP, 0] = len(payload)
    data = np.frombuffer(payload, np.uint8).copy()
    size = decompress(data, scratch.arena, fields, payloads, scratch.tools(limit, check_crcs=False))
    return scratch.arena[:size].tobytes() if size >= 0 else None


def test_all_functions_are_found_in_the_packages_we_pin() -> None:
    assert native.crc32c_function()
    assert native.lz4_function()
    assert native.zstd_function()


@pytest.mark.parametrize("codec", [LZ4, ZSTD])
@pytest.mark.parametrize("content", CONTENTS, ids=len)
def test_frames_of_kafkas_writers_are_decompressed_without_the_bindings(codec: int, content: bytes) -> None:
    assert native_decompress(codec, compress(codec, content)) == content


@pytest.mark.parametrize("codec", [LZ4, ZSTD])
def test_no_cut_payload_is_taken_for_a_whole_one(codec: int) -> None:
    payload = compress(codec, b'{"a": 1}' * 100)
    for size in range(len(payload)):
        assert native_decompress(codec, payload[:size]) is None


@pytest.mark.parametrize("codec", [LZ4, ZSTD])
def test_a_payload_larger_than_the_limit_is_left(codec: int) -> None:
    payload = compress(codec, bytes(50_000))
    assert native_decompress(codec, payload, limit=50_000) == bytes(50_000)
    assert native_decompress(codec, payload, limit=49_999) is None


def test_zstd_frames_that_kafka_would_refuse_or_that_are_several_are_left() -> None:
    frame = compress(ZSTD, b"kafka" * 40)
    wide = bytearray(frame)
    wide[5] = 18 << 3  # a window of 256 MiB
    assert native_decompress(ZSTD, bytes(wide)) is None
    assert native_decompress(ZSTD, frame + frame) is None
    assert native_decompress(ZSTD, b"\x50\x2a\x4d\x18\x01\x00\x00\x00x" + frame) is None


def test_records_are_the_same_without_the_native_functions(tmp_path: Path) -> None:
    entries = [made_batch(first, 10, codec=first // 10 % 5) for first in range(0, 200, 10)]
    write_segment(tmp_path / "orders-0", 0, *entries)
    program = (
        "import sys, kafkalog; from kafkalog.kernels import native; assert not native.crc32c_function();"
        "print(kafkalog.open(sys.argv[1]).read('records').read_all().to_pylist())"
    )
    environment = {**os.environ, "KAFKALOG_NO_NATIVE": "1"}
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=240)
    assert done.stdout.strip() == str(kafkalog.open(str(tmp_path)).read("records").read_all().to_pylist())


def test_a_missing_library_or_symbol_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert native._find("no_such_package.at_all", "crc32_iscsi") is None
    assert native._find("isal.isal_zlib", "no_such_function") is None


FUNCTIONS = [
    (native.crc32c_function, "isal", "crc32_iscsi"),
    (native.lz4_function, "lz4", "LZ4_decompress_safe"),
    (native.lz4_compress_function, "lz4", "LZ4_compress_default"),
    (native.zstd_function, "zstandard", "ZSTD_decompressDCtx"),
]


@pytest.mark.parametrize(("function", "package", "name"), FUNCTIONS, ids=[name for _, _, name in FUNCTIONS])
def test_the_slower_binding_is_logged_once(
    function: Any, package: str, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(native, "_library", lambda module: None)
    function.cache_clear()
    try:
        with caplog.at_level(logging.WARNING, "kafkalog"):
            assert function() == function() == native.NOT_FOUND
    finally:
        function.cache_clear()
    expected = f"the package {package} has no function {name} that works here: its slower Python binding is used"
    assert caplog.record_tuples == [("kafkalog", logging.WARNING, expected)]


def test_nothing_is_logged_where_the_bindings_were_asked_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(native, "IS_OFF", True)
    native.crc32c_function.cache_clear()
    try:
        assert native.crc32c_function() == native.NOT_FOUND
    finally:
        native.crc32c_function.cache_clear()
    assert caplog.record_tuples == []


def test_a_module_that_another_thread_is_importing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error was: lz4.block._block.__spec__ is None. It is in sys.modules before it is whole."""
    for module in ("lz4.block._block", "isal.isal_zlib"):
        with monkeypatch.context() as patch:
            importlib.import_module(module)
            patch.setitem(sys.modules, module, types.ModuleType(module))  # as it is then: without a spec
            assert native._library(module) is not None
