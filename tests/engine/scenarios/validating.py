"""Checks and changes of an append: offsets, counts, checksums, timestamps, keys, codecs, old formats."""

from __future__ import annotations

import struct
from itertools import product

from kafkalog.format.reference import Record, encode_message, encode_record

from .payloads import GZIP, LZ4, SNAPPY, ZSTD, altered, batch, keyed, marker, messages, produced, records, with_body
from .script import HOUR_MS, MINUTE_MS, START_MS, Script, scenario

INVALID = "InvalidRecordException"
CORRUPT = "CorruptRecordException"
REFUSED_ONE_BY_ONE = "RecordValidationException"
CODECS = (0, GZIP, SNAPPY, LZ4, ZSTD)
NAMES = ("uncompressed", "gzip", "snappy", "lz4", "zstd")


def body(*deltas: int) -> bytes:
    """Records with these offset deltas."""
    return b"".join(encode_record(delta, 0, b"k", b"v%d" % number) for number, delta in enumerate(deltas))


@scenario
def inner_offsets_have_to_be_sequential_when_records_are_compressed(log: Script) -> None:
    log.open({"compression.type": "gzip"})
    for pair in ((0, 0), (1, 0), (0, 2), (5, 9)):
        log.append(with_body(batch(2), body(*pair)))
    log.config(config={"compression.type": "producer"})
    for deltas in ((0, 2, 1), (0, 1, 5), (2, 1, 0), (0, 0, 2)):
        log.append(with_body(batch(3), body(*deltas)))
    log.read(0)


@scenario
def one_call_holds_one_batch_from_a_client(log: Script) -> None:
    log.open()
    for codec in CODECS:
        log.append(batch(2, codec=codec) + batch(1, codec=codec), refused=INVALID)
    log.state(logEndOffset=0)


@scenario
def old_messages_may_come_several_in_a_call(log: Script) -> None:
    log.recompresses = True
    log.open()
    for magic in (0, 1):
        log.append(messages(magic, 1) + messages(magic, 2, first=1))
    log.config(config={"compression.type": "gzip"})
    for magic in (0, 1):
        log.append(messages(magic, 1) + messages(magic, 2, first=1))
    log.append(messages(1, 2, codec=GZIP) + messages(1, 2, codec=GZIP), refused=INVALID)
    log.read(0)


@scenario
def a_batch_without_records_is_refused(log: Script) -> None:
    log.open()
    for codec in (0, GZIP):
        log.append(altered(batch(1)[:61], batch_length=49, records_count=0, attributes=codec), refused=INVALID)
    log.state(logEndOffset=0)


@scenario
def inner_messages_have_the_magic_of_their_wrapper(log: Script) -> None:
    log.open()
    for outer in (0, 1):
        inner = messages(1 - outer, 3)
        wrapped = Record(2, START_MS, None, _gzip(inner))
        log.append(encode_message(wrapped, magic=outer, codec=GZIP), refused=REFUSED_ONE_BY_ONE)


def _gzip(content: bytes) -> bytes:
    from kafkalog import codecs

    return codecs.compress(GZIP, content)


@scenario
def old_messages_become_batches(log: Script) -> None:
    log.recompresses = True
    log.open()
    for magic, codec in product((0, 1), (0, GZIP, SNAPPY, LZ4)):
        log.append(messages(magic, 3, codec=codec, first=4 * codec), gives={"recordsConverted": 3})
    log.read(0, gives={"batches": [[3 * number, 3 * number + 2] for number in range(8)]})
    log.offset_for_time(ms=START_MS)


@scenario
def a_topics_codec_is_applied(log: Script) -> None:
    log.open({"compression.type": "gzip"})
    for codec, target in product(CODECS, NAMES):
        log.config(config={"compression.type": target})
        content = [*records(1, at=START_MS - 1), *records(1, first=1, at=START_MS + 1), *records(1, first=2)]
        log.append(batch(content, codec=codec), gives={"maxTimestamp": START_MS + 1})
    log.read(0)


@scenario
def the_producers_codec_is_kept_if_the_topic_says_so(log: Script) -> None:
    log.open()
    for codec in CODECS:
        log.append(batch(3, codec=codec), gives={"recordsConverted": 0})
    log.read(0)


