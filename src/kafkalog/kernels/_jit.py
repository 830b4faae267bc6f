"""The fence around Numba: the only module that imports it.

`@kernel` compiles a function without the GIL and caches the machine code in a folder of our own. Four silent failures of
Numba shape this file: an import that fails where nothing is writable, a cache that misses edits in other files, a bounds-check
switch that a warm cache ignores, and `uint8` arithmetic that wraps when the JIT is off (kernels widen each byte on load).
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])

PACKAGE = Path(__file__).resolve().parent.parent
BOUNDS_CHECK = os.environ.get("NUMBA_BOUNDSCHECK", "0") not in ("", "0")


def _sources_digest() -> str:
    """A hash of every source a kernel may depend on: constants of `format` are compiled into the machine code."""
    digest = hashlib.sha256()
    for folder in ("format", "kernels"):
        for source in sorted((PACKAGE / folder).glob("*.py")):
            digest.update(source.name.encode())
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _private_folder(path: Path) -> Path | None:
    """`path` if it is ours alone (cache entries are pickles, so nobody else may write there), otherwise None."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
        if status.st_uid != os.getuid() or status.st_mode & 0o022:
            return None
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError:
        return None


def _cache_folder() -> Path | None:
    chosen = os.environ.get("KAFKALOG_CACHE_DIR")
    home = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "kafkalog"
    name = f"kernels-{_sources_digest()}-py{sys.version_info[0]}{sys.version_info[1]}"
    return _private_folder(home / (name + ("-bounds" if BOUNDS_CHECK else "")))


CACHE_FOLDER = _cache_folder()
_settings: Any = numba.config
JIT_OFF = bool(_settings.DISABLE_JIT)


@functools.cache
def announce_compilation() -> None:
    """One line on stderr before the first, slow compilation of a fresh install."""
    if JIT_OFF or (CACHE_FOLDER is not None and any(CACHE_FOLDER.glob("**/*.nbi"))):
        return
    if sys.stderr is not None:
        sys.stderr.write("kafkalog: compiling its kernels, once for this installation (a few seconds)\n")


def kernel(function: Function) -> Function:
    """`function` compiled on first call; with the JIT switched off, the function itself."""
    return _compiled(function, {})


def inline(function: Function) -> Function:
    """A helper that only kernels call, inlined into each of them."""
    return _compiled(function, {"forceinline": True})


def wrapping(function: Function) -> Function:
    """A kernel whose unsigned sums overflow on purpose: compiled they wrap; with the JIT off NumPy would warn."""
    return np.errstate(over="ignore")(function) if JIT_OFF else function


def _compiled(function: Function, extra: dict[str, Any]) -> Function:
    options: dict[str, Any] = {"nogil": True, "cache": CACHE_FOLDER is not None, "error_model": "numpy", **extra}
    if BOUNDS_CHECK:
        options["boundscheck"] = True
    others = _settings.CACHE_DIR  # Numba reads it while it decorates; kernels of other packages keep their own folder
    try:
        _settings.CACHE_DIR = str(CACHE_FOLDER or others)
        return numba.njit(**options)(function)  # type: ignore[no-any-return]
    finally:
        _settings.CACHE_DIR = others


def external_pread() -> Any:
    """libc's `pread(fd, address, size, position)` as kernels call it; None when the JIT is off."""
    if JIT_OFF:
        return None
    return types.ExternalFunction("pread", types.int64(types.int32, types.uintp, types.uintp, types.int64))


