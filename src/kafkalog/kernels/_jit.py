"""The fence around Numba: the only module that imports it.

`@kernel` compiles a function without the GIL and keeps the machine code in a folder of our own (`cache`). Four silent failures of
Numba shape this file: an import that fails where nothing is writable, a cache that misses edits in other files, a bounds-check
switch that a warm cache ignores, and `uint8` arithmetic that wraps when the JIT is off (kernels widen each byte on load).
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, ClassVar, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba.core import caching, cgutils, event, types
from numba.core.ccallback import CFunc
from numba.extending import intrinsic
from numba.np import arrayobj

from .cache import BOUNDS_CHECK, announce, cache_folder, sources_name, used, wait_for_turn

Function = TypeVar("Function", bound=Callable[..., Any])

# Numba's own annotations say half of what is there.
_numba: Any = numba
_caching: Any = caching
_event: Any = event
_arrayobj: Any = arrayobj
_pointer_to: Any = types.CPointer
_settings: Any = numba.config
JIT_OFF = bool(_settings.DISABLE_JIT)


class _Compilations(_event.Listener):  # type: ignore[misc]
    """Announces that this process compiles kernels, and stops the garbage collector meanwhile, which takes a sixth of the time.

    Numba calls it with its lock held, also for each function that a function calls, and for what is not ours.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.collects = False

    def on_start(self, event: Any) -> None:
        self.depth += 1
        if self.depth == 1 and event.data["dispatcher"].py_func.__module__.startswith("kafkalog."):
            announce()
            self.collects = gc.isenabled()
            gc.disable()

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if self.depth == 0 and self.collects:
            gc.enable()
            self.collects = False


_event.register("numba:compile", _Compilations())


class _Locator(_caching._CacheLocator):  # type: ignore[misc]
    """Our folder, whose name stands for all sources."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._py_file = file
        self._line = function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _Locator:
        return cls(py_func, py_file)

    def get_cache_path(self) -> str:
        return str(cache_folder())

    def get_source_stamp(self) -> str:
        return sources_name()

    def get_disambiguator(self) -> str:
        return str(self._line)


class _KernelFiles(_caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes: ClassVar = [_Locator]


class _KernelCache(_caching.FunctionCache):  # type: ignore[misc]
    """The machine code of a kernel. One process compiles it, the others of this machine wait and load it."""

    _impl_class = _KernelFiles
    _lock: IO[bytes] | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        used.add(self._impl.filename_base)
        found = super().load_overload(sig, target_context)
        if found is None and self._lock is None:
            self._lock = wait_for_turn(Path(self.cache_path), self._impl.filename_base)
            found = super().load_overload(sig, target_context)
            if found is not None:
                self._let_go()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def kernel(function: Function) -> Function:
    """`function` compiled on first call; with the JIT switched off, the function itself."""
    return _cached(function, nogil=True)


def brief_kernel(function: Function) -> Function:
    """As `kernel`, for one that is done before another thread could take the GIL and give it back."""
    return _cached(function, nogil=False)


def _cached(function: Function, *, nogil: bool) -> Function:
    compiled: Any = _compiled(function, nogil=nogil)
    if not JIT_OFF and cache_folder() is not None:
        compiled._cache = _KernelCache(function)
    return compiled  # type: ignore[no-any-return]


def inline(function: Function) -> Function:
    """A helper that only kernels call, inlined into each of them."""
    return _without_wrapper(function, forceinline=True)


def outline(function: Function) -> Function:
    """A helper that only kernels call, and seldom, so that it stays out of their loops."""
    return _without_wrapper(function)


def wrapping(function: Function) -> Function:
    """A kernel whose unsigned sums overflow on purpose: compiled they wrap; with the JIT off NumPy would warn."""
    return np.errstate(over="ignore")(function) if JIT_OFF else function


def _without_wrapper(function: Function, **options: bool) -> Function:
    """Compiled without what Python needs to call it, an eighth of the time. Numba would jump to address 0: this refuses."""
    compiled: Any = _compiled(function, no_cpython_wrapper=True, **options)
    if not JIT_OFF:

        def keep(result: Any) -> None:
            compiled.overloads[tuple(result.signature.args)] = result

        def refuse(*_arguments: Any) -> None:
            raise TypeError(f"{function.__qualname__} is a helper that only kernels can call")

        compiled.add_overload, compiled._compile_for_args = keep, refuse
    return compiled  # type: ignore[no-any-return]


def _compiled(function: Function, **options: bool) -> Function:
    return _numba.njit(no_cfunc_wrapper=True, **_OPTIONS, **options)(function)  # type: ignore[no-any-return]


# Without its runtime Numba neither allocates nor counts references to arrays; a loop that passes arrays to helpers spent most of
# its time counting. A kernel that would allocate does not compile.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "boundscheck": BOUNDS_CHECK or None, "_nrt": False}


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


def _type_load(typing: Any, address: Any) -> Any:
    """Eight bytes at an address as a little-endian number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = context.get_value_type(types.uint64)
        return builder.load(builder.inttoptr(arguments[0], word.as_pointer()), align=1)

    return types.uint64(types.uintp), generate


