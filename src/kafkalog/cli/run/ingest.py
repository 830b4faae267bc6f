"""The work of `kafkalog ingest`: run the pipeline, show progress and a summary."""

from __future__ import annotations

import json
from contextlib import nullcontext

import click

from kafkalog.errors import UsageError
from kafkalog.spark import ingest

from ..commands.ingest import IngestRequest
from ..failure import CLEAN, DAMAGE, INPUT_OUTPUT
from ..render.ingest_summary import printable_summary
from ..render.progress import TaskProgress
from .spark_log import spark_log

MEBIBYTE = 1 << 20
DEFAULT_MASTER = "local[*]"


def run_ingest(request: IngestRequest) -> int:
    """Ingest new records; the exit code."""
    # Settings for Spark ask for Spark.
    master = request.master or (DEFAULT_MASTER if request.conf else None)
    alone = (master or "").startswith("none")
    with nullcontext() if alone else spark_log(), TaskProgress(quiet=request.quiet) as progress:
        summary = ingest(
            request.sources,
            request.target,
            master=master,
            conf={"spark.ui.showConsoleProgress": "false", **request.conf},
            options=_with_topics(request.source_options, request.topics),
            file_bytes=request.file_size * MEBIBYTE,
            on_progress=progress.update,
            notices=progress,
            **request.choices,
        )
    if request.as_json:
        click.echo(json.dumps(summary.as_dict(), indent=2))
    elif not request.quiet:
        click.echo(printable_summary(summary))
    if summary.unreadable:
        return INPUT_OUTPUT
    return DAMAGE if summary.damaged_ranges else CLEAN


def _with_topics(options: dict[str, str], topics: list[str] | None) -> dict[str, str]:
    if not topics:
        return options
    if any(name.lower() == "subscribe" for name in options):
        raise UsageError("--topic and --option subscribe=... mean the same: give only one of them")
    return {**options, "subscribe": ",".join(topics)}
