"""A bucket with as many segments as wanted, of which nothing is stored: names, sizes and bytes follow from their numbers.

A segment is one batch repeated: a batch's checksum covers neither its base offset nor its leader epoch, so every copy is a
valid batch of its own, and any range of any file can be made when it is read. Requests are counted as S3 would charge them, and
each takes as long as asked for.
"""

from __future__ import annotations

import functools
import importlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np

from kafkalog.errors import StorageError
from kafkalog.format.checkpoint import EpochStart
from kafkalog.format.names import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, parse_file_name, segment_file_name
from kafkalog.storage import open_store
from kafkalog.storage.object_store import REQUESTS_AT_ONCE
from kafkalog.storage.store import Entry, Fingerprint, OpenedSource, read_whole, require_plain_name
from tests.builders.small_logs import made_batch

BUCKET: Final = "s3://lake"
PAGE_KEYS: Final = 1000  # that S3 lists in one request
PARTITIONS_OF_TOPIC: Final = 20
RECORDS: Final = 100
SPREAD: Final = 17  # segments differ in size by up to so many batches
FIRST_TIME_NS: Final = 1_700_000_000_000_000_000
HOUR_NS: Final = 3_600_000_000_000
KINDS: Final = ("index", "log", "timeindex")
FILES_OF_SEGMENT: Final = len(KINDS)
MODULES: Final = ("read_plan", "splits", "shipped_kernels", "task_reading")  # that open stores by their URI
OBJECT_GAP: Final = 65536


@functools.cache
def batch_bytes() -> bytes:
    """The batch that every segment repeats."""
    return made_batch(0, RECORDS, leader_epoch=0)


