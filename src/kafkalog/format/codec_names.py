"""The codecs by their numbers in `attributes`. Without NumPy: `codecs` is imported where that would be too much."""

from __future__ import annotations

from typing import Final

CODEC_NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
