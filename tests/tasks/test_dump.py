"""The lines of `kafkalog dump`: the kernel against the plain-Python path, and what no golden file shows."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog.errors import CorruptBatch, KafkaLogError, LimitExceeded, UnsupportedFormat
from kafkalog.format import control, reference
from kafkalog.format.reference import Record
from kafkalog.tasks.dump import Dump, DumpOptions, segment
from kafkalog.tasks.dump.odd_entries import OddEntry
from kafkalog.tasks.dump.place import Place
from tests.builders.small_logs import compress, made_batch, made_records, marker, transactional_batch, write_segment

HERE = Path(__file__).resolve()
EVERYTHING = DumpOptions(print_data_log=True)
VARIANTS = (
    DumpOptions(),
    DumpOptions(deep_iteration=True),
    EVERYTHING,
    DumpOptions(print_data_log=True, skip_record_metadata=True),
)
TEXTS = (
    None,
    b"",
    b"plain",
    "größe 日本語 🙂".encode(),
    b"\xed\xa0\x80\xed\xa0 \xf0\x9f\x99 \xe2\x82",
    bytes(range(256)),
    b"x" * 3000,
)


def dumped(path: Path, options: DumpOptions = EVERYTHING) -> str:
    return b"".join(bytes(chunk) for chunk in Dump([str(path)], options).chunks()).decode()


def dumped_until_error(path: Path, options: DumpOptions = EVERYTHING) -> tuple[str, KafkaLogError]:
    parts: list[bytes] = []
    with pytest.raises(KafkaLogError) as caught:
        for chunk in Dump([str(path)], options).chunks():
            parts.append(bytes(chunk))
    return b"".join(parts).decode(), caught.value


def varied_entries() -> list[bytes]:
    """Entries of every format and codec, with odd keys, values, headers, numbers and control records."""
    source = random.Random(3)
    entries: list[bytes] = []
    offset = 0
    for number in range(40):
        records = []
        for _ in range(source.randrange(1, 6)):
            records.append(varied_record(source, offset))
            offset += source.choice([1, 1, 1, 5])
        entries += legacy_entries(records, number) if number % 4 == 0 else [varied_batch(records, number)]
    return [*entries, *control_entries(offset)]


def varied_record(source: random.Random, offset: int) -> Record:
    headers = tuple((source.choice(TEXTS[1:]) or b"", source.choice(TEXTS)) for _ in range(source.randrange(3)))
    timestamp = source.choice([-1, 0, 1_700_000_000_000, 1 << 61])
    return Record(offset, timestamp, source.choice(TEXTS), source.choice(TEXTS), headers)


def varied_batch(records: list[Record], number: int) -> bytes:
    idempotent = number % 3 == 0
    return reference.encode_batch(
        records,
        codec=number % 5,
        compress=compress,
        delete_horizon_ms=1_800_000_000_000 if number % 7 == 0 else None,
        leader_epoch=7,
        producer_id=9 if idempotent else -1,
        producer_epoch=1 if idempotent else -1,
        base_sequence=(1 << 31) - 2 if idempotent else -1,
    )


def legacy_entries(records: list[Record], number: int) -> list[bytes]:
    """A wrapper, or messages one by one."""
    plain = [Record(each.offset, each.timestamp, each.key, each.value) for each in records]
    magic, codec = number // 4 % 2, number // 4 % 4
    if codec:
        return [reference.encode_wrapper(plain, codec=codec, compress=compress, magic=magic)]
    return [reference.encode_message(each, magic=magic) for each in plain]


def control_entries(offset: int) -> list[bytes]:
    leader_change = struct.pack(">hib", 0, 4, 1) + b"\1\0"
    kraft = reference.encode_control_batch(
        struct.pack(">hh", 0, control.LEADER_CHANGE), leader_change, offset=offset + 2, timestamp=5
    )
    unknown = reference.encode_control_batch(struct.pack(">hh", 0, 77), b"", offset=offset + 3, timestamp=5)
    empty = reference.encode_empty_batch(base_offset=offset + 4, last_offset=offset + 9, max_timestamp=-1)
    markers = [marker(offset, 1, commit=True, coordinator_epoch=3), marker(offset + 1, 1, commit=False)]
    return [*markers, kraft, unknown, empty, transactional_batch(offset + 10, 3, 1)]


def plain_lines(entries: list[bytes], path: Path, options: DumpOptions) -> str:
    position = 0
    parts = [f"Dumping {path}\nLog starting offset: 0\n"]
    for entry in entries:
        parts += OddEntry(Place(str(path), position, len(entry)), entry).lines(options, [])
        position += len(entry)
    return "".join(parts)


@pytest.mark.parametrize("options", VARIANTS, ids=["batches", "records", "contents", "contents-only"])
def test_the_kernel_writes_what_the_plain_path_writes(tmp_path: Path, options: DumpOptions) -> None:
    entries = varied_entries()
    path = write_segment(tmp_path, 0, *entries)
    assert dumped(path, options).split("\n") == plain_lines(entries, path, options).split("\n")


@pytest.mark.parametrize("size", [700, 2000, 12_345])
def test_lines_are_the_same_however_small_the_chunks_are(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_segment(tmp_path, 0, *varied_entries())
    expected = dumped(path)
    monkeypatch.setattr(segment, "CHUNK_BYTES", size)
    assert dumped(path) == expected


@pytest.mark.parametrize("switch", ["NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"])
def test_the_kernel_computes_the_same_unchecked_checked_and_interpreted(switch: str) -> None:
    # Interpreted, NumPy warns of sums that wrap as they are meant to.
    settings = ["-q", "-p", "no:cacheprovider", "-W", "ignore::RuntimeWarning", "-k", "plain_path or small_the_chunks"]
    command = [sys.executable, "-m", "pytest", *settings, str(HERE)]
    environment = {**os.environ, switch: "1"}
    done = subprocess.run(command, cwd=HERE.parents[2], env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


def test_offsets_that_do_not_follow_each_other_are_reported_after_all_files(tmp_path: Path) -> None:
    path = write_segment(tmp_path, 5, made_batch(5, 2), made_batch(9, 2))
    dump = Dump([str(path)], DumpOptions(deep_iteration=True))
    assert list(dump.chunks())
    assert list(dump.findings.lines()) == [
        f"Non-consecutive offsets in {path}",
        "  -1 is followed by 5",
        "  6 is followed by 9",
    ]


def test_a_codec_without_a_name_ends_the_line_where_kafkas_tool_dies(tmp_path: Path) -> None:
    batch = bytearray(made_batch(0, 1))
    batch[22] |= 7
    text, error = dumped_until_error(write_segment(tmp_path, 0, made_batch(0, 1), bytes(batch)), DumpOptions())
    assert text.endswith("deleteHorizonMs: OptionalLong.empty")
    assert isinstance(error, CorruptBatch)
    assert error.reason == "codec-unknown"


def test_a_zero_tail_is_an_error_and_a_short_tail_a_line(tmp_path: Path) -> None:
    whole = made_batch(0, 2)
    text, error = dumped_until_error(write_segment(tmp_path / "zeros", 0, whole, bytes(100)))
    assert text.count("| offset") == 2
    assert isinstance(error, CorruptBatch)
    assert (error.reason, error.position) == ("length", len(whole))
    assert dumped(write_segment(tmp_path / "short", 0, whole, whole[:30])).endswith(
        "Found 30 invalid bytes at the end of 00000000000000000000.log\n"
    )


def test_a_wrong_checksum_is_a_word_and_no_error(tmp_path: Path) -> None:
    batch = bytearray(made_batch(0, 1))
    batch[17] ^= 1
    text = dumped(write_segment(tmp_path, 0, bytes(batch)))
    assert "isvalid: false\n| offset: 0" in text


def test_max_bytes_ends_the_dump_silently(tmp_path: Path) -> None:
    first, second = made_batch(0, 2), made_batch(2, 2)
    path = write_segment(tmp_path, 0, first, second)
    text = dumped(path, DumpOptions(max_bytes=len(first) + 30))
    assert text.count("baseOffset") == 1
    assert "invalid bytes" not in text


def test_memory_stays_flat_over_a_large_segment(tmp_path: Path) -> None:
    path = write_segment(tmp_path, 0, *(made_batch(offset, 100) for offset in range(0, 20_000, 100)))
    chunks = 0
    for chunk in Dump([str(path)], EVERYTHING).chunks():
        assert len(chunk) <= segment.CHUNK_BYTES
        chunks += 1
    assert chunks > 2


def test_the_line_of_kafka_0_8(tmp_path: Path) -> None:
    before = [Record(291_173 + row, -1, None, b"Message_0%d" % row) for row in range(5)]
    message = reference.encode_message(Record(291_178, -1, b"11", b"Message_11"), magic=0)
    path = write_segment(tmp_path, 0, *(reference.encode_message(each, magic=0) for each in before), message)
    line = dumped(path, DumpOptions(print_data_log=True, style="0.8")).splitlines()[-1]
    assert line == (
        "offset: 291178 position: 180 isvalid: true payloadsize: 10 magic: 0 compresscodec: NoCompressionCodec "
        "crc: 576249152 keysize: 2 key: 11 payload: Message_11"
    )


def test_the_iterator_of_kafka_0_8_ends_at_a_short_tail_and_at_a_small_size(tmp_path: Path) -> None:
    message = reference.encode_message(Record(0, -1, None, b"value"), magic=0)
    old = DumpOptions(style="0.8")
    for name, tail in (
        ("cut", message[:20]),
        ("few", b"1234567"),
        ("size", struct.pack(">qi", 1, 13) + bytes(30)),
        ("zero", bytes(50)),
    ):
        text = dumped(write_segment(tmp_path / name, 0, message, tail), old)
        assert text.count("offset: 0 position: 0") == 1
        assert text.endswith(f"Found {len(tail)} invalid bytes at the end of 00000000000000000000.log\n")


def test_the_iterator_of_kafka_0_8_refuses_a_message_above_the_maximum(tmp_path: Path) -> None:
    message = reference.encode_message(Record(0, -1, None, b"v" * 100), magic=0)
    path = write_segment(tmp_path, 0, message)
    _, error = dumped_until_error(path, DumpOptions(style="0.8", max_message_size=50))
    assert isinstance(error, LimitExceeded)
    assert dumped(path, DumpOptions(style="0.8", max_message_size=200)).count("offset: 0 position") == 1


def test_the_style_of_kafka_0_8_knows_no_batches(tmp_path: Path) -> None:
    _, error = dumped_until_error(write_segment(tmp_path, 0, made_batch(0, 1)), DumpOptions(style="0.8"))
    assert isinstance(error, UnsupportedFormat)


def test_a_compressed_set_is_shown_whole_only_by_deep_iteration_in_0_8(tmp_path: Path) -> None:
    wrapper = reference.encode_wrapper(made_records(0, 3), codec=1, compress=compress, magic=0)
    path = write_segment(tmp_path, 0, wrapper)
    assert dumped(path, DumpOptions(style="0.8")).count("GZIPCompressionCodec") == 1
    assert dumped(path, DumpOptions(style="0.8", deep_iteration=True)).count("NoCompressionCodec") == 3


def test_an_index_without_its_log_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.index"
    path.write_bytes(struct.pack(">ii", 1, 0))
    _, error = dumped_until_error(path)
    assert "needs 00000000000000000000.log next to it" in str(error)


def test_reading_an_index_leaves_its_bytes_alone(tmp_path: Path) -> None:
    """Kafka's own tool cuts the file to whole entries."""
    first = made_batch(0)
    path = write_segment(tmp_path, 0, first, made_batch(10), indexed=[1]).with_suffix(".index")
    path.write_bytes(path.read_bytes() + b"\1\2\3")
    before = path.read_bytes()
    assert dumped(path).splitlines()[1:] == [f"offset: 10 position: {len(first)}"]
    assert path.read_bytes() == before


def test_damage_raises_nothing_outside_the_tree(tmp_path: Path) -> None:
    source = random.Random(9)
    whole = b"".join(varied_entries())
    path = tmp_path / "00000000000000000000.log"
    for _ in range(150):
        damaged = bytearray(whole[: source.randrange(len(whole))])
        for _ in range(source.randrange(3)):
            start, stop = sorted(source.choices(range(len(damaged) + 1), k=2))
            damaged[start : min(stop, start + 20)] = source.randbytes(source.randrange(20))
        path.write_bytes(damaged)
        try:
            dumped(path)
        except KafkaLogError as error:
            assert str(error)
