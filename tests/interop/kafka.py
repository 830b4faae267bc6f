"""Kafka's own record classes as a peer: the Maven project under java/, built once, run as one process behind a pipe."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from kafkalog.format.reference import Record
from tests.conftest import require, unavailable

PROJECT = Path(__file__).resolve().parent / "java"
BUILD = PROJECT.parents[2] / "build" / "interop"
NEWEST = "4.3.0"
LAST_WITH_OLD_FORMATS = "3.9.1"  # the last release whose brokers write v0 and v1
VERSIONS = (NEWEST, LAST_WITH_OLD_FORMATS)


class Refused(Exception):
    """Kafka threw. The arguments are the class and the message of its exception."""


class NoPeer(Exception):
    """There is no peer; the argument says why."""


class KafkaPeer:
    """One JVM with the record classes of one Kafka release."""

    def __init__(self, version: str) -> None:
        self.version = version
        java = shutil.which("java")
        if java is None:
            raise NoPeer("there is no java on the PATH")
        command = [java, "-Xmx512m", "-XX:+UseSerialGC", "-cp", build(version), "kafkalog.interop.Peer"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in: IO[bytes] = self._process.stdin
        self._out: IO[bytes] = self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._in.close()
        self._out.close()
        self._process.wait(timeout=30)

    def write(
        self,
        records: Sequence[Record],
        *,
        magic: int = 2,
        codec: int = 0,
        log_append_time: int | None = None,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
        control: bool = False,
        leader_epoch: int = -1,
        delete_horizon_ms: int | None = None,
    ) -> bytes:
        """The bytes that MemoryRecordsBuilder makes of the records, the first of which gives the base offset."""
        timestamp_type = -1 if magic == 0 else int(log_append_time is not None)
        times = records[0].offset, -1 if log_append_time is None else log_append_time
        fields = struct.pack(">bbbqqqhi??i", magic, codec, timestamp_type, *times, producer_id, producer_epoch, base_sequence,
                             transactional, control, leader_epoch)  # fmt: skip
        horizon = -1 if delete_horizon_ms is None else delete_horizon_ms
        parts = [b"W", fields, struct.pack(">qi", horizon, len(records))]
        for each in records:
            parts += struct.pack(">qq", each.offset, each.timestamp), _sized(each.key), _sized(each.value)
            parts.append(struct.pack(">i", len(each.headers)))
            for key, value in each.headers:
                parts += _sized(key), _sized(value)
        self._ask(b"".join(parts))
        written = self._bytes()
        assert written is not None
        return written

    def read(self, data: bytes) -> list[Record]:
        """The records of all entries, read as a consumer with check.crcs reads them; Refused if Kafka throws."""
        self._ask(b"R" + _sized(data))
        return self._records()

    def read_file(self, path: Path) -> list[Record]:
        """The same out of a file."""
        self._ask(b"F" + _sized(os.fsencode(path)))
        return self._records()

    def describe_batches(self, path: Path) -> str:
        """Every batch of a file as a line of JSON; where Kafka's iteration ends with an error, a last line with that error."""
        self._ask(b"B" + _sized(os.fsencode(path)))
        return (self._bytes() or b"").decode()

    def _ask(self, request: bytes) -> None:
        self._in.write(request)
        self._in.flush()
        if self._take(1) == b"\0":
            kind, message = self._bytes() or b"", self._bytes() or b""
            raise Refused(kind.decode(), message.decode(errors="replace"))

    def _records(self) -> list[Record]:
        (count,) = struct.unpack(">i", self._take(4))
        return [self._record() for _ in range(count)]

    def _record(self) -> Record:
        offset, timestamp, timestamp_type, sequence = struct.unpack(">qqbi", self._take(21))
        key, value = self._bytes(), self._bytes()
        (count,) = struct.unpack(">i", self._take(4))
        headers = tuple((self._bytes() or b"", self._bytes()) for _ in range(count))
        return Record(offset, timestamp, key, value, headers, timestamp_type, sequence)

    def _bytes(self) -> bytes | None:
        (size,) = struct.unpack(">i", self._take(4))
        return None if size < 0 else self._take(size)

    def _take(self, size: int) -> bytes:
        data = self._out.read(size)
        if len(data) < size:
            raise AssertionError(f"the JVM with Kafka {self.version} died, exit status {self._process.wait(timeout=30)}")
        return data


def _sized(content: bytes | None) -> bytes:
    return struct.pack(">i", -1) if content is None else struct.pack(">i", len(content)) + content


def build(version: str) -> str:
    """The class path of the peer, built if its sources are not those of the last build. Raises NoPeer."""
    folder = BUILD / version
    folder.mkdir(parents=True, exist_ok=True)
    sources = sorted([PROJECT / "pom.xml", *PROJECT.rglob("*.java")])
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    listing, built = folder / "classpath.txt", folder / "built.txt"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the workers of a parallel run want it at the same time
        if not built.exists() or built.read_text() != digest:
            _run_maven(version, listing)
            built.write_text(digest)
    return f"{folder / 'classes'}{os.pathsep}{listing.read_text().strip()}"


def _run_maven(version: str, listing: Path) -> None:
    command = ["mvn", "-q", "-B", f"-Dkafka.version={version}", f"-Dmdep.outputFile={listing}"]
    try:
        done = subprocess.run([*command, "compile", "dependency:build-classpath"], cwd=PROJECT, capture_output=True, text=True,
                              timeout=240, check=False)  # fmt: skip
    except FileNotFoundError:
        raise NoPeer("there is no mvn on the PATH") from None
    except subprocess.TimeoutExpired:
        raise NoPeer("Maven took more than four minutes") from None
    if done.returncode:
        problems = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        raise NoPeer(f"Maven failed for Kafka {version}: {problems[0] if problems else done.returncode}")


def open_peer(version: str) -> KafkaPeer:
    """The peer, or a skip (a failure where everything is required) that says what is missing."""
    require("java", "mvn")
    try:
        return KafkaPeer(version)
    except NoPeer as error:
        unavailable(str(error))
        raise
