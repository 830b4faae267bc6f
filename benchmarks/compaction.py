"""Compaction against Kafka's own log cleaner: the same dirty log, a fresh copy for each pass, both in warm processes on one core.

    python -m benchmarks.compaction LOG_DIRECTORY WORK_DIRECTORY MAP_BYTES [--once]

is our contestant: one pass for each line on standard input, one JSON line for each pass; its rows are the records that it kept.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.dump import peak_megabytes
from benchmarks.measure import RunFailed, WarmProcess, race
from benchmarks.report import Section, Table, Target
from kafkalog.engine.cleaner import Cleaner, CleanerSelection, OffsetMap
from kafkalog.engine.config import LogConfig
from kafkalog.engine.partition_log import PartitionLog
from kafkalog.segment.encode import BatchFields, EncodeOptions, encode_batches

if TYPE_CHECKING:
    from benchmarks.experiments import Setup

OURS, THEIRS = "kafkalog", "Kafka's Cleaner"
CODECS = ("none", "lz4")
REQUIRED_FACTOR = 1.0
MAP_BYTES = 128 << 20
SEGMENT_BYTES = 128 << 20
BATCH_RECORDS = 85
KEY_BYTES, VALUE_BYTES, SHORT_VALUE_BYTES = 16, 170, 20
KEYS_PER_RECORD = 0.3
ROWS_AT_ONCE = 50_000
WARM_UPS = 3

MANY_KEYS = 10_000_000
MANY_KEYS_MAP_BYTES = 256 << 20
REQUIRED_MEGABYTES = 230.0  # of the whole process, without the map


@dataclass(frozen=True)
class DirtyLog:
    """Records with keys chosen at random among `keys`; if there are as many keys as records, each comes once."""

    codec: str
    records: int
    keys: int
    value_bytes: int = VALUE_BYTES

    @property
    def name(self) -> str:
        return f"dirty-{self.codec}-{self.records}-{self.keys}"

    def ensure(self, data: Path) -> tuple[Path, int]:
        """The log directory, made once and kept, and how many records compaction leaves in it."""
        directory = data / self.name
        count = directory / "distinct-keys"
        if not count.exists():
            shutil.rmtree(directory, ignore_errors=True)
            (directory / "t-0").mkdir(parents=True)
            count.write_text(str(self._write(directory / "t-0")))
        return directory, int(count.read_text())

    def _write(self, folder: Path) -> int:
        chance = np.random.default_rng(7)
        seen = np.zeros(self.keys, np.bool_)
        segment: IO[bytes] | None = None
        for first in range(0, self.records, ROWS_AT_ONCE):
            count = min(ROWS_AT_ONCE, self.records - first)
            numbers = chance.integers(0, self.keys, count) if self.keys < self.records else np.arange(first, first + count)
            seen[numbers] = True
            table = self._table(chance, numbers, first)
            options = EncodeOptions(self.codec, base_offset=first, batch_records=BATCH_RECORDS)
            for batch in encode_batches(table, options, BatchFields(leader_epoch=0)):
                if segment is None or segment.tell() + len(batch) > SEGMENT_BYTES:
                    if segment is not None:
                        segment.close()
                    segment = (folder / f"{int.from_bytes(batch[:8], 'big'):020}.log").open("wb")
                segment.write(batch)
        assert segment is not None
        segment.close()
        return int(seen.sum())

    def _table(self, chance: np.random.Generator, numbers: NDArray[Any], first: int) -> pa.Table:
        count = len(numbers)
        keys = np.frombuffer(b"".join(b"key-%012d" % number for number in numbers.tolist()), np.uint8)
        words = np.random.default_rng(0).integers(ord("a"), ord("z") + 1, (4096, 10), dtype=np.uint8)
        values = words[chance.integers(0, len(words), count * self.value_bytes // 10)].reshape(-1)
        times = pa.array(1_767_225_600_000 + first + np.arange(count))
        return pa.table([_binary(keys, KEY_BYTES), _binary(values, self.value_bytes), times], ["key", "value", "timestamp_ms"])


def _binary(content: NDArray[np.uint8], size: int) -> pa.Array:
    count = len(content) // size
    buffers = [None, pa.py_buffer(np.arange(count + 1, dtype=np.int64) * size), pa.py_buffer(content)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), count, buffers)


def compare_cleaners(setup: Setup) -> Section:
    """MiB per second of dirty log for two codecs, equal files, and the memory that logs and keys take."""
    section = Section(
        "Compaction",
        f"A dirty log with {BATCH_RECORDS} records of {VALUE_BYTES}-byte values in a batch, seven in ten of them obsolete: one "
        "pass of Kafka's Cleaner and of ours, both warm, on fresh copies. Copying and opening are not timed, fsync is. Both left "
        "the same files, byte for byte.",
    )
    rows = [[codec, *_compare(setup, section, codec)] for codec in CODECS]
    section.tables = [Table(["MiB/s", OURS, THEIRS, "faster by"], rows), _measure_memory(setup, section)]
    return section


def _compare(setup: Setup, section: Section, codec: str) -> list[str]:
    log = DirtyLog(codec, setup.records, int(setup.records * KEYS_PER_RECORD))
    directory, kept = log.ensure(setup.data)
    mebibytes = _size(directory) / (1 << 20)
    work, their_work = setup.data / "work-ours", setup.data / "work-theirs"
    contestants = [WarmProcess(OURS, _our_command(directory, work, MAP_BYTES), setup.core, WARM_UPS)]
    if setup.jvm is not None:
        command = setup.jvm.clean_command(directory, their_work, MAP_BYTES, SEGMENT_BYTES)
        contestants.append(WarmProcess(THEIRS, command, setup.core, WARM_UPS))
    setup.log(f"{log.name}: {', '.join(one.name for one in contestants)}")
    results = race(contestants, setup.rounds, kept)
    speeds = {name: mebibytes / result.seconds for name, result in results.items()}
    if setup.jvm is None:
        return [f"{speeds[OURS]:.0f}", "", ""]
    if _digest(work) != _digest(their_work):
        raise RunFailed(f"{log.name}: the two cleaners left different files")
    factor = speeds[OURS] / speeds[THEIRS]
    section.targets.append(Target(f"compact, {codec}: against Kafka's Cleaner", factor, REQUIRED_FACTOR, "x"))
    return [f"{speeds[OURS]:.0f}", f"{speeds[THEIRS]:.0f}", f"{factor:.1f} x"]


def _measure_memory(setup: Setup, section: Section) -> Table:
    """Peak of whole commands: two sizes of log with the same keys, and ten million keys."""
    keys = max(int(setup.records * KEYS_PER_RECORD), 1)
    many = MANY_KEYS if setup.records >= 1_000_000 else setup.records
    logs = {
        f"{setup.records:,} records": (DirtyLog("none", setup.records, keys), MAP_BYTES),
        f"{4 * setup.records:,} records, as many keys": (DirtyLog("none", 4 * setup.records, keys), MAP_BYTES),
        f"{many:,} different keys": (DirtyLog("none", many, many, SHORT_VALUE_BYTES), MANY_KEYS_MAP_BYTES),
    }
    rows = []
    for what, (log, map_bytes) in logs.items():
        directory, _ = log.ensure(setup.data)
        setup.log(f"{log.name}: memory")
        command = [*_our_command(directory, setup.data / "work-ours", map_bytes), "--once"]
        peak = peak_megabytes(command)
        rows.append([what, f"{_size(directory) >> 20}", f"{map_bytes >> 20}", f"{peak:.0f}"])
        without_map = peak - map_bytes / 1e6
        section.targets.append(
            Target(f"compact, {what}: peak without the map", without_map, REQUIRED_MEGABYTES, "MB", at_least=False)
        )
    return Table(["memory", "log, MiB", "map, MiB", "peak, MB"], rows)


def _size(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.glob("t-0/*.log"))


def _digest(directory: Path) -> str:
    """A hash of the logs and their indexes; those of the empty active segment may or may not exist."""
    digest = hashlib.sha256()
    for file in sorted(directory.glob("t-0/*")):
        if file.suffix in (".log", ".index", ".timeindex") and file.stat().st_size:
            digest.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _our_command(directory: Path, work: Path, map_bytes: int) -> list[str]:
    return [sys.executable, "-m", "benchmarks.compaction", str(directory), str(work), str(map_bytes)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compaction")
    parser.add_argument("source", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("map_bytes", type=int)
    parser.add_argument("--once", action="store_true", help="one pass, without being asked")
    arguments = parser.parse_args()
    for _ in [""] if arguments.once else sys.stdin:
        shutil.rmtree(arguments.work, ignore_errors=True)
        shutil.copytree(arguments.source, arguments.work)
        sys.stdout.write(json.dumps(clean_once(arguments.work, arguments.map_bytes)) + "\n")
        sys.stdout.flush()


def clean_once(directory: Path, map_bytes: int) -> dict[str, float]:
    """Seconds of a pass over the log, and the records that it kept."""
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0, "segment.bytes": SEGMENT_BYTES}
    with PartitionLog.open(str(directory / "t-0"), LogConfig.of(settings)) as log:
        log.roll()
        log.update_high_watermark(log.log_end_offset)
        dirty = CleanerSelection(str(directory), [log], log.fs).find_filthiest(log.clock.now_ms())
        assert dirty is not None
        cleaner = Cleaner(OffsetMap(map_bytes))
        started = time.perf_counter()
        kept = cleaner.clean(dirty, log.clock.now_ms()).stats.messages_written
        return {"seconds": time.perf_counter() - started, "rows": kept}


if __name__ == "__main__":
    main()
