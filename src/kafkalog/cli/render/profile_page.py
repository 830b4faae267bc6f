"""A profile as text: what could be saved, then the largest of each kind with bars."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence

from kafkalog.format.quantities import disk_text, moment_text, plural, size_text
from kafkalog.tasks.profile.result import Compaction, Count, Distribution, Estimate, Item, PinnedSegment, Profile, Ranking

from .cells import EMPTY_TEXT, TEXT_ENCODINGS
from .escape import printable
from .layout import BOLD, ELLIPSIS, Style, grid, least_width

EIGHTHS = " ▏▎▍▌▋▊▉"
NARROW_BAR, WIDE_BAR = 12, 24
WIDE = 110
INDENT = "  "
FEWEST_COLUMNS = 4
MINUTE = "%Y-%m-%d %H:%M"
# Units that clients mistake for milliseconds, with how many of them make one.
OTHER_UNITS = (("microseconds", 1000), ("nanoseconds", 1_000_000))
TEN_YEARS_MS = 10 * 365 * 86_400_000

Row = dict[str, str]


class ProfilePage:
    """The lines of one profile, for an output of this style."""

    def __init__(self, found: Profile, style: Style, top: int) -> None:
        self.found = found
        self.style = style
        self.top = self.pinned_shown = top
        self.bar_width = WIDE_BAR if style.width >= WIDE else NARROW_BAR

    def lines(self) -> Iterator[str]:
        found, total = self.found, self.found.total
        yield self.style.paint(printable(found.path), BOLD)
        yield from self._wrapped(self._summary())
        if not total.batches:
            return
        yield from self._section("what could go", self._wrapped(self._savings()))
        yield from self._counts("by topic", "topic", found.topics)
        names = {f"{topic}-{number}": count for (topic, number), count in found.partitions.items()}
        if len(names) > 1:
            yield from self._counts("by partition", "partition", names)
        yield from self._counts("by codec", "codec", found.codecs)
        yield from self._ranking("by hour (UTC)", "hour", found.hours, hour_text, in_order=True)
        yield from self._ranking("by producer", "producer", found.producers, self._producer)
        if not found.quick:
            yield from self._ranking("by key", "key", found.keys, key_text)
            yield from self._ranking("by key prefix", "prefix", found.key_prefixes, key_text)
            yield from self._ranking("by header name", "header", found.headers, key_text)
        yield from self._distribution("records per batch", found.batch_records, str)
        yield from self._distribution("bytes per batch", found.batch_bytes, size_text)

    def _section(self, title: str, lines: Iterable[str]) -> Iterator[str]:
        shown = list(lines)
        if shown:
            yield ""
            yield self.style.paint(title, BOLD)
            yield from shown

    def _wrapped(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            indent = line[: len(line) - len(line.lstrip())]
            yield from textwrap.wrap(line, self.style.width, subsequent_indent=indent + INDENT, break_on_hyphens=False)

    # -- the facts in words --------------------------------------------------------------------------------------------------

    def _summary(self) -> Iterator[str]:
        total, disk = self.found.total, self.found.disk
        sets = f" and those of {plural(total.uncounted_sets, 'v0/v1 set')}" if total.uncounted_sets else ""
        ratio = "" if total.ratio is None else f", compression ratio {total.ratio:.2f}"
        counted = f"{plural(total.records, 'record')}{sets} in {plural(total.batches, 'batch', 'batches')}"
        yield f"{size_text(total.bytes)}: {counted}, {plural(len(self.found.partitions), 'partition')}{ratio}"
        parts = [
            (disk.log_disk_bytes, disk.log_bytes, "logs"),
            (disk.index_disk_bytes, disk.index_bytes, "indexes"),
            (disk.other_disk_bytes, disk.other_bytes, "other files"),
        ]
        files = ", ".join(f"{disk_text(on_disk, size)} of {name}" for on_disk, size, name in parts if size)
        yield f"on the disk: {files or 'nothing'}"

    def _savings(self) -> Iterator[str]:
        found = self.found
        if found.compaction is not None:
            yield from self._compaction(found.compaction)
        if found.zstd.of_bytes:
            yield f"  zstd: {self._zstd()}"
        elif not found.codecs.keys() - {"zstd"}:
            yield "  zstd: everything is already compressed with it"
        if found.disk.leftover_bytes:
            size = disk_text(found.disk.leftover_disk_bytes, found.disk.leftover_bytes)
            yield f"  leftovers: {size} in files and folders that a broker left over (kafkalog ls lists them)"
        if found.pinned:
            yield from self._pinned(found.pinned)

    def _compaction(self, compaction: Compaction) -> Iterator[str]:
        if compaction.keyed_records:
            records, keys = compaction.duplicates, compaction.keys
            size = self._saved(compaction.duplicate_bytes)
            yield f"  duplicates: {size} in {_about(records)} records, which later ones of {_about(keys)} keys replace"
        if compaction.tombstones.value:
            size, records = self._saved(compaction.tombstone_bytes), compaction.tombstones
            yield f"  tombstones: {size} in {_about(records)} records, the last of their keys"
        if compaction.aborted_records:
            size = self._share(compaction.aborted_bytes)
            yield f"  aborted: {size} in {compaction.aborted_records} records of aborted transactions"
        if compaction.unkeyed_records:
            share = self._share(compaction.unkeyed_bytes)
            yield f"  without a key: {share} in {compaction.unkeyed_records} records, which compaction deletes"

    def _zstd(self) -> str:
        zstd = self.found.zstd
        batches = plural(zstd.batches, "batch", "batches")
        if zstd.bytes is None:
            return f"not known for {size_text(zstd.of_bytes)}: only {batches} of these could be recompressed"
        how = f"{batches} recompressed" if zstd.bytes.is_exact else f"estimated from {batches}"
        if zstd.bytes.value <= 0:
            return f"would save nothing of {size_text(zstd.of_bytes)}, {how}"
        return f"would save {self._saved(zstd.bytes)}, {how}"

    def _pinned(self, pinned: Sequence[PinnedSegment]) -> Iterator[str]:
        size = size_text(self.found.pinned_bytes)
        yield f"  timestamps in the future: {plural(len(pinned), 'segment')}, which with all segments after them hold {size}"
        for each in pinned[: self.pinned_shown]:
            name = f"{each.topic}-{each.partition}/{os.path.basename(each.file)}"
            what = plural(each.records, "batch", "batches") if self.found.quick else plural(each.records, "record")
            until = f"kept until {moment_text(each.held_until_ms, MINUTE)}"
            largest = f"up to {moment_text(each.largest_timestamp_ms, MINUTE)}"
            yield printable(f"    {name}: {what} {largest}{self._unit(each.largest_timestamp_ms)}, {until}")
        if len(pinned) > self.pinned_shown > 0:
            yield f"    and {len(pinned) - self.pinned_shown} more (--json lists them)"

    def _unit(self, timestamp_ms: int) -> str:
        """The unit that a timestamp was most likely written in: one in which it would be recent."""
        for name, factor in OTHER_UNITS:
            if 0 <= self.found.now_ms - timestamp_ms // factor < TEN_YEARS_MS:
                return f" ({name} taken for milliseconds?)"
        return ""

    def _saved(self, size: Estimate) -> str:
        """Bytes with their share of all, and their error."""
        error = max(size.high - size.value, size.value - size.low)
        return self._share(size.value) + ("" if size.is_exact else f" ± {size_text(error)}")

    def _share(self, size: int) -> str:
        return f"{size_text(size)} ({self._percent(size)})"

    def _percent(self, size: int) -> str:
        return f"{100 * size / max(self.found.total.bytes, 1):.1f} %"

    # -- the largest of each kind --------------------------------------------------------------------------------------------

    def _counts(self, title: str, head: str, counts: dict[str, Count], note: str = "") -> Iterator[str]:
        shown = list(counts.items())[: self.top]
        bars = self._bars([count.bytes for _, count in shown])
        rows = [self._row(head, name, count, bar) for (name, count), bar in zip(shown, bars, strict=True)]
        title = _limited(title, len(shown), len(counts)) + note
        yield from self._section(title, self._grid(rows, head))

    def _row(self, head: str, name: str, count: Count, bar: str) -> Row:
        row = {
            head: printable(name),
            "size": size_text(count.bytes),
            "share": self._percent(count.bytes),
            "": bar,
            "records": str(count.records) + "+" * bool(count.uncounted_sets),
        }
        if count.ratio is not None:
            row["ratio"] = f"{count.ratio:.2f}"
        savings = self._topic_savings(name) if head == "topic" else {}
        return {**row, **savings, "a batch": f"{count.records / max(count.batches, 1):.1f}"}

    def _topic_savings(self, topic: str) -> Row:
        """What a topic could save, as a share of its size."""
        size = max(self.found.topics[topic].bytes, 1)
        compaction, zstd = self.found.compaction_by_topic.get(topic), self.found.zstd_by_topic.get(topic)
        saved = None if zstd is None or zstd.bytes is None else zstd.bytes.value
        row = {} if compaction is None else {"duplicates": f"{100 * compaction.duplicate_bytes.value / size:.0f} %"}
        return {**row, "zstd": "-" if saved is None else f"{-100 * saved / size:+.0f} %"}

    def _ranking(
        self, title: str, head: str, ranking: Ranking, name_of: Callable[[Item], str], *, in_order: bool = False
    ) -> Iterator[str]:
        items = ranking.items
        if in_order:
            items = tuple(sorted(items, key=lambda item: item.name if isinstance(item.name, int) else -1))
        bars = self._bars([item.bytes for item in items])
        rows = [
            {
                **({"topic": printable(item.topic)} if item.topic is not None and len(self.found.topics) > 1 else {}),
                head: name_of(item),
                "size": size_text(item.bytes),
                "share": self._percent(item.bytes),
                "": bar,
                "records": str(item.records),
            }
            for item, bar in zip(items, bars, strict=True)
        ]
        title = _limited(title, len(items), ranking.distinct)
        if not ranking.is_exact:
            title += f"; any of them may have {size_text(ranking.error_bytes)} more"
        yield from self._section(title, self._grid(rows, head))

    def _producer(self, item: Item) -> str:
        if not isinstance(item.name, int):
            return "(none)"
        name = self.found.transactional_ids.get(item.name)
        return str(item.name) if name is None else printable(f"{item.name} ({name})")

    def _distribution(self, title: str, found: Distribution, text: Callable[[float], str]) -> Iterator[str]:
        bars = self._bars([bucket.batches for bucket in found.buckets])
        rows = [
            {
                "from": text(bucket.first),
                "to": text(bucket.last),
                "batches": str(bucket.batches),
                "": bar,
                "size": size_text(bucket.bytes),
                "share": self._percent(bucket.bytes),
            }
            for bucket, bar in zip(found.buckets, bars, strict=True)
        ]
        facts = f": {text(round(found.mean, 1))} on average, {text(found.smallest)} to {text(found.largest)}"
        yield from self._section(title + facts, self._grid(rows, ""))

    def _bars(self, sizes: Sequence[int]) -> list[str]:
        """A bar for each; the largest has the full width."""
        largest = max([*sizes, 1])
        eighths = [round(8 * self.bar_width * max(size, 0) / largest) for size in sizes]
        return ["█" * (count // 8) + EIGHTHS[count % 8].strip() for count in eighths]

    def _grid(self, rows: list[Row], flexible: str) -> Iterator[str]:
        """The rows, without the last columns if these do not fit."""
        if not rows:
            return
        heads = list(rows[0])
        cells = [list(row.values()) for row in rows]
        narrower = Style(self.style.width - len(INDENT), self.style.coloured)
        at = heads.index(flexible)
        while len(heads) > FEWEST_COLUMNS and least_width(heads, cells, flexible=at) > narrower.width:
            heads, cells = heads[:-1], [row[:-1] for row in cells]
        left = frozenset(number for number, head in enumerate(heads) if head in ("topic", flexible, ""))
        for line in grid(narrower, heads, cells, left=left, flexible=at):
            yield INDENT + line


def _limited(title: str, shown: int, distinct: int | None) -> str:
    """The title, with how many there are where not all are shown."""
    if distinct is None:
        return f"{title}: the first {shown} of very many"
    return title if shown == distinct else f"{title}: the first {shown} of {distinct}"


def _about(number: Estimate) -> str:
    if number.is_exact:
        return str(number.value)
    return f"about {number.value} (± {max(number.high - number.value, number.value - number.low)})"


def hour_text(item: Item) -> str:
    return moment_text(item.name, MINUTE) if isinstance(item.name, int) else "(no timestamp)"


def key_text(item: Item) -> str:
    """The first bytes of a key, safe for a terminal."""
    assert isinstance(item.name, bytes)
    text = printable(TEXT_ENCODINGS["utf8"](item.name)) or EMPTY_TEXT
    return text if item.size <= len(item.name) else text + ELLIPSIS
