"""The schemas of Kafka's messages, from `messages.json`, a table made from Kafka's own jars (tests/interop/tools).

Each field has a name, a type and a range of versions; it may be null in some of them, and tagged: left out unless it differs
from its default. A message is flexible from some version on: sizes are uvarints then, and every struct ends in tagged fields.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

ARRAY = "[]"
ZERO_UUID = "A" * 22
_DEFAULTS: dict[str, Any] = {"bool": False, "string": "", "bytes": b"", "records": b"", "uuid": ZERO_UUID, "float64": 0.0}


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, both ends included; empty if the last is below the first."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


NO_VERSIONS = Versions(0, -1)
NEWEST = 32767


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct. `fields` are those of its own struct, or of the elements of its array."""

    name: str
    type: str
    versions: Versions
    nullable: Versions
    tagged: Versions
    flexible: Versions | None  # where it differs from the message's
    tag: int
    default: Any
    fields: tuple[Field, ...]

    @property
    def element(self) -> Field:
        """What an array is made of."""
        element_type = self.type.removeprefix(ARRAY)
        return Field(self.name, element_type, self.versions, NO_VERSIONS, NO_VERSIONS, self.flexible, -1, None, self.fields)


@dataclass(frozen=True, slots=True)
class Message:
    """One kind of message; `part` says whether it is the key or the value of a coordinator's record."""

    name: str
    api_key: int
    part: str
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]


@cache
def messages(topic: str) -> dict[str, Message]:
    """The messages of an internal topic (`consumer_offsets`, ...), or of clients (`client`), by name."""
    table = _table()[topic]
    return {name: _message(name, stored) for name, stored in table.items()}


@cache
def messages_by_type(topic: str) -> dict[tuple[int, str], Message]:
    """The messages of an internal topic by type and part."""
    return {(message.api_key, message.part): message for message in messages(topic).values()}


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(files(__package__).joinpath("messages.json").read_bytes())
    return table


def _message(name: str, stored: dict[str, Any]) -> Message:
    versions = _versions(stored["versions"])
    fields = tuple(_field(field) for field in stored["fields"])
    return Message(name, stored.get("apiKey", -1), stored.get("part", ""), versions, _versions(stored["flexible"]), fields)


def _field(stored: dict[str, Any]) -> Field:
    kind = stored["type"]
    fields = tuple(_field(field) for field in stored.get("fields", ()))
    default: Any = {field.name: field.default for field in fields if field.tag < 0} if fields else _DEFAULTS.get(kind, 0)
    flexible = stored.get("flexibleVersions")
    return Field(
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
    """Of "3", "1-4", "2+" or "none"."""
    if text == "none":
        return NO_VERSIONS
    first, _, last = text.partition("-")
    if first.endswith("+"):
        return Versions(int(first[:-1]), NEWEST)
    return Versions(int(first), int(last or first))
