"""kafkalog from Python, as a reader of the README uses it: every command is a function."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kafkalog
from kafkalog.cli.main import COMMANDS
from kafkalog.format.reference import Record, encode_batch
from kafkalog.tasks import verify as verify_task
from tests.builders.small_logs import made_batch, marker, read_offsets, read_rows, transactional_batch, write_segment

# `table` and `cat` are `kafkalog.open(path).read(…)` and `.follow(…)`.
READS = {"table", "cat"}
SHOWS = {"demo"}  # it runs the others
NEW_YEAR = 1_767_225_600_000  # 2026-01-01 in UTC
HOUR = 3_600_000


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two topics of two partitions each, a record an hour."""
    for topic in ("orders", "o"):
        for number in (0, 1):
            records = [Record(at, NEW_YEAR + (at - 5) * HOUR, b"k", b"v%d" % at) for at in range(10)]
            write_segment(tmp_path / f"{topic}-{number}", 0, encode_batch(records))
    return tmp_path


def test_every_command_has_a_function_with_types_and_a_docstring() -> None:
    wanted = {str(command.name).replace(" ", "_") for command in COMMANDS} - READS - SHOWS
    assert wanted - set(kafkalog.__all__) == set()
    for name in sorted(wanted | {"open", "find_deleted"}):
        function = getattr(kafkalog, name)
        assert inspect.getdoc(function), name
        signature = inspect.signature(function)
        assert signature.return_annotation is not inspect.Signature.empty, name
        for parameter in signature.parameters.values():
            assert parameter.annotation is not inspect.Parameter.empty, (name, parameter)
            assert parameter.kind is not inspect.Parameter.VAR_KEYWORD, (name, parameter)


def test_functions_are_those_of_the_tasks_and_type_checkers_see_the_same() -> None:
    tree = ast.parse(Path(kafkalog.__file__).read_text(encoding="utf-8"))
    (typed,) = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname or alias.name: node.module for node in imports for alias in node.names}
    assert seen == kafkalog._MODULES
    assert kafkalog.verify is verify_task.verify
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(kafkalog, "nothing")  # noqa: B009


def test_dir_has_the_public_names_only() -> None:
    names = {name for name in dir(kafkalog) if not (name.startswith("__") and name.endswith("__"))}
    assert names == {*kafkalog.__all__, "spark"} - {"__version__"}
    assert not {"__getattr__", "__dir__"} & set(dir(kafkalog))


def test_columns_in_the_place_of_the_table_are_a_clear_error(logs: Path) -> None:
    with pytest.raises(kafkalog.UsageError, match=r'columns follow: read\("records"'):
        kafkalog.open(logs).read(["key", "value"])  # type: ignore[arg-type]


def test_the_topics_of_logs_are_their_partitions_by_name(logs: Path) -> None:
    (logs / "orders-7.0123456789abcdef0123456789abcdef-delete").mkdir()
    opened = kafkalog.open(logs)
    assert list(opened.topics) == ["o", "orders"]
    assert [found.partition for found in opened.topics["orders"]] == [0, 1]


def test_the_help_of_the_package_lists_every_function_once() -> None:
    functions = {name for name in kafkalog.__all__ if inspect.isfunction(getattr(kafkalog, name))}
    listed = re.findall(r"^    (\w+)  +\S", kafkalog.__doc__ or "", re.MULTILINE)
    assert sorted(listed) == sorted(functions | {"LogDirectory"})


def test_a_plain_string_is_one_topic_and_not_its_letters(logs: Path) -> None:
    opened = kafkalog.open(logs)
    assert set(read_rows(opened, "records", ["topic"], topics="orders")) == {"orders"}
    assert set(read_rows(opened, "records", ["partition"], topics="orders", partitions=1)) == {1}
    assert opened.read("records", "offset").read_all().column_names == ["offset"]
    assert {row["partition"] for row in read_rows(opened, partitions=np.int64(1))} == {1}
    followed = opened.follow("topic", topics="orders", stop=lambda: True)
    assert {topic for batch in followed for topic in batch.column(0).to_pylist()} == {"orders"}
    assert {found.topic for found in kafkalog.ls(logs, topics="orders")} == {"orders"}
    assert kafkalog.verify(logs, topics="orders").partitions == ["orders-0", "orders-1"]
    assert list(kafkalog.profile(logs, topics="orders").topics) == ["orders"]
    assert kafkalog.profile(logs, topics="orders").disk.leftover_bytes == 0
    assert [found.topic for found in kafkalog.transactions(logs, topics="orders", partitions=0)] == ["orders"]
    done = kafkalog.recover(logs, out=logs.parent / "out", topics="orders", partitions=1, dry_run=True)
    assert [(result.topic, result.partition) for result in done] == [("orders", 1)]


