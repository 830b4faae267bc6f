"""Whose logs are read: the same records in the frames of many clients, at several sizes of batches.

aiokafka and kafka-python write their batches themselves, with the builders that their producers use. The frames of the others
are made by the same libraries with the options by which each client calls them; a broker stores what a client sent.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cramjam
import lz4.frame
import zstandard

from benchmarks.data import SEGMENT_NAME, SHAPE, Segment, make_record
from benchmarks.measure import WarmProcess
from benchmarks.report import Section, Table, Target
from kafkalog.codecs import GZIP, LZ4, SNAPPY, ZSTD, compress
from kafkalog.format import reference

if TYPE_CHECKING:
    from benchmarks.experiments import Setup

BATCH_RECORDS = (8, 86, 2000)
RECORDS = 200_000
REQUIRED_SHARE = 0.8  # of the speed on the frame of Java's client
AIOKAFKA_FACTORS = {"lz4": 3.5, "snappy": 2.5, "zstd": 2.5}
AIOKAFKA_BATCH = 86
UNLIMITED = 1 << 30

Frame = Callable[[bytes], bytes]


def _lz4(**options: Any) -> Frame:
    return lambda content: lz4.frame.compress(content, block_linked=False, **options)


@dataclass(frozen=True)
class Client:
    """A writer: its name on the page, and the frame around the records of a batch, or the package whose builder makes batches."""

    name: str
    codec: int
    frame: Frame | None = None
    package: str = ""

    @property
    def file(self) -> str:
        return "".join(letter if letter.isalnum() else "-" for letter in self.name.lower())


def _java(codec: int) -> Frame:
    return lambda content: compress(codec, content)


CLIENTS: dict[str, Sequence[Client]] = {
    "lz4": (
        Client("Java, librdkafka (60/40)", LZ4, _java(LZ4)),
        Client("@platformatic/kafka (60/70)", LZ4, _lz4(block_size=7, store_size=False)),
        Client("kafka-go, franz-go, kafkajs-lz4 (64/70)", LZ4, _lz4(block_size=7, store_size=False, content_checksum=True)),
        Client("sarama (64/40)", LZ4, _lz4(block_size=4, store_size=False, content_checksum=True)),
        Client("kafka-python", LZ4, package="kafka"),
        Client("aiokafka", LZ4, package="aiokafka"),
        Client("rskafka (74/40)", LZ4, _lz4(block_size=4, store_size=False, content_checksum=True, block_checksum=True)),
    ),
    "snappy": (
        Client("Java (framed)", SNAPPY, _java(SNAPPY)),
        Client("librdkafka, Go, Rust, kafkajs (raw)", SNAPPY, lambda content: bytes(cramjam.snappy.compress_raw(content))),
        Client("kafka-python", SNAPPY, package="kafka"),
        Client("aiokafka", SNAPPY, package="aiokafka"),
    ),
    "gzip": (
        Client("Java", GZIP, _java(GZIP)),
        Client("Go, Rust, kafkajs", GZIP, lambda content: gzip.compress(content, 6, mtime=0)),
        Client("kafka-python", GZIP, package="kafka"),
        Client("aiokafka", GZIP, package="aiokafka"),
    ),
    "zstd": (
        Client("Java", ZSTD, _java(ZSTD)),
        Client("librdkafka, Go, Rust", ZSTD, lambda content: zstandard.ZstdCompressor(3).compress(content)),
        Client("kafka-python", ZSTD, package="kafka"),
        Client("aiokafka", ZSTD, package="aiokafka"),
    ),
}


def compare_clients(setup: Setup) -> Section:
    """Records per second by writer, codec and batch size, and aiokafka's own reader on its own files."""
    section = Section(
        "Whose logs",
        "Million records per second of kafkalog on one core: the same records in the frames of each client (lz4: its flags), "
        "by the number of records in a batch. The last table has aiokafka's reader and kafkalog on files that aiokafka wrote.",
    )
    records = min(RECORDS, setup.records)
    for codec, clients in CLIENTS.items():
        rows = {client.name: [client.name] for client in clients}
        for size in BATCH_RECORDS:
            segments = {client.name: _ensure_segment(client, codec, size, records, setup.data) for client in clients}
            results = setup.race(segments[clients[0].name], [setup.kafkalog(name, one) for name, one in segments.items()])
            speeds = {name: results[name].million_rows_per_second for name in segments}
            for client in clients:
                rows[client.name].append(f"{speeds[client.name]:.2f}")
                if client is not clients[0] and codec == "lz4":
                    share = speeds[client.name] / speeds[clients[0].name]
                    section.targets.append(
                        Target(f"lz4 of {client.name}, {size} a batch: against Java's", share, REQUIRED_SHARE, "x")
                    )
        section.tables.append(Table([codec, *(f"{size} a batch" for size in BATCH_RECORDS)], list(rows.values())))
    if "aiokafka" in setup.python_peers:
        section.tables.append(_against_aiokafka(setup, section, records))
    return section


