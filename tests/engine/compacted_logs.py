"""Logs to compact: made step by step from random choices, on a disk of any kind, and read as a consumer reads them."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Sequence
from typing import Any

from kafkalog import codecs
from kafkalog.engine.building import RecordsBuilder
from kafkalog.engine.cleaner import Cleaner, CleanerSelection, CleanResult, OffsetMap, clean_filthiest
from kafkalog.engine.cleaner.selection import find_cleanable_offsets, log_to_clean
from kafkalog.engine.config import LogConfig
from kafkalog.engine.entries import Entry, iter_entries
from kafkalog.engine.entry_records import Record
from kafkalog.engine.partition_log import PartitionLog
from kafkalog.engine.schedule import ManualClock
from kafkalog.format import batch
from kafkalog.format.control import ABORT, decode_control_type
from kafkalog.storage.fs import Fs
from tests.builders.simulated_disk import SimulatedFs

NOW = 1_700_000_000_000
DELETE_RETENTION_MS = 1000
COMPACT = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "2000",
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": str(DELETE_RETENTION_MS),
    "file.delete.delay.ms": "0",
}

Pair = tuple[bytes | None, bytes | None]
Step = tuple[Any, ...]

KEYS = (b"a", b"b", b"c", b"", b"a longer key")
CODECS = (codecs.NONE, codecs.NONE, codecs.GZIP, codecs.SNAPPY, codecs.LZ4, codecs.ZSTD)
OLD_CODECS = (codecs.NONE, codecs.GZIP, codecs.LZ4)
PRODUCERS = (-1, -1, 5)
TRANSACTIONAL = (6, 7, 8)
WAITS = (1, DELETE_RETENTION_MS, 3 * DELETE_RETENTION_MS)
MAP_SLOTS = (3, 5, 1000)
BUFFERS = (300, 1 << 19)


class Disk(SimulatedFs):
    """A disk whose files are all new: messages without delete horizons go by the age of their file."""

    def modified_ms(self, path: str) -> int:
        return super().modified_ms(path) or NOW


class Log:
    """A partition log on a simulated disk, its cleaner, and its producers."""

    def __init__(self, directory: str = "/logs", fs: Fs | None = None, now_ms: int = NOW, segment_bytes: int = 2000) -> None:
        self.fs = fs or Disk()
        self.clock = ManualClock(now_ms)
        config = LogConfig.of(COMPACT | {"internal.segment.bytes": segment_bytes})
        folder = f"{directory}/t-0"
        self.log = PartitionLog.open(folder, config, fs=self.fs, clock=self.clock, clean=True, transaction_verification=False)
        self.log.update_high_watermark(self.log.log_end_offset)
        self.selection = CleanerSelection(directory, [self.log], self.fs)
        self.sequences: dict[int, int] = {}

    def append(
        self,
        pairs: Sequence[Pair],
        *,
        codec: int = codecs.NONE,
        producer_id: int = -1,
        is_transactional: bool = False,
        magic: int = 2,
    ) -> None:
        """One batch, or one compressed or plain set of messages, as a leader before it has stored it."""
        first = self.log.log_end_offset
        sequence = self.sequences.get(producer_id, 0) if producer_id >= 0 else -1
        builder = RecordsBuilder(
            first,
            magic=magic,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
            is_transactional=is_transactional,
            timestamp_type=batch.CREATE_TIME if magic else batch.NO_TIMESTAMP_TYPE,
            partition_leader_epoch=0 if magic == 2 else -1,
        )
        for offset, (key, value) in enumerate(pairs, first):
            builder.append(offset, self.clock.now + offset, key, value)
        self.sequences[producer_id] = sequence + len(pairs)
        self.log.append_as_follower(builder.build(), 0)
        self.log.update_high_watermark(self.log.log_end_offset)

    def end(self, producer_id: int, *, commit: bool) -> None:
        self.log.end_transaction(producer_id, 0, commit)
        self.log.update_high_watermark(self.log.log_end_offset)

    def roll(self) -> None:
        self.log.roll()
        self.log.run_due_tasks()

    def clean(self, slots: int = 1000, **options: Any) -> CleanResult | None:
        result = clean_filthiest(self.selection, Cleaner(OffsetMap(24 * slots), **options), self.clock.now)
        self.log.run_due_tasks()
        return result

    def clean_all(self, slots: int = 1000, **options: Any) -> tuple[int, int]:
        """Pass after pass, until nothing is dirty; the records that they read, and those that they kept."""
        read = kept = 0
        while (result := self.clean(slots, **options)) is not None:
            read += result.stats.messages_read
            kept += result.stats.messages_written
        return read, kept

    def clean_again(self) -> None:
        """A pass over everything, though all of it is clean."""
        offsets = find_cleanable_offsets(self.log, None, self.clock.now)
        Cleaner(OffsetMap(24 * 1000)).clean(log_to_clean(self.log, offsets), self.clock.now)
        self.log.run_due_tasks()

    @property
    def entries(self) -> list[Entry]:
        return [entry for segment in self.log.segments.values for entry in iter_entries(segment.log.read(0, segment.size))]

    @property
    def records(self) -> list[Record]:
        return [record for entry in self.entries if not entry.is_control_batch for record in entry]

    def close(self) -> None:
        """As at a clean stop."""
        self.log.flush(force=True)
        self.log.run_due_tasks()
        self.log.close()

    def files(self) -> dict[str, bytes]:
        assert isinstance(self.fs, SimulatedFs)
        return {name: bytes(data) for name, data in self.fs.files().items() if data is not None}


def consume(log: PartitionLog) -> dict[bytes | None, bytes]:
    """The last values by key, without deletes, that a consumer of committed records has after it has read everything."""
    found: dict[bytes | None, bytes] = {}
    offset = log.log_start_offset
    while (fetched := log.read(offset, isolation="committed")).data:
        for entry, is_aborted in _committed(list(iter_entries(fetched.data)), fetched.aborted or ()):
            for record in () if is_aborted or entry.is_control_batch else entry:
                if record.offset >= offset:
                    found.pop(record.key, None)
                    if record.value is not None:
                        found[record.key] = record.value
        offset = entry.next_offset
    return found


def _committed(entries: list[Entry], aborted: Iterable[tuple[int, int]]) -> Iterable[tuple[Entry, bool]]:
    """Each entry, and whether it belongs to an aborted transaction: the rule of Kafka's consumer."""
    waiting = [(first_offset, producer_id) for producer_id, first_offset in aborted]
    heapq.heapify(waiting)
    active: set[int] = set()
    for entry in entries:
        while waiting and waiting[0][0] <= entry.last_offset:
            active.add(heapq.heappop(waiting)[1])
        if entry.is_control_batch:
            if any(decode_control_type(record.key) == ABORT for record in entry):
                active.discard(entry.producer_id)
            yield entry, False
        else:
            yield entry, entry.is_transactional and entry.producer_id in active


