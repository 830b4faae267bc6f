"""C functions that packages we depend on export, for kernels to call by address.

Called through their Python bindings they cost a microsecond or two per batch, mostly with the GIL held. A function that is
missing, or that fails a first test, has address 0 (`NOT_FOUND`): the caller then uses the binding, which is logged once.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
from importlib import import_module
from importlib.machinery import PathFinder

from ._jit import JIT_OFF

LOGGER = logging.getLogger("kafkalog")

NOT_FOUND = 0
# If set to anything, only the bindings are used.
IS_OFF = JIT_OFF or bool(os.environ.get("KAFKALOG_NO_NATIVE"))

CHECK_INPUT = b"123456789"
CRC32C_OF_CHECK_INPUT = 0xE3069283
LZ4_BLOCK = b"\x90" + CHECK_INPUT  # nine literals
LZ4_SLACK = 16
ZSTD_FRAME = bytes.fromhex("28b52ffd20 09 490000") + CHECK_INPUT  # one raw block
DEFLATED = b"\x01\x09\x00\xf6\xff" + CHECK_INPUT  # one stored block
XXH32_OF_CHECK_INPUT = 0x937BAD67
CRC32_OF_CHECK_INPUT = 0xCBF43926
INFLATE_STATE_BYTES = 128 << 10  # inflate_state has about 87 KiB
ALL_ONES = 0xFFFFFFFF


@functools.cache
def crc32c_function() -> int:
    """`crc32_iscsi` of ISA-L: (data, size, state) to state; begins with all ones, and the result must be inverted."""
    function = _find("isal.isal_zlib", "crc32_iscsi")
    if function is None:
        return _not_found("crc32_iscsi", "isal")
    function.restype = ctypes.c_uint32
    found = function(CHECK_INPUT, len(CHECK_INPUT), ctypes.c_uint32(ALL_ONES)) ^ ALL_ONES
    return _address(function) if found == CRC32C_OF_CHECK_INPUT else _not_found("crc32_iscsi", "isal")


@functools.cache
def lz4_function() -> int:
    """`LZ4_decompress_safe` of liblz4: (source, target, size, room) to bytes written; negative: bad bytes, or no room."""
    function = _find("lz4.block._block", "LZ4_decompress_safe")
    if function is None:
        return _not_found("LZ4_decompress_safe", "lz4")
    target = ctypes.create_string_buffer(len(CHECK_INPUT))
    written = function(LZ4_BLOCK, target, len(LZ4_BLOCK), len(target))
    is_right = (written, target.raw) == (len(CHECK_INPUT), CHECK_INPUT)
    return _address(function) if is_right else _not_found("LZ4_decompress_safe", "lz4")


@functools.cache
def lz4_compress_function() -> int:
    """`LZ4_compress_default` of liblz4: (source, target, size, room) to bytes written; 0: no room."""
    function = _find("lz4.block._block", "LZ4_compress_default")
    if function is None:
        return _not_found("LZ4_compress_default", "lz4")
    target = ctypes.create_string_buffer(len(LZ4_BLOCK) + LZ4_SLACK)
    written = function(CHECK_INPUT, target, len(CHECK_INPUT), len(target))
    return _address(function) if target.raw[:written] == LZ4_BLOCK else _not_found("LZ4_compress_default", "lz4")


@functools.cache
def zstd_function() -> int:
    """`ZSTD_decompressDCtx` of libzstd: (context, target, room, source, size) to bytes written, negative for an error."""
    function = _find("zstandard._cffi", "ZSTD_decompressDCtx")
    if function is None or ZstdContext.library() is None:
        return _not_found("ZSTD_decompressDCtx", "zstandard")
    function.restype = ctypes.c_ssize_t
    target = ctypes.create_string_buffer(len(CHECK_INPUT))
    size = ctypes.c_size_t
    context = ZstdContext()
    written = function(ctypes.c_void_p(context.address), target, size(len(target)), ZSTD_FRAME, size(len(ZSTD_FRAME)))
    is_right = (written, target.raw) == (len(CHECK_INPUT), CHECK_INPUT)
    return _address(function) if is_right else _not_found("ZSTD_decompressDCtx", "zstandard")


@functools.cache
def xxh32_function() -> int:
    """`XXH32` of liblz4's xxHash: (data, size, seed) to the hash."""
    function = _find("lz4.frame._frame", "XXH32")
    if function is None:
        return _not_found("XXH32", "lz4")
    function.restype = ctypes.c_uint32
    found = function(CHECK_INPUT, ctypes.c_size_t(len(CHECK_INPUT)), 0)
    return _address(function) if found == XXH32_OF_CHECK_INPUT else _not_found("XXH32", "lz4")


