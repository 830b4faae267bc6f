"""A writer of Kafka's own messages, by the table that the reader follows (`messages`, which also has the grammar)."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from typing import Any

from kafkalog.errors import UsageError
from kafkalog.format.varint import encode_uvarint

from .messages import ARRAY, INTEGERS, FieldSchema, MessageSchema, is_struct, messages

FRAME_VERSION = 1


def encode_cluster_metadata(name: str, version: int, values: Mapping[str, Any]) -> bytes:
    """The value of a record of KRaft's metadata log or of one of its snapshots; `name` as in TopicRecord."""
    message = messages("cluster_metadata")[name]
    head = b"".join(map(encode_uvarint, (FRAME_VERSION, message.api_key, version)))
    return head + encode_message(message, version, values)


def encode_message(message: MessageSchema, version: int, values: Mapping[str, Any]) -> bytes:
    """The bytes of a message in one of its versions. A field that is left out has its default.

    UsageError for a value that its field cannot hold, a field that the version lacks, or a name that no field has.
    """
    if version not in message.versions:
        raise UsageError(f"{message.name} has no version {version}; it has {message.versions.first} to {message.versions.last}")
    return _StructWriter(message, version).write(message.fields, values, message.name)


class _StructWriter:
    """Writes structs of one message in one version."""

    def __init__(self, message: MessageSchema, version: int) -> None:
        self.version = version
        self.flexible = version in message.flexible

    def write(self, fields: tuple[FieldSchema, ...], values: Mapping[str, Any], where: str) -> bytes:
        self._require_known(fields, values, where)
        here = [field for field in fields if self.version in field.versions]
        plain = [field for field in here if self.version not in field.tagged]
        content = b"".join(self._value(field, values.get(field.name, field.default), where) for field in plain)
        return (
            content + self._tagged([field for field in here if field not in plain], values, where) if self.flexible else content
        )

    def _require_known(self, fields: tuple[FieldSchema, ...], values: Mapping[str, Any], where: str) -> None:
        known = {field.name: field for field in fields}
        for name, value in values.items():
            if name not in known:
                raise UsageError(f"{where} has no field {name}")
            if self.version not in known[name].versions and value != known[name].default:
                raise UsageError(f"{where}.{name} does not exist in version {self.version}")

    def _tagged(self, fields: list[FieldSchema], values: Mapping[str, Any], where: str) -> bytes:
        """Those that differ from their defaults, by tag."""
        written = sorted(
            (field for field in fields if values.get(field.name, field.default) != field.default), key=lambda field: field.tag
        )
        parts = [encode_uvarint(len(written))]
        for field in written:
            content = self._tagged_value(field, values[field.name], where)
            parts += encode_uvarint(field.tag), encode_uvarint(len(content)), content
        return b"".join(parts)

    def _tagged_value(self, field: FieldSchema, value: Any, where: str) -> bytes:
        if not is_struct(field) or self.version not in field.nullable:
            return self._value(field, value, where)
        if value is None:
            return encode_uvarint(0)
        return encode_uvarint(1) + self.write(field.fields, value, f"{where}.{field.name}")

    def _value(self, field: FieldSchema, value: Any, where: str) -> bytes:
        kind, where = field.type, f"{where}.{field.name}"
        if kind == "string":
            return self._sized(field, None if value is None else value.encode(), 2, where)
        if kind.startswith(ARRAY):
            if value is None:
                return self._size(field, None, 4, where)
            elements = b"".join(self._value(field.element, each, where) for each in value)
            return self._size(field, len(value), 4, where) + elements
        if kind in ("bytes", "records"):
            return self._sized(field, value, 4, where)
        if not is_struct(field):
            return _scalar(kind, value, where)
        if self.version not in field.nullable:
            return self.write(field.fields, value, where)
        return b"\xff" if value is None else b"\x01" + self.write(field.fields, value, where)

    def _sized(self, field: FieldSchema, content: bytes | None, width: int, where: str) -> bytes:
        return self._size(field, None if content is None else len(content), width, where) + (content or b"")

    def _size(self, field: FieldSchema, size: int | None, width: int, where: str) -> bytes:
        """A size or count; None for null."""
        if size is None and self.version not in field.nullable:
            raise UsageError(f"{where} may not be null")
        flexible = self.flexible if field.flexible is None else self.version in field.flexible
        if flexible:
            return encode_uvarint(0 if size is None else size + 1)
        return _integer(-1 if size is None else size, width, True, where)


def _scalar(kind: str, value: Any, where: str) -> bytes:
    if kind in INTEGERS:
        return _integer(value, *INTEGERS[kind], where)
    if kind == "bool":
        return b"\x01" if value else b"\x00"
    if kind == "uuid":
        content = base64.urlsafe_b64decode(value + "==")
        if len(content) != 16:
            raise UsageError(f"{where}: {value!r} is no id of 16 bytes in base64")
        return content
    assert kind == "float64", kind
    return struct.pack(">d", value)


def _integer(value: int, size: int, signed: bool, where: str) -> bytes:
    try:
        return value.to_bytes(size, "big", signed=signed)
    except OverflowError:
        raise UsageError(f"{where}: {value} does not fit into {size} bytes") from None
