"""A Kafka broker of its own for a test: one node from Maven's jars, on loopback ports of its own.

From the release on that made KRaft fit for use it is a KRaft node, before that a broker with a ZooKeeper of its own.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.interop.maven import copy_jars
from tests.ports import LOOPBACK, reserve_port

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
JARS = ROOT / "build" / "live" / "jars"
NEWEST = "4.3.0"
FIRST_WITH_KRAFT = (3, 3)
START_SECONDS = 180
STOP_SECONDS = 30
# The plain compiler and collector, for a broker that lives for some seconds only.
SHORT_LIVED = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
CLUSTER_ID = "S2Fma2Fsb2dMaXZlVGVzdA"

# Small segments, so that the log rolls while it is read; one partition of everything internal, so that it starts fast.
PROPERTIES = """
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
inter.broker.listener.name=PLAINTEXT
log.dirs={log_directory}
num.partitions=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.segment.bytes=1048576
log.index.interval.bytes=4096
"""
KRAFT = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{other_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{other_port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
"""
WITH_ZOOKEEPER = """
broker.id=1
zookeeper.connect=127.0.0.1:{other_port}
listeners=PLAINTEXT://127.0.0.1:{port}
"""
ZOOKEEPER = """
dataDir={folder}/zookeeper
clientPort={other_port}
clientPortAddress=127.0.0.1
admin.enableServer=false
"""


@dataclass(frozen=True)
class Broker:
    """A running broker: where clients reach it and where its log directory is."""

    bootstrap: str
    log_directory: Path


@dataclass(frozen=True)
class _OtherUser:
    """The user that a process runs as, if not as us."""

    user: int | None

    @property
    def choices(self) -> dict[str, Any]:
        if self.user is None:
            return {}
        return {"user": self.user, "group": self.user, "extra_groups": [], "umask": 0o077, "cwd": "/"}


def resolve_jars(release: str = NEWEST) -> str | None:
    """Copy the jars of a release into build once; the error, None if there was none."""
    return copy_jars(HERE, jars_of(release), release)


def jars_of(release: str) -> Path:
    return JARS if release == NEWEST else ROOT / "build" / f"live-{release}" / "jars"


@contextlib.contextmanager
def running_broker(
    folder: Path,
    settings: Mapping[str, str] | None = None,
    java_options: Sequence[str] = SHORT_LIVED,
    release: str = NEWEST,
    user: int | None = None,
) -> Iterator[Broker]:
    """A broker with its files below `folder`; it is stopped, by its own process id, when the block ends.

    `settings` go over the properties given here. A folder that a broker has used before is opened again. What it logs is in
    broker.txt. A broker of another `user` lets nobody else look into its files.
    """
    with contextlib.ExitStack() as running:
        if not _is_kraft(release):
            port = reserve_port()
            running.enter_context(_running_zookeeper(folder, port, release))
            started = start_broker(folder, settings, java_options, release, zookeeper_port=port, user=user)
        else:
            started = start_broker(folder, settings, java_options, release, user=user)
        running.callback(stop_process, started.process)
        yield started.broker


@dataclass(frozen=True)
class Started:
    """A broker that answers, and its process."""

    broker: Broker
    process: subprocess.Popen[bytes]


def start_broker(
    folder: Path,
    settings: Mapping[str, str] | None = None,
    java_options: Sequence[str] = SHORT_LIVED,
    release: str = NEWEST,
    *,
    zookeeper_port: int | None = None,
    user: int | None = None,
) -> Started:
    """The same, for a caller that stops or kills it by itself."""
    other_user = _OtherUser(user)
    port, other_port = reserve_port(), zookeeper_port or reserve_port()
    log_directory = folder / "data"
    properties = folder / "server.properties"
    text = (KRAFT if _is_kraft(release) else WITH_ZOOKEEPER) + PROPERTIES
    lines = [text.format(port=port, other_port=other_port, log_directory=log_directory)]
    lines += [f"{name}={value}\n" for name, value in (settings or {}).items()]
    properties.write_text("".join(lines))
    if _is_kraft(release) and not (log_directory / "meta.properties").exists():  # otherwise it continues with the existing logs
        arguments = ("format", "--cluster-id", CLUSTER_ID, "--config", str(properties))
        _run_java(_java(folder, "kafka.tools.StorageTool", *arguments, release=release), other_user)
    command = _java(folder, "kafka.Kafka", str(properties), options=java_options, release=release)
    process = _start(command, port, folder / "broker.txt", other_user)
    return Started(Broker(f"127.0.0.1:{port}", log_directory), process)


def stop_process(process: subprocess.Popen[bytes]) -> None:
    """End a server by its own process id, by force if it does not end by itself."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _is_kraft(release: str) -> bool:
    return tuple(map(int, release.split(".")[:2])) >= FIRST_WITH_KRAFT


def _running_zookeeper(folder: Path, port: int, release: str) -> contextlib.AbstractContextManager[None]:
    properties = folder / "zookeeper.properties"
    properties.write_text(ZOOKEEPER.format(folder=folder, other_port=port))
    command = _java(folder, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(properties), release=release)
    return _running(command, port, folder / "zookeeper.txt", _OtherUser(None))


@contextlib.contextmanager
def _running(command: Sequence[str], port: int, output: Path, other_user: _OtherUser) -> Iterator[None]:
    """A server that answers at `port`; it is stopped, by its own process id, when the block ends."""
    process = _start(command, port, output, other_user)
    try:
        yield
    finally:
        stop_process(process)


def _start(command: Sequence[str], port: int, output: Path, other_user: _OtherUser) -> subprocess.Popen[bytes]:
    with output.open("wb") as target:
        process = subprocess.Popen(command, stdout=target, stderr=subprocess.STDOUT, **other_user.choices)
    try:
        _wait_for(process, port, output)
    except BaseException:
        stop_process(process)
        raise
    return process


def _java(folder: Path, program: str, *arguments: str, options: Sequence[str] = SHORT_LIVED, release: str = NEWEST) -> list[str]:
    settings = [*options, "-Djava.net.preferIPv4Stack=true", f"-Djava.io.tmpdir={folder}"]
    return ["java", *settings, "-cp", f"{jars_of(release)}/*", program, *arguments]


def _run_java(command: Sequence[str], other_user: _OtherUser) -> None:
    choices = other_user.choices
    done = subprocess.run(command, capture_output=True, text=True, timeout=START_SECONDS, check=False, **choices)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stdout}{done.stderr}")


def _wait_for(process: subprocess.Popen[bytes], port: int, output: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), 1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"the server did not start: {output.read_text(errors='replace')[-4000:]}")
