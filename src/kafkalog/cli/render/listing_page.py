"""A listing as text: rows by topic or partition, totals, leftovers and problems."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from kafkalog.format.batch import MAX_MAGIC
from kafkalog.format.quantities import disk_text, moment_text, plural, size_text
from kafkalog.tasks.listing import Listing, PartitionListing, TopicListing
from kafkalog.tasks.partition_summary import FormatShare

from .escape import printable
from .layout import BOLD, RED, Style, grid, least_width

UNKNOWN = "-"
LIVE = "live"
# Columns that a narrow terminal may omit, the most telling first; leftovers are listed below the rows anyway.
OPTIONAL = (
    *("v0 size", "v1 size", "v2 size", "v0 records", "v1 records", "v2 records"),
    *("records", "state", "from", "to", "partitions", "formats", "segments", "codecs", "ratio", "on disk"),
    *("epoch", "batches", "left"),
)
NARROWEST_NAME = 20  # a longer name is shortened to this before a column is omitted
TEXT_COLUMNS = ("topic", "state", "formats", "codecs")
LINES_SHOWN = 20
WIDE = 130  # from here on times have hours and minutes

Row = TopicListing | PartitionListing


class ListingPage:
    """The lines of a listing, for one output; `left_out` are the columns that did not fit."""

    def __init__(self, listing: Listing, style: Style, *, by: str, deep: bool, formats: bool, fit: bool) -> None:
        self.listing = listing
        self.style = style
        self.rows: Sequence[Row] = listing.topics if by == "topic" else listing.partitions
        self.deep = deep
        self.formats = formats
        self.fit = fit
        self.left_out: list[str] = []
        self.time_format = "%Y-%m-%d %H:%M" if not fit or style.width >= WIDE else "%Y-%m-%d"

    def lines(self) -> Iterator[str]:
        yield from self._grid([self._cells(row) for row in self.rows])
        yield ""
        yield self._total()
        yield self._on_disk()
        if self.formats:
            yield self._verdict()
        yield from self._section("leftovers", self._leftovers())
        tails = [f"{_folder(found)}: {found.tail_bytes} bytes" for found in self.listing.partitions if found.tail_bytes]
        yield from self._section("incomplete entries at the end: still being written, or cut short", tails)
        problems = [problem for found in self.listing.partitions for problem in found.problems]
        yield from self._section("problems", problems, RED)
        copies = [
            f"{found.folder}; other copies: {', '.join(found.replicas)}" for found in self.listing.partitions if found.replicas
        ]
        yield from self._section("replicas: listed from the copy that a read takes", copies)
        yield from self._section("written by kafkalog", list(self.listing.own_names))
        yield from self._section("not Kafka's", list(self.listing.other_names))

    def _grid(self, cells: list[dict[str, str]]) -> list[str]:
        """The rows; on a terminal without the columns that do not fit."""
        columns = {head: [printable(row[head]) for row in cells] for head in cells[0]}
        heads = list(columns)
        if self.fit:
            omissible = [head for head in reversed(OPTIONAL) if head in columns]
            omissible.sort(key=lambda head: set(columns[head]) != {LIVE})  # a state that all have tells least
            while omissible and self._width(columns, heads) > self.style.width:
                heads.remove(omissible[0])
                self.left_out.append(omissible.pop(0))
        left = frozenset(at for at, head in enumerate(heads) if head in TEXT_COLUMNS)
        return grid(self.style, heads, _rows(columns, heads), left=left, flexible=0 if self.fit else None)

    def _width(self, columns: dict[str, list[str]], heads: Sequence[str]) -> int:
        return least_width(heads, _rows(columns, heads), flexible=0, narrowest=NARROWEST_NAME)

    def _cells(self, row: Row) -> dict[str, str]:
        """Heading and cell of each column."""
        return {**self._place(row), **(_format_cells(row.formats) if self.formats else self._facts(row))}

    def _place(self, row: Row) -> dict[str, str]:
        if isinstance(row, TopicListing):
            return {"topic": row.topic, "partitions": str(len(row.partitions))}
        return {"topic": row.topic, "partition": str(row.partition), "state": row.state or LIVE}

    def _facts(self, row: Row) -> dict[str, str]:
        if isinstance(row, TopicListing):
            offsets = {"offsets": str(row.offset_count)}
        else:
            offsets = {"start": _number(row.start_offset), "end": _number(row.end_offset)}
        counts = {"batches": _number(row.batch_count), "records": _number(row.record_count)} if self.deep else {}
        return {
            "segments": str(row.segment_count),
            "size": size_text(row.size),
            "on disk": size_text(row.disk_size),
            **offsets,
            **counts,
            "from": self._time(row.first_timestamp_ms),
            "to": self._time(row.last_timestamp_ms),
            "formats": ",".join(f"v{magic}" for magic in row.magics) or UNKNOWN,
            "codecs": ",".join(row.codecs) or UNKNOWN,
            "ratio": _ratio(row),
            "epoch": str(row.leader_epochs[-1]) if row.leader_epochs else UNKNOWN,
            "left": str(len(row.leftovers)),
            "problems": str(len(row.problems)),
        }

    def _time(self, milliseconds: int | None) -> str:
        return UNKNOWN if milliseconds is None else moment_text(milliseconds, self.time_format)

    def _total(self) -> str:
        live = [found for found in self.listing.partitions if not found.state]
        topics = len({found.topic for found in live})
        segments, size = sum(found.segment_count for found in live), sum(found.size for found in live)
        counted = (plural(topics, "topic"), plural(len(live), "partition"), plural(segments, "segment"))
        return self.style.paint(f"{', '.join(counted)}, {size_text(size)} of logs", BOLD)

    def _on_disk(self) -> str:
        on_disk = sum(found.disk_size for found in self.listing.partitions)
        apparent = sum(found.apparent_size for found in self.listing.partitions)
        return f"on the disk, with all files: {disk_text(on_disk, apparent)}"

    def _verdict(self) -> str:
        """How much is left to convert."""
        old = [topic for topic in self.listing.topics if topic.formats.keys() & {0, 1}]
        if not old:
            return "everything is v2: Kafka 4 writes and compacts it as it is"
        share = sum((topic.formats.get(magic, FormatShare()) for topic in old for magic in (0, 1)), FormatShare())
        records = "an unknown number of" if share.records is None else str(share.records)
        stored = f"{size_text(share.bytes)} in {records} records"
        return f"{plural(len(old), 'topic')} with v0 or v1: {stored}, which Kafka 4 reads but cannot write"

    def _leftovers(self) -> list[str]:
        folders = [f"{_folder(found)} ({size_text(found.size)})" for found in self.listing.partitions if found.state]
        return folders + [f"{_folder(found)}: {name}" for found in self.listing.partitions for name in found.leftovers]

    def _section(self, title: str, lines: Sequence[str], code: str = "") -> Iterator[str]:
        if not lines:
            return
        yield ""
        yield self.style.paint(title, BOLD)
        for line in lines[:LINES_SHOWN]:
            yield "  " + self.style.paint(printable(line), code)
        if len(lines) > LINES_SHOWN:
            yield f"  and {len(lines) - LINES_SHOWN} more (--json lists them)"


def _rows(columns: dict[str, list[str]], heads: Sequence[str]) -> list[tuple[str, ...]]:
    return [*zip(*(columns[head] for head in heads), strict=True)]


def _folder(found: PartitionListing) -> str:
    return os.path.basename(found.folder)


def _ratio(row: Row) -> str:
    """Uncompressed size over stored size; ~ marks an estimate."""
    if row.compression_ratio is None:
        return UNKNOWN
    return ("" if row.compression_ratio_exact else "~") + f"{row.compression_ratio:.1f}"


def _format_cells(formats: dict[int, FormatShare]) -> dict[str, str]:
    cells = {}
    for magic in range(MAX_MAGIC + 1):
        share = formats.get(magic)
        cells[f"v{magic} size"] = UNKNOWN if share is None else size_text(share.bytes)
        cells[f"v{magic} records"] = UNKNOWN if share is None else _number(share.records)
    return cells


def _number(number: int | None) -> str:
    return UNKNOWN if number is None else str(number)
