"""Real brokers on folders that our commands wrote: they load them without complaint, serve exactly the records, and continue."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kafkalog
from kafkalog.tasks.salvage import salvage_partitions
from tests.builders.small_logs import FIRST_TIME
from tests.conftest import require, unavailable
from tests.interop.live.broker import NEWEST, ROOT, resolve_jars, running_broker
from tests.interop.live.clients import MORE, value_of

pytestmark = pytest.mark.slow

OLDER = "3.9.1"
LAST_WITH_ZOOKEEPER = "2.8.2"  # of those at hand; a topic's setting says in which format it writes
FORMATS = {"v0": "0.9.0", "v1": "0.10.2"}
COUNT = 4000
SMALL = {"segment.bytes": str(1 << 20)}
# Words in a broker's complaints about a log, in lines that name the partition.
COMPLAINTS = ("] WARN ", "] ERROR ", "corrupt", "invalid", "truncat", "rebuilding index", "sanity")
OURS = "update of high watermark"  # its checkpoint is that of the empty log whose place ours took
Rows = list[list[int]]


def client(*arguments: str) -> bytes:
    command = [sys.executable, "-m", "tests.interop.live.clients", *arguments]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, timeout=300, check=True).stdout


def records(count: int = COUNT, keys: int = COUNT) -> pa.Table:
    return pa.table(
        {
            "key": pa.array([b"key-%d" % (number % keys) for number in range(count)], pa.binary()),
            "value": pa.array([value_of(number) for number in range(count)], pa.binary()),
            "timestamp_ms": pa.array([FIRST_TIME + number for number in range(count)], pa.int64()),
        }
    )


def write_appended(folder: Path, topic: str) -> None:
    to = folder / f"{topic}-0"
    kafkalog.append(records(), to, codec="lz4", config=SMALL)
    kafkalog.append(records(), to, codec="zstd", idempotent=True, config=SMALL)
    kafkalog.append(records(500), to, transaction="commit", config=SMALL)
    kafkalog.append(records(300), to, transaction="abort", config=SMALL)


def write_converted(folder: Path, topic: str) -> None:
    source = folder / "old" / f"{topic}-0"
    kafkalog.append(records(), source, magic=0, config={"segment.bytes": str(1 << 20)})
    kafkalog.append(records(), source, magic=1, codec="gzip", config={"segment.bytes": str(1 << 20)})
    kafkalog.append(records(500), source, transaction="commit", config=SMALL)
    kafkalog.convert(source, out=folder, codec="lz4", batch_bytes=40_000)


def write_compacted(folder: Path, topic: str) -> None:
    source = folder / "dirty" / f"{topic}-0"
    kafkalog.append(records(keys=700), source, codec="lz4", config=SMALL)
    kafkalog.append(records(500, keys=50), source, transaction="abort", config=SMALL)
    kafkalog.append(records(keys=900), source, idempotent=True, config=SMALL)
    kafkalog.compact(source, out=folder, roll=True, config=SMALL)


def write_salvaged(folder: Path, topic: str) -> None:
    source = folder / "broken" / f"{topic}-0"
    kafkalog.append(records(), source, config=SMALL)
    log = source / f"{0:020d}.log"
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 0xFF
    log.write_bytes(content)
    assert len(list(salvage_partitions([source], folder))) == 1


def write_changed(folder: Path, topic: str) -> None:
    """Every other command, one after the other, on the same partition."""
    to = folder / f"{topic}-0"
    kafkalog.append(records(), to, config=SMALL)
    kafkalog.append(records(300), to, transaction="commit", config=SMALL)
    kafkalog.truncate(to, COUNT + 100, in_place=True)
    kafkalog.convert(to, in_place=True, codec="snappy")
    kafkalog.retain(to, start_offset=1234, in_place=True)
    kafkalog.recover(to, in_place=True, whole=True)


def write_legacy(magic: int, codec: str) -> Callable[[Path, str], None]:
    def write(folder: Path, topic: str) -> None:
        kafkalog.append(records(), folder / f"{topic}-0", magic=magic, codec=codec, config={"segment.bytes": str(1 << 20)})

    return write


WRITERS: Mapping[str, Callable[[Path, str], None]] = {
    "appended": write_appended,
    "converted": write_converted,
    "compacted": write_compacted,
    "salvaged": write_salvaged,
    "changed": write_changed,
}
LEGACY = {
    "legacy-v0": write_legacy(0, "none"),
    "legacy-v0-gzip": write_legacy(0, "gzip"),
    "legacy-v1": write_legacy(1, "none"),
    "legacy-v1-lz4": write_legacy(1, "lz4"),
}


def rows_of(place: Path, topic: str) -> Rows:
    """Offsets and checksums of values, as a consumer of committed and uncommitted records gets them."""
    found = kafkalog.open(place).read("records", ["offset", "value"], topics=[topic]).read_all().to_pylist()
    return [[row["offset"], zlib.crc32(row["value"])] for row in found]


def last_magic(place: Path) -> int:
    """The format of the newest entry."""
    return int(kafkalog.open(place).read("batches", ["magic"]).read_all()["magic"][-1].as_py())


def magic_of(release: str, topic: str) -> int:
    """The format in which a broker of the release continues a topic."""
    return next((magic for magic, name in enumerate(FORMATS) if name in topic and release == LAST_WITH_ZOOKEEPER), 2)


def create_topics(bootstrap: str, release: str, topics: Iterable[str]) -> None:
    for magic, same in groupby(sorted(topics, key=partial(magic_of, release)), partial(magic_of, release)):
        settings = {} if magic == 2 else {"message.format.version": list(FORMATS.values())[magic]}
        client("create", bootstrap, ",".join(same), json.dumps(settings))


def put_in_place(written: Path, data: Path, topic: str) -> None:
    """Our folder instead of the broker's own, as the same topic: that is what partition.metadata says, where there is one."""
    target = data / f"{topic}-0"
    metadata = target / "partition.metadata"
    topic_id = metadata.read_bytes() if metadata.exists() else None
    shutil.rmtree(target)
    shutil.copytree(written / f"{topic}-0", target)
    if topic_id is not None:
        metadata.write_bytes(topic_id)


