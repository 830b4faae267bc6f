"""The reading API as a user calls it: sources, columns and ranges, and the report afterwards."""

from __future__ import annotations

import shutil
import struct
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kafkalog
from kafkalog.format.names import segment_file_name
from kafkalog.format.reference import Record, encode_batch, encode_empty_batch, encode_message, encode_wrapper
from kafkalog.format.snapshot import PRODUCERS, encode_snapshot
from kafkalog.log.report import ReadReport
from kafkalog.tables.schemas import LOG_TABLES, TABLES
from tests.builders.small_logs import (
    FIRST_TIME,
    compress,
    made_batch,
    made_records,
    marker,
    read_offsets,
    read_rows,
    transactional_batch,
    write_segment,
)


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A partition of 100 records in 10 batches and 2 segments, both with an index of every other batch."""
    folder = tmp_path / "orders-0"
    batches = [made_batch(first, codec=first // 10 % 5) for first in range(0, 100, 10)]
    write_segment(folder, 0, *batches[:6], indexed=(1, 3, 5))
    write_segment(folder, 60, *batches[6:], indexed=(1, 3))
    return folder


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Four batches of 10; in the second one a value is changed, the third one's length is."""
    folder = tmp_path / "damaged-0"
    batches = [bytearray(made_batch(first)) for first in (0, 10, 20, 30)]
    batches[1][-1] ^= 0xFF
    batches[2][8:12] = struct.pack(">i", 3)
    write_segment(folder, 0, *map(bytes, batches))
    return folder


# -- columns -----------------------------------------------------------------------------------------------------------------


def test_columns_come_in_the_order_asked_for(orders: Path) -> None:
    table = kafkalog.open(orders).read("records", ["value", "offset", "topic"]).read_all()
    assert table.column_names == ["value", "offset", "topic"]
    assert table.slice(42, 1).to_pylist() == [{"value": b"value-42", "offset": 42, "topic": "orders"}]


@pytest.mark.parametrize(("table", "row_count"), [("records", 100), ("batches", 10), ("segments", 2)])
def test_no_columns_at_all_still_count_the_rows(table: str, row_count: int, orders: Path) -> None:
    assert kafkalog.open(orders).read(table, []).read_all().num_rows == row_count


def test_records_without_a_choice_of_columns_are_what_spark_gives(orders: Path) -> None:
    row = read_rows(orders)[7]
    assert row == {
        "key": b"key-7",
        "value": b"value-7",
        "topic": "orders",
        "partition": 0,
        "offset": 7,
        "timestamp": datetime.fromtimestamp(FIRST_TIME / 1000, UTC) + timedelta(milliseconds=7),
        "timestampType": 0,
        "headers": None,
    }


@pytest.mark.parametrize("table", LOG_TABLES)
def test_every_column_can_be_read_alone_and_has_its_type(table: str, orders: Path) -> None:
    _write_every_kind_of_file(orders)
    logs = kafkalog.open(orders)
    whole = logs.read(table, [column.name for column in TABLES[table].columns]).read_all()
    assert whole.num_rows > 0
    for column in TABLES[table].columns:
        alone = logs.read(table, [column.name]).read_all()
        assert alone.schema.field(0).type == column.type
        assert alone.column(0).to_pylist() == whole.column(column.name).to_pylist(), column.name
        alone.validate(full=True)


def _write_every_kind_of_file(folder: Path) -> None:
    """Files for the other tables: a transaction, a snapshot, a time index, a transaction index and a checkpoint of epochs."""
    write_segment(folder, 100, transactional_batch(100, 3, 7), marker(103, 7, commit=False), made_batch(104, 2, leader_epoch=3))
    (folder / segment_file_name(100, "timeindex")).write_bytes(struct.pack(">qi", FIRST_TIME + 102, 2))
    (folder / segment_file_name(100, "txnindex")).write_bytes(struct.pack(">hqqqq", 0, 7, 100, 103, 104))
    producer = np.zeros(1, PRODUCERS)
    producer["producer_id"] = 9
    (folder / segment_file_name(100, "snapshot")).write_bytes(encode_snapshot(producer))
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n3 104\n")


