"""Records that a leader stores on topics of the two old formats, and old records on topics of today."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from kafkalog.engine.config import LogConfig
from kafkalog.engine.entries import Entry, Message, iter_entries
from kafkalog.engine.offsets import AppendOrigin
from kafkalog.engine.partition_log import PartitionLog
from kafkalog.engine.schedule import ManualClock
from kafkalog.engine.validation import Rules, Validated, validate
from kafkalog.errors import InvalidArgument, LogRefusal, RecordValidation, UnsupportedForMessageFormat
from kafkalog.format.batch import CREATE_TIME, LOG_APPEND_TIME_TYPE
from kafkalog.format.reference import Record
from tests.engine.scenarios.payloads import GZIP, LZ4, batch, in_transaction, keyed, marker, messages, produced, records
from tests.engine.scenarios.script import START_MS

FIRST = 1234567


def stored(magic: int, codec: int = 0, *, at: int = START_MS, count: int = 3) -> bytes:
    return batch(count, codec=codec, at=at) if magic == 2 else messages(magic, count, codec=codec, at=at)


def validated(data: bytes, magic: int, source: int = 0, target: int | None = None, **fields: Any) -> Validated:
    rules = Rules(codec=source if target is None else target, magic=magic, now_ms=START_MS, **fields)
    return validate(bytearray(data), source, FIRST, rules)


def entries(result: Validated) -> list[Entry]:
    return list(iter_entries(result.data))


def offsets(result: Validated) -> list[int]:
    return [record.offset for entry in entries(result) for record in entry]


@pytest.mark.parametrize(("source", "target", "codec"), list(product((0, 1, 2), (0, 1, 2), (0, GZIP))))
def test_offsets_are_assigned_in_every_format(source: int, target: int, codec: int) -> None:
    result = validated(stored(source, codec), target, codec)
    assert offsets(result) == [FIRST, FIRST + 1, FIRST + 2]
    assert result.next_offset == FIRST + 3
    assert {entry.magic for entry in entries(result)} == {target}
    assert all(entry.is_valid for entry in entries(result))


@pytest.mark.parametrize(("source", "target", "codec"), list(product((0, 1, 2), (1, 2), (0, GZIP))))
def test_times_survive_where_both_formats_have_them(source: int, target: int, codec: int) -> None:
    result = validated(stored(source, codec), target, codec)
    time = START_MS if source else -1
    assert result.max_timestamp == time
    assert {record.timestamp for entry in entries(result) for record in entry} == {time}
    assert {entry.timestamp_type for entry in entries(result)} == {CREATE_TIME}


@pytest.mark.parametrize(("source", "target"), [(0, 1), (0, 2), (1, 2), (1, 0), (2, 1), (2, 0)])
def test_records_that_change_their_format_are_counted(source: int, target: int) -> None:
    assert validated(stored(source), target).records_converted == 3
    assert validated(stored(target), target).records_converted == 0


def test_a_v1_wrapper_has_relative_offsets_inside_and_a_v0_wrapper_absolute_ones() -> None:
    for magic, inner in ((1, [0, 1, 2]), (0, [FIRST, FIRST + 1, FIRST + 2])):
        (wrapper,) = entries(validated(stored(magic, GZIP), magic, GZIP))
        assert isinstance(wrapper, Message)
        content = wrapper.inner_messages()
        base = FIRST if magic else 0
        assert [each.offset - base for each in content] == inner
        assert wrapper.offset == FIRST + 2


def test_a_v1_wrapper_that_fits_is_stamped_in_place_and_a_v0_wrapper_is_rebuilt() -> None:
    assert not validated(stored(1, GZIP), 1, GZIP).is_rebuilt
    assert validated(stored(0, GZIP), 0, GZIP).is_rebuilt


@pytest.mark.parametrize(("magic", "target"), [(0, 0), (0, 1), (2, 1), (1, 0)])
def test_plain_records_may_get_a_codec(magic: int, target: int) -> None:
    result = validated(stored(magic), target, 0, LZ4)
    (wrapper,) = entries(result)
    assert wrapper.codec == LZ4
    assert offsets(result) == [FIRST, FIRST + 1, FIRST + 2]


@pytest.mark.parametrize(("magic", "codec"), [(1, 0), (1, GZIP), (2, 0), (2, GZIP)])
def test_log_append_time_is_stamped_in_v1_too(magic: int, codec: int) -> None:
    result = validated(stored(magic, codec, at=1), magic, codec, timestamp_type=LOG_APPEND_TIME_TYPE)
    assert result.max_timestamp == START_MS
    assert {entry.timestamp_type for entry in entries(result)} == {LOG_APPEND_TIME_TYPE}
    assert {record.timestamp for entry in entries(result) for record in entry} == {START_MS}
    assert not result.is_rebuilt


@pytest.mark.parametrize(("source", "target"), [(0, 1), (2, 1), (0, 2), (1, 2)])
def test_log_append_time_is_stamped_while_converting(source: int, target: int) -> None:
    result = validated(stored(source, GZIP, at=1), target, GZIP, timestamp_type=LOG_APPEND_TIME_TYPE)
    assert {record.timestamp for entry in entries(result) for record in entry} == {START_MS}


@pytest.mark.parametrize(("codec", "at"), list(product((0, GZIP), (START_MS - 1001, START_MS + 1001))))
def test_times_too_far_away_are_refused_in_v1(codec: int, at: int) -> None:
    with pytest.raises(RecordValidation) as refused:
        validated(stored(1, codec, at=at), 1, codec, before_max_ms=1000, after_max_ms=1000)
    assert [number for number, _ in refused.value.record_errors] == ([0, 1, 2] if codec else [0])


@pytest.mark.parametrize(("magic", "codec"), list(product((0, 1), (0, GZIP, LZ4))))
def test_compacted_topics_want_keys_in_old_messages(magic: int, codec: int) -> None:
    with pytest.raises(RecordValidation):
        validated(stored(magic, codec), magic, codec, compact=True)
    keys = messages(magic, keyed((b"a", b"1"), (b"b", None)), codec=codec)
    assert validated(keys, magic, codec, compact=True).next_offset == FIRST + 2


@pytest.mark.parametrize("target", [0, 1])
@pytest.mark.parametrize("codec", [0, GZIP])
def test_producers_need_the_format_of_today(target: int, codec: int) -> None:
    with pytest.raises(UnsupportedForMessageFormat):
        validated(produced(2, 1, 0, 0, codec=codec), target, codec)
    # Plain records are refused by the code that would rebuild them, as in Kafka.
    with pytest.raises(UnsupportedForMessageFormat if codec else InvalidArgument):
        validated(in_transaction(2, 1, 0, 0, codec=codec), target, codec)


def test_markers_need_the_format_of_today() -> None:
    with pytest.raises(LogRefusal):
        validated(marker(1, 0, commit=True, offset=0), 1, origin=AppendOrigin.COORDINATOR)


@pytest.mark.parametrize("target", [0, 1])
def test_headers_are_lost_or_refused_in_old_formats(target: int) -> None:
    with pytest.raises(LogRefusal):
        validated(batch([Record(0, START_MS, b"k", b"v", ((b"h", b"v"),))]), target)


@pytest.mark.parametrize("magic", [0, 1])
def test_several_old_messages_in_one_call_stay_several(magic: int) -> None:
    data = messages(magic, 1) + messages(magic, records(2, first=1))
    assert len(entries(validated(data, magic))) == 3
    assert len(entries(validated(data, magic, 0, GZIP))) == 1
    assert len(entries(validated(data, 2))) == 1


def open_log(folder: Path, version: str) -> PartitionLog:
    return PartitionLog.open(str(folder / "t-0"), written_as(version), clock=ManualClock(START_MS))


def written_as(version: str) -> LogConfig:
    return LogConfig.of({"message.format.version": version, "segment.index.bytes": 1000})


def epochs(log: PartitionLog) -> list[tuple[int, ...]]:
    return [tuple(entry) for entry in log.leader_epochs.entries]


@pytest.mark.parametrize(("version", "magic"), [("0.9.0", 0), ("0.10.2", 1)])
def test_a_topic_set_to_an_old_format_has_no_epochs(tmp_path: Path, version: str, magic: int) -> None:
    with open_log(tmp_path, "3.0") as log:
        log.append(batch(1), leader_epoch=5)
        assert epochs(log) == [(5, 0)]
        log.update_config(written_as(version))
        log.append(batch(2), leader_epoch=5)
        assert epochs(log) == []
        assert [entry.magic for entry in log.active_segment.log.iter_entries()] == [2, magic, magic]
    with open_log(tmp_path, version) as log:
        log.append(messages(1, 1), leader_epoch=5)
        assert epochs(log) == []


def test_a_topic_set_to_the_format_of_today_gets_epochs(tmp_path: Path) -> None:
    with open_log(tmp_path, "0.10.2") as log:
        log.append(messages(1, 1), leader_epoch=5)
        assert epochs(log) == []
        log.update_config(written_as("0.11.0"))
        log.append(batch(1), leader_epoch=5)
        assert epochs(log) == [(5, 1)]
