"""What lies in a lake besides rows: manifests, old metadata, folders of partitions, and uploads of killed runs."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import Any

import polars
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import kafkalog
from kafkalog.format.reference import Record, encode_batch
from kafkalog.spark.errors import SparkSourceError
from kafkalog.spark.ingestion import iceberg, lake_table
from kafkalog.spark.ingestion.local_target import LocalTarget
from tests.builders.small_logs import made_batch, write_segment
from tests.campaigns.object_store import BUCKET, store
from tests.conftest import NOBODY, require, require_root
from tests.spark.ingested import COLUMNS, read_logs, write_orders
from tests.spark.lake_tables import LAKES, catalog_of, check_lake, delta_table, iceberg_table, read_lake, take_lake


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return write_orders(tmp_path / "logs")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture(params=LAKES)
def lake(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("name", ["a%20b", "a\\b"])
def test_a_delta_target_whose_path_the_library_misreads_is_refused_before_anything_is_made(
    logs: Path, tmp_path: Path, name: str
) -> None:
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_BAD_TARGET: .*deltalake misreads a path"):
        take_lake(logs, tmp_path / name, "delta")
    assert not (tmp_path / name / "orders").exists()


def test_polars_reads_the_topic_and_the_day_of_a_delta_table(logs: Path, target: Path) -> None:
    write_segment(logs / "clicks-0", 0, made_batch(0))
    take_lake(logs, target, "delta", table="all", by="hour")
    columns = ["topic", "day", "hour"]
    found = polars.read_delta(str(target / "all")).group_by(columns).len().sort(columns).rows()
    assert found == [("clicks", date(2023, 11, 14), 22, 10), ("orders", date(2023, 11, 14), 22, 120)]


def test_a_commit_whose_answer_the_catalog_lost_keeps_its_manifests(
    logs: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_table = SqlCatalog.commit_table

    def unheard(*arguments: Any) -> None:
        commit_table(*arguments)
        raise ConnectionError("the answer was lost")

    monkeypatch.setattr(lake_table, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(SqlCatalog, "commit_table", unheard)
    assert take_lake(logs, target, "iceberg").records == 120
    assert read_lake(target, "iceberg") == read_logs(logs)


def test_a_reader_that_opens_a_new_catalog_at_once_does_not_fail_the_run(
    logs: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    link = LocalTarget._link

    def looked_at(self: LocalTarget, source: str, destination: str, *folders: int) -> None:
        link(self, source, destination, *folders)
        if destination == iceberg.CATALOG_FILE:
            seen.append(catalog_of(target).list_namespaces())

    monkeypatch.setattr(LocalTarget, "_link", looked_at)
    monkeypatch.setattr(SqlCatalog, "create_tables", lambda self: pytest.fail("made by whoever opens it"))
    assert take_lake(logs, target, "iceberg").records == 120
    assert seen == [[]]


def test_old_metadata_of_an_iceberg_table_is_deleted(logs: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(iceberg.UPKEEP, "write.metadata.previous-versions-max", "2")
    for offset in (110, 120, 130, 140):
        take_lake(logs, target, "iceberg")
        write_segment(logs / "orders-0", offset, made_batch(offset))
    assert len(list((target / "orders" / "metadata").glob("*.metadata.json"))) == 3
    assert len(read_lake(target, "iceberg")) == 150


def test_manifests_of_an_iceberg_table_are_merged_and_rows_can_still_be_replaced(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(iceberg.UPKEEP, "commit.manifest.min-count-to-merge", "2")
    folder = tmp_path / "logs" / "orders-0"
    for offset in (0, 10, 20, 30):
        write_segment(folder, offset, made_batch(offset))
        take_lake(tmp_path / "logs", target, "iceberg")
    assert iceberg_table(target).inspect.manifests().num_rows == 1
    assert read_lake(target, "iceberg") == read_logs(tmp_path / "logs")
    for offset in (20, 30):
        (folder / f"{offset:020d}.log").unlink()
    write_segment(folder, 20, encode_batch([Record(20, 5, b"new", b"20")], leader_epoch=9))
    assert take_lake(tmp_path / "logs", target, "iceberg", on_data_loss="continue").superseded == 20
    assert read_lake(target, "iceberg") == read_logs(tmp_path / "logs")
    check_lake(target, "iceberg", "orders", replaced=2)


def test_an_upload_that_a_killed_run_left_below_a_table_is_aborted(logs: Path) -> None:
    require("moto", "boto3", "werkzeug")
    with store() as client:
        key = "lake/orders/data/00000000000000000001-0000000000000-0123456789ab/day=2023-11-14/0.parquet"
        client.create_multipart_upload(Bucket=BUCKET, Key=key)
        take_lake(logs, f"s3://{BUCKET}/lake", "delta")
        write_segment(logs / "orders-0", 110, made_batch(110))
        assert take_lake(logs, f"s3://{BUCKET}/lake", "delta").records == 10
        assert client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []) == []


def test_a_table_that_another_ingest_has_made_meanwhile_is_ours(
    logs: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = iceberg.IcebergLakeTable.make

    def overtaken(*arguments: Any) -> None:
        monkeypatch.setattr(iceberg.IcebergLakeTable, "make", make)
        take_lake(logs, target, "iceberg")
        make(*arguments)

    monkeypatch.setattr(LocalTarget, "_lock", lambda self, descriptor: None)  # a file system on which locks do not hold
    monkeypatch.setattr(iceberg.IcebergLakeTable, "make", overtaken)
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_TARGET_BUSY: .*has made commit 1"):
        take_lake(logs, target, "iceberg")
    assert read_lake(target, "iceberg") == read_logs(logs)


def test_root_does_not_write_into_the_lake_of_another_user(logs: Path, target: Path, lake: str) -> None:
    require_root()
    target.mkdir()
    os.chown(target, NOBODY, NOBODY)
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_BAD_TARGET: .*belongs to user 65534; run this as that user"):
        take_lake(logs, target, lake)


@pytest.mark.parametrize("link", ["orders", "orders/data", "orders/metadata", "orders/_delta_log"])
def test_no_link_below_the_target_is_followed(logs: Path, target: Path, tmp_path: Path, lake: str, link: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (target / link).parent.mkdir(parents=True, exist_ok=True)
    (target / link).symlink_to(elsewhere)
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_BAD_TARGET: .*a symbolic link where an ingest has a folder"):
        take_lake(logs, target, lake)
    assert list(elsewhere.iterdir()) == []


def test_spark_s_workers_write_the_same_tables(logs: Path, target: Path, lake: str, spark: Any) -> None:
    assert take_lake(logs, target, lake, spark=spark, master=None, task_bytes=2000).tasks > 1
    assert read_lake(target, lake) == read_logs(logs)
    check_lake(target, lake, "orders")


def test_columns_are_those_of_the_records_table(logs: Path, target: Path, lake: str) -> None:
    take_lake(logs, target, lake)
    if lake == "iceberg":
        names = list(iceberg_table(target).schema().column_names)
    else:
        names = [field.name for field in delta_table(target).schema().fields]
    assert names[:7] == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert set(COLUMNS) <= set(kafkalog.open(logs).read("records").schema.names)
