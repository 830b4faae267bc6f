"""The output of Kafka's own tools for a golden log directory: the files under `<era>-expected`, parsed.

Index dumps differ by release only in the producer lines; the parser takes every `name: number` pair of a line and gives the
fields of a kind their names in our tables, so it needs no table of releases.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EXPECTED_SUFFIX = "-expected"
TIMESTAMP_TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}
# `currentTxnFirstOffset: Some(5)` up to 3.4, `OptionalLong[5]` since; None and OptionalLong.empty are left out of the fields.
FIELD = re.compile(r"(\w+): (?:Some\(|OptionalLong\[)?(-?\d+)")
INDEX_FIELDS = {
    ".index": {"offset": "offset", "position": "position"},
    ".timeindex": {"timestamp": "timestamp_ms", "offset": "offset"},
    ".txnindex": {
        "version": "version",
        "producerId": "producer_id",
        "firstOffset": "first_offset",
        "lastOffset": "last_offset",
        "lastStableOffset": "last_stable_offset",
    },
    ".snapshot": {
        "producerId": "producer_id",
        "producerEpoch": "producer_epoch",
        "lastSequence": "last_sequence",
        "lastOffset": "last_offset",
        "offsetDelta": "offset_delta",
        "timestamp": "last_timestamp_ms",
        "lastTimestamp": "last_timestamp_ms",
        "coordinatorEpoch": "coordinator_epoch",
        "currentTxnFirstOffset": "current_transaction_first_offset",
    },
}
# Fields missing in a snapshot line: a producer that has only written markers has no last batch, most have no open transaction.
SNAPSHOT_ABSENT = {"last_sequence": -1, "last_offset": -1, "current_transaction_first_offset": -1}


@dataclass(frozen=True)
class IndexDump:
    """One dumped file: its entries in our column names, and whether the tool came to its end."""

    entries: list[dict[str, int]]
    complete: bool


@dataclass(frozen=True)
class ExpectedPartition:
    """One partition folder of a log directory and everything known about it."""

    folder: Path
    expected: Path
    case: dict[str, Any]

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def topic(self) -> str:
        return self.name.rpartition("-")[0]

    @property
    def partition(self) -> int:
        return int(self.name.rpartition("-")[2])

    @functools.cached_property
    def records(self) -> list[dict[str, Any]] | None:
        """The records that a consumer returned, as bytes; None where nobody consumed (internal topics, damaged logs)."""
        path = self.expected / "expected.jsonl"
        return [_decoded_record(line) for line in _json_lines(path)] if path.exists() else None

    @functools.cached_property
    def committed_offsets(self) -> list[int] | None:
        path = self.expected / "expected.read_committed.jsonl"
        return [line["offset"] for line in _json_lines(path)] if path.exists() else None

    @functools.cached_property
    def batches(self) -> dict[str, list[dict[str, Any]]]:
        """File name -> its batches; without the lines that only say why Kafka's own reader stopped there."""
        found = {}
        for path in sorted(self.expected.glob("*.batches.jsonl")):
            name = path.name.removesuffix(".batches.jsonl")
            name += "" if name.endswith(".checkpoint") else ".log"
            found[name] = [line for line in _json_lines(path) if "iterationError" not in line]
        return found

    @property
    def is_gapless(self) -> bool:
        """True where every batch begins at the offset after the one before it: such a log reads in neighbour mode too."""
        following = None
        for name, batches in self.batches.items():
            if not name.endswith(".log"):
                continue
            following = int(name.removesuffix(".log")) if following is None else following
            for batch in batches:
                if batch["baseOffset"] != following or not batch["isValid"]:
                    return False
                following = batch["nextOffset"]
        return True

    @functools.cached_property
    def index_dumps(self) -> dict[str, IndexDump]:
        """File name -> dump, of every index file and producer snapshot that was dumped."""
        found: dict[str, IndexDump] = {}
        for path in sorted(self.expected.glob("*.indexes.dump.txt")):
            failed = _failed_files(path.with_name(path.name.removesuffix(".txt") + ".stderr.txt"))
            for name, lines in _dump_sections(path.read_text(encoding="utf-8")):
                found[name] = IndexDump(list(_dumped_entries(name, lines)), name not in failed)
        return found

    @functools.cached_property
    def leader_epochs(self) -> list[tuple[int, int]] | None:
        """(epoch, start offset) lines of leader-epoch-checkpoint, None without the file."""
        path = self.folder / "leader-epoch-checkpoint"
        if not path.exists():
            return None
        lines = path.read_text(encoding="ascii").splitlines()[2:]
        return [(int(epoch), int(offset)) for epoch, offset in (line.split() for line in lines)]

    @functools.cached_property
    def log_start_offset(self) -> int:
        """As the broker reported it; where nobody asked it, as after a kill, from its checkpoint."""
        if (told := self.case.get("logStartOffset")) is not None:
            return int(told)
        path = self.folder.parent / "log-start-offset-checkpoint"
        lines = path.read_text(encoding="utf-8").splitlines()[2:] if path.exists() else []
        offsets = {(topic, partition): int(offset) for topic, partition, offset in map(str.split, lines)}
        return offsets.get((self.topic, str(self.partition)), 0)

    def altered_logs(self) -> list[str]:
        """The .log files that are not the bytes that the expected files were made from."""
        logs = self.case.get("logs", {})
        return [name for name, facts in logs.items() if _digest(self.folder / name) != facts.get("sha256")]


