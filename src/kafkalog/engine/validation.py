"""What a leader does to a set before storing it: check its records, assign offsets and timestamps, apply the topic's codec.

A set that can be stored as it is gets offsets, leader epoch and timestamps written into its headers, in place. It is rebuilt from
its records if the codec or the format has to change, for v0 wrappers, whose messages carry absolute offsets, and for v1 wrappers
whose messages are not numbered 0, 1, 2, … .
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from kafkalog import codecs
from kafkalog.errors import CodecError, InvalidRecord, InvalidTimestamp, Limits, RecordValidation, UnsupportedForMessageFormat
from kafkalog.format import batch
from kafkalog.format.batch import NO_TIMESTAMP
from kafkalog.format.java import MAX_INT64, as_int64
from kafkalog.kernels import batch_validation
from kafkalog.kernels.bytes import Ints

from .building import RecordsBuilder
from .config import LogConfig
from .entries import Batch, Entry, Message, iter_entries
from .entry_records import Glance, Record, iter_glances
from .offsets import AppendOrigin

DEFAULT_LZ4_LEVEL: Final = 9  # Kafka's number for its fast compressor, which has no levels


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that one append must obey, and the format to store it in."""

    codec: int = codecs.NONE
    level: int | None = None
    compact: bool = False
    magic: int = 2
    timestamp_type: int = batch.CREATE_TIME
    before_max_ms: int = MAX_INT64
    after_max_ms: int = 3_600_000
    leader_epoch: int = -1
    origin: AppendOrigin = AppendOrigin.CLIENT
    now_ms: int = 0

    @classmethod
    def of(cls, config: LogConfig, source_codec: int, *, leader_epoch: int, origin: AppendOrigin, now_ms: int) -> Rules:
        """The rules of a topic for a set that came with `source_codec`."""
        codec, level = target_compression(config, source_codec)
        return cls(
            codec,
            level,
            config.compact,
            config.magic,
            batch.LOG_APPEND_TIME_TYPE if config.log_append_time else batch.CREATE_TIME,
            config.message_timestamp_before_max_ms,
            config.message_timestamp_after_max_ms,
            leader_epoch,
            origin,
            now_ms,
        )


class Validated(NamedTuple):
    """A set ready to be stored: the given one, changed in place, or a rebuilt one, which may be too large."""

    data: bytes | bytearray
    next_offset: int
    max_timestamp: int
    is_rebuilt: bool = False
    records_converted: int = 0


AnyRecord = Record | Glance | Message


class _Fault(NamedTuple):
    number: int
    text: str
    is_timestamp: bool = False


def target_compression(config: LogConfig, source_codec: int) -> tuple[int, int | None]:
    """Codec and level (None: Kafka's default) in which a topic stores a set."""
    if config.compression_type == "producer":
        return source_codec, None
    if config.compression_type == "uncompressed":
        return codecs.NONE, None
    codec = codecs.codec_id(config.compression_type)
    level = config.codec_level(config.compression_type)
    if codec == codecs.SNAPPY or (codec, level) in ((codecs.LZ4, DEFAULT_LZ4_LEVEL), (codecs.GZIP, -1)):
        return codec, None
    return codec, level


def validate(data: bytearray, source_codec: int, next_offset: int, rules: Rules) -> Validated:
    """The set in `data` with offsets from `next_offset` on; LogRefusal if it breaks a rule.

    `data` holds whole, intact entries (`analysis`), and is changed.
    """
    entries = list(iter_entries(data))
    if not entries:
        raise InvalidRecord("the set has no batch")
    validated = _validate_sound_batch(data, entries, source_codec, next_offset, rules)
    if validated is not None:
        return validated
    if source_codec != codecs.NONE or rules.codec != codecs.NONE:
        return _validate_compressed(data, entries, source_codec, next_offset, rules)
    if all(entry.magic == rules.magic for entry in entries):
        return _assign_offsets(data, entries, next_offset, rules)
    return _convert(entries, next_offset, rules)


def _validate_sound_batch(
    data: bytearray, entries: list[Entry], source_codec: int, next_offset: int, rules: Rules
) -> Validated | None:
    """Handle what nearly every append is: one batch that can be stored as it is. None if it is not, or not clearly."""
    entry = entries[0]
    if len(entries) > 1 or not isinstance(entry, Batch) or (source_codec, 2) != (rules.codec, rules.magic):
        return None
    _check_entry(entry, entry, rules)
    if entry.records_count <= 0 or entry.attributes & batch.LOG_APPEND_TIME:
        return None
    facts = _glance_at(entry)
    if facts is None or not _is_sound(entry, facts, rules):
        return None
    newest = int(facts[batch_validation.NEWEST])
    next_offset += entry.records_count
    _stamp(entry, next_offset - 1, newest, rules)
    return Validated(data, next_offset, entry.max_timestamp)


