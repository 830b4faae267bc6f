"""Random sets of entries as clients and coordinators might send them: most are sound, many break one rule or another.

Checksums of batches and wrappers match, as a log has checked them before it looks at records.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable

from crc32c import crc32c

from kafkalog import codecs
from kafkalog.format import batch
from kafkalog.format.reference import Record, encode_message, encode_record
from kafkalog.format.varint import encode_varint

NOW = 1_700_000_000_000
DAY = 86_400_000
KEYS = (b"", b"a", b"key-1", b"key-2", bytes(200))
HEADER_KEYS = (b"", b"h", "ключ".encode(), b"\xff\xfe", b"\xed\xa0\x80x")
PRODUCERS = ((-1, -1, -1),) * 3 + ((7, 0, 5), (7, 0, -1), (7, -1, 3), (-1, 3, 3), (-2, 0, 0))  # id, epoch, base sequence
MOVED_DELTAS = ((0, 2), (1, 0), (0, 0), (1, 2), (5, 9), (0, 1, 5), (0, 2, 1))


def random_set(chance: random.Random) -> bytes:
    """One set: a batch, a wrapper, plain messages, or something invalid."""
    kind = chance.random()
    if kind < 0.6:
        return random_batch(chance)
    if kind < 0.75:
        return random_wrapper(chance, chance.choice((0, 1)))
    if kind < 0.9:
        return random_messages(chance, chance.choice((0, 1)))
    return chance.choice(_ODD_SETS)(chance)


def random_records(chance: random.Random) -> list[Record]:
    """Records with offsets 0, 1, 2, …, as a sound client numbers them."""
    return [_record(chance, offset) for offset in range(chance.choice((1, 1, 2, 3, 7)))]


def random_batch(chance: random.Random) -> bytes:
    """A v2 batch; now and then one field, or some bytes of its records, are not what they should be."""
    records = random_records(chance)
    base_timestamp = chance.choice((records[0].timestamp, records[0].timestamp, NOW, 0))
    deltas = [record.offset for record in records]
    if chance.random() < 0.1:
        deltas = list(chance.choice(MOVED_DELTAS))
        records = [_record(chance, offset) for offset in range(len(deltas))]
    body = b"".join(
        encode_record(delta, record.timestamp - base_timestamp, record.key, record.value, record.headers)
        for delta, record in zip(deltas, records, strict=True)
    )
    codec = chance.choice((0, 0, 0, 1, 2, 3, 4))
    payload = _damaged(chance, codecs.compress(codec, _damaged(chance, body, 0.15)), 0.05 if codec else 0)
    producer_id, epoch, sequence = chance.choice(
        ((-1, -1, -1),) * 3 + ((7, 0, 5), (7, 0, -1), (7, -1, 3), (-1, 3, 3), (-2, 0, 0))
    )
    flags = sum(flag for flag, share in _FLAGS if chance.random() < share)
    last_delta = _now_and_then(chance, deltas[-1], (-1, len(records), 0, 2**31 - 1))
    count = _now_and_then(chance, len(records), (-1, 0, len(records) + 1))
    newest = _now_and_then(chance, max(record.timestamp for record in records), (-1, NOW + 5, 0))
    header = struct.pack(
        ">HiqqqhiI", codec | flags, last_delta, base_timestamp, newest, producer_id, epoch, sequence, count & 0xFFFF_FFFF
    )
    base_offset = _now_and_then(chance, 0, (1, 17))
    checksum = crc32c(payload, crc32c(header))
    front = struct.pack(">qiibI", base_offset, batch.MIN_BATCH_LENGTH + len(payload), chance.choice((-1, 4)), 2, checksum)
    return front + header + payload


def random_messages(chance: random.Random, magic: int) -> bytes:
    """Plain v0 or v1 messages."""
    append_time = magic == 1 and chance.random() < 0.1
    records = [_without_headers(record) for record in random_records(chance)]
    return b"".join(encode_message(record, magic=magic, log_append_time=append_time) for record in records)


def random_wrapper(chance: random.Random, magic: int) -> bytes:
    """A compressed v0 or v1 set; now and then its messages are not what they should be."""
    records = [_without_headers(record) for record in random_records(chance)]
    first = chance.choice((0, 0, 0, 7))
    inner_magic = magic if chance.random() < 0.93 else 1 - magic
    content = b""
    for record in records:
        # Relative offsets, unless this is a client that numbers them otherwise.
        entry = encode_message(
            Record(record.offset + first, record.timestamp, record.key, record.value),
            magic=inner_magic,
            codec=1 if chance.random() < 0.01 else 0,
        )
        content += _wrong_checksum(entry) if chance.random() < 0.02 else entry
    if chance.random() < 0.05:
        content += content[: chance.randrange(1, 30)]
    codec = chance.choice((1, 2, 3))
    value = _damaged(chance, codecs.compress(codec, _damaged(chance, content, 0.03), magic=magic), 0.03)
    newest = max(record.timestamp for record in records)
    offset = chance.choice((0, records[-1].offset, records[-1].offset + first, 3))
    wrapper = Record(offset, newest, None, None if chance.random() < 0.02 else value)
    stored_codec = codecs.ZSTD if chance.random() < 0.02 else codec
    return encode_message(wrapper, magic=magic, codec=stored_codec, log_append_time=magic == 1 and chance.random() < 0.1)


def source_codec(entries_codecs: list[int]) -> int:
    """The codec that the last compressed entry of a set has."""
    return next((codec for codec in reversed(entries_codecs) if codec), codecs.NONE)


def _record(chance: random.Random, offset: int) -> Record:
    key = chance.choice((None, *KEYS, *KEYS))
    value = chance.choice((None, b"", b"value", chance.randbytes(chance.choice((1, 40, 400)))))
    headers = tuple(
        (chance.choice(HEADER_KEYS), chance.choice((None, b"", b"v"))) for _ in range(chance.choice((0, 0, 0, 0, 1, 3)))
    )
    timestamp = NOW + chance.choice((0, -1, 5, chance.randrange(-5000, 5000)))
    if chance.random() < 0.1:
        timestamp = chance.choice((-1, -1, 0, NOW - DAY, NOW + DAY, NOW - DAY - 1, NOW + DAY + 1))
    return Record(offset, timestamp, key, value, headers)


def _without_headers(record: Record) -> Record:
    return Record(record.offset, record.timestamp, record.key, record.value)


def _now_and_then(chance: random.Random, value: int, others: tuple[int, ...]) -> int:
    return chance.choice(others) if chance.random() < 0.04 else value


def _damaged(chance: random.Random, data: bytes, share: float) -> bytes:
    """`data`, or in some cases `data` with a byte changed, cut, or with bytes after it."""
    if not data or chance.random() >= share:
        return data
    place = chance.randrange(len(data))
    return chance.choice(
        (
            data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :],
            data[:place],
            data + bytes(chance.randrange(1, 9)),
            encode_varint(chance.choice((-1, 0, 5, 2**31 - 1))) + data[1:],
            b"\x80" * 6 + data,
            b"\xff\xff\xff\xff\x1f" + data,
        )
    )


def _wrong_checksum(entry: bytes) -> bytes:
    return entry[:12] + struct.pack(">I", zlib.crc32(entry)) + entry[16:]


_FLAGS = (
    (batch.LOG_APPEND_TIME, 0.08),
    (batch.TRANSACTIONAL, 0.05),
    (batch.CONTROL, 0.05),
    (batch.DELETE_HORIZON, 0.05),
    (0x80, 0.03),
    (0xFF00, 0.03),
)
_ODD_SETS: tuple[Callable[[random.Random], bytes], ...] = (
    lambda chance: random_batch(chance) + random_batch(chance),
    lambda chance: random_messages(chance, 1) + random_batch(chance),
    lambda chance: random_messages(chance, 0) + random_messages(chance, 1),
    lambda chance: random_messages(chance, 1) + random_wrapper(chance, 1),
    lambda chance: random_wrapper(chance, 0) + random_messages(chance, 0),
)
