"""A verdict in a sentence or two, and the commands to type next."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from kafkalog.errors import ERROR, path_text
from kafkalog.format import names
from kafkalog.format.quantities import plural
from kafkalog.format.shell import path_word
from kafkalog.log.checks.finding import Finding

from .next_steps import NextStep, move_step, salvage_step
from .verdict import CUT, EMPTIED, REFUSED, UNKNOWN, LoadedPartition, Verdict

NAMED = 3
REINDEXED_NAMED = 5


def describe(verdict: Verdict) -> str:
    """What the broker will do, and why."""
    if verdict.is_running:
        return "a broker is running here: what its next start does depends on how it stops"
    refusals = [f"{path_text(os.path.basename(found.path))} {found.why}" for found in verdict.obstacles if found.is_sure]
    refusals += [f"{each.name}: {each.detail}" for each in verdict.partitions if each.outcome == REFUSED]
    if refusals:
        return f"the broker will not start with this log directory: {_named(refusals)}"
    doubts = list(_doubts(verdict))
    return ". ".join([*doubts, _start(verdict, has_doubts=bool(doubts)), *_basis(verdict)])


def _start(verdict: Verdict, *, has_doubts: bool) -> str:
    if has_doubts:  # the first sentence has them: this one is not read without it
        starts = "A broker will load the rest"
    else:
        starts = (
            "the broker will start" if verdict.is_whole and verdict.is_configured else f"a broker will load {_these(verdict)}"
        )
    losses = list(_losses(verdict.partitions))
    tails = [f"{each.name} at offset {each.end_offset}" for each in verdict.partitions if each.outcome == CUT and not each.loss]
    if losses:
        cut = [f"cut an unfinished end off {_named(tails)}"] if tails else []
        return f"{starts}, but {'; '.join([*losses, *cut])}"
    if tails:
        return f"{starts} and lose nothing that was written completely: it cuts an unfinished end off {_named(tails)}"
    return f"{starts} and lose nothing"


def _these(verdict: Verdict) -> str:
    return "these logs" if verdict.is_whole else "what was checked here"


def _losses(partitions: Sequence[LoadedPartition]) -> Iterator[str]:
    cut = [each for each in partitions if each.outcome == CUT and each.loss is not None]
    if cut:
        yield f"cut {_named([f'{each.name} at offset {each.end_offset} ({_lost(each)})' for each in cut])}"
    emptied = [f"{each.name} ({_lost(each)})" for each in partitions if each.outcome == EMPTIED]
    if emptied:
        yield f"delete all of {_named(emptied)}, because {names.LOG_START_CHECKPOINT} has it begin after its end"
    damaged = [f"{each.name} ({each.damage[0].reason} at {_where(each.damage[0])})" for each in partitions if each.damage]
    if damaged:
        yield f"not notice the damage in {_named(damaged)}"
    stale = [f"{each.name} ({plural(len(each.stale), 'file')})" for each in partitions if each.stale]
    if stale:
        yield f"use the wrong index files of {_named(stale)}"


def _lost(each: LoadedPartition) -> str:
    assert each.loss is not None
    if each.loss.records is None:
        return "intact records go with it"
    most = "" if each.loss.is_exact else "at most "
    return f"{most}{plural(each.loss.records, 'intact record')} lost"


def _where(finding: Finding) -> str:
    return f"byte {finding.position or 0}" if finding.base_offset is None else f"offset {finding.base_offset}"


def _basis(verdict: Verdict) -> Iterator[str]:
    """Why it checks as much as it does; nothing to say where nothing happens."""
    if not verdict.partitions:
        return
    if verdict.was_clean:
        yield "The last one shut down cleanly, so logs are loaded without a check"
    elif verdict.has_recovery_points:
        yield "The last one did not shut down cleanly, so what follows the recovery points is checked"
    else:
        yield "Nothing here says what was safely on the disk, so all of it is checked"
    if any(each.loss is not None for each in verdict.partitions):
        yield "What replicas in sync still have is copied from them"


def _doubts(verdict: Verdict) -> Iterator[str]:
    """What could not be found out: it comes first, because nobody may take the rest for the whole."""
    unknown = [f"{each.name} ({each.detail})" for each in verdict.partitions if each.outcome == UNKNOWN]
    if unknown:
        yield f"not known for {plural(len(unknown), 'partition')}: {_named(unknown)}"
    doubts = [f"{path_text(os.path.basename(found.path))} {found.why}" for found in verdict.obstacles if not found.is_sure]
    if doubts:
        yield f"{'Not' if unknown else 'not'} known whether the broker will start: {_named(doubts)}"


def _named(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - NAMED} more" if len(texts) > NAMED else ""
    return ", ".join(texts[:NAMED]) + more


def next_steps(verdict: Verdict, findings: Sequence[Finding]) -> Iterator[NextStep]:
    """The commands to type, the most urgent first."""
    root = os.path.dirname(verdict.obstacles[0].path) if verdict.obstacles else ""
    for found in verdict.obstacles:
        name = os.path.basename(found.path)
        if found.is_sure and found.why.startswith("is a folder"):
            yield move_step("move it out of the log directory", found.path, f"{root}.{name}")
        elif found.is_sure and name in names.OFFSET_CHECKPOINTS:
            yield move_step("move the checkpoint away: the broker then checks or copies more", found.path, f"{found.path}.broken")
    if verdict.is_running:
        damaged = {os.path.dirname(each.file): None for each in findings if each.severity == ERROR and each.file.endswith(".log")}
        if damaged:
            yield salvage_step("copy what is intact", list(damaged))
        return
    yield from _salvages(verdict.partitions)
    yield from _reindexes(verdict.partitions)


def _salvages(partitions: Sequence[LoadedPartition]) -> Iterator[NextStep]:
    def folders(wanted: Callable[[LoadedPartition], bool]) -> list[str]:
        return [each.folder for each in partitions if wanted(each)]

    if cut := folders(lambda each: each.loss is not None):
        yield salvage_step("before it starts, copy what it would delete", cut)
    if damaged := folders(lambda each: bool(each.damage) and each.loss is None):
        yield salvage_step("copy everything except the damage", damaged)
    if refused := folders(lambda each: each.outcome == REFUSED and not _is_small_file(each)):
        yield salvage_step("copy everything that is intact", refused)


def _is_small_file(each: LoadedPartition) -> bool:
    """Whether it is refused for a file beside the log."""
    return any(name in each.detail for name in names.PARTITION_FILES)


def _reindexes(partitions: Sequence[LoadedPartition]) -> Iterator[NextStep]:
    stale = [each for each in partitions if each.stale and not each.damage and each.loss is None]
    stale += [each for each in partitions if each.outcome == REFUSED and names.LEADER_EPOCH_CHECKPOINT in each.detail]
    for each in stale[:REINDEXED_NAMED]:
        yield NextStep("rebuild the index files from the log", f"kafkalog reindex {path_word(each.folder)} --in-place")
    for each in partitions:
        if each.outcome == REFUSED and names.PARTITION_METADATA in each.detail:
            path = os.path.join(each.folder, names.PARTITION_METADATA)
            yield move_step("move it away: the broker writes a new one", path, f"{path}.broken")
