"""`python -m benchmarks.spark`: kafkalog in Spark against Spark's own Kafka source on a local broker, and against Parquet.

Writes docs/benchmarks-spark.md. Needs Java, Maven, and about 4 GB below build/.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import page, spark_data
from benchmarks.data import RECORDS_PER_BATCH, Segment, Variant, ensure_segment, sized_variant
from benchmarks.jvm import Jvm, find_jvm
from benchmarks.measure import REPOSITORY, Result, RunFailed, WarmProcess, race
from benchmarks.report import Section, Table, Target
from benchmarks.spark_data import Topic
from kafkalog.spark.ingestion.ingest_options import TABLE_FORMATS
from tests.campaigns.lake_readers import SPARKS, jars_of, python_of
from tests.interop.live.broker import Broker
from tests.spark.kafka_source import connector_jars, resolve_connector

CODECS = ("none", "lz4", "zstd")
PARTITIONS = 4
# A count from headers is over in a few hundred milliseconds, nearly all of them Spark's own: more records, as more partitions.
COUNTED_PARTITIONS = 16
WARM_UP_SECONDS = 25.0
# About as long as a scan of the slowest contestant, or the others would only be seen while they get going again.
TURN_SECONDS = 5.0
LONGEST_REST_SECONDS = 30.0  # Spark ends Python workers that were idle for a minute
GIBIBYTES = (1, 2, 4, 8)
SEGMENT_COUNTS = (100, 1_000, 10_000)
BOTH_CORES = "local[2]"
KAFKA, KAFKALOG, FAST = "Spark's Kafka source", "kafkalog", "kafkalog, read_fast"
PARQUET, ONE_CORE = "Spark's Parquet reader", "kafkalog, one core"
WRITE_KAFKA, INGEST = "Kafka source, Spark's writer", "kafkalog ingest"
WRITE_DELTA, WRITE_ICEBERG = "Kafka source, Delta's writer", "Kafka source, Iceberg's writer"
# Iceberg has no connector for a newer Spark; its writer runs in an environment of its own.
ICEBERG_SPARK_CONNECTOR = "4.1.0"
EARLIER_RUNS = 1_000
COUNT_KAFKA, COUNT_BATCHES = "count() of Spark's Kafka source", "sum(record_count) of kafkalog's batches"
PLAN = """
import json, sys
from benchmarks.worker import peak_memory_bytes
from kafkalog.spark.options import parse_options
from kafkalog.spark.read_plan import plan_splits
splits = plan_splits(parse_options({"path": sys.argv[1]}), 2)
print(json.dumps({"splits": len(splits), "bytes": peak_memory_bytes()}))
"""


@dataclass(frozen=True)
class Setup:
    """State that the experiments share."""

    work: Path
    rounds: int
    warm_up_seconds: float
    turn_seconds: float
    segments: dict[str, Segment]
    topics: dict[str, Topic]
    counted: dict[str, Topic]
    broker: Broker

    def folder(self, topic: Topic) -> Path:
        """The broker's files of one topic."""
        return spark_data.topic_folder(self.broker, topic, self.work / "topics" / topic.name)

    def contestant(
        self, name: str, source: str, query: str, place: str | Path, *extra: str, core: int | None = None
    ) -> WarmProcess:
        master = BOTH_CORES if core is None else "local[1]"
        command = [sys.executable, "-m", "benchmarks.spark_worker", master, source, query, str(place), *extra]
        return self._warm(name, command, core)

    def _warm(self, name: str, command: Sequence[str], core: int | None = None) -> WarmProcess:
        return WarmProcess(
            name,
            command,
            core,
            warm_up_seconds=self.warm_up_seconds,
            longest_rest_seconds=LONGEST_REST_SECONDS,
            turn_seconds=self.turn_seconds,
        )

    def kafka(self, name: str, query: str, topic: Topic, *extra: str) -> WarmProcess:
        return self.contestant(name, "kafka", query, topic.name, "--bootstrap", self.broker.bootstrap, *extra)

    def iceberg_writer(self, name: str, topic: Topic, warehouse: Path) -> WarmProcess:
        """Iceberg's own writer after Spark's Kafka source."""
        if (problem := resolve_connector(ICEBERG_SPARK_CONNECTOR)) is not None:
            raise RunFailed(problem)
        own = [path for path in jars_of("iceberg").glob("*.jar") if path.name.startswith("iceberg-spark-runtime")]
        jars = map(str, [*connector_jars(ICEBERG_SPARK_CONNECTOR), *own])
        worker = REPOSITORY / "benchmarks" / "iceberg_worker.py"
        command = [str(python_of("iceberg")), str(worker), self.broker.bootstrap, topic.name, str(warehouse), *jars]
        return self._warm(name, command)

    def race(self, topic: Topic, contestants: Sequence[WarmProcess]) -> dict[str, Result]:
        """Results of contestants that must all find every record of a topic."""
        _log(f"{topic.name}, {topic.records:,} records: {', '.join(one.name for one in contestants)}")
        results = race(contestants, self.rounds, topic.records)
        _log("; ".join(f"{name} {result.seconds:.2f} s" for name, result in results.items()))
        return results


