"""Our encoder and Kafka's record classes: each reads what the other wrote, and uncompressed both write the same bytes."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafkalog import codecs
from kafkalog.errors import UsageError
from kafkalog.format import batch, message
from kafkalog.format.reference import Record
from kafkalog.segment.columns import RAW_HEADERS_TYPE
from kafkalog.segment.encode import encode_batches, encode_messages
from tests.builders.encoding import encode_options
from tests.campaigns import hostile_bytes
from tests.interop.kafka import NEWEST, VERSIONS, KafkaPeer, Refused, open_peer

ALL_IN_ONE = {"batch_bytes": (1 << 31) - 1}
FORMATS = hostile_bytes.FORMATS
SAMPLED_CASES = 3000


@pytest.fixture(scope="module", params=VERSIONS)
def kafka(request: pytest.FixtureRequest) -> Iterator[KafkaPeer]:
    """Kafka's classes, of each release in turn."""
    with open_peer(request.param) as peer:
        yield peer


def _random_records(seed: int, magic: int) -> list[Record]:
    chance = random.Random(seed)
    offset = chance.choice([0, 1, 100, 2**31, 2**40])
    records = []
    for _ in range(chance.randint(1, 40)):
        key, value = (chance.choice([None, chance.randbytes(chance.choice([0, 1, 20, 63, 64, 300]))]) for _ in range(2))
        names = ["", "h", "trace-id", "ключ", "h" * 70] if magic == 2 else []
        headers = tuple(
            (name.encode(), chance.choice([None, b"", b"value", chance.randbytes(80)])) for name in names if chance.random() < 0.2
        )
        timestamp = chance.choice([-1, 0, 1_600_000_000_000 + chance.randint(-10_000, 10_000), 2**62]) if magic else -1
        records.append(Record(offset, timestamp, key, value, headers))
        offset += chance.choice([1, 1, 1, 2, 64, 100_000])
    return records


def _table(records: Sequence[Record]) -> pa.Table:
    return pa.table(
        {
            "offset": pa.array([each.offset for each in records], pa.int64()),
            "timestamp_ms": pa.array([each.timestamp for each in records], pa.int64()),
            "key": pa.array([each.key for each in records], pa.binary()),
            "value": pa.array([each.value for each in records], pa.binary()),
            "headers_raw": pa.array([list(each.headers) or None for each in records], RAW_HEADERS_TYPE),
        }
    )


def _encoded(records: Sequence[Record], magic: int, codec: int, **options: Any) -> bytes:
    packing, header = encode_options(**{**ALL_IN_ONE, **options, "codec": codecs.NAMES[codec]})
    table = _table(records)
    return b"".join(encode_batches(table, packing, header) if magic == 2 else encode_messages(table, magic, packing))


def _opened(data: bytes) -> tuple[bytes, bytes]:
    """(the front of a compressed entry without lengths and checksum, what it holds)."""
    magic = data[batch.MAGIC_POSITION]
    start = (message.KEY_POSITION_V0 + 4, message.KEY_POSITION_V1 + 4, batch.HEADER_SIZE)[magic]
    front = bytearray(data[:start])
    front[batch.BATCH_LENGTH_POSITION : batch.LOG_OVERHEAD] = bytes(4)
    crc = batch.CRC_POSITION if magic == 2 else message.CRC_POSITION
    front[crc : crc + 4] = bytes(4)
    if magic < 2:
        assert struct.unpack_from(">i", front, start - 4) == (len(data) - start,)
        front[start - 4 :] = bytes(4)
    out = bytearray(1 << 20)
    codec = data[batch.ATTRIBUTES_POSITION + 1 if magic == 2 else message.ATTRIBUTES_POSITION] & batch.CODEC_MASK
    return bytes(front), bytes(out[: codecs.decompress(codec, data[start:], memoryview(out), magic=magic)])


def _seen(records: Sequence[Record], magic: int, append_time: int | None = None) -> list[tuple[Any, ...]]:
    """Records that were given to an encoder, as a consumer sees them."""
    kind = -1 if magic == 0 else int(append_time is not None)
    return [
        (each.offset, each.timestamp if append_time is None else append_time, each.key, each.value, each.headers, kind)
        for each in records
    ]


def _content(records: Sequence[Record]) -> list[tuple[Any, ...]]:
    return [(each.offset, each.timestamp, each.key, each.value, each.headers, each.timestamp_type) for each in records]


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_kafka_and_we_write_the_same_entry(kafka: KafkaPeer, magic: int, codec: int) -> None:
    for seed in range(25):
        records = _random_records(seed, magic)
        append_time = 1_700_000_000_000 if magic and seed % 3 == 0 else None
        theirs = kafka.write(records, magic=magic, codec=codec, log_append_time=append_time)
        ours = _encoded(records, magic, codec, log_append_time_ms=append_time)
        if codec == codecs.NONE:
            assert ours == theirs
        else:
            assert _opened(ours) == _opened(theirs)


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize(
    "options",
    [
        {"leader_epoch": 7},
        {"producer_id": 2**40, "producer_epoch": 3, "base_sequence": 2**31 - 3},
        {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "transactional": True},
        {"delete_horizon_ms": 1_650_000_000_000},
        {"delete_horizon_ms": 0, "log_append_time": 5, "leader_epoch": 0},
    ],
)
def test_kafka_and_we_write_the_same_batch_header(kafka: KafkaPeer, codec: int, options: dict[str, Any]) -> None:
    names = {"transactional": "is_transactional", "control": "is_control", "log_append_time": "log_append_time_ms"}
    records = _random_records(99, 2)
    theirs = kafka.write(records, codec=codec, **options)
    ours = _encoded(records, 2, codec, **{names.get(name, name): value for name, value in options.items()})
    assert _opened(ours) == _opened(theirs) if codec else ours == theirs


