"""The groups of a cluster, and the lag of each, from the disks of its brokers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkalog.clusters.copies import OFFSETS_TOPIC
from kafkalog.clusters.groups import Position, Positions, committed_offsets, read_groups
from kafkalog.clusters.places import Path, find_disks
from kafkalog.errors import Limits, NoLogs, UsageError
from kafkalog.format.html_table import html_table
from kafkalog.format.quantities import plural, repr_text, span_text
from kafkalog.log.folders import no_topic
from kafkalog.log.partition import Partition
from kafkalog.log.report import ReadReport
from kafkalog.payloads.group_image import Commit, GroupsImage, GroupState
from kafkalog.tables.choices import Names, several_names

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

NO_OFFSETS = (
    f"no partition of {OFFSETS_TOPIC} here, where groups commit their offsets; it is on the brokers' disks: give all log "
    "directories of the cluster: kafkalog groups FOLDER…"
)


@dataclass(frozen=True)
class GroupOffset:
    """An offset that a group has committed, and where that is in its log."""

    commit: Commit
    position: Position

    def as_dict(self) -> dict[str, Any]:
        return {**_commit_dict(self.commit), **vars(self.position)}


@dataclass(frozen=True, repr=False)
class GroupLag:
    """A group with its committed offsets. Lags are None where no log of it is on these disks."""

    group: GroupState
    offsets: tuple[GroupOffset, ...]

    def __repr__(self) -> str:
        lag = "lag unknown" if self.lag is None else f"lag {self.lag}"
        return repr_text("GroupLag", self.group.group_id, self.group.state, plural(len(self.offsets), "partition"), lag)

    @property
    def lag(self) -> int | None:
        """The offsets that it has not committed, in all partitions whose logs are here."""
        known = [each.position.lag for each in self.offsets if each.position.lag is not None]
        return sum(known) if known else None

    @property
    def lag_ms(self) -> int | None:
        """The longest lag in time of any partition."""
        return max((each.position.lag_ms for each in self.offsets if each.position.lag_ms is not None), default=None)

    @property
    def unknown(self) -> int:
        """How many of its partitions are not on these disks."""
        return sum(each.position.lag is None for each in self.offsets)

    @property
    def last_commit_ms(self) -> int | None:
        times = (each.commit.commit_timestamp for each in self.offsets)
        return max((time for time in times if time is not None), default=None)

    def as_dict(self) -> dict[str, Any]:
        """The group as plain values, for JSON."""
        group = self.group
        return {
            "group_id": group.group_id,
            "type": group.type,
            "protocol": group.protocol,
            "state": group.state,
            "assignor": group.chosen_assignor,
            "epoch": group.epoch,
            "members": len(group.members),
            "lag": self.lag,
            "lag_ms": self.lag_ms,
            "unknown_partitions": self.unknown,
            "last_commit_ms": self.last_commit_ms,
            "offsets": [each.as_dict() for each in self.offsets],
        }


@dataclass(frozen=True, repr=False)
class Groups:
    """The groups of a cluster, those with the largest lag first; with `history` every commit that is still there.

    `unknown_records` counts records that only a later release of Kafka writes.
    """

    paths: tuple[str, ...]
    groups: tuple[GroupLag, ...]
    history: tuple[Commit, ...] | None
    pending: tuple[Commit, ...]
    unknown_records: dict[str, int]
    report: ReadReport = field(compare=False)

    def __iter__(self) -> Iterator[GroupLag]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def __repr__(self) -> str:
        return repr_text("Groups", ", ".join(self.paths), plural(len(self.groups), "group"))

    def _repr_html_(self) -> str:
        heads = ("group", "type", "state", "members", "partitions", "lag", "lag in time")
        rows = [
            (
                each.group.group_id,
                each.group.type,
                each.group.state,
                len(each.group.members),
                len(each.offsets),
                each.lag,
                None if each.lag_ms is None else span_text(each.lag_ms),
            )
            for each in self.groups
        ]
        return html_table(repr(self), heads, rows)

    def as_dict(self) -> dict[str, Any]:
        """The groups as plain values, for JSON."""
        plain: dict[str, Any] = {"paths": list(self.paths), "groups": [each.as_dict() for each in self.groups]}
        plain["pending"] = [_commit_dict(commit) for commit in self.pending]
        if self.history is not None:
            plain["commits"] = [{**_commit_dict(commit), "state": commit.state} for commit in self.history]
        return {**plain, "unknown_records": self.unknown_records}


def _commit_dict(commit: Commit) -> dict[str, Any]:
    return {
        "group_id": commit.group_id,
        "topic": commit.topic,
        "partition": commit.partition,
        "committed_offset": commit.offset,
        "leader_epoch": commit.leader_epoch,
        "metadata": commit.metadata,
        "commit_timestamp_ms": commit.commit_timestamp,
        "record_offset": commit.record_offset,
        "producer_id": commit.producer_id,
    }


def groups(
    paths: Path | Sequence[Path],
    *,
    topics: Names | None = None,
    groups: Names | None = None,
    history: bool = False,
    limits: Limits | None = None,
    filesystem: FileSystem | None = None,
) -> Groups:
    """The groups whose offsets are on the disks at or below `paths`, with their lag, by the logs that are there.

    Only those named, and only their offsets in these topics. `history` adds every commit that compaction has left, aborted,
    pending and deleted ones too. Damaged batches are left out, and in `report`.
    """
    disks = find_disks(paths, filesystem=filesystem)
    places = tuple(map(os.fsdecode, disks.places))
    return groups_of(places, disks.partitions, topics=topics, names=groups, history=history, limits=limits)


def groups_of(
    places: tuple[str, ...],
    partitions: Sequence[Partition],
    *,
    topics: Names | None = None,
    names: Names | None = None,
    history: bool = False,
    limits: Limits | None = None,
) -> Groups:
    """The same of partitions that were found before."""
    if not any(found.topic == OFFSETS_TOPIC and not found.state for found in partitions):
        raise NoLogs(NO_OFFSETS)
    report = ReadReport()
    image = read_groups(partitions, history=history, limits=limits, report=report)
    wanted_topics, wanted = several_names("topics", topics), several_names("groups", names)
    _require_known(image, wanted_topics, wanted)

    def chosen(commits: Iterable[Commit]) -> Iterator[Commit]:
        for commit in commits:
            if (wanted is None or commit.group_id in wanted) and (wanted_topics is None or commit.topic in wanted_topics):
                yield commit

    positions = Positions(partitions, limits)
    offsets: dict[str, list[GroupOffset]] = {}
    for commit in chosen(committed_offsets(image)):
        offsets.setdefault(commit.group_id, []).append(GroupOffset(commit, positions.of(commit)))
    found = [
        GroupLag(group, tuple(offsets.get(group_id, ())))
        for group_id, group in image.groups.items()
        if (wanted is None or group_id in wanted) and (wanted_topics is None or group_id in offsets)
    ]
    return Groups(
        places,
        tuple(sorted(found, key=lambda each: (-(each.lag or 0), each.group.group_id))),
        None if image.history is None else tuple(chosen(image.history)),
        tuple(chosen(image.pending)),
        dict(image.unknown),
        report,
    )


def _require_known(image: GroupsImage, topics: Sequence[str] | None, names: Sequence[str] | None) -> None:
    """UsageError for a group or topic that is in no record."""
    commits = [commit for several in image.offsets.values() for commit in several.values()]
    seen = [*commits, *image.pending, *(image.history or ())]
    there = sorted({*image.groups, *(commit.group_id for commit in seen)})
    for name in names or ():
        if name not in there:
            raise UsageError(no_topic(name, there).replace("no topic", "no group"))
    known = sorted({commit.topic for commit in seen})
    for topic in topics or ():
        if topic not in known:
            raise UsageError(f"{no_topic(topic, known)}: topics of which a group has committed offsets")
