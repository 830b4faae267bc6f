"""The work of `kafkalog append`: call the task, report the plan and the result."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from kafkalog.format.quantities import plural
from kafkalog.storage.fs import LocalFs
from kafkalog.tasks.append import AppendOptions, AppendResult, Form, Target, append_records, source_file

from ..commands.append import AppendRequest
from ..failure import CLEAN
from ..render.escape import printable
from ..render.progress import ReadProgress

NO_PRODUCER = -1


def run_append(request: AppendRequest) -> int:
    """Append the records; the exit code."""
    sources = [source_file(path, request.source_format, request.encoding) for path in request.sources]
    target = Target.of(request.to, request.topic)
    with ReadProgress(sum(source.size for source in sources), wanted=not request.quiet) as bar:
        result = append_records(sources, target, _options(request), LocalFs(), bar.advance, lambda: bar.say("making it durable"))
    click.echo(json.dumps(asdict(result)) if request.as_json else "\n".join(map(printable, _describe(result))))
    return CLEAN


def _options(request: AppendRequest) -> AppendOptions:
    is_producer = request.idempotent or request.transactional or request.producer_id is not None
    form = Form(
        int(request.magic),
        request.codec,
        request.level,
        request.batch_bytes,
        NO_PRODUCER if request.producer_id is None else request.producer_id,
        request.producer_epoch if is_producer else NO_PRODUCER,
        request.end if request.transactional else None,
        request.leader_epoch,
    )
    return AppendOptions(
        request.now,
        form,
        partitions=request.partitions,
        own_partitions=request.partitioner == "record",
        keep_timestamps=request.timestamps == "record",
        idempotent=request.idempotent,
        config=request.config,
        dry_run=request.dry_run,
        again=request.again,
        only_new=request.only_new,
    )


def _describe(result: AppendResult) -> list[str]:
    lines = [f"{result.topic}: {result.state}, {plural(result.records, 'record')}, in {result.folder}"]
    if result.went_on:
        lines.append("  continued after the batches that an interrupted run had appended")
    lines += [f"  {source}; --again appends it once more" for source in result.appended_before]
    for part in result.partitions:
        new = "new" if part.is_new else "existing"
        offsets = f", offsets {part.first_offset} to {part.end_offset - 1}, {part.size} bytes" if part.end_offset > 0 else ""
        lines.append(f"  partition {part.partition} ({new}): {plural(part.records, 'record')}{offsets}")
    return lines