def test_every_record_column_holds_what_was_written(tmp_path: Path) -> None:
    record = Record(5, FIRST_TIME, None, b"", ((b"trace", b"1"), (b"empty", None)))
    batch = encode_batch(
        [record, Record(8, FIRST_TIME + 1, b"", None)],
        leader_epoch=4,
        codec=4,
        compress=compress,
        transactional=True,
        producer_id=77,
        producer_epoch=2,
        base_sequence=2**31 - 2,
    )
    path = write_segment(tmp_path / "orders-3", 5, batch)
    names = [column.name for column in TABLES["records"].columns]
    first, second = read_rows(tmp_path / "orders-3", "records", names)
    assert first == {
        "key": None,
        "value": b"",
        "topic": "orders",
        "partition": 3,
        "offset": 5,
        "timestamp": datetime.fromtimestamp(FIRST_TIME / 1000, UTC),
        "timestampType": 0,
        "headers": [{"key": "trace", "value": b"1"}, {"key": "empty", "value": None}],
        "headers_raw": [{"key": b"trace", "value": b"1"}, {"key": b"empty", "value": None}],
        "timestamp_ms": FIRST_TIME,
        "leader_epoch": 4,
        "producer_id": 77,
        "producer_epoch": 2,
        "sequence": 2**31 - 2,
        "is_transactional": True,
        "is_control": False,
        "codec": "zstd",
        "magic": 2,
        "base_offset": 5,
        "file": str(path),
        "position": 0,
    }
    assert (second["key"], second["value"], second["headers"]) == (b"", None, None)
    assert second["sequence"] == 1, "sequence numbers continue at 0 after 2**31 - 1"


def test_old_formats_have_minus_one_where_they_know_nothing(tmp_path: Path) -> None:
    old = encode_message(Record(0, -1, b"k", b"v"), magic=0)
    wrapper = encode_wrapper(made_records(1, 3), codec=1, compress=compress, magic=1, log_append_time=FIRST_TIME)
    write_segment(tmp_path / "orders-0", 0, old, wrapper)
    columns = ["magic", "base_offset", "timestampType", "timestamp_ms", "leader_epoch", "producer_id", "sequence", "headers"]
    rows = [tuple(row.values()) for row in read_rows(tmp_path, "records", columns)]
    assert rows == [(0, 0, -1, -1, -1, -1, -1, None), *[(1, 1, 1, FIRST_TIME, -1, -1, -1, None)] * 3]


def test_a_timestamp_that_no_timestamp_type_holds_is_null_beside_its_raw_number(tmp_path: Path) -> None:
    limit = 9_223_372_036_854_775
    times = [-1, 0, limit, limit + 1, 2**63 - 1]
    batches = [encode_batch([Record(offset, time, None, None)]) for offset, time in enumerate(times)]
    write_segment(tmp_path / "orders-0", 0, *batches)
    table = kafkalog.open(tmp_path).read("records", ["timestamp_ms", "timestamp"]).read_all()
    assert table.column("timestamp_ms").to_pylist() == times
    typed = table.column("timestamp").cast(pa.int64()).to_pylist()
    assert typed == [-1, 0, limit, None, None]


def test_header_keys_that_are_not_utf8_are_text_with_replacements_and_raw_bytes(tmp_path: Path) -> None:
    keys = [b"ok", b"\xff\xfe", "ü".encode(), b"a\xc3"]
    headers = tuple((key, b"") for key in keys)
    write_segment(tmp_path / "orders-0", 0, encode_batch(made_records(0, 1, headers=headers)))
    (row,) = read_rows(tmp_path, "records", ["headers", "headers_raw"])
    assert [header["key"] for header in row["headers_raw"]] == keys
    assert [header["key"] for header in row["headers"]] == ["ok", "\ufffd\ufffd", "ü", "a\ufffd"]


# -- offsets and times -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("indexed", [True, False], ids=["with an index", "without an index"])
@pytest.mark.parametrize(("start", "stop"), [(0, 100), (5, 6), (37, 83), (59, 61), (60, 60), (95, None), (None, 3), (100, 200)])
def test_an_offset_range_is_half_open_wherever_it_cuts(start: int | None, stop: int | None, indexed: bool, orders: Path) -> None:
    if not indexed:
        for index in orders.glob("*.index"):
            index.unlink()
    expected = list(range(start or 0, min(100 if stop is None else stop, 100)))
    assert read_offsets(orders, start_offset=start, stop_offset=stop) == expected