def _glance_at(entry: Batch) -> Ints | None:
    """The facts that `kernels.batch_validation` finds; None for records that are not sound."""
    facts = np.empty(batch_validation.FACT_COUNT, np.int64)
    start, stop = entry.start + batch.HEADER_SIZE, entry.start + entry.size
    content = np.frombuffer(entry.data, np.uint8)
    if entry.is_compressed:
        try:
            content = np.frombuffer(codecs.decompressed(entry.codec, entry.payload, limit=Limits.decompressed_bytes), np.uint8)
        except CodecError:
            return None
        start, stop = 0, len(content)
    return (
        facts
        if batch_validation.validate_records(content, start, stop, entry.records_count, entry.base_timestamp, facts)
        else None
    )


def _is_sound(entry: Batch, facts: Ints, rules: Rules) -> bool:
    if entry.is_compressed and (entry.base_offset != 0 or not facts[batch_validation.IN_ORDER]):
        return False
    if rules.compact and facts[batch_validation.NULL_KEYS]:
        return False
    if rules.timestamp_type == batch.LOG_APPEND_TIME_TYPE:
        return True
    oldest, newest = int(facts[batch_validation.OLDEST]), int(facts[batch_validation.NEWEST])
    if newest == NO_TIMESTAMP:
        return oldest > newest  # no record has a timestamp
    return oldest >= 0 and rules.now_ms - oldest <= rules.before_max_ms and newest - rules.now_ms <= rules.after_max_ms


def _convert(entries: list[Entry], next_offset: int, rules: Rules) -> Validated:
    """Plain records rebuilt in another format."""
    records = [list(entry) for entry in entries]
    first = _first_entry(entries, codecs.NONE)
    builder = _builder(first, next_offset, rules)
    for entry, its_records in zip(entries, records, strict=True):
        _check_entry(first, entry, rules)
        faults = _record_faults(entry, its_records, rules)
        _append(builder, its_records[: faults[0].number] if faults else its_records)
        _raise_faults(faults)
    return _built(builder)


def _assign_offsets(data: bytearray, entries: list[Entry], next_offset: int, rules: Rules) -> Validated:
    """Plain entries with offsets, epoch and timestamps written in place."""
    max_timestamp = NO_TIMESTAMP
    first = _first_entry(entries, codecs.NONE)
    for entry in entries:
        _check_entry(first, entry, rules)
        records = list(entry)
        _raise_faults(_record_faults(entry, records, rules))
        newest = max((record.timestamp for record in records), default=NO_TIMESTAMP) if entry.magic else NO_TIMESTAMP
        newest = max(newest, NO_TIMESTAMP)
        max_timestamp = max(max_timestamp, newest)
        next_offset += len(records)
        _stamp(entry, next_offset - 1, newest, rules)
    if rules.timestamp_type == batch.LOG_APPEND_TIME_TYPE:
        max_timestamp = rules.now_ms if rules.magic else NO_TIMESTAMP
    return Validated(data, next_offset, max_timestamp)


def _validate_compressed(data: bytearray, entries: list[Entry], source_codec: int, next_offset: int, rules: Rules) -> Validated:
    """A set that is compressed or has to be."""
    first = _first_entry(entries, source_codec)
    in_place = source_codec == rules.codec and first.magic == rules.magic and rules.magic > 0
    if source_codec == codecs.NONE and first.is_control_batch:
        in_place = True  # control records are not compressed unless they arrived so
    glances = in_place and first.magic == 2
    validated: list[AnyRecord] = []
    max_timestamp = NO_TIMESTAMP
    for entry in entries:
        _check_entry(first, entry, rules)
        records = _intact_records(entry, glances)
        _raise_faults(_record_faults(entry, records, rules))
        if entry.magic and rules.magic:
            for expected, record in enumerate(records, len(validated)):
                max_timestamp = max(max_timestamp, record.timestamp)
                in_place = in_place and record.offset == expected
        validated += records
    if not in_place:
        whole = _whole_records(validated)
        builder = _builder(first, next_offset, rules)
        _append(builder, whole)
        return _built(builder)
    next_offset += len(validated)
    if rules.timestamp_type == batch.LOG_APPEND_TIME_TYPE:
        max_timestamp = rules.now_ms
    _stamp(first, next_offset - 1, max_timestamp, rules)
    return Validated(data, next_offset, max_timestamp)


def _intact_records(entry: Entry, glances: bool) -> Sequence[AnyRecord]:
    """The records of an entry; those of a wrapper have checksums of their own."""
    if isinstance(entry, Batch):
        return list(iter_glances(entry) if glances and entry.is_compressed else entry)
    messages = []
    for each in entry.messages():
        if entry.is_compressed and each.magic == entry.magic:
            each.ensure_valid()
        messages.append(each)
    return messages


def _whole_records(records: Iterable[AnyRecord]) -> list[Record]:
    whole = []
    for record in records:
        if isinstance(record, Glance):
            # Kafka would continue to rebuild the batch, and fail because it did not read the keys and values.
            raise InvalidRecord("the records of a compressed batch must be numbered 0, 1, 2, …")
        whole.append(record.record if isinstance(record, Message) else record)
    return whole


