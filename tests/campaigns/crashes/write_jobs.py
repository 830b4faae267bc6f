"""The writing commands under crashes: see power_cuts.py.

A disk after a power cut is judged by the log that a broker, that is the engine, opens from it.
"""

from __future__ import annotations

import atexit
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from functools import cache

from kafkalog import codecs
from kafkalog.engine.config import LogConfig
from kafkalog.engine.partition_log import PartitionLog
from kafkalog.errors import Limits
from kafkalog.format.reference import Record, encode_batch
from kafkalog.log.folders import find_partitions
from kafkalog.log.partition import Partition
from kafkalog.segment.recode import Recoding
from kafkalog.tasks.append import AppendOptions, Target, append_records, source_file
from kafkalog.tasks.compact import Compaction
from kafkalog.tasks.convert import convert_partition
from kafkalog.tasks.maintenance import ChangeRequest, Operation, maintain_partition
from kafkalog.tasks.opening import opening_in_place, settle_interrupted
from kafkalog.tasks.recover import Recovery
from kafkalog.tasks.retain import UNLIMITED, Retention
from kafkalog.tasks.truncate import Truncation
from tests.builders.memory_store import MemoryStore
from tests.builders.simulated_disk import Files, SimulatedFs
from tests.builders.small_logs import FIRST_TIME, made_batch, made_records

from .power_cuts import Job

LOGS = "/logs"
FOLDER = f"{LOGS}/orders-0"
MARKER = f"{LOGS}/.kafka_cleanshutdown"
NEW = "/new/orders-0"
SECOND = "/new/orders-1"
NOW = FIRST_TIME + 1_000_000
SETTINGS = {"internal.segment.bytes": "2000", "index.interval.bytes": "100", "segment.index.bytes": "96"}
ONE_SEGMENT = {"segment.index.bytes": "96"}
CONFIG = [argument for name, value in SETTINGS.items() for argument in ("--config", f"{name}={value}")]
Records = list[tuple[int, bytes | None, bytes | None]]


# files at the start


def segments(*parts: list[bytes], damage: bytes = b"") -> Files:
    """A partition of a log directory that was shut down in order."""
    files = {MARKER: b"", f"{LOGS}/recovery-point-offset-checkpoint": b"0\n1\norders 0 0\n"}
    for number, entries in enumerate(parts):
        base = int.from_bytes(entries[0][:8], "big")
        end = damage if number == len(parts) - 1 else b""
        files[f"{FOLDER}/{base:020d}.log"] = b"".join(entries) + end
    return files


def three_segments() -> Files:
    first = [made_batch(0, 5), made_batch(5, 5), made_batch(10)]
    return segments(first, [made_batch(20), made_batch(30)], [made_batch(40, 5), made_batch(45, 5)])


def flushed_segments() -> Files:
    return flushed(three_segments())


def flushed(files: Files) -> Files:
    """The same with its indexes; a broker considers all of it durable, so that it trusts them."""
    fs = SimulatedFs({path: content for path, content in files.items() if path != MARKER})
    with opening_in_place(fs, FOLDER, LogConfig.of(SETTINGS), NOW).open(fs, FOLDER):
        """Opening a log after a crash makes them."""
    return {**fs.files(), MARKER: b"", f"{LOGS}/recovery-point-offset-checkpoint": b"0\n1\norders 0 50\n"}


def keyed_batch(first_offset: int, leader_epoch: int = -1) -> bytes:
    """Ten records with the same ten keys as any other such batch."""
    made = made_records(first_offset, 10)
    keyed = [Record(record.offset, record.timestamp, b"k%d" % (record.offset % 10), record.value) for record in made]
    return encode_batch(keyed, leader_epoch=leader_epoch)


def dirty_segments() -> Files:
    newest = [keyed_batch(40), keyed_batch(50, leader_epoch=1)]
    return flushed(segments([made_batch(0), keyed_batch(10)], [keyed_batch(20), keyed_batch(30)], newest))


def damaged_segments() -> Files:
    second = [made_batch(20, 5), made_batch(25, 5), made_batch(30), made_batch(40)]
    files = segments([made_batch(0), made_batch(10)], second, [made_batch(50)])
    path = f"{FOLDER}/{20:020d}.log"
    whole = bytearray(files[path])
    whole[len(second[0] + second[1]) + 100] ^= 1
    indexes = {f"{FOLDER}/{base:020d}.{kind}": b"" for base in (0, 20, 50) for kind in ("index", "timeindex")}
    return {**{name: content for name, content in files.items() if "cleanshutdown" not in name}, **indexes, path: bytes(whole)}


# the log that a broker opens


def opened_records(image: Files, folder: str = FOLDER) -> Records | None:
    """The records that the log has once it is open; None if there is none."""
    if not any(path.startswith(folder + "/") for path in image):
        return None
    fs = SimulatedFs(image)
    with opening_in_place(fs, folder, LogConfig.of({**SETTINGS, "file.delete.delay.ms": 0}), NOW).open(fs, folder) as log:
        return read_records(log)


