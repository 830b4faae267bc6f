"""The experiments: each makes its data, races its contestants and returns a section of the page."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import peers
from benchmarks.clients import compare_clients
from benchmarks.compaction import compare_cleaners
from benchmarks.data import CODECS, RECORDS_PER_BATCH, Segment, Variant, codec_variant, ensure_segment, sized_variant
from benchmarks.dump import compare_dumps
from benchmarks.jvm import Jvm
from benchmarks.measure import (
    ANSWER_TIMEOUT_SECONDS,
    REPOSITORY,
    AtOnce,
    ColdCommand,
    Contestant,
    Result,
    RunFailed,
    WarmProcess,
    race,
    time_command,
)
from benchmarks.report import Agreement, Section, Table, Target
from benchmarks.writing import compare_append, compare_conversion, compare_recovery, compare_single_batches

KAFKALOG = "kafkalog"
VIEWS = "kafkalog, views"
FLOOR = "floor"
LOOP_ONE_CORE = "FileRecords loop, one core"
LOOP_ALL_CORES = "FileRecords loop, all cores"
DUMP = "DumpLogSegments"
JVM_WARM_UPS, JVM_WARM_UP_SECONDS = 12, 3.0
LOOP_FACTORS = {"none": 1.2, "lz4": 1.2, "zstd": 1.2}
AIOKAFKA_FACTORS = {"none": 5.0, "lz4": 3.5, "zstd": 2.5}
KAFKA_PYTHON_FACTORS = {"none": 40.0}
VIEWS_FACTORS = {"none": 1.5}
FLOOR_FACTORS = {"lz4": 1.5, "zstd": 1.5}


@dataclass
class Setup:
    """State that all experiments share, and the agreements on rows that they found."""

    data: Path
    records: int
    rounds: int
    mebibytes: tuple[int, int]
    cores: Sequence[int]
    jvm: Jvm | None
    python_peers: Sequence[str]
    log: Callable[[str], None]
    agreements: list[Agreement] = field(default_factory=list)

    @property
    def core(self) -> int | None:
        """The core of every reader with one thread; None where the system cannot pin."""
        return self.cores[-1] if self.cores else None

    def segment(self, variant: Variant) -> Segment:
        return ensure_segment(variant, self.data, self.jvm)

    def small_segment(self) -> Segment:
        return self.segment(Variant("small", 2, "none", record_count=RECORDS_PER_BATCH))

    def kafkalog(
        self,
        name: str,
        segment: Segment,
        *,
        table: str = "records",
        columns: Sequence[str] = peers.KAFKA_COLUMNS,
        threads: int = 1,
        core: int | None = None,
        views: bool = False,
    ) -> WarmProcess:
        """A warm kafkalog process: on the benchmark's core, unless another is given or it has several threads."""
        command = worker_command(KAFKALOG, segment.path, table, columns, threads) + ["--views"] * views
        return WarmProcess(name, command, None if threads > 1 else self.core if core is None else core)

    def race(self, segment: Segment, contestants: Sequence[Contestant], rows: dict[str, int] | None = None) -> dict[str, Result]:
        self.log(f"{segment.variant}: {', '.join(one.name for one in contestants)}")
        return race(contestants, self.rounds, segment.records if rows is None else rows)

    def agree(self, segment: Segment, readers: Sequence[str]) -> None:
        """Note the readers of a segment in a race, which fails unless all count the rows that its writer put there."""
        self.agreements.append(Agreement(segment.variant, segment.size, segment.records, readers))


def worker_command(
    contestant: str, file: Path, table: str = "records", columns: Sequence[str] = (), threads: int = 1
) -> list[str]:
    command = [sys.executable, "-m", "benchmarks.worker", contestant, str(file)]
    if contestant == KAFKALOG:
        command += ["--table", table, "--columns", ",".join(columns), "--threads", str(threads)]
    return command


