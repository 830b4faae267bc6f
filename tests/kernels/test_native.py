"""The C functions that kernels call by address: found here, tested before use, and not needed."""

from __future__ import annotations

import importlib
import itertools
import logging
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core.errors import TypingError

import kafkalog
from kafkalog.format.reference import encode_message, encode_wrapper
from kafkalog.kernels import native
from kafkalog.kernels._jit import _compiled
from tests.builders.small_logs import compress, made_batch, made_records, read_offsets, write_segment

pytestmark = pytest.mark.skipif(native.IS_OFF, reason="the JIT is off")
FUNCTIONS = [
    (native.crc32c_function, "isal", "crc32_iscsi"),
    (native.lz4_function, "lz4", "LZ4_decompress_safe"),
    (native.lz4_compress_function, "lz4", "LZ4_compress_default"),
    (native.xxh32_function, "lz4", "XXH32"),
    (native.zstd_function, "zstandard", "ZSTD_decompressDCtx"),
    (native.inflate_function, "isal", "isal_inflate_stateless"),
    (native.crc32_function, "isal", "crc32_gzip_refl"),
]


@pytest.mark.parametrize("function", [find for find, _, _ in FUNCTIONS], ids=[name for _, _, name in FUNCTIONS])
def test_every_function_is_found_in_the_packages_we_pin(function: Any) -> None:
    assert function() != native.NOT_FOUND


def _print_without_native(expression: str, folder: Path) -> str:
    """What a process without the native functions prints for an expression on `logs`."""
    program = (
        "import sys, kafkalog; from kafkalog.kernels import native; assert not native.crc32c_function();"
        f"logs = kafkalog.open(sys.argv[1]); print({expression})"
    )
    environment = {**os.environ, "KAFKALOG_NO_NATIVE": "1"}
    command = [sys.executable, "-c", program, str(folder)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=240).stdout.strip()


def test_records_are_the_same_without_the_native_functions(tmp_path: Path) -> None:
    entries = [made_batch(first, 10, codec=first // 10 % 5) for first in range(0, 200, 10)]
    write_segment(tmp_path / "orders-0", 0, *entries)
    expected = str(kafkalog.open(str(tmp_path)).read("records").read_all().to_pylist())
    assert _print_without_native("logs.read('records').read_all().to_pylist()", tmp_path) == expected


def _changed(codec: int, data: bytes, magic: int) -> bytes:
    """A compressor that changes the last inner message."""
    return compress(codec, data[:-1] + b"?", magic)


@pytest.mark.parametrize("with_batches", [False, True])
def test_wrong_checksums_of_v0_and_v1_are_found_with_and_without_the_native_functions(tmp_path: Path, with_batches: bool) -> None:
    entries = [made_batch(0)] if with_batches else []
    damage, kept = [], list(range(10)) if with_batches else []
    position, first = sum(map(len, entries)), 10
    for magic, codec, reason in itertools.product((0, 1), (1, 3), ("", "crc", "inner-crc")):
        pack = _changed if reason == "inner-crc" else compress
        message = encode_message(made_records(first, 1)[0], magic=magic)
        wrapper = encode_wrapper(made_records(first + 1, 9), codec=codec, compress=pack, magic=magic)
        for entry, count in ((message, 1), (wrapper, 9)):
            if reason == "crc" or (reason and count > 1):
                damage.append((reason, position))
            else:
                kept += range(first, first + count)
            entries.append(entry[:-1] + b"?" if reason == "crc" else entry)
            position, first = position + len(entry), first + count
    write_segment(tmp_path / "orders-0", 0, *entries)
    logs = kafkalog.open(str(tmp_path))
    assert read_offsets(logs, on_damage="skip") == kept
    assert [(lost.reason, lost.position) for lost in logs.report.dropped] == damage
    expression = (
        "logs.read('records', ['offset'], on_damage='skip').read_all()['offset'].to_pylist(),"
        "[(lost.reason, lost.position) for lost in logs.report.dropped]"
    )
    assert _print_without_native(expression, tmp_path) == f"{kept} {damage}"


def test_a_missing_library_or_symbol_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert native._find("no_such_package.at_all", "crc32_iscsi") is None
    assert native._find("isal.isal_zlib", "no_such_function") is None


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


def test_a_kernel_that_would_allocate_does_not_compile() -> None:
    def allocates(size: int) -> Any:
        return np.empty(size)[0]

    with pytest.raises(TypingError, match="array passed into the function"):
        _compiled(allocates)(3)