def _against_aiokafka(setup: Setup, section: Section, records: int) -> Table:
    from benchmarks.experiments import worker_command

    rows = []
    for codec, clients in CLIENTS.items():
        client = next(one for one in clients if one.package == "aiokafka")
        segment = _ensure_segment(client, codec, AIOKAFKA_BATCH, records, setup.data)
        theirs = WarmProcess("aiokafka", worker_command("aiokafka", segment.path), setup.core, 1)
        results = setup.race(segment, [setup.kafkalog("kafkalog", segment), theirs])
        setup.agree(segment, list(results))
        factor = results["aiokafka"].seconds / results["kafkalog"].seconds
        speeds = [f"{results[name].million_rows_per_second:.2f}" for name in ("kafkalog", "aiokafka")]
        rows.append([codec, *speeds, f"{factor:.1f} x"])
        if codec in AIOKAFKA_FACTORS:
            section.targets.append(Target(f"{codec} of aiokafka: against its reader", factor, AIOKAFKA_FACTORS[codec], "x"))
    return Table([f"aiokafka's files, {AIOKAFKA_BATCH} a batch", "kafkalog", "aiokafka", "faster by"], rows)


def _ensure_segment(client: Client, codec: str, size: int, records: int, data: Path) -> Segment:
    variant = f"client-{codec}-{client.file}-{size}-{records}-{SHAPE}"
    path = data / variant / "bench-0" / SEGMENT_NAME
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        with unfinished.open("wb") as file:
            for batch in _batches(client, size, records):
                file.write(batch)
        unfinished.rename(path)
    return Segment(variant, path, records, path.stat().st_size, client.name)


def _batches(client: Client, size: int, records: int) -> Iterator[bytes]:
    source = random.Random(SHAPE)
    for first in range(0, records, size):
        rows = [make_record(source, offset, 2) for offset in range(first, min(first + size, records))]
        yield _built(client, rows) if client.frame is None else _framed(client.frame, client.codec, rows)


def _framed(frame: Frame, codec: int, rows: Sequence[reference.Record]) -> bytes:
    return reference.encode_batch(rows, codec=codec, compress=lambda codec, content, magic: frame(content))


def _built(client: Client, rows: Sequence[reference.Record]) -> bytes:
    """A batch of the client's own builder, with the base offset that a broker would give it; no checksum covers that."""
    from importlib import import_module

    module = import_module(f"{client.package}.record.default_records")
    builder = module.DefaultRecordBatchBuilder(2, client.codec, False, -1, -1, -1, UNLIMITED)
    for number, row in enumerate(rows):
        headers = [(key.decode(), value) for key, value in row.headers]
        builder.append(number, row.timestamp, row.key, row.value, headers)
    return rows[0].offset.to_bytes(8, "big") + bytes(builder.build())[8:]
