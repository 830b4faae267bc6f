"""Files that change while they are read (T-15, T-16), end in zeros (T-17) or in a batch written by halves (T-18)."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import numpy as np

import kafkalog
from kafkalog.errors import KafkaLogError, SegmentChanged, StorageError
from kafkalog.format import reference
from kafkalog.format.index import OFFSET_INDEX_ENTRY, read_offset_index
from kafkalog.log.folders import find_partitions
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import ReadReport
from kafkalog.storage import open_store
from kafkalog.tables.records import record_batches

from .golden_set import BASE_OFFSET
from .outcome import SCHEMA, read
from .tally import Tally

GIB = 1 << 30
SECTOR = 512
CPU_SECONDS_PER_TAIL = 10.0  # a tenth of a second even where a file system hands out a gibibyte of zeros as data


@contextmanager
def partition_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kafkalog-damage-") as name:
        folder = Path(name) / "moving-0"
        folder.mkdir()
        yield folder


def segment_file(folder: Path) -> Path:
    return folder / f"{BASE_OFFSET:020d}.log"


def make_segment(random: Random, batches: int, largest_value: int = 200) -> bytes:
    """Batches of one record each, with contiguous offsets."""
    parts = []
    for number in range(batches):
        value = random.randbytes(random.randint(1, largest_value))
        record = reference.Record(BASE_OFFSET + number, 1_700_000_000_000 + number, b"key", value)
        parts.append(reference.encode_batch([record], leader_epoch=1))
    return b"".join(parts)


# T-15


def check_appends(reads: int) -> Tally:
    """T-15: a writer appends in pieces of 1 to 120 bytes; no read fails, and none gives fewer records than the one before."""
    tally = Tally()
    data = make_segment(Random(15), 8_000)
    with partition_folder() as folder:
        path = segment_file(folder)
        path.write_bytes(b"")
        stop = threading.Event()
        writer = threading.Thread(target=_append, args=(path, data, stop))
        writer.start()
        try:
            records = 0
            for number in range(reads):
                with tally.case(f"read {number} beside a writer"):
                    tally.reads += 1
                    found = sum(batch.num_rows for batch in kafkalog.open(folder).read(columns=["offset"], threads=1))
                    tally.expect(found >= records, f"read {number}: {found} records after {records}")
                    records = found
        except KafkaLogError as error:
            tally.fail("crashes", f"a read beside a writer ended in {error!r}")
        finally:
            stop.set()
            writer.join()
    return tally


def _append(path: Path, data: bytes, stop: threading.Event) -> None:
    random = Random(115)
    position = 0
    with path.open("ab", buffering=0) as file:
        while position < len(data) and not stop.is_set():
            size = random.randint(1, 120)
            file.write(data[position : position + size])
            position += size
            time.sleep(0.0003)


# T-16


def check_replaced_files(moments: int) -> Tally:
    """T-16: the segment is cut, renamed, deleted or replaced during a read: an error that says so, or nothing but its records."""
    tally = Tally()
    random = Random(16)
    data = make_segment(random, 3_000)
    other = make_segment(Random(99), 3_000)
    expected = list(range(BASE_OFFSET, BASE_OFFSET + 3_000))
    for moment in range(moments):
        action = ("truncate", "rename", "unlink", "replace")[moment % 4]
        with partition_folder() as folder, tally.case(f"{action} at moment {moment}"):
            path = segment_file(folder)
            path.write_bytes(data)
            tally.reads += 1
            offsets, error = _read_disturbed(path, action, other, random)
            case = f"{action} at moment {moment}"
            tally.expect(offsets == expected[: len(offsets)], f"{case}: other records")
            if error is None:
                tally.expect(len(offsets) == len(expected), f"{case}: {len(offsets)} of {len(expected)} records, no error")
            else:
                tally.expect(isinstance(error, SegmentChanged | StorageError), f"{case}: {error!r}")
    return tally


def _read_disturbed(path: Path, action: str, other: bytes, random: Random) -> tuple[list[int], KafkaLogError | None]:
    """The offsets given by a read in small windows, during which `action` changes the file."""
    store, place = open_store(path.parent)
    options = ReadOptions(frozenset(SCHEMA.names), threads=1 + random.randrange(2), window_bytes=16 << 10)
    when = random.randrange(0, 30)
    size = path.stat().st_size
    offsets: list[int] = []
    try:
        for number, found in enumerate(record_batches(find_partitions(store, place), SCHEMA, options, ReadReport())):
            offsets += found["offset"].to_pylist()
            if number == when:
                disturb(path, action, other, random.randrange(size))
    except KafkaLogError as error:
        return offsets, error
    return offsets, None


def disturb(path: Path, action: str, other: bytes, size: int) -> None:
    if action == "truncate":
        os.truncate(path, size)
    elif action == "rename":
        path.rename(path.with_suffix(".log.deleted"))
    elif action == "unlink":
        path.unlink()
    else:
        replacement = path.with_suffix(".new")
        replacement.write_bytes(other)
        replacement.rename(path)


# T-17


def check_zero_tails(quick: bool) -> Tally:
    """T-17: a tail of zeros is a tail, also of a gibibyte and in no time; an index padded with zeros is what it was."""
    tally = Tally()
    data = make_segment(Random(17), 20)
    for size in (1, 11, 12, 16, 17, 26, 61, SECTOR, 4096, 1 << 20, 1 << 26, GIB):
        with partition_folder() as folder, tally.case(f"a tail of {size} zeros"):
            path = segment_file(folder)
            path.write_bytes(data)
            os.truncate(path, len(data) + size)
            for mode in ("strict", "skip", "salvage"):
                report = ReadReport()
                tally.reads += 1
                start = time.process_time()
                logs = kafkalog.open(folder)
                count = sum(batch.num_rows for batch in logs.read(columns=["offset"], on_damage=mode, threads=1, report=report))
                seconds = time.process_time() - start
                case = f"{mode}: a tail of {size} zeros"
                tally.expect(count == 20, f"{case}: {count} records", "lost")
                tails = [(tail.reason, tail.position, tail.length) for tail in report.tails]
                tally.expect(tails == [("zero-tail", len(data), size)], f"{case}: {tails} {report.dropped}")
                tally.expect(seconds < CPU_SECONDS_PER_TAIL, f"{case}: {seconds:.2f} s", "hangs")
    with tally.case("an index with 10 MiB of zeros"):
        entries = np.array([(7, 600), (11, 1200)], OFFSET_INDEX_ENTRY)
        padded = entries.tobytes() + bytes(10 << 20)
        found = read_offset_index(padded, BASE_OFFSET).tolist()
        tally.expect(found == [(BASE_OFFSET + 7, 600), (BASE_OFFSET + 11, 1200)], f"padded index: {found[:5]}")
    return tally


# T-18


def check_torn_batches(quick: bool) -> Tally:
    """T-18: the last batch has any subset of its eight sectors on disk: entries before it are read, and the tail is reported."""
    tally = Tally()
    for missing, first, torn in torn_images():
        for mode in ("strict", "skip", "salvage"):
            case = f"{mode}: sectors {missing:08b} missing"
            with tally.case(case):
                tally.reads += 1
                outcome = read({f"/logs/golden-0/{BASE_OFFSET:020d}.log": first + torn}, on_damage=mode)
                expected = [BASE_OFFSET] if missing else [BASE_OFFSET, BASE_OFFSET + 1]
                tally.expect(outcome.error is None and outcome.offsets == expected, f"{case}: {outcome.offsets}, {outcome.error}")
                report = outcome.report
                tally.expect(len(report.tails) == bool(missing), f"{case}: {report.tails} {report.dropped}")
    return tally


def torn_images() -> Iterator[tuple[int, bytes, bytes]]:
    """(which sectors are missing, the batch before, the last batch without them): all 2^8."""
    random = Random(18)
    first = _batch_of_size(BASE_OFFSET, 2 * SECTOR, random)
    last = _batch_of_size(BASE_OFFSET + 1, 8 * SECTOR, random)
    for missing in range(1 << 8):
        torn = bytearray(last)
        for sector in range(8):
            if missing >> sector & 1:
                torn[sector * SECTOR : (sector + 1) * SECTOR] = bytes(SECTOR)
        yield missing, first, bytes(torn)


def _batch_of_size(offset: int, size: int, random: Random) -> bytes:
    empty = len(reference.encode_batch([reference.Record(offset, 1, None, bytes(size - 200))]))
    record = reference.Record(offset, 1, None, random.randbytes(size - 200 + size - empty))
    data = reference.encode_batch([record])
    assert len(data) == size
    return data
