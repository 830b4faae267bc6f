"""Keys and values of known kinds as JSON text: Kafka's internal topics, JSON, and Avro with its schema.

What does not decode is left as it is, and counted: no record is lost to a decoder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import pyarrow as pa

from kafkalog.errors import CorruptBatch, UsageError
from kafkalog.payloads import internal_topics
from kafkalog.payloads.avro import AvroDecoder
from kafkalog.payloads.bounds import MAX_DEPTH, is_too_deep
from kafkalog.payloads.internal_topics import json_text
from kafkalog.payloads.registry import PrefixedDecoder, content_of
from kafkalog.payloads.values import Decoder

DECODED_FIELDS = (pa.field("key_json", pa.string()), pa.field("value_json", pa.string()))

# JSON texts of keys and of values, null where there is none, and how many did not decode.
Decoded = tuple[pa.Array, pa.Array, int]
PayloadDecoder = Callable[[pa.Array, pa.Array], Decoded]
Texts = tuple[str | None, str | None]
SPACES = str.maketrans("\t\n\r", "   ")


def make_payload_decoder(name: str, *, schema: str | None = None, registry_prefix: bool = False) -> PayloadDecoder:
    """The decoder of that name; UsageError for one that is not known, and for Avro without a schema."""
    if name == "avro":
        if schema is None:
            raise UsageError("Avro needs the schema that the values were written with: --schema FILE")
        decoder: Decoder = AvroDecoder(schema)
        return _avro(PrefixedDecoder(decoder) if registry_prefix else decoder)
    if schema is not None or (registry_prefix and name != "json"):
        raise UsageError(f"a schema belongs to avro, its registry's prefix to avro and json, not to {name}")
    if name not in DECODERS:
        raise UsageError(f"unknown decoder {name!r}; there are {', '.join(DECODERS)} and avro")
    return _one_by_one(_prefixed_json if registry_prefix else DECODERS[name])


def internal_topic_decoders(topics: Iterable[str]) -> dict[str, PayloadDecoder]:
    """A decoder for each of these topics that is one of Kafka's own."""
    return {topic: _one_by_one(DECODERS[INTERNAL_TOPICS[topic]]) for topic in topics if topic in INTERNAL_TOPICS}


def _one_by_one(decode: Callable[[bytes | None, bytes | None], Texts]) -> PayloadDecoder:
    def decode_all(keys: pa.Array, values: pa.Array) -> Decoded:
        texts: list[Texts] = []
        failed = 0
        for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True):
            try:
                texts.append(decode(key, value))
            except CorruptBatch:
                texts.append((None, None))
                failed += 1
        return pa.array([key for key, _ in texts], pa.string()), pa.array([value for _, value in texts], pa.string()), failed

    return decode_all


def _coordinator(decode: Callable[[bytes, bytes | None], internal_topics.CoordinatorRecord]) -> Callable[..., Texts]:
    def texts(key: bytes | None, value: bytes | None) -> Texts:
        if key is None:
            raise CorruptBatch("payload", detail="a record without a key")
        record = decode(key, value)
        key_text = json_text({"type": record.type, "data": record.key})
        return key_text, None if record.value is None else json_text({"version": record.version, "data": record.value})

    return texts


def _metadata(decode: Callable[[bytes], internal_topics.MetadataRecord]) -> Callable[..., Texts]:
    def texts(key: bytes | None, value: bytes | None) -> Texts:
        if value is None:
            return None, None
        record = decode(value)
        return None, json_text({"type": record.name, "version": record.version, "data": record.data})

    return texts


def _json(key: bytes | None, value: bytes | None) -> Texts:
    """The value's own text, once it has proved to be JSON: numbers keep their digits, members their order."""
    if value is None:
        return None, None
    if is_too_deep(value):
        raise CorruptBatch("payload", detail=f"JSON of more than {MAX_DEPTH} levels")
    try:
        text = value.decode()
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise CorruptBatch("payload", detail="not JSON") from None
    return None, text.translate(SPACES)


def _prefixed_json(key: bytes | None, value: bytes | None) -> Texts:
    content = None if value is None else content_of(value)
    if value is not None and content is None:
        raise CorruptBatch("payload", detail="no prefix of a schema registry")
    return _json(key, content)


def json_object_text(value: bytes) -> str | None:
    """The text of a value that is a JSON object or array; None for anything else, which is plain text."""
    if value.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        return _json(None, value)[1]
    except CorruptBatch:
        return None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _avro(decoder: Decoder) -> PayloadDecoder:
    def decode_all(keys: pa.Array, values: pa.Array) -> Decoded:
        found, failed = decoder.decode(values)
        texts = [
            None if value is None or is_failed else json_text(_plain(decoded))
            for value, decoded, is_failed in zip(values.to_pylist(), found.to_pylist(), failed.tolist(), strict=True)
        ]
        return pa.nulls(len(keys), pa.string()), pa.array(texts, pa.string()), int(failed.sum())

    return decode_all


def _plain(value: Any) -> Any:
    """What JSON has no type for: times in ISO 8601, decimals with all their digits, maps as pairs."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, str | bytes | bool | int | float):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


DECODERS: dict[str, Callable[[bytes | None, bytes | None], Texts]] = {
    "consumer-offsets": _coordinator(internal_topics.decode_consumer_offsets),
    "transaction-state": _coordinator(internal_topics.decode_transaction_state),
    "cluster-metadata": _metadata(internal_topics.decode_cluster_metadata),
    "share-group-state": _coordinator(internal_topics.decode_share_group_state),
    "remote-log-metadata": _metadata(internal_topics.decode_remote_log_metadata),
    "json": _json,
}
INTERNAL_TOPICS = {
    "__consumer_offsets": "consumer-offsets",
    "__transaction_state": "transaction-state",
    "__cluster_metadata": "cluster-metadata",
    "__share_group_state": "share-group-state",
    "__remote_log_metadata": "remote-log-metadata",
}
