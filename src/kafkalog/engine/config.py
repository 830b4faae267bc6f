"""The topic settings that a log obeys, by Kafka's names and with the defaults of Kafka 4.3."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Final, Self

from kafkalog.errors import UsageError
from kafkalog.format.java import MAX_INT32, MAX_INT64, MIN_INT64
from kafkalog.log.partition import shown

DAY_MS: Final = 24 * 60 * 60 * 1000
MIN_SEGMENT_BYTES: Final = 1 << 20  # for the public setting since 4.0; `internal.segment.bytes` may be lower

COMPRESSION_TYPES: Final = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
POLICIES: Final = ("compact", "delete")


@dataclass(frozen=True)
class LogConfig:
    """Settings of one log; `of` accepts them by Kafka's names."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = DAY_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = MAX_INT64
    flush_ms: int = MAX_INT64
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = MAX_INT64
    max_message_bytes: int = (1 << 20) + 12
    message_format_version: str = "4.3"  # removed in Kafka 4: below 0.11.0 the log is written in v1, below 0.10.0 in v0
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = MAX_INT64
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 7 * DAY_MS
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10 << 20
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * DAY_MS
    unclean_leader_election_enable: bool = False

    def __repr__(self) -> str:
        """Only what differs from the defaults, by Kafka's names."""
        changed = {each.name: getattr(self, each.name) for each in fields(self) if getattr(self, each.name) != each.default}
        return f"LogConfig({', '.join(name.replace('_', '.') + '=' + _shown(value) for name, value in changed.items())})"

    @classmethod
    def of(cls, settings: Mapping[str, object] | None = None) -> Self:
        """The defaults with `settings` applied; UsageError for a name or value that Kafka would not accept."""
        return cls().with_settings(settings or {})

    def with_settings(self, settings: Mapping[str, object]) -> Self:
        """A copy with these settings changed."""
        changed = {_field(name): _parsed(name, str(value)) for name, value in settings.items()}
        if "internal.segment.bytes" in settings:
            changed["segment_bytes"] = _parsed("internal.segment.bytes", str(settings["internal.segment.bytes"]))
        return replace(self, **changed)

    @cached_property
    def compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @cached_property
    def delete(self) -> bool:
        return "delete" in self.cleanup_policy

    @cached_property
    def log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @cached_property
    def magic(self) -> int:
        """The format that a leader writes."""
        version = tuple(int(part) for part in self.message_format_version.split("-")[0].split(".")[:3])
        if version < (0, 10):
            return 0
        return 1 if version < (0, 11) else 2

    @cached_property
    def max_segment_ms(self) -> int:
        """How long a segment stays active: max.compaction.lag.ms requires it to be closed by then."""
        if self.compact and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    @property
    def initial_log_size(self) -> int:
        return self.segment_bytes if self.preallocate else 0

    def random_jitter_ms(self) -> int:
        """How much earlier a segment is rolled, so that the logs of a broker do not all roll at once."""
        return random.randrange(min(self.segment_jitter_ms, self.segment_ms)) if self.segment_jitter_ms else 0

    def codec_level(self, codec: str) -> int:
        """The level for a codec that has one, 0 for the others."""
        levels = {"gzip": self.compression_gzip_level, "lz4": self.compression_lz4_level, "zstd": self.compression_zstd_level}
        return levels.get(codec, 0)


def _shown(value: object) -> str:
    if isinstance(value, frozenset):
        return shown(",".join(sorted(map(str, value))))
    return shown(value) if isinstance(value, str) else str(value)


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError(f"must be {low} to {high}")
        return value

    return parse


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text

    return parse


def _boolean(text: str) -> bool:
    return _one_of("true", "false")(text.lower()) == "true"


def _ratio(text: str) -> float:
    if not 0 <= (value := float(text)) <= 1:
        raise ValueError("must be 0 to 1")
    return value


def _policies(text: str) -> frozenset[str]:
    policies = frozenset(policy.strip() for policy in text.split(",") if policy.strip())
    if unknown := policies - set(POLICIES):
        raise ValueError(f"{', '.join(sorted(unknown))}: must be one or both of {', '.join(POLICIES)}, or empty")
    return policies


def _gzip_level(text: str) -> int:
    if (level := int(text)) != -1 and not 1 <= level <= 9:
        raise ValueError("must be 1 to 9, or -1")
    return level


def _version(text: str) -> str:
    parts = text.split("-")[0].split(".")
    if len(parts) < 2 or not all(part.isdigit() for part in parts):
        raise ValueError("must be a Kafka release, such as 0.9.0 or 3.9")
    return text


_AT_LEAST_ZERO = _integer(0, MAX_INT64)
_MINUS_ONE_OR_MORE = _integer(-1, MAX_INT64)

SETTINGS: Final[Mapping[str, Callable[[str], Any]]] = {
    "cleanup.policy": _policies,
    "compression.type": _one_of(*COMPRESSION_TYPES),
    "compression.gzip.level": _gzip_level,
    "compression.lz4.level": _integer(1, 17),
    "compression.zstd.level": _integer(-131072, 22),
    "delete.retention.ms": _AT_LEAST_ZERO,
    "file.delete.delay.ms": _AT_LEAST_ZERO,
    "flush.messages": _integer(1, MAX_INT64),
    "flush.ms": _AT_LEAST_ZERO,
    "index.interval.bytes": _integer(0, MAX_INT32),
    "internal.segment.bytes": _integer(1, MAX_INT32),
    "max.compaction.lag.ms": _integer(1, MAX_INT64),
    "max.message.bytes": _integer(0, MAX_INT32),
    "message.format.version": _version,
    "message.timestamp.after.max.ms": _AT_LEAST_ZERO,
    "message.timestamp.before.max.ms": _AT_LEAST_ZERO,
    "message.timestamp.type": _one_of(*TIMESTAMP_TYPES),
    "min.cleanable.dirty.ratio": _ratio,
    "min.compaction.lag.ms": _AT_LEAST_ZERO,
    "min.insync.replicas": _integer(1, MAX_INT32),
    "preallocate": _boolean,
    "retention.bytes": _integer(MIN_INT64, MAX_INT64),
    "retention.ms": _MINUS_ONE_OR_MORE,
    "segment.bytes": _integer(MIN_SEGMENT_BYTES, MAX_INT32),
    "segment.index.bytes": _integer(4, MAX_INT32),
    "segment.jitter.ms": _AT_LEAST_ZERO,
    "segment.ms": _integer(1, MAX_INT64),
    "unclean.leader.election.enable": _boolean,
}


def _field(name: str) -> str:
    if name not in SETTINGS:
        raise UsageError(f"no such topic setting: {name}")
    return "segment_bytes" if name == "internal.segment.bytes" else name.replace(".", "_")


def _parsed(name: str, text: str) -> Any:
    try:
        return SETTINGS[name](text)
    except ValueError as error:
        raise UsageError(f"{name}={text}: not a valid value: {error}") from None
