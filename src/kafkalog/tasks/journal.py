"""What salvaging a partition kept, left out, filled and lost: the result, and the journal that is made of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kafkalog.errors import path_text
from kafkalog.log.replicas import Lost
from kafkalog.log.report import ReadReport
from kafkalog.storage.unfinished import name_beside


@dataclass(frozen=True)
class Taken:
    """Entries that need a word: they came from another replica, or may have come out of a value."""

    file: str
    position: int
    length: int
    first_offset: int
    last_offset: int


@dataclass
class SalvageResult:
    """What became of one partition. `state` is "written", "already there" (the same, from an earlier run) or "not written"."""

    topic: str
    partition: int
    sources: list[str]
    folder: str
    state: str = "not written"
    segment_count: int = 0
    kept_batches: int = 0
    kept_records: int | None = 0  # without control records; None: compressed v0/v1 sets, which do not tell
    kept_bytes: int = 0
    first_offset: int | None = None
    end_offset: int = 0
    log_start_offset: int | None = None
    report: ReadReport = field(default_factory=ReadReport)
    filled: list[Taken] = field(default_factory=list)
    unverified: list[Taken] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}" if self.partition >= 0 else self.topic

    def events(self) -> Iterator[dict[str, Any]]:
        """The journal, line by line."""
        yield {"event": "salvage", "topic": self.topic, "partition": self.partition, "sources": self.sources}
        for dropped in self.report.dropped:
            yield {"event": "dropped", **asdict(dropped)}
        for tail in self.report.tails:
            yield {"event": "tail", **asdict(tail)}
        for message in self.report.unread:
            yield {"event": "unread", "message": message}
        for filled in self.filled:
            yield {"event": "filled", **asdict(filled)}
        for unverified in self.unverified:
            yield {"event": "unverified", **asdict(unverified)}
        for lost in self.lost:
            yield {"event": "lost", **asdict(lost)}
        kept = ("segment_count", "kept_batches", "kept_records", "kept_bytes", "first_offset", "end_offset", "log_start_offset")
        yield {"event": "kept", **{name: getattr(self, name) for name in kept}}


def note_taken(noted: list[Taken], added: Taken) -> None:
    """Add to the last one if it goes on from there."""
    last = noted[-1] if noted else None
    if last is not None and last.file == added.file and last.position + last.length == added.position:
        noted[-1] = replace(last, length=last.length + added.length, last_offset=added.last_offset)
    else:
        noted.append(added)


def journal_files(result: SalvageResult) -> dict[str, list[bytes]]:
    """The journals of a partition by their names: for programs, and for people."""
    lines = "".join(json.dumps(event) + "\n" for event in result.events())
    text = path_text("\n".join(describe(result)) + "\n")
    name = os.path.basename(result.folder)
    return {name_beside(name, ".salvage.jsonl"): [lines.encode()], name_beside(name, ".salvage.txt"): [text.encode()]}


def describe(result: SalvageResult) -> list[str]:
    """The result for people, most important first; every line but the first is indented."""
    records = "" if result.kept_records is None else f", {result.kept_records} records"
    offsets = "" if result.first_offset is None else f", offsets {result.first_offset} to {result.end_offset - 1}"
    lines = [
        f"{result.name}",
        f"  kept {result.kept_batches} batches{records}, {result.kept_bytes} bytes in {result.segment_count} segments{offsets}",
    ]
    for dropped in result.report.dropped:
        lines.append(f"  dropped {dropped.length} bytes: {dropped.message}")
    for tail in result.report.tails:
        lines.append(f"  tail of {tail.length} bytes left out (no damage: not yet written, or cut short): {tail.message}")
    lines += [f"  not read: {message}" for message in result.report.unread]
    for filled in result.filled:
        offsets = f"{filled.first_offset} to {filled.last_offset}"
        lines.append(f"  filled offsets {offsets} from byte {filled.position} of {filled.file}")
    for taken in result.unverified:
        offsets = f"{taken.first_offset} to {taken.last_offset}"
        lines.append(
            f"  kept unverified offsets {offsets} from byte {taken.position} of {taken.file}: they may be part of a value"
        )
    for lost in result.lost:
        last = "an unknown end" if lost.last_offset is None else lost.last_offset
        lines.append(f"  lost offsets {lost.first_offset} to {last}, at most")
    if result.log_start_offset is not None:
        lines.append(f"  kept also what lies below {result.log_start_offset}, where the log began: it had been deleted")
    return lines
