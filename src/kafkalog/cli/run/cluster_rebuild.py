"""The work of `kafkalog cluster rebuild`: the plan, the obstacles, what was written, and how to start it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import click

from kafkalog.errors import StorageError, UsageError
from kafkalog.format.quantities import plural, size_text
from kafkalog.format.shell import path_word
from kafkalog.storage import open_store
from kafkalog.storage.store import SMALL_FILE
from kafkalog.tasks.cluster_rebuild import RebuildOptions, RebuildResult, rebuild_disks
from kafkalog.tasks.cluster_rebuild.disks import read_disks
from kafkalog.tasks.cluster_rebuild.options import read_configs
from kafkalog.tasks.cluster_rebuild.result import KINDS

from ..commands.cluster_rebuild import RebuildRequest
from ..failure import CLEAN, USAGE
from ..render.escape import printable
from ..render.progress import ReadProgress

HEADINGS = {"known": "Known", "lost": "Lost", "chosen": "Chosen"}


def run_cluster_rebuild(request: RebuildRequest) -> int:
    """Rebuild, or show the plan; the exit code."""
    disks = read_disks(request.disks)
    total = sum(partition.size for disk in disks for partition in disk.partitions)
    options = _options(request)
    if request.in_place and not request.dry_run and not request.yes:
        listed = ", ".join(disk.path for disk in disks)
        require_consent(f"--in-place changes {listed}", f"replace the metadata on {listed}?")
    with ReadProgress(total * (2 if request.out and not request.dry_run else 1), wanted=not request.quiet) as bar:
        result = rebuild_disks(disks, request.out, options, progress=bar.advance)
    if request.as_json:
        click.echo(json.dumps(result.as_dict()))
    else:
        click.echo("\n".join(map(printable, _lines(result, request))))
    return USAGE if result.obstacles else CLEAN


def require_consent(what: str, question: str) -> None:
    """UsageError unless the user agrees to a change of disks."""
    if not sys.stdin.isatty():
        raise UsageError(f"{what}; add --yes, or look at the plan first with --dry-run")
    click.confirm(printable(question), err=True, abort=True)


def _options(request: RebuildRequest) -> RebuildOptions:
    return RebuildOptions(
        release=request.release,
        cluster_id=request.cluster_id,
        node=request.node,
        controllers=request.controller,
        metadata=request.metadata,
        configs=read_config_file(request.config) if request.config is not None else {},
        topic_ids=request.topic_id,
        prefer=request.prefer,
        missing_empty=request.missing_empty,
        in_place=request.in_place,
        dry_run=request.dry_run,
    )


def read_config_file(path: str) -> dict[str, dict[str, str]]:
    """The settings by topic that the file of --config gives."""
    try:
        store, place = open_store(path)
        content = store.read_small(place, SMALL_FILE)
    except StorageError as error:
        raise UsageError(f"--config: {error}") from error
    return read_configs(content, path)


def _lines(result: RebuildResult, request: RebuildRequest) -> Iterator[str]:
    counts = plural(len(result.topics), "topic"), plural(len(result.partitions), "partition"), plural(len(result.nodes), "node")
    yield f"cluster {result.cluster_id}: {', '.join(counts)}, {size_text(result.size)} to copy: {result.state}"
    for kind in KINDS:
        if notes := result.notes_of(kind):
            yield ""
            yield f"{HEADINGS[kind]}:"
            yield from (f"  {note}" for note in notes)
    if result.obstacles:
        yield ""
        yield "Nothing is written before this is decided:"
        yield from (f"  {obstacle}" for obstacle in result.obstacles)
    else:
        yield ""
        yield from _next_lines(result, request)


def _next_lines(result: RebuildResult, request: RebuildRequest) -> Iterator[str]:
    """What a user does next: run it without --dry-run, or start the nodes on the new folders."""
    if request.dry_run:
        where = "changes these disks" if request.out is None else f"writes below {path_word(request.out)}"
        yield f"To do it: the same command without --dry-run; it {where}."
        return
    yield "To start it, give each node these log directories, and all controllers in controller.quorum.voters:"
    for node in result.nodes:
        folders = ",".join(each.folder for each in result.directories if each.node == node)
        yield f"  node {node}: log.dirs={folders}"
