"""How far a stream lags behind its logs, from the progress that Spark reports for each micro-batch.

Spark's own Kafka source reports this as `metrics` of its progress. A source written in Python cannot: Spark asks only streams of
the JVM that implement `ReportsSourceMetrics`, and its stream for Python sources does not (4.0 to 4.3). But the progress has
all offsets.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kafkalog.format.quantities import plural

from .options import TopicPartition

Progress = Mapping[str, Any]


@dataclass(frozen=True, repr=False)
class SourceLag:
    """How many offsets of each partition were available, but not read, when a micro-batch ended."""

    offsets_behind: Mapping[TopicPartition, int]

    def __repr__(self) -> str:
        return f"SourceLag({plural(self.total, 'offset')} behind, {plural(len(self.offsets_behind), 'partition')})"

    @property
    def total(self) -> int:
        return sum(self.offsets_behind.values())

    @property
    def metrics(self) -> dict[str, str]:
        """Names and form as Spark's own Kafka source has them in `sources[].metrics`; empty without partitions."""
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
    read, available = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    if read is None or available is None:
        return None
    # As Spark counts: everything is new in a partition that the micro-batch did not have yet.
    return SourceLag({key: max(offset - read.get(key, 0), 0) for key, offset in sorted(available.items())})


def _parsed(text: str) -> Any:
    """The value of JSON, or of what PySpark 4.0 and 4.1 make of it: Python's notation; None if it is neither."""
    for parse in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError):
            return parse(text)
    return None


def _offsets(given: Any) -> dict[TopicPartition, int] | None:
    """The offsets by partition, from JSON text or parsed JSON; None if they are of another kind of source."""
    value = _parsed(given) if isinstance(given, str) else given
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
