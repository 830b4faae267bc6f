"""How large the columns of a group are made: as the groups before it were, in proportion.

That is a guess, and nothing that a file says may make it large: a payload that turns out to be larger is given its exact room.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkalog.format import batch
from kafkalog.format.entry_table import EntryTable
from kafkalog.kernels import layout
from kafkalog.kernels.bytes import Ints
from kafkalog.kernels.decode import expect
from kafkalog.kernels.decode_messages import MIN_INNER_ENTRY

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

    def room(self, entries: EntryTable, payloads: Ints, first: int, wants: int) -> Room:
        """Room for the payloads from `first` on, or some of them; for that one in any case, if its size is known."""
        total, greatest, records = expect(entries.fields, payloads, first)
        known_records, known = _known(entries, payloads, first)
        # The kernel begins a payload only if all of it fits, whatever it is.
        reserve = max(min(int(greatest * max(self.payload, 1.0)), GROUP_BYTES), known)
        scale = min(total * SLACK, GROUP_BYTES / max(self.values, self.keys, self.payload, 1.0))
        most_records = max(int(scale * self.payload) + min(reserve, GROUP_BYTES), GROUP_BYTES) // batch.MIN_RECORD_SIZE
        wants_headers = wants & layout.HEADERS != 0
        return Room(
            records=max(min(records, most_records), known_records),
            key_bytes=int(scale * self.keys) + reserve if wants & layout.KEY else 0,
            value_bytes=int(scale * self.values) + reserve if wants & layout.VALUE else 0,
            headers=int(scale * self.headers) + reserve // layout.LEAST_HEADER if wants_headers else 0,
            header_bytes=int(scale * self.header_bytes) + reserve if wants_headers else 0,
        )

    def learn(self, group: RecordColumns, payloads: Ints) -> None:
        """From a group that was filled from these payloads."""
        stored = max(int(group.window.table.size[payloads[layout.ENTRY]].sum()), 1)
        self.payload = max(int((payloads[layout.STOP] - payloads[layout.START]).sum()), 1) / stored
        used = group.used()
        self.keys, self.values = used.key_bytes / stored, used.value_bytes / stored
        self.headers, self.header_bytes = used.headers / stored, used.header_bytes / stored


def least_room(entries: EntryTable, payloads: Ints, number: int, wants: int) -> Room:
    """What the payload needs by itself, if it is decompressed or never was compressed; less than that if it is not yet."""
    records, content = _known(entries, payloads, number)
    return Room(
        records=records,
        key_bytes=content if wants & layout.KEY else 0,
        value_bytes=content if wants & layout.VALUE else 0,
        headers=content // layout.LEAST_HEADER if wants & layout.HEADERS else 0,
        header_bytes=content if wants & layout.HEADERS else 0,
    )


def _known(entries: EntryTable, payloads: Ints, number: int) -> tuple[int, int]:
    """(records, bytes of their contents) that a payload holds at most, if it is decompressed or never was compressed."""
    entry = int(payloads[layout.ENTRY, number])
    size = int(payloads[layout.STOP, number] - payloads[layout.START, number])
    if entries.magic[entry] < 2:
        return size // MIN_INNER_ENTRY + 1, size
    count = min(max(int(entries.record_count[entry]), 0), size // batch.MIN_RECORD_SIZE)
    return count + 1, size - count * layout.LEAST_FRONT