def test_an_index_of_another_segment_changes_nothing(orders: Path) -> None:
    shutil.copy(orders / segment_file_name(60, "index"), orders / segment_file_name(0, "index"))
    (orders / segment_file_name(60, "index")).write_bytes(bytes(range(256)))
    for start in range(0, 100, 7):
        assert read_offsets(orders, start_offset=start) == list(range(start, 100))


def test_an_offset_range_cuts_compressed_sets_of_old_formats(tmp_path: Path) -> None:
    for magic in (0, 1):
        sets = [encode_wrapper(made_records(first, 10), codec=1, compress=compress, magic=magic) for first in range(0, 50, 10)]
        folder = tmp_path / f"old-{magic}"
        write_segment(folder, 0, *sets)
        assert read_offsets(folder, start_offset=13, stop_offset=37) == list(range(13, 37))
        assert read_rows(folder, "records", ["base_offset"], start_offset=13, stop_offset=14) == [10]


def test_a_time_range_is_half_open_in_milliseconds_and_in_datetimes(orders: Path) -> None:
    start, stop = FIRST_TIME + 25, FIRST_TIME + 71
    expected = list(range(25, 71))
    assert read_offsets(orders, start_time=start, stop_time=stop) == expected
    for zone in (UTC, timezone(timedelta(hours=-9))):
        begin = datetime.fromtimestamp(FIRST_TIME / 1000, zone) + timedelta(milliseconds=25)
        assert read_offsets(orders, start_time=begin, stop_time=begin + timedelta(milliseconds=46)) == expected


def test_no_millisecond_of_a_datetime_is_lost_to_rounding(orders: Path) -> None:
    first = datetime.fromtimestamp(FIRST_TIME / 1000, UTC)
    for offset in range(100):
        assert read_offsets(orders, start_time=first + timedelta(milliseconds=offset))[0] == offset


def test_times_that_go_up_and_down_are_all_found(tmp_path: Path) -> None:
    times = [50, 10, 90, 20, 70, 30]
    batches = [encode_batch([Record(offset, time, None, None)]) for offset, time in enumerate(times)]
    write_segment(tmp_path / "orders-0", 0, *batches[:3])
    write_segment(tmp_path / "orders-0", 3, *batches[3:])
    assert read_offsets(tmp_path, start_time=20, stop_time=71) == [0, 3, 4, 5]


def test_the_last_offset_that_there_is_can_be_read(tmp_path: Path) -> None:
    last = 2**63 - 1
    write_segment(tmp_path / "orders-0", last, encode_batch([Record(last, 0, None, b"end")]))
    assert read_rows(tmp_path, "records", ["value"]) == [b"end"]
    assert read_rows(tmp_path, "batches", ["base_offset"]) == [last]
    assert read_offsets(tmp_path, start_offset=-(2**70), stop_offset=2**70, start_time=-(2**70), stop_time=2**70) == [last]
    assert read_offsets(tmp_path, stop_offset=last - 1) == []


def test_batches_take_offset_ranges_too(orders: Path) -> None:
    assert read_rows(orders, "batches", ["base_offset"], start_offset=25, stop_offset=71) == [20, 30, 40, 50, 60, 70]


# -- places ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    for name in ("orders-0", "orders-1", "orders-10", "clicks-0", "with-dash-2"):
        write_segment(tmp_path / name, 0, made_batch(0, 2))
    write_segment(tmp_path / f"gone-0.{'0' * 32}-delete", 0, made_batch(0, 2))
    write_segment(tmp_path / "lost+found", 0, made_batch(0, 2))
    (tmp_path / "meta.properties").write_text("version=1\n")
    return tmp_path


def test_a_log_directory_gives_its_live_partitions_in_order(log_directory: Path) -> None:
    found = [(row["topic"], row["partition"]) for row in read_rows(log_directory, "segments")]
    assert found == [("clicks", 0), ("orders", 0), ("orders", 1), ("orders", 10), ("with-dash", 2)]


