"""A profile counted by hand: every entry and record of a log, one after the other, through the reference codec."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafkalog import codecs
from kafkalog.errors import SegmentError
from kafkalog.format import batch
from kafkalog.format.reference import Entry, Record, decode_entries, decode_records
from kafkalog.log.folders import find_partitions
from kafkalog.storage import open_store
from kafkalog.tasks.profile.result import Count, Profile, Ranking

HOUR_MS = 3_600_000
LIMIT = 64 << 20
ENDS = b":/.|-_#"


def decompress(codec: int, payload: bytes, magic: int) -> bytes:
    return codecs.decompressed(codec, payload, magic=magic, limit=LIMIT)


@dataclass
class Counted:
    """Bytes and records of everything by name."""

    topics: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0] * 4))  # bytes, raw, batches, records
    partitions: dict[tuple[str, int], list[int]] = field(default_factory=lambda: defaultdict(lambda: [0] * 4))
    codecs: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0] * 4))
    hours: dict[object, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    producers: dict[object, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    keys: dict[object, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    prefixes: dict[object, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    headers: dict[object, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    batch_records: Counter[int] = field(default_factory=Counter)
    batch_bytes: Counter[int] = field(default_factory=Counter)
    aborted: list[int] = field(default_factory=lambda: [0, 0])
    unkeyed: list[int] = field(default_factory=lambda: [0, 0])
    keyed: list[int] = field(default_factory=lambda: [0, 0])
    last: dict[tuple[str, int, bytes], tuple[int, bool]] = field(default_factory=dict)  # bytes, whether it has a value


def segment_files(folder: Path) -> Iterator[tuple[str, int, list[Path]]]:
    """Topic, number and log files of every live partition in a log directory."""
    store, place = open_store(folder)
    for found in find_partitions(store, place):
        if not found.state:
            yield found.topic, found.partition, [Path(segment.log.path) for segment in found.segments]


def count_by_hand(folder: Path) -> Counted:
    counted = Counted()
    for topic, number, files in segment_files(folder):
        entries = [entry for file in files for entry in intact_entries(file.read_bytes())]
        aborted = aborted_entries(entries)
        for entry in entries:
            count_entry(counted, topic, number, entry, is_aborted=id(entry) in aborted)
    return counted


def intact_entries(data: bytes) -> Iterator[Entry]:
    """Entries up to where they end: golden logs are damaged at their end, if at all."""
    try:
        for entry in decode_entries(data, verify_crc=False):
            try:
                next(decode_entries(entry.data))
            except SegmentError:
                continue
            yield entry
    except SegmentError:
        return


def aborted_entries(entries: Iterable[Entry]) -> set[int]:
    """The data batches whose producer's next marker is an abort, by `id`."""
    waiting: dict[int, list[Entry]] = defaultdict(list)
    aborted = set()
    for entry in entries:
        if entry.magic < 2 or not entry.attributes & (batch.TRANSACTIONAL | batch.CONTROL):
            continue
        if not entry.attributes & batch.CONTROL:
            waiting[entry.producer_id].append(entry)
            continue
        for marker in decode_records(entry, decompress):
            kind = int.from_bytes((marker.key or b"")[2:4], "big")
            if kind in (0, 1):
                ended = waiting.pop(entry.producer_id, [])
                aborted |= {id(each) for each in ended} if kind == 0 else set()
    return aborted


def raw_size(entry: Entry) -> int:
    codec = entry.attributes & batch.CODEC_MASK
    if not codec or (entry.magic == 2 and not entry.records_count):
        return len(entry.data)
    if entry.magic == 2:
        return batch.HEADER_SIZE + len(decompress(codec, entry.data[batch.HEADER_SIZE :], 2))
    front = 18 if entry.magic == 0 else 26
    key_size = max(int.from_bytes(entry.data[front : front + 4], "big", signed=True), 0)
    return len(decompress(codec, entry.data[front + 8 + key_size :], entry.magic))


def weight(record: Record) -> int:
    headers = sum(len(name) + len(value or b"") + 2 for name, value in record.headers)
    return 7 + len(record.key or b"") + len(record.value or b"") + headers


def add(pair: list[int], size: int, records: int = 1) -> None:
    pair[0] += size
    pair[1] += records


