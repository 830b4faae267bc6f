"""The work of `kafkalog undelete`, and the list of what was deleted."""

from __future__ import annotations

import json
from collections.abc import Iterable

import click

from kafkalog.format.quantities import plural
from kafkalog.tasks.output import Progress
from kafkalog.tasks.partitions import OnFailure
from kafkalog.tasks.salvage import SalvageOptions, SalvageResult
from kafkalog.tasks.totals import total_undelete
from kafkalog.tasks.undelete import Deleted, find_deleted, undelete_partitions

from ..commands.shared_options import RepairOptions
from ..failure import CLEAN
from ..render.escape import printable
from .repairs import run_repair
from .salvage import describe_salvage, salvage_as_dict


def run_undelete(path: str, out: str | None, repair: RepairOptions) -> int:
    """List what was deleted, or copy it under `out`; the exit code."""
    deleted = find_deleted(path, topics=repair.topics, partitions=repair.partitions)
    if out is None or not deleted:
        _list_deleted(deleted, repair.as_json)
        return CLEAN
    options = SalvageOptions(repair.dry_run, index_interval_bytes=repair.index_interval_bytes)

    def work(progress: Progress, on_failure: OnFailure) -> Iterable[SalvageResult]:
        return undelete_partitions(deleted, out, options, progress=progress, on_failure=on_failure)

    return run_repair(work, sum(each.size for each in deleted), repair, describe_salvage, salvage_as_dict, total_undelete)


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
            facts = f"{plural(len(each.base_offsets), 'segment')}, {each.size} bytes, from offset {row['first_offset']}"
            click.echo(printable(f"{each.topic}-{each.partition}: {each.what}, {facts}, in {each.folder}"))
    if not deleted and not as_json:
        click.echo("nothing deleted is left here: no -delete folders and no .deleted segments")
