"""An explanation as text: positions and bytes on the left; names, values and notes on the right."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator

from kafkalog.format.batch import CODEC_NAMES
from kafkalog.tasks.explain import Explanation, Field, Part
from kafkalog.tasks.explain.cutter import MORE
from kafkalog.tasks.explain.tree import UNEXPLAINED

from .escape import printable
from .layout import BOLD, DIM, ELLIPSIS, RED, Style, shorten, width_of

BYTES_PER_LINE = 8
HEX_WIDTH = 3 * BYTES_PER_LINE - 1
HEX_LINES = 4
NAME_WIDTH = 24
TYPE_WIDTH = 7
INDENT = "  "
GUTTER = "│ "
NARROWEST = 70
WIDE = 100  # from this width on there is room for the types
LONGEST_VALUE = 200  # no more is decoded of a value that is not shown in full
SHOWN_AS_HEX = ("crc", "crc_or_leader_epoch", "attributes")
MARK = ">"

Line = tuple[str, str]  # text and the code of its colour


class ExplanationPage:
    """The lines of an explanation, for one output."""

    def __init__(self, explanation: Explanation, style: Style, *, full: bool) -> None:
        self.explanation = explanation
        self.style = style
        self.full = full
        self.width = max(style.width, NARROWEST)
        self.position_width = max(5, len(str(explanation.stop)))
        self.record = explanation.record

    def blocks(self) -> Iterator[str]:
        """The page, part by part."""
        explanation = self.explanation
        yield self.style.paint(printable(explanation.file), BOLD) + f": {explanation.kind}, {explanation.size} bytes\n"
        for part in explanation.parts:
            yield "\n" + "".join(line + "\n" for line in self._part(part, 0, 0))
        if explanation.offset is not None and self.record is None:
            yield self.style.paint(f"\n{self._no_record(explanation.offset)}\n", RED)
        if explanation.stop < explanation.size:
            rest = explanation.size - explanation.stop
            yield self.style.paint(f"\n{rest} more bytes: continue with --position {explanation.stop}\n", DIM)

    def _no_record(self, offset: int) -> str:
        """Why an entry whose range of offsets includes this one does not show it."""
        if any(part.children and part.children[-1].name == MORE for part in self.explanation.all_parts()):
            where = printable(shlex.quote(self.explanation.file))
            command = f"kafkalog cat {where} --start-offset {offset} --limit 1"
            return f"offset {offset}: not among the records that are shown; to see it: {command}"
        if self.explanation.problems:
            return f"offset {offset}: not among the records that can be read"
        return f"offset {offset}: no such record in this batch any more; compaction removes records and keeps the batch's offsets"

    def _part(self, part: Part, depth: int, level: int, *, asked: bool = False) -> Iterator[str]:
        """`depth` is how many parts it is in, `level` how often its bytes were decompressed; `asked`: of the record to mark."""
        gutter = GUTTER * level
        asked = asked or (self.record is not None and part is self.record)
        title = printable(f"{part.name}: {part.note}" if part.note else part.name)
        yield gutter + self._front(depth, marked=part is self.record) + self.style.paint(title, BOLD)
        for line, code in self._problem(part.problem, self.width - width_of(gutter + INDENT * depth)):
            yield gutter + INDENT * depth + self.style.paint(line, code)
        for child in part.children:
            if isinstance(child, Part):
                yield from self._part(child, depth + 1, level, asked=asked)
            else:
                yield from self._field(child, level, asked=asked)

    def _front(self, depth: int, *, marked: bool) -> str:
        return f"{MARK}{(INDENT * max(depth, 1))[len(MARK) :]}" if marked else INDENT * depth

    def _field(self, field: Field, level: int, *, asked: bool) -> Iterator[str]:
        left, right = self._hex_lines(field), list(self._facts(field, self._room(level)))
        for number in range(max(len(left), len(right))):
            mark = MARK if number == 0 and (asked or self._has_focus(field, level)) else " "
            front = f"{GUTTER * level}{mark}{left[number] if number < len(left) else ''}"
            text, code = right[number] if number < len(right) else ("", "")
            yield f"{front:<{self.width - self._room(level)}}{self.style.paint(text, code)}".rstrip()
        if field.content is not None:
            yield from self._part(field.content, 0, level + 1)

    def _room(self, level: int) -> int:
        """Columns on the right."""
        return self.width - len(GUTTER) * level - len(MARK) - self.position_width - 2 - HEX_WIDTH - 2

    def _has_focus(self, field: Field, level: int) -> bool:
        focus = self.explanation.focus
        return focus is not None and level == 0 and focus != self.explanation.start and field.position <= focus < field.stop

    def _hex_lines(self, field: Field) -> list[str]:
        shown = field.data if self.full else field.data[: HEX_LINES * BYTES_PER_LINE]
        lines = [shown[at : at + BYTES_PER_LINE].hex(" ") for at in range(0, len(shown), BYTES_PER_LINE)]
        if len(shown) < len(field.data):
            lines[-1] = f"{ELLIPSIS} {len(field.data) - (HEX_LINES - 1) * BYTES_PER_LINE} more bytes"
        return [f"{field.position if at == 0 else '':>{self.position_width}}  {line}" for at, line in enumerate(lines)]

    def _facts(self, field: Field, room: int) -> Iterator[Line]:
        """Name and value, with the note on the same line if it fits, else below."""
        name = f"{printable(field.name):<{NAME_WIDTH}}"
        if self.width >= WIDE:
            name += f"  {'' if field.type == UNEXPLAINED else field.type:<{TYPE_WIDTH}}"
        head = f"{name}  {self._value(field, room - width_of(name) - 2)}"
        note = printable(field.note)
        if width_of(head) + 2 + width_of(note) <= room:
            yield f"{head}  {self.style.paint(note, DIM)}", ""
        else:
            yield head, ""
            yield from ((line, DIM) for line in _wrapped(note, room, INDENT, INDENT))
        yield from self._problem(field.problem, room)

    def _problem(self, problem: str, room: int) -> Iterator[Line]:
        return ((line, RED) for line in _wrapped(printable(problem), room, "! ", INDENT))

    def _value(self, field: Field, room: int) -> str:
        if isinstance(field.value, bytes | str):
            return self._text(field.value, room)
        if field.value is None:
            kind = f"{field.type}, " if field.type in CODEC_NAMES else ""
            return f"({kind}{field.size} bytes)"
        if field.name in SHOWN_AS_HEX:
            return f"0x{field.value % (1 << 8 * field.size):0{2 * field.size}x}"
        unit = "byte" if field.unit == "bytes" and field.value == 1 else field.unit
        return f"{field.value} {unit}" if unit and field.value >= 0 else str(field.value)

    def _text(self, value: bytes | str, room: int) -> str:
        kept = value if self.full else value[:LONGEST_VALUE]
        text = kept.decode(errors="backslashreplace") if isinstance(kept, bytes) else kept
        shown = f'"{printable(text)}"'
        return shown if self.full or width_of(shown) <= room else shorten(shown, room)


def _wrapped(text: str, room: int, first: str, other: str) -> list[str]:
    return textwrap.wrap(text, room, initial_indent=first, subsequent_indent=other)