def count_entry(counted: Counted, topic: str, number: int, entry: Entry, *, is_aborted: bool) -> None:
    records = decode_records(entry, decompress)
    size = len(entry.data)
    codec = codecs.NAMES[entry.attributes & batch.CODEC_MASK]
    for group in (counted.topics[topic], counted.partitions[topic, number], counted.codecs[codec]):
        for at, more in enumerate((size, raw_size(entry), 1, len(records))):
            group[at] += more
    add(counted.producers[entry.producer_id if entry.producer_id != -1 else None], size, len(records))
    counted.batch_records[len(records).bit_length()] += 1
    counted.batch_bytes[size.bit_length()] += 1
    total, passed, given = sum(map(weight, records)), 0, 0
    for record in records:
        passed += weight(record)
        share = passed * size // total - given
        given += share
        add(counted.hours[None if record.timestamp < 0 else record.timestamp // HOUR_MS * HOUR_MS], share)
        for at, (name, value) in enumerate(record.headers):
            is_first = name not in [earlier for earlier, _ in record.headers[:at]]
            add(counted.headers[None, name], share * (len(name) + len(value or b"") + 2) // weight(record), int(is_first))
        if not (entry.magic == 2 and entry.attributes & batch.CONTROL):
            count_key(counted, topic, number, record, share, is_aborted=is_aborted)


def count_key(counted: Counted, topic: str, number: int, record: Record, share: int, *, is_aborted: bool) -> None:
    key = record.key
    if key is not None:
        prefix = prefix_of(key)
        add(counted.keys[topic, key], share)
        add(counted.prefixes[topic, prefix], share)
    if is_aborted:
        add(counted.aborted, share)
    elif key is None:
        add(counted.unkeyed, share)
    else:
        add(counted.keyed, share)
        counted.last[topic, number, key] = share, record.value is not None


def prefix_of(key: bytes) -> bytes:
    ends = [at for at in range(min(len(key), 32)) if key[at] in ENDS]
    return key[: ends[0] + 1] if ends else key[:4]


def assert_equal(found: Profile, counted: Counted) -> None:
    """A profile that names everything says what was counted by hand."""
    assert plain(found.topics) == counted.topics
    assert plain(found.partitions) == counted.partitions
    assert plain(found.codecs) == counted.codecs
    assert {item.name: [item.bytes, item.records] for item in found.hours.items} == counted.hours
    assert {item.name: [item.bytes, item.records] for item in found.producers.items} == counted.producers
    assert named(found.keys) == by_name(counted.keys)
    assert named(found.key_prefixes) == by_name(counted.prefixes)
    assert named(found.headers) == by_name(counted.headers)
    for ranking in (found.hours, found.producers, found.keys, found.key_prefixes, found.headers):
        assert ranking.distinct == len(ranking.items)
    for distribution, by_hand in ((found.batch_records, counted.batch_records), (found.batch_bytes, counted.batch_bytes)):
        assert {bucket.last.bit_length(): bucket.batches for bucket in distribution.buckets} == by_hand
        assert sum(bucket.bytes for bucket in distribution.buckets) == found.total.bytes
    assert_compaction(found, counted)


def named(ranking: Ranking) -> Counter[Any]:
    """The figures of a ranking for each name; long names may look the same, so each is counted."""
    return Counter((item.topic, item.name, item.size, item.bytes, item.records) for item in ranking.items)


def by_name(by_hand: dict[Any, list[int]]) -> Counter[Any]:
    return Counter((topic, name[:64], len(name), *pair) for (topic, name), pair in by_hand.items())


def plain(groups: Mapping[Any, Count]) -> dict[Any, list[int]]:
    return {name: [count.bytes, count.raw_bytes, count.batches, count.records] for name, count in groups.items()}


def assert_compaction(found: Profile, counted: Counted) -> None:
    shown = found.compaction
    assert shown is not None
    assert [shown.keyed_bytes, shown.keyed_records] == counted.keyed
    assert [shown.unkeyed_bytes, shown.unkeyed_records] == counted.unkeyed
    assert [shown.aborted_bytes, shown.aborted_records] == counted.aborted
    last = list(counted.last.values())
    tombstones = [size for size, has_value in last if not has_value]
    expected = (
        (shown.keys, len(last)),
        (shown.duplicates, counted.keyed[1] - len(last)),
        (shown.duplicate_bytes, counted.keyed[0] - sum(size for size, _ in last)),
        (shown.tombstones, len(tombstones)),
        (shown.tombstone_bytes, sum(tombstones)),
    )
    for estimate, by_hand in expected:
        assert (estimate.value, estimate.low, estimate.high) == (by_hand,) * 3