@scenario
def another_level_is_no_reason_to_compress_again(log: Script) -> None:
    log.open({"compression.type": "gzip", "compression.gzip.level": 1})
    log.append(batch(records(5, size=200), codec=GZIP))
    log.read(0)


@scenario
def recompression_keeps_the_producer_and_its_transaction(log: Script) -> None:
    log.open({"compression.type": "gzip"})
    log.append(produced(3, 1324, 10, 984), leader_epoch=40)
    log.append(produced(3, 1324, 10, 987, transactional=True, codec=LZ4), verify="start", leader_epoch=40)
    log.state(epochs=[[40, 0]])


@scenario
def counts_and_last_offset_have_to_agree(log: Script) -> None:
    log.open()
    for codec in (0, GZIP):
        whole = batch(3, codec=codec)
        log.append(altered(whole, last_offset_delta=2, records_count=3), gives={"numMessages": 3})
        for last_offset_delta, count in ((0, 3), (15, 3), (-3, 3), (5, 6), (1, 2), (2, 0), (2, -1)):
            log.append(altered(whole, last_offset_delta=last_offset_delta, records_count=count), refused=INVALID)
    log.state(logEndOffset=6)


@scenario
def times_too_far_in_the_past_are_refused(log: Script) -> None:
    log.open({"message.timestamp.before.max.ms": MINUTE_MS})
    for codec in (0, GZIP):
        log.append(batch(records(2, at=START_MS - MINUTE_MS), codec=codec))
        log.append(batch(records(2, at=START_MS - MINUTE_MS - 1), codec=codec), refused=REFUSED_ONE_BY_ONE)
        log.append(messages(1, 2, at=START_MS - MINUTE_MS - 1, codec=codec), refused=REFUSED_ONE_BY_ONE)
    log.append(batch(records(1, at=-1)))


@scenario
def times_too_far_in_the_future_are_refused(log: Script) -> None:
    log.open()
    for codec in (0, GZIP):
        log.append(batch(records(2, at=START_MS + HOUR_MS), codec=codec))
        log.append(batch(records(2, at=START_MS + HOUR_MS + 1), codec=codec), refused=REFUSED_ONE_BY_ONE)
    log.config(config={"message.timestamp.after.max.ms": "10"})
    log.append(batch(records(1, at=START_MS + 11)), refused=REFUSED_ONE_BY_ONE)


@scenario
def each_record_at_fault_is_named(log: Script) -> None:
    log.open({"message.timestamp.before.max.ms": 1000, "cleanup.policy": "compact"})
    mixed = [
        *keyed((b"k", b"v")),
        *keyed((b"k", b"v"), first=1, at=START_MS - 2000),
        *records(1, first=2),
        *keyed((b"k", b"v"), first=3),
    ]
    for codec in (0, GZIP):
        log.append(batch(mixed, codec=codec), refused=REFUSED_ONE_BY_ONE)
        log.append(batch([*keyed((b"k", b"v")), *records(2, first=1)], codec=codec), refused=REFUSED_ONE_BY_ONE)
        log.append(batch(keyed((b"k", b"v"), (b"j", b"v"), at=START_MS - 2000), codec=codec), refused=REFUSED_ONE_BY_ONE)


@scenario
def a_compacted_topic_wants_keys(log: Script) -> None:
    log.recompresses = True
    log.open({"cleanup.policy": "compact"})
    for codec in CODECS:
        log.append(batch([*records(1), *keyed((b"k", b"v"), first=1)], codec=codec), refused=REFUSED_ONE_BY_ONE)
        log.append(batch(records(1), codec=codec), refused=REFUSED_ONE_BY_ONE)
        log.append(batch([*keyed((b"k", b"v")), *records(1, first=1)], codec=codec), refused=REFUSED_ONE_BY_ONE)
        log.append(batch(keyed((b"k", b"v"), (b"another", b"v")), codec=codec))
    for magic, codec in product((0, 1), (0, GZIP, SNAPPY, LZ4)):
        log.append(messages(magic, 1, codec=codec), refused=REFUSED_ONE_BY_ONE)
    log.state(logEndOffset=10)


