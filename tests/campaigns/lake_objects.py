"""`python -m tests.campaigns.lake_objects`: ingests into tables of a lake in an object store, killed and set upon each other.

The same cycles as those of `lake_kills`, on moto's S3 on loopback: Delta tables whose log is there too, and Iceberg tables whose
catalog is a local SQLite file. Runs are kept apart by a lease, which some of them ignore. After each cycle an ordinary run must
find the target usable; then every record of the logs is in the tables once, and in the store there is no data file, no staged
file and no upload that no commit names.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from kafkalog.spark.ingestion.lake_table import run_mark
from kafkalog.spark.ingestion.manifest import Commit
from tests.campaigns.lake_kills import TOLD_EVERY, Campaign, Seen
from tests.campaigns.lake_runs import Order, Run, Stop
from tests.campaigns.object_store import BUCKET, LEASE_SECONDS, store
from tests.spark.lake_tables import counted_in, take_lake

REGION: Final = "us-east-1"


class ObjectCampaign(Campaign):
    """The cycles of `Campaign` in a bucket."""

    look_seconds = 1.0  # the server is in this process

    def __init__(self, folder: Path, client: Any, seed: int, cycles_per_log: int = 6) -> None:
        self.client = client
        self.endpoint = str(client.meta.endpoint_url)
        super().__init__(folder, seed, cycles_per_log)

    def _begin_log(self) -> None:
        super()._begin_log()
        self.prefix = f"{self.cycle // self.cycles_per_log:04}"
        self.uri = f"s3://{BUCKET}/{self.prefix}"
        self.catalog = {"type": "sql", "uri": f"sqlite:///{self.folder}/catalog.db"} if self.table_format == "iceberg" else None

    @property
    def choices(self) -> dict[str, Any]:
        return {**super().choices, "catalog_properties": self.catalog}

    def _run(self, stop: Stop | None = None, ignores_lock: bool = False) -> Run:
        of_store = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        return Run(Order(str(self.logs.folder), self.uri, self.choices, stop, ignores_lock, LEASE_SECONDS, of_store))

    def _take(self) -> None:
        take_lake(self.logs.folder, self.uri, **self.choices)

    # -- the store's content -------------------------------------------------------------------------------------------------

    def _table(self, name: str) -> Table | DeltaTable | None:
        options = {"AWS_ENDPOINT_URL": self.endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": REGION}
        properties = {"s3.endpoint": self.endpoint, "s3.region": REGION}
        with suppress(NoSuchTableError, TableNotFoundError):
            if self.catalog is None:
                return DeltaTable(f"{self.uri}/{name}", storage_options=options)
            if (self.folder / "catalog.db").exists():
                table: Table = load_catalog("kafkalog", **self.catalog, **properties).load_table(("kafka", name))
                return table
        return None

    def _keys(self, below: str) -> list[str]:
        """Keys of the target, except those that only mark a folder."""
        found = []
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{self.prefix}/{below}"):
            found += [each["Key"].removeprefix(f"{self.prefix}/") for each in page.get("Contents", ())]
        return [key for key in found if not key.endswith("/")]

    def _uncounted(self) -> Iterator[set[str]]:
        for name in self.names:
            files = set(self._keys(f"{name}/data/"))
            if files:
                table = self._table(name)
                yield files - (set() if table is None else counted_in(table, self.uri))

    def _check_files(self) -> None:
        for name in self.names:
            assert set(self._keys(f"{name}/data/")) == counted_in(self._opened(name), self.uri)
            numbers = [int(Path(key).name.partition("-")[0]) for key in self._keys(f"_kafkalog/tables/{name}/")]
            assert sorted(numbers) == list(range(1, len(numbers) + 1)), "each number was given once"
        assert self._keys("_kafkalog/staging/") == []
        assert self.client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []) == []

    def _record(self, seen: Seen) -> Commit:
        keys = self._keys(f"_kafkalog/tables/{seen.table}/{seen.number:020}-")
        (key,) = [key for key in keys if run_mark(Path(key).stem[21:]) == seen.mark]
        return Commit.decode(self.client.get_object(Bucket=BUCKET, Key=f"{self.prefix}/{key}")["Body"].read())

    def _verify_others(self) -> None:
        """What other readers say of tables is a matter of `lake_kills`."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    begin = time.monotonic()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="kafkalog-lake-s3-") as folder, store() as client:
        campaign = ObjectCampaign(Path(folder) / "campaign", client, given.seed)
        for work, name, count in ((campaign.kill, "kills", given.kills), (campaign.pair, "pairs", given.pairs)):
            for done in range(0, count, TOLD_EVERY):
                work(min(TOLD_EVERY, count - done))
                print(f"{campaign.tally[name]} {name}, {time.monotonic() - begin:.0f} s", flush=True)
    for what, number in sorted(campaign.tally.items()):
        print(f"{number:6} {what}")
    print(f"{campaign.looks:6} looks of readers at {campaign.snapshots} snapshots, 0 of a part of a run")
    print(
        f"{campaign.rows:6} rows compared, 0 lost, 0 doubled, 0 files and uploads left over, in {time.monotonic() - begin:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
