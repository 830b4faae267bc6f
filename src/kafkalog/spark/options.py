"""The options of the Spark source, parsed and checked before anything is read.

Names, meaning, precedence and refusals are those of Spark's own Kafka source (`docs/spark.md` has the table); what only makes
sense with a broker is accepted and ignored. Keys are compared without regard to case.
"""

from __future__ import annotations

import difflib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from kafkalog.errors import UsageError
from kafkalog.format.java import MAX_INT32, MAX_INT64
from kafkalog.storage import is_file_uri, path_of_file_uri

from .errors import BAD_OPTION, SparkSourceError, bad_option

LOGGER = logging.getLogger("kafkalog.spark")

EARLIEST: Final = -2
LATEST: Final = -1
MODES: Final = ("FAILFAST", "PERMISSIVE", "DROPMALFORMED")
ISOLATIONS: Final = ("read_uncommitted", "read_committed")
METADATA_TABLES: Final = ("topics", "configs", "acls", "brokers", "quotas", "credentials", "features")
CLUSTER_TABLES: Final = (*METADATA_TABLES, "groups", "group_offsets", "offset_commits")
TABLE_NAMES: Final = (
    *("records", "batches", "segments", "index_entries", "transactions", "producers", "epochs", "findings"),
    *CLUSTER_TABLES,
)
RANGED_TABLES: Final = ("records", "batches")
CORRUPT_COLUMN: Final = "_corrupt_record"
METADATA_COLUMN: Final = "_metadata"

