"""The options of the Spark source, parsed and checked before anything is read.

Names, meaning, precedence and refusals are those of Spark's own Kafka source (`docs/spark.md` has the table); what only makes
sense with a broker is accepted and ignored. Keys are compared without regard to case.
"""

from __future__ import annotations

import difflib
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .errors import BAD_OPTION, SparkSourceError, bad_option

LOGGER = logging.getLogger("kafkalog.spark")

EARLIEST: Final = -2
LATEST: Final = -1
MODES: Final = ("FAILFAST", "PERMISSIVE", "DROPMALFORMED")
ISOLATIONS: Final = ("read_uncommitted", "read_committed")
TABLE_NAMES: Final = ("records", "batches", "segments", "index_entries", "transactions", "producers", "epochs", "findings")
RANGED_TABLES: Final = ("records", "batches")
CORRUPT_COLUMN: Final = "_corrupt_record"
METADATA_COLUMN: Final = "_metadata"
MAX_INT64: Final = (1 << 63) - 1
MAX_INT32: Final = (1 << 31) - 1

NO_MATCH: Final = ("error", "latest")
STRATEGIES: Final = ("subscribe", "subscribePattern", "assign")
STARTS: Final = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
ENDS: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
STREAM_ONLY: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger")
BROKER_ONLY: Final = (
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "partition.metadata.cache.ttl.ms",
)
# What Spark's own source refuses, with its reason.
REFUSED: Final = {
    "kafka.auto.offset.reset": "the position is set with startingOffsets",
    "kafka.key.deserializer": "keys are always bytes; convert them in the query, or ask for `key string` in .schema(…)",
    "kafka.value.deserializer": "values are always bytes; convert them in the query, or ask for `value string` in .schema(…)",
    "kafka.enable.auto.commit": "nothing is committed to Kafka",
    "kafka.interceptor.classes": "no consumer is involved that could be intercepted",
}
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
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxPartitionBytes",
    "startingOffsetsByTimestampStrategy",
)
KNOWN: Final = {name.lower(): name for name in (*OWN, *STRATEGIES, *STARTS, *ENDS, *STREAM_ONLY, *BROKER_ONLY)}

TopicPartition = tuple[str, int]


@dataclass(frozen=True)
class Bound:
    """One end of the range to read.

    `kind`: "earliest", "latest", "offsets" or "timestamps" (`at` says which for each partition), "timestamp" (`timestamp_ms`).
    """

    kind: str
    option: str
    at: Mapping[TopicPartition, int] = field(default_factory=dict)
    timestamp_ms: int = -1


@dataclass(frozen=True)
class SourceOptions:
    """What `load()` was asked for. Without a strategy every topic that is found is read."""

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
    fail_on_data_loss: bool = True
    missing_timestamp_is_latest: bool = False
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_partition_bytes: int | None = None
    subscribe: tuple[str, ...] | None = None
    subscribe_pattern: str | None = None
    assign: frozenset[TopicPartition] | None = None


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """The options of a `load()`; SparkSourceError with option, value and what is allowed."""
    values = _Values(given)
    table = values.choice("table", TABLE_NAMES, str.lower) or "records"
    _check_ranges_apply(values, table)
    return SourceOptions(
        paths=_paths(values),
        starting=_bound(values, STARTS, "earliest"),
        ending=_bound(values, ENDS, "latest"),
        table=table,
        mode=values.choice("mode", MODES, str.upper) or MODES[0],
        corrupt_column=_column_name(values),
        include_headers=values.boolean("includeHeaders", default=False),
        include_metadata=values.boolean("includeMetadata", default=False),
        include_internal_topics=values.boolean("includeInternalTopics", default=False),
        isolation=_isolation(values),
        fail_on_data_loss=values.boolean("failOnDataLoss", default=True),
        missing_timestamp_is_latest=values.choice("startingOffsetsByTimestampStrategy", NO_MATCH, str.lower) == "latest",
        min_partitions=values.positive("minPartitions"),
        max_records_per_partition=values.positive("maxRecordsPerPartition"),
        max_partition_bytes=values.positive("maxPartitionBytes"),
        **_strategy(values),
    )


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
            raise bad_option(option, value, f"allowed are {', '.join(allowed)}")
        return str(spelled(value.strip()))

    def boolean(self, option: str, *, default: bool) -> bool:
        value = self.choice(option, ("true", "false"), str.lower)
        return default if value is None else value == "true"

    def positive(self, option: str) -> int | None:
        value = self.text(option)
        if value is None:
            return None
        if not re.fullmatch(r"\+?[0-9]{1,18}", value.strip()) or int(value) < 1:
            raise bad_option(option, value, "allowed is a whole number above 0")
        return int(value)


