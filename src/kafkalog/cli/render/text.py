"""Rows as aligned text, written as they come: widths follow the rows seen so far and only ever grow.

In a pipe values are never shortened and nothing is coloured. On a terminal rows fit its width: wide values are shortened, and
columns for which there is still no room are left out and named at the end.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import pyarrow as pa
from rich.console import Console

from .cells import Cells, is_flexible, text_cells
from .escape import printable
from .layout import GAP, NARROWEST_TEXT, shorten, width_of
from .target import Sink

ROWS_PER_LAYOUT = 1000
# In a pipe a longer value pushes the rest of its row to the right instead of padding every other row.
WIDEST_PADDING = 200
NARROWEST_FILE = 28


class TextWriter:
    """Text columns, right-aligned where they are numbers; without room for all, `least` are left out first, in this order."""

    def __init__(self, sink: Sink, schema: pa.Schema, encoding: str, *, least: Sequence[str] = ()) -> None:
        self.sink = sink
        self.schema = schema
        self.encoding = encoding
        self.names = [printable(name) for name in schema.names]
        self.numeric = [pa.types.is_integer(field.type) for field in schema]
        self.terminal = Console(highlight=False, markup=False) if sink.isatty() else None
        self.room = self.terminal.width if self.terminal else 0
        self.columns: list[Cells] = [[] for _ in schema]
        self.natural = [len(name) for name in self.names]
        self.widths: list[int] = []
        self.shown = list(range(len(schema)))
        self.left_out: list[str] = []
        self.least = least

    def write(self, batch: pa.RecordBatch) -> None:
        longest = 4 * self.room if self.terminal else None
        for start in range(0, batch.num_rows, ROWS_PER_LAYOUT):
            part = batch.slice(start, ROWS_PER_LAYOUT)
            for cells, column in zip(self.columns, part.columns, strict=True):
                cells += text_cells(column, self.encoding, longest)
            if self.columns and len(self.columns[0]) >= ROWS_PER_LAYOUT:
                self._write_held()

    def flush(self) -> None:
        self._write_held()

    def finish(self) -> None:
        self._write_held()

    def _write_held(self) -> None:
        first = not self.widths
        self._lay_out(first)
        lines = [self._line(self.names, heading=True)] if first else []
        lines += [self._line(row) for row in zip(*self.columns, strict=True)]
        self.sink.write("".join(lines).encode())
        for cells in self.columns:
            cells.clear()

    def _lay_out(self, first: bool) -> None:
        """Widths for the rows that are held; the first rows decide which columns are shown."""
        for at, cells in enumerate(self.columns):
            widest = max(map(width_of, cells), default=0)
            self.natural[at] = max(self.natural[at], widest if self.terminal else min(widest, WIDEST_PADDING))
        self.widths = list(self.natural)
        if self.terminal is None:
            return
        while first and len(self.shown) > 1 and self._total([self._narrowest(at) for at in self.shown]) > self.room:
            self._leave_one_out()
        self._shrink()

    def _leave_one_out(self) -> None:
        names = [self.names[at] for at in self.shown]
        name = next((name for name in self.least if name in names), names[-1])
        self.left_out.append(self.names[self.shown.pop(names.index(name))])
        self.left_out.sort(key=self.names.index)

    def _total(self, widths: list[int]) -> int:
        return sum(widths) + len(GAP) * (len(widths) - 1)

    def _narrowest(self, at: int) -> int:
        """How narrow a column may become; numbers, times and truth values are never shortened."""
        if not is_flexible(self.schema.field(at).type):
            return self.natural[at]
        return min(self.natural[at], max(NARROWEST_FILE if self.names[at] == "file" else NARROWEST_TEXT, len(self.names[at])))

    def _shrink(self) -> None:
        """Narrow the widest columns that may become narrower until the row fits."""
        while self._total([self.widths[at] for at in self.shown]) > self.room:
            narrowable = [at for at in self.shown if self.widths[at] > self._narrowest(at)]
            if not narrowable:
                return
            self.widths[max(narrowable, key=lambda at: self.widths[at])] -= 1

    def _line(self, row: tuple[str, ...] | list[str], *, heading: bool = False) -> str:
        last = self.shown[-1] if self.shown else -1
        cells = [self._fitted(row[at], at, at == last) for at in self.shown]
        line = GAP.join(cells).rstrip(" ")
        if heading and self.terminal is not None and self.terminal.color_system and not os.environ.get("NO_COLOR"):
            return f"\x1b[1m{line}\x1b[0m\n"
        return line + "\n"

    def _fitted(self, cell: str, at: int, last: bool) -> str:
        width = self.widths[at]
        if self.terminal is not None and width_of(cell) > width:
            return shorten(cell, width, keep_end=self.names[at] == "file")
        padding = " " * (width - width_of(cell))
        if self.numeric[at]:
            return padding + cell
        return cell if last else cell + padding
