"""The write half against its peers: appending Arrow columns, compaction and conversion, single batches, recovery."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.data import Segment, codec_variant, sized_variant
from benchmarks.measure import ANSWER_TIMEOUT_SECONDS, REPOSITORY, Contestant, Result, RunFailed, WarmProcess, race
from benchmarks.report import Section, Table, Target

if TYPE_CHECKING:
    from benchmarks.experiments import Setup

CODECS = ("none", "lz4")
APPEND_FACTORS = {"none": 8.0, "lz4": 3.0}
DECODE_SHARE = 0.5
RECOVERY_FACTOR = 1.5
SINGLE_BATCHES = 20_000
JVM_WARM_UPS, JVM_WARM_UP_SECONDS = 5, 5.0
APPEND, BUILD, DECODE = "kafkalog append", "aiokafka's batch builder", "kafkalog decode"
COMPACT, CONVERT, CLEANER = "kafkalog compact", "kafkalog convert", "Kafka's Cleaner"
SINGLE, ENGINE = "kafkalog", "Kafka's engine"
RECOVER, VERIFY = "kafkalog recovery", "kafkalog verify"


def _worker(what: str, source: Path | str, work: Path, codec: str = "none") -> list[str]:
    return [sys.executable, "-m", "benchmarks.write_worker", what, str(source), str(work), "--codec", codec]


class Writers:
    """The contestants, each with a folder of its own below the benchmark's data."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.folder = setup.data.parent / "writing"

    def ours(self, name: str, what: str, source: Path | str, codec: str = "none") -> WarmProcess:
        return WarmProcess(name, _worker(what, source, self.folder / f"work-{what}-{codec}", codec), self.setup.core)

    def kafka(self, name: str, what: str, source: Path | str) -> WarmProcess:
        assert self.setup.jvm is not None
        command = self.setup.jvm.engine_command(what, str(source), self.folder / f"kafka-{what}")
        return WarmProcess(name, command, self.setup.core, JVM_WARM_UPS, JVM_WARM_UP_SECONDS)

    def made(self, what: str, source: Path | str, name: str, codec: str = "none") -> Path:
        """A log that is made once and kept."""
        folder = self.folder / name / "bench-0"
        if not (folder / ".complete").exists():
            _run(_worker(what, source, folder, codec))
            (folder / ".complete").touch()
        return folder

    def race(self, what: str, contestants: list[Contestant], rows: int | dict[str, int]) -> dict[str, Result]:
        self.setup.log(f"{what}: {', '.join(one.name for one in contestants)}")
        return race(contestants, self.setup.rounds, rows)


