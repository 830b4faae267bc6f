"""Compiled kernels travel from the driver to its tasks: on a real cluster, whose executors have a cache of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkalog.kernels import cache, native
from kafkalog.spark import shipped_kernels
from kafkalog.spark.options import parse_options
from kafkalog.spark.read_plan import first_parts
from kafkalog.spark.shipped_kernels import SAMPLE_BYTES, SAMPLED_TOPICS, kernels_for_tasks
from kafkalog.spark.splits import Part, Split
from tests.builders.small_logs import made_batch, write_segment
from tests.spark.cluster import started_cluster

pytestmark = pytest.mark.skipif(native.IS_OFF, reason="the JIT is off")
ROWS = 100
NOTICE = "kafkalog: compiling its kernels"
# Each read starts with executors that have no compiled kernels: a new Python for each task, and an empty folder.
PROGRAM = """
import json, os, shutil, sys
from pathlib import Path
from kafkalog.spark import ingest, read_fast, session
logs, master, scratch, executors = sys.argv[1:]
conf = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.executor.memory": "512m"}
spark = session(master, **{**conf, "spark.python.worker.reuse": "false"})
spark.sparkContext.setLogLevel("OFF")

def stream():
    counts = []
    rows = spark.readStream.format("kafkalog").option("startingOffsets", "earliest").load(logs)
    writer = rows.writeStream.foreachBatch(lambda batch, number: counts.append(batch.count()))
    writer = writer.option("checkpointLocation", scratch + "/checkpoint").trigger(availableNow=True)
    writer.start().awaitTermination(90)
    return sum(counts)

def files(folder):
    return {path.name: path.read_bytes() for path in Path(folder).rglob("*.nb?")}

kinds = {
    "read": lambda: spark.read.format("kafkalog").load(logs).count(),
    "batches": lambda: spark.read.format("kafkalog").option("table", "batches").load(logs).count() * 10,
    "fast": lambda: read_fast(logs, spark=spark).count(),
    "stream": stream,
    "ingest": lambda: ingest(logs, scratch + "/tables", spark=spark).records,
}
found = {}
for kind, read in kinds.items():
    rows = read()
    mine, theirs = files(os.environ["KAFKALOG_CACHE_DIR"]), files(executors)
    found[kind] = [rows, len(theirs), sorted(name for name in theirs if mine.get(name) != theirs[name])]
    shutil.rmtree(executors)
print(json.dumps(found))
"""


@pytest.mark.slow
def test_a_fresh_driver_compiles_once_and_fresh_executors_nothing(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    write_segment(logs / "orders-0", 0, *(made_batch(first, codec=2) for first in range(0, ROWS, 10)))
    executors = str(tmp_path / "executors")
    with started_cluster(tmp_path, 1, **{"KAFKALOG_CACHE_DIR": executors, cache.NO_NOTICE: ""}) as cluster:
        environment = {**cluster.environment, "KAFKALOG_CACHE_DIR": str(tmp_path / "driver"), cache.NO_NOTICE: ""}
        command = [sys.executable, "-c", PROGRAM, str(logs), cluster.master, str(tmp_path), executors]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert {kind: rows for kind, (rows, _, _) in found.items()} == dict.fromkeys(found, ROWS)
    assert [kind for kind, (_, count, _) in found.items() if not count] == []  # they do have kernels ...
    assert {kind: names for kind, (_, _, names) in found.items() if names} == {}  # ... and only the driver's
    said = "".join(path.read_text(errors="replace") for path in tmp_path.glob("worker1/app*/*/stderr"))
    assert said
    assert NOTICE not in said
    assert NOTICE in done.stderr


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of the driver's own, empty."""
    home = tmp_path / "cache"
    monkeypatch.setenv("KAFKALOG_CACHE_DIR", str(home))
    monkeypatch.setattr(shipped_kernels, "used", {"scan.survey-1"})
    cache.cache_folder.cache_clear()
    folder = cache.cache_folder()
    assert folder == home / cache.sources_name()
    (folder / "scan.survey-1.nbi").write_bytes(b"index")
    yield folder
    cache.cache_folder.cache_clear()


class Reads:
    """Instead of reading: remembers the slices."""

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails
        self.parts: list[Part] = []

    def __call__(self, split: Split) -> list[Any]:
        self.parts += split.parts
        if self.fails:
            raise OSError("gone")
        return []

    @property
    def sizes(self) -> list[int]:
        return [piece.bytes for part in self.parts for piece in part.slices]


def parts(path: Path) -> list[Part]:
    return first_parts(parse_options({"path": str(path)}))


