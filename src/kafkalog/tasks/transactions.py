"""Transactions of partitions, their last stable offsets, and which transaction holds each of these back."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkalog.errors import CorruptBatch, KafkaLogError, Limits
from kafkalog.format.html_table import Cell, html_table
from kafkalog.format.quantities import offsets_text, plural, repr_text
from kafkalog.log.batches import read_batches
from kafkalog.log.partition import Partition
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import ReadReport
from kafkalog.log.transactions import Transaction, replay_transactions
from kafkalog.payloads.internal_topics import decode_transaction_state
from kafkalog.tables.choices import Names, Numbers
from kafkalog.tables.logs import Logs, Path, open_logs

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

STATES = ("open", "aborted", "committed")
TRANSACTION_TOPIC = "__transaction_state"
# A broker's transaction.max.timeout.ms: no transaction that its coordinator still knows is older.
MAX_TRANSACTION_MS = 15 * 60 * 1000


@dataclass(frozen=True, repr=False)
class PartitionTransactions:
    """What a partition's headers and markers say. `last_stable_offset` is where a read_committed consumer stops."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    last_stable_offset: int
    transactions: tuple[Transaction, ...]

    def __repr__(self) -> str:
        offsets = offsets_text(self.start_offset, self.end_offset)
        counts = [f"{count} {state}" for state, count in self.counts.items()]
        stable = f"last stable offset {self.last_stable_offset}"
        return repr_text("PartitionTransactions", f"{self.topic}-{self.partition}", offsets, stable, *counts)

    @property
    def counts(self) -> dict[str, int]:
        """How many there are in each state."""
        counts = Counter(found.state for found in self.transactions)
        return {state: counts[state] for state in STATES}

    @property
    def holder(self) -> Transaction | None:
        """The open transaction that begins first: no read_committed consumer reads past it."""
        return min(self.in_states(("open",)), key=lambda found: found.first_offset, default=None)

    def in_states(self, states: Iterable[str]) -> list[Transaction]:
        wanted = set(states)
        return [found for found in self.transactions if found.state in wanted]

    def as_dict(self, names: dict[int, str], now_ms: int, states: Iterable[str], server: str) -> dict[str, Any]:
        """The partition as plain values, for JSON, with its transactions in these states."""
        holder = self.holder
        return {
            "topic": self.topic,
            "partition": self.partition,
            "start_offset": self.start_offset,
            "end_offset": self.end_offset,
            "last_stable_offset": self.last_stable_offset,
            "held_back_by": None if holder is None else holder.producer_id,
            **self.counts,
            "transactions": [self._transaction(found, names, now_ms, server) for found in self.in_states(states)],
        }

    def _transaction(self, found: Transaction, names: dict[int, str], now_ms: int, server: str) -> dict[str, Any]:
        is_open = found.state == "open"
        marker = ("marker_offset", "marker_timestamp_ms", "coordinator_epoch", "last_stable_offset")
        return {
            **{name: None if is_open and name in marker else value for name, value in vars(found).items()},
            "transactional_id": names.get(found.producer_id),
            "age_ms": age_ms(found, now_ms),
            "abort_command": abort_command(self.topic, self.partition, found, server) if is_open else None,
        }


def age_ms(found: Transaction, now_ms: int) -> int:
    """How long an open transaction has lasted, or a finished one did until its marker, by the timestamps of its producer."""
    end = now_ms if found.state == "open" else found.marker_timestamp_ms
    return max(end - found.first_timestamp_ms, 0)


def abort_command(topic: str, partition: int, found: Transaction, server: str) -> str:
    """The shell command that ends an open transaction on a running cluster (Kafka 3.0 and newer)."""
    place = f"--topic {shlex.quote(topic)} --partition {partition} --start-offset {found.first_offset}"
    return f"kafka-transactions.sh --bootstrap-server {shlex.quote(server)} abort {place}"


