"""The disks of three real brokers, and what a consumer read from them before they stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.clusters import packed
from tests.clusters.packed import log_directories as log_directories
from tests.golden import sets


def unpack_three(folder: Path) -> Path:
    """The folder of the set: b1/d1, b1/d2, b2/d1, …"""
    return packed.unpack(folder) / "three"


def expected_records(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What the consumer got, by the names of partitions."""
    records = sets.unpack("records", folder, packed.DATA) / "three-records"
    return {
        path.stem: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for path in sorted(records.glob("*.jsonl"))
        if not path.name.endswith(".read_committed.jsonl")
    }
