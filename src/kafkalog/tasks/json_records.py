"""Records from JSON lines: objects with `key`, `value`, `timestamp` and `headers`, as `kafkalog table records` writes them.

A key or value is null, a string, or {"base64": "..."} for bytes that are no text; any other JSON stands for its own text. A
timestamp is milliseconds since 1970 or ISO 8601 with a zone. Headers are a list of [key, value] or {"key": ..., "value": ...}.
Other names are ignored.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

import pyarrow as pa

from kafkalog.errors import UsageError
from kafkalog.segment.columns import RAW_HEADERS_TYPE

SCHEMA = pa.schema(
    [("key", pa.binary()), ("value", pa.binary()), ("timestamp_ms", pa.int64()), ("headers_raw", RAW_HEADERS_TYPE)]
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INT64 = range(-(1 << 63), 1 << 63)


def read_json_records(lines: Iterable[bytes], name: str, limit: int | None = None) -> pa.Table:
    """The records of the first `limit` lines that are not blank; UsageError names `name` and the line that is no record."""
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        if limit is not None and len(rows) >= limit:
            break
        if line.strip():
            rows.append(_Line(name, number).record(line))
    return pa.Table.from_pylist(rows, schema=SCHEMA)


class _Line:
    def __init__(self, name: str, number: int) -> None:
        self.place = f"{name}, line {number}"

    def fail(self, what: str) -> NoReturn:
        raise UsageError(f"{self.place}: {what}")

    def record(self, line: bytes) -> dict[str, Any]:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            self.fail(f"not JSON: {error}")
        if not isinstance(found, dict):
            self.fail('not a JSON object; write {"key": "k", "value": "v"}')
        return {
            "key": self.content(found.get("key")),
            "value": self.content(found.get("value")),
            "timestamp_ms": self.timestamp(found.get("timestamp", found.get("timestamp_ms"))),
            "headers_raw": [self.header(header) for header in self.headers(found.get("headers"))] or None,
        }

    def content(self, value: Any) -> bytes | None:
        if value is None:
            return None
        if isinstance(value, str):
            return value.encode(errors="surrogatepass")
        if isinstance(value, dict) and list(value) == ["base64"]:
            try:
                return base64.b64decode(value["base64"], validate=True)
            except (ValueError, TypeError):
                self.fail("not base64")
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")

    def timestamp(self, value: Any) -> int:
        if value is None:
            return -1
        if isinstance(value, int) and not isinstance(value, bool) and value in INT64:
            return value
        try:
            moment = datetime.fromisoformat(value)
        except (ValueError, TypeError):
            self.fail(f"{value!r} is no timestamp: write milliseconds since 1970, or 2026-01-31T12:00:00Z")
        if moment.tzinfo is None:
            self.fail(f"timestamp {value!r} has no time zone: write {value}Z for UTC")
        return (moment - EPOCH) // timedelta(milliseconds=1)

    def headers(self, value: Any) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            self.fail('headers are a list: [["name", "value"]]')
        return value

    def header(self, value: Any) -> dict[str, bytes | None]:
        pair = [value.get("key"), value.get("value")] if isinstance(value, dict) else value
        if not isinstance(pair, list) or len(pair) != 2 or pair[0] is None:
            self.fail('a header is ["name", "value"]; only its value may be null')
        return {"key": self.content(pair[0]), "value": self.content(pair[1])}
