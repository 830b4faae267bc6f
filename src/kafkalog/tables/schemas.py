"""The tables and their columns. Column names are interface: the Python API, the command line and Spark share them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from kafkalog.errors import UsageError
from kafkalog.segment.columns import HEADERS_TYPE, RAW_HEADERS_TYPE, TIMESTAMP_TYPE, VIEWS


@dataclass(frozen=True)
class Column:
    """One column; `default` says whether it is included when no columns are named."""

    name: str
    type: pa.DataType
    about: str
    default: bool = True


@dataclass(frozen=True)
class Table:
    """A table: one row per `row`."""

    name: str
    row: str
    needs: str
    columns: tuple[Column, ...]

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {len(self.columns)} columns)"

    @property
    def default_columns(self) -> list[str]:
        return [column.name for column in self.columns if column.default]

    def schema(self, names: Sequence[str] | None = None) -> pa.Schema:
        """The schema of these columns in this order; UsageError for a name that the table does not have."""
        known = {column.name: column for column in self.columns}
        for name in names or ():
            if name not in known:
                raise UsageError(f"table {self.name} has no column {name!r}; it has {', '.join(known)}")
        chosen = self.default_columns if names is None else names
        return pa.schema([pa.field(name, known[name].type) for name in chosen])


def _place(*, default: bool = True) -> tuple[Column, ...]:
    return (
        Column("topic", pa.string(), "topic, from the folder's name", default),
        Column("partition", pa.int32(), "partition number; -1 for a folder that is not named topic-partition", default),
    )


RECORDS = Table(
    "records",
    "record a consumer would see; control records only on request",
    "decompress and decode",
    (
        Column("key", pa.binary(), "null and empty are different"),
        Column("value", pa.binary(), "null is a tombstone"),
        *_place(),
        Column("offset", pa.int64(), ""),
        Column(
            "timestamp", TIMESTAMP_TYPE, "null when beyond what microseconds in 64 bits can hold; -1 ms when the record has none"
        ),
        Column("timestampType", pa.int32(), "-1 none (v0), 0 CreateTime, 1 LogAppendTime"),
        Column("headers", HEADERS_TYPE, "null when the record has none; keys that are not UTF-8 hold U+FFFD"),
        Column("headers_raw", RAW_HEADERS_TYPE, "the same with keys as bytes", default=False),
        Column("timestamp_ms", pa.int64(), "the stored number, whatever it is", default=False),
        Column("leader_epoch", pa.int32(), "-1 unknown, and in v0/v1", default=False),
        Column("producer_id", pa.int64(), "-1 none", default=False),
        Column("producer_epoch", pa.int16(), "-1 none", default=False),
        Column("sequence", pa.int32(), "-1 none", default=False),
        Column("is_transactional", pa.bool_(), "", default=False),
        Column("is_control", pa.bool_(), "", default=False),
        Column("codec", pa.string(), "none, gzip, snappy, lz4 or zstd", default=False),
        Column("magic", pa.int8(), "format: 0, 1 or 2", default=False),
        Column("base_offset", pa.int64(), "first offset of its batch or set", default=False),
        Column("file", pa.string(), "", default=False),
        Column("position", pa.int64(), "byte position of its batch in the file", default=False),
    ),
)

BATCHES = Table(
    "batches",
    "v2 batch, or v0/v1 entry, as stored",
    "headers only; crc_valid reads every byte, base_offset decompresses v0/v1 sets (no header has it)",
    (
        *_place(),
        Column("file", pa.string(), ""),
        Column("position", pa.int64(), "byte position in the file"),
        Column("size", pa.int64(), "bytes, with the 12 of offset and length"),
        Column("magic", pa.int8(), "format: 0, 1 or 2"),
        Column("base_offset", pa.int64(), "null for a v0/v1 set that does not decompress"),
        Column("last_offset", pa.int64(), ""),
        Column("record_count", pa.int32(), "records in it now; null for v0/v1, which do not say"),
        Column("crc", pa.int64(), "as stored"),
        Column("crc_valid", pa.bool_(), "", default=False),
        Column("codec", pa.string(), ""),
        Column("timestamp_type", pa.int32(), "-1 none (v0), 0 CreateTime, 1 LogAppendTime"),
        Column("base_timestamp_ms", pa.int64(), "the delete horizon where there is one; v0/v1: the entry's own"),
        Column("max_timestamp_ms", pa.int64(), ""),
        Column("is_transactional", pa.bool_(), ""),
        Column("is_control", pa.bool_(), ""),
        Column("delete_horizon_ms", pa.int64(), "null when not set"),
        Column("producer_id", pa.int64(), "-1 none"),
        Column("producer_epoch", pa.int16(), "-1 none"),
        Column("base_sequence", pa.int32(), "-1 none"),
        Column("last_sequence", pa.int32(), "-1 none"),
        Column("leader_epoch", pa.int32(), "-1 unknown, and in v0/v1"),
    ),
)

SEGMENTS = Table(
    "segments",
    "segment; leftovers (.deleted, .cleaned, .swap) too",
    "names, sizes, first and last headers; batch and record counts read all headers",
    (
        *_place(),
        Column("file", pa.string(), ""),
        Column("state", pa.string(), "active (the newest), closed, deleted, cleaned or swap"),
        Column("base_offset", pa.int64(), "from its name; -1 when the name does not say"),
        Column("last_offset", pa.int64(), "of its last whole entry; null when it has none"),
        Column("next_base_offset", pa.int64(), "of the following segment; null in the newest"),
        Column("size", pa.int64(), "bytes of the log file"),
        Column("valid_size", pa.int64(), "bytes up to where its entries can be followed"),
        Column("index_size", pa.int64(), "null without the file"),
        Column("timeindex_size", pa.int64(), "null without the file"),
        Column("txnindex_size", pa.int64(), "null without the file"),
        Column("first_magic", pa.int8(), "format of its first entry; null when it has none"),
        Column("first_timestamp_ms", pa.int64(), "timestamp of its first record; of a compressed v0/v1 set the largest in it"),
        Column("modified_ms", pa.int64(), "when the file was last written, by the file system's clock"),
        Column("batch_count", pa.int64(), "", default=False),
        Column("record_count", pa.int64(), "null when it holds v0/v1 sets, which do not say", default=False),
        Column("max_timestamp_ms", pa.int64(), "", default=False),
        Column("magics", pa.list_(pa.int8()), "formats found", default=False),
        Column("codecs", pa.list_(pa.string()), "codecs found", default=False),
    ),
)

INDEX_ENTRIES = Table(
    "index_entries",
    "entry of a .index, .timeindex or .txnindex, as stored",
    "those files",
    (
        *_place(),
        Column("file", pa.string(), ""),
        Column("kind", pa.string(), "offset, time or transaction"),
        Column("entry", pa.int64(), "row number in the file"),
        Column("offset", pa.int64(), "offset and time index"),
        Column("position", pa.int64(), "offset index"),
        Column("timestamp_ms", pa.int64(), "time index"),
        Column("version", pa.int16(), "transaction index"),
        Column("producer_id", pa.int64(), "transaction index"),
        Column("first_offset", pa.int64(), "transaction index: of the aborted transaction"),
        Column("last_offset", pa.int64(), "transaction index: of its marker"),
        Column("last_stable_offset", pa.int64(), "transaction index: when it was aborted"),
    ),
)

PRODUCERS = Table(
    "producers",
    "producer of a .snapshot file, and of a replay of the whole log",
    "snapshot files; headers",
    (
        *_place(),
        Column("file", pa.string(), "null for the replay"),
        Column("source", pa.string(), "snapshot or replay"),
        Column("snapshot_offset", pa.int64(), "the first offset that it does not cover"),
        Column("producer_id", pa.int64(), ""),
        Column("producer_epoch", pa.int16(), ""),
        Column("last_sequence", pa.int32(), "-1 none"),
        Column("last_offset", pa.int64(), "-1 none"),
        Column("offset_delta", pa.int32(), "last minus first sequence of the last batch"),
        Column("last_timestamp_ms", pa.int64(), ""),
        Column("coordinator_epoch", pa.int32(), "-1 none"),
        Column("current_transaction_first_offset", pa.int64(), "-1 when none is open"),
    ),
)

EPOCHS = Table(
    "epochs",
    "leader epoch, of the checkpoint or seen in batches",
    "headers",
    (
        *_place(),
        Column("leader_epoch", pa.int32(), ""),
        Column("start_offset", pa.int64(), "of the leader-epoch-checkpoint; null when it has no such epoch"),
        Column("first_offset", pa.int64(), "of the first batch with this epoch; null when there is none"),
        Column("last_offset", pa.int64(), "of the last batch with this epoch"),
        Column("batch_count", pa.int64(), ""),
    ),
)

TRANSACTIONS = Table(
    "transactions",
    "transaction seen: committed, aborted or open",
    "headers and markers",
    (
        *_place(),
        Column("producer_id", pa.int64(), ""),
        Column("producer_epoch", pa.int16(), "of its first batch"),
        Column("state", pa.string(), "committed, aborted or open"),
        Column("first_offset", pa.int64(), ""),
        Column("last_offset", pa.int64(), "of its last data batch"),
        Column("marker_offset", pa.int64(), "null while open"),
        Column("last_stable_offset", pa.int64(), "when the marker was written; null while open"),
        Column("coordinator_epoch", pa.int32(), "null while open"),
        Column("batch_count", pa.int64(), ""),
        Column("record_count", pa.int64(), ""),
        Column("size", pa.int64(), "bytes of its data batches"),
        Column("first_timestamp_ms", pa.int64(), ""),
        Column("last_timestamp_ms", pa.int64(), ""),
        Column("marker_timestamp_ms", pa.int64(), "null while open"),
    ),
)

FINDINGS = Table(
    "findings",
    "fault that `kafkalog verify` finds; none in a healthy log",
    "every file, and every byte of the log",
    (
        Column("topic", pa.string(), "null for what belongs to no partition"),
        Column("partition", pa.int32(), "null for what belongs to no partition"),
        Column("severity", pa.string(), "error, warning or info"),
        Column("reason", pa.string(), "a stable code, see docs/verify.md"),
        Column("file", pa.string(), ""),
        Column("position", pa.int64(), "byte position in the file; null when it is not at one"),
        Column("length", pa.int64(), "bytes concerned"),
        Column("base_offset", pa.int64(), "first offset concerned; null when not known"),
        Column("last_offset", pa.int64(), ""),
        Column("expected", pa.string(), ""),
        Column("found", pa.string(), ""),
        Column("detail", pa.string(), ""),
        Column("about", pa.string(), "what the reason code says"),
        Column("advice", pa.string(), "what to do next"),
    ),
)

TABLES: dict[str, Table] = {
    table.name: table for table in (RECORDS, BATCHES, SEGMENTS, INDEX_ENTRIES, TRANSACTIONS, PRODUCERS, EPOCHS, FINDINGS)
}


def find_table(name: str) -> Table:
    """The table of that name; UsageError with the names that exist."""
    if not isinstance(name, str):
        raise UsageError(f'{name!r} is no table: the first argument of read is one, columns follow: read("records", [...])')
    if name not in TABLES:
        raise UsageError(f"unknown table {name!r}; there are {', '.join(TABLES)}")
    return TABLES[name]


def record_batch(arrays: Sequence[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """An Arrow batch of these columns; without any it still has its rows, so they can be counted."""
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))


def with_views(schema: pa.Schema) -> pa.Schema:
    """The schema of `records` with keys and values as views."""
    return pa.schema([field.with_type(VIEWS) if field.name in ("key", "value") else field for field in schema])