def _check_known(name: str, value: str) -> None:
    if name in REFUSED:
        raise bad_option(name, value, f"not allowed: {REFUSED[name]}")
    if name in (option.lower() for option in STREAM_ONLY):
        LOGGER.warning("option %s has no effect on a batch read", KNOWN[name])
    elif name == "kafka.isolation.level":
        return
    elif name.startswith("kafka.") or name in (option.lower() for option in BROKER_ONLY):
        LOGGER.info("option %s has no effect: no broker is asked", name)
    elif name not in KNOWN:
        near = difflib.get_close_matches(name, KNOWN, 1)
        hint = f"did you mean {KNOWN[near[0]]}? " if near else ""
        allowed = f"{', '.join(sorted(KNOWN.values()))} and kafka.*"
        raise bad_option(name, value, f"there is no such option; {hint}Allowed are {allowed}")


def _check_ranges_apply(values: _Values, table: str) -> None:
    if table in RANGED_TABLES:
        return
    for option in (*STARTS, *ENDS, "minPartitions", "maxRecordsPerPartition"):
        value = values.text(option)
        if value is not None:
            raise bad_option(option, value, f"not allowed with table={table!r}, only with {' and '.join(RANGED_TABLES)}")


def _paths(values: _Values) -> tuple[str, ...]:
    path, paths = values.text("path"), values.text("paths")
    if path is not None and paths is not None:
        raise bad_option("paths", paths, f"not allowed beside path={path!r}; give one of the two")
    if paths is not None:
        found = _json("paths", paths, 'a JSON list of paths such as ["/a", "/b"]')
        if not isinstance(found, list) or not found or not all(isinstance(item, str) and item for item in found):
            raise bad_option("paths", paths, 'allowed is a JSON list of paths such as ["/a", "/b"]')
        return tuple(found)
    if not path:
        raise SparkSourceError(
            BAD_OPTION,
            "option path is missing: give a log directory, a partition folder or a segment file, as .load(path) or "
            "OPTIONS (path '…'). A table made with CREATE TABLE … USING kafkalog does not hand its options on: make a "
            "TEMPORARY VIEW, or SELECT … FROM it WITH (path = '…')",
        )
    return (path,)


def _column_name(values: _Values) -> str:
    name = values.text("columnNameOfCorruptRecord")
    if name is not None and not name.strip():
        raise bad_option("columnNameOfCorruptRecord", name, "allowed is the name of a column")
    return name or CORRUPT_COLUMN


def _isolation(values: _Values) -> str:
    own = values.choice("isolation", ISOLATIONS, str.lower)
    kafka = values.choice("kafka.isolation.level", ISOLATIONS, str.lower)
    if own and kafka and own != kafka:
        raise bad_option("isolation", own, f"contradicts kafka.isolation.level={kafka!r}; give one of the two")
    return own or kafka or ISOLATIONS[0]


def _strategy(values: _Values) -> dict[str, Any]:
    given = [option for option in STRATEGIES if values.text(option) is not None]
    if len(given) > 1:
        raise bad_option(given[1], values.text(given[1]), f"not allowed beside {given[0]}; give one of {', '.join(STRATEGIES)}")
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
        raise bad_option("subscribePattern", text, "allowed is a regular expression; topics that it is found in are read")
    try:
        re.compile(text)
    except re.error as error:
        raise bad_option("subscribePattern", text, f"not a regular expression: {error}") from None
    return text


def _assigned(text: str) -> list[TopicPartition]:
    shape = 'allowed is JSON such as {"orders": [0, 1]}'
    found = _json("assign", text, shape)
    if not isinstance(found, dict) or not found:
        raise bad_option("assign", text, shape)
    pairs = []
    for topic, numbers in found.items():
        if not isinstance(numbers, list) or not all(_is_integer(number, 0, MAX_INT32) for number in numbers):
            raise bad_option("assign", text, shape)
        pairs += [(topic, number) for number in numbers]
    return pairs


def _bound(values: _Values, names: tuple[str, str, str], default: str) -> Bound:
    """The end of the range that the first of `names` (all partitions, by timestamp, by offset) gives."""
    timestamp, by_timestamp, offsets = ((name, values.text(name)) for name in names)
    if timestamp[1] is not None:
        if not re.fullmatch(r"[0-9]{1,18}", timestamp[1].strip()):
            raise bad_option(*timestamp, "allowed are milliseconds since 1970")
        return Bound("timestamp", timestamp[0], timestamp_ms=int(timestamp[1]))
    if by_timestamp[1] is not None:
        return Bound("timestamps", by_timestamp[0], _by_partition(by_timestamp[0], by_timestamp[1], 0))
    option, text = offsets
    refused = "latest" if default == "earliest" else "earliest"
    number = LATEST if default == "earliest" else EARLIEST
    if text is None or text.strip().lower() == default:
        return Bound(default, option)
    if text.strip().lower() == refused:
        raise bad_option(option, text, f"not allowed in a batch read; allowed are {default!r} and JSON by partition")
    at = _by_partition(option, text, EARLIEST)
    if number in at.values():
        raise bad_option(option, text, f"{number} ({refused}) is not allowed here in a batch read")
    return Bound("offsets", option, at)


def _by_partition(option: str, text: str, lowest: int) -> dict[TopicPartition, int]:
    shape = 'allowed is JSON such as {"orders": {"0": 23, "1": 42}}'
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
