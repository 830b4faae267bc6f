"""The work of `kafkalog table`: open, read, write."""

from __future__ import annotations

from contextlib import closing

import kafkalog
from kafkalog.errors import UsageError
from kafkalog.log.report import ReadReport
from kafkalog.tables.schemas import CLUSTER_TABLES, METADATA_TABLES, TABLES

from ..commands.table import TableRequest
from ..commands.values import require_known
from ..render.writers import open_writer
from .rows import Output, write_batches

# An option that has no meaning for a table is refused: a table that ignored it would look like an answer.
ONLY_RECORDS = ("start_time", "stop_time", "isolation", "include_control", "neighbours")
ONLY_RECORDS_AND_BATCHES = ("start_offset", "stop_offset", "allow_disorder", "skip_io_errors")
RECORDS_AND_BATCHES = ("records", "batches")
NOT_GIVEN = (None, False, "read_uncommitted")


def write_table(request: TableRequest) -> int:
    """Write the requested table; the exit code."""
    _check(request)
    rows, choices = request.rows, request.choices
    output = Output(rows, choices["on_damage"], skips_io_errors=request.name in RECORDS_AND_BATCHES)
    output.check()
    logs = kafkalog.open(request.paths, topic_ids=request.topic_ids)
    # The topics of a cluster's table need not be on these disks.
    is_cluster = request.name in CLUSTER_TABLES
    partitions = [] if is_cluster else logs.choose(choices["topics"], choices["partitions"])
    report = ReadReport()
    reader = logs.read(
        request.name,
        request.columns,
        **choices,
        text=rows.text,
        text_errors=rows.text_errors,
        at=request.at,
        report=report,
    )
    with closing(reader):
        schema = reader.schema
        return write_batches(
            output,
            iter(reader),
            lambda sink: open_writer(rows.format, sink, schema, rows.encoding, csv_safe=rows.csv_safe),
            report,
            sum(found.size for found in partitions),
        )


def _check(request: TableRequest) -> None:
    kind = TABLES[request.name]
    known = [column.name for column in kind.columns]
    for name in request.columns or ():
        require_known(f"column of {request.name}", name, known)
    if request.at is not None and request.name not in METADATA_TABLES:
        raise UsageError(f"--at has no meaning for {request.name}; it works on {', '.join(METADATA_TABLES)}")
    for names, tables in ((ONLY_RECORDS, ("records",)), (ONLY_RECORDS_AND_BATCHES, RECORDS_AND_BATCHES)):
        for name in names:
            if request.choices.get(name) not in NOT_GIVEN and request.name not in tables:
                option = "--" + name.replace("_", "-")
                raise UsageError(f"{option} has no meaning for {request.name}; it works on {' and '.join(tables)}")