def write_parquet(setup: Setup) -> Section:
    """To Parquet. Keeps the output of Spark's writer for each topic, for the race of the readers."""
    results: dict[str, dict[str, Result]] = {}
    sizes = []
    for codec, topic in setup.topics.items():
        written, ingested = setup.work / "parquet" / codec, setup.work / "ingested" / codec
        contestants = [
            setup.kafka(WRITE_KAFKA, "write-parquet", topic, "--target", str(written)),
            setup.contestant(INGEST, "kafkalog", "ingest", setup.folder(topic), "--target", str(ingested)),
        ]
        results[codec] = setup.race(topic, contestants)
        sizes.append(f"{codec}: {spark_data.parquet_bytes(ingested) >> 20} and {spark_data.parquet_bytes(written) >> 20} MiB")
    targets = [
        Target(f"{codec}: ingest against Kafka to Parquet", _ratio(found, WRITE_KAFKA, INGEST), 8.0, "x")
        for codec, found in results.items()
    ]
    text = (
        "The seven columns into Parquet files, with the defaults of both: Spark's writer uses snappy, ingest zstd at its fast "
        "level -7. Each pass writes into a new folder, and everything is on the disk before the next one begins. "
        f"Sizes of ingest's files and of Spark's: {'; '.join(sizes)}."
    )
    return Section("To Parquet", text, [_speeds(results)], targets)


def write_lake(setup: Setup) -> Section:
    """Into tables of a lake: ingest's formats against each other, and against the formats' own writers."""
    results = {}
    for codec, topic in setup.topics.items():
        work, folder = setup.work / "lake" / codec, setup.folder(topic)
        contestants = [
            setup.kafka(WRITE_DELTA, "write-delta", topic, "--target", str(work / "kafka-delta")),
            setup.iceberg_writer(WRITE_ICEBERG, topic, work / "kafka-iceberg"),
        ]
        for name in TABLE_FORMATS:
            extra = ("--target", str(work / name), "--table-format", name)
            contestants.append(setup.contestant(f"{INGEST} --as {name}", "kafkalog", "ingest", folder, *extra))
        results[codec] = setup.race(topic, contestants)
    targets = []
    for codec, found in results.items():
        plain = f"{INGEST} --as parquet"
        for name in ("iceberg", "delta"):
            ratio = found[f"{INGEST} --as {name}"].seconds / found[plain].seconds
            targets.append(Target(f"{codec}: ingest into {name}, time over Parquet", ratio, 1.15, "x", at_least=False))
        for name, writer in (("iceberg", WRITE_ICEBERG), ("delta", WRITE_DELTA)):
            against_kafka = _ratio(found, writer, f"{INGEST} --as {name}")
            targets.append(Target(f"{codec}: ingest against Kafka to {name.title()}", against_kafka, 6.0, "x"))
    text = (
        "The seven columns into a table of a lake; each pass makes a new one, its first commit included. Delta's writer is that "
        f"of Delta 4.4.0 in Spark {SPARKS['delta']}, Iceberg's that of Iceberg 1.12.0 in Spark {SPARKS['iceberg']}, each after "
        "the Kafka source of its Spark."
    )
    return Section("To Iceberg and Delta", text, [_speeds(results)], targets)


