"""Messages of any schema with random content, encoded as Kafka encodes them."""

from __future__ import annotations

import random
import struct
from typing import Any

from kafkalog.format.varint import encode_uvarint
from kafkalog.payloads.messages import ARRAY, FieldSchema, MessageSchema

WIDTHS = {"int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint8": 1, "uint16": 2, "uint32": 4}
TEXTS = ("", "topic-a", "größe", 'quote " and \\ and \n\t\x01', "日本語🙂", "a" * 200)
NUMBERS = (0, 1, -1, 7, 127, -128)
DOUBLES = (0.0, -0.0, 1.0, 1048576.0, 1e7, 12345678.9, 0.001, 0.0001, -2.5e-9, 1e300, 3.0e-5, 123456.789)
UNKNOWN_TAG = 4000


def random_message(source: random.Random, message: MessageSchema, version: int) -> bytes:
    """The bytes of a message in that version."""
    return _Encoder(source, message, version).struct(message.fields)


class _Encoder:
    def __init__(self, source: random.Random, message: MessageSchema, version: int) -> None:
        self.source = source
        self.version = version
        self.flexible = version in message.flexible

    def struct(self, fields: tuple[FieldSchema, ...]) -> bytes:
        here = [field for field in fields if self.version in field.versions]
        plain = b"".join(self.value(field) for field in here if self.version not in field.tagged)
        if not self.flexible:
            return plain
        tags = {field.tag: self.tagged(field) for field in here if self.version in field.tagged and self.source.random() < 0.6}
        if self.source.random() < 0.2:
            tags[UNKNOWN_TAG] = self.source.randbytes(3)
        parts = [encode_uvarint(tag) + encode_uvarint(len(data)) + data for tag, data in sorted(tags.items())]
        return plain + encode_uvarint(len(parts)) + b"".join(parts)

    def tagged(self, field: FieldSchema) -> bytes:
        if not field.type[0].isupper() or self.version not in field.nullable:
            return self.value(field)
        return b"\0" if self.source.random() < 0.3 else b"\1" + self.struct(field.fields)

    def value(self, field: FieldSchema) -> bytes:
        nullable = self.version in field.nullable
        null = nullable and self.source.random() < 0.3
        if field.type == "string":
            return self.sized(None if null else self.source.choice(TEXTS).encode(), 2)
        if field.type == "bytes":
            return self.sized(None if null else self.source.randbytes(self.source.randrange(9)), 4)
        if field.type.startswith(ARRAY):
            count = self.source.randrange(4)
            elements = b"".join(self.value(field.element) for _ in range(count))
            return self.size(-1 if null else count, 4) + (b"" if null else elements)
        if field.type[0].isupper():
            return b"\xff" if null else (b"\1" if nullable else b"") + self.struct(field.fields)
        return self.scalar(field.type)

    def scalar(self, kind: str) -> bytes:
        if kind == "bool":
            return bytes([self.source.randrange(2)])
        if kind == "uuid":
            return self.source.choice([bytes(16), self.source.randbytes(16)])
        if kind == "float64":
            return struct.pack(">d", self.source.choice(DOUBLES))
        width = WIDTHS[kind]
        if self.source.random() < 0.5:
            return self.source.randbytes(width)
        number: Any = self.source.choice(NUMBERS)
        return int(number).to_bytes(width, "big", signed=True)

    def sized(self, content: bytes | None, width: int) -> bytes:
        return self.size(-1, width) if content is None else self.size(len(content), width) + content

    def size(self, size: int, width: int) -> bytes:
        return encode_uvarint(size + 1) if self.flexible else size.to_bytes(width, "big", signed=True)
