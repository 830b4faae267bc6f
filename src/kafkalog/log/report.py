"""What a read kept, and each byte range that it had to leave out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kafkalog.errors import SegmentError, StorageError, TornTail
from kafkalog.format.html_table import ROWS_SHOWN, Cell, html_table
from kafkalog.format.quantities import plural, size_text

MAX_REASONS_SHOWN = 5


@dataclass(frozen=True)
class Dropped:
    """A byte range that was left out, and why. Offsets are -1 where damage hides them."""

    file: str
    position: int
    length: int
    reason: str
    base_offset: int
    last_offset: int
    message: str

    @classmethod
    def of(cls, error: SegmentError) -> Dropped:
        return cls(error.file, error.position, error.length, error.reason, error.base_offset, error.last_offset, str(error))


def _offsets(found: Dropped) -> tuple[int | None, int | None]:
    first, last = (None if offset < 0 else offset for offset in (found.base_offset, found.last_offset))
    return first, last


@dataclass
class ReadReport:
    """Counts of one read, updated while its batches are consumed.

    `dropped` is damage. `tails` are incomplete entries at the ends of newest segments: a write in progress or cut short, or
    preallocated zeros; they are not damage. `unread` are files that could not be read.
    """

    kept_records: int = 0
    kept_batches: int = 0
    kept_bytes: int = 0
    dropped: list[Dropped] = field(default_factory=list)
    tails: list[Dropped] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)

    @property
    def dropped_bytes(self) -> int:
        return sum(dropped.length for dropped in self.dropped)

    @property
    def is_clean(self) -> bool:
        return not self.dropped and not self.unread

    @property
    def reasons(self) -> dict[str, int]:
        """How often each reason code occurs."""
        counts: dict[str, int] = {}
        for dropped in self.dropped:
            counts[dropped.reason] = counts.get(dropped.reason, 0) + 1
        return counts

    def count(self, records: int, batches: int, size: int) -> None:
        """Add what was kept."""
        self.kept_records += records
        self.kept_batches += batches
        self.kept_bytes += size

    def drop(self, error: SegmentError) -> None:
        self.dropped.append(Dropped.of(error))

    def end_at_tail(self, error: TornTail) -> None:
        self.tails.append(Dropped.of(error))

    def leave_unread(self, error: StorageError) -> None:
        self.unread.append(str(error))

    def note(self, code: str, count: int = 1) -> None:
        if count:
            self.notes[code] = self.notes.get(code, 0) + count

    def add(self, later: ReadReport) -> None:
        """Add a later read of the same files; its tails replace these."""
        self.kept_records += later.kept_records
        self.kept_batches += later.kept_batches
        self.kept_bytes += later.kept_bytes
        self.dropped += later.dropped
        self.tails = later.tails
        self.unread += later.unread
        for code, count in later.notes.items():
            self.note(code, count)

    def __repr__(self) -> str:
        parts = [plural(self.kept_records, "record"), plural(self.kept_batches, "batch", "batches"), size_text(self.kept_bytes)]
        if self.dropped:
            reasons = [f"{reason} {count}" for reason, count in self.reasons.items()]
            more = ", …" if len(reasons) > MAX_REASONS_SHOWN else ""
            dropped = f"dropped {plural(len(self.dropped), 'range')} of {size_text(self.dropped_bytes)}"
            parts.append(f"{dropped} ({', '.join(reasons[:MAX_REASONS_SHOWN])}{more})")
        parts += [plural(len(self.tails), "tail")] if self.tails else []
        parts += [plural(len(self.unread), "unread file")] if self.unread else []
        return f"ReadReport({', '.join(parts)}{', clean' if self.is_clean else ''})"

    def _repr_html_(self) -> str:
        rows: list[tuple[Cell, ...]] = [
            (kind, each.reason, each.file, each.position, each.length, *_offsets(each))
            for kind, several in (("dropped", self.dropped), ("tail", self.tails))
            for each in several[: ROWS_SHOWN + 1]
        ]
        rows += [("unread", None, text, None, None, None, None) for text in self.unread[: ROWS_SHOWN + 1]]
        known = len(self.dropped) + len(self.tails) + len(self.unread)
        heads = ("what", "reason", "file", "position", "bytes", "first offset", "last offset")
        return html_table(repr(self), heads, rows, more=known - len(rows))

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return {
            "kept": {"records": self.kept_records, "batches": self.kept_batches, "bytes": self.kept_bytes},
            "dropped": [vars(dropped) for dropped in self.dropped],
            "tails": [vars(tail) for tail in self.tails],
            "unread": self.unread,
            "notes": self.notes,
        }
