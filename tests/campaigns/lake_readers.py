"""`python -m tests.campaigns.lake_readers`: what Spark's own Iceberg and Delta read from the tables of ingests.

Their connectors exist for older versions of Spark than the newest, so each has an environment of its own under build/readers.
Several ingests make tables, one per topic and one for all; each engine reads every row, compacts the tables, and after another
ingest reads them again: topic, partition, offset and the checksums of key and value must be those of the logs.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import Any, Final

from tests.campaigns.ingest_kills import TASK_BYTES, Logs
from tests.campaigns.lake_kills import ALL, DAYS, TOPICS
from tests.interop.live.broker import ROOT
from tests.interop.maven import copy_jars
from tests.spark.ingested import read_logs
from tests.spark.lake_tables import take_lake

HERE: Final = Path(__file__).resolve().parent / "readers"
BUILD: Final = ROOT / "build" / "readers"
SPARKS: Final = {"iceberg": "4.1.4", "delta": "4.2.1"}
RUNS: Final = 4
FIRST_SKIPPED: Final = 100


def python_of(table_format: str) -> Path:
    """The Python of an environment that has this engine's Spark; made when it is missing."""
    folder = BUILD / table_format / "venv"
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", f"pyspark=={SPARKS[table_format]}"], check=True)
        (folder / "ready").touch()
    return folder / "bin" / "python"


def jars_of(table_format: str) -> Path:
    jars = BUILD / table_format / "jars"
    problem = copy_jars(HERE / table_format, jars)
    if problem is not None:
        raise SystemExit(problem)
    return jars


class Engine:
    """Spark with the connector of one format."""

    def __init__(self, table_format: str) -> None:
        self.table_format = table_format
        self.command = [str(python_of(table_format)), str(HERE / "spark_reader.py"), table_format, str(jars_of(table_format))]

    def _run(self, target: Path, task: str, *names: str) -> list[Any]:
        done = subprocess.run([*self.command, str(target), task, *names], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{self.table_format}, {task}: {done.stderr[-3000:]}")
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(("[", "{"))]

    def compact(self, target: Path, *names: str) -> None:
        self._run(target, "compact", *names)

    def compare(self, logs: Path, target: Path, *names: str) -> int:
        """The number of rows, which are those of the logs."""
        said = self._run(target, "read", *names)
        rows = [tuple(each) for each in said if isinstance(each, list)]
        wanted = logged(logs)
        assert sorted(rows) == wanted, f"{len(rows)} rows, {len(wanted)} records"
        counts = Counter(row[0] for row in wanted if row[2] >= FIRST_SKIPPED)
        for each in said:
            if isinstance(each, dict):
                count = counts[each["name"]] if each["name"] in counts else counts.total()
                assert each["from 100 on"] == count
        return len(rows)


def logged(logs: Path) -> list[tuple[Any, ...]]:
    columns = ["topic", "partition", "offset", "key", "value"]
    rows = read_logs(logs, columns, on_damage="salvage")
    return sorted((*row[:3], *(None if each is None else zlib.crc32(each) for each in row[3:])) for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    for table_format, version in SPARKS.items():
        engine = Engine(table_format)
        for table in (None, ALL):
            names = (table,) if table else TOPICS
            with tempfile.TemporaryDirectory(prefix="kafkalog-readers-") as folder:
                logs, target = Logs(Path(folder) / "logs", random.Random(given.seed), DAYS), Path(folder) / "lake"
                choices = {"table": table, "task_bytes": int(TASK_BYTES)}
                for _ in range(RUNS):
                    logs.grow()
                    take_lake(logs.folder, target, table_format, **choices)
                first = engine.compare(logs.folder, target, *names)
                engine.compact(target, *names)
                logs.grow()
                take_lake(logs.folder, target, table_format, **choices)
                second = engine.compare(logs.folder, target, *names)
            what = "one table for all" if table else "one table per topic"
            print(
                f"{table_format}, {what}: Spark {version} read {first} rows, after compaction and a run {second}: all equal",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
