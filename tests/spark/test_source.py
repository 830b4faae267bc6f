"""The source in a Spark session: rows, columns, options, modes, tables, SQL, object stores, files that change."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.format.reference import Record, encode_batch
from kafkalog.spark.errors import SparkSourceError
from kafkalog.spark.options import for_batch, parse_options
from kafkalog.spark.read_plan import plan_splits
from kafkalog.tables.schemas import LOG_TABLES, TABLES
from tests.builders.small_logs import FIRST_TIME, compress, made_batch, made_records, read_rows, write_segment
from tests.clusters.disks import expected_records, log_directories, unpack_three
from tests.conftest import require
from tests.spark.compare import compare_era
from tests.spark.versions import has, require_spark
from tests.storage import test_object_store as server

Load = Callable[..., Any]
bucket = server.bucket
KAFKA_SCHEMA = "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
CORRUPT = "_corrupt_record struct<file_path:string,position:bigint,length:bigint,reason:string,bytes:binary>"


def offsets(frame: Any) -> list[int]:
    return [row.offset for row in frame.collect()]


def raised(action: Callable[[], object]) -> str:
    """The text of what Spark raises."""
    with pytest.raises(Exception, match="KAFKALOG_") as caught:
        action()
    return str(caught.value)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """orders-0 in two segments, orders-1 and payments-0."""
    write_segment(tmp_path / "orders-0", 0, *(made_batch(offset) for offset in range(0, 100, 10)), indexed=[4, 7])
    write_segment(tmp_path / "orders-0", 100, made_batch(100))
    write_segment(tmp_path / "orders-1", 0, made_batch(0))
    write_segment(tmp_path / "payments-0", 0, made_batch(0))
    return tmp_path


# -- replicas ----------------------------------------------------------------------------------------------------------------


def test_the_disks_of_three_brokers_are_read_as_one(spark: Any, golden_folder: Path) -> None:
    disks = golden_folder.parent / "clusters"
    paths = json.dumps(list(map(str, log_directories(unpack_three(disks)))))
    rows = spark.read.format("kafkalog").option("paths", paths).load().select("topic", "partition", "offset").collect()
    found: dict[str, list[int]] = {}
    for row in rows:
        found.setdefault(f"{row.topic}-{row.partition}", []).append(row.offset)
    expected = {name: [each["offset"] for each in records] for name, records in expected_records(disks).items() if records}
    assert {name: sorted(offsets) for name, offsets in found.items()} == expected


# -- the golden sets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["0.8.2.2", "0.10.0.1", "1.1.1", "4.3.0"])
def test_real_logs_through_spark_equal_what_consumers_returned(era: str, golden: Any, spark: Any) -> None:
    compared = compare_era(spark, golden(era), era, "read_uncommitted")
    assert compared.differences == []
    assert compared.partitions > 5
    assert compared.records > 1000


def test_read_committed_gives_the_offsets_of_a_committed_consumer(golden: Any, spark: Any) -> None:
    compared = compare_era(spark, golden("4.3.0"), "4.3.0", "read_committed")
    assert compared.differences == []
    assert compared.partitions > 5


@pytest.mark.parametrize("table", [name for name in LOG_TABLES if name != "records"])
def test_every_table_is_that_of_the_python_api(table: str, golden: Any, load: Load) -> None:
    path = golden("4.3.0") / "4.3.0"
    frame = load(path, table=table, subscribe="txn,epochs,none,upgraded-mixed", maxPartitionBytes=4000)
    columns = frame.columns
    assert columns == TABLES[table].default_columns
    topics = ["epochs", "none", "txn", "upgraded-mixed"]
    expected = [tuple(row[name] for name in columns) for row in read_rows(path, table, topics=topics)]
    assert sorted(map(repr, map(tuple, frame.collect()))) == sorted(map(repr, expected))


# -- columns -----------------------------------------------------------------------------------------------------------------


def test_the_schema_is_that_of_sparks_kafka_source(logs: Path, load: Load) -> None:
    assert load(logs).schema.simpleString() == KAFKA_SCHEMA
    assert load(logs, includeHeaders=True).schema[-1].simpleString() == "headers:array<struct<key:string,value:binary>>"


def test_a_schema_is_a_projection_in_any_order_with_other_types(tmp_path: Path, load: Load) -> None:
    headers = ((b"a", b"1"), (b"a", b"2"), (b"b", None))
    records = made_records(0, 2, headers=headers) + made_records(2, 1)
    write_segment(tmp_path / "orders-0", 0, encode_batch(records, compress=compress))
    schema = "timestamp bigint, value string, headers map<string,binary>, offset bigint, key string"
    rows = [tuple(row) for row in load(tmp_path, schema).collect()]
    pairs = {"a": bytearray(b"2"), "b": None}
    assert rows[0] == (FIRST_TIME, "value-0", pairs, 0, "key-0")
    assert rows[2] == (FIRST_TIME + 2, "value-2", None, 2, "key-2")
    (row,) = load(tmp_path, "timestamp timestamp_ntz, leader_epoch int", endingOffsets='{"orders":{"0":1}}').collect()
    assert row.timestamp.isoformat() == "2023-11-14T22:13:20"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("ofset long", "KAFKALOG_BAD_SCHEMA: table records has no column 'ofset'; there are key, value"),
        ("offset int", "KAFKALOG_BAD_SCHEMA: column offset cannot be int; allowed is bigint"),
        ("value int", "KAFKALOG_BAD_SCHEMA: column value cannot be int; allowed is binary or string"),
        ("offset long, value string, offset long", "KAFKALOG_BAD_SCHEMA: the schema has the column offset twice"),
    ],
)
def test_a_schema_that_the_table_cannot_give_is_refused(logs: Path, load: Load, schema: str, message: str) -> None:
    assert message in raised(lambda: load(logs, schema).collect())


def test_an_empty_schema_is_refused(logs: Path, spark: Any) -> None:
    from pyspark.sql.types import StructType

    frame = spark.read.format("kafkalog").schema(StructType([]))
    assert "KAFKALOG_BAD_SCHEMA: the schema is empty" in raised(lambda: frame.load(str(logs)).count())


def test_metadata_names_file_and_batch(logs: Path, load: Load) -> None:
    frame = load(logs, includeMetadata=True, subscribe="orders", maxPartitionBytes=400)
    row = frame.where("offset = 57").select("_metadata").collect()[0][0]
    file = logs / "orders-0" / "00000000000000000000.log"
    assert (row.file_path, row.file_name, row.file_size) == (str(file), file.name, file.stat().st_size)
    assert (row.batch_base_offset, row.codec, row.producer_id) == (50, "none", -1)
    assert 0 <= row.file_block_start < row.file_block_start + row.file_block_length <= row.file_size


def test_values_that_are_not_utf8_become_text_with_replacement_characters(tmp_path: Path, load: Load) -> None:
    records = [Record(0, 0, None, b"\xff", ()), Record(1, 1, b"", None, ())]
    write_segment(tmp_path / "orders-0", 0, encode_batch(records, compress=compress))
    rows = load(tmp_path, "key string, value string").collect()
    assert [tuple(row) for row in rows] == [(None, "\ufffd"), ("", None)]


def test_the_corrupt_column_may_not_have_the_name_of_another(logs: Path, load: Load) -> None:
    message = raised(lambda: load(logs, columnNameOfCorruptRecord="offset"))
    assert "KAFKALOG_BAD_OPTION: option columnNameOfCorruptRecord='offset'" in message


# -- options -----------------------------------------------------------------------------------------------------------------


def test_offsets_select_and_splits_follow_min_partitions(logs: Path, load: Load) -> None:
    frame = load(
        logs,
        assign='{"orders":[0]}',
        startingOffsets='{"orders":{"0":15}}',
        endingOffsets='{"orders":{"0":105}}',
        minPartitions=6,
    )
    assert frame.rdd.getNumPartitions() >= 5
    assert sorted(offsets(frame)) == list(range(15, 105))


def test_a_bad_option_fails_at_load_with_its_name_its_value_and_what_is_allowed(logs: Path, load: Load) -> None:
    message = raised(lambda: load(logs, startingOffsets="first"))
    assert "KAFKALOG_BAD_OPTION: option startingOffsets='first': allowed are earliest, latest and JSON" in message
    # Only at the first action does Spark's Python side learn that it is a batch read.
    message = raised(lambda: load(logs, startingOffsets="latest").count())
    assert "KAFKALOG_BAD_OPTION: option startingOffsets='latest': not allowed in a batch read" in message
    # With a schema of the user's Spark asks nothing of a source before the first action; still no task runs.
    message = raised(lambda: load(logs, "offset long", mode="x").count())
    assert "KAFKALOG_BAD_OPTION: option mode='x': allowed are FAILFAST" in message


def test_a_path_without_logs_is_named(tmp_path: Path, load: Load) -> None:
    assert f"KAFKALOG_NO_LOGS: {tmp_path}" in raised(lambda: load(tmp_path).count())
    assert "KAFKALOG_STORAGE: " in raised(lambda: load(tmp_path / "gone").count())


def test_several_paths_are_read_together(logs: Path, spark: Any) -> None:
    paths = [str(logs / "orders-1"), str(logs / "payments-0")]
    frame = spark.read.format("kafkalog").load(paths)
    assert sorted({row.topic for row in frame.collect()}) == ["orders", "payments"]


def test_no_partition_chosen_gives_no_rows(logs: Path, load: Load) -> None:
    assert load(logs, subscribePattern="nothing").count() == 0


# -- SQL ---------------------------------------------------------------------------------------------------------------------


def test_a_temporary_view_is_queried_with_sql(logs: Path, spark: Any) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW logs USING kafkalog OPTIONS (path '{logs}', subscribe 'orders')")
    query = "SELECT partition, count(*) AS n, max(offset) AS last FROM logs GROUP BY partition ORDER BY partition"
    assert [tuple(row) for row in spark.sql(query).collect()] == [(0, 110, 109), (1, 10, 9)]
    assert spark.sql("SELECT CAST(value AS STRING) FROM logs WHERE partition = 1 AND offset = 3").first()[0] == "value-3"


@pytest.mark.parametrize("columns", ["", "(offset bigint)"])
def test_a_table_that_would_lose_its_options_is_refused_with_what_works_instead(logs: Path, spark: Any, columns: str) -> None:
    def select() -> None:
        spark.sql(f"CREATE TABLE lost {columns} USING kafkalog OPTIONS (path '{logs}')")
        spark.sql("SELECT * FROM lost").collect()

    try:
        text = raised(select)
    finally:
        spark.sql("DROP TABLE IF EXISTS lost")
    assert "KAFKALOG_BAD_OPTION" in text
    assert "create a TEMPORARY VIEW" in text


# -- damage ------------------------------------------------------------------------------------------------------------------


def damaged(logs: Path) -> tuple[Path, int, int]:
    """Break a byte of the fourth batch of orders-0; its file, position and size."""
    file = logs / "orders-0" / "00000000000000000000.log"
    size = len(made_batch(30))
    position = sum(len(made_batch(offset)) for offset in (0, 10, 20))
    content = bytearray(file.read_bytes())
    content[position + 70] ^= 1
    file.write_bytes(content)
    return file, position, size


def test_failfast_names_file_position_and_reason(logs: Path, load: Load) -> None:
    file, position, _ = damaged(logs)
    assert f"KAFKALOG_CORRUPT_BATCH: file={file} position={position} reason=crc" in raised(lambda: load(logs).count())


@pytest.mark.parametrize("division", [{}, {"maxPartitionBytes": 400}, {"minPartitions": 9}, {"maxRecordsPerPartition": 7}])
def test_permissive_gives_one_row_for_a_bad_batch_however_it_is_split(logs: Path, load: Load, division: dict[str, int]) -> None:
    file, position, size = damaged(logs)
    rows = load(logs, mode="permissive", assign='{"orders":[0]}', **division).collect()
    good = sorted(row.offset for row in rows if row._corrupt_record is None)
    assert good == [*range(30), *range(40, 110)]
    (bad,) = [row for row in rows if row._corrupt_record is not None]
    assert set(bad[:-1]) == {None}
    found = bad._corrupt_record
    assert (found.file_path, found.position, found.length, found.reason) == (str(file), position, size, "crc")
    assert bytes(found.bytes) == file.read_bytes()[position : position + size]


def test_the_corrupt_column_can_have_another_name_and_comes_only_if_asked_for(logs: Path, load: Load) -> None:
    damaged(logs)
    assert load(logs, "offset long", mode="PERMISSIVE", assign='{"orders":[0]}').count() == 100
    schema = "offset long, " + CORRUPT.replace("_corrupt_record", "bad")
    frame = load(logs, schema, mode="PERMISSIVE", columnNameOfCorruptRecord="bad", assign='{"orders":[0]}')
    assert frame.where("bad.reason = 'crc'").count() == 1


def test_dropmalformed_leaves_bad_batches_out(logs: Path, load: Load) -> None:
    damaged(logs)
    assert sorted(offsets(load(logs, mode="DROPMALFORMED", assign='{"orders":[0]}'))) == [*range(30), *range(40, 110)]


BATCHES = {"table": "batches", "assign": '{"orders":[0]}'}


@pytest.mark.parametrize("division", [{}, {"maxPartitionBytes": 400}])
def test_the_modes_agree_on_a_wrong_checksum_in_the_table_of_batches(logs: Path, load: Load, division: dict[str, int]) -> None:
    file, position, size = damaged(logs)
    for schema in ("base_offset long", "base_offset long, crc_valid boolean"):
        frame = load(logs, schema, **BATCHES, **division)
        assert f"KAFKALOG_CORRUPT_BATCH: file={file} position={position} reason=crc" in raised(frame.collect)
    kept = [(offset,) for offset in (*range(0, 30, 10), *range(40, 110, 10))]
    dropped = load(logs, "base_offset long", mode="DROPMALFORMED", **BATCHES, **division)
    assert sorted(map(tuple, dropped.collect())) == kept
    rows = load(logs, f"base_offset long, {CORRUPT}", mode="PERMISSIVE", **BATCHES, **division).collect()
    assert sorted((row.base_offset,) for row in rows if row._corrupt_record is None) == kept
    (bad,) = [row._corrupt_record for row in rows if row._corrupt_record is not None]
    assert (bad.position, bad.length) == (position, size)
    # Offsets that leave it out do not meet it.
    assert load(logs, "base_offset long", **BATCHES, startingOffsets='{"orders":{"0":40}}').count() == 7


def test_without_checksums_a_batch_counts_by_its_header_alone(logs: Path, load: Load) -> None:
    damaged(logs)
    for option in ("checkCrcs", "kafka.check.crcs"):
        found = load(logs, "base_offset long, crc_valid boolean", **BATCHES, **{option: "false"}).collect()
        assert sorted(map(tuple, found)) == [(offset, offset != 30) for offset in range(0, 110, 10)]


def test_a_torn_tail_of_the_newest_segment_is_no_damage(logs: Path, load: Load) -> None:
    with (logs / "orders-0" / "00000000000000000100.log").open("ab") as stream:
        stream.write(made_batch(110)[:40])
    assert load(logs, assign='{"orders":[0]}').count() == 110
    assert load(logs, "base_offset long", **BATCHES).count() == 11


def test_a_last_entry_that_power_loss_left_with_a_hole_is_no_damage_in_any_table(logs: Path, load: Load) -> None:
    torn = bytearray(made_batch(110, 400))
    torn[-1100:] = bytes(1100)  # a whole sector of zeros among them
    with (logs / "orders-0" / "00000000000000000100.log").open("ab") as stream:
        stream.write(torn)
    assert load(logs, assign='{"orders":[0]}').count() == 110
    assert load(logs, "base_offset long", **BATCHES).count() == 11


# -- files that change -------------------------------------------------------------------------------------------------------


def test_a_file_that_changed_under_a_query_fails_with_its_name(logs: Path, load: Load) -> None:
    require_spark("snapshot")
    frame = load(logs, assign='{"orders":[0]}')
    assert frame.count() == 110
    file = logs / "orders-0" / "00000000000000000000.log"
    status = file.stat()
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert f"KAFKALOG_FILE_CHANGED: file={file}" in raised(frame.count)
    file.unlink()
    assert f"KAFKALOG_FILE_CHANGED: file={file}" in raised(frame.count)
    assert load(logs, assign='{"orders":[0]}').count() == 10


def test_a_file_that_retention_removed_is_left_out_where_data_loss_is_no_failure(logs: Path, load: Load) -> None:
    frame = load(logs, assign='{"orders":[0]}', failOnDataLoss=False)
    assert frame.count() == 110
    (logs / "orders-0" / "00000000000000000000.log").unlink()
    assert offsets(frame) == list(range(100, 110))


@pytest.mark.parametrize("table", ["records", "batches", "segments", "epochs"])
@pytest.mark.parametrize("place", [".", "orders-0"])
def test_a_folder_that_is_gone_when_a_task_comes_is_left_out_where_data_loss_is_no_failure(
    logs: Path, table: str, place: str
) -> None:
    require("pyspark")
    from pyspark.sql.types import IntegerType, StructField, StructType

    from kafkalog.spark.columns import Projection
    from kafkalog.spark.task_reading import read_split

    def rows(**choices: str) -> int:
        options = for_batch(parse_options({"path": str(logs / place), "table": table, **choices}))
        projection = Projection.of(StructType([StructField("partition", IntegerType())]), options)
        splits = plan_splits(options, 1)
        (logs / "orders-0").rename(logs / "elsewhere")
        try:
            return sum(batch.num_rows for split in splits for batch in read_split(split, projection, options))
        finally:
            (logs / "elsewhere").rename(logs / "orders-0")

    with pytest.raises(SparkSourceError, match="orders-0"):
        rows()
    assert (rows(failOnDataLoss="false") == 0) == (place == "orders-0")


def test_a_newest_segment_that_grows_is_read_up_to_where_it_ended(logs: Path, load: Load) -> None:
    frame = load(logs, assign='{"orders":[0]}')
    assert frame.count() == 110
    with (logs / "orders-0" / "00000000000000000100.log").open("ab") as stream:
        stream.write(made_batch(110))
    assert frame.count() == (110 if has("snapshot") else 120)
    assert load(logs, assign='{"orders":[0]}').count() == 120


# -- object stores -----------------------------------------------------------------------------------------------------------


def test_an_object_store_gives_what_local_files_give(bucket: server.Bucket, golden: Any, load: Load, tmp_path: Path) -> None:
    source = golden("4.3.0") / "4.3.0"
    for name in ("txn-0", "headers-zstd-0", "upgraded-mixed-0"):
        shutil.copytree(source / name, tmp_path / name)
        for path in (source / name).iterdir():
            bucket.put(f"spark/{name}/{path.name}", path.read_bytes())
    host = bucket.endpoint.removeprefix("http://").replace(":", "%3A")
    uri = f"s3a://test:test@logs/spark?scheme=http&endpoint_override={host}&region=us-east-1"
    columns = ["topic", "partition", "offset", "key", "value", "timestampType"]
    found = [tuple(row) for row in load(uri, maxPartitionBytes=3000).select(*columns).collect()]
    expected = [tuple(row[name] for name in columns) for row in read_rows(kafkalog.open(tmp_path), columns=columns)]
    assert found == [tuple(bytearray(cell) if isinstance(cell, bytes) else cell for cell in row) for row in expected]
