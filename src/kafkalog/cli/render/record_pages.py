"""Records one below the other, for people: a line with the place, then key, headers and value, indented if it is JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from kafkalog.tasks.cat.decoding import json_object_text

from .cells import EMPTY_TEXT, NULL_TEXT, TEXT_ENCODINGS, text_cells
from .escape import printable, printable_lines
from .layout import BOLD, DIM, style_of
from .pretty_json import NAME, Piece, painted, pretty_lines
from .target import Sink

INDENT = 2
ROWS_PER_WRITE = 100
# What `write` needs; headers only where they are shown, and key_json and value_json where something was decoded.
COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")


class RecordPageWriter:
    """Each record as a block of lines; wrapped and coloured on a terminal only."""

    def __init__(self, sink: Sink, encoding: str) -> None:
        self.sink = sink
        self.style = style_of(sink)
        self.wraps = sink.isatty()
        self.encoding = encoding
        self.encode = TEXT_ENCODINGS[encoding]

    def write(self, batch: pa.RecordBatch) -> None:
        for start in range(0, batch.num_rows, ROWS_PER_WRITE):
            part = batch.slice(start, ROWS_PER_WRITE)
            times = text_cells(part.column("timestamp"), self.encoding)
            blocks = ["\n".join(self._block(row, time)) for row, time in zip(part.to_pylist(), times, strict=True)]
            self.sink.write("".join(f"{block}\n\n" for block in blocks).encode())

    def flush(self) -> None:
        """Nothing is held."""

    def finish(self) -> None:
        """Nothing is held."""

    def _block(self, row: dict[str, Any], time: str) -> Iterator[str]:
        place = printable(f"{row['topic']}-{row['partition']}")
        yield from self._line([(f"{place} offset {row['offset']}", BOLD), (f"  {time}", DIM)], 0)
        yield from self._named("key", row["key"], row.get("key_json"))
        for header in row.get("headers") or ():
            yield from self._named(f"header {header['key']}", header["value"], None)
        yield from self._value(row["value"], row.get("value_json"))

    def _named(self, name: str, content: bytes | None, text: str | None) -> Iterator[str]:
        shown = printable(text) if text is not None else self._shown(content)
        yield from self._line([(printable(name), NAME), (" ", ""), (shown.replace("\n", "\\n"), "")], INDENT)

    def _value(self, content: bytes | None, text: str | None) -> Iterator[str]:
        if text is None and content is not None and self.encoding == "utf8":
            text = json_object_text(content)
        if text is not None:
            yield from pretty_lines(text, self.style, indent=INDENT, wraps=self.wraps)
            return
        for line in self._shown(content).split("\n"):
            yield from self._line([(line, DIM if content is None else "")], INDENT)

    def _shown(self, content: bytes | None) -> str:
        if content is None:
            return NULL_TEXT
        return printable_lines(self.encode(content)) or EMPTY_TEXT

    def _line(self, pieces: list[Piece], indent: int) -> Iterator[str]:
        room = max(self.style.width - indent, 1) if self.wraps else None
        return painted(pieces, self.style, " " * indent, room)
