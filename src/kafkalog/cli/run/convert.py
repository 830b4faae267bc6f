"""The work of `kafkalog convert`, and its plan and result as text."""

from __future__ import annotations

from typing import Any

from kafkalog import codecs
from kafkalog.segment.recode import Recoding
from kafkalog.tasks.convert import ConvertResult, convert_partitions

from .changes import Change, name_of


def run_convert(
    path: str, codec: str | None, level: int | None, batch_bytes: int | None, index_interval_bytes: int | None, **options: Any
) -> int:
    """Re-encode the logs; the exit code."""
    recoding = Recoding(None if codec is None else codecs.codec_id(codec), level, batch_bytes)
    change = Change(path, options, _describe_conversion, _describe_converted)
    return change.run(lambda request: convert_partitions(path, request, recoding, index_interval_bytes=index_interval_bytes))


def _describe_conversion(result: ConvertResult) -> list[str]:
    formats = ", ".join(f"{count} {name}" for name, count in result.formats.items())
    lines = [f"{name_of(result)}: plan: {result.segments} segments, {result.size} bytes, {result.entries} entries ({formats})"]
    lines.append(f"  {result.to_encode} to re-encode, {result.to_compress} to recompress, {result.to_keep} to keep as they are")
    lines += [f"  a tail of {tail.length} bytes is left out: {tail.message}" for tail in result.report.tails]
    if result.new_size:
        lines.append(f"  then {result.new_size} bytes")  # a dry run has made them all
    return lines


def _describe_converted(result: ConvertResult) -> list[str]:
    lines = [f"{name_of(result)}: {result.state}, {result.folder}"]
    if result.new_batches:
        lines.append(f"  {result.changed_segments} segments, {result.new_batches} batches, {result.new_size} bytes now")
    return lines
