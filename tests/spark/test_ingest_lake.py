"""Ingests into Iceberg and Delta tables: the rows, what these say of their files, and what a run finds that others left."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kafkalog.errors import StorageError, UsageError
from kafkalog.format.reference import Record, encode_batch
from kafkalog.spark.errors import SparkSourceError
from kafkalog.spark.ingestion import lake_ledger, lake_table, run
from kafkalog.spark.ingestion.delta import DeltaLakeTable
from kafkalog.spark.ingestion.iceberg import IcebergLakeTable
from kafkalog.spark.ingestion.lake_files import table_name
from kafkalog.spark.ingestion.local_target import LocalTarget
from tests.builders.small_logs import made_batch, write_segment
from tests.ports import reserve_port
from tests.spark.ingested import damaged_rows, read_logs, take, write_orders
from tests.spark.lake_tables import (
    LAKES,
    catalog_of,
    check_lake,
    counted_files,
    delta_table,
    iceberg_table,
    marks,
    read_lake,
    take_lake,
)

DAY_MS = 24 * 3600 * 1000
TABLES: dict[str, type[IcebergLakeTable] | type[DeltaLakeTable]] = {"iceberg": IcebergLakeTable, "delta": DeltaLakeTable}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return write_orders(tmp_path / "logs")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture(params=LAKES)
def lake(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def log_of(folder: Path, *records: Record) -> None:
    write_segment(folder, records[0].offset, encode_batch(list(records)))


# -- rows --------------------------------------------------------------------------------------------------------------------


def test_a_table_has_every_record_of_the_log_once_and_the_next_run_adds_what_is_new(logs: Path, target: Path, lake: str) -> None:
    summary = take_lake(logs, target, lake)
    assert (summary.commit, summary.records, [each.commit for each in summary.tables]) == (1, 120, [1])
    assert read_lake(target, lake) == read_logs(logs)
    assert take_lake(logs, target, lake).commit is None
    write_segment(logs / "orders-0", 110, made_batch(110))
    assert take_lake(logs, target, lake).records == 10
    assert read_lake(target, lake) == read_logs(logs)
    assert marks(target, lake) == {"commit": 2, "offsets": {"orders": {"0": 120}}}
    check_lake(target, lake, "orders")


def test_each_topic_has_a_table_of_its_own_or_all_share_one(logs: Path, target: Path, tmp_path: Path, lake: str) -> None:
    write_segment(logs / "clicks-0", 0, made_batch(0))
    assert [each.commit for each in take_lake(logs, target, lake).tables] == [1, 1]
    assert read_lake(target, lake, "clicks") == read_logs(logs / "clicks-0")
    both = tmp_path / "one"
    assert [each.records for each in take_lake(logs, both, lake, table="everything").tables] == [130]
    assert read_lake(both, lake, "everything") == read_logs(logs)
    write_segment(logs / "clicks-0", 10, made_batch(10))
    take_lake(logs, both, lake, table="everything")
    assert read_lake(both, lake, "everything") == read_logs(logs)
    check_lake(both, lake, "everything")


@pytest.mark.parametrize("by", ["day", "hour"])
def test_times_that_a_lake_cannot_have_are_kept_as_numbers(target: Path, tmp_path: Path, lake: str, by: str) -> None:
    times = [0, DAY_MS, 3 * 3600 * 1000, -1, 1_700_000_000_000_000, 1 << 60, (1 << 62) + 5, 253_402_300_799_999]
    for offset, time in enumerate(times):
        write_segment(tmp_path / "logs" / "orders-0", offset, encode_batch([Record(offset, time, b"k", b"v")]))
    take_lake(tmp_path / "logs", target, lake, by=by)
    rows = {
        offset: (moment, raw) for offset, moment, raw in read_lake(target, lake, columns=["offset", "timestamp", "timestamp_raw"])
    }
    assert rows[0] == (datetime(1970, 1, 1, tzinfo=UTC), None)
    assert rows[7] == (datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC), None)
    assert rows[3] == (None, None)
    assert [rows[offset] for offset in (4, 5, 6)] == [(None, times[4]), (None, times[5]), (None, times[6])]
    check_lake(target, lake, "orders")


def test_headers_metadata_and_decoded_values_are_columns(target: Path, tmp_path: Path, lake: str) -> None:
    value = json.dumps({"id": 7, "tags": ["a", None], "inner": {"x": 1.5, "ok": True}, "none": None}).encode()
    record = Record(0, 5, b"key", value, headers=((b"h", b"1"), (b"n", None)))
    log_of(tmp_path / "logs" / "orders-0", record, Record(1, 6, None, b"no json"), Record(2, 7, b"x", None))
    take_lake(tmp_path / "logs", target, lake, value="json", headers=True, metadata=True)
    rows = read_lake(target, lake, columns=["offset", "value", "value_raw", "headers", "magic", "producer_epoch", "codec"])
    assert rows[0][1] == {"id": 7, "tags": ["a", None], "inner": {"x": 1.5, "ok": True}, "none": None}
    assert rows[0][3] == [{"key": "h", "value": b"1"}, {"key": "n", "value": None}]
    assert rows[1][1:3] == (None, b"no json")
    assert rows[2][1:3] == (None, None)
    assert {row[4:] for row in rows} == {(2, -1, "none")}
    take_lake(tmp_path / "logs", target, lake, value="json", headers=True, metadata=True)
    with pytest.raises(SparkSourceError, match="earlier runs had headers=True"):
        take_lake(tmp_path / "logs", target, lake, value="json", metadata=True)


def test_duckdb_polars_and_pyarrow_read_the_same_rows(logs: Path, target: Path) -> None:
    for lake in LAKES:
        take_lake(logs, target / lake, lake)
    iceberg = iceberg_table(target / "iceberg")
    frames = [
        iceberg.scan().to_polars().to_arrow(),
        polars.read_delta(str(target / "delta" / "orders")).to_arrow(),
        duckdb.arrow(iceberg.scan().to_arrow()).to_arrow_table(),
        duckdb.arrow(delta_table(target / "delta").to_pyarrow_dataset()).to_arrow_table(),
    ]
    offsets = sorted(row[1:3] for row in read_logs(logs))
    for frame in frames:
        assert sorted(zip(*(frame.column(name).to_pylist() for name in ("partition", "offset")), strict=True)) == offsets


# -- what a table says of its files --------------------------------------------------------------------------------------------


def test_statistics_are_those_of_the_files(logs: Path, target: Path) -> None:
    take_lake(logs, target, "delta", table="all")
    (action,) = pa.table(delta_table(target, "all").get_add_actions(flatten=True)).to_pylist()
    rows = pq.read_table(target / "all" / action["path"])
    assert action["num_records"] == rows.num_rows == 120
    assert (action["partition.topic"], action["partition.day"]) == ("orders", date(2023, 11, 14))
    for name in ("partition", "offset", "timestamp"):
        low, high = (pc.min_max(rows.column(name))[end].as_py() for end in ("min", "max"))
        assert (action[f"min.{name}"], action[f"max.{name}"], action[f"null_count.{name}"]) == (low, high, 0)
    take_lake(logs, target / "iceberg", "iceberg", table="all")
    (task,) = iceberg_table(target / "iceberg", "all").scan().plan_files()
    (found,) = iceberg_table(target / "iceberg", "all").inspect.files().to_pylist()
    metrics = found["readable_metrics"]
    assert (metrics["offset"]["lower_bound"], metrics["offset"]["upper_bound"]) == (0, 109)
    assert (metrics["partition"]["lower_bound"], metrics["partition"]["upper_bound"]) == (0, 1)
    assert (metrics["topic"]["lower_bound"], metrics["key"]["value_count"]) == ("orders", 120)
    assert [task.file.partition[0], task.file.partition[1]] == ["orders", (date(2023, 11, 14) - date(1970, 1, 1)).days]
    assert task.file.file_size_in_bytes == Path(task.file.file_path).stat().st_size
    assert task.file.sort_order_id == 1
    offsets = iceberg_table(target / "iceberg", "all").scan(row_filter="offset >= 100").to_arrow().column("offset").to_pylist()
    assert sorted(offsets) == list(range(100, 110))
    assert iceberg_table(target / "iceberg", "all").scan(row_filter="offset > 109").plan_files() == []


def test_files_have_the_ids_of_iceberg_s_columns(logs: Path, target: Path) -> None:
    take_lake(logs, target, "iceberg", headers=True)
    table = iceberg_table(target)
    (path,) = counted_files(target, "iceberg")
    written = pq.ParquetFile(target / path).schema_arrow
    for field in table.schema().fields:
        assert written.field(field.name).metadata[b"PARQUET:field_id"] == str(field.field_id).encode()
    assert "schema.name-mapping.default" not in table.properties
    assert [str(field.transform) for field in table.spec().fields] == ["day"]


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("orders", "orders"),
        ("a.b-c_d", "a.b-c_d"),
        ("__consumer_offsets", "consumer_offsets~f6c2f1d9b8d4bb45"),
        ("catalog.db", "catalog.db~"),
        ("..x", "x~"),
        ("x" * 249, "x" * 183 + "~"),
    ],
)
def test_every_topic_has_a_folder_of_its_own_that_is_no_other_file_of_the_target(topic: str, name: str) -> None:
    found = table_name(topic)
    assert found.startswith(name.partition("~")[0])
    assert ("~" in found) == ("~" in name)
    assert len(found) <= 200


# -- runs that are killed, lose, or get no answer --------------------------------------------------------------------------------


class Killed(BaseException):
    """A run that ends here, as if it were killed: nothing after it happens."""


def killed(monkeypatch: pytest.MonkeyPatch, place: Any, name: str, *, after: bool = False) -> None:
    """Kill the run at a call, before or after its work."""
    function = getattr(place, name)

    def call(*arguments: Any, **named: Any) -> None:
        if after:
            function(*arguments, **named)
        raise Killed(name)

    monkeypatch.setattr(place, name, call)
    # What a killed process cannot do any more.
    monkeypatch.setattr(lake_ledger.LakeLedger, "discard", lambda self: None)
    monkeypatch.setattr(lake_ledger.LakeLedger, "_give_up", lambda self, edit: None)


MOMENTS: dict[str, Callable[[pytest.MonkeyPatch, str], None]] = {
    "settings": lambda patch, lake: killed(patch, lake_ledger.LakeLedger, "_settle_settings", after=True),
    "table made": lambda patch, lake: killed(patch, lake_ledger.LakeLedger, "layout", after=True),
    "tasks ended": lambda patch, lake: killed(patch, run, "check_ends"),
    "recorded, not committed": lambda patch, lake: killed(patch, TABLES[lake], "append"),
    "committed": lambda patch, lake: killed(patch, TABLES[lake], "append", after=True),
    "committed, not tidied": lambda patch, lake: killed(patch, lake_ledger.LakeLedger, "_remove_unnamed"),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_killed_at_any_step_loses_and_doubles_nothing(
    logs: Path, target: Path, lake: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_segment(logs / "clicks-0", 0, made_batch(0))
    for again in range(2):  # the first commits of the tables, and later ones
        with monkeypatch.context() as patch:
            MOMENTS[moment](patch, lake)
            if again and moment == "settings":  # only the first run settles them
                take_lake(logs, target, lake)
            else:
                with pytest.raises(Killed):
                    take_lake(logs, target, lake)
        take_lake(logs, target, lake)
        assert read_lake(target, lake) == read_logs(logs, topics="orders")
        assert read_lake(target, lake, "clicks") == read_logs(logs, topics="clicks")
        check_lake(target, lake, "orders", "clicks")
        write_segment(logs / "orders-0", 110, made_batch(110))
        write_segment(logs / "clicks-0", 10, made_batch(10))


def test_a_run_killed_between_two_tables_has_happened_in_one_of_them(
    logs: Path, target: Path, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_segment(logs / "clicks-0", 0, made_batch(0))
    commit = lake_table.commit_once

    def first_only(table: Any, what: Any, require_files: Any) -> None:
        if "orders" in table.name:
            raise Killed
        commit(table, what, require_files)

    with monkeypatch.context() as patch:
        patch.setattr(lake_ledger, "commit_once", first_only)
        patch.setattr(lake_ledger.LakeLedger, "discard", lambda self: None)
        with pytest.raises(Killed):
            take_lake(logs, target, lake)
    assert read_lake(target, lake, "clicks") == read_logs(logs, topics="clicks")
    assert read_lake(target, lake, "orders") == []
    assert take_lake(logs, target, lake).records == 120
    assert read_lake(target, lake, "orders") == read_logs(logs, topics="orders")
    check_lake(target, lake, "orders", "clicks")


def test_an_answer_that_is_lost_on_the_way_is_looked_up_not_repeated(
    logs: Path, target: Path, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = TABLES[lake].append
    calls = []

    def unheard(table: Any, commit: Any) -> None:
        calls.append(commit)
        append(table, commit)
        raise ConnectionError("the answer was lost")

    monkeypatch.setattr(TABLES[lake], "append", unheard)
    assert take_lake(logs, target, lake).records == 120
    assert len(calls) == 1
    assert read_lake(target, lake) == read_logs(logs)


def test_a_last_attempt_that_met_its_own_commit_is_no_failure(
    logs: Path, target: Path, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = TABLES[lake].append

    def refused(table: Any, commit: Any) -> None:  # its request was repeated on the way
        append(table, commit)
        raise lake_table.Conflict("it is there already")

    monkeypatch.setattr(lake_table, "TRIES", 1)
    monkeypatch.setattr(TABLES[lake], "append", refused)
    assert take_lake(logs, target, lake).records == 120
    assert read_lake(target, lake) == read_logs(logs)
    check_lake(target, lake, "orders")


def test_files_of_a_commit_that_may_have_happened_below_another_one_are_kept(
    logs: Path, target: Path, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = TABLES[lake].append

    def followed(table: Any, commit: Any) -> None:
        """The answer is lost, and the next ingest is faster than this one looks it up."""
        monkeypatch.setattr(TABLES[lake], "append", append)
        append(table, commit)
        inner = type(table)(*_arguments(table))
        inner.head()
        append(inner, replace_run(commit, commit.edit.number + 1))
        raise ConnectionError("the answer was lost")

    monkeypatch.setattr(lake_table, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(TABLES[lake], "append", followed)
    with pytest.raises(SparkSourceError, match="the next run finds out whether it happened"):
        take_lake(logs, target, lake)
    assert read_lake(target, lake) == read_logs(logs)


def test_a_commit_that_never_reached_the_table_is_made_again(
    logs: Path, target: Path, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = TABLES[lake].append
    failures = [ConnectionError("not sent"), lake_table.Conflict("another writer"), None]

    def sometimes(table: Any, commit: Any) -> None:
        failure = failures.pop(0)
        if failure is not None:
            raise failure
        append(table, commit)

    monkeypatch.setattr(lake_table, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(TABLES[lake], "append", sometimes)
    take_lake(logs, target, lake)
    assert read_lake(target, lake) == read_logs(logs)


def test_a_table_that_does_not_answer_any_more_leaves_the_outcome_to_the_next_run(
    logs: Path, target: Path, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(lake_table, "PAUSE_SECONDS", 0.001)

        def away(table: Any, commit: Any) -> None:
            raise ConnectionError("nobody there")

        patch.setattr(TABLES[lake], "append", away)
        with pytest.raises(SparkSourceError, match="the next run finds out whether it happened"):
            take_lake(logs, target, lake)
    take_lake(logs, target, lake)
    assert read_lake(target, lake) == read_logs(logs)
    check_lake(target, lake, "orders")


def test_of_two_runs_that_pass_the_lock_one_commits_and_the_other_says_so(
    logs: Path, target: Path, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_lake(logs, target, lake)
    write_segment(logs / "orders-0", 110, made_batch(110))
    append = TABLES[lake].append

    def overtaken(table: Any, commit: Any) -> None:
        monkeypatch.setattr(TABLES[lake], "append", append)
        inner = type(table)(*_arguments(table))
        inner.head()
        append(inner, replace_run(commit))
        append(table, commit)

    monkeypatch.setattr(lake_table, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(TABLES[lake], "append", overtaken)
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_TARGET_BUSY: .*has made commit 2"):
        take_lake(logs, target, lake)
    assert len(counted_files(target, lake)) == 1


@pytest.mark.parametrize("place", ["commit_once", "_record"])
def test_a_run_that_another_one_believes_dead_cannot_commit_files_that_are_removed(
    logs: Path, target: Path, lake: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_lake(logs, target, lake)
    write_segment(logs / "orders-0", 110, made_batch(110))
    owner: Any = lake_ledger if place == "commit_once" else lake_ledger.LakeLedger
    function = getattr(owner, place)

    def overtaken(*arguments: Any) -> None:
        monkeypatch.setattr(owner, place, function)
        take_lake(logs, target, lake)
        function(*arguments)

    monkeypatch.setattr(LocalTarget, "_lock", lambda self, descriptor: None)  # a file system on which locks do not hold
    monkeypatch.setattr(owner, place, overtaken)
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_TARGET_BUSY: .*has made commit 3"):
        take_lake(logs, target, lake)
    assert take_lake(logs, target, lake).commit is None
    assert read_lake(target, lake) == read_logs(logs)
    check_lake(target, lake, "orders")


def _arguments(table: Any) -> tuple[Any, ...]:
    if isinstance(table, IcebergLakeTable):
        return table.catalog, table.target, table.options, table.folder, table.topic
    from kafkalog.spark.ingestion.target import open_target

    return open_target(table.options.target), table.options, table.folder, table.topic


def replace_run(commit: lake_table.LakeCommit, number: int | None = None) -> lake_table.LakeCommit:
    """The commit of another run that wants the same number, or this one, and adds nothing."""
    edit = commit.edit
    wanted = type(edit)(edit.table, edit.number if number is None else number, "0000000000000-0123456789ab")
    return lake_table.LakeCommit(wanted, (), (), commit.offsets)


# -- others at the same table --------------------------------------------------------------------------------------------------


def test_other_writers_may_compact_the_table_between_runs(logs: Path, target: Path, lake: str) -> None:
    for offset in (110, 120):
        take_lake(logs, target, lake)
        write_segment(logs / "orders-0", offset, made_batch(offset))
    if lake == "delta":
        delta_table(target).optimize.compact()
        delta_table(target).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    else:
        table = iceberg_table(target)
        table.overwrite(table.scan().to_arrow())
        iceberg_table(target).maintenance.expire_snapshots().older_than(datetime.now()).commit()
    take_lake(logs, target, lake)
    assert read_lake(target, lake) == read_logs(logs)


def test_rows_that_a_truncated_log_no_longer_holds_leave_the_table(target: Path, tmp_path: Path, lake: str) -> None:
    folder = tmp_path / "logs" / "orders-0"
    write_segment(folder, 0, made_batch(0), made_batch(10), made_batch(20))
    take_lake(tmp_path / "logs", target, lake)
    before = read_lake(target, lake)
    shutil.rmtree(folder)
    log = encode_batch([Record(offset, 5, b"new", b"%d" % offset) for offset in range(10, 15)], leader_epoch=9)
    write_segment(folder, 0, made_batch(0), log)
    with pytest.raises(SparkSourceError, match="KAFKALOG_DATA_LOSS"):
        take_lake(tmp_path / "logs", target, lake)
    assert read_lake(target, lake) == before
    summary = take_lake(tmp_path / "logs", target, lake, on_data_loss="continue")
    assert summary.superseded == 20
    assert read_lake(target, lake) == read_logs(tmp_path / "logs")
    aside = [pq.read_table(path).num_rows for path in (target / "_superseded").rglob("*.parquet")]
    assert sum(aside) == 20
    check_lake(target, lake, "orders", replaced=1)


def test_a_damaged_batch_is_set_aside_once(target: Path, tmp_path: Path, lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = bytearray(made_batch(10))
    damaged[-1] ^= 1
    write_segment(tmp_path / "logs" / "orders-0", 0, made_batch(0), bytes(damaged), made_batch(20))
    with monkeypatch.context() as patch:
        killed(patch, TABLES[lake], "append")
        with pytest.raises(Killed):
            take_lake(tmp_path / "logs", target, lake)
    assert take_lake(tmp_path / "logs", target, lake).damaged_ranges == 1
    assert [row["base_offset"] for row in damaged_rows(target)] == [10]
    assert read_lake(target, lake) == read_logs(tmp_path / "logs", on_damage="salvage")


def test_a_run_without_records_still_says_how_far_it_came(target: Path, tmp_path: Path, lake: str) -> None:
    damaged = bytearray(made_batch(0))
    damaged[-1] ^= 1
    write_segment(tmp_path / "logs" / "orders-0", 0, bytes(damaged))
    write_segment(tmp_path / "logs" / "orders-0", 10, made_batch(10))
    take_lake(tmp_path / "logs", target, lake, options={"endingOffsets": '{"orders": {"0": 10}}'})
    assert (marks(target, lake)["commit"], read_lake(target, lake)) == (1, [])
    assert take_lake(tmp_path / "logs", target, lake).damaged_ranges == 0
    assert [row["base_offset"] for row in damaged_rows(target)] == [0]
    assert len(read_lake(target, lake)) == 10
    check_lake(target, lake, "orders")


# -- what cannot be ------------------------------------------------------------------------------------------------------------


def test_a_target_keeps_the_format_of_its_tables(logs: Path, tmp_path: Path) -> None:
    take(logs, tmp_path / "parquet")
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_BAD_TARGET: .*its tables are parquet, not delta"):
        take_lake(logs, tmp_path / "parquet", "delta")
    take_lake(logs, tmp_path / "delta", "delta")
    with pytest.raises(SparkSourceError, match=r"its tables are delta: --as delta"):
        take(logs, tmp_path / "delta")
    for choices in (
        {"table_format": "iceberg"},
        {"table_format": "delta", "table": "all"},
        {"table_format": "delta", "by": "hour"},
    ):
        with pytest.raises(SparkSourceError, match="use the same setting, or choose another target"):
            take(logs, tmp_path / "delta", **choices)


def test_a_table_that_is_not_ours_is_left_alone(logs: Path, target: Path, lake: str) -> None:
    rows = pa.table({"x": [1, 2]})
    if lake == "delta":
        import deltalake

        deltalake.write_deltalake(target / "orders", rows)
    else:
        (target / "orders").mkdir(parents=True)

        catalog_of(target).create_namespace("kafka")
        catalog_of(target).create_table(("kafka", "orders"), rows.schema).append(rows)
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_BAD_TARGET: .*was not made by an ingest"):
        take_lake(logs, target, lake)


def test_a_column_that_somebody_added_stays_and_one_of_another_type_is_an_error(logs: Path, target: Path, lake: str) -> None:
    take_lake(logs, target, lake)
    write_segment(logs / "orders-0", 110, made_batch(110))
    if lake == "delta":
        from deltalake import Field
        from deltalake.schema import PrimitiveType

        delta_table(target).alter.add_columns(Field("note", PrimitiveType("string")))
    else:
        from pyiceberg.types import StringType

        with iceberg_table(target).update_schema() as update:
            update.add_column("note", StringType())
    take_lake(logs, target, lake)
    assert read_lake(target, lake) == read_logs(logs)
    assert {row[0] for row in read_lake(target, lake, columns=["note"])} == {None}


def test_a_column_that_somebody_renamed_comes_back_and_a_retyped_one_is_refused(logs: Path, target: Path) -> None:
    take_lake(logs, target, "iceberg")
    write_segment(logs / "orders-0", 110, made_batch(110))
    from pyiceberg.types import StringType

    with iceberg_table(target).update_schema(allow_incompatible_changes=True) as update:
        update.rename_column("key", "old_key")
    with iceberg_table(target).update_schema() as update:
        update.add_column("key", StringType())
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_BAD_TARGET: kafka\.orders: its column key is string, not binary"):
        take_lake(logs, target, "iceberg")


def test_a_table_that_was_dropped_is_not_taken_for_a_new_one(logs: Path, target: Path, lake: str) -> None:
    take_lake(logs, target, lake)
    write_segment(logs / "orders-0", 110, made_batch(110))
    if lake == "delta":
        shutil.rmtree(target / "orders" / "_delta_log")
    else:
        (target / "catalog.db").unlink()
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_BAD_TARGET: .*was it dropped, or is this another catalog"):
        take_lake(logs, target, lake)
    assert len(list((target / "orders" / "data").rglob("*.parquet"))) == 1, "files of a table that was only moved are kept"


def test_without_its_record_a_commit_is_not_guessed(logs: Path, target: Path, lake: str) -> None:
    take_lake(logs, target, lake)
    shutil.rmtree(target / "_kafkalog" / "tables")
    with pytest.raises(SparkSourceError, match="the record of commit 1 is missing"):
        take_lake(logs, target, lake)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"table_format": "hudi"}, "allowed are parquet, iceberg, delta"),
        ({"table": "all"}, "Parquet has a folder for each topic"),
        ({"table_format": "delta", "table": "../x"}, "allowed are letters"),
        ({"table_format": "delta", "catalog": "prod"}, "only Iceberg has catalogs"),
        ({"table_format": "iceberg", "catalog": "nowhere"}, "PyIceberg's configuration"),
        ({"table_format": "iceberg", "namespace": "a..b"}, "names joined by dots"),
    ],
)
def test_choices_that_cannot_be_are_refused_with_what_is_allowed(
    logs: Path, target: Path, choices: dict[str, Any], words: str
) -> None:
    with pytest.raises((SparkSourceError, UsageError), match=words):
        take(logs, target, **choices)


def test_a_catalog_that_is_not_there_is_an_error_before_anything_is_written(logs: Path, target: Path) -> None:
    properties = {"type": "rest", "uri": f"http://127.0.0.1:{reserve_port()}"}
    with pytest.raises((SparkSourceError, StorageError), match="KAFKALOG_STORAGE"):
        take_lake(logs, target, "iceberg", catalog_properties=properties)
    assert not list(target.rglob("*.parquet"))


def test_an_empty_topic_and_a_dry_run_make_no_table(logs: Path, target: Path, lake: str) -> None:
    assert take_lake(logs, target, lake, dry_run=True).partitions
    assert not target.exists()
