"""The write half against its peers: appending Arrow columns, conversion, single batches, recovery. Compaction: compaction.py."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from benchmarks.compaction import MAP_BYTES, SEGMENT_BYTES
from benchmarks.data import Segment, codec_variant, sized_variant
from benchmarks.measure import Contestant, Result, WarmProcess, race
from benchmarks.report import Section, Table, Target

if TYPE_CHECKING:
    from benchmarks.experiments import Setup

CODECS = ("none", "lz4")
APPEND_FACTORS = {"none": 8.0, "lz4": 3.0}
DECODE_SHARE = 0.5
RECOVERY_FACTOR = 1.5
SINGLE_BATCHES = 20_000
JVM_WARM_UPS, JVM_WARM_UP_SECONDS = 5, 5.0
APPEND, ENCODE, BUILD, DECODE = "kafkalog append", "kafkalog in memory", "aiokafka's batch builder", "kafkalog decode"
COPY, FLOOR = "kafkalog, bytes", "the floor"
CONVERT, CLEANER = "kafkalog convert", "Kafka's Cleaner"
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

    def kafka(self, name: str, command: list[str]) -> WarmProcess:
        return WarmProcess(name, command, self.setup.core, JVM_WARM_UPS, JVM_WARM_UP_SECONDS)

    def as_log_directory(self, segment: Segment) -> Path:
        """The segment as partition t-0 of a log directory."""
        folder = self.folder / segment.variant / "t-0"
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / segment.path.name).exists():
            os.link(segment.path, folder / segment.path.name)
        return folder.parent

    @staticmethod
    def distinct_keys(segment: Segment) -> int:
        import kafkalog

        keys = kafkalog.open(str(segment.path.parent)).read("records", ["key"]).read_all().column("key")
        return int(pc.count_distinct(keys).as_py())

    def race(self, what: str, contestants: list[Contestant], rows: int | dict[str, int]) -> dict[str, Result]:
        self.setup.log(f"{what}: {', '.join(one.name for one in contestants)}")
        return race(contestants, self.setup.rounds, rows)


def compare_append(setup: Setup) -> Section:
    """Arrow columns into batches, in memory as aiokafka's builder makes them, and into a log; next to reading them back."""
    section = Section(
        "Append",
        "Million records per second on one core. In memory: Arrow columns into finished v2 batches, as append makes them, a "
        "megabyte at a time (`encode_runs`); bytes: each of them copied into a `bytes` that stays (`encode_batches`). aiokafka's "
        "builder makes the same batches from Python objects, each in a bytearray. Append: into the files of a new log, offset "
        "and time index included. Decode reads what append wrote. The floor is the least that storing these batches "
        "can cost: for none, a plain write of the finished bytes to a new file; for lz4, the compressor alone, called on the "
        "records of each batch.",
    )
    writers = Writers(setup)
    source = setup.segment(codec_variant(2, "none", setup.records))
    names = (ENCODE, COPY, BUILD, APPEND, DECODE, FLOOR)
    rows, ratios = [], []
    for codec in CODECS:
        decoded = setup.segment(codec_variant(2, codec, setup.records))
        contestants: list[Contestant] = [
            writers.ours(name, what, source.path.parent, codec) for name, what in _append_workers(setup).items()
        ]
        contestants.append(setup.kafkalog(DECODE, decoded))
        found = writers.race(f"append, {codec}", contestants, source.records)
        speed = {name: result.million_rows_per_second for name, result in found.items()}
        rows.append([codec, *(f"{speed[name]:.2f}" if name in speed else "" for name in names)])
        if BUILD in speed:
            ratios.append([codec, *(f"{speed[name] / speed[BUILD]:.1f} x" for name in (ENCODE, COPY, APPEND))])
        section.targets += _append_targets(codec, speed)
    section.tables = [Table(["M records/s", *names], rows), Table([f"against {BUILD}", ENCODE, COPY, APPEND], ratios)]
    return section


def _append_workers(setup: Setup) -> dict[str, str]:
    workers = {ENCODE: "encode", COPY: "copy", APPEND: "append", FLOOR: "floor"}
    return workers | {BUILD: "build"} if "aiokafka" in setup.python_peers else workers


