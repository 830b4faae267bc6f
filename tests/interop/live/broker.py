"""A Kafka broker of its own for a test: one KRaft node from Maven's jars, on loopback ports that were free a moment ago."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
JARS = ROOT / "build" / "live" / "jars"
COMPLETE = JARS.parent / "complete"
RESOLVE_SECONDS = 900
START_SECONDS = 90
STOP_SECONDS = 30
CLUSTER_ID = "S2Fma2Fsb2dMaXZlVGVzdA"

# Small segments, so that the log rolls while it is read; one partition of everything internal, so that it starts fast.
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
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


@dataclass(frozen=True)
class Broker:
    """A running broker: where clients reach it and where its log directory is."""

    bootstrap: str
    log_directory: Path


def resolve_jars() -> str | None:
    """Copy the jars into build/live once; what went wrong, None when nothing did."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            return f"no {tool} on PATH"
    JARS.mkdir(parents=True, exist_ok=True)
    with (JARS.parent / "lock").open("w") as lock:  # the workers of pytest-xdist come here at the same time
        fcntl.flock(lock, fcntl.LOCK_EX)
        if COMPLETE.exists() and COMPLETE.stat().st_mtime >= (HERE / "pom.xml").stat().st_mtime:
            return None
        return _copy_jars()


def _copy_jars() -> str | None:
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={JARS}"]
    try:
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=RESOLVE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"Maven took more than {RESOLVE_SECONDS} seconds"
    if done.returncode:
        return f"Maven failed: {(done.stdout + done.stderr).strip()[:300]}"
    COMPLETE.touch()
    return None


@contextlib.contextmanager
def running_broker(folder: Path) -> Iterator[Broker]:
    """A broker with its files below `folder`; it is stopped, by its own process id, when the block ends."""
    port, controller_port = _free_ports()
    log_directory = folder / "data"
    properties = folder / "server.properties"
    properties.write_text(PROPERTIES.format(port=port, controller_port=controller_port, log_directory=log_directory))
    if not (log_directory / "meta.properties").exists():  # else it goes on with the logs that are there
        _run_java(folder, "kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID, "--config", str(properties))
    with (folder / "broker.txt").open("wb") as output:
        process = subprocess.Popen(_java(folder, "kafka.Kafka", str(properties)), stdout=output, stderr=subprocess.STDOUT)
        try:
            _wait_for(process, port, folder / "broker.txt")
            yield Broker(f"127.0.0.1:{port}", log_directory)
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _java(folder: Path, program: str, *arguments: str) -> list[str]:
    # The plain compiler and collector: the broker lives for some seconds only.
    options = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]
    return ["java", *options, f"-Djava.io.tmpdir={folder}", "-cp", f"{JARS}/*", program, *arguments]


def _run_java(folder: Path, program: str, *arguments: str) -> None:
    done = subprocess.run(_java(folder, program, *arguments), capture_output=True, text=True, timeout=START_SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"{program} failed: {done.stdout}{done.stderr}")


def _free_ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        return first.getsockname()[1], second.getsockname()[1]


def _wait_for(process: subprocess.Popen[bytes], port: int, output: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"the broker did not start: {output.read_text(errors='replace')[-4000:]}")
