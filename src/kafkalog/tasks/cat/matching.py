"""Records selected by their keys and values, a whole batch at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from kafkalog.errors import UsageError

PATTERNS = ("text", "hex", "regex")


@dataclass(frozen=True)
class Match:
    """Records whose key is `key` and whose value has `grep` in it; None asks for nothing.

    `pattern` says how both are written: as text (UTF-8), as hexadecimal digits, or as a regular expression (RE2, on bytes) that
    key and value have to contain.
    """

    key: str | None = None
    grep: str | None = None
    pattern: str = PATTERNS[0]

    def __post_init__(self) -> None:
        if self.pattern not in PATTERNS:
            raise UsageError(f"unknown pattern {self.pattern!r}; there are {', '.join(PATTERNS)}")
        for text in (self.key, self.grep):
            if text is not None:
                self._check(text)

    @property
    def is_needed(self) -> bool:
        return self.key is not None or self.grep is not None

    def only(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The records that match; a null matches nothing."""
        is_equal: Callable[[pa.Array, str], pa.Array] = self._contains if self.pattern == "regex" else self._equals
        if self.key is not None:
            batch = batch.filter(is_equal(batch.column("key"), self.key))
        if self.grep is not None:
            batch = batch.filter(self._contains(batch.column("value"), self.grep))
        return batch

    def _equals(self, column: pa.Array, text: str) -> pa.Array:
        import pyarrow.compute as pc  # slow to load, and most reads need none of it

        return pc.equal(column, pa.scalar(self._literal(text), pa.binary()))

    def _contains(self, column: pa.Array, text: str) -> pa.Array:
        import pyarrow.compute as pc

        if self.pattern == "regex":
            return pc.match_substring_regex(column, text)
        return pc.match_substring(column, self._literal(text))

    def _literal(self, text: str) -> bytes:
        return bytes.fromhex(text) if self.pattern == "hex" else text.encode("utf-8", "surrogateescape")

    def _check(self, text: str) -> None:
        try:
            self._contains(pa.array([b""]), text)
        except (ValueError, pa.ArrowInvalid) as error:
            kind = "hexadecimal" if self.pattern == "hex" else "a regular expression"
            raise UsageError(f"{text!r} is not {kind}: {error}") from None
