"""Kafka's own messages: their schemas, and a reader that follows any of them. `message_writing` has the writer.

The schemas are in `messages.json`, a table made from Kafka's jars (tests/interop/tools). Each field has a name, a type and a
range of versions; it may be null in some of them, and tagged: left out unless it differs from its default. A message is flexible
from some version on: sizes are uvarints then, and every struct ends in tagged fields.

    int8 .. int64     big-endian; bool is a byte; float64 as IEEE 754; uuid 16 bytes
    string            int16 size, or in a flexible version uvarint size + 1; -1 or 0 is null
    bytes, array      int32 size or count, or uvarint + 1
    struct            its fields; one that may be null has a byte before it that is negative for null, or as a tagged field a
                      uvarint that is 0 for null
    tagged fields     at the end of every struct of a flexible version: uvarint count, then tag, size and value of each

No size is trusted before it has been compared with the bytes that are left.
"""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from kafkalog.errors import CorruptBatch
from kafkalog.format.java import MAX_INT32, decode_utf8
from kafkalog.format.quantities import plural
from kafkalog.format.varint import MAX_VARINT_SIZE, decode_uvarint

ARRAY = "[]"
ZERO_UUID = "A" * 22
_DEFAULTS: dict[str, Any] = {"bool": False, "string": "", "bytes": b"", "records": b"", "uuid": ZERO_UUID, "float64": 0.0}


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, both ends included; empty if the last is below the first."""

    first: int
    last: int

    def __repr__(self) -> str:
        return f"Versions({self.first}-{self.last})"

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


NO_VERSIONS = Versions(0, -1)
NEWEST = 32767


@dataclass(frozen=True, slots=True)
class FieldSchema:
    """One field of a struct. `fields` are those of its struct, or of the elements of its array."""

    name: str
    type: str
    versions: Versions
    nullable: Versions
    tagged: Versions
    flexible: Versions | None  # where it differs from the message's
    tag: int
    default: Any
    fields: tuple[FieldSchema, ...]

    def __repr__(self) -> str:
        return f"FieldSchema({self.name!r}, {self.type}, {self.versions})"

    @property
    def element(self) -> FieldSchema:
        """The elements of an array, as a field."""
        element_type = self.type.removeprefix(ARRAY)
        return FieldSchema(self.name, element_type, self.versions, NO_VERSIONS, NO_VERSIONS, self.flexible, -1, None, self.fields)


@dataclass(frozen=True, slots=True)
class MessageSchema:
    """One kind of message; `part` says whether it is the key or the value of a coordinator record."""

    name: str
    api_key: int
    part: str
    versions: Versions
    flexible: Versions
    fields: tuple[FieldSchema, ...]

    def __repr__(self) -> str:
        return f"MessageSchema({self.name!r}, {self.versions}, {plural(len(self.fields), 'field')})"


@cache
def messages(topic: str) -> dict[str, MessageSchema]:
    """The messages of an internal topic (`consumer_offsets`, ...), or of clients (`client`), by name."""
    table = _table()[topic]
    return {name: _message(name, stored) for name, stored in table.items()}


@cache
def messages_by_type(topic: str) -> dict[tuple[int, str], MessageSchema]:
    """The messages of an internal topic by type and part."""
    return {(message.api_key, message.part): message for message in messages(topic).values()}


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(files(__package__).joinpath("messages.json").read_bytes())
    return table


def _message(name: str, stored: dict[str, Any]) -> MessageSchema:
    versions = _versions(stored["versions"])
    fields = tuple(_field(field) for field in stored["fields"])
    return MessageSchema(name, stored.get("apiKey", -1), stored.get("part", ""), versions, _versions(stored["flexible"]), fields)


def _field(stored: dict[str, Any]) -> FieldSchema:
    kind = stored["type"]
    fields = tuple(_field(field) for field in stored.get("fields", ()))
    default: Any = {field.name: field.default for field in fields if field.tag < 0} if fields else _DEFAULTS.get(kind, 0)
    flexible = stored.get("flexibleVersions")
    return FieldSchema(
        name=stored["name"][0].lower() + stored["name"][1:],
        type=kind,
        versions=_versions(stored["versions"]),
        nullable=_versions(stored.get("nullableVersions", "none")),
        tagged=_versions(stored.get("taggedVersions", "none")),
        flexible=None if flexible is None else _versions(flexible),
        tag=stored.get("tag", -1),
        default=stored.get("default", [] if kind.startswith(ARRAY) else default),
        fields=fields,
    )


def _versions(text: str) -> Versions:
    """The range of "3", "1-4", "2+" or "none"."""
    if text == "none":
        return NO_VERSIONS
    first, _, last = text.partition("-")
    if first.endswith("+"):
        return Versions(int(first[:-1]), NEWEST)
    return Versions(int(first), int(last or first))


# Reading

INTEGERS = {
    "int8": (1, True),
    "int16": (2, True),
    "int32": (4, True),
    "int64": (8, True),
    "uint8": (1, False),
    "uint16": (2, False),
    "uint32": (4, False),
}
MAX_STRING = 0x7FFF


def payload_error(detail: str) -> CorruptBatch:
    """`detail` is the message of Kafka's own decoder, where it has one."""
    return CorruptBatch("payload", detail=detail)


