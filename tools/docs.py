"""`python -m tools.docs [FOLDER]`: writes the pages of docs/ that are generated from the code."""

from __future__ import annotations

import sys
from pathlib import Path

from kafkalog.cli.commands.help import Context
from kafkalog.cli.main import NAME, kafkalog
from kafkalog.errors import REASONS, SEVERITIES
from kafkalog.log.comparison.difference import DIFFERENCES
from kafkalog.tables.schemas import TABLES, Table

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

Commands, options, choices, paths and the topics at a path complete with the Tab key after one of these lines:

    eval "$(_KAFKALOG_COMPLETE=bash_source kafkalog)"      # bash: into ~/.bashrc
    eval "$(_KAFKALOG_COMPLETE=zsh_source kafkalog)"       # zsh: into ~/.zshrc, after compinit
    _KAFKALOG_COMPLETE=fish_source kafkalog | source       # fish: into ~/.config/fish/config.fish

The first command of a kind after an installation or an upgrade compiles what it needs, which takes a few seconds, and says so on
standard error, unless `--quiet` or `KAFKALOG_NO_NOTICE=1` is given. The result is kept in `~/.cache/kafkalog`, or where
`KAFKALOG_CACHE_DIR` says.
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
    context = Context(kafkalog, info_name=NAME, terminal_width=WIDTH, **kafkalog.context_settings)
    parts = [MADE_BY, "# Command line", CLI_INTRODUCTION.rstrip(), _help_section(NAME, kafkalog.get_help(context))]
    for name, command in sorted(kafkalog.commands.items()):
        inner = Context(command, parent=context, info_name=name, terminal_width=WIDTH)
        parts.append(_help_section(f"{NAME} {name}", command.get_help(inner)))
        for verb_name, verb in sorted(getattr(command, "verbs", {}).items()):
            of_verb = Context(verb, parent=context, info_name=f"{name} {verb_name}", terminal_width=WIDTH)
            parts.append(_help_section(f"{NAME} {name} {verb_name}", verb.get_help(of_verb)))
    return "\n\n".join(parts) + "\n"


def _help_section(title: str, text: str) -> str:
    return f"## {title}\n\n```text\n{text.rstrip()}\n```"


VERIFY_INTRODUCTION = """\
`kafkalog verify PATH` and `kafkalog.verify(path)` check every file of a log against itself and against the others. Nothing is
written, no broker is needed, and one may be running on the same files. What a broker leaves on disk, after a clean shutdown or
not, is not an error; what clients sent and the broker did not check may be one.

    found = kafkalog.verify("/var/lib/kafka/data")
    for finding in found:
        print(finding.severity, finding.reason, finding.file, finding.position, finding.advice)
    print(found.verdict.text, [step.command for step in found.verdict.next_steps])

Also as a table, with the same columns: `kafkalog.open(path).read("findings")`, `kafkalog table findings PATH`,
`spark.read.format("kafkalog").option("table", "findings")`. See [tables.md](tables.md#findings) for the columns.

| what is checked | against what |
|---|---|
| batches and messages | their checksum, their own structure down to every record and header, and what the format can hold |
| offsets, leader epochs | the entries before and after, the segment's name, the next segment, the leader-epoch-checkpoint |
| record offsets, largest timestamps | the batch they are in |
| sequence numbers, epochs of producers | what the producer wrote before |
| `.index`, `.timeindex` | the entries of the segment: every index entry must lead a reader to the right place |
| `.txnindex` | the transactions, replayed: every abort marker, with its first offset and last stable offset |
| `.snapshot` | its checksum, and the producers, replayed up to its offset |
| checkpoints, `partition.metadata`, `meta.properties`, `quorum-state` | their form; offsets beyond the end of the log |
| KRaft snapshots (`.checkpoint`) | as a log, with their first and last control record |
| everything else in the folders | what a broker would do with it: leftovers, orphans, folders that prevent it from starting |

After a wrong checksum or length the check continues with the next intact batch, so one run finds all of the damage. A cleaner
leaves gaps in offsets and sequence numbers; a log counts as compacted if the cleaner-offset-checkpoint names it or if a batch
shows a cleaner's work. A copy of a compacted v0/v1 log without its checkpoint shows neither: its gaps are warnings.

Faults that the bytes cannot show are not reported: a cut between two batches at the very end of the log, a forged batch
with a correct checksum, a wrong offset in a gap of a compacted log, an index that still leads every reader to the right place.
How that was tested is in [damage.md](damage.md).

While a broker is running, a partition with findings whose files have changed since they were listed is checked again, up to
four times, and only findings that recur are reported: a transaction that ends, or a segment that is rolled, cleaned or deleted,
is no finding.

Memory is bounded whatever a file says: about 1.3 GB at the worst, by a batch that decompresses to the limit (256 MiB) in
records of seven bytes, or by index files of 60 MB that are wrong throughout. What asks for more is a finding (`memory-limit`,
`decompressed-limit`), and everything else is still checked. Time is in proportion to what decompresses. The figures are in
[damage.md](damage.md#bombs).

## The verdict

The last lines say what a broker that starts on this folder will do, and the commands to type, with paths filled in:

    verdict: the broker will start, but cut orders-0 at offset 46 (162 intact records lost). The last one did not shut down
      cleanly, so what follows the recovery points is checked. What replicas in sync still have is copied from them.
      before it starts, copy what it would delete:
        kafkalog salvage /var/lib/kafka/data/orders-0 --out rescued

To find out, `verify` loads every partition with findings as Kafka's log loading does ([engine.md](engine.md)), in memory, by the
clean-shutdown file, recovery points and log starts of its log directory. A partition without findings loads as it is. Both are
tested: against the engine on damaged logs of every format, and against what real brokers left of the golden logs.

| the verdict says | when |
|---|---|
| start and lose nothing | nothing is cut, and nothing that is wrong stays |
| cut an unfinished end off | a write that a crash interrupted; no whole batch is lost |
| cut X at offset N | after an unclean shutdown, damage after the recovery point: everything that follows goes, intact or not |
| delete all of X | log-start-offset-checkpoint has it begin after its end |
| not notice the damage in X | after a clean shutdown, or before the recovery point: consumers stop there |
| use the wrong index files of X | the same for indexes: readers miss records or transactions |
| will not start | a folder that belongs to no partition, a file that cannot be read as what it is, damage in what is replayed |
| Not known | a file could not be read here, or KRaft's own snapshots are damaged |

With several log directories a broker goes on without one that has an unreadable file, but not with a folder that belongs to no
partition. `__cluster_metadata` is recovered whole at every start. While a broker is running there is no verdict, nor for an
object store or a single file; for some partitions of a directory it says nothing about the others.

Exit codes: 0 nothing is wrong, 1 there are findings of severity `--fail-on` (default: warning) or worse, 3 all of these are
limits, 4 something could not be read.
"""