class LakeFile(OpenedSource):
    """An object whose bytes are made when they are read; a read is a request."""

    minimum_gap = OBJECT_GAP

    def __init__(self, store: LakeStore, path: str, size: int, mtime_ns: int) -> None:
        self._store = store
        self._path = path
        self._fingerprint = Fingerprint(path, size, mtime_ns)

    def read_into(self, position: int, target: memoryview) -> int:
        self._store.request("read")
        count = min(len(target), max(self.size - position, 0))
        target[:count] = self._store.content(self._path, position, count)
        return count

    def refresh(self) -> int:
        return self.size

    def fileno(self) -> int | None:
        return None

    def data_ranges(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        yield start, min(stop, self.size)

    def close(self) -> None:
        pass


class LakeStore:
    """`partitions` folders of `segments` segments each, about `segment_batches` batches long.

    `added` has the partitions that have got more segments since; `page_seconds` is the time of a listing page, `read_seconds`
    that of any other request. `requests` counts both by kind, `most_at_once` is the largest number at the same time.
    """

    requests_at_once = REQUESTS_AT_ONCE

    def __init__(
        self,
        partitions: int,
        segments: int,
        *,
        segment_batches: int = 8192,
        page_seconds: float = 0.0,
        read_seconds: float = 0.0,
    ) -> None:
        self.partitions = partitions
        self.segments = segments
        self.segment_batches = segment_batches
        self.page_seconds = page_seconds
        self.read_seconds = read_seconds
        self.added: dict[int, int] = {}
        self.requests: Counter[str] = Counter()
        self.most_at_once = 0
        self._running = 0
        self._lock = threading.Lock()

    def request(self, kind: str, count: int = 1) -> None:
        with self._lock:
            self.requests[kind] += count
            self._running += 1
            self.most_at_once = max(self.most_at_once, self._running)
        seconds = self.page_seconds if kind == "page" else self.read_seconds
        if seconds:
            time.sleep(seconds * count)
        with self._lock:
            self._running -= 1

    # -- the lake ------------------------------------------------------------------------------------------------------------

    def folder(self, partition: int) -> str:
        topic, number = divmod(partition, PARTITIONS_OF_TOPIC)
        return f"topic{topic:04}-{number}"

    def _number(self, folder: str) -> int | None:
        """The number of the partition in the lake; None if there is no such folder."""
        topic, found, number = folder.removeprefix("topic").rpartition("-")
        if not found or not topic.isdigit() or not number.isdigit():
            return None
        partition = int(topic) * PARTITIONS_OF_TOPIC + int(number)
        return partition if partition < self.partitions and self.folder(partition) == folder else None

    def _counts(self, partition: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The batches of each segment."""
        numbers = np.arange(self.segments + self.added.get(partition, 0), dtype=np.int64)
        return self.segment_batches + (numbers * 7919 + partition * 104729) % SPREAD

    def _bases(self, partition: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The base offset of each segment, and the end of the log."""
        return np.concatenate(([0], np.cumsum(self._counts(partition)))) * RECORDS

    def end_offset(self, partition: int) -> int:
        return int(self._bases(partition)[-1])

    def files(self, partition: int) -> Iterator[Entry]:
        """In the order of their names."""
        bases = self._bases(partition).tolist()
        for number, count in enumerate(self._counts(partition).tolist()):
            for kind in KINDS:
                yield self._file(bases[number], kind, count, number)
        for name in (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA):
            yield Entry(name, "file", len(self._small(partition, name)), FIRST_TIME_NS)

    def _file(self, base_offset: int, kind: str, count: int, number: int) -> Entry:
        size = {"log": len(batch_bytes()), "index": 8, "timeindex": 12}[kind] * count
        return Entry(segment_file_name(base_offset, kind), "file", size, FIRST_TIME_NS + number * HOUR_NS)

    def _small(self, partition: int, name: str) -> bytes:
        if name == LEADER_EPOCH_CHECKPOINT:
            start = EpochStart(0, 0)
            return f"0\n1\n{start.epoch} {start.start_offset}\n".encode()
        return f"version: 0\ntopic_id: {partition // PARTITIONS_OF_TOPIC:022}\n".encode()

    def listed(self, folder: str) -> list[Entry]:
        if folder.rstrip("/") == BUCKET:
            names = sorted(self.folder(partition) for partition in range(self.partitions))
            return [Entry(name, "folder", 0, 0) for name in names]
        partition = self._number(self.name(folder))
        return [] if partition is None else [*self.files(partition)]

    def objects(self) -> Iterator[tuple[str, bytes]]:
        """Key and content of every object, to be put into a real bucket."""
        for partition in range(self.partitions):
            folder = self.folder(partition)
            for entry in self.files(partition):
                yield f"{folder}/{entry.name}", self.content(f"{BUCKET}/{folder}/{entry.name}", 0, entry.size)

    # -- a store -------------------------------------------------------------------------------------------------------------

    def list(self, folder: str) -> list[Entry]:
        entries = self.listed(folder)
        self.request("page", max(-(-len(entries) // PAGE_KEYS), 1))
        return entries

    def stat(self, path: str) -> Entry | None:
        self.request("stat")
        return self._found(path)

    def _found(self, path: str) -> Entry | None:
        if path.rstrip("/") == BUCKET or self._number(self.name(path)) is not None:
            return Entry(self.name(path), "folder", 0, 0)
        partition, name = self._number(self.name(self.parent(path))), self.name(path)
        if partition is None:
            return None
        if name in (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA):
            return Entry(name, "file", len(self._small(partition, name)), FIRST_TIME_NS)
        parsed = parse_file_name(name)
        bases = self._bases(partition)
        if parsed is None or parsed.kind not in KINDS or parsed.base_offset not in bases[:-1]:
            return None
        number = int(np.searchsorted(bases, parsed.base_offset))
        return self._file(parsed.base_offset, parsed.kind, int(self._counts(partition)[number]), number)

    def open(self, path: str) -> LakeFile:
        self.request("open")
        entry = self._found(path)
        if entry is None or entry.kind != "file":
            raise StorageError(f"{path}: no such object", file=path)
        return LakeFile(self, path, entry.size, entry.mtime_ns)

    def read_small(self, path: str, limit: int) -> bytes:
        with self.open(path) as source:
            return read_whole(source, limit)

    def join(self, folder: str, name: str) -> str:
        return f"{folder.rstrip('/')}/{require_plain_name(folder, name)}"

    def parent(self, path: str) -> str:
        return path.rpartition("/")[0]

    def name(self, path: str) -> str:
        return path.rpartition("/")[2]

    # -- bytes ---------------------------------------------------------------------------------------------------------------

    def content(self, path: str, position: int, size: int) -> bytes:
        """A range of a file."""
        parsed = parse_file_name(self.name(path))
        assert parsed is not None
        if parsed.kind not in KINDS:
            whole = self._small(self._number(self.name(self.parent(path))) or 0, parsed.kind)
            return whole[position : position + size]
        step = {"log": len(batch_bytes()), "index": 8, "timeindex": 12}[parsed.kind]
        first, last = position // step, -(-(position + size) // step)
        made = {"log": _log, "index": _index, "timeindex": _time_index}[parsed.kind](parsed.base_offset, first, last)
        return made[position - first * step : position - first * step + size]


def _log(base_offset: int, first: int, last: int) -> bytes:
    """Batches by their numbers in the segment."""
    made = np.tile(np.frombuffer(batch_bytes(), np.uint8), (last - first, 1))
    offsets = (base_offset + np.arange(first, last, dtype=np.int64) * RECORDS).astype(">i8")
    made[:, :8] = offsets.view(np.uint8).reshape(-1, 8)
    return made.tobytes()


def _index(base_offset: int, first: int, last: int) -> bytes:
    """An entry for each batch: its last offset, relative, and its position."""
    numbers = np.arange(first, last, dtype=np.int64)
    made = np.stack(((numbers + 1) * RECORDS - 1, numbers * len(batch_bytes())), axis=1)
    return made.astype(">i4").tobytes()


def _time_index(base_offset: int, first: int, last: int) -> bytes:
    made = np.zeros(last - first, np.dtype([("timestamp", ">i8"), ("offset", ">i4")]))
    made["timestamp"] = FIRST_TIME_NS // 1_000_000
    made["offset"] = (np.arange(first, last) + 1) * RECORDS - 1
    return made.tobytes()


@contextmanager
def mounted(store: LakeStore) -> Iterator[str]:
    """The URI of the lake, which Spark's plans and tasks open as any other while the block runs."""
    modules = [importlib.import_module(f"kafkalog.spark.{name}") for name in MODULES]

    def opened(path: str) -> tuple[LakeStore, str]:
        return store, path.rstrip("/")

    for module in modules:
        module.open_store = opened  # type: ignore[attr-defined]
    try:
        yield BUCKET
    finally:
        for module in modules:
            module.open_store = open_store  # type: ignore[attr-defined]
