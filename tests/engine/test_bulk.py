"""Tables appended many batches at a time leave the files that one append per batch leaves."""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kafkalog
from kafkalog.engine.config import LogConfig
from kafkalog.engine.partition_log import PartitionLog
from kafkalog.engine.schedule import ManualClock, Schedule
from kafkalog.errors import InvalidTimestamp, RecordBatchTooLarge, RecordTooLarge
from kafkalog.segment.columns import RAW_HEADERS_TYPE
from kafkalog.segment.encode import BatchFields, EncodeOptions, Producer, encode_batches, encode_messages

NOW = 1_700_000_000_000
SMALL = {"internal.segment.bytes": "20000", "index.interval.bytes": "500"}
SETTINGS: dict[str, Mapping[str, str]] = {
    "defaults": {},
    "small segments": SMALL,
    "full indexes": {**SMALL, "segment.index.bytes": "60", "index.interval.bytes": "10"},
    "old and new times": {**SMALL, "segment.ms": "40000"},
    "append time": {**SMALL, "message.timestamp.type": "LogAppendTime"},
    "compressed by the topic": {**SMALL, "compression.type": "lz4"},
    "flushed often": {**SMALL, "flush.messages": "100"},
}


def _table(seed: int, rows: int = 1500) -> pa.Table:
    chance = random.Random(seed)
    return pa.table(
        {
            "key": pa.array([chance.choice((None, b"k", b"key-%d" % row)) for row in range(rows)], pa.binary()),
            "value": pa.array([chance.randbytes(chance.choice((0, 20, 170))) for _ in range(rows)], pa.binary()),
            "timestamp_ms": np.array([NOW + 40 * row + chance.randrange(-900, 900) for row in range(rows)]),
            "headers_raw": pa.array([[("h", b"v")] if row % 3 == 0 else None for row in range(rows)], RAW_HEADERS_TYPE),
        }
    )


def _open(folder: Path, settings: Mapping[str, str]) -> PartitionLog:
    clock = ManualClock(NOW)
    return PartitionLog.open(str(folder), LogConfig.of(settings), clock=clock, schedule=Schedule(clock))


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def _as_sent(batch: bytes) -> bytes:
    """A batch as a client sends it: it begins at offset 0 and knows no leader."""
    return struct.pack(">q", 0) + batch[8:12] + struct.pack(">i", -1) + batch[16:]


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("codec", ["none", "snappy"])
def test_a_table_is_stored_as_if_each_batch_had_been_sent_alone(tmp_path: Path, name: str, codec: str) -> None:
    tables = [_table(1), _table(2, 40)]
    with _open(tmp_path / "bulk" / "t-0", SETTINGS[name]) as log:
        results = [log.append_records(table, codec=codec, batch_bytes=2000, leader_epoch=3) for table in tables]
    assert [(result.first_offset, result.last_offset, result.message_count) for result in results] == [
        (0, 1499, 1500),
        (1500, 1539, 40),
    ]
    with _open(tmp_path / "single" / "t-0", SETTINGS[name]) as log:
        for table in tables:
            for batch in encode_batches(table, EncodeOptions(codec, batch_bytes=2000)):
                log.append(_as_sent(batch), leader_epoch=3)
    assert _files(tmp_path / "bulk" / "t-0") == _files(tmp_path / "single" / "t-0")


@pytest.mark.parametrize("transactional", [False, True])
def test_a_table_of_a_producer_leaves_its_state_too(tmp_path: Path, transactional: bool) -> None:
    table = _table(3)
    producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 0, "is_transactional": transactional}
    with _open(tmp_path / "bulk" / "t-0", SMALL) as log:
        log.append_records(table, batch_bytes=2000, leader_epoch=0, **producer)
    with _open(tmp_path / "single" / "t-0", SMALL) as log:
        for batch in encode_batches(table, EncodeOptions(batch_bytes=2000), BatchFields(producer=Producer(**producer))):
            guard = log.start_verification(7, 0, 1, False) if transactional else None
            log.append(_as_sent(batch), leader_epoch=0, verification=guard)
    assert _files(tmp_path / "bulk" / "t-0") == _files(tmp_path / "single" / "t-0")


def test_records_without_timestamps_are_stored_alike(tmp_path: Path) -> None:
    table = _table(5).drop_columns(["timestamp_ms"])
    with _open(tmp_path / "bulk" / "t-0", SMALL) as log:
        log.append_records(table, batch_bytes=2000, leader_epoch=0)
    with _open(tmp_path / "single" / "t-0", SMALL) as log:
        for batch in encode_batches(table, EncodeOptions(batch_bytes=2000)):
            log.append(_as_sent(batch), leader_epoch=0)
    assert _files(tmp_path / "bulk" / "t-0") == _files(tmp_path / "single" / "t-0")