def test_a_wrong_name_or_number_is_refused_with_what_is_allowed(logs: Path) -> None:
    opened = kafkalog.open(logs)
    choices: dict[str, Any]
    for choices in ({"topics": 5}, {"topics": [b"orders"]}, {"partitions": "0"}, {"partitions": [1.5]}, {"columns": [1]}):
        with pytest.raises(kafkalog.UsageError, match="allowed are a n"):
            opened.read(**choices)
    for choices in ({"start_offset": "5"}, {"stop_offset": 2.5}, {"start_offset": True}):
        with pytest.raises(kafkalog.UsageError, match="allowed is a whole number"):
            opened.read(**choices)


@pytest.mark.parametrize(
    "time",
    [
        NEW_YEAR,
        np.int64(NEW_YEAR),
        str(NEW_YEAR),
        "2026-01-01",
        "2026-01-01T00:00",
        "2026-01-01T00:00:00Z",
        "2026-01-01 02:00:00+02:00",
        date(2026, 1, 1),
        datetime(2026, 1, 1),
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_a_time_is_what_one_would_write_and_without_a_zone_it_is_utc(logs: Path, time: Any) -> None:
    assert read_offsets(logs / "orders-0", start_time=time) == [5, 6, 7, 8, 9]
    assert read_offsets(logs / "orders-0", stop_time=time) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("time", ["yesterday", "2026-13-01", "", 1.5, [1], timedelta(1), True])
def test_a_malformed_time_is_refused_with_examples(logs: Path, time: Any) -> None:
    with pytest.raises(kafkalog.UsageError, match=r"start_time=.*2026-01-31"):
        kafkalog.open(logs).read(start_time=time)


def test_open_transactions_and_lines_of_a_dump_are_there_to_iterate_over(logs: Path) -> None:
    write_segment(logs / "pay-0", 0, transactional_batch(0, 3, 1), marker(3, 1, commit=True), transactional_batch(4, 2, 2))
    ((partition, transaction),) = kafkalog.transactions(logs).open
    assert (str(partition.topic), transaction.first_offset, partition.last_stable_offset) == ("pay", 4, 4)
    segment = logs / "orders-0" / "00000000000000000000.log"
    lines = list(kafkalog.dump(segment, print_data_log=True).lines())
    assert lines[0] == f"Dumping {segment}"
    assert sum("payload: v" in line for line in lines) == 10


def test_damaged_deleted_and_unindexed_logs_are_repaired_by_functions(logs: Path, tmp_path: Path) -> None:
    broken = bytearray(made_batch(10))
    broken[-1] ^= 1
    write_segment(tmp_path / "hurt" / "t-0", 0, made_batch(0), bytes(broken), made_batch(20))
    (result,) = kafkalog.salvage(tmp_path / "hurt", tmp_path / "saved")
    assert (result.state, result.kept_records) == ("written", 20)
    (rebuilt,) = kafkalog.reindex(tmp_path / "saved", topics="t", dry_run=True)
    assert rebuilt.changed == []
    gone = tmp_path / "data" / ("t-0." + "0" * 32 + "-delete")
    write_segment(gone, 0, made_batch(0))
    (deleted,) = kafkalog.find_deleted(tmp_path / "data")
    assert (deleted.topic, deleted.what) == ("t", "deleted topic")
    (back,) = kafkalog.undelete(tmp_path / "data", tmp_path / "back", topics="t")
    assert back.kept_records == 10
    with pytest.raises(kafkalog.NoLogs):
        kafkalog.undelete(logs, tmp_path / "nothing")


def test_an_ingest_works_where_there_is_no_pyspark(logs: Path, tmp_path: Path) -> None:
    target = tmp_path.parent / f"{tmp_path.name}-tables"
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        f"import kafkalog; print(kafkalog.ingest({str(logs)!r}, {str(target)!r}, topics='orders'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "20 records of 2 partitions" in done.stdout
    assert sum(pq.read_metadata(path).num_rows for path in target.rglob("*.parquet")) == 20
    with pytest.raises(kafkalog.UsageError, match="exclude each other"):
        kafkalog.ingest(logs, target, topics="orders", options={"subscribePattern": ".*"})


def test_records_are_measured_from_a_log_a_file_or_a_table(logs: Path) -> None:
    measured = kafkalog.estimate(logs / "orders-0", codecs="zstd", batch_sizes=[10])
    assert {size.codec for size in measured.sizes} == {"zstd"}
    table = kafkalog.open(logs / "orders-0").read("records", ["key", "value", "timestamp_ms", "headers_raw"]).read_all()
    assert isinstance(table, pa.Table)
    assert kafkalog.estimate(table, codecs=["zstd"], batch_sizes=[10]).sizes == measured.sizes
