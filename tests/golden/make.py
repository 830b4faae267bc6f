"""A golden set of a Kafka release: python -m tests.golden.make RELEASE FOLDER [SEED]

Starts a broker of that release out of Maven's jars, on loopback, lets that release's own clients write every topic of
`making/cases.py` and read it back, stops the broker, and asks Kafka's own tools about every file. FOLDER then holds
`RELEASE/`, the log directory as the broker left it, and `RELEASE-expected/`; `python -m tests.golden.compare FOLDER` compares
them with what kafkalog reads, `python -m tests.golden.sets pack FOLDER` packs them for the suite.

Any release from 2.5 on: before that Kafka's clients and jars were others. The sets of older releases in `data/` stay as they are.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.golden.expected import EXPECTED_SUFFIX
from tests.golden.making.cases import write_all
from tests.golden.making.describe import NoTool, Read, describe, manifest, release_numbers
from tests.golden.making.workload import Case, Workload
from tests.interop.kafka import NoPeer
from tests.interop.live import broker

FIRST_RELEASE = (2, 5)
DEFAULT_SEED = 1
CLIENT = Path(__file__).resolve().parent / "making" / "GoldenClient.java"
CLIENT_SECONDS = 900
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
# A cleaner and a retention that run at once, two partitions of everything internal, small KRaft snapshots.
SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.retention.ms": "-1",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.segment.delete.delay.ms": "200",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "metadata.max.idle.interval.ms": "0",
    "metadata.log.max.record.bytes.between.snapshots": "6000",
}
Reads = dict[tuple[str, str], Read]


class Failed(Exception):
    """The set cannot be made; the argument says why."""


def make(release: str, folder: Path, seed: int = DEFAULT_SEED) -> Path:
    """The log directory that was made, with its expected files next to it."""
    data, expected = folder / release, folder / f"{release}{EXPECTED_SUFFIX}"
    if data.exists() or expected.exists():
        raise Failed(f"there is a set of {release} in {folder} already")
    problem = broker.resolve_jars(release)
    if problem is not None:
        raise Failed(problem)
    work = write_all(release_numbers(release), seed)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="golden-") as place:
        scratch = Path(place)
        reads = _run(release, work, scratch, scratch / "read")
        written = scratch / "data"
        if not (written / CLEAN_SHUTDOWN).exists():
            raise Failed("the broker did not stop cleanly")
        _copy(written, scratch / "copy")
        _say("asking Kafka's tools")
        notes = describe(release, scratch / "copy", scratch / "read")
        _copy(written, data)
        shutil.copytree(scratch / "read", expected)
    cases = list(manifest(release, data, expected, work.cases, reads))
    described = {"era": release, "kafkaVersion": release, "seed": seed, "cases": cases, "notes": notes}
    (expected / "manifest.json").write_text(json.dumps(described, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return data


def _run(release: str, work: Workload, scratch: Path, expected: Path) -> Reads:
    """Write to a broker, phase by phase, and read everything at the end."""
    said = ""
    for number, phase in enumerate(work.phases, 1):
        _say(f"broker {release}, phase {number} of {len(work.phases)}: {len(phase)} operations")
        with broker.running_broker(scratch, SETTINGS, release=release) as running:
            _operate(release, running, phase, scratch)
            if phase is work.phases[-1]:
                said = _operate(release, running, _reading(work.cases, running.log_directory, expected), scratch)
    return _parsed(said)


def _operate(release: str, running: broker.Broker, operations: Sequence[str], scratch: Path) -> str:
    """The output of the client while it carries out the operations."""
    script = scratch / "script.txt"
    script.write_text("".join(f"{operation}\n" for operation in operations), encoding="utf-8")
    options = [*broker.SHORT_LIVED, "-Dfile.encoding=UTF-8", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    program = ["-cp", f"{broker.jars_of(release)}/*", str(CLIENT)]
    command = ["java", *options, *program, running.bootstrap, str(running.log_directory), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CLIENT_SECONDS, check=False)
    if done.returncode:
        raise Failed(f"a client failed: {done.stderr[-2000:]}")
    return done.stdout


def _reading(cases: dict[str, Case], log_directory: Path, expected: Path) -> list[str]:
    """Operations that consume every topic, transactional ones a second time as a read_committed consumer sees them."""
    found = []
    for topic, case in cases.items():
        for partition in range(case.partitions):
            name = f"{topic}-{partition}"
            if not (log_directory / name).is_dir():
                continue
            found.append(f"consume\t{topic}\t{partition}\tread_uncommitted\t{expected / name / 'expected.jsonl'}")
            if case.committed:
                target = expected / name / "expected.read_committed.jsonl"
                found.append(f"consume\t{topic}\t{partition}\tread_committed\t{target}")
    return found


def _parsed(said: str) -> Reads:
    rows = [line.split("\t") for line in said.splitlines()]
    return {(name, isolation): Read(int(start), int(end), int(count)) for name, isolation, start, end, count in rows}


def _copy(source: Path, target: Path) -> None:
    """A copy that others may read: KRaft makes its snapshots readable by their owner alone."""
    shutil.copytree(source, target)
    for path in target.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _say(text: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    if len(arguments) not in (2, 3):
        sys.stderr.write(f"{__doc__}")
        return 2
    release, folder = arguments[0], Path(arguments[1]).resolve()
    if release_numbers(release) < FIRST_RELEASE:
        sys.stderr.write(f"sets can be made of {'.'.join(map(str, FIRST_RELEASE))} and later releases, not of {release}\n")
        return 2
    try:
        made = make(release, folder, *map(int, arguments[2:]))
    except (Failed, NoTool, NoPeer) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    _say(f"made {made}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
