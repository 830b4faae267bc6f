"""`kafkalog cat --format json` against what a consumer of each broker's release returned."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalog.cli.main import main
from tests.golden import sets
from tests.golden.expected import read_era


def decoded(line: dict[str, Any]) -> dict[str, Any]:
    """A line of `cat` in the form of `ExpectedPartition.records`."""

    def content(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text)

    return {
        "offset": line["offset"],
        "timestamp": line["timestamp"],
        "timestampType": line["timestampType"],
        "key": content(line["key"]),
        "value": content(line["value"]),
        "headers": [((content(key) or b"").decode("utf-8", "replace"), content(value)) for key, value in line["headers"]],
    }


@pytest.mark.parametrize("era", sets.eras())
def test_json_lines_are_what_a_consumer_returned(era: str, golden: Callable[[str], Path], tmp_path: Path) -> None:
    folder = golden(era) / era
    compared = 0
    for partition in read_era(folder).partitions:
        if partition.records is None or not partition.folder.is_dir():
            continue
        target = tmp_path / "lines"
        arguments = ["cat", str(partition.folder), "--format", "json", "--encoding", "base64", "--quiet"]
        start = str(partition.records[0]["offset"]) if partition.records else "0"
        assert main([*arguments, "--start-offset", start, "--output", str(target)]) == 0
        found = [decoded(json.loads(line)) for line in target.read_text(encoding="utf-8").splitlines()]
        assert len(found) == len(partition.records), partition.name
        for line, record in zip(found, partition.records, strict=True):
            assert {name: line[name] for name in record if name in line} == {
                name: value for name, value in record.items() if name in line
            }, partition.name
            compared += 1
    assert compared or era.endswith("damaged")