@scenario
def wrong_checksums_are_refused(log: Script) -> None:
    log.open()
    for codec in CODECS:
        whole = batch(2, codec=codec)
        log.append(altered(whole, checksum=False, crc=7), refused=CORRUPT)
    for magic, codec in product((0, 1), (0, GZIP, SNAPPY, LZ4)):
        whole = messages(magic, 1, codec=codec)
        log.append(whole[:12] + b"\0\0\0\0" + whole[16:], refused=CORRUPT)
    log.state(logEndOffset=0)


@scenario
def wrong_checksums_inside_a_wrapper_are_refused(log: Script) -> None:
    log.open()
    for magic in (0, 1):
        inner = bytearray(messages(magic, 1))
        inner[12] ^= 255
        wrapped = Record(0, START_MS, None, _gzip(bytes(inner)))
        log.append(encode_message(wrapped, magic=magic, codec=GZIP), refused=CORRUPT)


@scenario
def negative_sequences_are_refused(log: Script) -> None:
    log.open()
    for codec in (0, GZIP):
        for sequence in (-1, -2):
            log.append(altered(produced(1, 1234, 0, 0, codec=codec), base_sequence=sequence), refused=INVALID)
    log.append(altered(produced(1, 1234, 0, 0), producer_epoch=-1))


@scenario
def offsets_are_assigned_whatever_the_client_wrote(log: Script) -> None:
    log.recompresses = True
    log.open()
    log.truncate_fully(offset=1234567)
    for codec in (0, GZIP):
        log.append(batch(3, codec=codec))
        log.append(messages(0, 3, codec=codec))
        log.append(messages(1, 3, codec=codec))
    log.append(messages(1, 3, first=77), gives={"firstOffset": 1234567 + 18})
    log.read(1234567, gives={"batches": [[1234567 + 3 * number, 1234569 + 3 * number] for number in range(7)]})


@scenario
def a_base_offset_other_than_zero_is_refused(log: Script) -> None:
    log.open()
    for base in (1, 5, -1):
        log.append(altered(batch(1), base_offset=base), refused=INVALID)
    log.append(altered(batch(1), base_offset=5), origin="coordinator", gives={"firstOffset": 0})


@scenario
def control_records_come_from_the_coordinator_only(log: Script) -> None:
    log.open()
    log.append(marker(23423, 5, commit=True, offset=0), refused=INVALID)
    log.append(marker(23423, 5, commit=True, offset=0), origin="coordinator", tv=1)


@scenario
def control_records_stay_uncompressed(log: Script) -> None:
    log.open({"compression.type": "snappy"})
    log.append(marker(23423, 5, commit=True, offset=0), origin="coordinator", tv=1)
    log.append(batch(1))
    log.read(0)


@scenario
def log_append_time_is_stamped_on_headers_only(log: Script) -> None:
    log.open({"message.timestamp.type": "LogAppendTime"})
    log.append(batch(records(3, at=0)), gives={"maxTimestamp": START_MS, "logAppendTime": START_MS})
    log.advance(5)
    log.append(batch(records(3, at=START_MS - HOUR_MS), codec=GZIP), gives={"maxTimestamp": START_MS + 5, "recordsConverted": 0})
    log.read(0)


@scenario
def log_append_time_with_another_codec_rewrites_records(log: Script) -> None:
    log.open({"message.timestamp.type": "LogAppendTime", "compression.type": "lz4"})
    log.append(batch(records(3, at=0)), gives={"maxTimestamp": START_MS})
    log.append(batch(records(3, at=0), codec=GZIP))
    log.append(messages(0, 3))
    log.append(messages(1, 3, codec=GZIP))
    log.read(0)
    log.offset_for_time(ms=START_MS, gives={"offset": 0})


@scenario
def a_clients_own_log_append_time_is_cleared(log: Script) -> None:
    log.recompresses = True
    log.open()
    log.append(batch(records(2), log_append_time=START_MS))
    log.append(messages(1, 1, log_append_time=True))
    log.append(messages(1, 2, codec=GZIP, log_append_time=START_MS))


@scenario
def an_unknown_codec_is_refused(log: Script) -> None:
    log.open()
    for codec in (5, 6, 7):
        log.append(altered(batch(1), attributes=codec), refused="IllegalArgumentException")
    log.state(logEndOffset=0)


