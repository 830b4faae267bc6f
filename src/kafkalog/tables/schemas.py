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

_MEMBERS = pa.list_(
    pa.struct(
        [
            pa.field("member_id", pa.string()),
            pa.field("instance_id", pa.string()),
            pa.field("client_id", pa.string()),
            pa.field("client_host", pa.string()),
            pa.field("assigned", pa.list_(pa.string())),
        ]
    )
)
_ENTITY = pa.list_(pa.struct([pa.field("type", pa.string()), pa.field("name", pa.string())]))
_NUMBERS = pa.list_(pa.int32())
_TEXTS = pa.list_(pa.string())
_METADATA = "the newest snapshot and log of __cluster_metadata"
_OFFSETS = "__consumer_offsets"

TOPICS = Table(
    "topics",
    "partition of a topic, as the cluster's controllers knew it",
    _METADATA,
    (
        Column("topic", pa.string(), ""),
        Column("topic_id", pa.string(), ""),
        Column("partition", pa.int32(), ""),
        Column("leader", pa.int32(), "-1 none"),
        Column("leader_epoch", pa.int32(), ""),
        Column("partition_epoch", pa.int32(), ""),
        Column("replicas", _NUMBERS, "the first is the preferred leader"),
        Column("isr", _NUMBERS, ""),
        Column("elr", _NUMBERS, "eligible leader replicas (KIP-966)"),
        Column("last_known_elr", _NUMBERS, "", default=False),
        Column("adding_replicas", _NUMBERS, "of a reassignment that has not finished"),
        Column("removing_replicas", _NUMBERS, "of a reassignment that has not finished"),
        Column("leader_recovery_state", pa.string(), "RECOVERED, or RECOVERING after an unclean election", default=False),
        Column("directories", _TEXTS, "ids of the log directories, in the order of the replicas; empty before 3.7"),
    ),
)

CONFIGS = Table(
    "configs",
    "setting of a topic, broker, group or client metrics that differs from the default",
    _METADATA,
    (
        Column("resource_type", pa.string(), "TOPIC, BROKER, BROKER_LOGGER, GROUP or CLIENT_METRICS"),
        Column("resource_name", pa.string(), "empty for the default of all brokers"),
        Column("name", pa.string(), ""),
        Column("value", pa.string(), "as it is stored; null for passwords and other secrets"),
        Column("is_sensitive", pa.bool_(), "whether the value is a secret, by the name of the setting"),
    ),
)

ACLS = Table(
    "acls",
    "access control entry",
    _METADATA,
    (
        Column("resource_type", pa.string(), "TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN or USER"),
        Column("resource_name", pa.string(), ""),
        Column("pattern_type", pa.string(), "LITERAL or PREFIXED"),
        Column("principal", pa.string(), ""),
        Column("host", pa.string(), ""),
        Column("operation", pa.string(), ""),
        Column("permission_type", pa.string(), "ALLOW or DENY"),
        Column("id", pa.string(), "", default=False),
    ),
)

BROKERS = Table(
    "brokers",
    "registered broker",
    _METADATA,
    (
        Column("broker_id", pa.int32(), ""),
        Column("broker_epoch", pa.int64(), "the offset of its registration"),
        Column("rack", pa.string(), ""),
        Column("is_fenced", pa.bool_(), "true while it was down or starting"),
        Column("in_controlled_shutdown", pa.bool_(), ""),
        Column("endpoints", _TEXTS, "LISTENER://host:port"),
        Column("log_dirs", _TEXTS, "ids of its log directories; empty before 3.7"),
        Column("cordoned_log_dirs", _TEXTS, "null before 4.3", default=False),
        Column("incarnation_id", pa.string(), "", default=False),
        Column(
            "supported_features",
            pa.list_(pa.struct([("feature", pa.string()), ("min_level", pa.int32()), ("max_level", pa.int32())])),
            "",
            default=False,
        ),
    ),
)

QUOTAS = Table(
    "quotas",
    "client quota",
    _METADATA,
    (
        Column("user", pa.string(), "null if the quota is not for users, empty for the default"),
        Column("client_id", pa.string(), "null if the quota is not for client ids, empty for the default"),
        Column("ip", pa.string(), "null if the quota is not for addresses, empty for the default"),
        Column("key", pa.string(), "such as producer_byte_rate"),
        Column("value", pa.float64(), ""),
        Column("entity", _ENTITY, "what the quota is for, as it is stored; a null name is the default", default=False),
    ),
)

