"""The work of `kafkalog cluster move`: the plan, the obstacles, and what was moved where."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click

from kafkalog.format.quantities import plural, size_text
from kafkalog.format.shell import path_word
from kafkalog.tasks.cluster_move import MoveOptions, MoveResult, move_topics
from kafkalog.tasks.cluster_rebuild.disks import read_disks
from kafkalog.tasks.cluster_rebuild.result import KINDS

from ..commands.cluster_move import MoveRequest
from ..failure import CLEAN, USAGE
from ..render.escape import printable
from ..render.progress import ReadProgress
from .cluster_rebuild import HEADINGS, read_config_file, require_consent

ALREADY_THERE = "already there"


def run_cluster_move(request: MoveRequest) -> int:
    """Move topics, or show the plan; the exit code."""
    sources, into = read_disks(request.disks), read_disks(request.into)
    options = MoveOptions(
        topics=request.topics,
        names=request.names,
        replicas=request.replicas,
        metadata=request.metadata,
        configs=read_config_file(request.config) if request.config is not None else {},
        topic_ids=request.topic_id,
        prefer=request.prefer,
        missing_empty=request.missing_empty,
        dry_run=request.dry_run,
    )
    if not request.dry_run and not request.yes:
        listed = ", ".join(disk.path for disk in into)
        require_consent(f"a move changes {listed}", f"add topics to the cluster on {listed}?")
    total = sum(partition.size for disk in sources for partition in disk.partitions if partition.topic in request.topics)
    with ReadProgress(total * (1 if request.dry_run else 2), wanted=not request.quiet) as bar:
        result = move_topics(sources, into, options, progress=bar.advance)
    if request.as_json:
        click.echo(json.dumps(result.as_dict()))
    else:
        click.echo("\n".join(map(printable, _lines(result, request))))
    return USAGE if result.obstacles else CLEAN


def _lines(result: MoveResult, request: MoveRequest) -> Iterator[str]:
    counts = plural(len(result.topics), "topic"), plural(len(result.partitions), "partition")
    yield f"into cluster {result.cluster_id}: {', '.join(counts)}, {size_text(result.size)} to copy: {result.state}"
    for topic in result.topics:
        of_it = [each for each in result.partitions if each.topic == topic.topic]
        name = topic.source if topic.source == topic.topic else f"{topic.source} as {topic.topic}"
        nodes = ", ".join(map(str, sorted({node for each in of_it for node in each.replicas})))
        replicas = plural(max(len(each.replicas) for each in of_it), "replica")
        yield f"  {name}, topic id {topic.topic_id}: {plural(len(of_it), 'partition')}, {replicas}, on node {nodes}"
    for kind in KINDS:
        if notes := result.notes_of(kind):
            yield ""
            yield f"{HEADINGS[kind]}:"
            yield from (f"  {note}" for note in notes)
    yield ""
    if result.obstacles:
        yield "Nothing is written before this is decided:"
        yield from (f"  {obstacle}" for obstacle in result.obstacles)
    elif request.dry_run and result.state != ALREADY_THERE:
        where = f"from offset {result.metadata_offset} on, in epoch {result.metadata_epoch}"
        controllers = plural(len(result.metadata), "controller")
        yield f"The metadata of {controllers} would get {plural(result.record_count, 'record')} {where}."
        yield "To do it: the same command without --dry-run; it changes the disks after --into."
    else:
        yield "The cluster knows the topics when it is started. What is on its disks now:"
        yield f"  kafkalog cluster {' '.join(map(path_word, request.into))}"