def test_topics_and_partition_numbers_narrow_a_read(log_directory: Path) -> None:
    columns = ["topic", "partition"]
    chosen = read_rows(log_directory, "segments", columns, topics=["orders", "clicks"], partitions=[0, 10])
    assert [(row["topic"], row["partition"]) for row in chosen] == [("clicks", 0), ("orders", 0), ("orders", 10)]
    with pytest.raises(kafkalog.UsageError, match="no partition 7 here; there are: 0, 1, 10"):
        read_rows(log_directory, "records", columns, topics=["orders"], partitions=[7])


def test_a_deleted_partition_can_be_read_on_its_own(log_directory: Path) -> None:
    assert read_rows(log_directory / f"gone-0.{'0' * 32}-delete", "records", ["topic"]) == ["gone", "gone"]


def test_a_folder_of_any_name_is_read_if_it_holds_segments(log_directory: Path) -> None:
    rows = read_rows(log_directory / "lost+found", "records", ["topic", "partition", "offset"])
    assert [tuple(row.values()) for row in rows] == [("lost+found", -1, 0), ("lost+found", -1, 1)]


def test_records_below_the_log_start_are_left_out_as_for_a_consumer(orders: Path) -> None:
    (orders.parent / "log-start-offset-checkpoint").write_text("0\n1\norders 0 34\n")
    for place in (orders, orders.parent):
        assert read_offsets(place) == list(range(34, 100))
        assert kafkalog.open(place).partitions[0].start_offset == 34
    segment = orders / segment_file_name(0)
    assert read_offsets(segment) == list(range(60)), "a single file knows of no checkpoint"


def test_files_that_wait_for_their_removal_are_not_read_with_the_partition(orders: Path) -> None:
    for suffix in ("log.deleted", "log.cleaned", "log.swap", "index.deleted"):
        (orders / segment_file_name(0, suffix)).write_bytes(made_batch(0, 99))
    (orders / "notes.txt").write_text("not Kafka's\n")
    assert read_offsets(orders) == list(range(100))
    states = read_rows(orders, "segments", ["state"])
    assert sorted(states) == ["active", "cleaned", "closed", "deleted", "swap"]