def commits(setup: Setup) -> Section:
    """How long one more commit takes after many; without a broker or Spark."""
    rows, targets = [], []
    for table_format in ("iceberg", "delta"):
        command = [sys.executable, "-m", "benchmarks.commits", table_format, str(EARLIER_RUNS)]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
        found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        for each in found:
            times = [each[what][clock] for what in ("commit", "run") for clock in ("clock", "processor")]
            rows.append([table_format, f"{each['earlier']:,}", *(f"{milliseconds:.0f}" for milliseconds in times)])
        ratio = found[-1]["run"]["clock"] / found[0]["run"]["clock"]
        targets.append(Target(f"{table_format}: a run after 1,000 over a run after 10", ratio, 1.5, "x", at_least=False))
    text = "Runs without Spark of one record each, into one table; medians of twenty."
    heads = ["format", "earlier runs", "commit ms", "its processor ms", "run ms", "its processor ms"]
    return Section("Commits", text, [Table(heads, rows)], targets)


def scan(setup: Setup) -> Section:
    results = {}
    for codec, topic in setup.topics.items():
        folder = setup.folder(topic)
        contestants = [
            setup.kafka(KAFKA, "scan", topic),
            setup.contestant(KAFKALOG, "kafkalog", "scan", folder),
            setup.contestant(FAST, "kafkalog", "scan-fast", folder),
            setup.contestant(PARQUET, "parquet", "scan", setup.work / "parquet" / codec),
            setup.contestant(ONE_CORE, "kafkalog", "scan", folder, core=max(os.sched_getaffinity(0))),
        ]
        results[codec] = setup.race(topic, contestants)
    targets = []
    for codec, found in results.items():
        targets += [
            Target(f"{codec}: scan against Spark's Kafka source", _ratio(found, KAFKA, KAFKALOG), 4.5, "x"),
            Target(f"{codec}: read_fast against Spark's Kafka source", _ratio(found, KAFKA, FAST), 4.5, "x"),
            Target(f"{codec}: scan against Spark reading Parquet", _ratio(found, PARQUET, KAFKALOG), 0.8, "x"),
            Target(f"{codec}: two cores against one", _ratio(found, ONE_CORE, KAFKALOG), 1.7, "x"),
        ]
    text = (
        "The seven columns to `noop`, through `spark.read.format(…)` unless it says `read_fast`. Each contestant has a session "
        "of its own; the one on one core is pinned to it, JVM and all. Parquet is what Spark's writer made of the topic."
    )
    return Section("Full scan", text, [_speeds(results)], targets)


def count(setup: Setup) -> Section:
    results = {}
    for codec, topic in setup.counted.items():
        contestants = [
            setup.kafka(COUNT_KAFKA, "count", topic),
            setup.contestant(COUNT_BATCHES, "kafkalog", "count-batches", setup.folder(topic)),
        ]
        results[codec] = setup.race(topic, contestants)
    targets = [
        Target(f"{codec}: count from batches", _ratio(found, COUNT_KAFKA, COUNT_BATCHES), 50.0, "x")
        for codec, found in results.items()
    ]
    records = next(iter(setup.counted.values())).records
    text = (
        f"How many of {records:,} records there are: the same segments as {COUNTED_PARTITIONS} partitions. Counting from headers "
        "(`checkCrcs=false`) takes 7 ms of a core for a million records, so on a small log Spark's own fixed time is all that "
        "one would see."
    )
    return Section("Count", text, [_speeds(results)], targets)


