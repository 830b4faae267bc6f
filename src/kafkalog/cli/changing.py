"""The work behind `kafkalog convert`, `compact`, `retain`, `truncate` and `recover`: tell the plan, do it, tell the result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

import click

from kafkalog import codecs
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

from .escape import printable_lines
from .failure import CLEAN, DAMAGE
from .progress import ReadProgress

Result = TypeVar("Result", ConvertResult, MaintenanceResult)
PLACE = ("out", "in_place", "dry_run", "topics", "partitions")


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
    """Tells, of each partition, the plan before it is carried out and the result after."""

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
        found = chosen_partitions(path, options["topics"], options["partitions"])
        self.bar = ReadProgress(self.counted, sum(partition.size for partition in found), wanted=not options["quiet"])

    def run(self, work: Callable[[Place], Iterable[Result]]) -> int:
        """Do the work; the exit code."""
        announce_compilation()
        chosen = {name: self.options[name] for name in PLACE}
        place = Place(**chosen, now_ms=self.options.get("now"), progress=self._progress, on_plan=self._tell_plan)
        code = CLEAN
        with self.bar:
            for result in work(place):
                if self.options["as_json"]:
                    click.echo(json.dumps(_as_dict(result)))
                elif not self.options["dry_run"]:
                    _say(self.result(result))
                code = max(code, DAMAGE if isinstance(result, MaintenanceResult) and _was_cut(result) else CLEAN)
        return code

    def _progress(self, size: int) -> None:
        self.counted.kept_bytes += size
        self.bar.update()

    def _tell_plan(self, result: Any) -> None:
        if not self.options["as_json"]:
            _say(self.plan(result))


def _say(lines: list[str]) -> None:
    click.echo(printable_lines("\n".join(lines)))


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


def _describe_plan(result: MaintenanceResult) -> list[str]:
    assert result.before is not None
    lines = [f"{_name(result)}: plan: {result.command}: {_describe_state(result.before)}"]
    if result.cut_bytes:
        what = "cut off at the first damage" if _was_cut(result) else "cut off behind the last whole batch"
        lines.append(f"  {result.cut_bytes} bytes, {what}")
    details = result.details
    if "dirty_bytes" in details:
        first, last = details["first_dirty_offset"], details["first_uncleanable_offset"] - 1
        dirty = f"offsets {first} to {last}, {details['dirty_bytes']} bytes"
        lines.append(f"  to be cleaned: {dirty}" if details["dirty_bytes"] else "  nothing to be cleaned")
    if changed := details.get("changed_files"):
        lines.append(f"  {len(changed)} files to be made anew, cut or removed")
    if result.after is not None:
        lines.append("  nothing to do" if _is_same(result) else f"  then {_describe_state(result.after)}")
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
