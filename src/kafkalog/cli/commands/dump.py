"""`kafkalog dump`: what Kafka's DumpLogSegments prints, line for line."""

from __future__ import annotations

from dataclasses import dataclass

import click

from .help import Command
from .shared_options import Decorator, choice_option, requested
from .values import Number, complete_path

# Written out here because the task needs NumPy, which no help text should load; a test compares them.
STYLES = ("4.3", "0.8")
DECODERS = (
    "offsets-decoder",
    "transaction-log-decoder",
    "cluster-metadata-decoder",
    "remote-log-metadata-decoder",
    "share-group-state-decoder",
)
STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"

NOTES = """
FILE is a .log, .checkpoint (KRaft), .index, .timeindex, .txnindex or .snapshot file. An index is checked against the .log file in
the same folder; mismatches are listed on standard error after all files.

The output is that of DumpLogSegments of Kafka 4.3, byte for byte, and the exit code is 0 wherever that tool succeeds. Where it
fails with an uncaught exception, dump stops with an error. On a terminal, characters that are not printable are shown as \\x1b.
"""
EXAMPLES = (
    "kafkalog dump --files orders-0/00000000000000000000.log --print-data-log",
    "kafkalog dump --files orders-0/00000000000000000000.index --verify-index-only",
    "kafkalog dump --offsets-decoder --files 00000000000000000000.log",
)


def _file_names(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(value.split(","))
    if not all(names):
        raise click.BadParameter(f"{value!r} has an empty name: write --files FILE,FILE")
    return names


def _decoder_class(name: str, what: str) -> Decorator:
    text = f"Class that decodes {what}: StringDecoder, IntegerDecoder or LongDecoder of org.apache.kafka.tools.api."
    return click.option(f"--{name}-decoder-class", is_flag=False, flag_value=STRING_DECODER, metavar="[CLASS]", help=text)


@dataclass(frozen=True)
class DumpRequest:
    """The options of one `kafkalog dump`."""

    files: tuple[str, ...]
    print_data_log: bool
    deep_iteration: bool
    skip_record_metadata: bool
    verify_index_only: bool
    index_sanity_check: bool
    max_message_size: int | None
    max_bytes: int | None
    key_decoder_class: str | None
    value_decoder_class: str | None
    offsets_decoder: bool
    transaction_log_decoder: bool
    cluster_metadata_decoder: bool
    remote_log_metadata_decoder: bool
    share_group_state_decoder: bool
    style: str

    @property
    def decoder(self) -> str | None:
        """The first decoder that was asked for, in Kafka's order."""
        return next((name for name in DECODERS if getattr(self, name.replace("-", "_"))), None)


@click.command(cls=Command, notes=NOTES, examples=EXAMPLES)
@click.option(
    "--files",
    required=True,
    callback=_file_names,
    metavar="FILE,FILE",
    shell_complete=complete_path,
    help="Files to dump, separated by commas.",
)
@click.option("--print-data-log", is_flag=True, help="Print keys and values too; implied by any decoder.")
@click.option("--deep-iteration", is_flag=True, help="Print records, not only batches; implied by --print-data-log.")
@click.option("--skip-record-metadata", is_flag=True, help="Print only keys and values; control records are left out.")
@click.option("--verify-index-only", is_flag=True, help="Check indexes without printing their entries.")
@click.option("--index-sanity-check", is_flag=True, help="Run only the index check that a broker runs when it starts.")
@click.option(
    "--max-message-size",
    type=Number(0),
    metavar="SIZE",
    help="Largest batch, in bytes, that index entries are checked against; with --style 0.8 the largest message.  "
    "[default: 5242880; none with 0.8]",
)
@click.option("--max-bytes", type=Number(0), metavar="SIZE", help="Read at most this many bytes of each log.")
@_decoder_class("key", "keys")
@_decoder_class("value", "values")
@click.option("--offsets-decoder", is_flag=True, help="Decode records of __consumer_offsets.")
@click.option("--transaction-log-decoder", is_flag=True, help="Decode records of __transaction_state.")
@click.option("--cluster-metadata-decoder", is_flag=True, help="Decode records of __cluster_metadata and KRaft snapshots.")
@click.option("--remote-log-metadata-decoder", is_flag=True, help="Decode records of __remote_log_metadata.")
@click.option("--share-group-state-decoder", is_flag=True, help="Decode records of __share_group_state.")
@choice_option("--style", STYLES, "0.8 prints what the tool of Kafka 0.8 printed, and stops where it stopped.")
@requested(DumpRequest)
def dump(request: DumpRequest) -> int:
    """Print log files exactly as Kafka's kafka-dump-log does."""
    from ..run.dump import write_dump

    return write_dump(request)