@scenario
def a_magic_from_the_future_is_refused(log: Script) -> None:
    log.open()
    for magic in (3, 99, -1):
        log.append(altered(batch(1), magic=magic), refused=CORRUPT)


@scenario
def records_that_cannot_be_read_are_refused(log: Script) -> None:
    log.open()
    whole = batch(2)
    for content in (whole[61:-1], whole[61:] + b"\0", b"", whole[61:66]):
        log.append(with_body(whole, content), refused=INVALID)
        log.append(with_body(whole, _gzip(content), attributes=GZIP), refused=INVALID)


@scenario
def a_negative_record_size_is_refused_unless_values_are_skipped(log: Script) -> None:
    log.open()
    whole = batch(2)
    log.append(with_body(whole, b"\x7f" + whole[62:]), refused=INVALID)
    log.append(with_body(whole, _gzip(b"\x7f" + whole[62:]), attributes=GZIP))
    log.state()


@scenario
def headers_without_a_key_are_refused(log: Script) -> None:
    log.open({"compression.type": "gzip"})
    record = struct.pack("5b", 0, 0, 0, 1, 1) + b"\x02\x01\x01"
    log.append(with_body(batch(1), bytes([2 * len(record)]) + record), refused=INVALID)


@scenario
def a_payload_without_a_whole_batch_is_nothing(log: Script) -> None:
    log.open()
    log.append(b"", gives={"firstOffset": -1})
    log.append(batch(2)[:-1], gives={"firstOffset": -1})
    log.append(batch(2) + batch(2)[:-1], gives={"firstOffset": 0, "after": [0, 2, 0, 0, 1]})


@scenario
def upper_attribute_bits_are_kept_or_cleared(log: Script) -> None:
    log.open()
    for attributes in (0x40, 0x80, 0x100, 0x7F80):
        log.append(altered(batch(1), attributes=attributes))
        log.append(altered(batch(1, codec=GZIP), attributes=attributes | GZIP))
    log.read(0)


@scenario
def headers_of_records_pass_unchanged(log: Script) -> None:
    log.open({"compression.type": "zstd"})
    headers = (("é".encode(), b"v"), (b"", None), (b"again", b""), (b"again", b"\0"))
    log.append(batch([Record(0, START_MS, b"k", b"v", headers)]))
    log.config(config={"compression.type": "producer"})
    log.append(batch([Record(0, START_MS, b"k", None, headers)], codec=SNAPPY))
    log.read(0)


@scenario
def a_timestamp_before_the_epoch(log: Script) -> None:
    log.open()
    log.append(altered(batch(records(2, at=0)), base_timestamp=-5))
    log.offset_for_time(ms=-3)
    log.offset_for_time(ms=0)


@scenario
def the_greatest_time_inside_a_batch_is_the_batchs(log: Script) -> None:
    log.open({"index.interval.bytes": 1})
    unordered = [Record(number, START_MS + time, None, b"v") for number, time in enumerate((5, 9, 2, 9, 1))]
    for codec in (0, GZIP, LZ4):
        log.append(batch(unordered, codec=codec), gives={"maxTimestamp": START_MS + 9})
    log.append(altered(batch(unordered), max_timestamp=START_MS + 100), gives={"maxTimestamp": START_MS + 9})
    log.offset_for_time(ms=START_MS + 6, gives={"offset": 1})
    log.offset_for_time(ms=-3)


@scenario
def a_compressed_batch_out_of_sequence_is_refused(log: Script) -> None:
    log.open()
    for deltas in ((0, 2), (1, 0), (0, 0)):
        log.append(with_body(batch(2), _gzip(body(*deltas)), attributes=GZIP), refused="UnsupportedOperationException")
    log.state(logEndOffset=0)


@scenario
def a_batch_shorter_than_its_header_is_refused(log: Script) -> None:
    log.open()
    log.append(altered(batch(1), checksum=False, batch_length=14)[:26], refused="IndexOutOfBoundsException")
    for size in (48, 49):
        log.append(altered(batch(1), checksum=False, batch_length=size), refused=CORRUPT)
    for size in (13, 0, -1):
        log.append(altered(batch(1), checksum=False, batch_length=size), refused=CORRUPT)
