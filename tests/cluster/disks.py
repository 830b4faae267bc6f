"""The disks of three real brokers, and what a consumer read from them before they stopped.

`data/clusters.tar.xz` holds the disks; `data/records.tar.xz` the records of each partition of the set `three`, as a 4.3.0
consumer got them: `records/three/<topic>-<partition>/expected.jsonl`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.golden import sets

DATA = Path(__file__).resolve().parent / "data"


def unpack_three(folder: Path) -> Path:
    """The folder of the set: b1/d1, b1/d2, b2/d1, …"""
    return sets.unpack("clusters", folder, DATA) / "three"


def log_directories(three: Path) -> list[Path]:
    return sorted(three.glob("b*/d*"))


def expected_records(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What the consumer got, by the names of partitions."""
    records = sets.unpack("records", folder, DATA) / "records" / "three"
    return {
        path.parent.name: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for path in sorted(records.glob("*/expected.jsonl"))
    }