_load: Any = intrinsic(_type_load)


def _find_address(data: Any) -> Any:
    return np.uintp(data.ctypes.data)


def _load_word_by_address(source: Any, at: Any) -> Any:
    return _load(source + np.uintp(at))


def _find_array(data: Any) -> Any:
    return data


def _load_word_by_index(source: Any, at: Any) -> Any:
    word = np.uint64(0)
    for index in range(8):
        word |= np.uint64(source[at + np.uint64(index)]) << np.uint64(8 * index)
    return word


# load_word(source_of(data), at) is data[at : at + 8] as a little-endian number, which the caller knows to be there. The source is
# taken before a loop: a function that gets the array itself may count references to it, which costs as much as decoding a record.
source_of = inline(_find_array if JIT_OFF or BOUNDS_CHECK else _find_address)
load_word = inline(_load_word_by_index if JIT_OFF or BOUNDS_CHECK else _load_word_by_address)


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


# Tools, data and its size, start and stop of the payload, magic, arena and its size; to the bytes written.
_CODEC_TYPES: Any = (
    types.int64,
    (
        _pointer_to(types.int64),
        _pointer_to(types.uint8),
        *[types.int64] * 4,
        _pointer_to(types.uint8),
        types.int64,
    ),
)


def _type_codec(
    typing: Any, function: Any, tools: Any, data: Any, size: Any, start: Any, stop: Any, magic: Any, arena: Any, room: Any
) -> Any:
    result, (_, _, *numbers, _, _) = _CODEC_TYPES
    return result(types.uintp, types.uintp, types.uintp, *numbers, types.uintp, types.int64), _generate_call


array_at: Any = _arrayobj.get_cfarray_intrinsic("C", None)  # (pointer, shape); `numba.carray`, its wrapper, needs the runtime


def codec_address(function: Callable[..., Any]) -> int:
    """Compile a function that `call_codec` can call; its address."""
    result, arguments = _CODEC_TYPES
    compiled: Any = CFunc(function, (arguments, result), {}, dict(_OPTIONS))
    if cache_folder() is not None:
        compiled._cache = _KernelCache(function)
    compiled.compile()
    _codecs.append(compiled)
    return int(compiled.address)


_codecs: list[Any] = []  # an address is valid as long as its function is

# C functions that kernels call by an address found at run time (`native`), which is the first argument; the others as in C.
call_crc32c: Any = intrinsic(_type_crc)  # crc32_iscsi(data, size, state)
call_lz4: Any = intrinsic(_type_lz4)  # LZ4_decompress_safe, LZ4_compress_default(source, target, size, room)
call_zstd: Any = intrinsic(_type_zstd)  # ZSTD_decompressDCtx(context, target, room, source, size)
call_xxh32: Any = intrinsic(_type_xxh32)  # XXH32(data, size, seed)
call_crc32: Any = intrinsic(_type_crc32)  # crc32_gzip_refl(state, data, size)
call_inflate: Any = intrinsic(_type_inflate)  # isal_inflate_stateless(state)
call_codec: Any = intrinsic(_type_codec)  # a function of ours (`codec_address`)
