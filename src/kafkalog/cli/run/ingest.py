"""The work of `kafkalog ingest`: run the pipeline, show its progress and its summary."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import click

from kafkalog.errors import UsageError
from kafkalog.spark import ingest

from ..failure import CLEAN, DAMAGE, INPUT_OUTPUT
from ..render.ingest_summary import printable_summary
from ..render.task_progress import TaskProgress
from .spark_log import spark_log

MEBIBYTE = 1 << 20
DEFAULT_MASTER = "local[*]"


def run_ingest(
    sources: tuple[str, ...],
    target: str,
    *,
    topics: tuple[str, ...],
    source_options: dict[str, str],
    file_size: int,
    schema: str | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Ingest what is new; the exit code."""
    # Whoever has settings for Spark wants Spark.
    options["master"] = options["master"] or (DEFAULT_MASTER if options["conf"] else None)
    alone = (options["master"] or "").startswith("none")
    with nullcontext() if alone else spark_log(), TaskProgress(quiet=quiet) as progress:
        summary = ingest(
            sources,
            target,
            options=_with_topics(source_options, topics),
            file_bytes=file_size * MEBIBYTE,
            schema=schema,
            on_progress=progress.update,
            notices=progress,
            **{**options, "conf": {"spark.ui.showConsoleProgress": "false", **options["conf"]}},
        )
    if as_json:
        click.echo(json.dumps(summary.as_dict(), indent=2))
    elif not quiet:
        click.echo(printable_summary(summary))
    if summary.unreadable:
        return INPUT_OUTPUT
    return DAMAGE if summary.damaged_ranges else CLEAN


def _with_topics(options: dict[str, str], topics: tuple[str, ...]) -> dict[str, str]:
    if not topics:
        return options
    if any(name.lower() == "subscribe" for name in options):
        raise UsageError("--topic and --option subscribe=... mean the same: give one of the two")
    return {**options, "subscribe": ",".join(topics)}