def _builder(first: Entry, next_offset: int, rules: Rules) -> RecordsBuilder:
    return RecordsBuilder(
        next_offset,
        magic=rules.magic,
        codec=rules.codec,
        level=rules.level,
        timestamp_type=rules.timestamp_type,
        log_append_time=rules.now_ms,
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        base_sequence=first.base_sequence,
        is_transactional=first.is_transactional,
        partition_leader_epoch=rules.leader_epoch,
    )


def _append(builder: RecordsBuilder, records: Iterable[Record]) -> None:
    """Add records with the offsets that come next."""
    offset = builder.base_offset + builder.records_count
    for record in records:
        builder.append(offset, record.timestamp, record.key, record.value, record.headers)
        offset += 1


def _built(builder: RecordsBuilder) -> Validated:
    data = builder.build()
    count = builder.records_count
    is_one_entry = builder.magic == 2 or builder.codec != codecs.NONE
    if count == 0 and is_one_entry and builder.timestamp_type == batch.LOG_APPEND_TIME_TYPE:
        raise InvalidRecord("no records to give the append time to")
    return Validated(data, builder.base_offset + count, builder.max_timestamp, True, count)


def _stamp(entry: Entry, last_offset: int, max_timestamp: int, rules: Rules) -> None:
    entry.set_last_offset(last_offset)
    if rules.magic >= 2:
        entry.set_partition_leader_epoch(rules.leader_epoch)
    if rules.magic:
        append_time = rules.timestamp_type == batch.LOG_APPEND_TIME_TYPE
        entry.set_max_timestamp(rules.timestamp_type, rules.now_ms if append_time else max_timestamp)


def _first_entry(entries: Sequence[Entry], source_codec: int) -> Entry:
    """The first entry, which must be the only one if it is a batch or a wrapper."""
    first = entries[0]
    if len(entries) > 1 and (first.magic >= 2 or source_codec != codecs.NONE):
        raise InvalidRecord("more than one batch; only plain v0 and v1 messages may be sent together")
    return first


def _check_entry(first: Entry, entry: Entry, rules: Rules) -> None:
    if entry.magic != first.magic:
        raise InvalidRecord(f"a v{entry.magic} entry in a set that begins with v{first.magic}")
    if rules.origin is AppendOrigin.CLIENT:
        if isinstance(entry, Batch):
            _check_count(entry)
        if entry.is_control_batch:
            raise InvalidRecord("a client may not write control records")
        if entry.has_producer_id and entry.base_sequence < 0:
            raise InvalidRecord(f"sequence number {entry.base_sequence} of producer {entry.producer_id}")
    if rules.magic < 2 and (entry.is_transactional or entry.has_producer_id):
        raise UnsupportedForMessageFormat(f"v{rules.magic} has neither transactions nor producer ids")


def _check_count(entry: Batch) -> None:
    offset_count = entry.last_offset_delta + 1
    if offset_count <= 0 or entry.records_count <= 0 or offset_count != entry.records_count:
        raise InvalidRecord(f"a batch of {entry.records_count} records with offsets for {offset_count}")


def _record_faults(entry: Entry, records: Iterable[AnyRecord], rules: Rules) -> list[_Fault]:
    """The faults of individual records."""
    return [fault for number, record in enumerate(records) if (fault := _record_fault(entry, number, record, rules))]


def _record_fault(entry: Entry, number: int, record: AnyRecord, rules: Rules) -> _Fault | None:
    if isinstance(record, Message) and record.magic != entry.magic:
        return _Fault(number, f"a v{record.magic} message{_sizes(record)} in a v{entry.magic} wrapper")
    if rules.compact and not record.has_key:
        return _Fault(number, "a compacted topic takes no record without a key")
    timestamp = record.timestamp
    if rules.timestamp_type == batch.CREATE_TIME and timestamp != NO_TIMESTAMP:
        age = rules.now_ms - timestamp if timestamp > 0 else as_int64(rules.now_ms - timestamp)
        if age > rules.before_max_ms or as_int64(-age) > rules.after_max_ms:
            low, high = rules.now_ms - rules.before_max_ms, rules.now_ms + rules.after_max_ms
            return _Fault(number, f"timestamp {timestamp} is not between {low} and {high}", is_timestamp=True)
    elif entry.timestamp_type == batch.LOG_APPEND_TIME_TYPE:
        return _Fault(number, f"a record{_sizes(record)} with log append time, which only a broker writes", is_timestamp=True)
    return None


def _sizes(record: AnyRecord) -> str:
    """The sizes of a message, to identify it. As in Kafka this fails for one whose lengths are wrong."""
    if not isinstance(record, Message):
        return ""
    return f" with {len(record.key or b'')} bytes of key and {len(record.value or b'')} of value"


def _raise_faults(faults: Sequence[_Fault]) -> None:
    if not faults:
        return
    kind = InvalidTimestamp if any(fault.is_timestamp for fault in faults) else InvalidRecord
    cause = kind(f"{len(faults)} of the records are refused; the first is number {faults[0].number}: {faults[0].text}")
    raise RecordValidation(cause, [(fault.number, fault.text) for fault in faults])
