"""How large records are as v0, v1 and v2, by batch size and codec, with the arithmetic.

Uncompressed sizes are computed from lengths alone. What a codec makes of records depends on their content, so compressed sizes
are those of real batches, encoded and thrown away.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkalog import codecs
from kafkalog.errors import UsageError
from kafkalog.format import batch, message
from kafkalog.format.java import MAX_INT32
from kafkalog.format.quantities import plural, repr_text, size_text
from kafkalog.format.varint import size_of_varint
from kafkalog.segment.encode import EncodeOptions, encode_batches, encode_messages
from kafkalog.storage import ByteSource, open_store
from kafkalog.tables.choices import Names, several_names
from kafkalog.tables.logs import open_logs

from .json_records import read_json_records

Ints = NDArray[np.int64]

RECORD_LIMIT: Final = 10_000
MOST_RECORDS: Final = 10_000_000
BATCH_SIZES: Final = (1, 10, 100, 1000)
TURNING_POINT_RECORDS: Final = 1000  # where v2 has not become smaller within these, it never does
PIECE: Final = 1 << 20
RECORD_COLUMNS: Final = ["key", "value", "timestamp_ms", "headers_raw"]


@dataclass(frozen=True)
class Sum:
    """An addition spelled out: how many bytes of what."""

    terms: tuple[tuple[int, str], ...]

    @property
    def total(self) -> int:
        return sum(size for size, _ in self.terms)

    def __str__(self) -> str:
        return " + ".join(f"{size} {name}" for size, name in self.terms) + f" = {self.total}"


@dataclass(frozen=True)
class Size:
    """All records in one format, `batch_records` to a batch. Without a codec, messages of v0 and v1 stand alone."""

    magic: int
    codec: str
    batch_records: int
    bytes: int


@dataclass(frozen=True)
class TurningPoint:
    """The smallest batch that takes fewer bytes as v2 than its records do as `magic`; None: none up to 1000 records does."""

    magic: int
    records: int | None
    v2_bytes: int = 0
    other_bytes: int = 0


@dataclass(frozen=True, repr=False)
class Estimation:
    """How large records are in every format and codec, with the additions spelled out."""

    record_count: int
    about: str
    batch_sizes: tuple[int, ...]
    sizes: tuple[Size, ...]
    sums: dict[str, tuple[Sum, ...]]
    turning_points: tuple[TurningPoint, ...]
    headers_dropped: int  # bytes of headers, which v0 and v1 do not have

    def __repr__(self) -> str:
        ordered = sorted(self.sizes, key=lambda size: size.bytes)
        named = [f"{size_text(size.bytes)} as v{size.magic} {size.codec}" for size in (*ordered[:1], *ordered[1:][-1:])]
        return repr_text("Estimation", self.about, plural(self.record_count, "record"), " to ".join(named))

    def as_dict(self) -> dict[str, Any]:
        """The estimation as plain values, for JSON."""
        return {
            "record_count": self.record_count,
            "about": self.about,
            "sizes": [
                {"format": f"v{size.magic}", "codec": size.codec, "batch_records": size.batch_records, "bytes": size.bytes}
                for size in self.sizes
            ],
            "sums": {name: [{"text": str(each), "bytes": each.total} for each in sums] for name, sums in self.sums.items()},
            "v2_smaller_than": {
                f"v{point.magic}": {"records": point.records, "v2_bytes": point.v2_bytes, "bytes": point.other_bytes}
                for point in self.turning_points
            },
            "headers_dropped": self.headers_dropped,
        }


@dataclass(frozen=True)
class Lengths:
    """Records without their content. -1 is null; `headers` are the bytes of all headers of a record, with their lengths."""

    keys: Ints
    values: Ints
    headers_counts: Ints
    headers: Ints
    timestamps: Ints

    def __len__(self) -> int:
        return len(self.keys)

    def repeated(self, count: int) -> Lengths:
        """The first `count` records, repeated as often as needed."""
        return Lengths(*(np.resize(column, count) for column in vars(self).values()))

    @property
    def payloads(self) -> Ints:
        return np.maximum(self.keys, 0) + np.maximum(self.values, 0)


# The arithmetic


def message_sizes(lengths: Lengths, magic: int) -> Ints:
    """Bytes of each record as a message in the log."""
    sizes: Ints = lengths.payloads + (message.OVERHEAD_V1 if magic else message.OVERHEAD_V0) + batch.LOG_OVERHEAD
    return sizes


def record_sizes(lengths: Lengths, batch_records: int) -> Ints:
    """Bytes of each record inside v2 batches of so many."""
    rows = np.arange(len(lengths))
    first = rows - rows % batch_records
    deltas = lengths.timestamps - lengths.timestamps[first]
    body = 1 + _varint_sizes(deltas) + _varint_sizes(rows - first) + _varint_sizes(lengths.keys) + _varint_sizes(lengths.values)
    body += lengths.payloads + _varint_sizes(lengths.headers_counts) + lengths.headers
    sizes: Ints = body + _varint_sizes(body)
    return sizes


def _varint_sizes(numbers: Ints) -> Ints:
    stored = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    sizes = np.ones(len(numbers), np.int64)
    for bits in range(7, 64, 7):
        sizes += stored >= np.uint64(1 << bits)
    return sizes


def batch_bytes(lengths: Lengths, batch_records: int) -> int:
    """Bytes of all records as uncompressed v2 batches."""
    return int(record_sizes(lengths, batch_records).sum()) + batch.HEADER_SIZE * -(-len(lengths) // batch_records)


def _message_sums(lengths: Lengths, row: int, magic: int) -> tuple[Sum, ...]:
    key, value = max(int(lengths.keys[row]), 0), max(int(lengths.values[row]), 0)
    time = ((8, "timestamp"),) if magic else ()
    content = ((4, "key length"), (key, "key"), (4, "value length"), (value, "value"))
    inner = Sum(((4, "crc"), (1, "magic"), (1, "attributes"), *time, *content))
    return inner, Sum(((8, "offset"), (4, "size"), (inner.total, "message")))


def _record_sum(lengths: Lengths, row: int) -> Sum:
    """A record of a v2 batch that holds all of them."""
    key, value, count = (int(column[row]) for column in (lengths.keys, lengths.values, lengths.headers_counts))
    delta = np.array([lengths.timestamps[row] - lengths.timestamps[0]])
    body = (
        (1, "attributes"),
        (int(_varint_sizes(delta)[0]), "timestamp delta"),
        (size_of_varint(row), "offset delta"),
        (size_of_varint(key), "key length"),
        (max(key, 0), "key"),
        (size_of_varint(value), "value length"),
        (max(value, 0), "value"),
        (size_of_varint(count), "headers count"),
        *(((int(lengths.headers[row]), "headers"),) if count else ()),
    )
    return Sum(((size_of_varint(sum(size for size, _ in body)), "length"), *body))


def spell_out(lengths: Lengths) -> dict[str, tuple[Sum, ...]]:
    """The additions for the first record in each format, and for the last of a v2 batch of all."""
    first = _record_sum(lengths, 0)
    sums = {f"v{magic}": _message_sums(lengths, 0, magic) for magic in (0, 1)}
    sums["v2"] = first, Sum(((batch.HEADER_SIZE, "header"), (first.total, "record")))
    if len(lengths) > 1:
        last = len(lengths) - 1
        sums[f"v2, record {last + 1} of a batch"] = (_record_sum(lengths, last),)
    return sums


def find_turning_point(lengths: Lengths, magic: int) -> TurningPoint:
    """From how many records per batch on v2 is smaller, for records like these."""
    many = lengths.repeated(TURNING_POINT_RECORDS)
    other = np.cumsum(message_sizes(many, magic))
    v2 = batch.HEADER_SIZE + np.cumsum(record_sizes(many, TURNING_POINT_RECORDS))
    smaller = np.flatnonzero(v2 < other)
    if not len(smaller):
        return TurningPoint(magic, None)
    row = int(smaller[0])
    return TurningPoint(magic, row + 1, int(v2[row]), int(other[row]))


def estimate(
    source: str | os.PathLike[str] | pa.Table | None = None,
    *,
    limit: int | None = RECORD_LIMIT,
    codecs: Names | None = None,
    batch_sizes: Sequence[int] | None = None,
    count: int = 1,
    key_size: int | None = None,
    value_size: int | None = None,
    headers: Sequence[tuple[int, int]] = (),
    interval_ms: int = 1,
) -> Estimation:
    """How large records are as v0, v1 and v2, by batch size and codec.

    Measured on the first `limit` records of `source` (a log, a file of JSON lines, a table of records); without one, computed for
    `count` equal records of these sizes, uncompressed. Sizes of headers are pairs of name and value.
    """
    if source is not None:
        return estimate_source(source, limit, codecs, batch_sizes)
    return estimate_sizes(
        count=count, key_size=key_size, value_size=value_size, headers=headers, interval_ms=interval_ms, batch_sizes=batch_sizes
    )


# Records from sizes


def estimate_sizes(
    *,
    count: int = 1,
    key_size: int | None = None,
    value_size: int | None = None,
    headers: Sequence[tuple[int, int]] = (),
    interval_ms: int = 1,
    batch_sizes: Sequence[int] | None = None,
) -> Estimation:
    """Sizes of `count` equal records; None is null. Headers are pairs of key and value sizes, or -1 for a null value."""
    if not 1 <= count <= MOST_RECORDS:
        raise UsageError(f"count {count}: allowed are 1 to {MOST_RECORDS}")
    for size in (key_size or 0, value_size or 0, *itertools.chain.from_iterable(headers)):
        if not -1 <= size <= MAX_INT32:
            raise UsageError(f"a size of {size} bytes: allowed are 0 to {MAX_INT32}")
    stored = sum(size_of_varint(key) + key + size_of_varint(value) + max(value, 0) for key, value in headers)
    lengths = Lengths(
        np.full(count, -1 if key_size is None else key_size, np.int64),
        np.full(count, -1 if value_size is None else value_size, np.int64),
        np.full(count, len(headers), np.int64),
        np.full(count, stored, np.int64),
        np.arange(count, dtype=np.int64) * interval_ms,
    )
    key = "no key" if key_size is None else f"key of {key_size} bytes"
    value = "no value" if value_size is None else f"value of {value_size} bytes"
    more = [f"{len(headers)} headers"] * bool(headers) + [f"{interval_ms} ms apart"] * (count > 1)
    about = ", ".join([key, value, *more])
    chosen = _batch_sizes(batch_sizes, count)
    return _estimation(lengths, about, chosen, _uncompressed(lengths, chosen))


# Records with content


def estimate_table(
    table: pa.Table, about: str, *, codec_names: Sequence[str] | None = None, batch_sizes: Sequence[int] | None = None
) -> Estimation:
    """Sizes of the records of a table with the columns key, value, timestamp_ms and headers_raw."""
    if not table.num_rows:
        raise UsageError(f"{about}: there are no records to measure")
    table = _with_times_that_can_be_written(table)
    lengths = _lengths_of(table)
    chosen = _batch_sizes(batch_sizes, table.num_rows)
    names = codecs.NAMES if codec_names is None else codec_names
    sizes = [*(_uncompressed(lengths, chosen) if "none" in names else ())]
    for name in names:
        if codecs.codec_id(name) != codecs.NONE:
            sizes += _compressed(table, name, chosen)
    return _estimation(lengths, about, chosen, sizes)


def estimate_source(
    source: str | os.PathLike[str] | pa.Table,
    limit: int | None = RECORD_LIMIT,
    codec_names: Names | None = None,
    batch_sizes: Sequence[int] | None = None,
) -> Estimation:
    """Sizes of the first records of a log, of a file of JSON lines, or of a table of records."""
    names = several_names("codecs", codec_names)
    if isinstance(source, pa.Table):
        return estimate_table(source, "a table", codec_names=names, batch_sizes=batch_sizes)
    path = os.fspath(source)
    table = read_records(path, limit)
    about = path + (f", the first {limit}" if table.num_rows == limit else "")
    return estimate_table(table, about, codec_names=names, batch_sizes=batch_sizes)


def read_records(path: str, limit: int | None = RECORD_LIMIT) -> pa.Table:
    """The first records at `path`: a file of JSON lines, or any log."""
    store, place = open_store(path)
    found = store.stat(place)
    if found is not None and found.kind == "file":
        with store.open(place) as source:
            # A log begins with the first byte of an offset, which no text begins with.
            if source.read(0, 64).lstrip()[:1] == b"{":
                return read_json_records(_lines(source), os.path.basename(place), limit)
    reader = open_logs(path).read("records", RECORD_COLUMNS)
    return pa.Table.from_batches(_limited(reader, limit), reader.schema)


def _limited(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for found in batches:
        part = found if left is None else found.slice(0, left)
        yield part
        if left is not None:
            left -= part.num_rows
            if left <= 0:
                return


def _lines(source: ByteSource) -> Iterator[bytes]:
    """The lines of a file, a piece at a time."""
    held = b""
    for position in range(0, source.size, PIECE):
        *lines, held = (held + source.read(position, PIECE)).split(b"\n")
        yield from lines
    yield held


def _with_times_that_can_be_written(table: pa.Table) -> pa.Table:
    """Brokers store timestamps below -1, writers refuse them; here they count as none."""
    times = pc.max_element_wise(table["timestamp_ms"], -1)  # null becomes -1 too
    return table.set_column(table.schema.get_field_index("timestamp_ms"), "timestamp_ms", times)


def _lengths_of(table: pa.Table) -> Lengths:
    headers = table["headers_raw"].to_pylist() if table["headers_raw"].null_count < table.num_rows else [None] * table.num_rows
    stored = [sum(map(_header_size, each or ())) for each in headers]
    return Lengths(
        _binary_lengths(table["key"]),
        _binary_lengths(table["value"]),
        np.array([len(each or ()) for each in headers], np.int64),
        np.array(stored, np.int64),
        np.asarray(table["timestamp_ms"], np.int64),
    )


def _header_size(header: dict[str, bytes | None]) -> int:
    key, value = header["key"] or b"", header["value"]
    return size_of_varint(len(key)) + len(key) + size_of_varint(-1 if value is None else len(value)) + len(value or b"")


def _binary_lengths(column: pa.ChunkedArray) -> Ints:
    return np.asarray(pc.fill_null(pc.cast(pc.binary_length(column), pa.int64()), -1), np.int64)


def _compressed(table: pa.Table, codec: str, batch_sizes: Sequence[int]) -> Iterator[Size]:
    messages = table.drop_columns(["headers_raw"])
    for records in batch_sizes:
        options = EncodeOptions(codec, base_offset=0, batch_bytes=MAX_INT32, batch_records=records)
        yield Size(2, codec, records, sum(map(len, encode_batches(table, options))))
        for magic in (0, 1) if codecs.codec_id(codec) <= message.MAX_CODEC else ():
            yield Size(magic, codec, records, sum(map(len, encode_messages(messages, magic, options))))


# Both


def _uncompressed(lengths: Lengths, batch_sizes: Sequence[int]) -> Iterator[Size]:
    for records in batch_sizes:
        for magic in (0, 1):
            yield Size(magic, "none", records, int(message_sizes(lengths, magic).sum()))
        yield Size(2, "none", records, batch_bytes(lengths, records))


def _batch_sizes(wanted: Sequence[int] | None, count: int) -> tuple[int, ...]:
    if wanted is not None:
        if not wanted or min(wanted) < 1:
            raise UsageError("a batch has at least one record")
        return tuple(sorted(set(wanted)))
    usual = [size for size in BATCH_SIZES if size < count]
    return (*usual, count) if count <= 10 * BATCH_SIZES[-1] else tuple(usual)


def _estimation(lengths: Lengths, about: str, batch_sizes: tuple[int, ...], sizes: Iterable[Size]) -> Estimation:
    return Estimation(
        len(lengths),
        about,
        batch_sizes,
        tuple(sorted(sizes, key=lambda size: (size.magic, codecs.codec_id(size.codec), size.batch_records))),
        spell_out(lengths),
        tuple(find_turning_point(lengths, magic) for magic in (0, 1)),
        int(lengths.headers.sum()),
    )
