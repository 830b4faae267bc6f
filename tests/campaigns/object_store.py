"""`python -m tests.campaigns.object_store`: ingests to an object store, killed and competing with each other.

The store is moto's S3 on loopback. All runs are in processes of their own with one and the same hostname, each in a namespace of
process numbers of its own, so all have the same number. Some are killed at random moments (SIGKILL to all processes). Others work
in pairs on one target: begun at the same moment, quick to take over the other's lease, stopped in the middle for longer than the
lease, or ignoring it, so that both believe the target to be theirs. After each of these an ordinary run must find the
target usable, and then every record of the logs is in the tables once, as in those of an ingest that nobody disturbed; every
file is in the manifest; no staged file and no upload is left.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafkalog.spark.ingestion import lease
from kafkalog.spark.ingestion.manifest import STAGING
from tests.campaigns.ingest_kills import CYCLES_PER_LOG, TASK_BYTES, Child, Logs, damaged_places
from tests.s3_server import S3Server
from tests.spark.ingested import check_manifest, commits, read_logs, read_table, take

BUCKET = "lake"
DAYS = 2
LEASE_SECONDS = 1.0
HURRY_SECONDS = 0.02
STOPPED_SECONDS = 1.5
WAITED_SECONDS = 120
# How the two runs of a pair compete, with the lease of each; 0 for none.
WAYS = {
    "as they are": (LEASE_SECONDS, LEASE_SECONDS),
    "one in a hurry": (LEASE_SECONDS, HURRY_SECONDS),
    "both in a hurry": (HURRY_SECONDS, HURRY_SECONDS),
    "one stopped": (LEASE_SECONDS, LEASE_SECONDS),
    "one without regard for the lease": (LEASE_SECONDS, 0.0),
    "both without regard for the lease": (0.0, 0.0),
}
TOLD_EVERY = 20
WARM_CHILDREN = 2
CHILD = """
import sys, tempfile
import boto3
from kafkalog.spark import ingest
from kafkalog.spark.errors import SparkSourceError
from kafkalog.spark.ingestion import lease
warm, task_bytes = sys.argv[1:]
with tempfile.TemporaryDirectory(prefix="kafkalog-warm-") as scratch:  # all is loaded and compiled when the clock starts
    ingest(warm, scratch, master="none[2]")
sys.stdout.write("ready\\n"); sys.stdout.flush()
kept = lease.Lease.take, lease.Lease.require
for line in sys.stdin:
    source, target, seconds = line.split()
    lease.LEASE_SECONDS = float(seconds) or 1.0
    lease.Lease.take, lease.Lease.require = kept
    if not float(seconds):  # with no regard for the lease
        lease.Lease.take = lambda own: own.slot.write(own._content(), None)
        lease.Lease.require = lambda own: None
    try:
        ingest(source, target, master="none[2]", task_bytes=int(task_bytes))
        sys.stdout.write("done\\n")
    except SparkSourceError as error:
        sys.stdout.write(f"{error.code} {error}\\n".replace("\\n", " ") + "\\n")
    sys.stdout.flush()
"""
# The same hostname and the same process number for everybody.
APART = ["unshare", "--pid", "--fork", "--mount-proc", "--uts", "sh", "-c", 'hostname one && exec "$@"', "sh"]


def can_unshare() -> bool:
    """Whether processes can have namespaces of their own here."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*APART, "true"], capture_output=True, check=False).returncode == 0


@contextmanager
def store() -> Iterator[Any]:
    """A client of a store of its own, which this process and those that it starts reach through the environment."""
    import boto3

    server = S3Server()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
            ("AWS_DEFAULT_REGION", "us-east-1"),
            ("AWS_ENDPOINT_URL", server.endpoint),
        ):
            patch.setenv(name, value)
        patch.delenv("AWS_PROFILE", raising=False)
        patch.setattr(lease, "LEASE_SECONDS", LEASE_SECONDS)
        client = boto3.client("s3")
        client.create_bucket(Bucket=BUCKET)
        try:
            yield client
        finally:
            _empty(client)
    server.stop()


def _empty(client: Any) -> None:
    """All stores of a process have the same buckets."""
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        for each in page.get("Contents", ()):
            client.delete_object(Bucket=BUCKET, Key=each["Key"])
    for each in client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", ()):
        client.abort_multipart_upload(Bucket=BUCKET, Key=each["Key"], UploadId=each["UploadId"])


