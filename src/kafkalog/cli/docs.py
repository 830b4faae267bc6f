"""`python -m kafkalog.cli.docs [FOLDER]`: writes docs/tables.md and docs/cli.md from the code, so that they cannot differ."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from kafkalog.tables.schemas import TABLES, Table

from .main import NAME, kafkalog

WIDTH = 100
MADE_BY = "<!-- Made by `make docs` from the code; edit that instead. -->"

TABLES_INTRODUCTION = """\
Everything in a log directory is a row of one of these tables. The Python API (`kafkalog.open(path).read(table, columns=[…])`)
and the command line (`kafkalog table TABLE PATH --columns …`) share the names of tables and columns. Types are Arrow's. Columns
marked "on request" are there only when they are named; a read does no more work than its columns need.
"""

CLI_INTRODUCTION = """\
The same text as `--help` shows. Rows go to standard output, everything else to standard error. File names, keys, values and
messages come from logs that anyone may have written to, so characters that are not printable are always shown escaped
(`\\x1b`, `\\u202e`), in text and JSON everywhere, in CSV on a terminal.
"""


def tables_page() -> str:
    """The content of docs/tables.md."""
    parts = [
        MADE_BY,
        "# Tables",
        TABLES_INTRODUCTION.rstrip(),
        _overview(),
        *(_table_section(table) for table in TABLES.values()),
    ]
    return "\n\n".join(parts) + "\n"


def _overview() -> str:
    rows = [f"| [`{table.name}`](#{table.name}) | {table.row} | {table.needs} |" for table in TABLES.values()]
    return "\n".join(["| table | one row per | what it has to read |", "|---|---|---|", *rows])


def _table_section(table: Table) -> str:
    rows = [
        f"| `{column.name}` | {_cell(str(column.type))} | {'' if column.default else 'on request'} | {_cell(column.about)} |"
        for column in table.columns
    ]
    head = ["| column | type | | about |", "|---|---|---|---|"]
    return "\n".join([f"## {table.name}", "", f"One row per {table.row}.", "", *head, *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def cli_page() -> str:
    """The content of docs/cli.md."""
    context = click.Context(kafkalog, info_name=NAME, terminal_width=WIDTH, **kafkalog.context_settings)
    parts = [MADE_BY, "# Command line", CLI_INTRODUCTION.rstrip(), _help_section(NAME, kafkalog.get_help(context))]
    for name, command in sorted(kafkalog.commands.items()):
        inner = click.Context(command, parent=context, info_name=name, terminal_width=WIDTH)
        parts.append(_help_section(f"{NAME} {name}", command.get_help(inner)))
    return "\n\n".join(parts) + "\n"


def _help_section(title: str, text: str) -> str:
    return f"## {title}\n\n```text\n{text.rstrip()}\n```"


PAGES = {"tables.md": tables_page, "cli.md": cli_page}


def main(arguments: list[str]) -> None:
    folder = Path(arguments[0] if arguments else "docs")
    folder.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
