"""Groups as text: those with the largest lag first, then partitions, or every commit."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog.format.quantities import moment_text, plural, span_text
from kafkalog.payloads.group_image import Commit
from kafkalog.tasks.groups import GroupLag, GroupOffset, Groups

from .escape import printable
from .layout import Style, grid

UNKNOWN = "-"
GROUP_HEADS = ("group", "type", "state", "members", "partitions", "lag", "lag in time", "last commit")
OFFSET_HEADS = ("group", "partition", "committed", "start", "end", "lag", "lag in time", "committed at", "metadata")
COMMIT_HEADS = ("group", "partition", "committed", "state", "committed at", "record", "metadata")
TIME = "%Y-%m-%d %H:%M:%S"
MOST_METADATA = 24


class GroupsPage:
    """The lines of what `kafkalog groups` found, for one output."""

    def __init__(self, found: Groups, style: Style, *, by_partition: bool) -> None:
        self.found = found
        self.style = style
        self.by_partition = by_partition

    def lines(self) -> Iterator[str]:
        if self.found.history is not None:
            rows = list(map(_commit, self.found.history))
            yield from grid(self.style, COMMIT_HEADS, rows, left=frozenset({0, 1, 3, 6})) if rows else ["no commits"]
            return
        if not self.found.groups:
            yield "no groups"
            return
        yield from grid(self.style, GROUP_HEADS, list(map(_group, self.found)), left=frozenset({0, 1, 2}))
        rows = [_offset(each) for group in self.found for each in group.offsets] if self.by_partition else []
        if rows:
            yield ""
            yield from grid(self.style, OFFSET_HEADS, rows, left=frozenset({0, 1, 8}))
        yield from self._notes()

    def _notes(self) -> Iterator[str]:
        absent = sum(group.unknown for group in self.found)
        if absent or self.found.pending or self.found.unknown_records:
            yield ""
        if absent:
            yield f"no lag of {plural(absent, 'partition')}: not on these disks, or the topic was created again since"
        for commit in self.found.pending:
            yield printable(
                f"pending: {commit.group_id} has {commit.topic}-{commit.partition} at {commit.offset} "
                f"in an open transaction of producer {commit.producer_id}"
            )
        if self.found.unknown_records:
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.found.unknown_records.items()))
            yield printable(f"not understood, of a later release or damaged: {kinds}")


def _group(found: GroupLag) -> tuple[str, ...]:
    group = found.group
    return (
        printable(group.group_id),
        group.type,
        group.state,
        str(len(group.members)),
        str(len(found.offsets)),
        _number(found.lag),
        _span(found.lag_ms),
        _time(found.last_commit_ms),
    )


def _offset(found: GroupOffset) -> tuple[str, ...]:
    commit, position = found.commit, found.position
    return (
        printable(commit.group_id),
        printable(f"{commit.topic}-{commit.partition}"),
        _number(commit.offset),
        _number(position.log_start_offset),
        _number(position.log_end_offset),
        _number(position.lag),
        _span(position.lag_ms),
        _time(commit.commit_timestamp),
        _metadata(commit),
    )


def _commit(commit: Commit) -> tuple[str, ...]:
    return (
        printable(commit.group_id),
        printable(f"{commit.topic}-{commit.partition}"),
        _number(commit.offset),
        commit.state,
        _time(commit.commit_timestamp),
        str(commit.record_offset),
        _metadata(commit),
    )


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def _span(milliseconds: int | None) -> str:
    return UNKNOWN if milliseconds is None else span_text(milliseconds)


def _time(milliseconds: int | None) -> str:
    return UNKNOWN if milliseconds is None or milliseconds < 0 else moment_text(milliseconds, TIME)


def _metadata(commit: Commit) -> str:
    text = printable(commit.metadata or "")
    return text if len(text) <= MOST_METADATA else text[: MOST_METADATA - 1] + "…"
