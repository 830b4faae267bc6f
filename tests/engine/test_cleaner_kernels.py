"""The two paths of the cleaner, by kernels and one entry at a time, give the same bytes, figures and refusals."""

from __future__ import annotations

import os
import random
import struct
from dataclasses import asdict, replace
from typing import Any

import pytest

from kafkalog.engine.building import end_transaction_marker
from kafkalog.engine.cleaner.chunk_kernels import BulkFilter, map_chunk
from kafkalog.engine.cleaner.kept_records import CleanStats, LastRecord, Retention
from kafkalog.engine.cleaner.offset_map import OffsetMap, OffsetMapping
from kafkalog.engine.cleaner.rewriting import filter_chunk
from kafkalog.engine.cleaner.workspace import Workspace
from kafkalog.engine.entries import Batch, entry_size, iter_entries
from kafkalog.engine.transaction_index import AbortedTransaction, TransactionIndex
from kafkalog.errors import KafkaLogError
from kafkalog.format.batch import ATTRIBUTES_POSITION, CRC_START, DELETE_HORIZON
from kafkalog.format.control import EndTxnMarker
from tests.builders.simulated_disk import SimulatedFs
from tests.engine.random_sets import KEYS, NOW, random_batch, random_set

ROUNDS = 10 if os.environ.get("NUMBA_DISABLE_JIT") else 400
SOUND_ONLY = 0.5  # of the chunks: one refusal ends a chunk, so few odd entries would be seen after another


@pytest.fixture(scope="module")
def workspace() -> Workspace:
    return Workspace()


def random_chunk(chance: random.Random) -> bytes:
    """Entries in the order of offsets, transactional and control batches among them, perhaps cut at the end."""
    parts, offset = [], chance.choice((0, 5))
    is_sound = chance.random() < SOUND_ONLY
    for _ in range(chance.randrange(12)):
        part = bytearray(_marker(chance) if chance.random() < 0.2 else _sound_batch(chance) if is_sound else random_set(chance))
        for entry in _entries(part):
            base = offset if isinstance(entry, Batch) else offset + chance.randrange(3)
            struct.pack_into(">q", part, entry.start, base)
            if isinstance(entry, Batch) and chance.random() < 0.3:
                part[entry.start + ATTRIBUTES_POSITION + 1] |= DELETE_HORIZON  # the cleaner does not look at checksums
        parts.append(bytes(part))
        offset += chance.choice((7, 8, 20))
    chunk = b"".join(parts)
    return chunk[: -chance.randrange(1, 60)] if chunk and chance.random() < 0.2 else chunk


def _marker(chance: random.Random) -> bytes:
    return end_transaction_marker(7, 0, EndTxnMarker(chance.random() < 0.3, 0), timestamp=NOW)


def _entries(part: bytes | bytearray) -> list[Any]:
    try:
        return list(iter_entries(part))
    except KafkaLogError:
        return []


def _sound_batch(chance: random.Random) -> bytes:
    while True:
        data = random_batch(chance)
        try:
            if len(data) > CRC_START and entry_size(data, 0, len(data)) and all(record.timestamp >= -1 for record in Batch(data)):
                return data
        except KafkaLogError:
            continue


def random_map(chance: random.Random) -> OffsetMap:
    offsets = OffsetMap(24 * 100)
    for key in KEYS:
        if chance.random() < 0.6:
            offsets.put(key, chance.randrange(80))
    offsets.latest_offset = chance.choice((-1, 10, 40, 1000))
    return offsets


def random_retention(chance: random.Random, offsets: OffsetMap) -> Retention:
    retention = Retention(
        offsets=offsets,
        now_ms=chance.choice((NOW, 0, NOW * 2)),
        delete_retention_ms=chance.choice((0, 1000)),
        upper_bound_offset=chance.choice((-1, 8, 15, 30)),
        stats=CleanStats(),
        cleaned_index=TransactionIndex(0, SimulatedFs(), "/00000000000000000000.txnindex.cleaned"),
        last_records={7: LastRecord(chance.choice((None, 6, 13, 14, 20)), 0)} if chance.random() < 0.5 else {},
        retains_legacy_deletes=chance.random() < 0.5,
    )
    if chance.random() < 0.5:
        first = chance.randrange(30)
        retention.transactions.add_aborted([AbortedTransaction(7, first, first + 5, first)])
    return retention


def outcome_of_filter(seed: int, workspace: Workspace | None) -> object:
    """The filtered chunk, in as many parts as the room makes of it; the error instead, if there is one."""
    chance = random.Random(seed)
    chunk = random_chunk(chance)
    retention = random_retention(chance, random_map(chance))
    room = chance.choice((50, 200, 1000, 1 << 20))
    bulk = None if workspace is None else BulkFilter(workspace, retention)
    results: list[object] = []
    position = 0
    try:
        while position < len(chunk):
            part = chunk[position:]
            filtered = filter_chunk(part, room, retention) if bulk is None else bulk.filter_chunk(part, position, room)
            results.append(replace(filtered, output=bytes(filtered.output)))
            if not filtered.bytes_read:
                break
            position += filtered.bytes_read
        results.append(asdict(retention.stats))
    except (KafkaLogError, struct.error, IndexError) as error:
        results.append(type(error).__name__)
    return results, retention.cleaned_index.all_aborted()


def outcome_of_map(seed: int, workspace: Workspace | None) -> object:
    """The map after a chunk: every offset, its size, how far it came."""
    chance = random.Random(seed)
    chunk = random_chunk(chance)
    mapping = OffsetMapping(OffsetMap(24 * 100), chance.choice((0, 1, 3, 50)), chance.choice((0, 10)), CleanStats())
    if chance.random() < 0.5:
        first = chance.randrange(30)
        mapping.transactions.add_aborted([AbortedTransaction(7, first, first + 5, first)])
    try:
        size = mapping.add_chunk(chunk) if workspace is None else map_chunk(workspace, mapping, chunk, 0)
    except (KafkaLogError, struct.error, IndexError) as error:
        return type(error).__name__
    offsets = mapping.offsets
    found = [offsets.get(key) for key in KEYS]
    return None if mapping.is_full else size, mapping.is_full, mapping.stats, found, offsets.size, offsets.latest_offset


@pytest.mark.parametrize("first", range(0, ROUNDS, 100))
def test_filtering_by_kernels_gives_what_filtering_one_by_one_gives(first: int, workspace: Workspace) -> None:
    for seed in range(first, min(first + 100, ROUNDS)):
        assert outcome_of_filter(seed, workspace) == outcome_of_filter(seed, None), seed


@pytest.mark.parametrize("first", range(0, ROUNDS, 100))
def test_mapping_by_kernels_gives_what_mapping_one_by_one_gives(first: int, workspace: Workspace) -> None:
    for seed in range(first, min(first + 100, ROUNDS)):
        assert outcome_of_map(seed, workspace) == outcome_of_map(seed, None), seed
