"""The text files of a log directory.

    offset checkpoint        lines: "0", number of entries, then "<topic> <partition> <offset>" each
    leader epoch checkpoint  lines: "0", number of entries, then "<epoch> <start offset>" each
    partition.metadata       lines: "version: 0", "topic_id: <22 characters of URL-safe base64>", no line end after the last
    meta.properties          Java properties: version, broker.id or node.id, cluster.id, directory.id
    .kafka_cleanshutdown     empty before Kafka 3.7, then JSON: {"version":0,"brokerEpoch":103}
    quorum-state             JSON: who leads the KRaft quorum, and for whom this node voted

A checkpoint of zero bytes has no entries: brokers create it so. Anything else raises UnsupportedFormat("file-format"), or
("version") if only the version is unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from kafkalog.errors import NotANumber, UnsupportedFormat, UsageError

VERSION: Final = 0
# More partitions than a broker has, more epochs than a partition sees. Larger files are refused: to parse them takes seconds.
MAX_LINES: Final = 200_000

_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANKS = re.compile(r"[ \t\v\f]+")
_INTEGER = re.compile(r"[+-]?[0-9]{1,32}")
# Checkpoints as brokers write them, with numbers too short to overflow. Possessive, so that the matcher keeps no state.
_PLAIN_OFFSETS = re.compile(r"0\n[0-9]{1,9}+\n(?:[!-~]++ [0-9]{1,9}+ [0-9]{1,18}+\n)*+")
_PLAIN_EPOCHS = re.compile(r"0\n[0-9]{1,9}+\n(?:[0-9]{1,9}+ [0-9]{1,18}+\n)*+")
_UUID = re.compile(r"[A-Za-z0-9_-]{22}")
_ZERO_UUID = "A" * 22


class PartitionOffset(NamedTuple):
    """A line of an offset checkpoint."""

    topic: str
    partition: int
    offset: int


class EpochStart(NamedTuple):
    """A line of a leader epoch checkpoint: the first offset that was written in an epoch."""

    epoch: int
    start_offset: int


class PartitionMetadata(NamedTuple):
    """Content of partition.metadata."""

    version: int
    topic_id: str


class MetaProperties(NamedTuple):
    """Content of meta.properties; None for what is absent. `node_id` is broker.id in version 0."""

    version: int
    node_id: int | None
    cluster_id: str | None
    directory_id: str | None


class CleanShutdown(NamedTuple):
    """Content of .kafka_cleanshutdown; the epoch is -1 if the broker did not write it."""

    version: int
    broker_epoch: int


class QuorumState(NamedTuple):
    """Content of quorum-state; -1 and None for what is absent. Only version 0 lists the voters."""

    data_version: int
    leader_id: int
    leader_epoch: int
    voted_id: int
    voted_directory_id: str | None
    current_voters: tuple[int, ...]


def decode_offset_checkpoint(data: bytes) -> list[PartitionOffset]:
    """The lines of an offset checkpoint, in order."""
    plain = _plain_columns(data, _PLAIN_OFFSETS, 3)
    if plain is not None:
        topics, partitions, offsets = plain
        return list(map(PartitionOffset, topics, map(int, partitions), map(int, offsets)))
    return [
        PartitionOffset(topic, _number(partition, 32, line), _number(offset, 64, line))
        for line, (topic, partition, offset) in _checkpoint_lines(data, 3)
    ]


def encode_offset_checkpoint(entries: Iterable[PartitionOffset]) -> bytes:
    """The bytes of an offset checkpoint with these lines."""
    return _encode_checkpoint(list(entries))


def decode_leader_epoch_checkpoint(data: bytes) -> list[EpochStart]:
    """The lines of a leader epoch checkpoint, in order."""
    plain = _plain_columns(data, _PLAIN_EPOCHS, 2)
    if plain is not None:
        epochs, start_offsets = plain
        return list(map(EpochStart, map(int, epochs), map(int, start_offsets)))
    return [
        EpochStart(_number(epoch, 32, line), _number(start_offset, 64, line))
        for line, (epoch, start_offset) in _checkpoint_lines(data, 2)
    ]


def encode_leader_epoch_checkpoint(entries: Iterable[EpochStart]) -> bytes:
    """The bytes of a leader epoch checkpoint with these lines."""
    return _encode_checkpoint(list(entries))


def decode_partition_metadata(data: bytes) -> PartitionMetadata:
    """The version and topic id of a partition.metadata file."""
    lines = _lines(data)
    if len(lines) != 2:
        raise _malformed("a line with the version and one with the topic id", f"{len(lines)} lines")
    version = _integer(_labelled("version", lines[0]), 32, 1)
    topic_id = _labelled("topic_id", lines[1])
    if version < 0:
        raise UnsupportedFormat("version", expected="0 or above", found=version)
    if not _UUID.fullmatch(topic_id) or topic_id == _ZERO_UUID:
        raise _malformed("a topic id of 22 base64 characters, not zero", _shown(topic_id))
    return PartitionMetadata(version, topic_id)


def encode_partition_metadata(metadata: PartitionMetadata) -> bytes:
    """The bytes of a partition.metadata file."""
    if not _UUID.fullmatch(metadata.topic_id) or metadata.topic_id == _ZERO_UUID:
        raise UsageError(f"not a topic id: {metadata.topic_id!r}; it is 22 characters of URL-safe base64, not zero")
    return f"version: {metadata.version}\ntopic_id: {metadata.topic_id}".encode()


def decode_meta_properties(data: bytes) -> MetaProperties:
    """The content of a meta.properties file."""
    properties = decode_properties(data)
    version = _integer(properties.get("version", "0"), 32)
    if version not in (0, 1):
        raise UnsupportedFormat("version", expected="0 or 1", found=version)
    node_id = properties.get("node.id", properties.get("broker.id"))
    return MetaProperties(
        version,
        None if node_id is None else _integer(node_id, 32),
        properties.get("cluster.id"),
        properties.get("directory.id"),
    )


def decode_properties(data: bytes) -> dict[str, str]:
    """The keys and values of a Java properties file."""
    properties = {}
    lines = iter(_lines(data))
    for line in lines:
        text = line.lstrip(" \t\f")
        if not text or text[0] in "#!":
            continue
        while _ends_in_backslash(text):
            text = text[:-1] + next(lines, "").lstrip(" \t\f")
        # The key ends at the first blank, "=" or ":" that no backslash escapes.
        key = re.match(r"(?:[^\\ \t\f=:]|\\.?)*", text, re.DOTALL)
        assert key is not None
        value = re.sub(r"^[ \t\f]*[=:]?[ \t\f]*", "", text[key.end() :])
        properties[_unescaped(key.group())] = _unescaped(value)
    return properties


def decode_clean_shutdown(data: bytes) -> CleanShutdown:
    """The content of a clean shutdown marker; before Kafka 3.7 only its presence counts."""
    if not data:
        return CleanShutdown(0, -1)
    content = _json_object(data)
    return CleanShutdown(_json_integer(content, "version", 32, 0), _json_integer(content, "brokerEpoch", 64, -1))


def decode_quorum_state(data: bytes) -> QuorumState:
    """The content of a quorum-state file."""
    content = _json_object(data)
    voters = content.get("currentVoters") or []
    if not isinstance(voters, list) or not all(isinstance(voter, dict) for voter in voters):
        raise _malformed("a list of voters", _shown(voters))
    directory_id = content.get("votedDirectoryId")
    if directory_id is not None and not isinstance(directory_id, str):
        raise _malformed("votedDirectoryId as text", _shown(directory_id))
    return QuorumState(
        _json_integer(content, "data_version", 16, 0),
        _json_integer(content, "leaderId", 32, -1),
        _json_integer(content, "leaderEpoch", 32, -1),
        _json_integer(content, "votedId", 32, -1),
        directory_id,
        tuple(_json_integer(voter, "voterId", 32, -1) for voter in voters),
    )


def _plain_columns(data: bytes, form: re.Pattern[str], width: int) -> list[list[str]] | None:
    """The columns of a checkpoint in its usual form, ten times as fast as line by line; None for any other form."""
    if data.count(b"\n") > MAX_LINES:
        raise UnsupportedFormat("file-format", position=0, expected=f"at most {MAX_LINES} lines", found=data.count(b"\n"))
    text = _text(data)
    if form.fullmatch(text) is None:
        return None
    words = text.split()
    return [words[2 + column :: width] for column in range(width)] if len(words) - 2 == int(words[1]) * width else None


def _checkpoint_lines(data: bytes, width: int) -> Iterator[tuple[int, Sequence[str]]]:
    """Line number and fields of each entry of a checkpoint. As in Kafka, the first fault counts; the count is checked last."""
    lines = _lines(data)
    if lines and _integer(lines[0], 32, 1) != VERSION:
        raise UnsupportedFormat("version", position=0, expected=VERSION, found=int(lines[0]))
    if len(lines) < 2:
        return
    count = _integer(lines[1], 32, 2)
    for number, line in enumerate(lines[2:], 3):
        fields = _BLANKS.split(line.rstrip(" \t\v\f"))
        if len(fields) != width or not fields[0]:
            raise _malformed(f"{width} fields in line {number}", _shown(line))
        yield number, fields
    if count != len(lines) - 2:
        raise _malformed(f"{count} entries, as line 2 says", len(lines) - 2)


def _encode_checkpoint(entries: Sequence[tuple[object, ...]]) -> bytes:
    lines = [str(VERSION), str(len(entries)), *(" ".join(map(str, entry)) for entry in entries)]
    return "".join(line + "\n" for line in lines).encode()


def _lines(data: bytes) -> list[str]:
    text = _text(data)
    lines = _LINE_END.split(text)
    if not lines[-1]:
        lines.pop()
    return lines


def _text(data: bytes) -> str:
    try:
        return bytes(data).decode()
    except UnicodeDecodeError as error:
        raise UnsupportedFormat("file-format", position=error.start, expected="UTF-8 text", found="other bytes") from None


def _labelled(label: str, line: str) -> str:
    match = re.fullmatch(re.escape(label) + r":[ \t\v\f]+(.*)", line)
    if match is None:
        raise _malformed(f"{label}: and a value", _shown(line))
    return match.group(1)


def _integer(text: str, bits: int, line: int | None = None) -> int:
    if _INTEGER.fullmatch(text) and -(1 << bits - 1) <= int(text) < 1 << bits - 1:
        return int(text)
    raise _malformed(f"an integer of {bits} bits" + (f" in line {line}" if line else ""), _shown(text))


def _number(text: str, bits: int, line: int) -> int:
    """An integer in an entry of a checkpoint."""
    try:
        return _integer(text, bits, line)
    except UnsupportedFormat as error:
        raise NotANumber(error.reason, expected=error.expected, found=error.found) from None


def _ends_in_backslash(text: str) -> bool:
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        escape = match.group(1)
        if escape.startswith("u"):
            if len(escape) != 5:
                raise _malformed("four hex digits after \\u", _shown(match.group()))
            return chr(int(escape[1:], 16))
        return {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(escape, escape)

    return re.sub(r"\\(u[0-9a-fA-F]{0,4}|.?)", character, text, flags=re.DOTALL)


def _json_object(data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(_text(data))
    except (ValueError, RecursionError):  # the parser recurses on nested brackets
        raise _malformed("JSON", "other text") from None
    if not isinstance(content, dict):
        raise _malformed("a JSON object", type(content).__name__)
    return content


def _json_integer(content: dict[str, Any], name: str, bits: int, absent: int) -> int:
    value = content.get(name, absent)
    if isinstance(value, int) and not isinstance(value, bool) and -(1 << bits - 1) <= value < 1 << bits - 1:
        return value
    raise _malformed(f"{name} as an integer of {bits} bits", _shown(value))


def _malformed(expected: str, found: object) -> UnsupportedFormat:
    return UnsupportedFormat("file-format", expected=expected, found=found)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
