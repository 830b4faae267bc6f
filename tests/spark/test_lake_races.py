"""What others do to a table and to the files of a run between its plan and its commit, and tasks that run twice."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from kafkalog.spark.errors import FILE_CHANGED, SparkSourceError
from kafkalog.spark.ingestion import executors, lake_ledger, lake_table
from kafkalog.spark.ingestion.executors import ThreadExecutor
from kafkalog.spark.ingestion.lake_ledger import LakeLedger
from kafkalog.spark.ingestion.local_target import LocalTarget
from kafkalog.spark.ingestion.task_writing import IngestTask, TaskResult, write_task
from tests.builders.small_logs import made_batch, write_segment
from tests.campaigns.object_store import BUCKET, store
from tests.conftest import require
from tests.spark.ingested import read_logs, write_orders
from tests.spark.lake_tables import LAKES, check_lake, counted_files, delta_table, iceberg_table, read_lake, take_lake
from tests.spark.test_ingest_lake import TABLES, Killed, killed

Patch = pytest.MonkeyPatch
Act = Callable[[Path, str], None]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return write_orders(tmp_path / "logs")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture(params=LAKES)
def lake(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def quick(monkeypatch: Patch) -> None:
    monkeypatch.setattr(lake_table, "PAUSE_SECONDS", 0.001)


def once_before(patch: Patch, owner: Any, name: str, act: Callable[[], object]) -> None:
    """Do something before the first call of a function."""
    function = getattr(owner, name)

    def call(*arguments: Any, **named: Any) -> Any:
        patch.setattr(owner, name, function)
        act()
        return function(*arguments, **named)

    patch.setattr(owner, name, call)


def without_locks(patch: Patch) -> None:
    """As on a file system on which locks do not hold."""
    patch.setattr(LocalTarget, "_lock", lambda self, descriptor: None)


def staging(target: Path) -> list[str]:
    folder = target / "_kafkalog" / "staging"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


# -- other writers between the plan and the commit -------------------------------------------------------------------------------


def compact(target: Path, lake: str) -> None:
    if lake == "delta":
        delta_table(target).optimize.compact()
    else:
        table = iceberg_table(target)
        table.overwrite(table.scan().to_arrow())


def expire(target: Path, lake: str) -> None:
    """Forget what is older than now, as far as these tools do it without being forced."""
    compact(target, lake)
    if lake == "delta":
        delta_table(target).vacuum(dry_run=False)
        delta_table(target).cleanup_metadata()
        delta_table(target).create_checkpoint()
    else:
        iceberg_table(target).maintenance.expire_snapshots().older_than(datetime.now()).commit()


def delete_rows(target: Path, lake: str) -> None:
    if lake == "delta":
        delta_table(target).delete("offset < 5")
    else:
        iceberg_table(target).delete("offset < 5")


@pytest.mark.parametrize("moment", ["before the table is looked at", "after it"])
@pytest.mark.parametrize("act", [compact, expire])
def test_a_table_that_is_compacted_between_plan_and_commit_gets_every_record_once(
    logs: Path, target: Path, lake: str, act: Act, moment: str, monkeypatch: Patch
) -> None:
    for offset in (110, 120):
        take_lake(logs, target, lake)
        write_segment(logs / "orders-0", offset, made_batch(offset))
    owner, name = (lake_ledger, "commit_once") if "before" in moment else (TABLES[lake], "append")
    once_before(monkeypatch, owner, name, lambda: act(target, lake))
    assert take_lake(logs, target, lake).records == 10
    assert read_lake(target, lake) == read_logs(logs)
    write_segment(logs / "orders-0", 130, made_batch(130))
    assert take_lake(logs, target, lake).records == 10
    assert read_lake(target, lake) == read_logs(logs)


def test_rows_that_another_writer_deletes_meanwhile_stay_deleted(logs: Path, target: Path, lake: str, monkeypatch: Patch) -> None:
    take_lake(logs, target, lake)
    write_segment(logs / "orders-0", 110, made_batch(110))
    once_before(monkeypatch, TABLES[lake], "append", lambda: delete_rows(target, lake))
    assert take_lake(logs, target, lake).records == 10
    assert read_lake(target, lake) == [row for row in read_logs(logs) if row[2] >= 5]


def truncated(folder: Path) -> None:
    """The log again, without its last records."""
    shutil.rmtree(folder)
    write_segment(folder, 0, made_batch(0), made_batch(10))


def test_a_file_that_is_compacted_after_its_rows_were_set_aside_stops_the_run_at_once_and_the_next_one_sets_them_aside(
    tmp_path: Path, target: Path, lake: str, monkeypatch: Patch
) -> None:
    logs = tmp_path / "logs"
    for offset in (0, 10, 20):
        write_segment(logs / "orders-0", offset, made_batch(offset))
        take_lake(logs, target, lake)
    truncated(logs / "orders-0")
    monkeypatch.setattr(lake_table, "PAUSE_SECONDS", 10)
    once_before(monkeypatch, lake_ledger, "commit_once", lambda: compact(target, lake))
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_TARGET_BUSY: .*another writer has replaced .*run this again"):
        take_lake(logs, target, lake, on_data_loss="continue")
    assert staging(target) == []
    assert take_lake(logs, target, lake, on_data_loss="continue").superseded == 10
    assert read_lake(target, lake) == read_logs(logs)


def test_files_that_a_vacuum_takes_before_the_commit_are_not_named_by_the_table(
    logs: Path, target: Path, lake: str, monkeypatch: Patch
) -> None:
    take_lake(logs, target, lake)
    write_segment(logs / "orders-0", 110, made_batch(110))

    def sweep() -> None:
        """What a vacuum and a removal of orphan files without a limit do; PyIceberg has none."""
        if lake == "delta":
            delta_table(target).vacuum(0, enforce_retention_duration=False, dry_run=False, full=True)
        else:
            counted = counted_files(target, lake)
            for path in (target / "orders" / "data").rglob("*.parquet"):
                if str(path.relative_to(target)) not in counted:
                    path.unlink()

    once_before(monkeypatch, lake_ledger, "commit_once", sweep)
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_STORAGE: .*removed before the run could commit it.*Run this again"):
        take_lake(logs, target, lake)
    assert (len(read_lake(target, lake)), staging(target)) == (120, [])
    assert take_lake(logs, target, lake).records == 10
    assert read_lake(target, lake) == read_logs(logs)
    check_lake(target, lake, "orders")


def test_a_partitioning_that_is_changed_meanwhile_is_refused(logs: Path, target: Path, monkeypatch: Patch) -> None:
    from pyiceberg.transforms import HourTransform

    take_lake(logs, target, "iceberg")
    write_segment(logs / "orders-0", 110, made_batch(110))

    def evolve() -> None:
        with iceberg_table(target).update_spec() as update:
            update.add_field("timestamp", HourTransform(), "hours")

    once_before(monkeypatch, lake_ledger, "commit_once", evolve)
    with pytest.raises(
        SparkSourceError, match=r"KAFKALOG_BAD_TARGET: .*partitioned by timestamp_day, hours, not by timestamp_day"
    ):
        take_lake(logs, target, "iceberg")
    assert len(read_lake(target, "iceberg")) == 120


# -- runs that come late ---------------------------------------------------------------------------------------------------------


def test_files_of_a_run_that_recorded_its_commit_two_numbers_late_are_removed(
    logs: Path, target: Path, lake: str, monkeypatch: Patch
) -> None:
    take_lake(logs, target, lake)
    write_segment(logs / "orders-0", 110, made_batch(110))

    with monkeypatch.context() as patch:

        def others() -> None:
            take_lake(logs, target, lake)
            write_segment(logs / "orders-0", 120, made_batch(120))
            take_lake(logs, target, lake)
            killed(patch, lake_ledger, "commit_once")

        without_locks(patch)
        once_before(patch, ThreadExecutor, "run", others)
        with pytest.raises(Killed):
            take_lake(logs, target, lake)
    assert len({path.name for path in (target / "orders" / "data").iterdir()}) == 4, "files for a number that another run has"
    write_segment(logs / "orders-0", 130, made_batch(130))
    take_lake(logs, target, lake)
    assert read_lake(target, lake) == read_logs(logs)
    check_lake(target, lake, "orders")


def test_a_run_that_plans_again_after_another_one_committed_does_not_commit_its_old_plan(
    logs: Path, target: Path, lake: str, monkeypatch: Patch
) -> None:
    take_lake(logs, target, lake)
    write_segment(logs / "orders-0", 110, made_batch(110))

    def changed() -> None:
        raise SparkSourceError(FILE_CHANGED, f"file={logs}/orders-0/00000000000000000110.log position=0 reason=changed")

    without_locks(monkeypatch)
    once_before(monkeypatch, LakeLedger, "_made", lambda: take_lake(logs, target, lake))
    run = ThreadExecutor.run
    calls: list[int] = []

    def interrupted(self: ThreadExecutor, *arguments: Any) -> list[TaskResult]:
        calls.append(len(calls))
        if len(calls) == 2:  # the first one is the other run's
            changed()
        return run(self, *arguments)

    monkeypatch.setattr(ThreadExecutor, "run", interrupted)
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_TARGET_BUSY: .*has made commit 2"):
        take_lake(logs, target, lake)
    assert len(calls) == 3
    assert read_lake(target, lake) == read_logs(logs)
    assert take_lake(logs, target, lake).commit is None
    check_lake(target, lake, "orders")


def test_a_run_that_saw_no_table_does_not_take_files_from_the_run_that_has_made_it_since(
    logs: Path, target: Path, lake: str, monkeypatch: Patch
) -> None:
    """The lock does not hold, and the second run stands still between its look at the table and its look at the folders."""
    head = TABLES[lake].head

    def long_ago(table: Any) -> None:
        monkeypatch.setattr(TABLES[lake], "head", head)
        table.opened = None

    def second() -> None:
        monkeypatch.setattr(TABLES[lake], "head", long_ago)
        take_lake(logs, target, lake)

    without_locks(monkeypatch)
    once_before(monkeypatch, LakeLedger, "_record", second)
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_TARGET_BUSY: .*has made commit 2"):
        take_lake(logs, target, lake)
    assert read_lake(target, lake) == read_logs(logs)
    assert take_lake(logs, target, lake).commit is None
    check_lake(target, lake, "orders")


def test_a_run_that_another_one_overtook_leaves_nothing_of_itself_in_any_table(
    logs: Path, target: Path, lake: str, monkeypatch: Patch
) -> None:
    write_segment(logs / "clicks-0", 0, made_batch(0))
    without_locks(monkeypatch)
    once_before(monkeypatch, LakeLedger, "_record", lambda: take_lake(logs, target, lake))
    with pytest.raises(SparkSourceError, match="KAFKALOG_TARGET_BUSY"):
        take_lake(logs, target, lake)
    assert staging(target) == []
    check_lake(target, lake, "orders", "clicks")


def test_a_run_that_fails_at_its_second_table_leaves_nothing_of_it(
    logs: Path, target: Path, lake: str, monkeypatch: Patch
) -> None:
    write_segment(logs / "clicks-0", 0, made_batch(0))
    commit = lake_table.commit_once

    def refused(table: Any, what: Any, require_files: Any) -> None:
        if "orders" in table.name:
            raise SparkSourceError("KAFKALOG_TARGET_BUSY", "others are at work")
        commit(table, what, require_files)

    with monkeypatch.context() as patch:
        patch.setattr(lake_ledger, "commit_once", refused)
        with pytest.raises(SparkSourceError, match=r"committed to .*clicks before that, and the next run continues there"):
            take_lake(logs, target, lake)
    assert staging(target) == []
    check_lake(target, lake, "orders", "clicks")
    assert take_lake(logs, target, lake).records == 120


def test_a_run_that_finds_nothing_after_a_killed_one_leaves_nothing(
    logs: Path, target: Path, lake: str, monkeypatch: Patch
) -> None:
    take_lake(logs, target, lake)
    write_segment(logs / "orders-0", 110, made_batch(110))
    with monkeypatch.context() as patch:
        killed(patch, lake_ledger, "commit_once")
        with pytest.raises(Killed):
            take_lake(logs, target, lake)
    (logs / "orders-0" / "00000000000000000110.log").unlink()
    assert take_lake(logs, target, lake, on_data_loss="continue").records == 0
    check_lake(target, lake, "orders")


@pytest.mark.slow
def test_files_of_a_killed_run_in_an_object_store_are_removed_by_the_run_that_gets_its_number(
    logs: Path, monkeypatch: Patch
) -> None:
    require("moto", "boto3", "werkzeug")
    with store() as client:
        with monkeypatch.context() as patch:
            killed(patch, lake_ledger, "commit_once")
            with pytest.raises(Killed):
                take_lake(logs, f"s3://{BUCKET}/lake", "delta")
        take_lake(logs, f"s3://{BUCKET}/lake", "delta")
        keys = [each["Key"] for each in client.list_objects_v2(Bucket=BUCKET)["Contents"]]
    assert len([key for key in keys if key.endswith(".parquet")]) == 1
    assert [key for key in keys if "/staging/" in key and not key.endswith("/")] == []
    assert len([key for key in keys if "/tables/orders/" in key and not key.endswith("/")]) == 1


# -- tasks that run more than once -----------------------------------------------------------------------------------------------


class Speculating(ThreadExecutor):
    """Runs every task twice, as Spark does with a slow one. One attempt counts."""

    def __init__(self, late: list[IngestTask]) -> None:
        super().__init__(2)
        self.late = late

    def run(self, tasks: Sequence[IngestTask], on_progress: executors.OnProgress) -> list[TaskResult]:
        self.late.extend(tasks)
        for task in tasks:
            write_task(task)
        return super().run(tasks, on_progress)


@pytest.mark.parametrize("moment", ["before the commit", "after it"])
def test_of_a_task_that_ran_more_than_once_one_attempt_counts_and_files_of_the_others_go(
    logs: Path, target: Path, lake: str, moment: str, monkeypatch: Patch
) -> None:
    late: list[IngestTask] = []
    monkeypatch.setattr(executors, "ThreadExecutor", lambda cores: Speculating(late))
    if moment == "after it":  # an attempt on a machine that Spark had given up

        def still_at_work(*arguments: Any) -> None:
            remove_unnamed(*arguments)
            for task in late:
                write_task(task)

        remove_unnamed = LakeLedger._remove_unnamed
        monkeypatch.setattr(LakeLedger, "_remove_unnamed", still_at_work)
    assert take_lake(logs, target, lake, task_bytes=2000).tasks > 1
    assert read_lake(target, lake) == read_logs(logs)
    monkeypatch.undo()
    if moment == "after it":
        write_segment(logs / "orders-0", 110, made_batch(110))
        take_lake(logs, target, lake)
    assert read_lake(target, lake) == read_logs(logs)
    check_lake(target, lake, "orders")
