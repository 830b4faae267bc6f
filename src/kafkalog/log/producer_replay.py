"""Producer state replayed from batch headers, as a broker rebuilds it: the content of a `.snapshot` at the end of the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kafkalog.errors import Limits
from kafkalog.format import batch, control
from kafkalog.format.sequence import last_sequence
from kafkalog.kernels import scan
from kafkalog.kernels.bytes import Ints

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

    def take(self, header: Ints, *, emptied_opens: bool = False) -> None:
        """Go on to this batch. Emptied by the cleaner, a batch opens a transaction only for a broker's recovery."""
        attributes = int(header[scan.ATTRIBUTES])
        if attributes & batch.CONTROL:
            if header[scan.CONTROL_TYPE] in (control.ABORT, control.COMMIT):
                self._take_marker(header)
            return
        self._enter_epoch(int(header[scan.PRODUCER_EPOCH]))
        base, last = int(header[scan.BASE_OFFSET]), int(header[scan.LAST_OFFSET])
        self.last_sequence = last_sequence(int(header[scan.BASE_SEQUENCE]), last - base)
        self.last_offset = last
        self.offset_delta = last - base
        self.last_timestamp_ms = int(header[scan.MAX_TIMESTAMP])
        opens = attributes & batch.TRANSACTIONAL and (emptied_opens or header[scan.COUNT] > 0)
        if opens and self.current_transaction_first_offset == NONE:
            self.current_transaction_first_offset = base

    def _take_marker(self, header: Ints) -> None:
        self._enter_epoch(int(header[scan.PRODUCER_EPOCH]))
        self.coordinator_epoch = int(header[scan.COORDINATOR_EPOCH])
        self.last_timestamp_ms = int(header[scan.MAX_TIMESTAMP])
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
    for _, fields in iter_headers(partition, limits, unread):
        end_offset = int(fields[scan.LAST_OFFSET, -1]) + 1
        for row in np.flatnonzero((fields[scan.PRODUCER_ID] >= 0) & (fields[scan.MAGIC] == 2)).tolist():
            header = fields[:, row]
            producer_id = int(header[scan.PRODUCER_ID])
            states.setdefault(producer_id, ProducerState(producer_id)).take(header)
    return end_offset, [vars(states[producer_id]) for producer_id in sorted(states)]
