"""`python -m tests.campaigns.lake_losses`: ingests into a REST catalog over a connection that loses requests and answers.

The catalog is Iceberg's own, behind a proxy. In each cycle the logs grow, and an ingest runs while the proxy drops some requests
before they arrive, and some answers after the catalog has done its work. A run may fail for that (`KAFKALOG_STORAGE`) and is then
repeated; once it ends, every record of the logs is in the tables once, read past the proxy.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest

from kafkalog.spark.errors import STORAGE, SparkSourceError
from kafkalog.spark.ingestion import lake_table
from tests.campaigns.ingest_kills import CYCLES_PER_LOG, TASK_BYTES, Logs
from tests.spark.ingested import read_logs
from tests.spark.lake_tables import take_lake
from tests.spark.rest_catalog import PASSES, UNHEARD, UNSENT, Proxy, properties_of, read_rest, resolve_catalog, rest_catalog

DAYS = 2
TOPICS = ("topic0", "topic1")
PAUSE_SECONDS = 0.01
TOLD_EVERY = 20
# Of commits many are lost, of other requests few: most runs should come to their commit.
LOST_COMMITS = 0.5
LOST_OTHERS = 0.03


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
        with Proxy(self.port, self._fate).running() as port:
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

    def _fate(self, method: str, path: str) -> str:
        is_commit = method == "POST" and "/tables/" in path
        if self.random.random() >= (LOST_COMMITS if is_commit else LOST_OTHERS):
            return PASSES
        fate = self.random.choice((UNSENT, UNHEARD))
        self.tally[f"{'commits' if is_commit else 'other requests'} {fate}"] += 1
        return fate


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cycles", type=int, default=100)
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
    for what, number in sorted(campaign.tally.items()):
        print(f"{number:6} {what}")
    print(f"{campaign.rows:6} rows compared, 0 lost, 0 doubled, in {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
