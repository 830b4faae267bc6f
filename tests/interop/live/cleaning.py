"""Kafka's own log cleaner on partition folders: Cleaning.java, run from its source with the broker's jars."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from .broker import HERE, JARS

SECONDS = 240


class Folder(NamedTuple):
    """A partition folder, the time, the bytes of the cleaner's map and of its buffers."""

    path: Path
    now_ms: int
    map_bytes: int
    buffer_bytes: int


def clean(folders: Sequence[Folder], settings: Mapping[str, str]) -> list[str]:
    """Clean each folder where it is; for each "ok" with the records that all passes read and kept, or the exception."""
    chosen = "\t".join(f"{name}={value}" for name, value in settings.items())
    lines = "".join("\t".join((*map(str, folder), chosen)) + "\n" for folder in folders)
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*", str(HERE / "Cleaning.java")]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=SECONDS, check=True)
    found = done.stdout.splitlines()
    assert len(found) == len(folders), done.stderr
    return found