def read_records(log: PartitionLog) -> Records:
    entries = (entry for segment in log.segments for entry in segment.log.iter_entries())
    found = ((record.offset, record.key, record.value) for entry in entries for record in entry)
    return [record for record in found if record[0] >= log.log_start_offset]


def marker_is_true(image: Files, before: Files) -> bool:
    """While a broker would believe that the log was shut down in order, nothing in it has changed."""

    def log(files: Files) -> Files:
        return {path: content for path, content in files.items() if path.startswith(FOLDER)}

    return MARKER not in image or log(image) == log(before)


def old_or_new(files: Callable[[], Files]) -> Callable[[Files, Files], bool]:
    before = opened_records(files())

    def holds(image: Files, complete: Files) -> bool:
        found = opened_records(image)
        return found in (before, opened_records(complete)) and marker_is_true(image, files()) and times_are_right(image)

    return holds


def times_are_right(image: Files) -> bool:
    """The time indexes agree with the log, also those that are trusted because they lie before the recovery point."""
    fs = SimulatedFs(image)
    with opening_in_place(fs, FOLDER, LogConfig.of(SETTINGS), NOW).open(fs, FOLDER) as log:
        return all(
            segment.largest_timestamp == max(entry.max_timestamp for entry in segment.log.iter_entries())
            for segment in log.segments
            if segment.size
        )


def settled(files: Files) -> object:
    """The records and the names of the live segments; the other files depend on how the log was opened.

    A file on its way to its name stays until that file is written again; nobody reads it.
    """
    live = sorted(path for path in files if path.endswith(".log") and "/." not in path)
    leftovers = [path for path in files if path.endswith((".cleaned", ".swap")) or ".inprogress/" in path]
    return opened_records(files), *(opened_records(files, folder) for folder in (NEW, SECOND)), live, leftovers


# the jobs


def partition_of(fs: SimulatedFs) -> Partition:
    """As `maintenance.partitions_for` finds it on a real disk."""
    if any(name.endswith((".cleaned", ".swap")) for name in fs.list(FOLDER)):
        settle_interrupted(fs, FOLDER, LogConfig.of(SETTINGS), NOW)
    (partition,) = find_partitions(MemoryStore(fs.files()), FOLDER)
    return partition


def maintaining(operation: Operation, **settings: str) -> Callable[[SimulatedFs], None]:
    def run(fs: SimulatedFs) -> None:
        maintain_partition(partition_of(fs), operation, ChangeRequest(None, True, now_ms=NOW, fs=fs), {**SETTINGS, **settings})

    return run


def compacting_a_copy(fs: SimulatedFs) -> None:
    settings = {**SETTINGS, "cleanup.policy": "compact"}
    maintain_partition(partition_of(fs), Compaction(), ChangeRequest(os.path.dirname(NEW), now_ms=NOW, fs=fs), settings)


def converting(fs: SimulatedFs) -> None:
    convert_partition(partition_of(fs), ChangeRequest(None, True, fs=fs), Recoding(codecs.GZIP), None, Limits())


RECORDS = b"".join(b'{"key": "new-%d", "value": "%s", "timestamp": %d}\n' % (row, b"v" * 60, NOW) for row in range(60))


@cache
def source_path() -> str:
    """The records to append, in a real file: standard input and files are not part of the simulated disk."""
    with tempfile.NamedTemporaryFile("wb", suffix=".jsonl", delete=False) as file:
        file.write(RECORDS)
    atexit.register(os.unlink, file.name)
    return file.name


def appending(to: str) -> Callable[[SimulatedFs], None]:
    def run(fs: SimulatedFs) -> None:
        append_records([source_file(source_path())], Target.of(to, None), AppendOptions(NOW, config=SETTINGS), fs)

    return run


def appending_to_a_topic(fs: SimulatedFs) -> None:
    """In segments of the usual size: how a segment ends is part of the other jobs."""
    options = AppendOptions(NOW, partitions=2, config=ONE_SEGMENT)
    append_records([source_file(source_path())], Target.of(os.path.dirname(NEW), "orders"), options, fs)


def appended_holds(image: Files, complete: Files) -> bool:
    """The old records stay; whole batches of the appended ones follow, without a gap."""
    found, whole = opened_records(image), opened_records(complete)
    assert whole is not None
    is_prefix = found is not None and len(found) >= 50 and found == whole[: len(found)]
    return is_prefix and marker_is_true(image, three_segments()) and job_is_whole(image)


def copy_or_nothing(image: Files, complete: Files) -> bool:
    """The source is only read; of the copy there is nothing, or all and the journal by which a second run recognises it."""

    def below(files: Files, folder: str) -> Files:
        return {path: content for path, content in files.items() if path.startswith(folder + "/")}

    copied, journal = below(image, NEW), f"{NEW}.compact.json"
    is_whole = copied == below(complete, NEW) and image.get(journal) == complete[journal]
    return below(image, LOGS) == below(complete, LOGS) and (not copied or is_whole)


