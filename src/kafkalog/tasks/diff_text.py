"""A comparison in a sentence or two, and the commands to type next."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkalog.errors import path_text
from kafkalog.format.names import MAX_OFFSET
from kafkalog.format.quantities import plural
from kafkalog.format.shell import path_word
from kafkalog.log.comparison.difference import A, B, Difference

from .next_steps import NextStep

if TYPE_CHECKING:
    from .diff import ComparedPartition, Comparison

NAMED = 3
PARTITIONS_NAMED = 4


def describe(comparison: Comparison) -> str:
    """Whether the copies are the same, what explains the differences, and where the first one is that nothing explains."""
    if comparison.is_same:
        batches = sum(found.equal_batches for found in comparison.partitions)
        return f"the copies are the same: {_counted(comparison)}, {plural(batches, 'batch', 'batches')}"
    if comparison.is_explained:
        reasons = dict.fromkeys(row.explained_by for row in comparison.differences)
        return f"the copies differ only in what {_listed(list(reasons))} explains: {_counted(comparison)}"
    unexplained = comparison.unexplained
    wrong = {(row.topic, row.partition) for row in unexplained}
    more = sum(found.left_out for found in comparison.partitions)
    count = plural(len(unexplained) + more, "difference")
    where = f"the first in {_where(unexplained[0])}" if len(unexplained) > 1 else f"in {_where(unexplained[0])}"
    several = f" in {len(wrong)} of {_counted(comparison)}" if len(comparison.partitions) > 1 else ""
    verdict = f"{count} that nothing explains{several}, {where}: {unexplained[0].about}"
    return ". ".join([verdict, *_right(comparison)])


def _counted(comparison: Comparison) -> str:
    return plural(len(comparison.partitions), "partition")


def _listed(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _where(row: Difference) -> str:
    where = f"{row.topic}-{row.partition}"
    if row.first_offset is not None:
        where += f" at offset {row.first_offset}"
    spot = row.spot(row.side) if row.side else None
    if spot is not None:
        return f"{where} (byte {spot.position} of {path_text(os.path.basename(spot.file))} in {row.side})"
    return f"{where}, which {row.side} lacks" if row.side else where


def _right(comparison: Comparison) -> Iterator[str]:
    """Which side is right, for the first partitions with differences that nothing explains."""
    wrong = [found for found in comparison.partitions if found.unexplained]
    for found in wrong[:NAMED]:
        name = f"{found}: " if len(comparison.partitions) > 1 else ""
        yield f"{name}{_right_of(found)}"


def _right_of(found: ComparedPartition) -> str:
    bad = {row.side for row in found.unexplained}
    content = [row for row in found.unexplained if not row.side]
    newer, older = (found.b, found.a) if found.newer == B else (found.a, found.b)
    if content and found.newer:
        ends = [f"leader epoch {copy.leader_epoch} and offset {copy.end_offset - 1}" for copy in (newer, older)]
        return f"A broker would follow {found.newer}, whose last batch has {ends[0]}; that of the other has {ends[1]}"
    if content:
        return "Both end in the same leader epoch and offset, so nothing here says which is right"
    if len(bad) == 1:
        return f"{B if A in bad else A} has what {next(iter(bad))} has lost"
    return "Each side has something that the other has lost"


def next_steps(comparison: Comparison) -> Iterator[NextStep]:
    """The commands to type: look at the first difference on both sides, then bring the copies together."""
    if comparison.is_explained:
        yield NextStep("indexes and checkpoints are not compared; to check them", f"kafkalog verify {path_word(comparison.a)}")
        return
    wrong = [found for found in comparison.partitions if found.unexplained]
    for row in (row for found in wrong[:1] for row in found.unexplained[:1]):
        for side in (A, B):
            spot = row.spot(side)
            if spot is not None:
                command = f"kafkalog explain {path_word(spot.file)} --position {spot.position}"
                yield NextStep(f"look at the bytes in {side}", command)
            elif row.first_offset is not None and row.kind == "missing":
                place = comparison.partitions[comparison.partitions.index(wrong[0])]
                folder = (place.a if side == A else place.b).folder
                yield NextStep(f"look at what is around it in {side}", _table(folder, row))
    for found in wrong[:PARTITIONS_NAMED]:
        yield from _salvage(found)


def _table(folder: str, row: Difference) -> str:
    first = max((row.first_offset or 0) - 1, 0)
    last = min((row.last_offset or 0) + 2, MAX_OFFSET)
    return f"kafkalog table batches {path_word(folder)} --start-offset {first} --stop-offset {last}"


def _salvage(found: ComparedPartition) -> Iterator[NextStep]:
    newer, older = (found.b, found.a) if found.newer == B else (found.a, found.b)
    reasons = {row.reason for row in found.unexplained}
    fill = " --fill-gaps" if "missing" in reasons else ""
    folders = f"{path_word(newer.folder)} {path_word(older.folder)}"
    yield NextStep(
        f"put the intact batches of both copies of {found} together", f"kafkalog salvage {folders} --out rescued{fill}"
    )
