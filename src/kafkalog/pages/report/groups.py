"""The groups of consumers, and how far each of them lags."""

from __future__ import annotations

from kafkalog.format.markup import Markup, element, joined
from kafkalog.format.quantities import plural, span_text
from kafkalog.pages.tables import Cell, Column, number, table
from kafkalog.tasks.groups import GroupOffset, Groups
from kafkalog.tasks.overview.result import Overview

from .section import Section, command, more_rows, time_text

MOST_GROUPS, MOST_OFFSETS = 500, 500


def section(overview: Overview) -> Section | None:
    found = overview.groups
    if found is None or not len(found):
        return None
    parts = [_groups(overview, found), _offsets(overview, found), _pending(found)]
    return Section("groups", "Groups and lag", joined(parts), "Groups")


def _groups(overview: Overview, found: Groups) -> Markup:
    columns = [
        Column("group"),
        Column("type"),
        Column("state"),
        Column("members", True),
        Column("partitions", True),
        Column("not here", True),
        Column("lag", True),
        Column("lag in time", True),
        Column("last commit", is_short=True),
    ]
    rows = [
        [
            each.group.group_id,
            each.group.type,
            each.group.state,
            number(len(each.group.members)),
            number(len(each.offsets)),
            number(each.unknown),
            number(each.lag),
            _span(each.lag_ms),
            Cell(time_text(each.last_commit_ms), each.last_commit_ms or -1),
        ]
        for each in found.groups[:MOST_GROUPS]
    ]
    more = more_rows(len(rows), len(found), command("kafkalog", "groups", *overview.paths))
    return table("Groups; lag in offsets, and by the timestamps of the records", columns, rows, more=more, filtered=True)


def _offsets(overview: Overview, found: Groups) -> Markup | None:
    listed = sorted(
        ((group.group.group_id, each) for group in found for each in group.offsets),
        key=lambda pair: (-(pair[1].position.lag or 0), pair[0], pair[1].commit.topic, pair[1].commit.partition),
    )
    if not listed:
        return None
    columns = [
        Column("group"),
        Column("partition"),
        Column("committed", True),
        Column("end", True),
        Column("lag", True),
        Column("lag in time", True),
        Column("committed at", is_short=True),
    ]
    rows = [_row(group_id, each) for group_id, each in listed[:MOST_OFFSETS]]
    more = more_rows(len(rows), len(listed), command("kafkalog", "table", "group_offsets", overview.paths[0]))
    return table(
        "Committed offsets, the largest lag first; – is what these disks do not say", columns, rows, more=more, filtered=True
    )


def _row(group_id: str, each: GroupOffset) -> list[Cell | str]:
    commit, position = each.commit, each.position
    return [
        group_id,
        f"{commit.topic}-{commit.partition}",
        number(commit.offset),
        number(position.log_end_offset),
        number(position.lag),
        _span(position.lag_ms),
        Cell(time_text(commit.commit_timestamp), commit.commit_timestamp or -1),
    ]


def _pending(found: Groups) -> Markup | None:
    if not found.pending:
        return None
    waiting = plural(len(found.pending), "commit")
    return element("p", f"{waiting} in open transactions: they count once these are committed.")


def _span(milliseconds: int | None) -> Cell:
    return Cell("–", -1) if milliseconds is None else Cell(span_text(milliseconds), milliseconds)