def new_or_nothing(image: Files, complete: Files) -> bool:
    return opened_records(image, NEW) in (None, opened_records(complete, NEW)) and job_is_whole(image)


def partitions_or_nothing(image: Files, complete: Files) -> bool:
    """Each of the new partitions complete, or not there; between them a crash may come."""
    found = [opened_records(image, folder) in (None, opened_records(complete, folder)) for folder in (NEW, SECOND)]
    return all(found) and job_is_whole(image)


def job_is_whole(image: Files) -> bool:
    """The job file of an append can be read, if it is there."""
    return all(_is_json(content) for path, content in image.items() if path.endswith(".append.json"))


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except ValueError:
        return False
    return True


def truncated_holds(image: Files, complete: Files) -> bool:
    """The log ends somewhere between its old and its new end."""
    before, after, found = opened_records(three_segments()), opened_records(complete), opened_records(image)
    assert before is not None
    assert after is not None
    is_between = found is not None and len(found) >= len(after) and found == before[: len(found)]
    return is_between and marker_is_true(image, three_segments())


def converted_holds(image: Files, complete: Files) -> bool:
    """The records are the same all along."""
    is_same = opened_records(image) == opened_records(complete)
    return is_same and marker_is_true(image, flushed_segments()) and times_are_right(image)


def recovered_holds(image: Files, complete: Files) -> bool:
    """A broker recovers the same log, however far we came."""
    return opened_records(image) == opened_records(complete)


def with_source(files: Callable[[], Files]) -> Callable[[], Files]:
    return lambda: {**files(), "/in/records.jsonl": RECORDS}


def in_place(*arguments: str) -> Callable[[str], list[str]]:
    command, *options = arguments
    now = ["--now", str(NOW)] if command in ("compact", "retain", "recover") else []
    return lambda folder: [command, folder + FOLDER, "--in-place", *options, *now, *(CONFIG if command != "convert" else [])]


def append_arguments(to: str) -> Callable[[str], list[str]]:
    return lambda folder: ["append", f"{folder}/in/records.jsonl", "--to", folder + to, "--now", str(NOW), *CONFIG]


def append_topic_arguments(folder: str) -> list[str]:
    topic = ["--topic", "orders", "--partitions", "2", "--config", "segment.index.bytes=96"]
    return ["append", f"{folder}/in/records.jsonl", "--to", f"{folder}/new", "--now", str(NOW), *topic]


# Why syncs are made that no image needs; docs/write.md has them too.
EPOCHS = "Kafka has the name of an epoch checkpoint durable before the epoch's first record; here recovery finds the epochs again"
SAME_FOLDER = "each of two steps sees to itself; that the second syncs the same folder, before it matters, is chance"
NEWEST = "convert replaces all segments in one way; the newest is recovered anyway, so of its indexes nothing is believed"
TRANSIENT = "a snapshot that the same run takes and removes: Kafka's engine syncs each"


def job(
    name: str,
    files: Callable[[], Files],
    run: Callable[[SimulatedFs], None],
    holds: Callable[[Files, Files], bool],
    arguments: Callable[[str], list[str]],
    excused: Mapping[int, str] | None = None,
) -> Job:
    return Job(name, files, run, holds, arguments, settled, excused or {})


JOBS = (
    job(
        "append",
        with_source(three_segments),
        appending(FOLDER),
        appended_holds,
        append_arguments(FOLDER),
        {8: EPOCHS, 34: SAME_FOLDER},
    ),
    job(
        "append-new",
        with_source(three_segments),
        appending(NEW),
        new_or_nothing,
        append_arguments(NEW),
        {18: SAME_FOLDER},
    ),
    job(
        "convert",
        flushed_segments,
        converting,
        converted_holds,
        in_place("convert", "--codec", "gzip"),
        {17: NEWEST, 19: NEWEST},
    ),
    job(
        "compact",
        dirty_segments,
        maintaining(Compaction(), **{"cleanup.policy": "compact"}),
        old_or_new(dirty_segments),
        in_place("compact"),
        {10: SAME_FOLDER},
    ),
    job(
        "compact-out",
        dirty_segments,
        compacting_a_copy,
        copy_or_nothing,
        lambda folder: ["compact", folder + FOLDER, "--out", f"{folder}/new", "--now", str(NOW), *CONFIG],
        {3: SAME_FOLDER},
    ),
    job(
        "retain",
        three_segments,
        maintaining(Retention(25), **UNLIMITED),
        old_or_new(three_segments),
        in_place("retain", "--start-offset", "25"),
        {1: SAME_FOLDER},
    ),
    job(
        "truncate",
        three_segments,
        maintaining(Truncation(15)),
        truncated_holds,
        in_place("truncate", "--to-offset", "15"),
        {4: TRANSIENT},
    ),
    job("recover", damaged_segments, maintaining(Recovery()), recovered_holds, in_place("recover", "--yes")),
)

# Its images are too many: two new partitions, each of whose files may or may not be durable. Steps that fail are not.
TOPIC = job("append-topic", with_source(three_segments), appending_to_a_topic, partitions_or_nothing, append_topic_arguments)
