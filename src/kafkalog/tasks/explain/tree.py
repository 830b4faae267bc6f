"""An explanation: a tree of parts whose leaves are fields; each byte belongs to exactly one field.

A field that is compressed has `content`: a part of its own, whose positions count from the first decompressed byte. Within it the
same holds again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkalog.format.quantities import plural, repr_text

Value = int | str | bytes | None

UNEXPLAINED = "unexplained"
BYTES_SHOWN = 40  # of a value in a repr


@dataclass(frozen=True, slots=True, repr=False)
class Field:
    """Some bytes with one meaning. `note` says why they are what they are, `problem` what is wrong."""

    name: str
    position: int
    data: bytes
    type: str  # int8 to int64, uint16, uint32, varint, varlong, uvarint, bytes, text, a codec, or UNEXPLAINED
    value: Value = None
    unit: str = ""
    note: str = ""
    problem: str = ""
    content: Part | None = None

    def __repr__(self) -> str:
        shown = self.value[:BYTES_SHOWN] if isinstance(self.value, bytes | str) else self.value
        value = "" if shown is None else f"{self.type} {shown!r}{'…' if shown != self.value else ''}"
        return repr_text("Field", self.name, _span(self.position, self.stop), value or self.type, self.problem and "1 problem")

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def stop(self) -> int:
        return self.position + len(self.data)

    def as_dict(self) -> dict[str, Any]:
        """The field as plain values, for JSON; bytes that are not UTF-8 have only their hex."""
        return {
            "field": self.name,
            "position": self.position,
            "size": self.size,
            "hex": self.data.hex(),
            "type": self.type,
            "value": _plain(self.value),
            "unit": self.unit,
            "note": self.note,
            "problem": self.problem,
            **({"content": self.content.as_dict()} if self.content is not None else {}),
        }


@dataclass(frozen=True, slots=True, repr=False)
class Part:
    """Adjacent fields that belong together: a batch, a record, an entry of an index."""

    name: str
    position: int
    size: int
    children: tuple[Field | Part, ...]
    note: str = ""
    problem: str = ""
    offset: int | None = None  # of a record

    def __repr__(self) -> str:
        children = plural(len(self.children), "child", "children")
        return repr_text("Part", self.name, _span(self.position, self.stop), children, self.problem and "1 problem")

    @property
    def stop(self) -> int:
        return self.position + self.size

    def fields(self) -> Iterator[Field]:
        """Its fields in the order of their bytes, not those of decompressed content."""
        for child in self.children:
            if isinstance(child, Part):
                yield from child.fields()
            else:
                yield child

    def as_dict(self) -> dict[str, Any]:
        return {
            "part": self.name,
            "position": self.position,
            "size": self.size,
            **({"offset": self.offset} if self.offset is not None else {}),
            "note": self.note,
            "problem": self.problem,
            "children": [child.as_dict() for child in self.children],
        }


class Problem(NamedTuple):
    """What is wrong, at which byte, and the names of the parts around it."""

    position: int
    where: str
    text: str


@dataclass(frozen=True, repr=False)
class Explanation:
    """The bytes from `start` to before `stop` of a file, explained.

    `focus` is the byte that was asked for, `offset` the record; None where none was.
    """

    file: str
    kind: str  # log, index, timeindex, txnindex, snapshot, or the name of a named file
    size: int  # of the whole file
    start: int
    stop: int
    parts: tuple[Part, ...]
    focus: int | None = None
    offset: int | None = None

    def __repr__(self) -> str:
        bytes_text = f"{_span(self.start, self.stop)} of {self.size}"
        problems = plural(count, "problem") if (count := len(self.problems)) else ""
        return repr_text("Explanation", self.file, self.kind, bytes_text, plural(len(self.parts), "part"), problems)

    @property
    def problems(self) -> list[Problem]:
        """Everything that is wrong, in the order of the bytes."""
        return [found for part in self.parts for found in _problems(part, "", part.position, inside=False)]

    @property
    def record(self) -> Part | None:
        """The record that was asked for; None if none was, or its batch does not hold it (any more)."""
        if self.offset is None:
            return None
        return next((part for part in self.all_parts() if part.offset == self.offset), None)

    def all_parts(self) -> Iterator[Part]:
        """The parts and the parts in them, also those of decompressed content."""
        return _all_parts(self.parts)

    def as_dict(self) -> dict[str, Any]:
        """The explanation as plain values, for JSON."""
        return {
            "file": self.file,
            "kind": self.kind,
            "size": self.size,
            "start": self.start,
            "stop": self.stop,
            **({"offset": self.offset} if self.offset is not None else {}),
            "parts": [part.as_dict() for part in self.parts],
            "problems": [found._asdict() for found in self.problems],
        }


def _all_parts(found: Iterable[Field | Part]) -> Iterator[Part]:
    for each in found:
        if isinstance(each, Part):
            yield each
            yield from _all_parts(each.children)
        elif each.content is not None:
            yield from _all_parts([each.content])


def _span(start: int, stop: int) -> str:
    return f"bytes {start} to {stop - 1}" if stop > start else f"no bytes at {start}"


def _plain(value: Value) -> int | str | None:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _problems(found: Field | Part, path: str, position: int, *, inside: bool) -> Iterator[Problem]:
    """Inside decompressed content every problem is at the byte of the file where that content is stored."""
    place = position if inside else found.position
    where = f"{path} / {found.name}" if path else found.name
    if found.problem:
        yield Problem(place, where, found.problem)
    if isinstance(found, Part):
        for child in found.children:
            yield from _problems(child, where, place, inside=inside)
    elif found.content is not None:
        yield from _problems(found.content, where, place, inside=True)
