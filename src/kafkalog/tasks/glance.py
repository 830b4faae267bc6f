"""What headers tell of a partition: the first and last ones for a glance, all of them for a full count."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from kafkalog import codecs
from kafkalog.errors import CodecError, KafkaLogError, Limits, OutputFull, SegmentError, StorageError, TornTail
from kafkalog.format import batch, message
from kafkalog.format.names import MAX_OFFSET
from kafkalog.kernels import scan
from kafkalog.kernels.bytes import Ints
from kafkalog.log.order import header_bases
from kafkalog.log.partition import Partition, Segment
from kafkalog.segment.decode import RecordDecoder, RecordRange
from kafkalog.segment.seek import seek_position
from kafkalog.segment.windows import SegmentWalk, WindowBuffers, explain_stop
from kafkalog.storage.store import ByteSource

SAMPLES = 3  # compressed entries of a partition that are decompressed for its ratio
SAMPLE_BYTES = 1 << 20
# A new index has room for a million entries and is read as a whole: below this share of the log's bytes it still pays.
INDEX_SHARE = 16


@dataclass(frozen=True)
class FormatShare:
    """What is stored in one format; records are None where a set could not be counted."""

    bytes: int = 0
    batches: int = 0
    records: int | None = 0

    def __add__(self, other: FormatShare) -> FormatShare:
        records = None if self.records is None or other.records is None else self.records + other.records
        return FormatShare(self.bytes + other.bytes, self.batches + other.batches, records)


@dataclass
class Found:
    """What has been seen of a partition so far."""

    problems: list[str] = field(default_factory=list)
    unreadable: bool = False
    end_offset: int | None = None
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None
    magics: set[int] = field(default_factory=set)
    codec_ids: set[int] = field(default_factory=set)
    epochs: set[int] = field(default_factory=set)
    formats: dict[int, FormatShare] = field(default_factory=dict)
    tail_bytes: int = 0
    samples: list[tuple[int, int]] = field(default_factory=list)  # stored and decompressed bytes

    @property
    def codec_names(self) -> list[str]:
        return [codecs.NAMES[codec] if codec < len(codecs.NAMES) else f"codec {codec}" for codec in sorted(self.codec_ids)]

    @property
    def compression_ratio(self) -> float | None:
        stored = sum(size for size, _ in self.samples)
        return sum(size for _, size in self.samples) / stored if stored else None

    @property
    def batch_count(self) -> int:
        return sum(share.batches for share in self.formats.values())

    @property
    def record_count(self) -> int | None:
        return sum(self.formats.values(), FormatShare()).records

    def see(self, fields: Ints) -> None:
        """Take in entries."""
        self.magics.update(np.unique(fields[scan.MAGIC]).tolist())
        self.codec_ids.update(np.unique(fields[scan.ATTRIBUTES] & batch.CODEC_MASK).tolist())
        self.epochs.update(np.unique(fields[scan.LEADER_EPOCH][fields[scan.MAGIC] == 2]).tolist())
        self.epochs.discard(-1)
        # A base timestamp may be a delete horizon; the largest timestamp of a batch never is.
        times = fields[scan.MAX_TIMESTAMP][fields[scan.MAX_TIMESTAMP] >= 0]
        if len(times):
            first, last = int(times.min()), int(times.max())
            self.first_timestamp_ms = first if self.first_timestamp_ms is None else min(self.first_timestamp_ms, first)
            self.last_timestamp_ms = last if self.last_timestamp_ms is None else max(self.last_timestamp_ms, last)

    def see_end(self, segment: Segment, last_offset: int | None, problem: SegmentError | None) -> None:
        """Take in where the walk through a segment ended."""
        if last_offset is not None:
            self.end_offset = max(self.end_offset or 0, last_offset + 1)
        if isinstance(problem, TornTail) and segment.is_newest:
            self.tail_bytes += problem.length
        elif problem is not None:
            self.problems.append(str(problem))


@contextmanager
def _opened(partition: Partition, segment: Segment, found: Found) -> Iterator[ByteSource | None]:
    """The open log, or None where storage would not give it; what goes wrong inside is a problem too."""
    try:
        source = partition.open_log(segment)
    except KafkaLogError as error:
        _note(found, error)
        yield None
        return
    with source:
        try:
            yield source
        except KafkaLogError as error:
            _note(found, error)


def _note(found: Found, error: KafkaLogError) -> None:
    found.problems.append(str(error))
    found.unreadable |= isinstance(error, StorageError)


# A glance


def glance_at(partition: Partition, limits: Limits, found: Found) -> None:
    """The first entry of every segment, and the last one of the partition."""
    firsts: list[Ints] = []
    for segment in partition.segments:
        if not segment.log.size:
            continue
        with _opened(partition, segment, found) as source:
            if source is not None:
                firsts += _first_entry(segment, source, limits, found)
    if firsts:
        found.see(np.concatenate(firsts, axis=1))
    for segment in reversed(partition.segments):
        with _opened(partition, segment, found) as source:
            if source is not None:
                _see_last(partition, segment, source, limits, found)
        if found.end_offset is not None:
            return
    if partition.segments:
        found.end_offset = partition.start_offset


def _first_entry(segment: Segment, source: ByteSource, limits: Limits, found: Found) -> list[Ints]:
    """The header that a segment begins with, if it does."""
    chunk = np.frombuffer(source.read(0, min(scan.CONTROL_PEEK, source.size)), np.uint8)
    fields = np.empty((scan.FIELD_COUNT, 1), np.int64)
    status, count, _ = scan.scan_headers(chunk, 0, source.size, limits.batch_bytes, fields)
    if not count:
        if not segment.is_newest:  # the end of the newest is looked at anyway
            found.see_end(segment, None, explain_stop(source, 0, source.size, status, limits))
        return []
    _sample(source, fields, limits, found)
    first = int(fields[scan.BASE_OFFSET, 0])
    if first < segment.base_offset:
        found.problems.append(f"{source.path}: begins with offset {first}, before the one in its name")
    return [fields]


def _see_last(partition: Partition, segment: Segment, source: ByteSource, limits: Limits, found: Found) -> None:
    index = segment.siblings.get("index")
    hint = index.path if index is not None and index.size * INDEX_SHARE <= source.size else None
    start = seek_position(source, partition.store, hint, segment.base_offset, MAX_OFFSET, limits)
    walk = SegmentWalk(source, start, source.size, limits)
    last = None
    for fields in walk.headers():
        last = fields[:, -1:]
    if last is not None:
        found.see(last)
    found.see_end(segment, int(last[scan.LAST_OFFSET, 0]) if last is not None else None, walk.problem)


def _sample(source: ByteSource, fields: Ints, limits: Limits, found: Found) -> None:
    """Decompress an entry to see how much it gains; one that does not decompress is a problem."""
    codec, magic = int(fields[scan.ATTRIBUTES, 0]) & batch.CODEC_MASK, int(fields[scan.MAGIC, 0])
    position, size = int(fields[scan.POSITION, 0]), int(fields[scan.SIZE, 0])
    if not codec or len(found.samples) >= SAMPLES or size > SAMPLE_BYTES or (magic == 2 and not fields[scan.COUNT, 0]):
        return
    front = batch.HEADER_SIZE if magic == 2 else batch.LOG_OVERHEAD + (message.OVERHEAD_V1 if magic else message.OVERHEAD_V0)
    payload = source.read(position, size)[front:]
    try:
        content = codecs.decompressed(codec, payload, magic=magic, limit=limits.decompressed_bytes)
    except OutputFull:
        return
    except CodecError as error:
        found.problems.append(f"{source.path} at byte {position}: codec: {error}")
        return
    found.samples.append((size, front + len(content)))


# All headers


def scan_all(partition: Partition, limits: Limits, found: Found) -> None:
    """Every header of every segment; sets of v0 and v1, which do not say how many records they hold, are decompressed."""
    decoder = RecordDecoder(RecordRange(), limits, frozenset({"offset"}), check_crcs=False, stop_at_problem=False)
    for segment in partition.segments:
        with _opened(partition, segment, found) as source:
            if source is not None:
                _scan_segment(segment, source, limits, decoder, found)
    if found.end_offset is None and partition.segments:
        found.end_offset = partition.start_offset


def _scan_segment(segment: Segment, source: ByteSource, limits: Limits, decoder: RecordDecoder, found: Found) -> None:
    walk = SegmentWalk(source, 0, source.size, limits)
    has_sets = False
    last = None
    for fields in walk.headers():
        found.see(fields)
        _sample(source, fields[:, :1], limits, found)
        for magic in np.unique(fields[scan.MAGIC]).tolist():
            found.formats[magic] = found.formats.get(magic, FormatShare()) + _share(fields[:, fields[scan.MAGIC] == magic])
        has_sets |= bool((header_bases(fields) < 0).any())
        last = int(fields[scan.LAST_OFFSET].max())
    if has_sets:
        _count_sets(source, limits, decoder, found)
    found.see_end(segment, last, walk.problem)


def _share(fields: Ints) -> FormatShare:
    """Entries of one format; sets of v0 and v1 count as no record yet."""
    counts = np.where(fields[scan.MAGIC] == 2, np.maximum(fields[scan.COUNT], 0), header_bases(fields) >= 0)
    return FormatShare(int(fields[scan.SIZE].sum()), fields.shape[1], int(counts.sum()))


def _count_sets(source: ByteSource, limits: Limits, decoder: RecordDecoder, found: Found) -> None:
    """Add the records of compressed v0 and v1 sets."""
    buffers = WindowBuffers()
    for window in SegmentWalk(source, 0, source.size, limits).windows(buffers):
        sets = np.flatnonzero(header_bases(window.fields) < 0)
        magics = window.fields[scan.MAGIC, sets]
        for magic in np.unique(magics).tolist():
            decoded = decoder.decode(window, sets[magics == magic])
            records = None if decoded.problems else sum(group.rows for group in decoded.groups)
            found.formats[magic] += FormatShare(records=records)
            found.problems.extend(str(problem.error) for problem in decoded.problems)
        buffers.give_back(window)