def test_what_a_leader_refuses_is_refused_and_what_came_before_it_is_stored(tmp_path: Path) -> None:
    settings = {"max.message.bytes": "3000"}
    with _open(tmp_path / "t-0", settings) as log:
        table = pa.table({"value": [b"v" * 1000, b"v" * 2500, b"v" * 5000], "timestamp_ms": [NOW, NOW, NOW]})
        with pytest.raises(RecordTooLarge):
            log.append_records(table)
        assert log.log_end_offset == 2
        with pytest.raises(InvalidTimestamp):
            log.append_records(pa.table({"value": [b"v"], "timestamp_ms": [NOW + 10**10]}))
        assert log.log_end_offset == 2


def test_a_record_that_no_segment_can_hold_is_refused(tmp_path: Path) -> None:
    with _open(tmp_path / "t-0", SMALL) as log:
        with pytest.raises(RecordBatchTooLarge):
            log.append_records(pa.table({"value": [b"v" * 30_000], "timestamp_ms": [NOW]}))
        assert log.log_end_offset == 0


@pytest.mark.parametrize("version", ["0.9.0", "0.10.2"])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_topic_of_an_old_format_gets_messages(tmp_path: Path, version: str, codec: str) -> None:
    table = _table(6, 300).drop_columns(["headers_raw"])
    with _open(tmp_path / "t-0", {**SMALL, "message.format.version": version}) as log:
        assert log.append_records(table, codec=codec, batch_bytes=2000).last_offset == 299
    found = kafkalog.open(tmp_path / "t-0").read("records", ["offset", "key", "value"]).read_all()
    assert found.column("offset").to_pylist() == list(range(300))
    for name in ("key", "value"):
        assert found.column(name).to_pylist() == table.column(name).to_pylist()
    magics = kafkalog.open(tmp_path / "t-0").read("batches", ["magic"]).read_all().column("magic").unique().to_pylist()
    assert magics == [0 if version == "0.9.0" else 1]


@pytest.mark.parametrize("version", ["0.9.0", "0.10.2"])
@pytest.mark.parametrize("name", ["defaults", "small segments", "old and new times", "flushed often"])
def test_messages_are_stored_as_if_each_set_had_been_sent_alone(tmp_path: Path, name: str, version: str) -> None:
    settings = {**SETTINGS[name], "message.format.version": version}
    table = _table(9).drop_columns(["headers_raw"])
    with _open(tmp_path / "bulk" / "t-0", settings) as log:
        log.assign_epoch_start_offset(3, 0)
        result = log.append_records(table, batch_bytes=2000)
        assert (result.first_offset, result.last_offset, result.message_count) == (0, 1499, 1500)
    with _open(tmp_path / "single" / "t-0", settings) as log:
        log.assign_epoch_start_offset(3, 0)
        for sent in encode_messages(table, 0 if version == "0.9.0" else 1, EncodeOptions(batch_bytes=2000)):
            log.append(sent)
    assert _files(tmp_path / "bulk" / "t-0") == _files(tmp_path / "single" / "t-0")


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_new_batches_after_ones_that_were_sent_before_follow_the_log_without_a_gap(tmp_path: Path, codec: str) -> None:
    table = _table(8)
    producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 0}
    batches = list(encode_batches(table, EncodeOptions(codec, batch_bytes=2000), BatchFields(producer=Producer(**producer))))
    with _open(tmp_path / "single" / "t-0", SMALL) as log:
        for batch in (*batches[:3], *batches):
            log.append(_as_sent(batch), leader_epoch=0)
        assert log.log_end_offset == 1500
    with _open(tmp_path / "bulk" / "t-0", SMALL) as log:
        for batch in batches[:3]:
            log.append(_as_sent(batch), leader_epoch=0)
        result = log.append_records(table, codec=codec, batch_bytes=2000, leader_epoch=0, **producer)
        assert (result.first_offset, result.last_offset, log.log_end_offset) == (0, 1499, 1500)
    assert _files(tmp_path / "bulk" / "t-0") == _files(tmp_path / "single" / "t-0")


def test_a_batch_that_was_sent_before_is_not_stored_again(tmp_path: Path) -> None:
    table = _table(4, 5)
    with _open(tmp_path / "t-0", {}) as log:
        first = log.append_records(table, producer_id=7, producer_epoch=0, base_sequence=0)
        again = log.append_records(table, producer_id=7, producer_epoch=0, base_sequence=0)
        assert (first.first_offset, first.last_offset) == (again.first_offset, again.last_offset) == (0, 4)
        assert log.log_end_offset == 5
