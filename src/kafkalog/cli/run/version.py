"""The work of `kafkalog --version --verbose`: the facts about an installation that a bug report needs."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from kafkalog.kernels import native

LIBRARIES = ("numpy", "numba", "pyarrow")
# The lookup of each C function in kernels/native.py, its name, and the package that contains it; a test compares them.
NATIVE_FUNCTIONS = (
    (native.crc32c_function, "crc32_iscsi", "isal"),
    (native.lz4_function, "LZ4_decompress_safe", "lz4"),
    (native.lz4_compress_function, "LZ4_compress_default", "lz4"),
    (native.xxh32_function, "XXH32", "lz4"),
    (native.zstd_function, "ZSTD_decompressDCtx", "zstandard"),
    (native.inflate_function, "isal_inflate_stateless", "isal"),
    (native.crc32_function, "crc32_gzip_refl", "isal"),
)
MISSING = "missing: the Python binding is used instead"


def version_lines() -> Iterator[str]:
    """Python, the libraries, and whether each C function was found."""
    yield f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    for name in LIBRARIES:
        yield f"{name} {_version_of(name)}"
    yield "C functions:" + (" switched off (KAFKALOG_NO_NATIVE or NUMBA_DISABLE_JIT)" if native.IS_OFF else "")
    for find, name, package in NATIVE_FUNCTIONS:
        is_found = find() != native.NOT_FOUND
        yield f"  {name:<24}{f'found in {package} {_version_of(package)}' if is_found else MISSING}"


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
