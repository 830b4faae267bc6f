"""The work of `kafkalog convert`, and its plan and result as text."""

from __future__ import annotations

from kafkalog import codecs
from kafkalog.format.quantities import plural
from kafkalog.segment.recode import Recoding
from kafkalog.tasks.convert import ConvertResult, convert_partitions
from kafkalog.tasks.totals import total_convert

from ..commands.convert import ConvertRequest
from .changes import Change, name_of


def run_convert(request: ConvertRequest) -> int:
    """Re-encode the logs; the exit code."""
    codec = None if request.codec is None else codecs.codec_id(request.codec)
    recoding = Recoding(codec, request.level, request.batch_bytes)
    interval = request.index_interval_bytes
    change = Change(request.path, request.change, _describe_conversion, _describe_converted, total_convert)
    return change.run(lambda changes: convert_partitions(request.path, changes, recoding, index_interval_bytes=interval))


def _describe_conversion(result: ConvertResult) -> list[str]:
    formats = ", ".join(f"{count} {name}" for name, count in result.formats.items())
    entries = plural(result.entries, "entry", "entries")
    lines = [f"{name_of(result)}: plan: {plural(result.segments, 'segment')}, {result.size} bytes, {entries} ({formats})"]
    lines.append(f"  {result.to_encode} to re-encode, {result.to_compress} to recompress, {result.to_keep} to keep as they are")
    lines += [f"  a tail of {tail.length} bytes is left out: {tail.message}" for tail in result.report.tails]
    if result.new_size:
        lines.append(f"  then {result.new_size} bytes")  # a dry run has encoded them all
    return lines


def _describe_converted(result: ConvertResult) -> list[str]:
    lines = [f"{name_of(result)}: {result.state}, {result.folder}"]
    if result.new_batches:
        segments, batches = plural(result.changed_segments, "segment"), plural(result.new_batches, "batch", "batches")
        lines.append(f"  {segments}, {batches}, {result.new_size} bytes now")
    return lines
