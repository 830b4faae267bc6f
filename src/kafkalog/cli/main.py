"""The `kafkalog` command: its subcommands, and failures turned into exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from kafkalog import __version__

from .commands.append import append
from .commands.cat import cat
from .commands.cluster import cluster
from .commands.cluster_move import cluster_move
from .commands.cluster_rebuild import cluster_rebuild
from .commands.compact import compact
from .commands.convert import convert
from .commands.demo import demo
from .commands.diff import diff
from .commands.dump import dump
from .commands.estimate import estimate
from .commands.explain import explain
from .commands.groups import groups
from .commands.help import Group
from .commands.ingest import ingest
from .commands.ls import ls
from .commands.profile import profile
from .commands.recover import recover
from .commands.reindex import reindex
from .commands.report import report
from .commands.retain import retain
from .commands.salvage import salvage
from .commands.table import table
from .commands.transactions import transactions
from .commands.truncate import truncate
from .commands.undelete import undelete
from .commands.verify import verify
from .failure import CLEAN, report_failure
from .hints import TYPED
from .signals import raised_signals

NAME = "kafkalog"
COMPLETION = "_KAFKALOG_COMPLETE"
# With colorama installed, Numba would write a style reset to every terminal when the process ends.
NUMBA_WITHOUT_COLORS = "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING"

EXAMPLES = (
    "kafkalog ls /var/lib/kafka/data",
    "kafkalog cat /var/lib/kafka/data --topic orders --tail 10",
    "kafkalog verify /var/lib/kafka/data",
    "kafkalog salvage /mnt/broken/data/orders-0 --out rescued",
    "kafkalog append orders.jsonl --to data/orders-0",
    "kafkalog ingest /var/lib/kafka/data /lake/kafka",
)


@click.group(
    name=NAME,
    cls=Group,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    subcommand_metavar="COMMAND ...",
    examples=EXAMPLES,
)
@click.option("--version", "-V", is_flag=True, help="Show the version.")
@click.option("--verbose", is_flag=True, help="With --version: also the versions of libraries, and the C functions in use.")
@click.pass_context
def kafkalog(context: click.Context, version: bool, verbose: bool) -> None:
    """Read, write and repair Kafka's log files without a broker.

    PATH is a log directory (log.dirs), a partition folder, a segment file, or an s3:// URL of any of these. Reading never writes
    to it, and works while a broker is running. `kafkalog COMMAND --help` shows the options and examples of a command.
    """
    if version:
        _show_version(verbose=verbose)
        context.exit()
    if verbose:
        raise click.UsageError("--verbose needs --version: kafkalog --version --verbose", context)
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _show_version(*, verbose: bool) -> None:
    click.echo(f"{NAME}, version {__version__}")
    if verbose:
        from .run.version import version_lines

        click.echo("\n".join(version_lines()))


kafkalog.add_commands("Look", ls, cat, table, dump, explain, transactions, profile, report, estimate)
kafkalog.add_commands("Clusters", cluster, groups)
kafkalog.add_commands("Check", verify, diff)
kafkalog.add_commands("Repair", salvage, reindex, recover, undelete, cluster_rebuild, cluster_move)
kafkalog.add_commands("Write", append, convert, compact, retain, truncate)
kafkalog.add_commands("Pipeline", ingest)
kafkalog.add_commands("Learn", demo)
COMMANDS = tuple(kafkalog.commands.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    TYPED.set(given)
    os.environ.setdefault(NUMBA_WITHOUT_COLORS, "1")
    if COMPLETION in os.environ:
        kafkalog.main(given, prog_name=NAME)
    try:
        with raised_signals():
            code = _invoke(given)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        on_damage = "strict" if _has_option(given, "on_damage") else None
        code = report_failure(error, on_damage=on_damage, skips_io_errors=_has_option(given, "skip_io_errors"))
        _abandon_stdout()
    return code


def _has_option(given: Sequence[str], name: str) -> bool:
    """Whether the command has this option; the advice of an error names no option that it does not have."""
    command = next((kafkalog.commands[word] for word in given if word in kafkalog.commands), None)
    return command is not None and any(option.name == name for option in command.params)


def _invoke(arguments: list[str]) -> int:
    """Like click's own `main`, which would turn a broken pipe into exit code 1."""
    try:
        with kafkalog.make_context(NAME, arguments) as context:
            code = kafkalog.invoke(context)
            return code if isinstance(code, int) else CLEAN
    except click.exceptions.Exit as ended:
        return ended.exit_code


def _abandon_stdout() -> None:
    """Drop text that cannot be written, so that Python does not try again at exit."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
        return
    except OSError:
        pass
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