def _generate_move(typing: Any, target: Any, source: Any, size: Any) -> Any:
    """LLVM's memcpy between two addresses, as Numba's code generator takes it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target_address, source_address, count = arguments
        pointer = context.get_value_type(types.voidptr)
        to, origin = builder.inttoptr(target_address, pointer), builder.inttoptr(source_address, pointer)
        cgutils.raw_memcpy(builder, to, origin, count, 1, align=1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(types.uintp, types.uintp, types.uintp), generate


_move: Any = intrinsic(_generate_move)


def _copy_by_address(source: Any, start: Any, target: Any, target_start: Any, size: Any) -> None:
    _move(np.uintp(target.ctypes.data) + np.uintp(target_start), np.uintp(source.ctypes.data) + np.uintp(start), np.uintp(size))


def _copy_by_index(source: Any, start: Any, target: Any, target_start: Any, size: Any) -> None:
    for index in range(size):
        target[target_start + index] = source[start + index]


_copy_by_address = inline(_copy_by_address)

# Copies source[start : start + size] to target[target_start:]; the caller has checked both ranges. Numba cannot check addresses,
# so a bounds-checked run copies by index instead, at a third of the speed.
copy_bytes = inline(_copy_by_index) if JIT_OFF or BOUNDS_CHECK else _copy_by_address

STEP_BYTES = 32
LONGEST_STEPPED = 256  # from here on libc is faster


def _copy_ahead_by_address(source: Any, start: Any, target: Any, target_start: Any, size: Any) -> None:
    step, end = np.uintp(STEP_BYTES), size + STEP_BYTES
    if size > LONGEST_STEPPED or start + end > source.shape[0] or target_start + end > target.shape[0]:
        _copy_by_address(source, start, target, target_start, size)
        return
    to = np.uintp(target.ctypes.data) + np.uintp(target_start)
    origin = np.uintp(source.ctypes.data) + np.uintp(start)
    stop = to + np.uintp(size)
    while to < stop:
        _move(to, origin, step)
        to += step
        origin += step


# As `copy_bytes`, for a target that is filled from front to back: up to STEP_BYTES after the copy may be overwritten.
# Moves of a fixed size are instructions, not calls.
copy_ahead = inline(_copy_by_index if JIT_OFF or BOUNDS_CHECK else _copy_ahead_by_address)


SHORT_STEP_BYTES = 8


def _copy_earlier_by_address(array: Any, start: Any, target_start: Any, size: Any) -> None:
    distance = target_start - start
    to = np.uintp(array.ctypes.data) + np.uintp(target_start)
    origin = np.uintp(array.ctypes.data) + np.uintp(start)
    stop = to + np.uintp(size)
    if distance >= STEP_BYTES and target_start + size + STEP_BYTES <= array.shape[0]:
        while to < stop:
            _move(to, origin, np.uintp(STEP_BYTES))
            to += np.uintp(STEP_BYTES)
            origin += np.uintp(STEP_BYTES)
    elif distance >= SHORT_STEP_BYTES and target_start + size + SHORT_STEP_BYTES <= array.shape[0]:
        while to < stop:
            _move(to, origin, np.uintp(SHORT_STEP_BYTES))
            to += np.uintp(SHORT_STEP_BYTES)
            origin += np.uintp(SHORT_STEP_BYTES)
    else:
        for index in range(size):
            array[target_start + index] = array[start + index]


def _copy_earlier_by_index(array: Any, start: Any, target_start: Any, size: Any) -> None:
    for index in range(size):
        array[target_start + index] = array[start + index]


# Repeats earlier bytes of the same array from front to back, so a copy may overlap itself. Bytes after it may be overwritten, as
# with `copy_ahead`.
copy_earlier = inline(_copy_earlier_by_index if JIT_OFF or BOUNDS_CHECK else _copy_earlier_by_address)


def _generate_call(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Call the C function whose address is the first argument, with the others."""
    kinds = [context.get_value_type(kind) for kind in signature.args[1:]]
    function = ir.FunctionType(context.get_value_type(signature.return_type), kinds)
    return builder.call(builder.inttoptr(arguments[0], function.as_pointer()), arguments[1:])


def _type_crc(typing: Any, function: Any, data: Any, size: Any, state: Any) -> Any:
    return types.uint32(types.uintp, types.uintp, types.int32, types.uint32), _generate_call


def _type_lz4(typing: Any, function: Any, source: Any, target: Any, size: Any, room: Any) -> Any:
    return types.int32(types.uintp, types.uintp, types.uintp, types.int32, types.int32), _generate_call


def _type_zstd(typing: Any, function: Any, context: Any, target: Any, room: Any, source: Any, size: Any) -> Any:
    return types.int64(types.uintp, types.uintp, types.uintp, types.uintp, types.uintp, types.uintp), _generate_call


def _type_xxh32(typing: Any, function: Any, data: Any, size: Any, seed: Any) -> Any:
    return types.uint32(types.uintp, types.uintp, types.uintp, types.uint32), _generate_call


def _type_crc32(typing: Any, function: Any, state: Any, data: Any, size: Any) -> Any:
    return types.uint32(types.uintp, types.uint32, types.uintp, types.uintp), _generate_call


def _type_inflate(typing: Any, function: Any, state: Any) -> Any:
    return types.int32(types.uintp, types.uintp), _generate_call


# C functions that kernels call by an address found at run time (`native`), which is the first argument; the others as in C.
call_crc32c: Any = intrinsic(_type_crc)  # crc32_iscsi(data, size, state)
call_lz4: Any = intrinsic(_type_lz4)  # LZ4_decompress_safe, LZ4_compress_default(source, target, size, room)
call_zstd: Any = intrinsic(_type_zstd)  # ZSTD_decompressDCtx(context, target, room, source, size)
call_xxh32: Any = intrinsic(_type_xxh32)  # XXH32(data, size, seed)
call_crc32: Any = intrinsic(_type_crc32)  # crc32_gzip_refl(state, data, size)
call_inflate: Any = intrinsic(_type_inflate)  # isal_inflate_stateless(state)
