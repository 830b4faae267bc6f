"""`python -m tests.campaigns.lake_kills`: ingests into Iceberg and Delta tables, killed and set upon each other, beside a reader.

Each cycle appends to the logs and starts an ingest in a process of its own. It is killed (SIGKILL) at a random moment, or at a
chosen call: before, in and after the commit of a table, and between the steps of our own records. In other cycles two ingests
work on one target: with the lock, or one ignores it, so that only the table's compare-and-commit keeps them apart; at the same
moment, or one stopped at a chosen call while the other one does its work. All the time a reader looks at the tables: each
snapshot must hold exactly the records up to the offsets that the record of that commit names. After each cycle an ordinary run
must find the target usable, and then every record of the logs is in the tables once, and no file is left over. Every few cycles
the logs and the target are new, with another format, one table per topic or one for all; before that DuckDB and Polars read the
tables as well.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Final

import duckdb
import polars
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from kafkalog.spark.ingestion.lake_table import run_mark
from kafkalog.spark.ingestion.manifest import Commit
from tests.campaigns.ingest_kills import CYCLES_PER_LOG, TASK_BYTES, Logs, damaged_places
from tests.campaigns.lake_runs import DONE, STOPPED, Order, Run, Stop, places
from tests.spark.ingested import COLUMNS, Row, read_logs, take
from tests.spark.lake_tables import LAKES, check_lake, counted_in, delta_table, iceberg_table, rows_of, take_lake

os.environ.setdefault("POLARS_ICEBERG_PLANNER", "pyiceberg")  # without it Polars asks for a package of its own
DAYS = 2
TOPICS: Final = ("topic0", "topic1")
ALL: Final = "everything"
IDENTITY: Final = ["topic", "partition", "offset"]
TOLD_EVERY = 20
LEDGER: Final = "kafkalog.spark.ingestion.lake_ledger:"
SQL: Final = "pyiceberg.catalog.sql:SqlCatalog."
OURS: Final = [
    Stop(f"{LEDGER}LakeLedger._settle_settings", True),
    Stop(f"{LEDGER}LakeLedger.layout"),
    Stop(f"{LEDGER}LakeLedger.layout", True),
    Stop("kafkalog.spark.ingestion.run:check_ends"),
    *places([f"{LEDGER}LakeLedger._made", f"{LEDGER}LakeLedger._publish", f"{LEDGER}commit_once"], 2),
    *places([f"{LEDGER}LakeLedger._remove_unnamed"], 2),
]
THEIRS: Final = {
    "iceberg": [
        *places([f"{SQL}commit_table", f"{SQL}_write_metadata"], 2),
        Stop(f"{SQL}create_table"),
        Stop(f"{SQL}create_table", True),
    ],
    "delta": [
        *places(["deltalake:DeltaTable.create_write_transaction"], 2),
        Stop("deltalake:DeltaTable.create"),
        Stop("deltalake:DeltaTable.create", True),
    ],
}
BUSY = "KAFKALOG_TARGET_BUSY"
# What a run may say whose files another one removed, believing it dead.
CLEARED: Final = ("KAFKALOG_STORAGE", "KAFKALOG_BAD_TARGET")
WAYS: Final = ("with the lock", "one ignores the lock", "one stopped, the other ignores the lock", "stopped, passed, then killed")


@dataclass(frozen=True)
class Seen:
    """What a reader saw in one snapshot of a table: the number and run's mark of the last commit, and the rows' identities."""

    table: str
    number: int
    mark: str
    rows: frozenset[tuple[str, int, int]]
    count: int


def look_at(name: str, table: Table | DeltaTable) -> Seen:
    """The snapshot of an opened table."""
    if isinstance(table, Table):
        number, run = int(table.properties["kafkalog.commit"]), table.properties.get("kafkalog.run", "0" * 8)
        return _seen(name, number, run_mark(run), table.scan(selected_fields=tuple(IDENTITY)).to_arrow())
    version = table.transaction_version("kafkalog") or 0
    return _seen(name, version >> 31, f"{version & ((1 << 31) - 1):08x}", table.to_pyarrow_table(columns=IDENTITY))


def _seen(name: str, number: int, mark: str, rows: pa.Table) -> Seen:
    identities = zip(*(rows.column(column).to_pylist() for column in IDENTITY), strict=True)
    return Seen(name, number, mark, frozenset(identities), rows.num_rows)


class Reader:
    """Looks at the tables of a target again and again."""

    def __init__(self, look: Callable[[str], Seen | None], names: Sequence[str], seconds: float) -> None:
        self.look = look
        self.names = names
        self.seconds = seconds
        self.looks = 0
        self.seen: set[Seen] = set()
        self.failures: list[str] = []
        self.ends = threading.Event()

    @contextmanager
    def beside(self) -> Iterator[None]:
        thread = threading.Thread(target=self._look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.ends.set()
            thread.join()

    def _look(self) -> None:
        while not self.ends.wait(self.seconds):
            for name in self.names:
                try:
                    found = self.look(name)
                except Exception as error:
                    self.failures.append(f"{name}: {type(error).__name__}: {error}")
                    continue
                if found is not None:
                    self.looks += 1
                    self.seen.add(found)


class Campaign:
    """Kills and pairs on logs that are recreated every few cycles, each time with a target of another kind."""

    look_seconds = 0.1
    formats: Sequence[str] = LAKES
    theirs: ClassVar[Mapping[str, Sequence[Stop]]] = THEIRS
    ends: Sequence[str] = (DONE, BUSY)

    def __init__(self, folder: Path, seed: int, cycles_per_log: int = CYCLES_PER_LOG) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.cycles_per_log = cycles_per_log
        self.kinds = list(product(self.formats, (None, ALL)))
        self.seconds = 1.0
        self.tally: Counter[str] = Counter()
        self.rows = self.compared = self.looks = self.snapshots = 0
        self.cycle = -1
        self._begin_log()

    # -- cycles --------------------------------------------------------------------------------------------------------------

    def kill(self, count: int) -> None:
        """Kill that many runs, one or two before each check."""
        wanted = self.tally["kills"] + count
        while self.tally["kills"] < wanted:
            with self._cycle():
                self._kill()
                while self.tally["kills"] < wanted and self.random.random() < 0.3:
                    self._kill()

    def pair(self, count: int) -> None:
        """That many times two runs on one target at the same time."""
        for _ in range(count):
            with self._cycle():
                self.tally["pairs"] += 1
                how = self.random.choice(WAYS)
                self.tally[f"pairs {how}"] += 1
                self._pair(how)

    def close(self) -> None:
        """Check the last tables as well."""
        self._verify_others()

    def _begin_log(self) -> None:
        self.cycle += 1
        if self.cycle and self.cycle % self.cycles_per_log == 0:
            self._verify_others()
        if self.cycle % self.cycles_per_log == 0:
            kind = self.kinds[(self.cycle // self.cycles_per_log) % len(self.kinds)]
            self.table_format, self.table = kind
            self.names = (self.table,) if self.table else TOPICS
            shutil.rmtree(self.folder, ignore_errors=True)
            self.logs = Logs(self.folder / "logs", self.random, DAYS)
            self.target = self.folder / "lake"

    @contextmanager
    def _cycle(self) -> Iterator[None]:
        if self.tally["cycles"]:
            self._begin_log()
        self.tally["cycles"] += 1
        self.logs.grow()
        reader = Reader(self._look, self.names, self.look_seconds)
        with reader.beside():
            yield
            self._take()
        self._verify(reader)

    @property
    def choices(self) -> dict[str, Any]:
        return {"table_format": self.table_format, "table": self.table, "task_bytes": int(TASK_BYTES)}

    def _run(self, stop: Stop | None = None, ignores_lock: bool = False) -> Run:
        return Run(Order(str(self.logs.folder), str(self.target), self.choices, stop, ignores_lock))

    def _place(self) -> Stop:
        """Where to stop; mostly around the commit."""
        return self.random.choice(self.random.choice([OURS, self.theirs[self.table_format]]))

    def _kill(self) -> None:
        before = self._numbers()
        aimed = self._place() if self.random.random() < 0.5 else None
        run = self._run(aimed)
        if aimed is not None:
            said = run.said()
            assert said == STOPPED or said.partition(":")[0] in self.ends, said
            self.tally[f"kills aimed: {aimed if said == STOPPED else 'the run does not come there'}"] += 1
        else:
            self.tally["kills at a random moment"] += 1
            time.sleep(self.random.uniform(0, self.seconds))
        run.kill()
        self.tally["kills"] += 1
        after = self._numbers()
        committed = sum(after.values()) > sum(before.values())
        left = sum(len(found) for found in self._uncounted())
        what = "between two tables" if committed and any(after[name] == before[name] for name in after) else "committed"
        self.tally[f"kills: {what if committed else 'not committed'}, {'files left' if left else 'nothing left'}"] += 1
        if aimed is None:  # too late or too early: most moments should be in the middle of the work
            self.seconds = min(max(self.seconds * (0.8 if committed else 1.15), 0.1), 20)

    def _pair(self, how: str) -> None:
        stop = self._place() if "stopped" in how else None
        first = self._run(stop)
        if stop is not None:
            said = first.said()
            assert said == STOPPED or said.partition(":")[0] in self.ends, said
        elif self.random.random() < 0.5:
            time.sleep(self.random.uniform(0, self.seconds))
        second = self._run(ignores_lock=how != "with the lock")
        if stop is not None:
            self._end(second, how, "second")
            if "killed" in how:
                self.tally["kills of a passed run"] += 1
            elif said == STOPPED:
                first.resume()
                self._end(first, how, "first")
        else:
            self._end(first, how, "first")
            self._end(second, how, "second")
        first.kill()
        second.kill()

    def _end(self, run: Run, how: str, which: str) -> None:
        said = run.said()
        code = said.partition(":")[0]
        assert code in self.ends or (how != "with the lock" and code in CLEARED), said or "nothing: it died"
        if "has made commit" in said:
            code += ", refused by the table"
        self.tally[f"runs of pairs {how}: {which} {code}"] += 1
        if code in CLEARED:
            print(f"{how}, {which}: {said[:300]}", flush=True)

    # -- checks --------------------------------------------------------------------------------------------------------------

    def _table(self, name: str) -> Table | DeltaTable | None:
        """A table as it is now; None if there is none yet."""
        with suppress(NoSuchTableError, TableNotFoundError):
            if self.table_format == "delta":
                return delta_table(self.target, name)
            if (self.target / "catalog.db").exists():
                return iceberg_table(self.target, name)
        return None

    def _opened(self, name: str) -> Table | DeltaTable:
        table = self._table(name)
        assert table is not None
        return table

    def _look(self, name: str) -> Seen | None:
        table = self._table(name)
        return None if table is None else look_at(name, table)

    def _numbers(self) -> dict[str, int]:
        found = {name: self._look(name) for name in self.names}
        return {name: 0 if each is None else each.number for name, each in found.items()}

    def _uncounted(self) -> Iterator[set[str]]:
        for name in self.names:
            files = {str(path.relative_to(self.target)) for path in (self.target / name / "data").rglob("*.parquet")}
            if files:
                table = self._table(name)
                yield files - (set() if table is None else counted_in(table, str(self.target)))

    def _take(self) -> None:
        take_lake(self.logs.folder, self.target, **self.choices)

    def _verify(self, reader: Reader) -> None:
        """The tables have the rows of the logs, nothing is left over, and the reader saw whole runs only."""
        self._check_files()
        wanted = read_logs(self.logs.folder, on_damage="salvage")
        found = [row for name in self.names for row in self._rows(name)]
        assert sorted(found, key=repr) == wanted
        assert not reader.failures, reader.failures
        logged = frozenset(row[:3] for row in wanted)
        for seen in reader.seen:
            self._verify_seen(seen, logged)
        self.rows += len(wanted)
        self.looks += reader.looks
        self.snapshots += len(reader.seen)
        self.tally["next runs after which the tables equal the logs"] += 1

    def _check_files(self) -> None:
        check_lake(self.target, self.table_format, *self.names, opened=self._opened)

    def _rows(self, name: str) -> list[Row]:
        return rows_of(self._opened(name), COLUMNS)

    def _verify_seen(self, seen: Seen, logged: frozenset[tuple[str, int, int]]) -> None:
        """A snapshot is that of a commit: of each partition it has what is before the offset that the commit names."""
        assert seen.count == len(seen.rows), f"{seen.table}: commit {seen.number} has rows twice"
        if not seen.number:
            assert not seen.rows
            return
        progress = self._record(seen).progress
        wanted = {row for row in logged if (row[0], row[1]) in progress and row[2] < progress[row[0], row[1]].next_offset}
        assert seen.rows == wanted, f"{seen.table}: a reader saw a part of commit {seen.number}"

    def _record(self, seen: Seen) -> Commit:
        folder = self.target / "_kafkalog" / "tables" / seen.table
        (path,) = [path for path in folder.glob(f"{seen.number:020}-*.json") if run_mark(path.stem[21:]) == seen.mark]
        return Commit.decode(path.read_bytes())

    def _verify_others(self) -> None:
        """What DuckDB and Polars count, and the damage, compared with an undisturbed run."""
        if not self.tally["next runs after which the tables equal the logs"]:
            return
        undisturbed = self.folder / "undisturbed"
        take(self.logs.folder, undisturbed)
        assert damaged_places(self.target) == damaged_places(undisturbed)
        wanted = sorted(row[:3] for row in read_logs(self.logs.folder, on_damage="salvage"))
        for frames in (map(self._polars, self.names), map(self._duckdb, self.names)):
            rows = [row for frame in frames for row in frame]
            assert sorted(rows) == wanted
        self.compared += len(wanted)
        self.tally["tables equal to the logs in DuckDB and Polars"] += 1

    def _polars(self, name: str) -> list[Any]:
        table = self._opened(name)
        frame = polars.scan_iceberg(table) if isinstance(table, Table) else polars.scan_delta(str(self.target / name))
        return frame.select(IDENTITY).collect().rows()

    def _duckdb(self, name: str) -> list[Any]:
        if self.table_format == "delta" and self.table:  # the topic is not in the files
            rows = duckdb.from_arrow(delta_table(self.target, name).to_pyarrow_dataset())
        else:
            files = counted_in(self._opened(name), str(self.target))
            rows = duckdb.read_parquet([str(self.target / path) for path in files])
        return rows.project('topic, partition, "offset"').fetchall()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    begin = time.monotonic()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="kafkalog-lake-") as folder:
        campaign = Campaign(Path(folder) / "campaign", given.seed)
        for work, name, count in ((campaign.kill, "kills", given.kills), (campaign.pair, "pairs", given.pairs)):
            for done in range(0, count, TOLD_EVERY):
                work(min(TOLD_EVERY, count - done))
                print(f"{campaign.tally[name]} {name}, {time.monotonic() - begin:.0f} s", flush=True)
        campaign.close()
    for what, number in sorted(campaign.tally.items()):
        print(f"{number:6} {what}")
    print(f"{campaign.looks:6} looks of readers at {campaign.snapshots} snapshots, 0 of a part of a run")
    print(f"{campaign.compared:6} rows compared by DuckDB and Polars")
    print(f"{campaign.rows:6} rows compared, 0 lost, 0 doubled, 0 files left over, in {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