def _run(command: list[str]) -> str:
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=ANSWER_TIMEOUT_SECONDS)
    if done.returncode != 0:
        raise RunFailed(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    return done.stdout


def compare_append(setup: Setup) -> Section:
    """Arrow columns into a log, beside aiokafka's builder in memory and beside the way back."""
    section = Section(
        "Append",
        "Million records per second on one core: Arrow columns into the batches of a new log, files and all; aiokafka's builder "
        "makes the same batches in memory; decode reads what kafkalog's append writes.",
    )
    writers = Writers(setup)
    source = setup.segment(codec_variant(2, "none", setup.records))
    rows = []
    for codec in CODECS:
        decoded = setup.segment(codec_variant(2, codec, setup.records))
        contestants: list[Contestant] = [writers.ours(APPEND, "append", source.path.parent, codec)]
        if "aiokafka" in setup.python_peers:
            contestants.append(writers.ours(BUILD, "build", source.path.parent, codec))
        contestants.append(setup.kafkalog(DECODE, decoded))
        found = writers.race(f"append, {codec}", contestants, source.records)
        speed = {name: result.million_rows_per_second for name, result in found.items()}
        rows.append([codec, *(f"{speed[name]:.2f}" if name in speed else "" for name in (APPEND, BUILD, DECODE))])
        if BUILD in speed:
            section.targets.append(
                Target(f"append, {codec}: against aiokafka's builder", speed[APPEND] / speed[BUILD], APPEND_FACTORS[codec], "x")
            )
        section.targets.append(Target(f"append, {codec}: against decode", speed[APPEND] / speed[DECODE], DECODE_SHARE, "x"))
    section.tables = [Table(["M records/s", APPEND, BUILD, DECODE], rows)]
    return section


def compare_cleaners(setup: Setup) -> Section:
    """Compaction of a log with ten records per key, and conversion of v1 messages, against Kafka's own cleaner."""
    section = Section(
        "Compact and convert",
        "Seconds on one core. Compact: a dirty log with 100,000 keys, in segments of 64 MiB; both cleaners keep the same number "
        "of records. Convert: a log of v1 messages, which Kafka's cleaner turns into v2 too; nearly every key is there once.",
    )
    if setup.jvm is None:
        section.explanation = "Left out: there is no cleaner of Kafka's to compare with."
        return section
    writers = Writers(setup)
    rows = []
    for codec in CODECS:
        source = setup.segment(codec_variant(2, "none", setup.records)).path.parent
        dirty = writers.made("dirty", source, f"dirty-{codec}", codec)
        old = setup.segment(codec_variant(1, codec, setup.records))
        for name, what, folder in ((COMPACT, "compact", dirty), (CONVERT, "convert", old.path.parent)):
            contestants: list[Contestant] = [writers.ours(name, what, folder, codec), writers.kafka(CLEANER, "clean", folder)]
            kept = _kept(writers, dirty) if what == "compact" else {name: old.records, CLEANER: _kept(writers, old.path.parent)}
            found = writers.race(f"{what}, {codec}", contestants, kept)
            ratio = found[CLEANER].seconds / found[name].seconds
            rows.append([f"{what}, {codec}", f"{found[name].seconds:.2f}", f"{found[CLEANER].seconds:.2f}", f"{ratio:.2f} x"])
            section.targets.append(Target(f"{what}, {codec}: against Kafka's Cleaner", ratio, 1.0, "x"))
    section.tables = [Table(["", "kafkalog", CLEANER, "faster by"], rows)]
    return section


def _kept(writers: Writers, folder: Path) -> int:
    """How many records compaction leaves of a log."""
    return int(json.loads(_run([*_worker("compact", folder, writers.folder / "work-kept"), "--peak-memory"]))["rows"])


def compare_single_batches(setup: Setup) -> Section:
    """The price of one call."""
    section = Section(
        "Batches of one record",
        f"{SINGLE_BATCHES:,} batches of one record of an idempotent producer, one call each, on one core: analysis, validation, "
        "producer state, one write to the file. kafkalog's figure is the price of so much Python; the disk takes no part in it.",
    )
    writers = Writers(setup)
    contestants: list[Contestant] = [writers.ours(SINGLE, "single", str(SINGLE_BATCHES))]
    if setup.jvm is not None:
        contestants.append(writers.kafka(ENGINE, "append", str(SINGLE_BATCHES)))
    found = writers.race("single batches", contestants, SINGLE_BATCHES)
    rows = [[name, f"{1e6 * result.seconds / SINGLE_BATCHES:.1f}"] for name, result in found.items()]
    section.tables = [Table(["", "microseconds per batch"], rows)]
    return section


def compare_recovery(setup: Setup) -> Section:
    """A log opened as after a crash, against verify; and what compaction takes of memory."""
    large: Segment = setup.segment(sized_variant(setup.mebibytes[1]))
    writers = Writers(setup)
    contestants: list[Contestant] = [
        writers.ours(RECOVER, "recover", large.path.parent),
        writers.ours(VERIFY, "verify", large.path.parent),
    ]
    found = writers.race("recovery", contestants, large.records)
    ratio = found[RECOVER].seconds / found[VERIFY].seconds
    keys = writers.made("keys", "-", "keys")
    peak = json.loads(_run([*_worker("compact", keys, writers.folder / "work-keys"), "--peak-memory"]))
    few = writers.made("dirty", setup.segment(codec_variant(2, "none", setup.records)).path.parent, "dirty-none")
    base = json.loads(_run([*_worker("compact", few, writers.folder / "work-keys"), "--peak-memory"]))
    size = f"{setup.mebibytes[1]} MiB"
    peaks = {"10,000,000 keys": peak, "100,000 keys": base}
    tables = [
        Table(["", "seconds"], [[f"{name}, {size}", f"{result.seconds:.2f}"] for name, result in found.items()]),
        Table(
            ["compaction, its map at most 256 MiB", "records kept", "peak MB"],
            [[name, f"{one['rows']:,}", f"{one['bytes'] / 1e6:.0f}"] for name, one in peaks.items()],
        ),
    ]
    targets = [Target(f"recovery of {size}: time over verify", ratio, RECOVERY_FACTOR, "x", at_least=False)]
    text = "Recovery opens the log as after a crash: every checksum, all indexes made anew. One core; peaks of fresh processes."
    return Section("Recovery and memory", text, tables, targets)
