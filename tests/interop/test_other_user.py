"""A real broker that runs as another user, whose log directory root's commands changed: it opens everything and continues."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from kafkalog.cli.main import main
from tests.conftest import NOBODY, require, require_root, unavailable
from tests.interop.live.broker import NEWEST, jars_of, resolve_jars, running_broker
from tests.interop.live.clients import MORE
from tests.interop.test_written import client, complaints, rows_of

pytestmark = pytest.mark.slow

FILE_MODE, FOLDER_MODE = 0o600, 0o700  # of a broker that lets nobody else in
Change = Callable[[Path], None]


def command(*arguments: object) -> None:
    assert main([str(argument) for argument in arguments]) == 0, arguments


def recover(folder: Path) -> None:
    with next(folder.glob("*.log")).open("ab") as log:
        log.write(bytes(200))
    command("recover", folder, "--in-place", "--whole")


def append(folder: Path) -> None:
    source = folder.parents[1] / "records.jsonl"
    source.write_text('{"key": "k", "value": "v", "timestamp": 1700000000000}\n')
    command("append", source, "--to", folder)


def reindex(folder: Path) -> None:
    for index in folder.glob("*.timeindex"):
        index.unlink()
    command("reindex", folder, "--in-place")


def put_in_place(folder: Path, *arguments: object) -> None:
    out = folder.parents[1] / "out" / str(arguments[0])
    command(*arguments, "--out", out)
    shutil.rmtree(folder)
    os.rename(out / folder.name, folder)


COMPACTED = ("--roll", "--config", "cleanup.policy=compact")
CHANGES: Mapping[str, Change] = {
    "recovered": recover,
    "compacted": lambda folder: command("compact", folder, "--in-place", *COMPACTED),
    "converted": lambda folder: command("convert", folder, "--in-place", "--codec", "gzip"),
    "appended": append,
    "cut": lambda folder: command("truncate", folder, "--in-place", "--to-offset", 30),
    "retained": lambda folder: command("retain", folder, "--in-place", "--start-offset", 20),
    "reindexed": reindex,
    "salvaged": lambda folder: put_in_place(folder, "salvage", folder),
    "compacted-copy": lambda folder: put_in_place(folder, "compact", folder, *COMPACTED),
    "converted-copy": lambda folder: put_in_place(folder, "convert", folder, "--codec", "gzip"),
}


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of the other user, where nobody else is let in."""
    require_root()
    require("java", "mvn", "kafka")
    if (problem := resolve_jars()) is not None:
        unavailable(problem)
    looking = ["ls", str(jars_of(NEWEST))]
    if subprocess.run(looking, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, check=False).returncode:
        unavailable("another user cannot read the jars of the broker here")
    with tempfile.TemporaryDirectory() as scratch:
        os.chown(scratch, NOBODY, NOBODY)
        yield Path(scratch)


def wrong_files(data: Path) -> list[tuple[str, int, int, str]]:
    """The files of a log directory that do not belong to the user of the broker, or let others in; our own notes may be read."""
    wrong = []
    for path in (data, *data.rglob("*")):
        status = path.lstat()
        mode = stat.S_IMODE(status.st_mode) & ~(0o044 if path.suffix == ".json" else 0)
        if (status.st_uid, status.st_gid, mode) != (NOBODY, NOBODY, FOLDER_MODE if path.is_dir() else FILE_MODE):
            wrong.append((str(path.relative_to(data)), status.st_uid, status.st_gid, oct(mode)))
    return wrong


def identities(folder: Path) -> dict[str, tuple[int, int]]:
    """What tells a new file from the one before: its inode, and its last change, since a file system gives an inode out again."""
    return {path.name: (path.stat().st_ino, path.stat().st_ctime_ns) for path in folder.iterdir()}


def wait_until_served(bootstrap: str, topic: str, rows: list[list[int]]) -> None:
    deadline = time.monotonic() + 60
    while json.loads(client("digests", bootstrap, topic)) != rows:
        assert time.monotonic() < deadline, f"{topic} is not what we read"


def test_a_broker_of_another_user_opens_what_root_has_changed(place: Path) -> None:
    with running_broker(place, user=NOBODY) as broker:
        client("create", broker.bootstrap, ",".join(CHANGES))
        client("add", broker.bootstrap, ",".join([*CHANGES, *CHANGES]))
    data = place / "data"
    assert wrong_files(data) == []
    for topic, change in CHANGES.items():
        before = identities(data / f"{topic}-0")
        change(data / f"{topic}-0")
        assert identities(data / f"{topic}-0") != before, topic
    assert wrong_files(data) == []
    expected = {topic: rows_of(data, topic) for topic in CHANGES}
    assert sorted({len(rows) for rows in expected.values()}) == [MORE, 30, 2 * MORE, 2 * MORE + 1]
    with running_broker(place, user=NOBODY) as broker:
        for topic, rows in expected.items():
            wait_until_served(broker.bootstrap, topic, rows)
        client("add", broker.bootstrap, ",".join(CHANGES))
    assert complaints(place / "broker.txt", CHANGES) == []
    assert "Permission denied" not in (place / "broker.txt").read_text(errors="replace")
    for topic, rows in expected.items():
        assert len(rows_of(data, topic)) == len(rows) + MORE
    assert wrong_files(data) == []
