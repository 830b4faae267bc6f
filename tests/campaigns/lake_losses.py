"""`python -m tests.campaigns.lake_losses`: ingests into a REST catalog over a connection that loses requests and answers.

The catalog is Iceberg's own, behind a proxy. In each cycle the logs grow, and an ingest runs while the proxy drops some requests
before they arrive, and some answers after the catalog has done its work. A run may fail for that (`KAFKALOG_STORAGE`) and is then
repeated; once it ends, every record of the logs is in the tables once, read past the proxy. Then the kills and pairs of
`lake_kills`, over the same connection.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from kafkalog.spark.errors import STORAGE, SparkSourceError
from kafkalog.spark.ingestion import lake_table
from tests.campaigns import lake_kills
from tests.campaigns.ingest_kills import CYCLES_PER_LOG, TASK_BYTES, Logs
from tests.campaigns.lake_runs import places
from tests.spark.ingested import read_logs
from tests.spark.lake_tables import take_lake
from tests.spark.rest_catalog import PASSES, UNHEARD, UNSENT, Proxy, properties_of, read_rest, resolve_catalog, rest_catalog

DAYS = 2
TOPICS = ("topic0", "topic1")
PAUSE_SECONDS = 0.01
TOLD_EVERY = 20
LOST_COMMITS = 0.5
LOST_OTHERS = 0.03
LOST_COMMITS_OF_KILLED = 0.2
LOST_OTHERS_OF_KILLED = 0.01
REST = "pyiceberg.catalog.rest:RestCatalog."


class Campaign:
    """Cycles on logs that are recreated every few cycles, each time with a target and a namespace of their own."""

    def __init__(self, folder: Path, port: int, seed: int) -> None:
        self.folder = folder
        self.port = port
        self.random = random.Random(seed)
        self.tally: Counter[str] = Counter()
        self.rows = 0

    def run(self, cycles: int) -> None:
        for cycle in range(cycles):
            if cycle % CYCLES_PER_LOG == 0:
                self.place = self.folder / f"{cycle // CYCLES_PER_LOG:04}"
                self.logs = Logs(self.place / "logs", self.random, DAYS)
            self.logs.grow()
            self._ingest()
            wanted = read_logs(self.logs.folder, on_damage="salvage")
            found = [row for name in TOPICS for row in read_rest(self.port, name, f"lake{self.place.name}")]
            assert sorted(found, key=repr) == wanted
            self.rows += len(wanted)
            if (cycle + 1) % TOLD_EVERY == 0:
                print(f"{cycle + 1} cycles", flush=True)

    def _ingest(self) -> None:
        """Runs until one ends."""
        with Proxy(self.port, losing(self.random, self.tally, LOST_COMMITS, LOST_OTHERS)).running() as port:
            while True:
                choices = {"task_bytes": int(TASK_BYTES), "namespace": f"lake{self.place.name}"}
                try:
                    take_lake(self.logs.folder, self.place / "lake", "iceberg", catalog_properties=properties_of(port), **choices)
                    self.tally["runs: done"] += 1
                    return
                except SparkSourceError as error:
                    assert error.code == STORAGE, error
                    said = "the next run finds out" if "finds out" in str(error) else "before a commit"
                    self.tally[f"runs: {error.code}, {said}"] += 1


def losing(source: random.Random, tally: Counter[str], commits: float, others: float) -> Callable[[str, str], str]:
    """What happens to requests: many commits are lost, few others, since most runs should come to their commit."""

    def fate(method: str, path: str) -> str:
        is_commit = method == "POST" and "/tables/" in path
        if source.random() >= (commits if is_commit else others):
            return PASSES
        found = source.choice((UNSENT, UNHEARD))
        tally[f"{'commits' if is_commit else 'other requests'} {found}"] += 1
        return found

    return fate


class RestCampaign(lake_kills.Campaign):
    """The cycles of `lake_kills` with tables of a REST catalog; runs reach it through a proxy, readers directly."""

    formats = ("iceberg",)
    theirs: ClassVar = {"iceberg": places([f"{REST}commit_table", f"{REST}create_table"], 2)}
    ends = (*lake_kills.Campaign.ends, STORAGE)

    def __init__(self, folder: Path, port: int, proxy_port: int, seed: int, cycles_per_log: int = CYCLES_PER_LOG) -> None:
        self.port = port
        self.proxy_port = proxy_port
        super().__init__(folder, seed, cycles_per_log)

    def _begin_log(self) -> None:
        super()._begin_log()
        self.namespace = f"kills{self.cycle // self.cycles_per_log}"

    @property
    def choices(self) -> dict[str, Any]:
        return {**super().choices, "catalog_properties": properties_of(self.proxy_port), "namespace": self.namespace}

    def _table(self, name: str) -> Table | None:
        with suppress(NoSuchTableError):
            table: Table = load_catalog("reader", **properties_of(self.port)).load_table((self.namespace, name))
            return table
        return None

    def _take(self) -> None:
        """Runs until one ends."""
        while True:
            try:
                super()._take()
                return
            except SparkSourceError as error:
                assert error.code == STORAGE, error
                self.tally["following runs that failed and were repeated"] += 1


def kill_and_pair(folder: Path, port: int, given: argparse.Namespace) -> RestCampaign:
    lost: Counter[str] = Counter()
    fate = losing(random.Random(given.seed), lost, LOST_COMMITS_OF_KILLED, LOST_OTHERS_OF_KILLED)
    with Proxy(port, fate).running() as proxy_port:
        campaign = RestCampaign(folder / "killed", port, proxy_port, given.seed)
        campaign.kill(given.kills)
        campaign.pair(given.pairs)
        campaign.close()
    campaign.tally.update(lost)
    return campaign


def report(tally: Counter[str], sums: str) -> None:
    for what, number in sorted(tally.items()):
        print(f"{number:6} {what}")
    print(sums, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cycles", type=int, default=100)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    logging.getLogger("kafkalog.spark").setLevel(logging.ERROR)  # each loss is worth a warning
    begin = time.monotonic()
    print(f"seed {given.seed}", flush=True)
    problem = resolve_catalog()
    if problem is not None:
        print(problem, file=sys.stderr)
        return 1
    with (
        tempfile.TemporaryDirectory(prefix="kafkalog-losses-") as folder,
        rest_catalog(Path(folder) / "catalog") as port,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(lake_table, "PAUSE_SECONDS", PAUSE_SECONDS)
        campaign = Campaign(Path(folder), port, given.seed)
        campaign.run(given.cycles)
        report(campaign.tally, f"{campaign.rows:6} rows compared, 0 lost, 0 doubled, in {time.monotonic() - begin:.0f} s")
        killing = kill_and_pair(Path(folder), port, given)
        report(killing.tally, f"{killing.looks:6} looks of readers at {killing.snapshots} snapshots, 0 of a part of a run")
        print(f"{killing.rows:6} rows compared, 0 lost, 0 doubled, 0 files left over, in {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
