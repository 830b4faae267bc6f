"""Power cuts while a log is written: the engine itself on the simulated disk, every image loaded by the engine again.

python -m tests.campaigns.crashes.engine_power_cuts    every image of every cut
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

from kafkalog.engine.building import RecordsBuilder
from kafkalog.engine.config import LogConfig
from kafkalog.engine.entries import iter_entries
from kafkalog.engine.log_directory import LogDirectory
from kafkalog.engine.partition_log import PartitionLog
from kafkalog.engine.schedule import ManualClock
from kafkalog.errors import KafkaLogError
from tests.builders.simulated_disk import Files, SimulatedFs

ROOT = "/data"
NOW = 1_700_000_000_000
ABORTED, MARKER = b"aborted", b"marker"
CONFIG = LogConfig.of(
    {"internal.segment.bytes": 700, "index.interval.bytes": 100, "segment.index.bytes": 240, "file.delete.delay.ms": 0}
)
PREALLOCATED = CONFIG.with_settings({"preallocate": "true"})
Watch = Callable[[int, str, str], bool | None]


class PowerCut(BaseException):
    """Nothing runs after it, not even clean-up."""


@dataclass
class Promise:
    """Everything that the log has promised, at the moment of a cut."""

    written: dict[int, set[bytes]] = field(default_factory=dict)  # by offset: every value that was ever there
    current: dict[int, bytes] = field(default_factory=dict)
    durable_end: int = 0
    start: int = 0

    def holds(self, log: PartitionLog, values: dict[int, bytes]) -> list[str]:
        wrong = []
        if log.log_end_offset < self.durable_end:
            wrong.append(f"ends at {log.log_end_offset}, but {self.durable_end} was durable")
        if log.log_start_offset > self.start:
            wrong.append(f"starts at {log.log_start_offset}, but was said to start at {self.start}")
        for offset in range(self.start, self.durable_end):
            if values.get(offset) != self.current[offset]:
                wrong.append(f"offset {offset} is {values.get(offset)!r}, but {self.current[offset]!r} was durable")
        for offset, value in values.items():
            if value not in self.written.get(offset, ()):
                wrong.append(f"offset {offset} is {value!r}, which nobody wrote")
        return wrong


class Run:
    """Work on a log that makes promises: appends with rolls, flushes, a truncation, retention, clean stops and a restart."""

    def __init__(self, fs: SimulatedFs, config: LogConfig = CONFIG) -> None:
        self.fs = fs
        self.config = config
        self.clock = ManualClock(NOW)
        self.promise = Promise()
        self.sequence = 0
        self.epoch = 0

    def work(self) -> None:
        with LogDirectory(ROOT, fs=self.fs, clock=self.clock) as directory:
            log = directory.open_log("t", 0, self.config)
            self.append(log, 7)
            self.abort_transaction(log)
            self.flush(log)
            directory.checkpoint()
            self.append(log, 6)
        self.all_durable(log)
        with LogDirectory(ROOT, fs=self.fs, clock=self.clock) as directory:
            log = directory.open_log("t", 0, self.config)
            self.append(log, 2)
            self.truncate(log, 5)
            self.append(log, 8)
            self.flush(log)
            self.delete_records(log, 4)
            log.run_due_tasks()
        self.all_durable(log)

    def append(self, log: PartitionLog, count: int) -> None:
        for _ in range(count):
            offset = log.log_end_offset
            value = b"%d of epoch %d " % (offset, self.epoch) + b"x" * 60
            builder = RecordsBuilder(0, producer_id=7, producer_epoch=self.epoch, base_sequence=self.sequence)
            builder.append(0, NOW + offset, b"key", value)
            self.promise.written.setdefault(offset, set()).add(value)
            log.append(builder.build(), leader_epoch=self.epoch)
            self.promise.current[offset] = value
            self.sequence += 1

    def abort_transaction(self, log: PartitionLog) -> None:
        builder = RecordsBuilder(0, producer_id=8, producer_epoch=0, base_sequence=0, is_transactional=True)
        builder.append(0, NOW, None, ABORTED)
        for value in (ABORTED, MARKER):
            offset = log.log_end_offset
            self.promise.written.setdefault(offset, set()).add(value)
            if value is ABORTED:
                log.append(builder.build(), leader_epoch=0, verification=log.start_verification(8, 0, 0, False))
            else:
                log.end_transaction(8, 0, False)
            self.promise.current[offset] = value

    def flush(self, log: PartitionLog) -> None:
        log.flush(force=True)
        self.promise.durable_end = log.recovery_point

    def truncate(self, log: PartitionLog, offset: int) -> None:
        self.promise.durable_end = min(self.promise.durable_end, offset)
        log.truncate_to(offset)
        self.epoch, self.sequence = self.epoch + 1, 0

    def delete_records(self, log: PartitionLog, offset: int) -> None:
        self.promise.start = offset
        log.update_high_watermark(log.log_end_offset)
        log.delete_records(offset)
        log.delete_old_segments()

    def all_durable(self, log: PartitionLog) -> None:
        self.promise.durable_end = log.log_end_offset


def stored_values(log: PartitionLog) -> dict[int, bytes]:
    """The value of each record in the log."""
    values: dict[int, bytes] = {}
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        found = log.read(offset, isolation="log_end")
        if not found.data:  # a segment lost its end, the next one is there: Kafka's recovery leaves such a gap
            following = log.segments.higher(offset)
            offset = log.log_end_offset if following is None else following.base_offset
        for entry in iter_entries(found.data):
            values |= {record.offset: MARKER if entry.is_control_batch else record.value or b"" for record in entry}
            offset = entry.next_offset
    return values


def check_image(image: Files, run: Run) -> list[str]:
    """Faults of the log that the engine loads from a disk after a cut."""
    promise = run.promise
    fs = SimulatedFs(image)
    clock = ManualClock(NOW)
    with LogDirectory(ROOT, fs=fs, clock=clock) as directory:
        log = directory.open_log("t", 0, run.config)
        values = stored_values(log)
        wrong = promise.holds(log, values) + _index_faults(log)
        if MARKER in values.values() and not log.collect_aborted_transactions(0, log.log_end_offset):
            wrong.append("the marker of an abort is there, but not its transaction in the index")
        end = log.log_end_offset
        again = Run(fs, run.config)
        again.epoch = 99
        again.append(log, 1)
    with LogDirectory(ROOT, fs=fs, clock=clock) as directory:
        log = directory.open_log("t", 0, run.config)
        if log.log_end_offset != end + 1:
            wrong.append(f"after one more record and a clean stop it ends at {log.log_end_offset}, not {end + 1}")
    return wrong


def _index_faults(log: PartitionLog) -> list[str]:
    wrong = []
    for segment in log.segments:
        index = segment.offset_index
        entries = [index.entry(number) for number in range(index.entry_count)]
        if any(later.offset <= earlier.offset for earlier, later in pairwise(entries)):
            wrong.append(f"the index of segment {segment.base_offset} does not rise: {entries}")
        times = [segment.time_index.entry(number) for number in range(segment.time_index.entry_count)]
        if any(later.timestamp <= earlier.timestamp for earlier, later in pairwise(times)):
            wrong.append(f"the time index of segment {segment.base_offset} does not rise: {times}")
    return wrong


def start_files() -> Files:
    return {f"{ROOT}/meta.properties": b"version=1\n"}


def count_steps(config: LogConfig = CONFIG) -> int:
    fs = SimulatedFs(start_files())
    Run(fs, config).work()
    return fs.steps


def _watch(cut: int, skipped: Callable[[str, str], bool] | None) -> Watch:
    def watch(number: int, action: str, path: str) -> bool:
        if number >= cut:
            raise PowerCut
        return not (skipped is not None and action.startswith("sync") and skipped(action, path))

    return watch


def power_cuts(
    every_cut: int = 1,
    every_image: int = 1,
    *,
    config: LogConfig = CONFIG,
    skipped: Callable[[str, str], bool] | None = None,
    first_only: bool = False,
) -> tuple[int, list[str]]:
    """(images looked at, what was wrong), with the power cut before steps; `skipped` says which syncs do nothing."""
    wrong: list[str] = []
    images = 0
    seen: set[int] = set()
    for cut in [*range(1, count_steps(config) + 1, every_cut), 1 << 60]:
        fs = SimulatedFs(start_files(), _watch(cut, skipped))
        run = Run(fs, config)
        with suppress(PowerCut):
            run.work()
        for image in fs.images(every_image, cut % every_image):
            key = hash((frozenset(image.items()), run.promise.durable_end, run.promise.start))
            if key in seen:
                continue
            seen.add(key)
            images += 1
            wrong += [f"cut before step {cut}: {fault}" for fault in _checked(image, run)]
            if wrong and first_only:
                return images, wrong
    return images, wrong


def failing_steps(number: int, every: int = 1) -> tuple[int, list[str]]:
    """(steps made to fail, what was wrong): the failure is raised as one of our errors, and earlier promises hold."""
    wrong: list[str] = []
    steps = count_steps()
    for failing in range(1, steps + 1, every):
        fs = SimulatedFs(start_files(), _fail_at(failing, number))
        run = Run(fs)
        try:
            run.work()
        except KafkaLogError:
            pass
        except Exception as error:
            wrong.append(f"step {failing} failed with {error!r}")
        fs.watch = None
        wrong += [f"after the failure of step {failing}: {fault}" for fault in _checked(fs.files(), run)]
    return steps, wrong


def _fail_at(failing: int, number: int) -> Watch:
    def watch(step: int, action: str, path: str) -> None:
        if step == failing:
            raise OSError(number, os.strerror(number), path)

    return watch


def _checked(image: Files, run: Run) -> list[str]:
    try:
        return check_image(image, run)
    except Exception as error:  # whatever it is: this looks for logs that cannot be opened
        return [f"{type(error).__name__}: {error}"]


if __name__ == "__main__":
    found_wrong = False
    for name, settings in (("plain", CONFIG), ("preallocated", PREALLOCATED)):
        looked_at, faults = power_cuts(config=settings)
        sys.stdout.write("\n".join([*faults[:20], f"{name}: {looked_at} images, {len(faults)} wrong"]) + "\n")
        found_wrong |= bool(faults)
    sys.exit(found_wrong)
