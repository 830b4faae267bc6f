"""Cuts bytes into fields, one after the other, so that no byte is left out and none is taken twice.

A cutter never goes back. What cannot be read raises CorruptBatch; the part that is being cut then ends with its remaining bytes
as one unexplained field that carries the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from kafkalog.errors import REASONS, CorruptBatch, SegmentError
from kafkalog.format.varint import decode_uvarint, decode_varint, decode_varlong

from .tree import UNEXPLAINED, Field, Part, Value

# What the number of a field counts, by its name.
UNITS = {
    **dict.fromkeys(("batch_length", "message_size", "size", "length", "key_length", "value_length"), "bytes"),
    **dict.fromkeys(("header_key_length", "header_value_length"), "bytes"),
    **dict.fromkeys(("base_timestamp", "max_timestamp", "timestamp", "timestamp_delta", "last_contained_log_timestamp"), "ms"),
}

# At most so many records and headers of an entry together: more would help nobody, and each takes kilobytes.
MOST_PARTS = 10_000
MORE = "more"

Notes = Mapping[str, Callable[[dict[str, int]], str]]


def fault(error: SegmentError) -> str:
    """What is wrong, without the place."""
    values = [f"{word} {value}" for word, value in (("expected", error.expected), ("found", error.found)) if value is not None]
    parts = [REASONS[error.reason].about, ", ".join(values), error.detail]
    return "; ".join(part for part in parts if part)


class Cutter:
    """Cuts `data[position:stop]`; `origin` is the position that the first byte of `data` has in its file or content."""

    def __init__(
        self, data: bytes, position: int = 0, stop: int | None = None, origin: int = 0, parts_left: list[int] | None = None
    ) -> None:
        self.data = data
        self.position = position
        self.stop = len(data) if stop is None else stop
        self.origin = origin
        self.shortage = "record-structure"  # the reason code for bytes that end inside a field
        self.children: list[Field | Part] = []
        self.part_note = ""
        self.part_problem = ""
        self.part_offset: int | None = None
        self.parts_left = [MOST_PARTS] if parts_left is None else parts_left  # shared with the parts of parts

    @property
    def is_full(self) -> bool:
        """Whether no more parts are wanted."""
        return self.parts_left[0] <= 0

    @property
    def left(self) -> int:
        return self.stop - self.position

    # Fields

    def take(self, name: str, size: int, kind: str, value: Value, **more: Any) -> None:
        """The next `size` bytes as a field with this value."""
        if size > self.left:
            raise CorruptBatch(self.shortage, expected=f"{size} bytes of {name}", found=f"{self.left} bytes")
        data = self.data[self.position : self.position + size]
        unit = more.pop("unit", UNITS.get(name, ""))
        self.children.append(Field(name, self.origin + self.position, data, kind, value, unit, **more))
        self.position += size

    def number(self, name: str, layout: np.dtype[Any]) -> int:
        """A number of fixed size."""
        size, signed = layout.itemsize, layout.kind == "i"
        value = int.from_bytes(self.data[self.position : min(self.position + size, self.stop)], "big", signed=signed)
        self.take(name, size, f"{'' if signed else 'u'}int{8 * size}", value)
        return value

    def layout(self, layout: np.dtype[Any], notes: Notes) -> dict[str, int]:
        """The numbers of a layout in turn; a note may use the numbers up to its own."""
        values: dict[str, int] = {}
        for name in layout.names or ():
            values[name] = self.number(name, layout[name])
            if name in notes:
                self.note(notes[name](values))
        return values

    def varint(self, name: str, *, long: bool = False) -> int:
        """A zig-zag number of variable length."""
        value, stop = (decode_varlong if long else decode_varint)(self.data, self.position, self.stop)
        size = stop - self.position
        self.take(name, size, "varlong" if long else "varint", value, note=_zigzag_note(value, size))
        return value

    def uvarint(self, name: str, note: str = "") -> int:
        value, stop = decode_uvarint(self.data, self.position, self.stop)
        self.take(name, stop - self.position, "uvarint", value, note=note)
        return value

    def content(self, name: str, size: int, kind: str = "bytes") -> bytes | None:
        """Bytes of a known size; null, and no field at all, if it is negative."""
        if size < 0:
            return None
        if size > self.left:
            raise CorruptBatch("record-structure", expected=f"at most {self.left} bytes of {name}", found=size)
        value = self.data[self.position : self.position + size]
        if size:
            self.take(name, size, kind, value)
        return value

    def rest(self, name: str, note: str = "", problem: str = "") -> None:
        """All bytes that are left, if any."""
        if self.left:
            self.take(name, self.left, UNEXPLAINED if name == UNEXPLAINED else "bytes", None, note=note, problem=problem)

    def note(self, text: str, problem: str = "") -> None:
        """Add a note to the last field."""
        last = self.children[-1]
        notes = "; ".join(filter(None, (last.note, text)))
        problems = "; ".join(filter(None, (last.problem, problem)))
        self.children[-1] = replace(last, note=notes, problem=problems)

    # Parts

    @contextmanager
    def part(self, name: str, stop: int | None = None) -> Iterator[Cutter]:
        """A part that reaches to `stop` (a position in `data`), or as far as its own `stop` is set inside.

        An error ends it: the remaining bytes are unexplained, and cutting continues after it.
        """
        inner = Cutter(self.data, self.position, self.stop if stop is None else stop, self.origin, self.parts_left)
        self.parts_left[0] -= 1
        try:
            yield inner
        except CorruptBatch as error:
            if inner.left:
                inner.rest(UNEXPLAINED, problem=fault(error))
            else:
                inner.part_problem = "; ".join(filter(None, (inner.part_problem, fault(error))))
        inner.rest(UNEXPLAINED, note="nothing says what these bytes are")
        start, self.position = self.position, inner.stop
        size = inner.stop - start
        children = tuple(inner.children)
        self.children.append(
            Part(name, self.origin + start, size, children, inner.part_note, inner.part_problem, inner.part_offset)
        )


def cut_whole(name: str, data: bytes, cut: Callable[[Cutter], None], origin: int = 0) -> Part:
    """One part of all of `data`."""
    outer = Cutter(data, origin=origin)
    with outer.part(name) as inner:
        cut(inner)
    (part,) = outer.children
    assert isinstance(part, Part)
    return part


def _zigzag_note(value: int, size: int) -> str:
    """How the number became these bytes."""
    stored = (value << 1) ^ (value >> 63)
    if size == 1:
        return f"zig-zag {stored}" if value else ""
    groups = [(stored >> 7 * place & 0x7F, 128**place) for place in range(size)]
    return f"zig-zag {stored} = " + " + ".join(f"{group} × {weight}" if weight > 1 else str(group) for group, weight in groups)
