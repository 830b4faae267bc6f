"""`python -m tests.campaigns.cluster_releases [RELEASE…]`: clusters of each KRaft release, read and rebuilt.

A node of the release is filled and changed by ClusterStory.java, says what it holds, and is stopped. Then its disk is read, and
the tables are compared with what it said. Then its metadata is taken away, the cluster is rebuilt with and without that copy, and
the release is started on what came out: what it says now is compared as well. With --pack the disks, without their indexes, and
what was said become the test data of tests/clusters.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import kafkalog
from kafkalog.tasks.cluster_rebuild.features import ELIGIBLE_LEADERS
from tests.clusters import packed
from tests.golden import sets
from tests.interop.live.broker import HERE, JARS, SHORT_LIVED, resolve_jars, running_broker

RELEASES: Final = ("3.3.2", "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.1", "4.0.1", "4.1.1", "4.2.0", "4.3.0")
# Snapshots of the metadata after few records.
SETTINGS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "initial.broker.registration.timeout.ms": "120000",
    "metadata.log.max.record.bytes.between.snapshots": "3000",
}
STORY_SECONDS: Final = 400
METADATA: Final = "__cluster_metadata-0"
KINDS: Final = ("topics", "configs", "acls", "quotas", "credentials", "features", "groupOffsets")
LEFT_OUT: Final = (ELIGIBLE_LEADERS,)  # by a rebuild, whose plan says why
KNOWN_TO_THE_DISK: Final = ("topics", "groupOffsets")


def told_by(release: str, folder: Path, *task: str) -> dict[str, Any]:
    """What the Admin API of a node says whose log directory is or will be `data` in this folder."""
    for each in (release, None):
        if (problem := resolve_jars(*([each] if each else []))) is not None:
            raise SystemExit(problem)
    with running_broker(folder, SETTINGS, release=release) as broker:
        story = [str(HERE / "ClusterStory.java"), broker.bootstrap, *task]
        command = ["java", *SHORT_LIVED, "-cp", f"{JARS}/*", *story]
        done = subprocess.run(command, capture_output=True, text=True, timeout=STORY_SECONDS, check=False)
    if done.returncode:
        raise SystemExit(f"{release}: {done.stderr[-3000:]}")
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def found_in(data: Path) -> dict[str, list[Any]]:
    """The same from the tables of the log directory."""
    logs = kafkalog.open(data)

    def rows(table: str, *columns: str) -> list[list[Any]]:
        return [[row[name] for name in columns] for row in logs.read(table, list(columns)).read_all().to_pylist()]

    acl = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type")
    quotas = [
        [{part["type"]: part["name"] for part in entity}, *rest] for entity, *rest in rows("quotas", "entity", "key", "value")
    ]
    commits = ("group_id", "topic", "partition", "committed_offset", "leader_epoch", "metadata")
    return {
        "topics": rows("topics", "topic", "topic_id", "partition", "replicas"),
        "configs": rows("configs", "resource_type", "resource_name", "name", "value"),
        "acls": rows("acls", *acl),
        "quotas": quotas,
        "credentials": rows("credentials", "user", "mechanism", "iterations"),
        "features": rows("features", "feature", "level"),
        "groupOffsets": rows("group_offsets", *commits),
    }


def differences(said: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    """What only one of the two has."""
    for kind, rows in found.items():
        wanted = sorted(said[kind].items()) if kind == "features" else said[kind]
        now = sorted(rows.items()) if isinstance(rows, dict) else rows
        ours, theirs = sorted(map(_text, now)), sorted(map(_text, wanted))
        yield from (f"{kind}: missing: {each}" for each in theirs if each not in ours)
        yield from (f"{kind}: not expected: {each}" for each in ours if each not in theirs)
        if len(ours) != len(theirs):
            yield f"{kind}: {len(ours)} rows, {len(theirs)} expected"


def _text(row: Any) -> str:
    return json.dumps(row, sort_keys=True)


def rebuilt(data: Path, folder: Path, release: str, *choices: str) -> None:
    """A log directory `data` in this folder that the release can open, of one that has lost its metadata."""
    out = folder / "rebuilt"
    command = [sys.executable, "-m", "kafkalog", "cluster", "rebuild", str(data), "--out", str(out), "--quiet", *choices]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{release}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    (place,) = (path.parent for path in out.rglob("meta.properties"))
    place.rename(folder / "data")


def differences_after(release: str, data: Path, said: dict[str, Any], folder: Path) -> Iterator[str]:
    """What a cluster says differently after its metadata was lost, with a copy of it and without."""
    copy = folder / "copy"
    copy.mkdir()
    (data / METADATA).rename(copy / METADATA)
    not_here = [each.partition(":")[0] for each in said["notHere"]]
    wanted = said | {"features": {name: level for name, level in said["features"].items() if name not in LEFT_OUT}}
    for name, choices, kinds in (
        ("with a copy", ("--metadata", str(copy)), KINDS),
        ("without", ("--release", ".".join(release.split(".")[:2])), KNOWN_TO_THE_DISK),
    ):
        place = folder / name.replace(" ", "-")
        place.mkdir()
        rebuilt(data, place, release, *choices)
        now = told_by(release, place, "tell", *not_here)
        found = differences(wanted, {kind: now[kind] for kind in kinds})
        yield from (f"rebuilt {name}: {each}" for each in found)


def keep(data: Path, said: Mapping[str, Any], place: Path) -> None:
    """A copy of a disk without what can be made again, and what its cluster said."""
    shutil.copytree(data, place / "data", ignore=shutil.ignore_patterns("*.index", "*.timeindex", "*.txnindex", ".lock"))
    (place / "said.json").write_text(json.dumps(said, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("releases", nargs="*", default=RELEASES, metavar="RELEASE")
    parser.add_argument("--pack", action="store_true", help="write tests/clusters/data/releases.tar.xz")
    given = parser.parse_args(arguments)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="kafkalog-cluster-") as scratch:
        for release in given.releases:
            folder = Path(scratch, release)
            folder.mkdir()
            said = told_by(release, folder, "fill")
            found = found_in(folder / "data")
            keep(folder / "data", said, Path(scratch, "kept", release))
            wrong = [*differences(said, found), *differences_after(release, folder / "data", said, folder)]
            failed += bool(wrong)
            counts = ", ".join(f"{len(rows)} {kind}" for kind, rows in found.items())
            print(f"{release}: {counts}: read, and rebuilt twice: {len(wrong)} differences", flush=True)
            for line in (*wrong, *(f"not in {release}: {each}" for each in said["notHere"])):
                print(f"  {line}"[:300], flush=True)
            shutil.rmtree(folder)
        if given.pack:
            sets.pack_group(Path(scratch, "kept"), sorted(given.releases), packed.DATA / "releases.tar.xz")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