def test_a_kind_of_read_is_tried_once(tmp_path: Path, folder: Path) -> None:
    reads = Reads()
    write_segment(tmp_path / "logs" / "orders-0", 0, made_batch(0))
    for kind in ("keys", "keys", "values"):
        kernels_for_tasks(parts(tmp_path / "logs"), kind, reads)
    write_segment(tmp_path / "logs" / "orders-0", 0, made_batch(0, codec=3))
    kernels_for_tasks(parts(tmp_path / "logs"), "keys", reads)
    assert len(reads.parts) == 3
    assert len(list(folder.glob("needed-*"))) == 3


def test_a_note_counts_only_while_the_kernels_are_there(tmp_path: Path, folder: Path) -> None:
    write_segment(tmp_path / "logs" / "orders-0", 0, made_batch(0))
    assert kernels_for_tasks(parts(tmp_path / "logs"), (), Reads()).functions.keys() == {"scan.survey-1"}
    assert kernels_for_tasks(parts(tmp_path / "logs"), (), Reads(fails=True)).functions.keys() == {"scan.survey-1"}
    (folder / "scan.survey-1.nbi").unlink()
    reads = Reads()
    assert kernels_for_tasks(parts(tmp_path / "logs"), (), reads).functions == {}
    assert len(reads.parts) == 1


def test_only_the_first_entries_are_read_and_whole_ones(tmp_path: Path, folder: Path) -> None:
    small, large = made_batch(0, 10), made_batch(0, 9_000)
    assert len(large) > 2 * SAMPLE_BYTES
    for topic, entries in (("empty", []), ("large", [large, large]), ("small", [small] * 2_000), ("torn", [small, small[:99]])):
        write_segment(tmp_path / "logs" / f"{topic}-0", 0, *entries)
    reads = Reads()
    kernels_for_tasks(parts(tmp_path / "logs"), (), reads)
    assert [part.topic for part in reads.parts] == ["large"]  # the others have the same format
    kernels_for_tasks(parts(tmp_path / "logs" / "small-0"), 1, reads)
    kernels_for_tasks(parts(tmp_path / "logs" / "torn-0"), 2, reads)
    whole = -(-(SAMPLE_BYTES - 60) // len(small)) * len(small)
    assert reads.sizes == [len(large), whole, len(small)]


def test_every_topic_may_have_a_codec_of_its_own_up_to_a_number(tmp_path: Path, folder: Path) -> None:
    for number in range(SAMPLED_TOPICS + 1):
        for partition in (0, 1):
            write_segment(tmp_path / "logs" / f"t{number}-{partition}", 0, made_batch(0, codec=min(number, 4)))
    reads = Reads()
    kernels_for_tasks(parts(tmp_path / "logs"), (), reads)
    assert [part.topic for part in reads.parts] == ["t0", "t1", "t2", "t3", "t4"]
    assert len(list(shipped_kernels._one_of_each_topic(parts(tmp_path / "logs")))) == SAMPLED_TOPICS + 1


def test_what_is_damaged_or_gone_or_not_there_at_all_is_left_to_the_tasks(tmp_path: Path, folder: Path) -> None:
    path = write_segment(tmp_path / "logs" / "orders-0", 0, made_batch(0))
    planned = parts(tmp_path / "logs")
    kernels_for_tasks([], (), Reads(fails=True))
    for _ in range(2):
        reads = Reads(fails=True)
        kernels_for_tasks(planned, (), reads)
        assert len(reads.parts) == 1
    path.write_bytes(bytes(200))
    kernels_for_tasks(planned, (), Reads(fails=True))
    path.unlink()
    kernels_for_tasks(planned, (), Reads(fails=True))
    assert list(folder.glob("needed-*")) == []


def test_without_a_folder_for_kernels_nothing_is_compiled_for_tasks_or_sent(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKALOG_CACHE_DIR", "/dev/null")
    cache.cache_folder.cache_clear()
    write_segment(tmp_path / "logs" / "orders-0", 0, made_batch(0))
    reads = Reads()
    kernels = kernels_for_tasks(parts(tmp_path / "logs"), (), reads)
    assert (kernels.functions, reads.parts) == ({}, [])
    kernels.unpack()


def test_where_kernels_are_compiled_passing_them_on_loads_neither_numba_nor_arrow_nor_spark(tmp_path: Path, folder: Path) -> None:
    write_segment(tmp_path / "logs" / "orders-0", 0, made_batch(0))
    kernels_for_tasks(parts(tmp_path / "logs"), (), Reads())
    program = f"""
import sys
from kafkalog.spark.options import parse_options
from kafkalog.spark.read_plan import first_parts
from kafkalog.spark.shipped_kernels import kernels_for_tasks
kernels_for_tasks(first_parts(parse_options({{"path": {str(tmp_path / "logs")!r}}})), (), None)
print(sorted({{name.partition(".")[0] for name in sys.modules}} & {{"numba", "pyarrow", "pyspark"}}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "[]\n"
