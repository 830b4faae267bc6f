"""Random logs of every format, and random damage to them."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from kafkalog.format.control import EndTxnMarker, encode_end_txn_marker
from kafkalog.format.names import MAX_OFFSET
from kafkalog.format.reference import (
    Record,
    encode_batch,
    encode_control_batch,
    encode_empty_batch,
    encode_message,
    encode_wrapper,
)
from tests.property.oracle import compress, joined_entry, sealed, sealed_messages, split_entry

MAX_TIMESTAMP = 2**63 - 2  # one more, and the difference to -1 would not fit a varlong
REMOVED = 4  # offsets that compaction removed from the end of a batch

CONTENT = st.none() | st.binary(max_size=40) | st.integers(100, 700).map(lambda size: b"a" * size)
HEADERS = st.lists(st.tuples(st.binary(max_size=8), st.none() | st.binary(max_size=9)), max_size=3).map(tuple)
TIMESTAMP = st.integers(-1, 2**41) | st.integers(-1, MAX_TIMESTAMP)
KINDS = ("message", "wrapper", "old wrapper", "batch", "batch", "batch", "empty", "control")


@dataclass(frozen=True)
class GeneratedLog:
    """Entries with rising offsets, none below `base_offset`."""

    base_offset: int
    entries: tuple[bytes, ...]

    @property
    def data(self) -> bytes:
        return b"".join(self.entries)


@st.composite
def logs(draw: st.DrawFn, max_entries: int = 6) -> GeneratedLog:
    """A log of mixed formats: sparse offsets, every codec, both kinds of time, nulls, headers, emptied and control batches."""
    base_offset = draw(st.sampled_from([0, 0, 1, 2**31, MAX_OFFSET - 100_000]) | st.integers(0, MAX_OFFSET - 100_000))
    offset, epoch = base_offset, draw(st.integers(-1, 3))
    entries = []
    for _ in range(draw(st.integers(1, max_entries))):
        records = draw(_records(offset))
        entries.append(draw(_entry(draw(st.sampled_from(KINDS)), records, epoch)))
        offset = records[-1].offset + 1 + draw(st.sampled_from([REMOVED, REMOVED, 5]))
        epoch += draw(st.sampled_from([0, 0, 1]))
    return GeneratedLog(base_offset, tuple(entries))


@st.composite
def _records(draw: st.DrawFn, first_offset: int) -> list[Record]:
    records = []
    offset = first_offset
    for step in draw(st.lists(st.sampled_from([1, 1, 1, 2, 300]), min_size=1, max_size=6)):
        records.append(Record(offset, draw(TIMESTAMP), draw(CONTENT), draw(CONTENT), draw(HEADERS)))
        offset += step
    return records


@st.composite
def _entry(draw: st.DrawFn, kind: str, records: list[Record], epoch: int) -> bytes:
    magic = draw(st.sampled_from([0, 1]))
    plain = [Record(each.offset, each.timestamp, each.key, each.value) for each in records]
    append_time = draw(st.none() | TIMESTAMP)
    if kind == "message":
        return encode_message(plain[-1], magic=magic, log_append_time=bool(magic) and append_time is not None)
    if kind == "wrapper":
        codec = draw(st.sampled_from([1, 2, 3]))
        time = append_time if magic else None
        return encode_wrapper(plain, codec=codec, compress=compress, magic=magic, log_append_time=time)
    if kind == "old wrapper":
        return _wrapper_of_old_brokers(plain, draw(st.sampled_from([1, 2, 3])), draw(TIMESTAMP))
    if kind == "empty":
        return encode_empty_batch(
            base_offset=records[0].offset,
            last_offset=records[-1].offset,
            max_timestamp=draw(TIMESTAMP),
            leader_epoch=epoch,
            log_append_time=append_time is not None,
        )
    if kind == "control":
        key, value = encode_end_txn_marker(EndTxnMarker(draw(st.booleans()), draw(st.integers(0, 9))))
        offset, time = records[-1].offset, draw(TIMESTAMP)
        return encode_control_batch(
            key, value, offset=offset, timestamp=time, leader_epoch=epoch, producer_id=7, producer_epoch=1
        )
    return draw(_batch(records, epoch, append_time))


@st.composite
def _batch(draw: st.DrawFn, records: list[Record], epoch: int, append_time: int | None) -> bytes:
    producer_id = draw(st.sampled_from([-1, -1, 0, 2**63 - 1]))
    return encode_batch(
        records,
        last_offset=records[-1].offset + draw(st.sampled_from([0, 0, REMOVED])),
        leader_epoch=epoch,
        codec=draw(st.sampled_from([0, 1, 2, 3, 4])),
        compress=compress,
        log_append_time=append_time,
        delete_horizon_ms=draw(st.none() | st.integers(0, 2**41)),
        transactional=producer_id >= 0 and draw(st.booleans()),
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 3,
        base_sequence=-1 if producer_id < 0 else draw(st.sampled_from([0, 2**31 - 3])),
    )


def _wrapper_of_old_brokers(records: list[Record], codec: int, append_time: int) -> bytes:
    """Brokers before 0.11 set bit and time of log append time on the wrapper only."""
    first = records[0].offset
    inner = [encode_message(Record(each.offset - first, each.timestamp, each.key, each.value), magic=1) for each in records]
    wrapper = Record(records[-1].offset, append_time, None, compress(codec, b"".join(inner), 1))
    return encode_message(wrapper, magic=1, codec=codec, log_append_time=True)


# -- damage ------------------------------------------------------------------------------------------------------------------

BYTE = st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]) | st.integers(0, 255)


@st.composite
def damaged(draw: st.DrawFn, found: GeneratedLog) -> bytes:
    """The log with one to three changes: as they are, under a right checksum, or inside compressed content."""
    entries = list(found.entries)
    for _ in range(draw(st.integers(1, 3))):
        number = draw(st.integers(0, len(entries) - 1))
        kind = draw(st.sampled_from(["bytes", "sealed", "sealed", "content", "content"]))
        if kind == "bytes":
            entries[number] = draw(_changed(entries[number], 0))
        elif kind == "sealed":
            entries[number] = sealed(draw(_changed(entries[number], 0)))
        else:
            entries[number] = draw(_changed_content(entries[number]))
    data = b"".join(entries)
    return data[: draw(st.integers(0, len(data)))] if draw(st.integers(0, 9)) == 0 else data


@st.composite
def _changed(draw: st.DrawFn, data: bytes, first: int) -> bytes:
    stored = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        if len(stored) <= first:
            break
        at = draw(st.integers(first, len(stored) - 1))
        how = draw(st.integers(0, 9))
        if how == 0:
            del stored[at : at + draw(st.integers(1, 4))]
        elif how == 1:
            stored[at:at] = bytes(draw(st.lists(BYTE, min_size=1, max_size=4)))
        else:
            stored[at] = draw(BYTE)
    return bytes(stored)


@st.composite
def _changed_content(draw: st.DrawFn, stored: bytes) -> bytes:
    """Records changed where their writer had them: before compression, under right checksums and lengths."""
    split = split_entry(stored)
    if split is None:
        return sealed(draw(_changed(stored, 0)))
    front, codec, magic, content = split
    content = draw(_changed(content, 0))
    if magic < 2:
        content = sealed_messages(content) if draw(st.booleans()) else content
    return joined_entry(front, codec, magic, content)