CREDENTIALS = Table(
    "credentials",
    "SCRAM credential of a user, never with its secrets",
    _METADATA,
    (
        Column("user", pa.string(), ""),
        Column("mechanism", pa.string(), "SCRAM-SHA-256 or SCRAM-SHA-512"),
        Column("iterations", pa.int32(), ""),
    ),
)

FEATURES = Table(
    "features",
    "feature that the cluster has switched on",
    _METADATA,
    (
        Column("feature", pa.string(), ""),
        Column("level", pa.int32(), ""),
        Column("release", pa.string(), "what Kafka calls a level of metadata.version; null for others, and for newer ones"),
    ),
)

GROUPS = Table(
    "groups",
    "group of consumers",
    _OFFSETS,
    (
        Column("group_id", pa.string(), ""),
        Column("type", pa.string(), "Classic, Consumer (KIP-848), Share or Streams"),
        Column("protocol", pa.string(), "its kind of members, such as consumer; empty if it never had any"),
        Column("state", pa.string(), "as a coordinator loads it: Stable groups had members when the log ended"),
        Column("assignor", pa.string(), ""),
        Column("epoch", pa.int32(), "the generation of a classic group; null if it never had members"),
        Column("leader", pa.string(), "member id, of a classic group"),
        Column("members", pa.int32(), "how many"),
        Column("changed", TIMESTAMP_TYPE, "when state or assignment last changed; null where no record says"),
        Column("member_list", _MEMBERS, "assigned: topic-partition, or the topic id where nothing names it", default=False),
    ),
)

_COMMIT = (
    Column("group_id", pa.string(), ""),
    Column("topic", pa.string(), ""),
    Column("partition", pa.int32(), ""),
    Column("committed_offset", pa.int64(), "the next offset that the group would read"),
    Column("leader_epoch", pa.int32(), "of the last record read; null if the client gave none"),
    Column("metadata", pa.string(), "what the client stored with the offset"),
    Column("commit_time", TIMESTAMP_TYPE, ""),
)

GROUP_OFFSETS = Table(
    "group_offsets",
    "partition of which a group has committed an offset",
    f"{_OFFSETS}, and the ends of the logs; lag_ms also headers from the committed offset on",
    (
        *_COMMIT,
        Column("log_start_offset", pa.int64(), "null if the partition is not on these disks"),
        Column("log_end_offset", pa.int64(), "of the newest copy on these disks; null without one"),
        Column("lag", pa.int64(), "offsets between the committed one and the end of the log"),
        Column("lag_ms", pa.int64(), "from the first record not committed to the newest one, by their timestamps; 0 without lag"),
        Column("topic_id", pa.string(), "from 4.2 on", default=False),
        Column("expire_time", TIMESTAMP_TYPE, "of clients before 2.1 only", default=False),
        Column("record_offset", pa.int64(), "of the commit's record in __consumer_offsets", default=False),
    ),
)

OFFSET_COMMITS = Table(
    "offset_commits",
    "commit that is still in __consumer_offsets: the history of the groups, as far as compaction has left it",
    _OFFSETS,
    (
        *_COMMIT,
        Column("state", pa.string(), "committed, pending (in an open transaction), aborted, or deleted (a tombstone)"),
        Column("producer_id", pa.int64(), "of the transaction; null without one"),
        Column("record_offset", pa.int64(), "of its record in __consumer_offsets"),
        Column("topic_id", pa.string(), "from 4.2 on", default=False),
    ),
)

# Tables of a whole cluster; those of METADATA_TABLES can be read as they were at any offset of the metadata log.
METADATA_TABLES = ("topics", "configs", "acls", "brokers", "quotas", "credentials", "features")
GROUP_TABLES = ("groups", "group_offsets", "offset_commits")
CLUSTER_TABLES = (*METADATA_TABLES, *GROUP_TABLES)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        *(RECORDS, BATCHES, SEGMENTS, INDEX_ENTRIES, TRANSACTIONS, PRODUCERS, EPOCHS, FINDINGS),
        *(TOPICS, CONFIGS, ACLS, BROKERS, QUOTAS, CREDENTIALS, FEATURES),
        *(GROUPS, GROUP_OFFSETS, OFFSET_COMMITS),
    )
}

# Tables of the logs themselves.
LOG_TABLES = tuple(name for name in TABLES if name not in CLUSTER_TABLES)


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
