"""The output of Kafka's own tools and record classes for a log directory, in the files that `tests/golden/expected.py` reads."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.golden.making.workload import Case
from tests.interop.kafka import NEWEST, KafkaPeer
from tests.interop.live import broker
from tests.interop.tools import kafka_tools
from tests.interop.tools.kafka_tools import DumpTool, Said

INDEXES = ("index", "timeindex", "txnindex", "snapshot")
ENTRIES = ("log", "checkpoint")  # files of batches
DEEP = ("--deep-iteration",)
DECODERS = {
    "__consumer_offsets": ("offsets-decoder", DEEP),
    "__transaction_state": ("transaction-log-decoder", DEEP),
    "__cluster_metadata": ("cluster-metadata-decoder", ()),
}
SCALA_TOOL = "kafka.tools.DumpLogSegments"
METADATA = "__cluster_metadata"


@dataclass(frozen=True)
class Read:
    """A consumer's view: where the partition starts and ends for it, and the number of records between."""

    start_offset: int
    end_offset: int
    count: int


Reads = Mapping[tuple[str, str], Read]  # by partition folder and isolation level


class NoTool(Exception):
    """Kafka's tool is not available; the argument says why."""


def release_numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def open_tool(release: str, folder: Path) -> DumpTool:
    """That release's DumpLogSegments: in the broker's own jar while it was written in Scala, then in Kafka's tools."""
    jars = broker.jars_of(release)
    (core,) = jars.glob("kafka_2.*[0-9].jar")
    with zipfile.ZipFile(core) as archive:
        if SCALA_TOOL.replace(".", "/") + ".class" in archive.namelist():
            return DumpTool(jars, SCALA_TOOL, folder)
    problem = kafka_tools.resolve_jars(release)
    if problem is not None:
        raise NoTool(problem)
    return DumpTool(kafka_tools.jars_of(release), folder=folder)


def describe(release: str, copy: Path, expected: Path) -> list[str]:
    """Write dumps and batches of every file below `copy`, which the tool may change, to `expected`; the files that it died of."""
    newest = max(release, NEWEST, key=release_numbers)
    notes: list[str] = []
    with open_tool(release, copy) as tool, KafkaPeer(newest) as peer:
        for folder in sorted(path for path in copy.iterdir() if path.is_dir()):
            target = expected / folder.name
            target.mkdir(parents=True, exist_ok=True)
            for path in sorted(folder.iterdir()):
                if path.suffix[1:] in ENTRIES:
                    name = path.name.removesuffix(".log")
                    (target / f"{name}.batches.jsonl").write_text(peer.describe_batches(path), encoding="utf-8")
            dumps = _Dumps(tool, copy, target, notes)
            for path in sorted(folder.iterdir()):
                dumps.entries(path)
            for number in sorted({path.stem for path in folder.iterdir() if path.suffix[1:] in INDEXES}):
                dumps.indexes(folder, number)
    return notes


@dataclass(frozen=True)
class _Dumps:
    """The dumps of one partition folder."""

    tool: DumpTool
    root: Path
    target: Path
    notes: list[str]

    def entries(self, path: Path) -> None:
        if path.suffix[1:] not in ENTRIES:
            return
        topic = path.parent.name.rpartition("-")[0]
        contents = () if topic == METADATA else ("--print-data-log",)
        self._write(f"{path.name}.dump", self._ask(path, *DEEP, *contents))
        if topic in DECODERS:
            decoder, options = DECODERS[topic]
            self._write(f"{path.name}.dump-{decoder}", self._ask(path, *options, f"--{decoder}"))

    def indexes(self, folder: Path, number: str) -> None:
        """The files of one number, one after the other in one file."""
        stdout, stderr = b"", b""
        for path in (folder / f"{number}.{kind}" for kind in INDEXES):
            if path.exists():
                said = self._ask(path)
                stdout += said.stdout
                stderr += f"## {path.name}\n".encode() + said.stderr if said.stderr else b""
        self._write(f"{number}.indexes.dump", Said(stdout, stderr, ""))

    def _ask(self, path: Path, *options: str) -> Said:
        """The tool's output, without the folder in its paths; the exception that it died of is the last line, in brackets."""
        name = str(path.relative_to(self.root))
        said = self.tool.dump("--files", name, *options)
        stdout, stderr = (text.replace(f"{self.root.resolve()}/".encode(), b"") for text in (said.stdout, said.stderr))
        if said.death:
            self.notes.append(f"DumpLogSegments {name} {' '.join(options)}: {said.death}")
            stderr += f"[uncaught {said.death}]\n".encode()
        return Said(stdout, stderr, "")

    def _write(self, name: str, said: Said) -> None:
        (self.target / f"{name}.txt").write_bytes(said.stdout)
        if said.stderr:
            (self.target / f"{name}.stderr.txt").write_bytes(said.stderr)


def manifest(release: str, data: Path, expected: Path, cases: Mapping[str, Case], reads: Reads) -> Iterator[dict[str, Any]]:
    """One entry for every partition folder."""
    for folder in sorted(path for path in data.iterdir() if path.is_dir()):
        topic, _, partition = folder.name.rpartition("-")
        case = cases.get(topic, Case(("KRaft metadata log" if topic == METADATA else "internal topic",)))
        logs = sorted(folder.glob("*.log"))
        entry = {
            "case": topic,
            "partition": int(partition),
            "dir": folder.name,
            "features": list(case.features),
            "topicConfig": dict(case.settings),
            "segments": len(logs),
            "logs": {path.name: {"size": path.stat().st_size, "sha256": _digest(path)} for path in logs},
        }
        yield entry | _counts(expected / folder.name) | _offsets(folder.name, reads)


def _counts(expected: Path) -> dict[str, Any]:
    """How many batches of each kind the segments hold."""
    batches = [
        batch
        for path in sorted(expected.glob("*.batches.jsonl"))
        if not path.name.endswith(".checkpoint.batches.jsonl")
        for batch in map(json.loads, path.read_text(encoding="utf-8").splitlines())
        if "magic" in batch
    ]
    counts = {
        "emptyBatches": sum(batch["countOrNull"] == 0 for batch in batches),
        "controlBatches": sum(batch["isControl"] for batch in batches),
        "deleteHorizonBatches": sum(batch["deleteHorizonMs"] is not None for batch in batches),
    }
    return {
        "batches": len(batches),
        "magic": dict(Counter(str(batch["magic"]) for batch in batches)),
        "compression": dict(Counter(batch["compression"] for batch in batches)),
        **{name: count for name, count in counts.items() if count},
    }


def _offsets(folder: str, reads: Reads) -> dict[str, int]:
    found: dict[str, int] = {}
    if (read := reads.get((folder, "read_uncommitted"))) is not None:
        found |= {"logStartOffset": read.start_offset, "logEndOffset": read.end_offset, "records": read.count}
    if (read := reads.get((folder, "read_committed"))) is not None:
        found |= {"lastStableOffset": read.end_offset, "recordsReadCommitted": read.count}
    return found


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
