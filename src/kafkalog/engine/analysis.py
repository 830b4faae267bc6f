"""The first step of an append: check that every entry of the set is whole and intact, and summarise the set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kafkalog import codecs
from kafkalog.errors import CorruptRecord, InvalidRecord, OffsetsOutOfOrder, RecordTooLarge
from kafkalog.format.batch import NO_LEADER_EPOCH, NO_TIMESTAMP
from kafkalog.format.quantities import size_text

from .entries import Buffer, Entry, iter_entries
from .offsets import AppendOrigin

UNKNOWN_OFFSET: Final = -1
MAX_OFFSETS_SHOWN: Final = 10


@dataclass(slots=True)
class AppendInfo:
    """Summary of the entries of a set and, once they are appended, where they went.

    `first_offset` is unknown if the first entry is v0 or v1; use `last_offset_of_first_batch` then. `valid_bytes` excludes an
    incomplete entry at the end, and what a newer leader wrote.
    """

    first_offset: int = UNKNOWN_OFFSET
    last_offset: int = UNKNOWN_OFFSET
    last_offset_of_first_batch: int = UNKNOWN_OFFSET
    last_leader_epoch: int = NO_LEADER_EPOCH
    max_timestamp: int = NO_TIMESTAMP
    log_append_time: int = NO_TIMESTAMP
    log_start_offset: int = UNKNOWN_OFFSET
    source_codec: int = codecs.NONE
    valid_bytes: int = 0
    records_converted: int = 0

    def __repr__(self) -> str:
        epoch = f"epoch {self.last_leader_epoch}"
        return f"AppendInfo(offsets {self.first_offset} to {self.last_offset}, {epoch}, {size_text(self.valid_bytes)})"

    @property
    def first_or_last_offset_of_first_batch(self) -> int:
        return self.last_offset_of_first_batch if self.first_offset == UNKNOWN_OFFSET else self.first_offset

    @property
    def message_count(self) -> int:
        """How many offsets the set takes; 0 if that is not known."""
        if self.first_offset < 0 or self.last_offset < 0:
            return 0
        return self.last_offset - self.first_offset + 1


def analyze(
    data: Buffer, origin: AppendOrigin, leader_epoch: int, *, max_message_bytes: int | None, offsets_assigned: bool
) -> AppendInfo:
    """Summarise the entries of `data`; LogRefusal at one that is damaged, too large or out of order.

    With `max_message_bytes` None any size is accepted. With `offsets_assigned` the offsets are final, so they must rise.
    """
    info = AppendInfo()
    is_first = True
    skips = False
    for entry in iter_entries(data):
        _check_origin(entry, origin, leader_epoch)
        # Entries of an epoch that this follower has not heard of yet.
        skips = skips or (origin is AppendOrigin.REPLICATION and entry.partition_leader_epoch > leader_epoch)
        if skips:
            continue
        last_offset = entry.last_offset
        rises = last_offset > info.last_offset
        if is_first:
            if entry.magic >= 2:
                info.first_offset = entry.base_offset
            info.last_offset_of_first_batch = last_offset
            is_first = False
        info.last_offset = last_offset
        info.last_leader_epoch = entry.partition_leader_epoch
        if max_message_bytes is not None and entry.size > max_message_bytes:
            raise RecordTooLarge(f"a batch of {entry.size} bytes; max.message.bytes is {max_message_bytes}")
        if not entry.is_valid:
            raise CorruptRecord(f"the checksum of the batch at byte {entry.position} does not match its {entry.size} bytes")
        if entry.max_timestamp > info.max_timestamp:
            info.max_timestamp = entry.max_timestamp
        info.valid_bytes += entry.size
        info.source_codec = entry.codec or info.source_codec
        if offsets_assigned and not rises:
            raise OffsetsOutOfOrder(f"offsets do not rise: {describe_offsets(data)}")
    return info


def describe_offsets(data: Buffer) -> str:
    """The first offsets of the records in `data`."""
    offsets = [str(record.offset) for entry in iter_entries(data) for record in entry]
    return ", ".join(offsets[:MAX_OFFSETS_SHOWN]) + (", …" if len(offsets) > MAX_OFFSETS_SHOWN else "")


def _check_origin(entry: Entry, origin: AppendOrigin, leader_epoch: int) -> None:
    if origin is AppendOrigin.RAFT_LEADER and entry.partition_leader_epoch != leader_epoch:
        raise InvalidRecord(f"a batch of epoch {entry.partition_leader_epoch} from the Raft leader of epoch {leader_epoch}")
    if origin is AppendOrigin.CLIENT and entry.magic >= 2 and entry.base_offset != 0:
        raise InvalidRecord(f"a batch of a client must begin at offset 0, and this one begins at {entry.base_offset}")