def verify_page() -> str:
    """The content of docs/verify.md."""
    rows = [
        f"| `{code}` | {reason.severity} | {reason.about} | {_cell(reason.advice)} |"
        for code, reason in sorted(REASONS.items(), key=lambda item: (SEVERITIES.index(item[1].severity), item[0]))
    ]
    head = ["| code | severity | what it says | what to do next |", "|---|---|---|---|"]
    about = "Codes are never renamed. The severity is the usual one: at the end of a log that was not closed it is info."
    parts = [MADE_BY, "# Verify", VERIFY_INTRODUCTION.rstrip(), "## Reason codes", about, "\n".join([*head, *rows])]
    return "\n\n".join(parts) + "\n"


DIFF_INTRODUCTION = """\
`kafkalog diff A B` and `kafkalog.diff(a, b)` compare two copies: replicas of a partition, a folder and its backup, a topic
before and after `convert`. Each is a partition folder, a segment file, or a log directory, which is compared partition by
partition. Nothing is written, no broker is needed.

    found = kafkalog.diff("broker1/data", "broker2/data")
    for row in found.unexplained:
        print(row.reason, row.topic, row.partition, row.first_offset, row.a, row.b)
    print(found.text, [step.command for step in found.next_steps])

| what | how it is compared |
|---|---|
| batches with the same header on both sides | by their checksums, which are verified on each side |
| offset, length and leader epoch of a batch | themselves: no checksum covers them |
| batches that differ, or are cut differently | record by record: offset, key, value, timestamp, headers, leader epoch, kind |
| segments | not compared: replicas roll them at other offsets |
| indexes, snapshots, checkpoints | not compared: `verify` checks those of each side |

Where both sides have a batch, the first byte in which they differ is named, as a position in both files.

**Compaction.** A topic counts as compacted if the cleaner-offset-checkpoint of one of the log directories names it, if a
batch shows a cleaner's work, or with `--compacted`. Then a record that one side lacks is explained only if that side has a
later record of its key, or if the record is a tombstone, without a key, aborted or a marker, or a later tombstone of its key
is missing too. A record that no cleaner would have removed is `key-lost`. So a lost batch shows in a compacted topic too,
unless all of its keys were written again. A copy of a compacted log without its checkpoint may show no sign of it: then
missing batches are unexplained until `--compacted` says so.

**Which side is right.** `newer` of a partition is the side that a broker would follow: the one with the higher leader epoch
in its batches, then the higher end offset. The leader-epoch-checkpoint does not count, since a leader that wrote nothing
leaves an epoch there.

**A broker at work.** What it appends while `diff` reads is not compared; one side then ends earlier. Segments that it deletes
meanwhile are reported as unreadable: run the command again.

Memory is flat in the size of the logs: headers of what is compared, some windows, and at most 50 MiB for keys. `diff` of two
copies of 1 GiB without a difference takes about half the time of a `verify` of both: 0.93 s and 1.97 s in one interleaved run on
two busy cores (`python -m tests.campaigns.two_copies`).

Exit codes: 0 no difference, or all are explained; 1 one that nothing explains; 3 these are all limits; 4 something could not
be read. The recipe [Which replica is right](recipes/which-replica.md) has it step by step.
"""


def diff_page() -> str:
    """The content of docs/diff.md."""
    rows = [
        f"| `{name}` | {reason.kind} | {reason.explained_by or '**nothing**'} | {_cell(reason.about)} |"
        for name, reason in DIFFERENCES.items()
    ]
    head = ["| reason | kind | explained by | what it says |", "|---|---|---|---|"]
    about = (
        "A damaged batch has the kind `damage` and the reason code of [verify](verify.md#reason-codes): `crc`, `length`, "
        "`offset-order`, …; nothing explains it. The others:"
    )
    parts = [MADE_BY, "# Diff", DIFF_INTRODUCTION.rstrip(), "## Reasons", about, "\n".join([*head, *rows])]
    return "\n\n".join(parts) + "\n"


PAGES = {"tables.md": tables_page, "cli.md": cli_page, "verify.md": verify_page, "diff.md": diff_page}


def main(arguments: list[str]) -> None:
    folder = Path(arguments[0] if arguments else "docs")
    folder.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