# -- single files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [segment_file_name(0), segment_file_name(0, "log.deleted"), segment_file_name(0, "log.swap")])
def test_a_single_segment_file_is_read_whatever_its_state(name: str, tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-4", 0, made_batch(0, 3)).rename(tmp_path / "orders-4" / name)
    rows = read_rows(tmp_path / "orders-4" / name, "records", ["topic", "partition", "offset"])
    assert [tuple(row.values()) for row in rows] == [("orders", 4, 0), ("orders", 4, 1), ("orders", 4, 2)]


@pytest.mark.parametrize("name", ["copy.log", "segment.bak", "0.log", "00000000000000000000 (1).log"])
def test_a_renamed_copy_of_a_segment_is_read_by_its_content(name: str, orders: Path, tmp_path: Path) -> None:
    copy = tmp_path / name
    shutil.copy(orders / segment_file_name(60), copy)
    assert read_offsets(copy) == list(range(60, 100))


@pytest.mark.parametrize(
    ("suffix", "table", "row_count"),
    [
        ("index", "index_entries", 3),
        ("timeindex", "index_entries", 1),
        ("txnindex", "index_entries", 1),
        ("snapshot", "producers", 1),
    ],
)
def test_a_single_index_or_snapshot_file_gives_its_own_table(suffix: str, table: str, row_count: int, orders: Path) -> None:
    _write_every_kind_of_file(orders)
    base_offset = 0 if suffix == "index" else 100
    path = orders / segment_file_name(base_offset, suffix)
    assert len(read_rows(path, table)) == row_count
    assert read_rows(path) == []


def test_a_kraft_snapshot_file_is_a_log_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "__cluster_metadata-0"
    write_segment(folder, 0, made_batch(0, 2))
    snapshot = folder / "00000000000000000320-0000000003.checkpoint"
    snapshot.write_bytes(made_batch(0, 5))
    assert read_offsets(snapshot) == [0, 1, 2, 3, 4]
    assert read_offsets(folder) == [0, 1]


def test_the_kraft_snapshots_of_real_brokers_hold_records_and_control_records(golden: Any) -> None:
    folder = golden("4.3.0") / "4.3.0" / "__cluster_metadata-0"
    for snapshot in sorted(folder.glob("*.checkpoint")):
        rows = read_rows(snapshot, "records", ["offset", "is_control"], include_control=True)
        assert rows[0]["is_control"], "a snapshot begins with a header"
        assert rows[-1]["is_control"], "and ends with a footer"


# -- control records and transactions ----------------------------------------------------------------------------------------


@pytest.fixture
def transactions(tmp_path: Path) -> Path:
    """Producer 1 commits 0-2, producer 2 aborts 3-4, producer 3 leaves 9-10 open, with plain records between and after."""
    folder = tmp_path / "payments-0"
    write_segment(
        folder,
        0,
        transactional_batch(0, 3, 1),
        transactional_batch(3, 2, 2),
        marker(5, 1, commit=True, coordinator_epoch=8),
        made_batch(6, 1),
        marker(7, 2, commit=False),
        made_batch(8, 1),
    )
    write_segment(folder, 9, transactional_batch(9, 2, 3), made_batch(11, 2))
    return folder


def test_control_records_are_there_only_on_request(transactions: Path) -> None:
    assert read_offsets(transactions) == [0, 1, 2, 3, 4, 6, 8, 9, 10, 11, 12]
    rows = read_rows(transactions, "records", ["offset", "is_control", "key"], include_control=True)
    assert [row["offset"] for row in rows] == list(range(13))
    assert [row["key"] for row in rows if row["is_control"]] == [b"\0\0\0\1", b"\0\0\0\0"]


def test_read_committed_leaves_out_aborted_data_and_waits_at_an_open_transaction(transactions: Path) -> None:
    assert read_offsets(transactions, isolation="read_committed") == [0, 1, 2, 6, 8]
    write_segment(transactions, 13, marker(13, 3, commit=True))
    assert read_offsets(transactions, isolation="read_committed") == [0, 1, 2, 6, 8, 9, 10, 11, 12]


def test_an_offset_range_does_not_hide_the_marker_of_an_aborted_transaction(transactions: Path) -> None:
    assert read_offsets(transactions, isolation="read_committed", start_offset=2, stop_offset=7) == [2, 6]


def test_a_damaged_marker_does_not_end_a_committed_read_in_silence(tmp_path: Path) -> None:
    damaged_marker = bytearray(marker(5, 1, commit=True))
    damaged_marker[45] ^= 1  # another producer's, so that the transaction looks open
    write_segment(tmp_path / "a-0", 0, made_batch(0, 3), transactional_batch(3, 2, 1), bytes(damaged_marker), made_batch(6, 3))
    with pytest.raises(kafkalog.CorruptBatch):
        read_offsets(tmp_path, isolation="read_committed")


def test_transactions_have_their_state(transactions: Path) -> None:
    columns = ["producer_id", "state", "first_offset", "last_offset", "marker_offset", "record_count", "coordinator_epoch"]
    assert [tuple(row.values()) for row in read_rows(transactions, "transactions", columns)] == [
        (1, "committed", 0, 2, 5, 3, 8),
        (2, "aborted", 3, 4, 7, 2, 0),
        (3, "open", 9, 10, None, 2, None),
    ]


# -- threads -----------------------------------------------------------------------------------------------------------------


def test_any_number_of_threads_gives_the_same_records_in_the_same_order(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    for segment in range(4):
        first = segment * 20_000
        batches = [made_batch(first + at, 1000, codec=at // 1000 % 5) for at in range(0, 20_000, 1000)]
        write_segment(folder, first, *batches)
    one = kafkalog.open(folder).read("records", threads=1).read_all()
    four = kafkalog.open(folder).read("records", threads=4).read_all()
    assert one.num_rows == 80_000
    assert one.equals(four)


def test_a_read_that_is_given_up_leaves_no_thread_behind(orders: Path) -> None:
    import threading

    before = threading.enumerate()  # other tests of this process may have some
    reader = kafkalog.open(orders).read("records", threads=4)
    assert reader.read_next_batch().num_rows > 0
    assert set(threading.enumerate()) - set(before)
    del reader
    assert [thread for thread in threading.enumerate() if thread not in before] == []


# -- arguments that cannot be honoured ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        ({"table": "rows"}, "records, batches"),
        ({"columns": ["offset", "ofset"]}, "'ofset'"),
        ({"isolation": "committed"}, "read_committed"),
        ({"on_damage": "ignore"}, "salvage"),
        ({"topics": ["ordres"]}, "orders"),
        ({"threads": 0}, "at least 1"),
        ({"start_time": "today"}, "2026-01-31T12:00:00Z"),
    ],
)
def test_an_argument_that_cannot_be_honoured_is_refused_with_what_could(choices: dict[str, Any], told: str, orders: Path) -> None:
    with pytest.raises(kafkalog.UsageError) as refusal:
        kafkalog.open(orders).read(**choices)
    assert told in str(refusal.value)


def test_a_folder_without_logs_says_what_it_holds(tmp_path: Path) -> None:
    with pytest.raises(kafkalog.NoLogs, match="it is empty"):
        kafkalog.open(tmp_path)
    (tmp_path / "readme.txt").write_text("hello")
    with pytest.raises(kafkalog.NoLogs, match=r"readme\.txt"):
        kafkalog.open(tmp_path)
    with pytest.raises(kafkalog.StorageError, match="no such file"):
        kafkalog.open(tmp_path / "nowhere")


def test_a_file_that_is_no_segment_is_refused_by_name_and_content(tmp_path: Path) -> None:
    image = tmp_path / "picture.png"
    image.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(100)))
    with pytest.raises(kafkalog.UnsupportedFormat) as refusal:
        kafkalog.open(image)
    assert refusal.value.reason == "not-a-segment"
    assert str(image) in str(refusal.value)