NO_MATCH: Final = ("error", "latest")
STRATEGIES: Final = ("subscribe", "subscribePattern", "assign")
STARTS: Final = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
ENDS: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
LOG_END: Final = "logEnd"
HIGH_WATERMARK: Final = "highWatermark"
STREAM_TABLES: Final = ("records",)
MAX_TRIGGER_DELAY: Final = "15m"
TIME_UNITS: Final = {"": 0.001, "us": 1e-6, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
STREAM_ONLY: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger")
BROKER_ONLY: Final = (
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "partition.metadata.cache.ttl.ms",
)
BY_PARTITION: Final = 'JSON such as {"orders": {"0": 23, "1": 42}}'
# Options that Spark's own source refuses, with the reason.
REFUSED: Final = {
    "kafka.auto.offset.reset": "the position is set with startingOffsets",
    "kafka.key.deserializer": "keys are always bytes; convert them in the query, or ask for `key string` in .schema(…)",
    "kafka.value.deserializer": "values are always bytes; convert them in the query, or ask for `value string` in .schema(…)",
    "kafka.enable.auto.commit": "nothing is committed to Kafka",
    "kafka.interceptor.classes": "there is no consumer to intercept",
}
# An option that Spark adds when CREATE TABLE asks for the columns.
TABLE_OWNER: Final = "owner"
NO_TABLES: Final = (
    "A table made with CREATE TABLE … USING kafkalog does not pass its options on: create a TEMPORARY VIEW, or SELECT … FROM it "
    "WITH (path = '…')"
)
OWN: Final = (
    "path",
    "paths",
    "table",
    "mode",
    "columnNameOfCorruptRecord",
    "includeHeaders",
    "includeMetadata",
    "includeInternalTopics",
    "isolation",
    "checkCrcs",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxPartitionBytes",
    "cores",
    "startingOffsetsByTimestampStrategy",
    "upTo",
    "at",
)
KNOWN: Final = {name.lower(): name for name in (*OWN, *STRATEGIES, *STARTS, *ENDS, *STREAM_ONLY, *BROKER_ONLY)}

TopicPartition = tuple[str, int]


@dataclass(frozen=True)
class Bound:
    """One end of the range to read.

    `kind`: "default" if no option is given, "earliest", "latest", "offsets" or "timestamps" (`at` says which for each
    partition), "timestamp" (`timestamp_ms`).
    """

    kind: str
    option: str
    at: Mapping[TopicPartition, int] = field(default_factory=dict)
    timestamp_ms: int = -1
    value: str = ""  # as it was given


@dataclass(frozen=True)
class Admission:
    """How much a micro-batch may read, and how long it may wait for more; `given` names the options that were given."""

    given: tuple[str, ...] = ()
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_seconds: float = 900.0
    max_bytes: int | None = None


@dataclass(frozen=True)
class SourceOptions:
    """The options of a `load()`. Without a strategy every topic is read."""

    paths: tuple[str, ...]
    starting: Bound
    ending: Bound
    table: str = "records"
    mode: str = "FAILFAST"
    corrupt_column: str = CORRUPT_COLUMN
    include_headers: bool = False
    include_metadata: bool = False
    include_internal_topics: bool = False
    isolation: str = "read_uncommitted"
    check_crcs: bool = True
    fail_on_data_loss: bool = True
    missing_timestamp_is_latest: bool = False
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_partition_bytes: int | None = None
    cores: int | None = None
    subscribe: tuple[str, ...] | None = None
    subscribe_pattern: str | None = None
    assign: frozenset[TopicPartition] | None = None
    at: int | None = None  # an offset of the metadata log
    up_to: str | None = None  # logEnd or highWatermark; None: depends on whether a broker is running
    admission: Admission = field(default_factory=Admission)


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """The options of a `load()`; SparkSourceError with option, value and what is allowed.

    Spark does not say here whether a batch or a stream will be read: `for_batch` and `for_stream` check the rest.
    """
    values = _Values(given)
    table = values.choice("table", TABLE_NAMES, str.lower) or "records"
    _check_ranges_apply(values, table)
    _check_partitions_apply(values, table)
    return SourceOptions(
        paths=_paths(values),
        starting=_bound(values, STARTS),
        ending=_ending(values),
        table=table,
        mode=values.choice("mode", MODES, str.upper) or MODES[0],
        corrupt_column=_column_name(values),
        include_headers=values.boolean("includeHeaders", default=False),
        include_metadata=values.boolean("includeMetadata", default=False),
        include_internal_topics=values.boolean("includeInternalTopics", default=False),
        isolation=_own_or_kafka(values, "isolation", "kafka.isolation.level", ISOLATIONS),
        check_crcs=_check_crcs(values, table),
        fail_on_data_loss=values.boolean("failOnDataLoss", default=True),
        missing_timestamp_is_latest=values.choice("startingOffsetsByTimestampStrategy", NO_MATCH, str.lower) == "latest",
        min_partitions=values.positive("minPartitions"),
        max_records_per_partition=values.positive("maxRecordsPerPartition"),
        max_partition_bytes=values.positive("maxPartitionBytes"),
        cores=values.positive("cores"),
        up_to=values.choice("upTo", (LOG_END, HIGH_WATERMARK), _up_to),
        at=_at(values, table),
        admission=_admission(values),
        **_strategy(values),
    )


def for_batch(options: SourceOptions) -> SourceOptions:
    """The options, if they are allowed in a batch read."""
    starting = options.starting
    if starting.kind == "latest":
        allowed = "not allowed in a batch read; allowed are 'earliest' and JSON by partition"
        raise bad_option(starting.option, starting.value, allowed)
    if starting.kind == "offsets" and LATEST in starting.at.values():
        raise bad_option(starting.option, starting.value, "-1 (latest) is not allowed here in a batch read")
    for option in options.admission.given:
        LOGGER.warning("option %s has no effect on a batch read", option)
    return options


def for_stream(options: SourceOptions) -> SourceOptions:
    """The options, if they are allowed in a stream."""
    if options.ending.kind != "default":
        raise bad_option(options.ending.option, options.ending.value, "not allowed in a stream, which has no end")
    if options.table not in STREAM_TABLES:
        raise bad_option("table", options.table, f"not allowed in a stream; allowed is {', '.join(STREAM_TABLES)}")
    return options


class _Values:
    """The given options by lower-cased name, known ones only."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.given = {str(name).lower(): str(value) for name, value in given.items()}
        for name, value in self.given.items():
            _check_known(name, value)

    def text(self, option: str) -> str | None:
        return self.given.get(option.lower())

    def choice(self, option: str, allowed: tuple[str, ...], spelled: Any) -> str | None:
        value = self.text(option)
        if value is None:
            return None
        if spelled(value.strip()) not in allowed:
            raise bad_option(option, value, _nearest(value, allowed, f"allowed are {', '.join(allowed)}"))
        return str(spelled(value.strip()))

    def boolean(self, option: str, *, default: bool) -> bool:
        value = self.choice(option, ("true", "false"), str.lower)
        return default if value is None else value == "true"

    def positive(self, option: str) -> int | None:
        value = self.text(option)
        if value is None:
            return None
        if not re.fullmatch(r"\+?[0-9]{1,19}", value.strip()) or not 1 <= int(value) <= MAX_INT64:
            raise bad_option(option, value, "allowed is a whole number above 0")
        return int(value)


def _nearest(value: str, words: Sequence[str], allowed: str) -> str:
    """The allowed values, after the one that was probably meant."""
    lowered = {word.lower(): word for word in words}
    near = difflib.get_close_matches(value.strip().lower(), lowered, 1)
    return f"did you mean {lowered[near[0]]}? {allowed[0].upper()}{allowed[1:]}" if near else allowed


def _check_known(name: str, value: str) -> None:
    if name in REFUSED:
        raise bad_option(name, value, f"not allowed: {REFUSED[name]}")
    if name in ("kafka.isolation.level", "kafka.check.crcs"):
        return
    if name.startswith("kafka.") or name in (option.lower() for option in BROKER_ONLY):
        LOGGER.info("option %s has no effect: there is no broker", name)
    elif name == TABLE_OWNER:
        raise SparkSourceError(BAD_OPTION, f"CREATE TABLE … USING kafkalog needs columns. {NO_TABLES}")
    elif name not in KNOWN:
        allowed = f"allowed are {', '.join(sorted(KNOWN.values()))} and kafka.*"
        raise bad_option(name, value, f"there is no such option; {_nearest(name, tuple(KNOWN.values()), allowed)}")


def _check_ranges_apply(values: _Values, table: str) -> None:
    if table in RANGED_TABLES:
        return
    for option in (*STARTS, *ENDS, "minPartitions", "maxRecordsPerPartition"):
        value = values.text(option)
        if value is not None:
            raise bad_option(option, value, f"not allowed with table={table!r}, only with {' and '.join(RANGED_TABLES)}")


def _check_partitions_apply(values: _Values, table: str) -> None:
    """A cluster has topics that are not on these disks: a pattern or partitions of these could not choose among them."""
    for option in ("subscribePattern", "assign") if table in CLUSTER_TABLES else ():
        value = values.text(option)
        if value is not None:
            raise bad_option(option, value, f"not allowed with table={table!r}; filter its rows in the query")


def _paths(values: _Values) -> tuple[str, ...]:
    path, paths = values.text("path"), values.text("paths")
    if path is not None and paths is not None:
        raise bad_option("paths", paths, f"not allowed with path={path!r}; give one of the two")
    if paths is not None:
        shape = 'allowed is a JSON list of paths such as ["/a", "/b"]; path takes a single one'
        found = _json("paths", paths, shape)
        if not isinstance(found, list) or not found or not all(isinstance(item, str) and item for item in found):
            raise bad_option("paths", paths, shape)
        return tuple(_local("paths", item) for item in found)
    if not path:
        raise SparkSourceError(
            BAD_OPTION,
            "option path is missing: give a log directory, a partition folder or a segment file, as .load(path) or "
            f"OPTIONS (path '…'). {NO_TABLES}",
        )
    return (_local("path", path),)


def _local(option: str, place: str) -> str:
    """The path of a `file:` URI; other URIs stay as they are."""
    try:
        return path_of_file_uri(place) if is_file_uri(place) else place
    except UsageError as error:
        raise bad_option(option, place, str(error)) from None


def _at(values: _Values, table: str) -> int | None:
    """The offset of the metadata log at which a cluster's table is read."""
    value = values.text("at")
    if value is None:
        return None
    if table not in METADATA_TABLES:
        raise bad_option("at", value, f"not allowed with table={table!r}, only with {', '.join(METADATA_TABLES)}")
    if not re.fullmatch(r"[0-9]{1,18}", value.strip()):
        raise bad_option("at", value, "allowed is an offset of the metadata log")
    return int(value)


def _column_name(values: _Values) -> str:
    name = values.text("columnNameOfCorruptRecord")
    if name is not None and not name.strip():
        raise bad_option("columnNameOfCorruptRecord", name, "allowed is the name of a column")
    return name or CORRUPT_COLUMN


def _own_or_kafka(values: _Values, own: str, kafka: str, allowed: tuple[str, ...]) -> str:
    """A choice with a name of ours and one of Kafka's consumer; the first value is the default."""
    ours, theirs = values.choice(own, allowed, str.lower), values.choice(kafka, allowed, str.lower)
    if ours and theirs and ours != theirs:
        raise bad_option(own, ours, f"contradicts {kafka}={theirs!r}; give one of the two")
    return ours or theirs or allowed[0]


def _check_crcs(values: _Values, table: str) -> bool:
    """Whether a wrong checksum in the table of batches is damage: checking reads every byte, not only headers."""
    checked = _own_or_kafka(values, "checkCrcs", "kafka.check.crcs", ("true", "false")) == "true"
    mode = (values.text("mode") or MODES[0]).strip().upper()
    given = values.text("checkCrcs")
    if not checked and table != "batches":
        if given is not None:
            raise bad_option("checkCrcs", given, f"{table} are always checked; allowed with table=batches")
        LOGGER.info("option kafka.check.crcs has no effect: %s are always checked", table)
        return True
    if not checked and mode != MODES[0]:
        raise bad_option("checkCrcs", "false", f"not allowed with mode={mode!r}, which finds damage by checksums")
    return checked


def _strategy(values: _Values) -> dict[str, Any]:
    given = [option for option in STRATEGIES if values.text(option) is not None]
    if len(given) > 1:
        raise bad_option(given[1], values.text(given[1]), f"not allowed with {given[0]}; give one of {', '.join(STRATEGIES)}")
    if not given:
        return {}
    text = values.text(given[0]) or ""
    if given[0] == "subscribe":
        topics = tuple(topic.strip() for topic in text.split(",") if topic.strip())
        if not topics:
            raise bad_option("subscribe", text, "allowed is a list of topics, separated by commas")
        return {"subscribe": topics}
    if given[0] == "subscribePattern":
        return {"subscribe_pattern": _pattern(text)}
    return {"assign": frozenset(_assigned(text))}


def _pattern(text: str) -> str:
    if not text.strip():
        raise bad_option("subscribePattern", text, "allowed is a regular expression; topics that contain a match are read")
    try:
        re.compile(text)
    except re.error as error:
        raise bad_option("subscribePattern", text, f"not a regular expression: {error}") from None
    return text


def _assigned(text: str) -> list[TopicPartition]:
    shape = 'allowed is JSON such as {"orders": [0, 1]}; subscribe takes names of topics'
    found = _json("assign", text, shape)
    if not isinstance(found, dict) or not found:
        raise bad_option("assign", text, shape)
    pairs = []
    for topic, numbers in found.items():
        if not isinstance(numbers, list) or not all(_is_integer(number, 0, MAX_INT32) for number in numbers):
            raise bad_option("assign", text, shape)
        pairs += [(topic, number) for number in numbers]
    return pairs


def _bound(values: _Values, names: tuple[str, str, str]) -> Bound:
    """The bound that the first of these options sets (timestamp of all partitions, by timestamp, by offset)."""
    timestamp, by_timestamp, offsets = ((name, values.text(name)) for name in names)
    if timestamp[1] is not None:
        if not re.fullmatch(r"[0-9]{1,18}", timestamp[1].strip()):
            raise bad_option(*timestamp, f"allowed are milliseconds since 1970{_as_milliseconds(timestamp[1])}")
        return Bound("timestamp", timestamp[0], timestamp_ms=int(timestamp[1]), value=timestamp[1])
    if by_timestamp[1] is not None:
        at = _by_partition(by_timestamp[0], by_timestamp[1], 0, f"allowed is {BY_PARTITION}")
        return Bound("timestamps", by_timestamp[0], at, value=by_timestamp[1])
    option, text = offsets
    if text is None:
        return Bound("default", option)
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return Bound(word, option, value=text)
    words = ("earliest", "latest") if names is STARTS else ("latest",)
    shape = _nearest(word, words, f"allowed are {', '.join(words)} and {BY_PARTITION}")
    return Bound("offsets", option, _by_partition(option, text, EARLIEST, shape), value=text)


def _as_milliseconds(text: str) -> str:
    """The milliseconds of a date or time, if the text is one."""
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        return ""
    known = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return f"; {'' if time.tzinfo is not None else 'in UTC '}that is {round(known.timestamp() * 1000)}"


def _ending(values: _Values) -> Bound:
    bound = _bound(values, ENDS)
    if bound.kind == "earliest":
        raise bad_option(bound.option, bound.value, "not allowed; allowed are 'latest' and JSON by partition")
    if bound.kind == "offsets" and EARLIEST in bound.at.values():
        raise bad_option(bound.option, bound.value, "-2 (earliest) is not allowed here")
    return bound


def _up_to(text: str) -> str:
    return {word.lower(): word for word in (LOG_END, HIGH_WATERMARK)}.get(text.lower(), text)


def _admission(values: _Values) -> Admission:
    admission = Admission(
        given=tuple(option for option in STREAM_ONLY if values.text(option) is not None),
        max_offsets=values.positive("maxOffsetsPerTrigger"),
        min_offsets=values.positive("minOffsetsPerTrigger"),
        max_delay_seconds=_seconds(values, "maxTriggerDelay", MAX_TRIGGER_DELAY),
        max_bytes=values.positive("maxBytesPerTrigger"),
    )
    if admission.min_offsets and admission.max_offsets and admission.min_offsets > admission.max_offsets:
        allowed = f"not allowed above maxOffsetsPerTrigger={admission.max_offsets}"
        raise bad_option("minOffsetsPerTrigger", admission.min_offsets, allowed)
    return admission


def _seconds(values: _Values, option: str, default: str) -> float:
    """A duration as Spark writes it: a number, in milliseconds unless a unit follows."""
    text = values.text(option)
    found = re.fullmatch(r"([0-9]{1,12})([a-z]*)", (text if text is not None else default).strip().lower())
    if found is None or found[2] not in TIME_UNITS:
        raise bad_option(option, text, f"allowed is a time such as 30s, with a unit of {', '.join(filter(None, TIME_UNITS))}")
    return int(found[1]) * TIME_UNITS[found[2]]


def _by_partition(option: str, text: str, lowest: int, shape: str) -> dict[TopicPartition, int]:
    found = _json(option, text, shape)
    if not isinstance(found, dict):
        raise bad_option(option, text, shape)
    at = {}
    for topic, numbers in found.items():
        if not isinstance(numbers, dict):
            raise bad_option(option, text, shape)
        for partition, number in numbers.items():
            if not re.fullmatch(r"[0-9]{1,10}", partition) or not _is_integer(number, lowest, MAX_INT64):
                raise bad_option(option, text, shape)
            at[topic, int(partition)] = number
    return at


def _is_integer(value: object, lowest: int, highest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest


def _json(option: str, text: str, shape: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise bad_option(option, text, shape) from None