def growth(setup: Setup) -> Section:
    """Scans of 1 to 8 GiB: one segment of 1 GiB as several partitions."""
    segment = setup.segments["large"]
    seconds = {}
    for gibibytes in GIBIBYTES:
        folder = spark_data.link_partitions(setup.work / "growth", segment.path.parent, gibibytes)
        found = race([setup.contestant(KAFKALOG, "kafkalog", "scan", folder)], 2, segment.records * gibibytes)
        seconds[gibibytes] = found[KAFKALOG].seconds
        _log(f"{gibibytes} GiB: {seconds[gibibytes]:.2f} s")
    rows = [[f"{size} GiB", f"{taken:.2f}", f"{taken / size:.2f}"] for size, taken in seconds.items()]
    first, last = GIBIBYTES[0], GIBIBYTES[-1]
    ratio = seconds[last] / last / (seconds[first] / first)
    target = Target(f"seconds per GiB, {last} over {first} GiB", ratio, 1.1, "x", at_least=False)
    return Section("Growth", "kafkalog's scan, uncompressed.", [Table(["log", "seconds", "per GiB"], rows)], [target])


def planning(setup: Setup) -> Section:
    """The most memory that planning holds on the driver."""
    peaks, rows = {}, []
    for segments in SEGMENT_COUNTS:
        folder = spark_data.many_segments(setup.work / "segments", setup.segments["small"], segments)
        command = [sys.executable, "-c", PLAN, str(folder)]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=True)
        found = json.loads(done.stdout)
        peaks[segments] = found["bytes"]
        rows.append([f"{segments:,}", str(found["splits"]), f"{found['bytes'] / 1e6:.0f}"])
    ratio = peaks[SEGMENT_COUNTS[-1]] / peaks[SEGMENT_COUNTS[0]]
    target = Target("planning 10,000 segments over 100, memory", ratio, 1.5, "x", at_least=False)
    table = Table(["segments", "splits", "peak MB"], rows)
    return Section("Driver memory", "The process that plans; splits and all.", [table], [target])


EXPERIMENTS = {
    "parquet": write_parquet,
    "lake": write_lake,
    "commits": commits,
    "scan": scan,
    "count": count,
    "growth": growth,
    "planning": planning,
}


def _ratio(results: dict[str, Result], slow: str, fast: str) -> float:
    return results[slow].seconds / results[fast].seconds


def _speeds(results: dict[str, dict[str, Result]]) -> Table:
    names = list(dict.fromkeys(name for found in results.values() for name in found))
    rows = []
    for name in names:
        cells = [found[name] for found in results.values() if name in found]
        rows.append([name, *(f"{one.seconds:.2f} s, {one.million_rows_per_second:.2f}" for one in cells)])
    return Table(["seconds, M records/s", *results], rows)


def _segments(arguments: argparse.Namespace, jvm: Jvm) -> dict[str, Segment]:
    share = arguments.records // PARTITIONS
    variants = {codec: Variant(f"spark-{codec}", 2, codec, record_count=share) for codec in arguments.codecs}
    if "growth" in arguments.only:
        variants["large"] = sized_variant(64 if arguments.quick else 1024)
    variants["small"] = Variant("small", 2, "none", record_count=RECORDS_PER_BATCH)
    return {name: ensure_segment(variant, arguments.data, jvm) for name, variant in variants.items()}


