"""The four codecs of Kafka behind one bounded `decompress` and one deterministic `compress`.

`decompress` writes into a buffer of the caller and never allocates by a number that the payload states. The library of a
codec is imported when that codec is first used. All of them release the GIL while they work.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from kafkalog.errors import CodecError, CodecMissing, OutputFull, UsageError
from kafkalog.format.codec_names import CODEC_NAMES as NAMES

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["GZIP", "LEVELS", "LZ4", "NAMES", "NONE", "SNAPPY", "ZSTD", "codec_id", "compress", "decompress", "decompressed"]

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

# What Kafka's compression.<codec>.level allows.
LEVELS = {GZIP: range(1, 10), LZ4: range(1, 18), ZSTD: range(-131_072, 23)}


class _Codec(Protocol):
    """The functions of each codec module."""

    def decompress(self, payload: Buffer, out: memoryview, magic: int) -> int: ...

    def compress(self, data: Buffer, level: int | None, magic: int) -> bytes: ...


_loaded: dict[int, _Codec] = {}


def codec_id(name: str) -> int:
    """The number that batch attributes use for a codec name."""
    if name not in NAMES:
        raise UsageError(f"unknown codec {name!r}; allowed are {', '.join(NAMES)}")
    return NAMES.index(name)


def decompress(codec: int, payload: Buffer, out: memoryview, *, magic: int = 2) -> int:
    """The number of bytes that the whole payload decompresses to, written to the start of `out`.

    `out` is a writable, contiguous view of bytes; its content after that many bytes is undefined, also after an error.
    Raises `CodecError` for bad bytes and `OutputFull` when the decompressed bytes do not fit into `out`.
    """
    module = _loaded.get(codec)
    if module is None:
        if codec == NONE:
            return _copy(payload, out)
        module = _load(codec)
    if codec == ZSTD and magic < 2:
        raise CodecError(f"zstd does not exist in messages of magic {magic}", "codec-unknown")
    return module.decompress(payload, out, magic)


def decompressed(codec: int, payload: Buffer, *, magic: int = 2, limit: int) -> bytes:
    """The whole payload, decompressed; OutputFull if that is more than `limit` bytes."""
    size = min(max(4 * len(memoryview(payload).cast("B")), 1 << 16), limit)
    while True:
        out = bytearray(size)
        try:
            return bytes(memoryview(out)[: decompress(codec, payload, memoryview(out), magic=magic)])
        except OutputFull:
            if size == limit:
                raise
        size = min(4 * size, limit)


def compress(codec: int, data: Buffer, *, level: int | None = None, magic: int = 2) -> bytes:
    """`data` compressed and framed as Kafka's own writers do: the same bytes for the same input, always.

    `level` None is Kafka's default; for lz4 a level selects the slow, denser compressor, for snappy there is none.
    """
    if codec not in range(len(NAMES)):
        raise UsageError(f"unknown codec {codec}; allowed are {NONE} to {ZSTD} ({', '.join(NAMES)})")
    if codec == ZSTD and magic < 2:
        raise UsageError(f"zstd does not exist in messages of magic {magic}; allowed are {', '.join(NAMES[:ZSTD])}")
    levels = LEVELS.get(codec, range(0))
    if level is not None and level not in levels:
        allowed = f"allowed are {levels[0]} to {levels[-1]}" if levels else "it has none"
        raise UsageError(f"{NAMES[codec]} has no level {level}; {allowed}")
    if codec == NONE:
        return bytes(data)
    return _load(codec).compress(data, level, magic)


def _copy(payload: Buffer, out: memoryview) -> int:
    source = memoryview(payload).cast("B")
    size = len(source)
    if size > len(out):
        raise OutputFull
    out[:size] = source
    return size


def _load(codec: int) -> _Codec:
    if codec not in range(GZIP, len(NAMES)):
        raise CodecError(f"there is no codec {codec}", "codec-unknown")
    name = NAMES[codec]
    try:
        module: _Codec = import_module(f"kafkalog.codecs.{name}")
    except ImportError as error:
        package = (error.name or name).partition(".")[0]
        raise CodecMissing(f"{name} needs a package that is not installed: pip install {package}") from error
    _loaded[codec] = module
    return module