def compare_peers(setup: Setup) -> Section:
    """Every codec of v2: kafkalog, the peers and the floor, one core each."""
    results: dict[str, dict[str, Result]] = {}
    for codec in CODECS:
        segment = setup.segment(codec_variant(2, codec, setup.records))
        results[codec] = setup.race(segment, _codec_contestants(setup, segment))
        setup.agree(segment, [name for name in results[codec] if name != FLOOR])
    names = list(results[CODECS[0]])
    speeds = [[name, *(f"{results[codec][name].million_rows_per_second:.2f}" for codec in CODECS)] for name in names]
    section = Section(
        "Records per second on one core",
        "Million records per second: seven Kafka columns into Arrow, CRCs checked; with `views=True` keys and values are not "
        "copied. The floor is read + CRC + decompress "
        "alone, with the codec calls that kafkalog uses. The FileRecords loop copies nothing out and only looks at the sizes "
        "of key and value. DumpLogSegments prints everything to /dev/null; the time of a run on one batch is subtracted.",
        [Table(["M records/s", *CODECS], speeds), _ratio_table(results, names)],
    )
    section.targets = _peer_targets(results)
    return section


def _codec_contestants(setup: Setup, segment: Segment) -> list[Contestant]:
    contestants: list[Contestant] = [setup.kafkalog(KAFKALOG, segment), setup.kafkalog(VIEWS, segment, views=True)]
    if setup.jvm:
        loop = setup.jvm.loop_command(segment.path)
        contestants += [
            WarmProcess(LOOP_ONE_CORE, loop, setup.core, JVM_WARM_UPS, JVM_WARM_UP_SECONDS),
            WarmProcess(LOOP_ALL_CORES, loop, None, JVM_WARM_UPS, JVM_WARM_UP_SECONDS),
        ]
    contestants += [WarmProcess(name, worker_command(name, segment.path), setup.core, 1) for name in (*setup.python_peers, FLOOR)]
    if setup.jvm:
        empty = setup.jvm.dump_command(setup.small_segment().path)
        rows = setup.jvm.count_dumped_records(segment.path)
        contestants.append(ColdCommand(DUMP, setup.jvm.dump_command(segment.path), empty, rows))
    return contestants


def _ratio_table(results: dict[str, dict[str, Result]], names: Sequence[str]) -> Table:
    rows = []
    for name in names:
        if name not in (KAFKALOG, VIEWS):
            rows.append([name, *(f"{results[codec][name].seconds / results[codec][KAFKALOG].seconds:.2f} x" for codec in CODECS)])
    return Table(["kafkalog is faster by", *CODECS], rows)


def _peer_targets(results: dict[str, dict[str, Result]]) -> list[Target]:
    targets = []
    for codec, those in results.items():
        ours = those[KAFKALOG].seconds
        loops = [those[name].seconds for name in (LOOP_ONE_CORE, LOOP_ALL_CORES) if name in those]
        if codec in VIEWS_FACTORS:
            views = those[VIEWS].seconds
            limit = f"reading and checking alone take {those[FLOOR].seconds / ours:.0%} of the time with copies"
            targets.append(Target(f"{codec}: views against copied columns", ours / views, VIEWS_FACTORS[codec], "x", limit=limit))
            if loops:
                targets.append(Target(f"{codec}: views against the faster FileRecords loop", min(loops) / views, 2.0, "x"))
        if loops and codec in LOOP_FACTORS:
            targets.append(Target(f"{codec}: against the faster FileRecords loop", min(loops) / ours, LOOP_FACTORS[codec], "x"))
        for peer, factors in (("aiokafka", AIOKAFKA_FACTORS), ("kafka-python", KAFKA_PYTHON_FACTORS)):
            if peer in those and codec in factors:
                targets.append(Target(f"{codec}: against {peer}", those[peer].seconds / ours, factors[codec], "x"))
        if codec in FLOOR_FACTORS:
            over = ours / those[FLOOR].seconds
            targets.append(Target(f"{codec}: time over the floor", over, FLOOR_FACTORS[codec], "x", at_least=False))
    return targets


