"""`kafkalog demo`: what kafkalog does, shown on a disk that it makes."""

from __future__ import annotations

import click

from kafkalog.errors import UsageError

from .help import Command
from .values import complete_path

NOTES = """
The disk is the log directory of a broker whose power failed: a healthy topic (orders), one with a flipped bit (clicks), one with
a transaction that nobody ends (payments), one in formats of Kafka 0.8 to 0.11 (audit), and one that was deleted (refunds).
Each step is a command, two lines of why, and what it writes. Steps that need Spark are left out where PySpark or Java is missing.
"""
EXAMPLES = (
    "kafkalog demo --make disk",
    "kafkalog demo --keep tour",
)


@click.command(cls=Command, notes=NOTES, examples=EXAMPLES)
@click.option(
    "--make", metavar="FOLDER", shell_complete=complete_path, help="Only make the sample disk, as the log directory FOLDER."
)
@click.option(
    "--keep", metavar="FOLDER", shell_complete=complete_path, help="Show everything in FOLDER, which stays; disk is in it."
)
def demo(make: str | None, keep: str | None) -> int:
    """Show what kafkalog does, on a disk that it makes.

    Takes a minute or two. Without an option everything happens in a temporary folder, of which nothing is left.
    """
    if make is not None and keep is not None:
        raise UsageError("--make and --keep exclude each other: --keep makes the disk too, as FOLDER/disk")
    from ..run.demo import make_sample, show_demo

    return make_sample(make) if make is not None else show_demo(keep)
