"""`kafkalog diff`: what two copies of logs differ in, and what explains it."""

from __future__ import annotations

from dataclasses import dataclass

import click

from .help import Command
from .shared_options import json_option, partition_option, quiet_option, requested, threads_option, topic_option
from .values import complete_path

NOTES = """
Every checksum of both sides is verified. Batches with the same header and checksum are the same bytes; where batches differ, or
are cut differently, their records are compared: offset, key, value, timestamp, headers and leader epoch. Segments may begin at
other offsets, as they do on replicas. Indexes and checkpoints are not compared; verify checks those of each side.

In compacted topics a missing record is explained only if a later record has its key, or if it was a tombstone or aborted. A
topic counts as compacted if a cleaner-offset-checkpoint names it or a batch shows a cleaner's work.

The exit code is 0 if there is no difference or every one is explained, and 1 if there is one that nothing explains.
"""
TERMS = {
    "What explains a difference": {
        "retention": "One side begins later: its first segments were deleted.",
        "DeleteRecords": "The same by a checkpoint of log start offsets.",
        "compaction": "Records that a cleaner removes, and batches that it wrote again.",
        "re-encoding": "The same records in other batches, as convert leaves them.",
        "unfinished tail": "One side ends earlier, and its own checkpoints say nothing else.",
        "placement": "A partition is in one of two log directories of a cluster.",
    }
}
EXAMPLES = (
    "kafkalog diff broker1/orders-0 broker2/orders-0",
    "kafkalog diff /var/lib/kafka/data/orders-0 backup/orders-0 --all",
    "kafkalog diff broker1 broker2 --topic orders --json",
)


@dataclass(frozen=True)
class DiffRequest:
    """The options of one `kafkalog diff`."""

    a: str
    b: str
    topics: list[str] | None
    partitions: list[int] | None
    compacted: bool
    show_all: bool
    threads: int | None
    as_json: bool
    quiet: bool


@click.command(cls=Command, notes=NOTES, terms=TERMS, examples=EXAMPLES)
@click.argument("a", metavar="A", shell_complete=complete_path)
@click.argument("b", metavar="B", shell_complete=complete_path)
@topic_option
@partition_option
@click.option(
    "--compacted", is_flag=True, help="The topics are compacted, though no checkpoint beside these copies and no batch shows it."
)
@click.option("--all", "show_all", is_flag=True, help="Text: show every difference, not only the first five of a kind.")
@threads_option
@json_option("One JSON object per difference, then one with the verdict,")
@quiet_option
@requested(DiffRequest)
def diff(request: DiffRequest) -> int:
    """Compare two replicas, or a folder and its backup.

    A and B are partition folders, log directories (log.dirs; compared partition by partition), segment files, or s3:// URLs of
    these. The verdict says what is different and whether compaction, retention, DeleteRecords or an unfinished tail explains it.
    """
    from ..run.diff import show_differences

    return show_differences(request)