def test_kafka_and_we_write_the_same_markers(kafka: KafkaPeer) -> None:
    for kind in (0, 1):
        marker = [Record(7, 1000, struct.pack(">hh", 0, kind), bytes.fromhex("000000000003"))]
        options = {"producer_id": 9, "producer_epoch": 1, "leader_epoch": 0}
        theirs = kafka.write(marker, transactional=True, control=True, **options)
        assert _encoded(marker, 2, 0, is_transactional=True, is_control=True, **options) == theirs


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_kafka_reads_what_we_write(kafka: KafkaPeer, magic: int, codec: int, tmp_path: Path) -> None:
    file = tmp_path / "00000000000000000000.log"
    for seed in range(100, 115):
        records = _random_records(seed, magic)
        append_time = 1_700_000_000_000 if magic and seed % 3 == 0 else None
        data = _encoded(records, magic, codec, log_append_time_ms=append_time, batch_bytes=700)
        file.write_bytes(data)
        assert _content(kafka.read(data)) == _seen(records, magic, append_time)
        assert _content(kafka.read_file(file)) == _seen(records, magic, append_time)


def test_kafka_counts_the_sequences_as_we_do(kafka: KafkaPeer) -> None:
    records = [Record(offset, 0, None, b"v") for offset in range(10)]
    producer = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 2**31 - 5}
    data = _encoded(records, 2, 0, batch_records=3, **producer)
    assert [each.sequence for each in kafka.read(data)] == [*range(2**31 - 5, 2**31), *range(5)]


@pytest.mark.parametrize(
    ("records", "options"),
    [
        ([Record(0, -2, None, b"v")], {}),
        ([Record(0, -2, None, b"v")], {"magic": 1}),
        ([Record(5, 0, None, b"v"), Record(5, 0, None, b"v")], {}),
        ([Record(5, 0, None, b"v"), Record(4, 0, None, b"v")], {}),
        ([Record(0, 0, None, b"v", ((b"h", b"v"),))], {"magic": 1}),
        ([Record(0, 0, None, b"v")], {"magic": 1, "codec": 4}),
        ([Record(0, 0, None, b"v")], {"transactional": True}),
        ([Record(0, 0, None, b"v")], {"producer_id": 5, "base_sequence": 0}),
        ([Record(0, 0, None, b"v")], {"producer_id": 5, "producer_epoch": 0}),
    ],
)
def test_we_refuse_what_kafka_refuses(kafka: KafkaPeer, records: list[Record], options: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        kafka.write(records, **options)
    ours = {"is_transactional" if name == "transactional" else name: value for name, value in options.items()}
    with pytest.raises(UsageError):
        _encoded(records, ours.pop("magic", 2), ours.pop("codec", 0), **ours)


def test_an_offset_before_its_batch_gets_the_sequence_that_kafka_computes(kafka: KafkaPeer, tmp_path: Path) -> None:
    data = _encoded([Record(5, 0, None, b"v"), Record(6, 0, None, b"w")], 2, 0, producer_id=1, producer_epoch=0, base_sequence=9)
    position = batch.HEADER_SIZE + 3  # offset_delta of the first record, after length, attributes and timestamp_delta
    assert data[position] == 0
    changed = hostile_bytes.with_crc(data[:position] + b"\x01" + data[position + 1 :])
    comparison = hostile_bytes.Comparison(kafka, tmp_path)
    comparison.compare(hostile_bytes.Case(2, 0, "payload", "offset_delta -1", changed))
    assert (comparison.both_accept, comparison.different_records) == (1, [])


def test_hostile_bytes_under_a_right_checksum_never_give_us_other_records_than_kafka(tmp_path: Path) -> None:
    """A sample of the cases; `python -m tests.campaigns.hostile_bytes` runs them all."""
    cases = [case for magic, codec in FORMATS for case in hostile_bytes.iter_cases(magic, codec)]
    with open_peer(NEWEST) as peer:
        comparison = hostile_bytes.Comparison(peer, tmp_path)
        for case in random.Random(4).sample(cases, SAMPLED_CASES):
            comparison.compare(case)
    assert comparison.both_accept > SAMPLED_CASES // 20
    assert comparison.different_records == []
    assert comparison.unexpected() == []