@dataclass(frozen=True)
class ExpectedEra:
    """One log directory with its expected files."""

    folder: Path
    manifest: dict[str, Any]
    partitions: list[ExpectedPartition]

    @property
    def name(self) -> str:
        return self.folder.name

    def is_damaged(self, partition: ExpectedPartition) -> bool:
        """True where the damage done by hand is still in the files: no consumer was asked, and the manifest lists the topic."""
        return partition.topic in self.manifest.get("damage", {}) and partition.records is None


def read_eras(folder: Path) -> list[ExpectedEra]:
    """Every log directory of a golden folder that has expected files."""
    return [
        read_era(path.with_name(path.name.removesuffix(EXPECTED_SUFFIX)))
        for path in sorted(folder.iterdir())
        if path.name.endswith(EXPECTED_SUFFIX) and path.is_dir()
    ]


def read_era(folder: Path) -> ExpectedEra:
    expected = folder.with_name(folder.name + EXPECTED_SUFFIX)
    manifest_path = expected / "manifest.json"
    manifest = json.loads(manifest_path.read_text(encoding="utf-8")) if manifest_path.exists() else {}
    cases = {case["dir"]: case for case in manifest.get("cases", []) if "dir" in case}
    names = sorted({path.name for path in expected.iterdir() if path.is_dir()} | set(cases))
    partitions = [ExpectedPartition(folder / name, expected / name, cases.get(name, {})) for name in names]
    return ExpectedEra(folder, manifest, partitions)


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _decoded_record(line: dict[str, Any]) -> dict[str, Any]:
    """A line of expected.jsonl with our column names and values; fields that that release's API did not have are left out."""
    record: dict[str, Any] = {"offset": line["offset"], "key": _bytes(line.get("key")), "value": _bytes(line.get("value"))}
    if "timestamp" in line:
        record["timestamp_ms"] = record["timestamp"] = line["timestamp"]
    if "timestampType" in line:
        record["timestampType"] = TIMESTAMP_TYPES[line["timestampType"]]
    if "headers" in line:
        record["headers"] = [(key, _bytes(value)) for key, value in line["headers"]]
    if "leaderEpoch" in line:
        record["leader_epoch"] = -1 if line["leaderEpoch"] is None else line["leaderEpoch"]
    return record


def _dump_sections(text: str) -> Iterator[tuple[str, list[str]]]:
    for section in re.split(r"^Dumping ", text, flags=re.MULTILINE)[1:]:
        path, *lines = section.splitlines()
        yield path.rpartition("/")[2], lines


def _dumped_entries(name: str, lines: list[str]) -> Iterator[dict[str, int]]:
    kind = Path(name).suffix
    names = INDEX_FIELDS.get(kind, {})
    first = next(iter(names), "")
    for line in lines:
        if not line.startswith(f"{first}: "):
            continue
        fields = {names[field]: int(value) for field, value in FIELD.findall(line) if field in names}
        yield {**SNAPSHOT_ABSENT, **fields} if kind == ".snapshot" else fields


def _failed_files(path: Path) -> set[str]:
    """Names of the files on which the tool ended with an exception: their `## name` part has a line in brackets."""
    if not path.exists():
        return set()
    parts = re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {part.split("\n", 1)[0].strip() for part in parts if re.search(r"^\[", part, flags=re.MULTILINE)}


def _digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None
