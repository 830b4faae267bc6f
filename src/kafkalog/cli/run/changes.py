"""The work of `compact`, `recover`, `retain` and `truncate`, and what they share with `convert`: report the plan, ask before
records are deleted, carry it out, report the result.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, TypeVar

import click

from kafkalog.errors import UsageError
from kafkalog.format.quantities import plural
from kafkalog.format.shell import path_word
from kafkalog.tasks.compact import compact_partitions
from kafkalog.tasks.convert import ConvertResult
from kafkalog.tasks.maintenance import ChangeRequest, LogState, MaintenanceResult
from kafkalog.tasks.partitions import chosen_partitions
from kafkalog.tasks.recover import recover_partitions
from kafkalog.tasks.retain import retain_partitions
from kafkalog.tasks.totals import Total, total_recover
from kafkalog.tasks.truncate import truncate_partitions

from ..commands.shared_options import ChangeOptions
from ..failure import CLEAN, DAMAGE, USAGE, Failures
from ..render.escape import printable
from ..render.next_steps import total_lines
from ..render.progress import ReadProgress

Result = TypeVar("Result", ConvertResult, MaintenanceResult)
RANGES_NAMED = 3


def run_compact(path: str, change: ChangeOptions, *, whole: bool, roll: bool, map_bytes: int) -> int:
    return Change(path, change).run(
        lambda request: compact_partitions(path, request, change.config, whole=whole, roll=roll, map_bytes=map_bytes)
    )


def run_recover(path: str, change: ChangeOptions, *, whole: bool) -> int:
    work = Change(path, change, add_up=total_recover)
    return work.run(lambda request: recover_partitions(path, request, change.config, whole=whole))


def run_retain(path: str, change: ChangeOptions, start_offset: int | None) -> int:
    return Change(path, change).run(lambda request: retain_partitions(path, request, change.config, start_offset=start_offset))


def run_truncate(path: str, change: ChangeOptions, to_offset: int) -> int:
    return Change(path, change).run(lambda request: truncate_partitions(path, to_offset, request, change.config))


class Change:
    """Reports the plan of each partition before it is carried out and the result after; asks before records are deleted."""

    def __init__(
        self,
        path: str,
        options: ChangeOptions,
        plan: Callable[[Any], list[str]] | None = None,
        result: Callable[[Any], list[str]] | None = None,
        add_up: Callable[[dict[str, str], Any], Total] | None = None,
    ) -> None:
        self.options = options
        self.plan: Callable[[Any], list[str]] = plan or _describe_plan
        self.result: Callable[[Any], list[str]] = result or _describe_change
        self.add_up = add_up
        self.code = CLEAN
        found = chosen_partitions(path, options.topics, options.partitions)
        self.bar = ReadProgress(sum(partition.size for partition in found), wanted=not options.quiet)
        self.sources = {str(partition): partition.folder for partition in found}
        self.failures = Failures(as_json=options.as_json, before_report=self.bar.hide)

    def run(self, work: Callable[[ChangeRequest], Iterable[Result]]) -> int:
        """Do the work; the exit code."""
        request = ChangeRequest(
            out=self.options.out,
            in_place=self.options.in_place,
            dry_run=self.options.dry_run,
            now_ms=self.options.now,
            topics=self.options.topics,
            partitions=self.options.partitions,
            progress=self.bar.advance,
            on_plan=self._show_plan,
            may_lose=self._may_lose,
            on_failure=self.failures.add,
        )
        results = []
        with self.bar:
            for result in work(request):
                results.append(result)
                if self.options.as_json:
                    click.echo(json.dumps(_as_dict(result)))
                elif not self.options.dry_run:
                    self._say(self.result(result))
                self._note(DAMAGE if isinstance(result, MaintenanceResult) and _was_cut(result) else CLEAN)
        if results and not self.options.as_json:
            self._say_total(results)
        self._note(self.failures.finish(len(results)))
        return self.code

    def _say_total(self, results: list[Any]) -> None:
        if self.add_up is not None and (lines := total_lines(self.add_up(self.sources, results), len(results))):
            self.bar.hide()
            click.echo(lines)

    def _note(self, code: int) -> None:
        self.code = max(self.code, code)

    def _say(self, lines: list[str]) -> None:
        self.bar.hide()
        click.echo("\n".join(map(printable, lines)))  # line by line: a folder's name may contain a line break

    def _show_plan(self, result: Any) -> None:
        if not self.options.as_json:
            self._say(self.plan(result))

    def _may_lose(self, result: MaintenanceResult) -> bool:
        """Whether records may be deleted. Without a terminal to ask on, those that the command is about may; others (intact
        batches after damage, records without a key) may not."""
        if self.options.yes:
            return True
        if sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty():
            self.bar.hide()
            end = "in the copy" if self.options.out is not None else "for good"
            is_confirmed = click.confirm(printable(f"{name_of(result)}: delete {_describe_loss(result)} {end}?"), err=True)
            self._note(CLEAN if is_confirmed else USAGE)
            return bool(is_confirmed)
        if _was_cut(result):
            loss, keep = _describe_loss(result), _salvage_command(result)
            raise UsageError(
                f"{result.folder}: would delete {loss}; add --yes to delete it, or keep what is intact with `{keep}`"
            )
        if result.loss is not None and result.loss.without_key:
            loss = _describe_loss(result)
            raise UsageError(f"{result.folder}: would delete {loss}; add --yes to delete it, or choose other topics with --topic")
        return True


def _as_dict(result: ConvertResult | MaintenanceResult) -> dict[str, Any]:
    if isinstance(result, ConvertResult):
        return {**asdict(result), "report": result.report.as_dict()}
    return asdict(result)


def _was_cut(result: MaintenanceResult) -> bool:
    return bool(result.details.get("loses_batches"))


def name_of(result: ConvertResult | MaintenanceResult) -> str:
    return f"{result.topic}-{result.partition}" if result.partition >= 0 else result.topic


def _describe_state(state: LogState) -> str:
    offsets = f"offsets {state.start_offset} to {state.end_offset - 1}" if state.end_offset > state.start_offset else "empty"
    return f"{offsets}, {plural(state.segments, 'segment')}, {state.size} bytes"


def _describe_loss(result: MaintenanceResult) -> str:
    """Offsets, records and bytes that are deleted."""
    loss = result.loss
    assert loss is not None
    parts = [f"offsets {loss.first_offset} to {loss.last_offset}"]
    if loss.records is not None:
        intact = "intact " if _was_cut(result) else ""
        parts.append(f"{'' if loss.is_exact else 'at most '}{plural(loss.records, f'{intact}record')}")
    if loss.without_key:
        return f"{parts[1]} without a key, the first at offset {loss.first_offset}: the topic is not a compacted one"
    return ", ".join([*parts, f"{loss.size} bytes"])


def _salvage_command(result: MaintenanceResult) -> str:
    return f"kafkalog salvage {path_word(result.folder)} --out DIR"


def _describe_plan(result: MaintenanceResult) -> list[str]:
    assert result.before is not None
    lines = [f"{name_of(result)}: plan: {result.command}: {_describe_state(result.before)}"]
    details = result.details
    if _was_cut(result):
        lines += _describe_cut(result)
    elif result.cut_bytes:
        lines.append(f"  {result.cut_bytes} bytes, cut off after the last whole batch")
    if "dirty_bytes" in details:
        first, last = details["first_dirty_offset"], details["first_uncleanable_offset"] - 1
        dirty = f"offsets {first} to {last}, {details['dirty_bytes']} bytes"
        lines.append(f"  to clean: {dirty}" if details["dirty_bytes"] else "  nothing to clean")
    if (asked := details.get("asked_offset")) is not None and result.after is not None:
        end = result.after.end_offset
        lines.append(
            f"  offset {asked} is inside a batch, which is removed as a whole: the log will end at {end}, not at {asked}"
        )
    if result.loss is not None and not _was_cut(result):
        lines.append(f"  deletes {_describe_loss(result)}")
    if changed := details.get("changed_files"):
        lines.append(f"  {plural(len(changed), 'file')} to rebuild, cut or remove")
    if result.after is not None:
        lines.append("  nothing to do" if _is_same(result) else f"  then {_describe_state(result.after)}")
    return lines


def _describe_cut(result: MaintenanceResult) -> list[str]:
    """The records that are deleted because of damage, and what salvage would keep of them."""
    assert result.loss is not None
    file, position = result.details["cut_at"]
    lines = [f"  cut off at the first damage, byte {position} of {file}: deletes {_describe_loss(result)}"]
    ranges = [
        f"{lost.first_offset} to {'an unknown end' if lost.last_offset is None else lost.last_offset}"
        for lost in result.loss.damaged[:RANGES_NAMED]
    ]
    more = " and others" if len(result.loss.damaged) > RANGES_NAMED else ""
    damaged = f"loses only offsets {', '.join(ranges)}{more}" if ranges else "loses none of them"
    lines.append(f"  `{_salvage_command(result)}` {damaged}")
    return lines


def _is_same(result: MaintenanceResult) -> bool:
    return result.before == result.after and not result.cut_bytes and not result.details.get("changed_files")


def _describe_change(result: MaintenanceResult) -> list[str]:
    lines = [f"{name_of(result)}: {result.state}, {result.folder}"]
    if "records_read" in result.details:
        read, kept = result.details["records_read"], result.details["records_kept"]
        passes = plural(result.details["passes"], "pass", "passes")
        lines.append(f"  {kept} of {plural(read, 'record')} kept, in {passes}")
    if result.loss is not None and result.loss.without_key and result.state != "not written":
        lines.append(f"  deleted {_describe_loss(result)}")
    if result.after is not None and result.state == "written":
        lines.append(f"  now {_describe_state(result.after)}")
    return lines