def read_transactions(
    partitions: Iterable[Partition], report: ReadReport, limits: Limits | None = None
) -> Iterator[PartitionTransactions]:
    """The transactions of each partition, in the order in which they began.

    Whatever could not be read is in the report: a marker may be missing there, so that its transaction looks open.
    """
    options = ReadOptions(frozenset(), on_damage="skip", limits=limits or Limits())
    for partition in partitions:
        replay = replay_transactions(partition, options.limits, ReadReport())
        end = partition.start_offset
        for found in read_batches([partition], options, report):
            end = max(end, int(found.entries.last_offset.max()) + 1)
        first_open = replay.first_open_offset
        yield PartitionTransactions(
            partition.topic,
            partition.partition,
            partition.start_offset,
            end,
            end if first_open is None else first_open,
            tuple(sorted([*replay.finished, *replay.open.values()], key=lambda found: found.first_offset)),
        )


@dataclass(frozen=True, repr=False)
class Transactions:
    """Transactions by partition, and a report of whatever could not be read.

    `transactional_ids` maps producer ids to transactional ids, where partitions of `__transaction_state` are at the same path.
    """

    path: str
    partitions: tuple[PartitionTransactions, ...]
    transactional_ids: dict[int, str]
    report: ReadReport

    def __iter__(self) -> Iterator[PartitionTransactions]:
        return iter(self.partitions)

    def __len__(self) -> int:
        return len(self.partitions)

    def __repr__(self) -> str:
        counts = Counter(found.state for each in self.partitions for found in each.transactions)
        states = [f"{counts[state]} {state}" for state in STATES]
        return repr_text("Transactions", self.path, plural(len(self.partitions), "partition"), *states)

    def _repr_html_(self) -> str:
        heads = ("partition", *STATES, "last stable offset", "end", "held back by")
        return html_table(repr(self), heads, [self._html_row(found) for found in self.partitions])

    def _html_row(self, found: PartitionTransactions) -> list[Cell]:
        oldest = found.holder
        by = None if oldest is None else self.transactional_ids.get(oldest.producer_id, f"producer {oldest.producer_id}")
        return [f"{found.topic}-{found.partition}", *found.counts.values(), found.last_stable_offset, found.end_offset, by]

    @property
    def open(self) -> list[tuple[PartitionTransactions, Transaction]]:
        """The open transactions, each with its partition."""
        return [(each, found) for each in self.partitions for found in each.in_states(("open",))]


def transactions(
    path: Path | Sequence[Path] | Logs,
    *,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    limits: Limits | None = None,
    filesystem: FileSystem | None = None,
) -> Transactions:
    """Committed, aborted and open transactions of each partition at `path`, its last stable offset, and what holds it back.

    Only headers and markers are read, no records.
    """
    logs = path if isinstance(path, Logs) else open_logs(path, filesystem=filesystem)
    report = ReadReport()
    found = tuple(read_transactions(logs.choose(topics, partitions), report, limits))
    return Transactions(logs.path, found, transactional_ids(logs), report)


def transactional_ids(logs: Logs) -> dict[int, str]:
    """Producer id -> transactional id, from partitions of `__transaction_state` at the same path; damage there is skipped."""
    stored = [found for found in logs.partitions if found.topic == TRANSACTION_TOPIC and not found.state]
    names: dict[int, str] = {}
    if not stored:
        return names
    try:
        for batch in Logs(logs.path, stored).read("records", ["key", "value"], on_damage="skip"):
            for key, value in zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True):
                names.update(_producer(key, value))
    except KafkaLogError:
        return names  # the names are a convenience
    return names


def _producer(key: bytes | None, value: bytes | None) -> dict[int, str]:
    if key is None or value is None:
        return {}
    try:
        record = decode_transaction_state(key, value)
    except CorruptBatch:
        return {}
    return {} if record.value is None else {record.value["producerId"]: record.key["transactionalId"]}
