"""What a repair did in all, and what to type next: where the result goes, whose it must be, and how to check it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kafkalog.format.quantities import plural, size_text
from kafkalog.format.shell import path_word
from kafkalog.log.report import ReadReport
from kafkalog.storage.fs import LocalFs

from .convert import ConvertResult
from .locking import is_log_directory
from .maintenance import MaintenanceResult
from .next_steps import FOLDERS_NAMED, NextStep
from .reindex import ReindexResult
from .salvage import SalvageResult

NOT_WRITTEN = "not written"
Written = TypeVar("Written", SalvageResult, ReindexResult, ConvertResult, MaintenanceResult)


@dataclass(frozen=True)
class Total:
    """All partitions of one command: a line of counts, and the next steps; none in a dry run."""

    text: str = ""
    next_steps: tuple[NextStep, ...] = ()


def total_salvage(results: Sequence[SalvageResult]) -> Total:
    """Of salvage: the new partitions take the place of the damaged ones, unless part of these could not be read."""
    done = _done(results)
    damaged = [each for each in done if each.is_damaged]
    whole = [each for each in damaged or done if not each.report.unread]
    pairs = [(each.sources[0], each.folder) for each in whole if len(each.sources) == 1]
    steps = [*_again(done)]
    if len(pairs) < len(whole):
        steps += _check_copies([each.folder for each in done])
    elif pairs:
        steps += replacing_steps(pairs)
    return Total(_salvaged(results), tuple(steps))


def _again(done: Sequence[SalvageResult]) -> Iterator[NextStep]:
    """Of partitions of which not everything could be read: they do not take the place of what still has it."""
    partial = [each for each in done if each.report.unread]
    if partial:
        names = ", ".join(each.name for each in partial[:FOLDERS_NAMED])
        sources = _words(source for each in partial[:FOLDERS_NAMED] for source in each.sources)
        why = f"{names} could not be read whole and must not take the place of the old one; salvage it again as a user who may"
        yield NextStep(why, f"kafkalog salvage {sources} --out {path_word(os.path.dirname(partial[0].folder) + '.whole')}")


def total_undelete(results: Sequence[SalvageResult]) -> Total:
    """Of undelete: its partitions belong to no topic of the cluster."""
    done = _done(results)
    steps = list(_check_copies([each.folder for each in done]))
    if done:
        place, topic = os.path.dirname(done[0].folder), done[0].topic
        names = f"--topic {path_word(topic)} --format json --output {path_word(topic)}.jsonl"
        command = f"kafkalog cat {path_word(place)} {names}"
        steps.append(NextStep("its records, to produce them to a new topic", command))
    return Total(_salvaged(results), tuple(steps))


def total_reindex(path: str, out: str | None, results: Sequence[ReindexResult]) -> Total:
    """Of reindex: files beside the logs, or below `out` to look at first."""
    changed, removed = (sum(len(getattr(each, name)) for each in results) for name in ("changed", "removed"))
    is_done = bool(_done(results))
    text = f"{_counted(results)}: {plural(changed, 'file')} {'rebuilt' if is_done else 'to rebuild'}, {removed} removed"
    if not is_done:
        return Total(text)
    if out is not None:
        topics = " ".join(f"--topic {path_word(topic)}" for topic in dict.fromkeys(each.topic for each in _done(results)))
        command = f"kafkalog reindex {path_word(path)} {topics} --in-place"
        return Total(text, (NextStep("to put them beside the logs, with the broker stopped", command),))
    return Total(text, (_start_step(each.folder for each in _done(results)),))


def total_convert(sources: dict[str, str], results: Sequence[ConvertResult]) -> Total:
    """Of convert; `sources` are the old folders by the names of partitions."""
    before, after = sum(each.size for each in results), sum(each.new_size for each in results if each.new_batches)
    size = f", {size_text(before)} before and {size_text(after)} now" if after else ""
    return Total(f"{_counted(results)}{size}", _changed_steps(sources, results))


def total_recover(sources: dict[str, str], results: Sequence[MaintenanceResult]) -> Total:
    """Of recover; `sources` are the old folders by the names of partitions."""
    cut = sum(each.cut_bytes for each in results)
    losses = [each.loss for each in results if each.loss is not None]
    records = None if any(loss.records is None for loss in losses) else sum(loss.records or 0 for loss in losses)
    lost = "records" if records is None else plural(records, "record")
    parts = [_counted(results), f"{size_text(cut)} cut off", *([f"{lost} lost"] if losses else [])]
    return Total(", ".join(parts), _changed_steps(sources, results))


def _changed_steps(sources: dict[str, str], results: Sequence[Written]) -> tuple[NextStep, ...]:
    done = _done(results)
    pairs = [(sources[name], each.folder) for each in done if (name := f"{each.topic}-{each.partition}") in sources]
    if not done:
        return ()
    if all(os.path.realpath(old) == os.path.realpath(new) for old, new in pairs):
        return (_start_step(each.folder for each in done),)
    return tuple(replacing_steps(pairs))


def replacing_steps(pairs: Sequence[tuple[str, str]]) -> Iterator[NextStep]:
    """How new partitions take the place of old ones in the log directory of a broker; elsewhere only how to check them."""
    olds, news = [[pair[side] for pair in pairs[:FOLDERS_NAMED]] for side in (0, 1)]
    roots = {os.path.dirname(os.path.abspath(old)) for old in olds}
    in_log_directory = len(roots) == 1 and is_log_directory(LocalFs(), next(iter(roots)))
    if not in_log_directory or any(os.path.basename(old) != os.path.basename(new) for old, new in pairs):
        yield from _check_copies(news)
        return
    root = roots.pop()
    more = f" (the first {FOLDERS_NAMED} of {len(pairs)})" if len(pairs) > FOLDERS_NAMED else ""
    aside = path_word(f"{root}.replaced")
    why = f"stop the broker, and move what is replaced out of its log directory{more}"
    yield NextStep(why, f"mkdir -p -- {aside} && mv -- {_words(olds)} {aside}")
    yield NextStep("put the new partitions there", f"mv -- {_words(news)} {path_word(root)}")
    if any(_owner(new) != _owner(root) for new in news):
        placed = [os.path.join(root, os.path.basename(new)) for new in news]
        yield NextStep("give them to the broker's user", f"chown -R --reference={path_word(root)} -- {_words(placed)}")
    yield _start_step([os.path.join(root, "new")])


def _check_copies(folders: Sequence[str]) -> Iterator[NextStep]:
    for place in dict.fromkeys(map(os.path.dirname, folders)):
        yield NextStep("check the result", f"kafkalog verify {path_word(place)}")


def _start_step(folders: Iterable[str]) -> NextStep:
    """Ask what the broker will do with the log directory of these partitions."""
    root = next(os.path.dirname(os.path.abspath(folder)) for folder in folders)
    return NextStep("see what the broker will do, then start it", f"kafkalog verify {path_word(root)}")


def _words(paths: Iterable[str]) -> str:
    return " ".join(map(path_word, paths))


def _owner(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_uid, found.st_gid


def _salvaged(results: Sequence[SalvageResult]) -> str:
    batches, size = sum(each.kept_batches for each in results), sum(each.kept_bytes for each in results)
    counts = [each.kept_records for each in results]
    known = None if None in counts else sum(count or 0 for count in counts)
    records = "" if known is None else f"{plural(known, 'record')} in "
    kept = f"kept {records}{plural(batches, 'batch', 'batches')}, {size_text(size)}"
    reports: list[ReadReport] = [each.report for each in results]
    dropped = sum(report.dropped_bytes for report in reports)
    ranges = sum(len(report.dropped) for report in reports)
    unread = sum(len(report.unread) for report in reports)
    parts = [f"left out {plural(ranges, 'damaged range')}, {size_text(dropped)}"] if ranges else []
    parts += [f"{plural(unread, 'file')} could not be read"] if unread else []
    return f"{_counted(results)}: {kept}; {'; '.join(parts) or 'nothing was damaged'}"


def _counted(results: Sequence[Written]) -> str:
    """How many partitions, by their states."""
    states = Counter(each.state for each in results)
    return f"{plural(len(results), 'partition')} ({', '.join(f'{count} {state}' for state, count in states.items())})"


def _done(results: Sequence[Written]) -> list[Written]:
    return [each for each in results if each.state != NOT_WRITTEN]
