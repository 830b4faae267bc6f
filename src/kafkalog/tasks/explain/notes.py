"""Why a number is what it is: the notes on the fields of headers and index entries."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kafkalog.format import batch, names
from kafkalog.format.batch import last_sequence

from .cutter import Notes

Values = Mapping[str, int]

NO_OFFSET = f"no offset: 0 to {names.MAX_OFFSET}"


def time_text(milliseconds: int) -> str:
    """A timestamp for people; NumPy writes any 64-bit count, where Python's `datetime` ends with the year 9999."""
    if milliseconds == -1:
        return "no timestamp"
    return str(np.datetime_as_string(np.datetime64(milliseconds, "ms"), unit="ms")).replace("T", " ") + " UTC"


def codec_name(attributes: int) -> str:
    codec = attributes & batch.CODEC_MASK
    return batch.CODEC_NAMES[codec] if codec < len(batch.CODEC_NAMES) else f"codec {codec}, which does not exist"


def is_offset(number: int) -> bool:
    return 0 <= number <= names.MAX_OFFSET


def _sum(start: int, delta: int) -> str:
    return f"{start} + {delta} = {start + delta}"


def _whole_size(length: int) -> str:
    return f"after this field; in all {_sum(batch.LOG_OVERHEAD, length)}"


def _batch_attributes(attributes: int) -> str:
    flags = ((batch.TRANSACTIONAL, "transactional"), (batch.CONTROL, "control"), (batch.DELETE_HORIZON, "delete horizon"))
    time = "LogAppendTime" if attributes & batch.LOG_APPEND_TIME else "CreateTime"
    return ", ".join([f"bits 0-2: {codec_name(attributes)}", time, *(name for mask, name in flags if attributes & mask)])


def _base_timestamp(values: Values) -> str:
    meaning = "delete horizon; " if values["attributes"] & batch.DELETE_HORIZON else ""
    return f"{meaning}{time_text(values['base_timestamp'])}; timestamp deltas count from it"


def _max_timestamp(values: Values) -> str:
    append_time = values["attributes"] & batch.LOG_APPEND_TIME
    meaning = "append time, the timestamp of every record" if append_time else "largest of the records"
    return f"{time_text(values['max_timestamp'])}; {meaning}"


def _base_sequence(values: Values) -> str:
    base = values["base_sequence"]
    if base < 0:
        return "no sequence numbers"
    return f"sequence numbers {base} to {last_sequence(base, values['last_offset_delta'])}"


def _records_count(values: Values) -> str:
    count, offsets = values["records_count"], values["last_offset_delta"] + 1
    if count == 0:
        return "compaction removed all records; the offsets stay taken"
    return f"of {offsets} offsets: compaction removed the others" if 0 < count < offsets else ""


BATCH_NOTES: Notes = {
    "base_offset": lambda values: "set by the broker, so outside the CRC",
    "batch_length": lambda values: _whole_size(values["batch_length"]),
    "partition_leader_epoch": lambda values: (
        "set by the broker, so outside the CRC" if values["partition_leader_epoch"] >= 0 else "unknown; outside the CRC"
    ),
    "magic": lambda values: "format v2",
    "attributes": lambda values: _batch_attributes(values["attributes"]),
    "last_offset_delta": lambda values: f"last offset {_sum(values['base_offset'], values['last_offset_delta'])}",
    "base_timestamp": _base_timestamp,
    "max_timestamp": _max_timestamp,
    "producer_id": lambda values: "no idempotent producer" if values["producer_id"] < 0 else "",
    "producer_epoch": lambda values: "no epoch" if values["producer_epoch"] < 0 else "",
    "base_sequence": _base_sequence,
    "records_count": _records_count,
}


def _message_attributes(values: Values) -> str:
    attributes, magic = values["attributes"], values["magic"]
    codec = f"bits 0-2: {codec_name(attributes)}"
    if magic == 0:
        return codec
    return f"{codec}, {'LogAppendTime' if attributes & batch.LOG_APPEND_TIME else 'CreateTime'}"


MESSAGE_NOTES: Notes = {
    "message_size": lambda values: _whole_size(values["message_size"]),
    "magic": lambda values: f"format v{values['magic']}",
    "attributes": _message_attributes,
    "timestamp": lambda values: time_text(values["timestamp"]),
    "key_length": lambda values: "no key" if values["key_length"] < 0 else "",
}

FRONT_NOTES: Notes = {"size": lambda values: "after this field"}


def offset_index_notes(base_offset: int) -> Notes:
    return {
        "relative_offset": lambda values: _absolute(base_offset, values["relative_offset"]),
        "position": lambda values: "byte of the .log where that entry is, or one before it",
    }


def time_index_notes(base_offset: int) -> Notes:
    return {
        "timestamp": lambda values: f"{time_text(values['timestamp'])}; nothing up to the offset is later",
        "relative_offset": lambda values: _absolute(base_offset, values["relative_offset"]),
    }


def _absolute(base_offset: int, relative: int) -> str:
    if base_offset < 0:
        return "counted from the base offset, which the file's name does not say"
    return f"offset {_sum(base_offset, relative)}"


TXN_INDEX_NOTES: Notes = {
    "producer_id": lambda values: "whose transaction was aborted",
    "first_offset": lambda values: "of the transaction in this partition",
    "last_offset": lambda values: "of its ABORT marker",
    "last_stable_offset": lambda values: "when the marker was written",
}


def _batch_range(values: Values) -> str:
    last, delta = values["last_offset"], values["offset_delta"]
    return f"last minus first offset of its last batch: {last - delta} to {last}" if last >= 0 else ""


SNAPSHOT_NOTES: Notes = {
    "last_sequence": lambda values: "no sequence number" if values["last_sequence"] < 0 else "of its last batch",
    "last_offset": lambda values: "no data batch" if values["last_offset"] < 0 else "of its last batch",
    "offset_delta": _batch_range,
    "timestamp": lambda values: f"{time_text(values['timestamp'])}; of its last batch or marker",
    "coordinator_epoch": lambda values: "no marker yet" if values["coordinator_epoch"] < 0 else "of the last marker",
    "current_txn_first_offset": lambda values: (
        "no open transaction" if values["current_txn_first_offset"] < 0 else "where the open transaction begins"
    ),
}