class MessageReader:
    """Reads fields from the front of the bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.position

    def message(self, message: MessageSchema, version: int) -> dict[str, Any]:
        """The fields of a message. A version outside the schema's is read as the nearest one, as Kafka's own readers do."""
        nearest = min(max(version, message.versions.first), message.versions.last)
        return _StructReader(self, message, nearest).read(message.fields)

    def integer(self, size: int, signed: bool = True) -> int:
        return int.from_bytes(self._fixed(size), "big", signed=signed)

    def uvarint(self) -> int:
        try:
            number, self.position = decode_uvarint(self.data, self.position)
        except CorruptBatch as error:
            raise payload_error(self._long_varint() if error.reason == "varint" else "null") from None
        return number - (1 << 32) if number > MAX_INT32 else number

    def _long_varint(self) -> str:
        groups = self.data[self.position : self.position + MAX_VARINT_SIZE]
        value = sum((byte & 0x7F) << 7 * number for number, byte in enumerate(groups)) & 0xFFFF_FFFF
        return f"Varint is too long, the most significant bit in the 5th byte is set, converted value: {value:x}"

    def take(self, size: int) -> bytes:
        if size > self.left or size < 0:
            raise payload_error(f"Error reading byte array of {size} byte(s): only {self.left} byte(s) available")
        return self._advance(size)

    def _fixed(self, size: int) -> bytes:
        if size > self.left:
            raise payload_error("null")  # Java's BufferUnderflowException has no message
        return self._advance(size)

    def _advance(self, size: int) -> bytes:
        self.position += size
        return self.data[self.position - size : self.position]

    def scalar(self, kind: str) -> Any:
        """A value of a type that has a fixed size."""
        if kind in INTEGERS:
            return self.integer(*INTEGERS[kind])
        if kind == "bool":
            return self.integer(1) != 0
        if kind == "uuid":
            return base64.urlsafe_b64encode(self._fixed(16)).decode().rstrip("=")
        assert kind == "float64", kind
        (number,) = struct.unpack(">d", self._fixed(8))
        return number


class _StructReader:
    """Reads structs of one message in one version."""

    def __init__(self, reader: MessageReader, message: MessageSchema, version: int) -> None:
        self.reader = reader
        self.version = version
        self.flexible = version in message.flexible

    def read(self, fields: tuple[FieldSchema, ...]) -> dict[str, Any]:
        """The fields in the order of the schema; a tagged one is included if it is not its default."""
        here = [field for field in fields if self.version in field.versions]
        plain = {field.name: self._value(field) for field in here if self.version not in field.tagged}
        tagged = self._tagged({field.tag: field for field in fields if field.tag >= 0}) if self.flexible else {}
        values = plain | tagged
        return {field.name: values[field.name] for field in here if field.name in values}

    def _tagged(self, known: dict[int, FieldSchema]) -> dict[str, Any]:
        values = {}
        for _ in range(self.reader.uvarint()):
            tag, size = self.reader.uvarint(), self.reader.uvarint()
            field = known.get(tag)
            if field is None:
                self.reader.take(size)
            elif self.version in field.tagged:
                values[field.name] = self._tagged_value(field)
            else:
                raise payload_error(f"Tag {tag} is not valid for version {self.version}")
        defaults = {field.name: field.default for field in known.values()}
        return {name: value for name, value in values.items() if value != defaults[name]}

    def _tagged_value(self, field: FieldSchema) -> Any:
        if not is_struct(field) or self.version not in field.nullable:
            return self._value(field)
        return self.read(field.fields) if self.reader.uvarint() > 0 else None

    def _value(self, field: FieldSchema) -> Any:
        kind = field.type
        if kind == "string":
            return self._string(field)
        if kind.startswith(ARRAY):
            return self._array(field)
        if kind in ("bytes", "records"):
            size = self._size(field, 4)
            return None if size is None else self.reader.take(size)
        if not is_struct(field):
            return self.reader.scalar(kind)
        is_null = self.version in field.nullable and self.reader.integer(1) < 0
        return None if is_null else self.read(field.fields)

    def _string(self, field: FieldSchema) -> str | None:
        size = self._size(field, 2)
        if size is None:
            return None
        if size > MAX_STRING:
            raise payload_error(f"string field {field.name} had invalid length {size}")
        return decode_utf8(self.reader.take(size))

    def _array(self, field: FieldSchema) -> list[Any] | None:
        count = self._size(field, 4)
        if count is None:
            return None
        left = self.reader.left
        if count > left:
            raise payload_error(f"Tried to allocate a collection of size {count}, but there are only {left} bytes remaining.")
        element = field.element
        return [self._value(element) for _ in range(count)]

    def _size(self, field: FieldSchema, width: int) -> int | None:
        """A stored size or count; None for null."""
        flexible = self.flexible if field.flexible is None else self.version in field.flexible
        size = self.reader.uvarint() - 1 if flexible else self.reader.integer(width)
        if size >= 0:
            return size
        if self.version in field.nullable:
            return None
        raise payload_error(f"non-nullable field {field.name} was serialized as null")


def is_struct(field: FieldSchema) -> bool:
    """Whether a field is a struct: those have names of their own as types."""
    return field.type[0].isupper()
