"""How large the columns of a group are made: as the groups before it were, in proportion."""

from __future__ import annotations

from dataclasses import dataclass

from kafkalog.format import batch
from kafkalog.kernels import layout, scan
from kafkalog.kernels.bytes import Ints
from kafkalog.kernels.decode import expect

from .columns import RecordColumns, Room

# A group of about this many bytes is worth its overhead, and one more than it is split.
GROUP_BYTES = 8 << 20
SLACK = 1.125


@dataclass
class Expectation:
    """What came out of a byte of log in the last group: a guess, which only the number of groups depends on."""

    payload: float = 2.0
    keys: float = 0.5
    values: float = 2.0
    headers: float = 0.05
    header_bytes: float = 0.25

    def room(self, fields: Ints, payloads: Ints, first: int, wants: int) -> Room:
        """Room for the payloads from `first` on, or some of them; for that one in any case, if its size is known."""
        total, greatest, records = expect(fields, payloads, first)
        known = int(payloads[layout.STOP, first] - payloads[layout.START, first])
        # The kernel begins a payload only if all of it fits, whatever it is.
        reserve = max(int(greatest * max(self.payload, 1.0)), known)
        scale = min(total * SLACK, GROUP_BYTES / max(self.values, self.keys, self.payload, 1.0))
        most_records = max(int(scale * self.payload) + reserve, GROUP_BYTES) // batch.MIN_RECORD_SIZE
        wants_headers = wants & layout.HEADERS != 0
        return Room(
            records=max(min(records, most_records), known // batch.MIN_RECORD_SIZE + 1),
            key_bytes=int(scale * self.keys) + reserve if wants & layout.KEY else 0,
            value_bytes=int(scale * self.values) + reserve if wants & layout.VALUE else 0,
            headers=int(scale * self.headers) + reserve // layout.LEAST_HEADER if wants_headers else 0,
            header_bytes=int(scale * self.header_bytes) + reserve if wants_headers else 0,
        )

    def learn(self, group: RecordColumns, payloads: Ints) -> None:
        """From a group that was filled from these payloads."""
        stored = max(int(group.window.table[scan.SIZE, payloads[layout.ENTRY]].sum()), 1)
        self.payload = max(int((payloads[layout.STOP] - payloads[layout.START]).sum()), 1) / stored
        used = group.used()
        self.keys, self.values = used.key_bytes / stored, used.value_bytes / stored
        self.headers, self.header_bytes = used.headers / stored, used.header_bytes / stored