def _append_targets(codec: str, speed: dict[str, float]) -> list[Target]:
    """Batches in memory are like against like; files are what `append` writes."""
    targets = [Target(f"append, {codec}: against decode", speed[APPEND] / speed[DECODE], DECODE_SHARE, "x")]
    if BUILD in speed:
        kinds = {ENCODE: "batches in memory", COPY: "batches as bytes", APPEND: "append into files"}
        targets += [
            Target(f"{kind}, {codec}: against aiokafka's builder", speed[name] / speed[BUILD], APPEND_FACTORS[codec], "x")
            for name, kind in kinds.items()
        ]
    return targets


def compare_conversion(setup: Setup) -> Section:
    """v1 messages to v2, against Kafka's own cleaner, which converts the entries it copies."""
    section = Section(
        "Convert",
        "Seconds on one core: a log of v1 messages into v2. Kafka's Cleaner does the same to a log in which nearly every key is "
        "there once; ours also puts the new folder in its place.",
    )
    if setup.jvm is None:
        section.explanation = "Left out: there is no cleaner of Kafka's to compare with."
        return section
    writers = Writers(setup)
    rows = []
    for codec in CODECS:
        old = setup.segment(codec_variant(1, codec, setup.records))
        directory = writers.as_log_directory(old)
        clean = setup.jvm.clean_command(directory, writers.folder / "kafka-convert", MAP_BYTES, SEGMENT_BYTES)
        contestants: list[Contestant] = [writers.ours(CONVERT, "convert", old.path.parent, codec), writers.kafka(CLEANER, clean)]
        kept = {CONVERT: old.records, CLEANER: writers.distinct_keys(old)}
        found = writers.race(f"convert, {codec}", contestants, kept)
        ratio = found[CLEANER].seconds / found[CONVERT].seconds
        rows.append([codec, f"{found[CONVERT].seconds:.2f}", f"{found[CLEANER].seconds:.2f}", f"{ratio:.2f} x"])
        section.targets.append(Target(f"convert, {codec}: against Kafka's Cleaner", ratio, 1.0, "x"))
    section.tables = [Table(["seconds", CONVERT, CLEANER, "faster by"], rows)]
    return section


def compare_single_batches(setup: Setup) -> Section:
    """The price of one call."""
    section = Section(
        "Batches of one record",
        f"{SINGLE_BATCHES:,} batches of one record of an idempotent producer, one call each, on one core: analysis, validation, "
        "producer state, one write to the file. kafkalog's figure is the cost of that much Python; the disk is not involved.",
    )
    writers = Writers(setup)
    contestants: list[Contestant] = [writers.ours(SINGLE, "single", str(SINGLE_BATCHES))]
    if setup.jvm is not None:
        contestants.append(writers.kafka(ENGINE, setup.jvm.append_command(SINGLE_BATCHES, writers.folder / "kafka-append")))
    found = writers.race("single batches", contestants, SINGLE_BATCHES)
    rows = [[name, f"{1e6 * result.seconds / SINGLE_BATCHES:.1f}"] for name, result in found.items()]
    section.tables = [Table(["", "microseconds per batch"], rows)]
    return section


def compare_recovery(setup: Setup) -> Section:
    """A log opened as after a crash, against verify."""
    large: Segment = setup.segment(sized_variant(setup.mebibytes[1]))
    writers = Writers(setup)
    contestants: list[Contestant] = [
        writers.ours(RECOVER, "recover", large.path.parent),
        writers.ours(VERIFY, "verify", large.path.parent),
    ]
    found = writers.race("recovery", contestants, large.records)
    ratio = found[RECOVER].seconds / found[VERIFY].seconds
    size = f"{setup.mebibytes[1]} MiB"
    table = Table(["", "seconds"], [[f"{name}, {size}", f"{result.seconds:.2f}"] for name, result in found.items()])
    targets = [Target(f"recovery of {size}: time over verify", ratio, RECOVERY_FACTOR, "x", at_least=False)]
    text = "Recovery opens the log as after a crash: every checksum, all indexes rebuilt. One core."
    return Section("Recovery", text, [table], targets)