@functools.cache
def crc32_function() -> int:
    """`crc32_gzip_refl` of ISA-L: (state, data, size) to the checksum; begins with 0."""
    function = _find("isal.isal_zlib", "crc32_gzip_refl")
    if function is None:
        return _not_found("crc32_gzip_refl", "isal")
    function.restype = ctypes.c_uint32
    found = function(ctypes.c_uint32(0), CHECK_INPUT, ctypes.c_uint64(len(CHECK_INPUT)))
    return _address(function) if found == CRC32_OF_CHECK_INPUT else _not_found("crc32_gzip_refl", "isal")


@functools.cache
def inflate_function() -> int:
    """`isal_inflate_stateless` of ISA-L: (inflate_state) to 0 for a whole deflate stream.

    Its first words are input and output (`kernels.gzip`); the rest, which it fills itself, has to fit into INFLATE_STATE_BYTES.
    """
    function, initialise = _find("isal.isal_zlib", "isal_inflate_stateless"), _find("isal.isal_zlib", "isal_inflate_init")
    if function is None or initialise is None or crc32_function() == NOT_FOUND:
        return _not_found("isal_inflate_stateless", "isal")
    state = (ctypes.c_uint64 * (INFLATE_STATE_BYTES // 8))()
    target = ctypes.create_string_buffer(len(CHECK_INPUT))
    initialise(state)
    source = ctypes.create_string_buffer(DEFLATED, len(DEFLATED))
    state[0], state[1] = ctypes.addressof(target), len(target)
    state[2], state[4] = ctypes.addressof(source), len(DEFLATED)
    is_right = (
        function(state) == 0 and target.raw == CHECK_INPUT and state[1] >> 32 == len(CHECK_INPUT) and not state[4] & ALL_ONES
    )
    return _address(function) if is_right else _not_found("isal_inflate_stateless", "isal")


def initialise_inflate(address: int) -> None:
    """Make INFLATE_STATE_BYTES at `address` an inflate_state for `inflate_function`."""
    initialise = _find("isal.isal_zlib", "isal_inflate_init")
    if initialise is not None:
        initialise(ctypes.c_void_p(address))


class ZstdContext:
    """The state that libzstd reuses for each frame; for one thread at a time. Freed with this object."""

    def __init__(self) -> None:
        library = self.library()
        self.address = int(library.ZSTD_createDCtx() or NOT_FOUND) if library is not None else NOT_FOUND

    @staticmethod
    @functools.cache
    def library() -> ctypes.CDLL | None:
        library = _library("zstandard._cffi")
        if library is None or not hasattr(library, "ZSTD_createDCtx") or not hasattr(library, "ZSTD_freeDCtx"):
            return None
        library.ZSTD_createDCtx.restype = ctypes.c_void_p
        library.ZSTD_freeDCtx.argtypes = [ctypes.c_void_p]
        return library

    def __del__(self) -> None:
        library = self.library()
        if library is not None and self.address:
            library.ZSTD_freeDCtx(self.address)


def _library(module: str) -> ctypes.CDLL | None:
    """The shared object of an extension module.

    It is looked up in its package's folder, not in sys.modules, where a module that another thread is importing may have no spec
    yet. Importing the package waits for that thread.
    """
    if IS_OFF:
        return None
    try:
        spec = PathFinder.find_spec(module, import_module(module.rpartition(".")[0]).__path__)
        return ctypes.CDLL(spec.origin) if spec is not None and spec.origin is not None else None
    except (ImportError, OSError):
        return None


def _find(module: str, name: str) -> ctypes._NamedFuncPointer | None:
    library = _library(module)
    return getattr(library, name, None) if library is not None else None


def _not_found(name: str, package: str) -> int:
    """`NOT_FOUND`, and a line in the log unless only bindings are to be used. Callers are cached, so it is logged once."""
    if not IS_OFF:
        LOGGER.warning("the package %s has no function %s that works here: its slower Python binding is used", package, name)
    return NOT_FOUND


def _address(function: ctypes._NamedFuncPointer) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or NOT_FOUND