def complaints(output: Path, topics: Mapping[str, Any]) -> list[str]:
    lines = output.read_text(errors="replace").splitlines()
    about_ours = [line for line in lines if any(f"{topic}-0" in line for topic in topics)]
    assert about_ours, "the broker says nothing of its logs, so it cannot complain either"
    return [line for line in about_ours if OURS not in line and any(word.lower() in line.lower() for word in COMPLAINTS)]


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "unclean"])
@pytest.mark.parametrize(
    ("release", "writers"),
    [
        (NEWEST, WRITERS),
        (OLDER, {**LEGACY, "appended": write_appended}),
        (LAST_WITH_ZOOKEEPER, {**LEGACY, "appended": write_appended}),
    ],
    ids=[NEWEST, OLDER, LAST_WITH_ZOOKEEPER],
)
def test_a_broker_opens_what_was_written_serves_it_and_continues(
    tmp_path: Path, release: str, writers: Mapping[str, Callable[[Path, str], None]], is_clean: bool
) -> None:
    require("java", "mvn", "kafka")
    if (problem := resolve_jars(release)) is not None:
        unavailable(problem)
    with running_broker(tmp_path, release=release) as broker:
        create_topics(broker.bootstrap, release, writers)
    data, written = tmp_path / "data", tmp_path / "written"
    expected = {}
    for topic, write in writers.items():
        write(written, topic)
        expected[topic] = rows_of(written / f"{topic}-0", topic)
        put_in_place(written, data, topic)
    if not is_clean:
        for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
            (data / name).unlink()
    starts = written / "log-start-offset-checkpoint"
    if starts.exists():
        shutil.copy(starts, data)
    with running_broker(tmp_path, release=release) as broker:
        for topic in writers:
            assert json.loads(client("digests", broker.bootstrap, topic)) == expected[topic], topic
            client("add", broker.bootstrap, topic)
            assert json.loads(client("digests", broker.bootstrap, topic))[: len(expected[topic])] == expected[topic], topic
    assert complaints(tmp_path / "broker.txt", writers) == []
    for topic in writers:
        found = rows_of(data / f"{topic}-0", topic)
        assert found[: len(expected[topic])] == expected[topic]
        assert [row[1] for row in found[len(expected[topic]) :]] == [zlib.crc32(value_of(number)) for number in range(MORE)]
        assert last_magic(data / f"{topic}-0") == magic_of(release, topic), topic
        reasons = {finding.reason for finding in kafkalog.verify(data / f"{topic}-0")}
        assert reasons <= ({"gap"} if topic == "salvaged" else set()), topic