def render(sections: Sequence[Section], command: str, records: int, notices: Sequence[str], jvm: Jvm) -> str:
    targets = [target for section in sections for target in section.targets]
    parts = [
        "# Benchmarks in Spark",
        f"Generated by `{command}` on {datetime.now(UTC):%Y-%m-%d}; do not edit. {records:,} records with a key of 10 bytes and "
        f"a JSON value of about 170, every third with a header, in {PARTITIONS} partitions. A Kafka broker on the same machine "
        "opened the segments as its own and serves them to Spark's Kafka source; kafkalog reads that broker's files. "
        f"`local[2]`, each contestant in a session of its own, warmed up for {WARM_UP_SECONDS:.0f} seconds or two passes, "
        "whichever takes longer, then taking turns, after a rest of half a minute with a pass first that does not count (Spark "
        "ends Python workers that were idle for a minute); "
        f"a turn is as many passes as fill {TURN_SECONDS:.0f} seconds, and its figure their median; a figure here is the median "
        "of the rounds. Every contestant found all records.",
        *(f"**{notice}**" for notice in notices),
        "## Targets",
        page.target_table(targets).markdown(),
    ]
    for section in sections:
        parts += [f"## {section.title}", section.explanation, *(table.markdown() for table in section.tables)]
    parts += ["## Machine and versions", page.machine_table(jvm, ("pyspark", "py4j", "pandas")).markdown()]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    arguments = _parse()
    jvm, problem = find_jvm()
    if jvm is None:
        _log(f"the run failed: {problem}")
        return 1
    notices = ["Quick run on few records: it shows that everything works, not how fast it is."] if arguments.quick else []
    busy = os.getloadavg()[0]
    notices += [f"The machine was busy when the run began (load {busy:.1f}): do not trust the figures."] if busy > 0.7 else []
    segments = _segments(arguments, jvm)
    topics = {codec: Topic(f"spark-{codec}", segments[codec], PARTITIONS) for codec in arguments.codecs}
    counted = {codec: Topic(f"counted-{codec}", segments[codec], COUNTED_PARTITIONS) for codec in arguments.codecs}
    served = [*topics.values(), *(counted.values() if "count" in arguments.only else ())]
    warm_up, turn = (0.0, 0.0) if arguments.quick else (WARM_UP_SECONDS, TURN_SECONDS)
    work = arguments.data.parent
    try:
        with spark_data.serving_broker(work / "spark-broker", served) as broker:
            setup = Setup(work / "spark", arguments.rounds, warm_up, turn, segments, topics, counted, broker)
            sections = [EXPERIMENTS[name](setup) for name in arguments.only]
    except RunFailed as failure:
        _log(f"the run failed: {failure}")
        return 1
    text = render(sections, _shown_command(arguments), arguments.records, notices, jvm)
    arguments.page.parent.mkdir(parents=True, exist_ok=True)
    arguments.page.write_text(text)
    targets = [target for section in sections for target in section.targets]
    sys.stdout.write(page.target_table(targets).markdown() + "\n")
    _log(f"{len(targets)} targets, {sum(not target.met for target in targets)} missed; page: {arguments.page}")
    return 0


def _log(line: str) -> None:
    sys.stderr.write(line + "\n")


def _shown_command(arguments: argparse.Namespace) -> str:
    words = ["python", "-m", "benchmarks.spark", "--records", str(arguments.records), "--rounds", str(arguments.rounds)]
    words += ["--quick"] if arguments.quick else []
    words += ["--codecs", ",".join(arguments.codecs)] if len(arguments.codecs) < len(CODECS) else []
    words += ["--only", ",".join(arguments.only)] if len(arguments.only) < len(EXPERIMENTS) else []
    return " ".join(words)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    build = REPOSITORY / "build" / "bench"
    parser.add_argument("--data", type=Path, default=build / "data", help="where segment files are kept between runs")
    parser.add_argument("--records", type=int, help="records of each topic (5,000,000; 200,000 with --quick)")
    parser.add_argument("--rounds", type=int, help="timed passes of each contestant (3; 2 with --quick)")
    parser.add_argument("--quick", action="store_true", help="few records: shows that it works, not how fast it is")
    parser.add_argument("--codecs", default=",".join(CODECS), help=f"some of {','.join(CODECS)}")
    parser.add_argument("--only", default=",".join(EXPERIMENTS), help=f"some of {','.join(EXPERIMENTS)}; scan needs parquet")
    parser.add_argument("--page", type=Path, help="what to write (docs/benchmarks-spark.md for a whole run)")
    arguments = parser.parse_args()
    arguments.records = arguments.records or (200_000 if arguments.quick else 5_000_000)
    arguments.rounds = arguments.rounds or (2 if arguments.quick else 3)
    arguments.only = [name for name in EXPERIMENTS if name in arguments.only.split(",")]
    arguments.codecs = [codec for codec in CODECS if codec in arguments.codecs.split(",")]
    whole = not arguments.quick and len(arguments.codecs) == len(CODECS) and len(arguments.only) == len(EXPERIMENTS)
    arguments.page = arguments.page or (REPOSITORY / "docs" / "benchmarks-spark.md" if whole else build / "benchmarks-spark.md")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
