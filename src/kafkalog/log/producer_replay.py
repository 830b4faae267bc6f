"""Producer state replayed from batch headers, as a broker rebuilds it: the content of a `.snapshot` at the end of the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafkalog.errors import Limits
from kafkalog.format import batch, control
from kafkalog.format.batch import last_sequence
from kafkalog.format.entry_table import EntryHeader

from .headers import iter_headers
from .partition import Partition
from .report import ReadReport

NONE = -1


@dataclass
class ProducerState:
    """The last thing that a producer wrote; sequence and offset are -1 when only a marker is left of it."""

    producer_id: int
    producer_epoch: int = NONE
    last_sequence: int = NONE
    last_offset: int = NONE
    offset_delta: int = 0
    last_timestamp_ms: int = NONE
    coordinator_epoch: int = NONE
    current_transaction_first_offset: int = NONE

    def take(self, header: EntryHeader, *, emptied_opens: bool = False) -> None:
        """Go on to this batch. Emptied by the cleaner, a batch opens a transaction only for a broker's recovery."""
        attributes = header.attributes
        if attributes & batch.CONTROL:
            if header.control_type in (control.ABORT, control.COMMIT):
                self._take_marker(header)
            return
        self._enter_epoch(header.producer_epoch)
        base, last = header.base_offset, header.last_offset
        self.last_sequence = last_sequence(header.base_sequence, last - base)
        self.last_offset = last
        self.offset_delta = last - base
        self.last_timestamp_ms = header.max_timestamp
        opens = attributes & batch.TRANSACTIONAL and (emptied_opens or header.record_count > 0)
        if opens and self.current_transaction_first_offset == NONE:
            self.current_transaction_first_offset = base

    def _take_marker(self, header: EntryHeader) -> None:
        self._enter_epoch(header.producer_epoch)
        self.coordinator_epoch = header.coordinator_epoch
        self.last_timestamp_ms = header.max_timestamp
        self.current_transaction_first_offset = NONE

    def _enter_epoch(self, epoch: int) -> None:
        if epoch != self.producer_epoch:
            self.producer_epoch = epoch
            self.last_sequence = self.last_offset = NONE
            self.offset_delta = 0


def replay_producers(partition: Partition, limits: Limits, unread: ReadReport | None = None) -> tuple[int, list[dict[str, Any]]]:
    """(the offset behind the last entry, every producer's state there, by producer id). Nothing expires in a replay."""
    states: dict[int, ProducerState] = {}
    end_offset = 0
    for _, entries in iter_headers(partition, limits, unread):
        end_offset = int(entries.last_offset[-1]) + 1
        for header in entries[(entries.producer_id >= 0) & (entries.magic == 2)]:
            producer_id = header.producer_id
            states.setdefault(producer_id, ProducerState(producer_id)).take(header)
    return end_offset, [vars(states[producer_id]) for producer_id in sorted(states)]
