"""Brokers on log directories that are there already: each node of a cluster a process of its own, on loopback ports."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.ports import reserve_port

from .broker import HERE, NEWEST, SHORT_LIVED, START_SECONDS, jars_of, stop_process

CLIENT = HERE / "ClusterClient.java"
CLIENT_SECONDS = 300
STOP_SECONDS = 60
KAFKA_LOGS = ("-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS")

# A transaction that was open when the disks were taken stays open: else it would be aborted after ten seconds.
PROPERTIES = """
node.id={node}
process.roles={roles}
log.dirs={log_dirs}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
offsets.topic.num.partitions={offsets_partitions}
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.cleaner.dedupe.buffer.size=8388608
transaction.abort.timed.out.transaction.cleanup.interval.ms=86400000
initial.broker.registration.timeout.ms=120000
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
super.users=User:ANONYMOUS
"""


@dataclass
class Node:
    """A node with its log directories; `roles` as in process.roles."""

    number: int
    log_dirs: Sequence[Path]
    roles: str = "broker,controller"
    port: int = field(default_factory=reserve_port)
    controller_port: int = field(default_factory=reserve_port)
    process: subprocess.Popen[bytes] | None = None


@dataclass
class RunningCluster:
    """Nodes that are running, and clients of them."""

    nodes: list[Node]
    folder: Path
    release: str

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes if "broker" in node.roles)

    def client(self, *arguments: str) -> list[str]:
        """The lines that ClusterClient prints for an operation; the client is of the newest release."""
        command = ["java", *SHORT_LIVED, "-Djava.net.preferIPv4Stack=true", "-cp", f"{jars_of(NEWEST)}/*", str(CLIENT)]
        command += [self.bootstrap, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=CLIENT_SECONDS, check=False)
        assert not done.returncode, done.stderr[-4000:]
        return done.stdout.splitlines()

    def check(self, folder: Path, partitions: int, seconds: int = 60) -> dict[str, Any]:
        """What the cluster says once so many partitions have leaders; the records are in files of the folder."""
        self.client("check", str(folder), str(partitions), str(seconds))
        found: dict[str, Any] = json.loads((folder / "state.json").read_text())
        return found

    def log_of(self, node: int) -> str:
        return (self.folder / f"node-{node}.txt").read_text(errors="replace")

    def stop(self) -> None:
        """Stop all brokers at once, then controllers that are apart: a controlled stop needs the quorum."""
        for nodes in (
            [node for node in self.nodes if "broker" in node.roles],
            [node for node in self.nodes if "broker" not in node.roles],
        ):
            running = [node.process for node in nodes if node.process is not None]
            for process in running:
                process.terminate()
            for process in running:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_SECONDS)
                stop_process(process)
            for node in nodes:
                node.process = None

    def kill(self) -> None:
        """End all nodes as a power cut does."""
        for node in self.nodes:
            if node.process is not None:
                node.process.kill()
                node.process.wait()
                node.process = None


@contextlib.contextmanager
def running_cluster(
    nodes: Sequence[Node], folder: Path, release: str = NEWEST, settings: Mapping[str, str] | None = None
) -> Iterator[RunningCluster]:
    """These nodes, started and (unless the block did it) stopped; what each logs is in node-NUMBER.txt of the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = RunningCluster(list(nodes), folder, release)
    voters = ",".join(f"{node.number}@127.0.0.1:{node.controller_port}" for node in nodes if "controller" in node.roles)
    try:
        for node in nodes:
            _start(node, cluster, voters, settings or {})
        _wait(cluster)
        yield cluster
    finally:
        cluster.kill()


def format_standalone(node: Node, folder: Path) -> None:
    """Format the log directories of a node as a cluster of its own with dynamic voters, of which it is the only one."""
    for log_dir in node.log_dirs:
        log_dir.mkdir()
    log_dirs = ",".join(map(str, node.log_dirs))
    text = PROPERTIES.format(node=node.number, roles=node.roles, log_dirs=log_dirs, voters="", offsets_partitions=3)
    listeners = f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{node.controller_port}"
    properties = folder / "format.properties"
    lines = [line for line in text.splitlines() if not line.startswith("controller.quorum.voters")]
    properties.write_text(
        "\n".join([*lines, f"listeners={listeners}", f"controller.quorum.bootstrap.servers=127.0.0.1:{node.controller_port}\n"])
    )
    command = ["java", *SHORT_LIVED, "-cp", f"{jars_of(NEWEST)}/*", "kafka.tools.StorageTool", "format", "--standalone"]
    command += ["-t", "ZHluYW1pYyBjbHVzdGVyIQ", "-c", str(properties)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CLIENT_SECONDS, check=False)
    assert not done.returncode, done.stderr[-4000:]


def _start(node: Node, cluster: RunningCluster, voters: str, settings: Mapping[str, str]) -> None:
    log_dirs = ",".join(map(str, node.log_dirs))
    text = PROPERTIES.format(node=node.number, roles=node.roles, log_dirs=log_dirs, voters=voters, offsets_partitions=3)
    listeners = [f"PLAINTEXT://127.0.0.1:{node.port}"] if "broker" in node.roles else []
    listeners += [f"CONTROLLER://127.0.0.1:{node.controller_port}"] if "controller" in node.roles else []
    lines = [text, f"listeners={','.join(listeners)}\n", *(f"{name}={value}\n" for name, value in settings.items())]
    properties = cluster.folder / f"node-{node.number}.properties"
    properties.write_text("".join(lines))
    options = [*SHORT_LIVED, *KAFKA_LOGS, "-Djava.net.preferIPv4Stack=true", f"-Djava.io.tmpdir={cluster.folder}"]
    command = ["java", *options, "-cp", f"{jars_of(cluster.release)}/*", "kafka.Kafka", str(properties)]
    with (cluster.folder / f"node-{node.number}.txt").open("wb") as output:
        node.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)


def _wait(cluster: RunningCluster) -> None:
    """Until every node says that it has started."""
    deadline = time.monotonic() + START_SECONDS
    for node in cluster.nodes:
        while "Kafka Server started" not in (log := cluster.log_of(node.number)):
            assert node.process is not None
            assert node.process.poll() is None, f"node {node.number} ended: {log[-4000:]}"
            assert time.monotonic() < deadline, f"node {node.number} did not start: {log[-4000:]}"
            time.sleep(0.1)