class Campaign:
    """Kills and pairs on logs that are recreated every few cycles, each time with a target of their own."""

    def __init__(self, folder: Path, client: Any, seed: int, warm_children: int = 1) -> None:
        self.folder = folder
        self.warm_children = warm_children
        self.client = client
        self.random = random.Random(seed)
        self.seconds = 1.0
        self.tally: Counter[str] = Counter()
        self.rows = 0
        self.cycle = 0
        self.warm: deque[Child] = deque()
        Logs(folder / "warm", random.Random(seed), DAYS).grow()

    def close(self) -> None:
        for child in self.warm:
            child.kill()

    def kill(self, count: int) -> None:
        """Kill that many runs."""
        wanted = self.tally["kills"] + count
        while self.tally["kills"] < wanted:
            self._begin_cycle()
            self._kill()
            while self.tally["kills"] < wanted and self.random.random() < 0.3:
                self._kill()
            self._verify()

    def pair(self, count: int) -> None:
        """That many times two runs on one target at the same time."""
        children = [self._child(), self._child()]
        for _ in range(count):
            self._begin_cycle()
            self.tally["pairs"] += 1
            how = self.random.choice(list(WAYS))
            self.tally[f"pairs {how}"] += 1
            for child, each in zip(children, WAYS[how], strict=True):
                child.begin(self._word(each))
                if self.random.random() < 0.5:
                    time.sleep(self.random.uniform(0, self.seconds))
            if how == "one stopped":
                self._stop(self.random.choice(children))
            for child in children:
                self._end(child, 0.0 in WAYS[how])
            self._verify()
        for child in children:
            child.kill()

    def _stop(self, child: Child) -> None:
        time.sleep(self.random.uniform(0, self.seconds))
        child.signal(signal.SIGSTOP)
        time.sleep(STOPPED_SECONDS)
        child.signal(signal.SIGCONT)

    def _end(self, child: Child, may_be_cleared: bool) -> None:
        """The answer of a run of a pair: it is done, or the other one is at work, which may have removed what this one staged."""
        watch = threading.Timer(WAITED_SECONDS, child.kill)
        watch.start()
        said = child.line()
        watch.cancel()
        code = said.partition(" ")[0]
        if code == "KAFKALOG_STORAGE" and may_be_cleared and f"/{STAGING}/" in said:
            code += ", its uploads aborted by the other"
        else:
            assert code in ("done", "KAFKALOG_TARGET_BUSY"), said or "nothing: it hangs"
        if "has published" in said:
            code += ", refused by the conditional put"
        elif "did not renew" in said:
            code += ", lost its lease"
        self.tally[f"runs of pairs: {code}"] += 1

    def _begin_cycle(self) -> None:
        if self.cycle % CYCLES_PER_LOG == 0:
            place = self.folder / f"{self.cycle // CYCLES_PER_LOG:04}"
            shutil.rmtree(self.folder / f"{self.cycle // CYCLES_PER_LOG - 1:04}", ignore_errors=True)
            self.logs = Logs(place / "logs", self.random, DAYS)
            self.fetched = place / "fetched"
            self.undisturbed = place / "undisturbed"
            self.prefix = place.name
            self.target = f"s3://{BUCKET}/{self.prefix}"
        self.cycle += 1
        self.logs.grow()

    def _word(self, seconds: float) -> str:
        return f"{self.logs.folder} {self.target} {seconds}"

    def _child(self) -> Child:
        """A process that is ready; others get ready meanwhile."""
        while len(self.warm) < self.warm_children:
            self.warm.append(Child([*APART, sys.executable, "-c", CHILD, str(self.folder / "warm"), TASK_BYTES]))
        return self.warm.popleft().ready()

    def _kill(self) -> None:
        child = self._child()
        before = len(self._keys("_kafkalog/commits/"))
        child.begin(self._word(LEASE_SECONDS))
        # A run that follows a killed one waits for its lease first.
        wait = LEASE_SECONDS if self.random.random() < 0.5 else 0
        time.sleep(wait + self.random.uniform(0, self.seconds))
        child.kill()
        self.tally["kills"] += 1
        published = len(self._keys("_kafkalog/commits/")) > before
        staged = bool(self._keys(f"{STAGING}/"))
        uploads = len(self._uploads())
        self.tally["uploads left by kills"] += uploads
        left = "files or uploads left" if staged or uploads else "nothing left"
        self.tally[f"kills: {'published' if published else 'not published'}, {left}"] += 1
        if not staged:  # too late or too early: most moments should be in the middle of the work
            self.seconds = min(max(self.seconds * (0.8 if published else 1.25), 0.2), 5)

    # -- the store's content -------------------------------------------------------------------------------------------------

    def _keys(self, below: str = "") -> dict[str, str]:
        """Keys of the target with their tags, except those that only mark a folder."""
        found = {}
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{self.prefix}/{below}"):
            for each in page.get("Contents", ()):
                if not each["Key"].endswith("/"):
                    found[each["Key"].removeprefix(f"{self.prefix}/")] = each["ETag"]
        return found

    def _uploads(self) -> list[str]:
        return [each["Key"] for each in self.client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", ())]

    def _fetch(self) -> None:
        """Make the local copy of the target what the store has."""
        shutil.rmtree(self.fetched, ignore_errors=True)
        for key in self._keys():
            path = self.fetched / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.client.get_object(Bucket=BUCKET, Key=f"{self.prefix}/{key}")["Body"].read())

    def _verify(self) -> None:
        """Compare the next run with an undisturbed one and with the logs themselves."""
        take(self.logs.folder, self.target)
        shutil.rmtree(self.undisturbed, ignore_errors=True)
        take(self.logs.folder, self.undisturbed)
        self._fetch()
        rows = read_table(self.fetched)
        assert rows == read_table(self.undisturbed) == read_logs(self.logs.folder, on_damage="salvage")
        assert damaged_places(self.fetched) == damaged_places(self.undisturbed)
        check_manifest(self.fetched)
        assert [commit["number"] for commit in commits(self.fetched)] == list(range(1, len(commits(self.fetched)) + 1))
        assert self._uploads() == []
        assert self._keys(f"{STAGING}/") == {}
        self.rows += len(rows)
        self.tally["next runs equal to an undisturbed run"] += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    begin = time.monotonic()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="kafkalog-s3-") as folder, store() as client:
        campaign = Campaign(Path(folder), client, given.seed, WARM_CHILDREN)
        try:
            for work, name, count in ((campaign.kill, "kills", given.kills), (campaign.pair, "pairs", given.pairs)):
                for done in range(0, count, TOLD_EVERY):
                    work(min(TOLD_EVERY, count - done))
                    print(f"{campaign.tally[name]} {name}, {time.monotonic() - begin:.0f} s", flush=True)
        finally:
            campaign.close()
    for what, number in sorted(campaign.tally.items()):
        print(f"{number:6} {what}")
    print(f"{campaign.rows:6} rows compared, 0 lost, 0 doubled, 0 wedged, 0 uploads left, in {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
