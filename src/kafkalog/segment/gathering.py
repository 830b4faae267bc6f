"""Rows that come in pieces, as batches whose bounds depend on the rows alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from kafkalog.format.batch import HEADER_SIZE, RECORDS_COUNT_POSITION

ENOUGH_ROWS = 1 << 16
ENOUGH_BYTES = 8 << 20

Encode = Callable[[pa.Table], Iterator[bytes]]


class Gatherer:
    """Holds rows back until there are many, and the last batch of them until it is known what follows it."""

    def __init__(self, encode: Encode) -> None:
        self.encode = encode
        self._held: list[pa.Table] = []
        self._rows = 0
        self._bytes = 0

    def add(self, table: pa.Table) -> Iterator[bytes]:
        """The batches that are complete now."""
        self._held.append(table)
        self._rows += table.num_rows
        self._bytes += table.nbytes
        if self._rows < ENOUGH_ROWS and self._bytes < ENOUGH_BYTES:
            return
        rows = pa.concat_tables(self._held)
        written = 0
        last: bytes | None = None
        for encoded in self.encode(rows):
            if last is not None:
                written += record_count(last)
                yield last
            last = encoded
        self._hold(rows.slice(written))

    def _hold(self, table: pa.Table) -> None:
        self._held = [table]
        self._rows = 0  # enough more have to come before it is worth another look
        self._bytes = 0

    def finish(self) -> Iterator[bytes]:
        """The batches of all that is left."""
        held, self._held = self._held, []
        self._rows = self._bytes = 0
        if held:
            yield from self.encode(pa.concat_tables(held))


def record_count(encoded: bytes) -> int:
    """How many records a v2 batch says it holds."""
    return int.from_bytes(encoded[RECORDS_COUNT_POSITION:HEADER_SIZE], "big")
