"""What compaction and zstd would save, and segments that retention cannot delete."""

from __future__ import annotations

from kafkalog.format.markup import Child, Markup, element, joined
from kafkalog.format.quantities import size_text
from kafkalog.pages.tables import Cell, Column, code, number, share, size, table
from kafkalog.tasks.overview.result import Overview
from kafkalog.tasks.profile.result import Estimate

from .section import MINUTE, Section, command, damaged_topics, more_rows, time_text, topic_command

MOST_ROWS = 100
WORTH_A_COMMAND = 0.05  # of a topic's bytes


def section(overview: Overview) -> Section | None:
    if not overview.profile.total.bytes:
        return None
    parts = [_words(overview), _by_topic(overview), _pinned(overview)]
    return Section("savings", "What could be saved", joined(parts), "Savings")


def _words(overview: Overview) -> Markup:
    zstd, compaction = overview.profile.zstd, overview.profile.compaction
    lines = []
    if zstd.bytes is None:
        lines.append("zstd: too few batches were recompressed to say.")
    else:
        lines.append(f"zstd would save {_about(zstd.bytes)} of {size_text(zstd.of_bytes)} that are v2 and not zstd yet.")
    if compaction is not None:
        lines.append(
            f"Compaction would drop {_about(compaction.duplicate_bytes)} of records with a later one of the same key, and with "
            f"time {_about(compaction.tombstone_bytes)} of tombstones. {size_text(compaction.unkeyed_bytes)} have no key, which "
            "compaction deletes: it is for topics in which every record has a key."
        )
    return joined(element("p", line) for line in lines)


def _about(found: Estimate) -> str:
    if found.is_exact:
        return size_text(found.value)
    return f"about {size_text(found.value)} ({size_text(max(found.low, 0))} to {size_text(found.high)})"


def _by_topic(overview: Overview) -> Markup:
    profile = overview.profile
    columns = [
        Column("topic"),
        Column("size", True),
        Column("zstd saves", True),
        Column("share"),
        Column("duplicates", True),
        Column("share"),
        Column("to try"),
    ]
    rows = []
    for topic, count in list(profile.topics.items())[:MOST_ROWS]:
        zstd, compaction = profile.zstd_by_topic.get(topic), profile.compaction_by_topic.get(topic)
        saved = None if zstd is None or zstd.bytes is None else zstd.bytes.value
        dropped = None if compaction is None else compaction.duplicate_bytes.value
        rows.append(
            [
                topic,
                size(count.bytes),
                *_saving(saved, count.bytes),
                *_saving(dropped, count.bytes),
                _next(overview, topic, count.bytes, saved or 0, 0 if compaction and compaction.unkeyed_records else dropped or 0),
            ]
        )
    more = more_rows(len(rows), len(profile.topics), command("kafkalog", "profile", *overview.paths[:1]))
    return table("Savings by topic", columns, rows, more=more)


def _saving(saved: int | None, whole: int) -> list[Cell | Child]:
    if saved is None:
        return [Cell("–", -1), Cell("", -1)]
    return [size(saved) if saved > 0 else Cell("nothing", saved), share(max(saved, 0), whole)]


def _next(overview: Overview, topic: str, whole: int, saved: int, dropped: int) -> Child:
    """The command for the larger of the two savings, if it is worth one and the topic can be rewritten."""
    if max(saved, dropped) < WORTH_A_COMMAND * whole or topic in damaged_topics(overview):
        return None
    if dropped > saved:
        return code(topic_command("compact", overview, topic, "--out", "compacted"))
    return code(topic_command("convert", overview, topic, "--codec", "zstd", "--out", "smaller"))


def _pinned(overview: Overview) -> Child:
    pinned = overview.profile.pinned
    if not pinned:
        return None
    columns = [
        Column("segment"),
        Column("size", True),
        Column("records", True),
        Column("latest timestamp (UTC)", is_short=True),
        Column("kept until (UTC)", is_short=True),
    ]
    rows = [
        [
            each.file,
            size(each.bytes),
            number(each.records),
            Cell(time_text(each.largest_timestamp_ms, MINUTE), each.largest_timestamp_ms),
            Cell(time_text(each.held_until_ms, MINUTE), each.held_until_ms),
        ]
        for each in pinned[:MOST_ROWS]
    ]
    more = more_rows(len(rows), len(pinned), command("kafkalog", "profile", *overview.paths[:1]))
    return table("Segments with timestamps in the future, which retention by time keeps", columns, rows, more=more)
