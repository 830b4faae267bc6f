"""Records from JSON lines: objects with `key`, `value`, `timestamp` and `headers`, as `kafkalog cat --format json` writes them.

A key or value is null, a string, or {"base64": "..."} for bytes that are no text; any other JSON stands for its own text. A
timestamp is milliseconds since 1970 or ISO 8601 with a zone. Headers are a list of [key, value] or {"key": ..., "value": ...}.
Other names are ignored. Any other JSON, such as an object with neither a key nor a value, is a value itself.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, NoReturn

import pyarrow as pa

from kafkalog.errors import UsageError
from kafkalog.format.java import MAX_INT32, MAX_INT64, MIN_INT64
from kafkalog.segment.columns import RAW_HEADERS_TYPE

SCHEMA = pa.schema(
    [("key", pa.binary()), ("value", pa.binary()), ("timestamp_ms", pa.int64()), ("headers_raw", RAW_HEADERS_TYPE)]
)
PARTITION = pa.field("partition", pa.int32())
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INT64 = range(MIN_INT64, MAX_INT64 + 1)
INT32 = range(MAX_INT32 + 1)
CONTENT_NAMES = frozenset({"key", "value"})
OTHER_NAMES = frozenset({"topic", "partition", "offset", "timestamp", "timestamp_ms", "timestampType", "headers"})


def _base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


# How strings of keys, values and headers are decoded, by the names of `kafkalog cat --encoding`.
ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "utf8": lambda text: text.encode(errors="surrogatepass"),
    "hex": bytes.fromhex,
    "base64": _base64,
}


def read_json_records(lines: Iterable[bytes], name: str, limit: int | None = None) -> pa.Table:
    """The records of the first `limit` lines that are not blank; UsageError, with `name` and the line, for any other."""
    rows = list(islice(_records(lines, name, "utf8"), limit))
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def iter_json_records(lines: Iterable[bytes], name: str, encoding: str, rows_at_once: int) -> Iterator[pa.Table]:
    """The records of all lines that are not blank, in tables of `rows_at_once`, with the partitions that they name."""
    records = _records(lines, name, encoding)
    while rows := list(islice(records, rows_at_once)):
        yield pa.Table.from_pylist(rows, schema=SCHEMA.append(PARTITION))


def _records(lines: Iterable[bytes], name: str, encoding: str) -> Iterator[dict[str, Any]]:
    decode = ENCODINGS[encoding]
    return (RecordText(f"{name}, line {number}", decode).record(line) for number, line in enumerate(lines, 1) if line.strip())


class RecordText:
    """One record of a text; errors name its place."""

    def __init__(self, place: str, decode: Callable[[str], bytes]) -> None:
        self.place = place
        self.decode = decode

    def fail(self, what: str) -> NoReturn:
        raise UsageError(f"{self.place}: {what}")

    def json(self, text: bytes | str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            self.fail(f"not JSON: {error}")

    def record(self, line: bytes) -> dict[str, Any]:
        found = self.json(line)
        if not isinstance(found, dict) or not (CONTENT_NAMES & found.keys() or found.keys() <= OTHER_NAMES):
            found = {"value": found}
        return {
            "key": self.content(found.get("key")),
            "value": self.content(found.get("value")),
            "timestamp_ms": self.timestamp(found.get("timestamp", found.get("timestamp_ms"))),
            "headers_raw": self.headers(found.get("headers")),
            "partition": self.partition(found.get("partition")),
        }

    def content(self, value: Any) -> bytes | None:
        if value is None:
            return None
        try:
            if isinstance(value, str):
                return self.decode(value)
            if isinstance(value, dict) and list(value) == ["base64"]:
                return _base64(value["base64"])
        except (ValueError, TypeError) as error:
            self.fail(f"not in this encoding, or not base64: {error}")
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")

    def timestamp(self, value: Any) -> int:
        if value is None:
            return -1
        if isinstance(value, int) and not isinstance(value, bool) and value in INT64:
            return value
        try:
            moment = datetime.fromisoformat(value)
        except (ValueError, TypeError):
            self.fail(f"{value!r} is not a timestamp: write milliseconds since 1970, or 2026-01-31T12:00:00Z")
        if moment.tzinfo is None:
            self.fail(f"timestamp {value!r} has no time zone: write {value}Z for UTC")
        return (moment - EPOCH) // timedelta(milliseconds=1)

    def partition(self, value: Any) -> int | None:
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value not in INT32):
            self.fail(f"{value!r} is not a partition: write a number, 0 or above")
        return value

    def headers(self, value: Any) -> list[dict[str, bytes | None]] | None:
        if value is None:
            return None
        if isinstance(value, dict):
            value = [[name, content] for name, content in value.items()]
        if not isinstance(value, list):
            self.fail('headers are [["name", "value"]] or {"name": "value"}')
        return [self.header(header) for header in value] or None

    def header(self, value: Any) -> dict[str, bytes | None]:
        pair = [value.get("key"), value.get("value")] if isinstance(value, dict) else value
        if not isinstance(pair, list) or len(pair) != 2 or pair[0] is None:
            self.fail('a header is ["name", "value"]; only its value may be null')
        return {"key": self.content(pair[0]), "value": self.content(pair[1])}
