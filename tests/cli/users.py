"""A small log directory, and every command on it, for tests in which somebody else is the owner or runs them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

from tests.builders.small_logs import made_batch, write_segment

READING = ("ls", "cat", "verify", "profile")
IN_PLACE = ("recover", "compact", "convert", "truncate", "retain", "reindex", "append")
COPYING = ("salvage", "recover --out", "compact --out", "convert --out", "truncate --out", "retain --out", "reindex --out")
TIME = 1_700_000_000_000


class Owned(NamedTuple):
    user: int
    group: int
    mode: int


def make_log_directory(folder: Path) -> Path:
    """The folder of its one partition."""
    orders = folder / "data" / "orders-0"
    write_segment(orders, 0, made_batch(0), made_batch(10))
    write_segment(orders, 20, made_batch(20), made_batch(30))
    (folder / "data" / "recovery-point-offset-checkpoint").write_bytes(b"0\n1\norders 0 40\n")
    (folder / "data" / ".kafka_cleanshutdown").write_bytes(b"")
    (folder / "records.jsonl").write_text(f'{{"value": "x", "timestamp": {TIME}}}\n')
    return orders


def arguments_of(command: str, folder: Path, topic: str = "orders") -> list[str]:
    name, is_copy, _ = command.partition(" --out")
    partition = str(folder / "data" / f"{topic}-0")
    where = ["--out", str(folder / "out")] if is_copy or name == "salvage" else ["--in-place"]
    options = {
        "append": ["append", str(folder / "records.jsonl"), "--to", partition],
        "append new": ["append", str(folder / "records.jsonl"), "--to", str(folder / "data" / "new-0")],
        "compact": ["compact", partition, *where, "--config", "cleanup.policy=compact", "--roll"],
        "convert": ["convert", partition, *where, "--codec", "gzip"],
        "truncate": ["truncate", partition, *where, "--to-offset", "30"],
        "retain": ["retain", partition, *where, "--start-offset", "20"],
    }
    if name in READING:
        return [name, str(folder / "data")]
    return options.get(name, [name, partition, *where])


def owned_below(folder: Path) -> dict[str, Owned]:
    found = {}
    for path in folder.rglob("*"):
        status = path.lstat()
        found[str(path.relative_to(folder))] = Owned(status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode))
    return found


def content_below(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def give_to(user: int, folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user)
