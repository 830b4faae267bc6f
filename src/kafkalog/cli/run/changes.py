"""The work behind `kafkalog convert`, `compact`, `retain`, `truncate` and `recover`: tell the plan, do it, tell the result."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

import click

from kafkalog import codecs
from kafkalog.errors import UsageError
from kafkalog.kernels._jit import announce_compilation
from kafkalog.log.report import ReadReport
from kafkalog.segment.recode import Recoding
from kafkalog.tasks.compact import compact
from kafkalog.tasks.convert import ConvertResult, convert
from kafkalog.tasks.maintenance import LogState, MaintenanceResult, Place
from kafkalog.tasks.partitions import chosen_partitions
from kafkalog.tasks.recover import recover
from kafkalog.tasks.retain import retain
from kafkalog.tasks.truncate import truncate

from ..failure import CLEAN, DAMAGE, USAGE, Failures
from ..render.escape import printable
from ..render.progress import ReadProgress
from ..render.quantities import plural

Result = TypeVar("Result", ConvertResult, MaintenanceResult)
PLACE = ("out", "in_place", "dry_run", "topics", "partitions")
RANGES_NAMED = 3


def run_convert(
    path: str, codec: str | None, level: int | None, batch_bytes: int | None, index_interval_bytes: int | None, **options: Any
) -> int:
    recoding = Recoding(None if codec is None else codecs.codec_id(codec), level, batch_bytes)
    telling = _Telling(path, options, _describe_conversion, _describe_converted)
    return telling.run(lambda place: convert(path, place, recoding, index_interval_bytes=index_interval_bytes))


def run_compact(path: str, config: Mapping[str, str], whole: bool, roll: bool, map_bytes: int, **options: Any) -> int:
    telling = _Telling(path, options, _describe_plan, _describe_change)
    return telling.run(lambda place: compact(path, place, config, whole=whole, roll=roll, map_bytes=map_bytes))


def run_retain(path: str, config: Mapping[str, str], start_offset: int | None, **options: Any) -> int:
    telling = _Telling(path, options, _describe_plan, _describe_change)
    return telling.run(lambda place: retain(path, place, config, start_offset=start_offset))


def run_truncate(path: str, config: Mapping[str, str], to_offset: int, **options: Any) -> int:
    telling = _Telling(path, options, _describe_plan, _describe_change)
    return telling.run(lambda place: truncate(path, to_offset, place, config))


def run_recover(path: str, config: Mapping[str, str], whole: bool, **options: Any) -> int:
    telling = _Telling(path, options, _describe_plan, _describe_change)
    return telling.run(lambda place: recover(path, place, config, whole=whole))


class _Telling:
    """Tells, of each partition, the plan before it is carried out and the result after; asks before records go."""

    def __init__(
        self,
        path: str,
        options: dict[str, Any],
        plan: Callable[[Any], list[str]],
        result: Callable[[Any], list[str]],
    ) -> None:
        self.options = options
        self.plan = plan
        self.result = result
        self.counted = ReadReport()
        self.code = CLEAN
        found = chosen_partitions(path, options["topics"], options["partitions"])
        self.bar = ReadProgress(self.counted, sum(partition.size for partition in found), wanted=not options["quiet"])
        self.failures = Failures(as_json=options["as_json"], before_telling=self.bar.hide)

    def run(self, work: Callable[[Place], Iterable[Result]]) -> int:
        """Do the work; the exit code."""
        announce_compilation()
        chosen = {name: self.options[name] for name in PLACE}
        place = Place(
            **chosen,
            now_ms=self.options.get("now"),
            progress=self._progress,
            on_plan=self._tell_plan,
            may_lose=self._may_lose,
            on_failure=self.failures.add,
        )
        with self.bar:
            for result in work(place):
                if self.options["as_json"]:
                    click.echo(json.dumps(_as_dict(result)))
                elif not self.options["dry_run"]:
                    _say(self.result(result))
                self._note(DAMAGE if isinstance(result, MaintenanceResult) and _was_cut(result) else CLEAN)
        self._note(self.failures.finish())
        return self.code

    def _note(self, code: int) -> None:
        self.code = max(self.code, code)

    def _progress(self, size: int) -> None:
        self.counted.kept_bytes += size
        self.bar.update()

    def _tell_plan(self, result: Any) -> None:
        if not self.options["as_json"]:
            _say(self.plan(result))

    def _may_lose(self, result: MaintenanceResult) -> bool:
        """Whether records may go. Where nobody can be asked, what was asked for may; what damage takes beyond that may not."""
        if self.options.get("yes"):
            return True
        if sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty():
            self.bar.hide()
            is_meant = click.confirm(printable(f"{_name(result)}: delete {_describe_loss(result)} for good?"), err=True)
            self._note(CLEAN if is_meant else USAGE)
            return bool(is_meant)
        if _was_cut(result):
            goes, keep = _describe_loss(result), _salvage_command(result)
            raise UsageError(f"{result.folder}: would delete {goes}; --yes does that, `{keep}` keeps what is intact")
        return True


def _say(lines: list[str]) -> None:
    click.echo("\n".join(map(printable, lines)))  # line by line: a folder's name may hold a line break


def _as_dict(result: ConvertResult | MaintenanceResult) -> dict[str, Any]:
    if isinstance(result, ConvertResult):
        return {**asdict(result), "report": result.report.as_dict()}
    return asdict(result)


def _was_cut(result: MaintenanceResult) -> bool:
    return bool(result.details.get("loses_batches"))


def _name(result: ConvertResult | MaintenanceResult) -> str:
    return f"{result.topic}-{result.partition}" if result.partition >= 0 else result.topic


# convert


def _describe_conversion(result: ConvertResult) -> list[str]:
    formats = ", ".join(f"{count} {name}" for name, count in result.formats.items())
    lines = [f"{_name(result)}: plan: {result.segments} segments, {result.size} bytes, {result.entries} entries ({formats})"]
    lines.append(
        f"  {result.to_encode} to be written anew, {result.to_compress} to be compressed anew, {result.to_keep} to be kept"
    )
    lines += [f"  a tail of {tail.length} bytes is left out: {tail.message}" for tail in result.report.tails]
    if result.new_size:
        lines.append(f"  then {result.new_size} bytes")  # a dry run has made them all
    return lines


def _describe_converted(result: ConvertResult) -> list[str]:
    lines = [f"{_name(result)}: {result.state}, {result.folder}"]
    if result.new_batches:
        lines.append(f"  {result.changed_segments} segments, {result.new_batches} batches, {result.new_size} bytes now")
    return lines


# the others


def _describe_state(state: LogState) -> str:
    offsets = f"offsets {state.start_offset} to {state.end_offset - 1}" if state.end_offset > state.start_offset else "empty"
    return f"{offsets}, {state.segments} segments, {state.size} bytes"


def _describe_loss(result: MaintenanceResult) -> str:
    """Offsets, records and bytes that go."""
    loss = result.loss
    assert loss is not None
    parts = [f"offsets {loss.first_offset} to {loss.last_offset}"]
    if loss.records is not None:
        intact = "intact " if _was_cut(result) else ""
        parts.append(f"{'' if loss.is_exact else 'at most '}{plural(loss.records, f'{intact}record')}")
    return ", ".join([*parts, f"{loss.size} bytes"])


def _salvage_command(result: MaintenanceResult) -> str:
    return f"kafkalog salvage {shlex.quote(result.folder)} --out DIR"


def _describe_plan(result: MaintenanceResult) -> list[str]:
    assert result.before is not None
    lines = [f"{_name(result)}: plan: {result.command}: {_describe_state(result.before)}"]
    details = result.details
    if _was_cut(result):
        lines += _describe_cut(result)
    elif result.cut_bytes:
        lines.append(f"  {result.cut_bytes} bytes, cut off after the last whole batch")
    if "dirty_bytes" in details:
        first, last = details["first_dirty_offset"], details["first_uncleanable_offset"] - 1
        dirty = f"offsets {first} to {last}, {details['dirty_bytes']} bytes"
        lines.append(f"  to be cleaned: {dirty}" if details["dirty_bytes"] else "  nothing to be cleaned")
    if (asked := details.get("asked_offset")) is not None and result.after is not None:
        end = result.after.end_offset
        lines.append(f"  offset {asked} is inside a batch, which goes as a whole: asked for {asked}, the log will end at {end}")
    if result.loss is not None and not _was_cut(result):
        lines.append(f"  deletes {_describe_loss(result)}")
    if changed := details.get("changed_files"):
        lines.append(f"  {len(changed)} files to be rebuilt, cut or removed")
    if result.after is not None:
        lines.append("  nothing to do" if _is_same(result) else f"  then {_describe_state(result.after)}")
    return lines


def _describe_cut(result: MaintenanceResult) -> list[str]:
    """What goes because of damage, and what salvage would keep of it."""
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
    lines = [f"{_name(result)}: {result.state}, {result.folder}"]
    if "records_read" in result.details:
        read, kept = result.details["records_read"], result.details["records_kept"]
        lines.append(f"  {kept} of {read} records kept, in {result.details['passes']} passes")
    if result.after is not None and result.state == "written":
        lines.append(f"  now {_describe_state(result.after)}")
    return lines
