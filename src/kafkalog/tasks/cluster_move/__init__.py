"""Single topics of one cluster, moved into another that is stopped: from disks or a backup, with their offsets and topic ids.

target, metadata_log   the other cluster: what it knows, where its partitions lie, and whether its controllers agree
plan                   which copies go where, under which names, and what the metadata gets
writing                the folders, then the metadata of all controllers
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from kafkalog.engine.schedule import SystemClock
from kafkalog.errors import UsageError
from kafkalog.storage.fs import Fs, LocalFs

from ..cluster_rebuild.disks import Disk, read_disks, require_one_cluster
from ..output import Progress
from ..partitions import PathLike
from .options import MoveOptions
from .plan import make_plan
from .result import MovedTopic, MoveResult
from .target import read_target
from .writing import is_done, write_plan

__all__ = ["MoveOptions", "MoveResult", "MovedTopic", "cluster_move", "move_topics"]


def cluster_move(
    disks: PathLike | Sequence[PathLike],
    into: PathLike | Sequence[PathLike],
    topics: str | Sequence[str],
    *,
    names: Mapping[str, str] | None = None,
    replicas: int | None = None,
    metadata: Sequence[PathLike] = (),
    configs: Mapping[str, Mapping[str, str]] | None = None,
    topic_ids: Mapping[str, str] | None = None,
    prefer: str | None = None,
    missing_empty: bool = False,
    dry_run: bool = False,
) -> MoveResult:
    """Put topics of the cluster whose `disks` these are into another one that is stopped, whose log directories are `into`.

    The disks are only read. The partitions are copied into log directories of the other cluster, and its metadata get the topics,
    with their ids. `names` gives topics other names there. UsageError, with all obstacles, if something has to be decided first;
    `dry_run` returns the plan in any case.
    """
    options = MoveOptions(
        topics=(topics,) if isinstance(topics, str) else tuple(topics),
        names=names or {},
        replicas=replicas,
        metadata=tuple(metadata),
        configs=configs or {},
        topic_ids=topic_ids or {},
        prefer=prefer,
        missing_empty=missing_empty,
        dry_run=dry_run,
    )
    result = move_topics(read_disks(_several(disks)), read_disks(_several(into)), options)
    if result.obstacles and not dry_run:
        raise UsageError("nothing was written: " + "; ".join(result.obstacles))
    return result


def _several(paths: PathLike | Sequence[PathLike]) -> Sequence[PathLike]:
    return [paths] if isinstance(paths, str | os.PathLike) else paths


def move_topics(
    sources: Sequence[Disk],
    into: Sequence[Disk],
    options: MoveOptions,
    *,
    fs: Fs | None = None,
    progress: Progress | None = None,
    now_ms: int | None = None,
) -> MoveResult:
    """The result for these disks; with obstacles, or as a dry run, nothing is written."""
    fs, progress = fs or LocalFs(), progress or (lambda size: None)
    require_one_cluster(sources, merged=True)
    plan = make_plan(sources, read_target(into, sources, fs), options, fs, progress)
    if options.dry_run and not plan.result.obstacles and is_done(plan):
        plan.result.state = "already there"
    if options.dry_run or plan.result.obstacles:
        return plan.result
    return write_plan(plan, fs, progress, SystemClock().now_ms() if now_ms is None else now_ms)