def compare_formats(setup: Setup) -> Section:
    """v0 and v1 against v2, uncompressed and lz4."""
    section = Section("Message formats v0 and v1 against v2", "kafkalog on one core, the same records in the three formats.")
    rows = []
    for codec in ("none", "lz4"):
        segments = {magic: setup.segment(codec_variant(magic, codec, setup.records)) for magic in (0, 1, 2)}
        contestants = [setup.kafkalog(segment.variant, segment) for segment in segments.values()]
        results = setup.race(segments[2], contestants)
        for segment in segments.values():
            setup.agree(segment, [KAFKALOG])
        speeds = {magic: results[segment.variant].million_rows_per_second for magic, segment in segments.items()}
        rows.append([codec, *(f"{speeds[magic]:.2f}" for magic in speeds)])
        section.targets += [Target(f"{codec}: v{magic} against v2", speeds[magic] / speeds[2], 0.5, "x") for magic in (0, 1)]
    section.tables = [Table(["M records/s", "v0", "v1", "v2"], rows)]
    return section


def compare_threads(setup: Setup) -> Section:
    """Two threads against one, next to two separate processes on the same machine."""
    section = Section(
        "Two threads against one",
        "Two threads share one reader, on all cores; the last column is two processes at once, one on each core: the most "
        "that this machine can do.",
    )
    if len(setup.cores) < 2:
        section.explanation = "Skipped: this machine has one core, or cannot pin processes."
        return section
    rows = []
    for codec in ("none", "lz4", "zstd"):
        segment = setup.segment(codec_variant(2, codec, setup.records))
        other = [setup.kafkalog(f"core {core}", segment, core=core) for core in setup.cores[-2:]]
        contestants: list[Contestant] = [
            setup.kafkalog("one", segment),
            setup.kafkalog("two", segment, threads=2),
            AtOnce("processes", other),
        ]
        results = setup.race(segment, contestants)
        speeds = [results[name].million_rows_per_second for name in ("one", "two", "processes")]
        rows.append([codec, *(f"{speed:.2f}" for speed in speeds)])
        limit = f"two processes at once reach {speeds[2] / speeds[0]:.2f} x"
        section.targets.append(Target(f"{codec}: two threads against one", speeds[1] / speeds[0], 1.7, "x", limit=limit))
    section.tables = [Table(["M records/s", "one thread", "two threads", "two processes"], rows)]
    return section


