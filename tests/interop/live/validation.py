"""Kafka's own validation of what a leader is to store: Validation.java, run from its source with the broker's jars."""

from __future__ import annotations

import io
import struct
import subprocess
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafkalog.engine.offsets import AppendOrigin
from kafkalog.engine.validation import Rules
from kafkalog.format import batch

from .broker import HERE, JARS

SECONDS = 600


class Request(NamedTuple):
    data: bytes
    source_codec: int
    next_offset: int
    rules: Rules


class Stored(NamedTuple):
    """A set as Kafka would store it."""

    data: bytes
    next_offset: int
    max_timestamp: int
    is_rebuilt: bool


class Refusal(NamedTuple):
    """The exception, for records refused one by one also its cause, and the numbers of the records."""

    kafka_name: str
    cause: str
    records: tuple[int, ...]


def validate_all(requests: Sequence[Request]) -> Iterator[Stored | Refusal]:
    """The outcome of each set in Kafka."""
    command = ["java", "-cp", f"{JARS}/*", str(HERE / "Validation.java")]
    given = struct.pack(">i", len(requests)) + b"".join(map(_encode, requests))
    done = subprocess.run(command, input=given, capture_output=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr.decode()
    answers = io.BytesIO(done.stdout)
    for _ in requests:
        yield _stored(answers) if answers.read(1) == b"\1" else _refusal(answers)


def _encode(request: Request) -> bytes:
    rules = request.rules
    fields = struct.pack(
        ">bb?b?qqi?qqi",
        request.source_codec,
        rules.codec,
        rules.compact,
        rules.magic,
        rules.timestamp_type == batch.LOG_APPEND_TIME_TYPE,
        rules.before_max_ms,
        rules.after_max_ms,
        rules.leader_epoch,
        rules.origin is AppendOrigin.CLIENT,
        rules.now_ms,
        request.next_offset,
        len(request.data),
    )
    return fields + request.data


def _stored(answers: io.BytesIO) -> Stored:
    data = _bytes(answers)
    return Stored(data, *struct.unpack(">qq?", answers.read(17)))


def _refusal(answers: io.BytesIO) -> Refusal:
    name, cause = _bytes(answers).decode(), _bytes(answers).decode()
    (count,) = struct.unpack(">i", answers.read(4))
    return Refusal(name, cause, struct.unpack(f">{count}i", answers.read(4 * count)))


def _bytes(answers: io.BytesIO) -> bytes:
    (size,) = struct.unpack(">i", answers.read(4))
    return answers.read(size)