def test_an_empty_segment_is_a_log_of_no_records(tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-0", 0)
    assert read_rows(tmp_path) == []
    (segment,) = read_rows(tmp_path, "segments")
    assert (segment["state"], segment["last_offset"], segment["size"]) == ("active", None, 0)


# -- damage and the report ---------------------------------------------------------------------------------------------------


def test_strict_gives_everything_before_the_first_damage_and_then_says_where_it_is(damaged: Path) -> None:
    reader = kafkalog.open(damaged).read("records", ["offset"])
    found: list[int] = []
    with pytest.raises(kafkalog.CorruptBatch) as damage:
        for batch in reader:
            found += batch.column(0).to_pylist()
    assert found == list(range(10))
    error = damage.value
    assert (error.reason, error.position, error.base_offset, error.last_offset) == ("crc", len(made_batch(0)), 10, 19)
    assert error.file.endswith(segment_file_name(0))


def test_skip_leaves_a_bad_batch_out_and_stops_where_the_framing_is_lost(damaged: Path) -> None:
    logs = kafkalog.open(damaged)
    assert read_offsets(logs, on_damage="skip") == list(range(10))
    sizes = [len(made_batch(first)) for first in (0, 10, 20, 30)]
    assert [(lost.reason, lost.position, lost.length) for lost in logs.report.dropped] == [
        ("crc", sizes[0], sizes[1]),
        ("length", sum(sizes[:2]), sum(sizes[2:])),
    ]
    assert not logs.report.is_clean


def test_salvage_resynchronises_after_a_corrupt_length_and_accounts_for_every_byte(damaged: Path) -> None:
    report = ReadReport()
    logs = kafkalog.open(damaged)
    assert read_offsets(logs, on_damage="salvage", report=report) == [*range(10), *range(30, 40)]
    assert report.reasons == {"crc": 1}, "after a bad checksum without an intact entry the length is not trusted"
    assert (report.kept_records, report.kept_batches) == (20, 2)
    assert report.kept_bytes + report.dropped_bytes == (damaged / segment_file_name(0)).stat().st_size
    assert report.as_dict()["kept"] == {"records": 20, "batches": 2, "bytes": report.kept_bytes}
    assert logs.report is report


@pytest.mark.parametrize("mode", ["strict", "skip", "salvage"])
def test_the_report_of_an_undamaged_log_counts_every_batch_and_byte(mode: str, tmp_path: Path) -> None:
    empty = encode_empty_batch(base_offset=10, last_offset=14, max_timestamp=FIRST_TIME)
    path = write_segment(tmp_path / "orders-0", 0, made_batch(0), empty, made_batch(15, 5))
    logs = kafkalog.open(tmp_path)
    read_rows(logs, on_damage=mode)
    report = logs.report
    assert (report.kept_records, report.kept_batches, report.kept_bytes) == (15, 3, path.stat().st_size)
    assert report.is_clean
    assert (report.dropped, report.tails, report.unread) == ([], [], [])


@pytest.mark.parametrize("mode", ["strict", "skip", "salvage"])
def test_a_torn_or_zero_tail_of_the_newest_segment_is_no_damage(mode: str, tmp_path: Path) -> None:
    for tail, reason in ((made_batch(10)[:-1], "torn"), (bytes(5000), "zero-tail"), (b"\0", "zero-tail")):
        write_segment(tmp_path / "orders-0", 0, made_batch(0), tail)
        logs = kafkalog.open(tmp_path)
        assert read_offsets(logs, on_damage=mode) == list(range(10))
        assert logs.report.is_clean
        assert [(lost.reason, lost.length) for lost in logs.report.tails] == [(reason, len(tail))]


def test_a_torn_end_of_an_older_segment_is_damage(tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-0", 0, made_batch(0), made_batch(10)[:-1])
    write_segment(tmp_path / "orders-0", 20, made_batch(20))
    with pytest.raises(kafkalog.TornTail):
        read_offsets(tmp_path)
    assert read_offsets(tmp_path, on_damage="skip") == [*range(10), *range(20, 30)]


def test_offsets_that_go_back_are_damage_unless_disorder_is_allowed(tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-0", 0, made_batch(0), made_batch(5), made_batch(20))
    with pytest.raises(kafkalog.CorruptBatch) as damage:
        read_offsets(tmp_path)
    assert damage.value.reason == "offset-order"
    assert read_offsets(tmp_path, allow_disorder=True) == [*range(10), *range(5, 15), *range(20, 30)]
    assert read_offsets(tmp_path, on_damage="skip") == [*range(10), *range(20, 30)]


def test_neighbours_show_a_gap_that_a_compacted_log_may_have(tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-0", 0, made_batch(0), made_batch(12))
    write_segment(tmp_path / "orders-0", 30, made_batch(30))
    assert len(read_offsets(tmp_path)) == 30
    logs = kafkalog.open(tmp_path)
    read_offsets(logs, neighbours=True, on_damage="skip")
    assert "gap" in logs.report.reasons
    with pytest.raises(kafkalog.CorruptBatch):
        read_offsets(tmp_path, neighbours=True)


def test_a_limit_is_distinguished_from_damage_and_can_be_raised(tmp_path: Path) -> None:
    big = encode_batch([Record(0, 0, None, bytes(100_000))], codec=4, compress=compress)
    write_segment(tmp_path / "orders-0", 0, big, made_batch(1, 2))
    with pytest.raises(kafkalog.LimitExceeded) as refusal:
        read_offsets(tmp_path, limits=kafkalog.Limits(record_bytes=99_999))
    assert refusal.value.reason == "record-limit"
    assert read_offsets(tmp_path, limits=kafkalog.Limits(record_bytes=99_999), on_damage="skip") == [1, 2]
    assert read_offsets(tmp_path) == [0, 1, 2]


def test_a_batch_that_decompresses_to_more_than_the_limit_is_refused(tmp_path: Path) -> None:
    big = encode_batch([Record(0, 0, None, bytes(100_000))], codec=4, compress=compress)
    write_segment(tmp_path / "orders-0", 0, big, made_batch(1, 2))
    limits = kafkalog.Limits(decompressed_bytes=50_000)
    with pytest.raises(kafkalog.LimitExceeded) as refusal:
        read_offsets(tmp_path, limits=limits)
    assert refusal.value.reason == "decompressed-limit"
    assert read_offsets(tmp_path, limits=limits, on_damage="skip") == [1, 2]


@pytest.mark.parametrize("suffix", ["txnindex", "snapshot"])
def test_a_side_file_that_cannot_be_read_is_an_error_or_a_line_in_the_report(suffix: str, orders: Path) -> None:
    table = "producers" if suffix == "snapshot" else "index_entries"
    path = orders / segment_file_name(0, suffix)
    path.write_bytes(b"\x07" * 100)
    with pytest.raises(kafkalog.UnsupportedFormat, match=path.name):
        read_rows(orders, table)
    logs = kafkalog.open(orders)
    read_rows(logs, table, on_damage="skip")
    assert [lost.file for lost in logs.report.dropped] == [str(path)]
