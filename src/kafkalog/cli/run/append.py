"""The work of `kafkalog append`: call the task, report the plan and the result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import click

from kafkalog.kernels._jit import announce_compilation
from kafkalog.log.report import ReadReport
from kafkalog.storage.fs import LocalFs
from kafkalog.tasks.append import AppendOptions, AppendResult, Form, Target, append_records, source_file

from ..failure import CLEAN
from ..render.escape import printable
from ..render.progress import ReadProgress


def run_append(
    sources: list[str],
    *,
    to: str,
    topic: str | None,
    source_format: str | None,
    encoding: str,
    config: Mapping[str, str],
    now: int | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    found = [source_file(path, source_format, encoding) for path in sources]
    target = Target.of(to, topic)
    announce_compilation()
    counted = ReadReport()
    with ReadProgress(counted, sum(source.size for source in found), wanted=not quiet) as bar:

        def progress(size: int) -> None:
            counted.kept_bytes += size
            bar.update()

        def on_written() -> None:
            bar.say("making it durable")

        result = append_records(found, target, _options(config, now, options), LocalFs(), progress, on_written)
    click.echo(json.dumps(asdict(result)) if as_json else "\n".join(map(printable, _describe(result))))
    return CLEAN


def _options(config: Mapping[str, str], now: int | None, options: dict[str, Any]) -> AppendOptions:
    is_producer = options["idempotent"] or options["transactional"] or options["producer_id"] is not None
    form = Form(
        int(options["magic"]),
        options["codec"],
        options["level"],
        options["batch_bytes"],
        -1 if options["producer_id"] is None else options["producer_id"],
        options["producer_epoch"] if is_producer else -1,
        options["end"] if options["transactional"] else None,
        options["leader_epoch"],
    )
    return AppendOptions(
        now,
        form,
        partitions=options["partitions"],
        own_partitions=options["partitioner"] == "record",
        keep_timestamps=options["timestamps"] == "record",
        idempotent=options["idempotent"],
        config=config,
        dry_run=options["dry_run"],
        again=options["again"],
        only_new=options["only_new"],
    )


def _describe(result: AppendResult) -> list[str]:
    lines = [f"{result.topic}: {result.state}, {result.records} records, in {result.folder}"]
    if result.went_on:
        lines.append("  continued after what an interrupted run had appended")
    lines += [f"  {source}; --again appends it once more" for source in result.appended_before]
    for part in result.partitions:
        new = "new" if part.is_new else "existing"
        offsets = f", offsets {part.first_offset} to {part.end_offset - 1}, {part.size} bytes" if part.end_offset > 0 else ""
        lines.append(f"  partition {part.partition} ({new}): {part.records} records{offsets}")
    return lines