def run_steps(log: Log, chosen: Sequence[Step]) -> set[int]:
    """The producers whose transaction is open at the end. Steps that make no sense are left out."""
    ongoing: set[int] = set()
    for step in chosen:
        if step[0] == "append":
            log.append(step[1], codec=step[2], producer_id=step[3])
        elif step[0] == "transaction":
            ongoing.add(step[3])
            log.append(step[1], codec=step[2], producer_id=step[3], is_transactional=True)
        elif step[0] == "end" and step[1] in ongoing:
            ongoing.discard(step[1])
            log.end(step[1], commit=step[2])
        elif step[0] == "old":
            log.append(step[1], codec=step[2], magic=step[3])
        elif step[0] == "roll":
            log.roll()
        elif step[0] == "wait":
            log.clock.now += step[1]
        elif step[0] == "clean":
            log.clean(step[1], io_buffer_bytes=step[2])
    return ongoing


def random_steps(chance: random.Random, count: int) -> list[Step]:
    """Steps as the strategies of test_cleaner.py make them."""
    return [_random_step(chance) for _ in range(count)]


def _random_step(chance: random.Random) -> Step:
    kind = chance.choice(
        ("append", "append", "append", "transaction", "transaction", "end", "end", "old", "roll", "wait", "clean")
    )
    pairs = [
        (chance.choice(KEYS), chance.choice((None, chance.randbytes(chance.randrange(30)))))
        for _ in range(chance.randrange(1, 7))
    ]
    choices: dict[str, tuple[Any, ...]] = {
        "append": (pairs, chance.choice(CODECS), chance.choice(PRODUCERS)),
        "transaction": (pairs, chance.choice(CODECS), chance.choice(TRANSACTIONAL)),
        "end": (chance.choice(TRANSACTIONAL), chance.random() < 0.5),
        "old": (pairs[:3], chance.choice(OLD_CODECS), chance.choice((0, 1))),
        "wait": (chance.choice(WAITS),),
        "clean": (chance.choice(MAP_SLOTS), chance.choice(BUFFERS)),
    }
    return (kind, *choices.get(kind, ()))
