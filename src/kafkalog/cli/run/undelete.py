"""The work of `kafkalog undelete`, and the list of what was deleted."""

from __future__ import annotations

import json
from collections.abc import Iterable

import click

from kafkalog.tasks.journal import SalvageResult
from kafkalog.tasks.output import Progress
from kafkalog.tasks.partitions import OnFailure
from kafkalog.tasks.salvage import SalvageOptions
from kafkalog.tasks.undelete import Deleted, find_deleted, undelete_partitions

from ..failure import CLEAN
from ..render.escape import printable
from .repairs import describe_salvage, run_repair, salvage_as_dict


def run_undelete(
    path: str,
    out: str | None,
    *,
    topics: list[str] | None,
    partitions: list[int] | None,
    dry_run: bool,
    index_interval_bytes: int | None,
    as_json: bool,
    quiet: bool,
) -> int:
    deleted = find_deleted(path, topics=topics, partitions=partitions)
    if out is None or not deleted:
        _list_deleted(deleted, as_json)
        return CLEAN
    options = SalvageOptions(dry_run, index_interval_bytes=index_interval_bytes)

    def work(progress: Progress, on_failure: OnFailure) -> Iterable[SalvageResult]:
        return undelete_partitions(deleted, out, options, progress=progress, on_failure=on_failure)

    return run_repair(work, sum(each.size for each in deleted), quiet, as_json, describe_salvage, salvage_as_dict)


def _list_deleted(deleted: list[Deleted], as_json: bool) -> None:
    for each in deleted:
        row = {
            "what": each.what,
            "topic": each.topic,
            "partition": each.partition,
            "segments": len(each.base_offsets),
            "bytes": each.size,
            "first_offset": each.base_offsets[0],
            "folder": each.folder,
        }
        if as_json:
            click.echo(json.dumps(row))
        else:
            facts = f"{row['segments']} segments, {each.size} bytes, from offset {row['first_offset']}"
            click.echo(printable(f"{each.topic}-{each.partition}: {each.what}, {facts}, in {each.folder}"))
    if not deleted and not as_json:
        click.echo("found nothing deleted here: no -delete folders and no .deleted segments")
