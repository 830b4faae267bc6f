"""Index files that lie (T-25), snapshots and checkpoints cut short (T-26). None of them is trusted.

And all tables of a damaged log (T-01, T-02): those that replay headers have to end well too.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import numpy as np

from kafkalog.errors import KafkaLogError
from kafkalog.format import reference
from kafkalog.format.checkpoint import (
    EpochStart,
    PartitionMetadata,
    PartitionOffset,
    encode_leader_epoch_checkpoint,
    encode_offset_checkpoint,
    encode_partition_metadata,
)
from kafkalog.format.index import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY, TXN_INDEX_ENTRY
from kafkalog.format.snapshot import PRODUCERS, encode_snapshot
from kafkalog.log.folders import find_partitions
from kafkalog.log.report import ReadReport
from kafkalog.tables.logs import Logs
from kafkalog.tables.schemas import LOG_TABLES
from tests.builders.memory_store import MemoryStore

from .golden_set import BASE_OFFSET, FOLDER, framed, golden_segment, segment_path
from .outcome import read
from .tally import Tally

ENTRIES = 40
KINDS = ("index", "timeindex", "txnindex")


def indexed_segment(magic: int, codec: int) -> tuple[bytes, list[tuple[int, int]]]:
    """A segment of 40 entries of three records, and (last offset, position) of each."""
    random = Random(25 + magic + codec)
    data, places = b"", []
    for number in range(ENTRIES):
        offset = BASE_OFFSET + 3 * number
        timestamp = 1_700_000_000_000 + number if magic else -1
        records = [reference.Record(offset + row, timestamp, b"k", random.randbytes(20)) for row in range(3)]
        places.append((offset + 2, len(data)))
        if magic == 2:
            data += reference.encode_batch(records, codec=codec, compress=framed, leader_epoch=1)
        elif codec:
            data += reference.encode_wrapper(records, codec=codec, compress=framed, magic=magic)
        else:
            data += b"".join(reference.encode_message(record, magic=magic) for record in records)
    return data, places


def right_indexes(places: list[tuple[int, int]]) -> dict[str, bytes]:
    offsets = [(last - BASE_OFFSET, position) for last, position in places[1:]]
    times = [(1_700_000_000_000 + number, last - BASE_OFFSET) for number, (last, _) in enumerate(places)]
    aborted = [(0, 9, BASE_OFFSET, BASE_OFFSET + 5, BASE_OFFSET + 6)]
    return {
        "index": np.array(offsets, OFFSET_INDEX_ENTRY).tobytes(),
        "timeindex": np.array(times, TIME_INDEX_ENTRY).tobytes(),
        "txnindex": np.array(aborted, TXN_INDEX_ENTRY).tobytes(),
    }


def corrupt(data: bytes, random: Random, log_size: int) -> bytes:
    """One of the ways in which an index goes wrong."""
    changed = bytearray(data)
    position = random.randrange(len(changed))
    choice = random.randrange(8)
    if choice == 0:
        changed[position] ^= 1 << random.randrange(8)
    elif choice == 1:
        changed[position : position + 8] = random.randbytes(8)
    elif choice == 2:
        del changed[position:]
    elif choice == 3:
        return random.randbytes(random.randrange(400))
    elif choice == 4:
        return bytes(changed[::-1])
    elif choice == 5:
        del changed[: random.randrange(1, 16)]
    elif choice == 6:  # another segment's: right in itself, wrong here
        entries = [(row * 2, random.randrange(2 * log_size)) for row in range(1, 30)]
        return np.array(entries, OFFSET_INDEX_ENTRY).tobytes()
    else:  # entries of this segment for the wrong offsets
        return b"".join(struct.pack(">ii", random.randrange(-5, 200), random.randrange(log_size)) for _ in range(20))
    return bytes(changed)


def check_indexes(start: int, stop: int) -> Tally:
    """T-25: reads from an offset on with corrupted indexes give what reads without an index give."""
    tally = Tally()
    segments = [(*indexed_segment(magic, codec), f"v{magic} codec {codec}") for magic in (0, 1, 2) for codec in (0, 1)]
    expected: dict[tuple[str, int], Any] = {}
    for seed in range(start, stop):
        data, places, name = segments[seed % len(segments)]
        random = Random(seed)
        files = {segment_path(BASE_OFFSET): data}
        offset = BASE_OFFSET + random.randrange(-2, 3 * ENTRIES + 3)
        if (name, offset) not in expected:
            expected[name, offset] = read(files, start_offset=offset)
        without = expected[name, offset]
        indexes = right_indexes(places)
        for kind in KINDS:
            indexes[kind] = corrupt(indexes[kind], random, len(data))
        files |= {segment_path(BASE_OFFSET, kind): content for kind, content in indexes.items()}
        case = f"{name} seed {seed} from offset {offset}"
        with tally.case(case):
            tally.reads += 1
            outcome = read(files, start_offset=offset)
            same = outcome.records.equals(without.records) and outcome.error is None and without.error is None
            tally.expect(same, f"{case}: {outcome.records.num_rows} of {without.records.num_rows}, {outcome.error!r}")
    return tally


# T-26


def side_files() -> Iterator[tuple[str, bytes]]:
    """Every index, snapshot and checkpoint file of a log, whole."""
    producers = np.zeros(3, PRODUCERS)
    producers["producer_id"] = (7, 8, 9)
    yield segment_path(BASE_OFFSET, "snapshot"), encode_snapshot(producers)
    yield segment_path(BASE_OFFSET, "txnindex"), np.array([(0, 9, 1000, 1005, 1006)] * 2, TXN_INDEX_ENTRY).tobytes()
    yield segment_path(BASE_OFFSET, "index"), np.array([(3, 700), (9, 1200)], OFFSET_INDEX_ENTRY).tobytes()
    yield segment_path(BASE_OFFSET, "timeindex"), np.array([(5, 3), (6, 9)], TIME_INDEX_ENTRY).tobytes()
    starts = [EpochStart(3, 1000), EpochStart(4, 1017)]
    yield f"{FOLDER}/leader-epoch-checkpoint", encode_leader_epoch_checkpoint(starts)
    yield f"{FOLDER}/partition.metadata", encode_partition_metadata(PartitionMetadata(0, "AAAAAAAAAAAAAAAAAAAAAQ"))
    for name in ("log-start-offset-checkpoint", "recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        yield f"/logs/{name}", encode_offset_checkpoint([PartitionOffset("golden", 0, 1003), PartitionOffset("other", 1, 5)])


def check_cut_side_files(step: int) -> Tally:
    """T-26: each file cut at every byte: every table can still be read, or says what is wrong in an error of its own."""
    tally = Tally()
    segment = golden_segment("v2-none")
    whole = {**segment.among_neighbours(), **dict(side_files())}
    for path, content in side_files():
        for size in range(0, len(content) + 1, step):
            case = f"{path} cut at byte {size}"
            with tally.case(case):
                _read_all_tables({**whole, path: content[:size]}, case, tally)
    return tally


def check_tables(name: str, step: int) -> Tally:
    """T-01 and T-02 for all tables: whatever is flipped or cut, skip ends well and strict in an error of ours."""
    tally = Tally()
    segment = golden_segment(name)
    for bit in range(0, len(segment.data) * 8, step):
        data = bytearray(segment.data)
        data[bit // 8] ^= 1 << bit % 8
        case = f"{name}: bit {bit % 8} of byte {bit // 8}"
        with tally.case(case):
            _read_all_tables(segment.among_neighbours(bytes(data)), case, tally)
    for size in range(0, len(segment.data), step):
        case = f"{name} cut at byte {size}"
        with tally.case(case):
            _read_all_tables(segment.among_neighbours(segment.data[:size]), case, tally)
    return tally


def _read_all_tables(files: Mapping[str, bytes], case: str, tally: Tally) -> None:
    store = MemoryStore(files)
    for table in LOG_TABLES:
        for mode in ("strict", "skip"):
            tally.reads += 1
            report = ReadReport()
            try:
                for _ in Logs(FOLDER, find_partitions(store, FOLDER)).read(table, on_damage=mode, threads=1, report=report):
                    pass
            except KafkaLogError as error:
                tally.expect(mode == "strict", f"{case}: table {table} in skip ended in {error!r}", "crashes")
