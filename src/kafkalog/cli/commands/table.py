"""`kafkalog table`: any table of a log, in any format."""

from __future__ import annotations

from dataclasses import dataclass

import click

from .help import PATHS_TEXT, Command
from .shared_options import (
    ReadChoices,
    RowOptions,
    at_option,
    paths_argument,
    read_options,
    requested,
    row_options,
    topic_id_option,
)
from .values import parse_names, require_known

# Written out here because the schemas need Arrow, which no help text should load; a test compares them.
TABLES = (
    *("records", "batches", "segments", "index_entries", "transactions", "producers", "epochs", "findings"),
    *("topics", "configs", "acls", "brokers", "quotas", "credentials", "features"),
    *("groups", "group_offsets", "offset_commits"),
)

TERMS = {
    "Tables": {
        "records": "What a consumer would see.",
        "batches": "Batches and v0/v1 entries as stored, from their headers.",
        "segments": "Segment files and leftovers.",
        "index_entries": "Entries of .index, .timeindex and .txnindex files.",
        "transactions": "Committed, aborted and open transactions.",
        "producers": "Producer state, from .snapshot files and replayed.",
        "epochs": "Leader epochs, from the checkpoint and from batches.",
        "findings": "The findings of `kafkalog verify`.",
    },
    "Tables of a whole cluster": {
        "topics": "Topics and partitions with leaders, replicas and isr, from the newest metadata at PATH.",
        "configs": "Settings that differ from the default; passwords are null.",
        "acls": "Access control entries.",
        "brokers": "Registered brokers.",
        "quotas": "Client quotas.",
        "credentials": "Users with SCRAM credentials, without the secrets.",
        "features": "Feature levels.",
        "groups": "Groups of consumers, from __consumer_offsets.",
        "group_offsets": "Committed offsets, with the lag of each.",
        "offset_commits": "Every commit that is still there, also aborted and pending ones.",
    },
    "Formats": {
        "text": "For people: aligned columns, shortened to the width of a terminal. Characters that are not printable are "
        'escaped (\\x1b); null and "" stand for null and empty.',
        "json": "JSON lines. With --encoding utf8, bytes are a string if they are valid UTF-8, else "
        '{"base64": "..."}: nothing is lost.',
        "csv": 'RFC 4180. A null is an empty field, an empty value is ""; headers are JSON. With --encoding utf8, bytes that are '
        "not valid UTF-8 become \\xNN; hex and base64 keep them exactly. Spreadsheets run text that starts with = + - @ as a "
        "formula: use --csv-safe for those.",
        "arrow": "Arrow's IPC stream, with the types of the table.",
        "parquet": "Parquet, with the types of the table.",
    },
}
EXAMPLES = (
    "kafkalog table batches orders-0 --columns position,size,codec,crc_valid",
    "kafkalog table records data --topic orders --start-time 2026-01-31T00:00:00Z",
    "kafkalog table records orders-0 --format parquet --output orders.parquet",
)


@dataclass(frozen=True)
class TableRequest:
    """The options of one `kafkalog table`."""

    name: str
    paths: tuple[str, ...]
    topic_ids: list[str] | None
    columns: tuple[str, ...] | None
    at: int | None
    choices: ReadChoices
    rows: RowOptions


def complete_table(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in TABLES if name.startswith(incomplete)]


@click.command(
    cls=Command,
    help=f"Print any table of a log: batches, segments, indexes and more.\n\n{PATHS_TEXT}",
    terms=TERMS,
    examples=EXAMPLES,
)
@click.argument("name", metavar="TABLE", shell_complete=complete_table)
@paths_argument
@topic_id_option
@click.option("--columns", callback=parse_names, metavar="A,B", help="Columns, in this order; docs/tables.md lists them.")
@at_option
@read_options
@row_options
@requested(TableRequest)
def table(request: TableRequest) -> int:
    require_known("table", request.name, TABLES)
    from ..run.table import write_table

    return write_table(request)
