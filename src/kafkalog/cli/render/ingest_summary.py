"""The summary of an ingest as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog.format.quantities import plural

from .escape import printable

if TYPE_CHECKING:
    from kafkalog.spark.ingestion.manifest import Gap
    from kafkalog.spark.ingestion.run import IngestSummary

PARTITIONS_NAMED = 20


def printable_summary(summary: IngestSummary) -> str:
    """The summary, one line for each partition and each loss."""
    if summary.commit is None and not summary.dry_run:
        return "\n".join([f"nothing new for {printable(summary.target)}", *_postponed(summary)])
    lines = [_head(summary)]
    for part in summary.partitions[:PARTITIONS_NAMED]:
        count = f"  {_records(part.records)}" if part.records >= 0 else ""
        last = max(part.stop_offset - 1, part.start_offset)
        lines.append(f"  {printable(part.topic)}-{part.partition}: offsets {part.start_offset} to {last}{count}")
    if len(summary.partitions) > PARTITIONS_NAMED:
        lines.append(f"  and {len(summary.partitions) - PARTITIONS_NAMED} more partitions (--json lists them)")
    lines += _tables(summary)
    for gap in summary.gaps:
        lines.append(f"  {gap.reason}: {printable(gap.topic)}-{gap.partition}: {_gap_text(gap)}")
    lines += _postponed(summary)
    if summary.superseded:
        lines.append(f"moved to _superseded because their logs no longer contain them: {summary.superseded:,} rows")
    if summary.damaged_ranges:
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(summary.damaged_reasons.items()))
        lines.append(
            f"set aside in _damaged: {plural(summary.damaged_ranges, 'range')} of {summary.damaged_bytes:,} bytes ({reasons})"
        )
    if summary.undecoded:
        lines.append(f"not decoded, kept as bytes in value_raw: {summary.undecoded:,} values")
    if not summary.dry_run:
        rates = f"{summary.records_per_second:,.0f} records/s, {summary.bytes_per_second / 1e6:,.0f} MB/s of log"
        lines.append(f"{summary.seconds:.1f} s: {rates}")
    return "\n".join(lines)


def _tables(summary: IngestSummary) -> list[str]:
    """A line for each table of a lake that the run committed to."""
    lines = [
        f"  table {printable(each.name)}: commit {each.commit}, {plural(each.files, 'file')} in {printable(each.location)}"
        for each in summary.tables[:PARTITIONS_NAMED]
    ]
    left = len(summary.tables) - PARTITIONS_NAMED
    return [*lines, f"  and {plural(left, 'more table')} (--json lists them)"] if left > 0 else lines


def _postponed(summary: IngestSummary) -> list[str]:
    """A line for each partition that changed too fast, or that could not be read."""
    why = "left to the next run: the broker kept replacing its files while they were read"
    unread = [f"  not read, left to the next run: {printable(text)}" for text in summary.unreadable]
    return [*(f"  {printable(name)}: {why}" for name in summary.postponed), *unread]


def _gap_text(gap: Gap) -> str:
    if gap.reason == "removed":
        return f"offsets {gap.start_offset} to {gap.stop_offset - 1} were deleted before they were ingested"
    if gap.reason == "truncated":
        return f"offsets {gap.start_offset} to {gap.stop_offset - 1} were ingested and are no longer in the log"
    return f"was ingested up to offset {gap.start_offset}; a new log starts at {gap.stop_offset} and becomes the next generation"


def _records(count: int) -> str:
    return f"{count:,} record{'s' * (count != 1)}"


def _head(summary: IngestSummary) -> str:
    target, partitions = printable(summary.target), plural(len(summary.partitions), "partition")
    if summary.dry_run:
        return f"would ingest {summary.log_bytes:,} bytes of {partitions} into {target}"
    return (
        f"commit {summary.commit} of {target}: {_records(summary.records)} of {partitions}, "
        f"{summary.log_bytes:,} bytes of log into {plural(summary.files, 'file')} of {summary.parquet_bytes:,} bytes"
    )
