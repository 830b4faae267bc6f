"""Transactions as text: partitions, transactions, and the commands that abort open ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafkalog.format.quantities import plural, size_text, span_text
from kafkalog.log.transactions import Transaction
from kafkalog.tasks.transactions import MAX_TRANSACTION_MS, STATES, PartitionTransactions, abort_command, age_ms

from .escape import printable
from .layout import BOLD, RED, Style, grid

PARTITION_HEADS = ("partition", *STATES, "start", "LSO", "end", "behind", "held back by")
TRANSACTION_HEADS = ("partition", "state", "producer", "epoch", "first", "last", "marker", "records", "size", "age", "hanging")


class TransactionPage:
    """The lines of what `kafkalog transactions` found, for one output."""

    def __init__(
        self,
        found: Sequence[PartitionTransactions],
        names: dict[int, str],
        now_ms: int,
        states: Sequence[str],
        server: str,
        style: Style,
    ) -> None:
        self.found = [each for each in found if each.transactions]
        self.all = found
        self.names = names
        self.now_ms = now_ms
        self.states = states
        self.server = server
        self.style = style

    def lines(self) -> Iterator[str]:
        if not self.found:
            yield f"no transactions in {plural(len(self.all), 'partition')}"
            return
        yield from grid(self.style, PARTITION_HEADS, [self._partition(each) for each in self.found], left=frozenset({0, 8}))
        rows = [self._transaction(each, found) for each in self.found for found in each.in_states(self.states)]
        if rows:
            yield ""
            yield from grid(self.style, TRANSACTION_HEADS, rows, left=frozenset({0, 1, 2, 10}))
        yield from self._commands()

    def _partition(self, each: PartitionTransactions) -> tuple[str, ...]:
        holder = each.holder
        counts = (str(count) for count in each.counts.values())
        behind = each.end_offset - each.last_stable_offset
        offsets = map(str, (each.start_offset, each.last_stable_offset, each.end_offset, behind))
        return (_name(each), *counts, *offsets, "-" if holder is None else self._producer(holder))

    def _producer(self, found: Transaction) -> str:
        name = self.names.get(found.producer_id)
        return str(found.producer_id) if name is None else printable(f"{found.producer_id} ({name})")

    def _transaction(self, each: PartitionTransactions, found: Transaction) -> tuple[str, ...]:
        age = age_ms(found, self.now_ms)
        is_open = found.state == "open"
        return (
            _name(each),
            found.state,
            self._producer(found),
            str(found.producer_epoch),
            str(found.first_offset),
            str(found.last_offset),
            "-" if is_open else str(found.marker_offset),
            str(found.record_count),
            size_text(found.size),
            span_text(age),
            "yes" if is_open and age > MAX_TRANSACTION_MS else "",
        )

    def _commands(self) -> Iterator[str]:
        held = [(each, found) for each in self.found for found in each.in_states(("open",))]
        if held:
            yield ""
            yield self.style.paint("to abort open transactions, on a running cluster of Kafka 3.0 or newer", BOLD)
        for each, found in held:
            command = abort_command(each.topic, each.partition, found, self.server)
            yield "  " + self.style.paint(printable(command), RED)


def _name(each: PartitionTransactions) -> str:
    return printable(f"{each.topic}-{each.partition}")
