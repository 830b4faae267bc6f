"""How far a stream lags its logs, from what Spark reports of each micro-batch.

Spark's own Kafka source reports this as `metrics` of its progress. A source that is written in Python cannot: Spark asks only
streams of the JVM that implement `ReportsSourceMetrics`, and its stream for Python sources does not (4.2.1 and 4.3.0). All
offsets are there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .options import TopicPartition

Progress = Mapping[str, Any]


@dataclass(frozen=True)
class SourceLag:
    """How many offsets of each partition were there, but not read, when a micro-batch ended."""

    offsets_behind: Mapping[TopicPartition, int]

    @property
    def total(self) -> int:
        return sum(self.offsets_behind.values())

    @property
    def metrics(self) -> dict[str, str]:
        """The names and the form that Spark's own Kafka source has in `sources[].metrics`; nothing without partitions."""
        if not self.offsets_behind:
            return {}
        counts = self.offsets_behind.values()
        return {
            "minOffsetsBehindLatest": str(min(counts)),
            "maxOffsetsBehindLatest": str(max(counts)),
            "avgOffsetsBehindLatest": str(self.total / len(counts)),
        }


def lag(progress: Progress | str | None) -> list[SourceLag]:
    """The lag of each source with offsets of topics (kafkalog's and Spark's own Kafka source), in the order of the query.

    `progress` is `query.lastProgress`, one of `query.recentProgress`, the `event.progress` of a StreamingQueryListener, or its
    JSON; None, before the first micro-batch, has no sources.
    """
    found: Progress = json.loads(progress) if isinstance(progress, str) else progress or {}
    lags = (_source_lag(source) for source in found.get("sources", ()))
    return [each for each in lags if each is not None]


def _source_lag(source: Progress) -> SourceLag | None:
    read, there = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    if read is None or there is None:
        return None
    # As Spark counts: of a partition that the micro-batch did not know yet, everything is new.
    return SourceLag({key: max(offset - read.get(key, 0), 0) for key, offset in sorted(there.items())})


def _offsets(given: Any) -> dict[TopicPartition, int] | None:
    """The offsets by partition, from JSON or from what was made of it; None if they are those of another kind of source."""
    try:
        value = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        return None
    if not isinstance(value, Mapping):
        return None
    found = {
        (topic, int(number)): offset
        for topic, numbers in value.items()
        if isinstance(numbers, Mapping)
        for number, offset in numbers.items()
        if str(number).isdecimal() and isinstance(offset, int)
    }
    return found if found or not value else None
