"""A cluster whose metadata is lost, as log directories that real brokers open: from what the disks of its brokers still say.

disks, copies         what is there, and which copy of each partition ends where
known, coordinators   what is left of the metadata; what the coordinators' topics say
choices, features,    what is decided from it, with reasons
configs
plan, records         all of it, and the records of the new metadata
writing, in_place     the folders, as a copy or on the disks themselves
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from kafkalog.errors import UsageError
from kafkalog.storage import local_path
from kafkalog.storage.fs import Fs, LocalFs

from ..output import Progress
from ..partitions import PathLike
from .disks import Disk, read_disks
from .in_place import change_in_place
from .options import RebuildOptions
from .plan import make_plan
from .result import Note, PlannedCopy, PlannedDirectory, PlannedPartition, RebuildResult
from .writing import write_plan

__all__ = [
    "Note",
    "PlannedCopy",
    "PlannedDirectory",
    "PlannedPartition",
    "RebuildOptions",
    "RebuildResult",
    "cluster_rebuild",
    "rebuild_disks",
    "require_decided",
]


def cluster_rebuild(
    disks: PathLike | Sequence[PathLike],
    out: PathLike | None = None,
    *,
    release: str | None = None,
    cluster_id: str | None = None,
    node: int | None = None,
    controllers: Sequence[int] = (),
    metadata: Sequence[PathLike] = (),
    configs: Mapping[str, Mapping[str, str]] | None = None,
    topic_ids: Mapping[str, str] | None = None,
    prefer: str | None = None,
    missing_empty: bool = False,
    in_place: bool = False,
    dry_run: bool = False,
) -> RebuildResult:
    """Make log directories below `out` that brokers open, from the log directories of a cluster whose metadata is lost.

    The disks are only read; with `in_place`, instead of `out`, their metadata is replaced and folders get their names back, and
    no log is touched. With `node` all disks become one new node; `cluster_id` gives the cluster a new id. UsageError, with all
    obstacles, if something has to be decided first; `dry_run` returns the plan in any case.
    """
    options = RebuildOptions(
        release=release,
        cluster_id=cluster_id,
        node=node,
        controllers=tuple(controllers),
        metadata=tuple(metadata),
        configs=configs or {},
        topic_ids=topic_ids or {},
        prefer=prefer,
        missing_empty=missing_empty,
        in_place=in_place,
        dry_run=dry_run,
    )
    paths = [disks] if isinstance(disks, str | os.PathLike) else disks
    result = rebuild_disks(read_disks(paths), out, options)
    return result if dry_run else require_decided(result)


def rebuild_disks(
    disks: Sequence[Disk],
    out: PathLike | None,
    options: RebuildOptions,
    *,
    fs: Fs | None = None,
    progress: Progress | None = None,
) -> RebuildResult:
    """The result for these disks; with obstacles, or as a dry run, nothing is written."""
    fs, progress = fs or LocalFs(), progress or (lambda size: None)
    if (out is None) != options.in_place:
        raise UsageError("say where the new log directories go: --out DIR, or --in-place to change the disks themselves")
    target = "" if out is None else os.path.abspath(local_path(out))
    if out is not None:
        _require_apart(disks, target)
    plan = make_plan(disks, target, options, fs, progress)
    if options.dry_run or plan.result.obstacles:
        return plan.result
    return change_in_place(plan, fs) if options.in_place else write_plan(plan, target, fs, progress)


def require_decided(result: RebuildResult) -> RebuildResult:
    """The result; UsageError with all obstacles, if there are any."""
    if result.obstacles:
        raise UsageError("nothing was written: " + "; ".join(result.obstacles))
    return result


def _require_apart(disks: Sequence[Disk], out: str) -> None:
    """UsageError if the output would be on one of the disks: a broker does not start with folders that are no partitions."""
    for disk in disks:
        if f"{os.path.realpath(out)}/".startswith(f"{os.path.realpath(disk.path)}/"):
            raise UsageError(f"--out {out}: inside {disk.path}, which is one of the disks; choose a folder outside of it")