def compare_projections(setup: Setup) -> Section:
    """Fewer columns cost less, headers cost extra, and `batches` reads headers only."""
    segment = setup.segment(codec_variant(2, "none", setup.records))
    seven, offset, eight = "seven columns", "offset", "seven columns and headers"
    narrow = setup.race(
        segment,
        [
            setup.kafkalog(seven, segment),
            setup.kafkalog(offset, segment, columns=["offset"]),
            setup.kafkalog(eight, segment, columns=[*peers.KAFKA_COLUMNS, "headers"]),
        ],
    )
    large = setup.segment(sized_variant(setup.mebibytes[1]))
    batch_count = -(-large.records // RECORDS_PER_BATCH)
    wide = setup.race(
        large,
        [
            setup.kafkalog("records", large),
            setup.kafkalog("batches", large, table="batches", columns=peers.BATCH_HEADER_COLUMNS),
        ],
        {"records": large.records, "batches": batch_count},
    )
    setup.agree(large, [KAFKALOG])
    size = f"{setup.mebibytes[1]} MiB"
    rows = [[f"records, {name}", segment.variant, f"{narrow[name].seconds:.3f}", f"{narrow[name].rows:,}"] for name in narrow]
    labels = {"records": "records, seven columns", "batches": "batches, CRCs not asked for"}
    rows += [[labels[name], size, f"{wide[name].seconds:.3f}", f"{wide[name].rows:,}"] for name in wide]
    return Section(
        "Projections pay",
        "Seconds for the whole file on one core.",
        [Table(["table", "file", "seconds", "rows"], rows)],
        [
            Target("offset alone against seven columns", narrow[seven].seconds / narrow[offset].seconds, 1.5, "x"),
            Target(f"batches against records, {size}", wide["records"].seconds / wide["batches"].seconds, 20.0, "x"),
        ],
    )


def measure_memory(setup: Setup) -> Section:
    """The peak of a fresh process that reads all records of a segment."""
    section = Section("Resident memory", "Peak of a fresh process (Python, Arrow and Numba included) that reads all records.")
    peaks: dict[tuple[int, int], float] = {}
    for mebibytes in setup.mebibytes:
        segment = setup.segment(sized_variant(mebibytes))
        for threads in (1, 2):
            setup.log(f"{segment.variant}: peak memory, {threads} thread(s)")
            peaks[mebibytes, threads] = _peak_megabytes(segment, threads)
    small, large = setup.mebibytes
    rows = [[f"{mebibytes} MiB", *(f"{peaks[mebibytes, threads]:.0f}" for threads in (1, 2))] for mebibytes in setup.mebibytes]
    section.tables = [Table(["peak MB", "one thread", "two threads"], rows)]
    for threads in (1, 2):
        section.targets.append(
            Target(f"peak on {large} MiB, {threads} thread(s)", peaks[large, threads], 300.0, "MB", at_least=False)
        )
    growth = peaks[large, 1] / peaks[small, 1]
    section.targets.append(Target(f"{large} MiB over {small} MiB, 1 thread", growth, 1.1, "x", at_least=False))
    return section


def _peak_megabytes(segment: Segment, threads: int) -> float:
    command = [*worker_command(KAFKALOG, segment.path, columns=peers.KAFKA_COLUMNS, threads=threads), "--peak-memory"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=ANSWER_TIMEOUT_SECONDS)
    if done.returncode != 0:
        raise RunFailed(f"the memory run failed:\n{done.stderr[-2000:]}")
    answer = json.loads(done.stdout)
    if answer["rows"] != segment.records:
        raise RunFailed(f"kafkalog counted {answer['rows']} rows of {segment.variant}, the file holds {segment.records}")
    return float(answer["bytes"]) / 1e6


def measure_start_up(setup: Setup) -> Section:
    """Import, a small read, and the first read of a fresh install, whose kernels are not compiled yet."""
    setup.log("start-up")
    timed_import = "import time; t = time.perf_counter(); import kafkalog; print(time.perf_counter() - t)"
    imports = [
        float(subprocess.run([sys.executable, "-c", timed_import], cwd=REPOSITORY, capture_output=True, check=True).stdout)
        for _ in range(5)
    ]
    script = shutil.which("kafkalog", path=str(Path(sys.executable).parent)) or shutil.which("kafkalog")
    if script is None:
        raise RunFailed("the kafkalog command is not installed next to this Python: pip install -e .")
    command = [script, "table", "records", str(setup.small_segment().path.parent)]
    firsts = []
    for _ in range(3):
        with tempfile.TemporaryDirectory(prefix="kafkalog-kernels-") as empty:
            # An installed package has its bytecode on disk.
            environment = {"KAFKALOG_CACHE_DIR": empty, "PYTHONDONTWRITEBYTECODE": ""}
            firsts.append(time_command(command, environment=environment))
            later = min(time_command(command, environment=environment) for _ in range(5))
    targets = [
        Target("import kafkalog, best of five", min(imports) * 1000, 60.0, "ms", at_least=False),
        Target(f"kafkalog table records on {RECORDS_PER_BATCH} records, best of five", later, 0.7, "s", at_least=False),
        Target("the same with nothing compiled yet, best of three", min(firsts), 6.0, "s", at_least=False),
    ]
    rows = [[target.what, target.measured_text] for target in targets]
    explanation = "Whole commands, interpreter included; the import alone is timed inside Python."
    return Section("Start-up", explanation, [Table(["", "time"], rows)], targets)


EXPERIMENTS: dict[str, Callable[[Setup], Section]] = {
    "codecs": compare_peers,
    "clients": compare_clients,
    "formats": compare_formats,
    "threads": compare_threads,
    "projections": compare_projections,
    "memory": measure_memory,
    "dump": compare_dumps,
    "startup": measure_start_up,
    "append": compare_append,
    "compaction": compare_cleaners,
    "convert": compare_conversion,
    "single": compare_single_batches,
    "recovery": compare_recovery,
}
