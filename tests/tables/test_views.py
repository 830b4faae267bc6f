"""`views=True`: keys and values that point to where they were read or decompressed, and stay right as long as they are used."""

from __future__ import annotations

import gc
import random
from pathlib import Path

import pyarrow as pa
import pytest

import kafkalog
from kafkalog.errors import CorruptBatch, UsageError
from kafkalog.format.reference import Record, encode_batch, encode_message, encode_wrapper
from kafkalog.segment.windows import WINDOW_BYTES, WindowBuffers
from tests.builders.small_logs import compress, made_batch, made_records, write_segment
from tests.conftest import require
from tests.damage.bombs import SEGMENT, minimal_records, write_ordinary, zero_values
from tests.damage.measured import MIB

CHANCE = random.Random(3)
CODECS = range(5)


def sized_records(first_offset: int, sizes: list[int | None]) -> list[Record]:
    """Keys and values of these sizes, where None is null; the record with the largest offset ends the file."""
    contents = [None if size is None else CHANCE.randbytes(size) for size in sizes]
    headers = ((b"trace", b"1"), (b"empty", None))
    return [
        Record(first_offset + number, 1000 + number, contents[-1 - number], content, headers if number % 3 else ())
        for number, content in enumerate(contents)
    ]


def same(path: Path, **choices: object) -> pa.Table:
    """The records as views, after comparing them with those that are copied."""
    logs = kafkalog.open(path)
    viewed = logs.read("records", views=True, **choices).read_all()  # type: ignore[arg-type]
    viewed.validate(full=True)
    assert {field.type for field in viewed.schema if field.name in ("key", "value")} == {pa.binary_view()}
    gathered = logs.read("records", **choices).read_all()  # type: ignore[arg-type]
    assert viewed.cast(gathered.schema).equals(gathered)
    return viewed


@pytest.mark.parametrize("codec", CODECS)
def test_views_of_every_size_from_null_to_large(codec: int, tmp_path: Path) -> None:
    sizes = [None, *range(40), 127, 128, 129, 5000, None, 0, 3, 12]
    batches = [encode_batch(sized_records(first, sizes), codec=codec, compress=compress) for first in range(0, 500, 50)]
    # Values of a few bytes at the very end of the window and of the arena.
    batches += [encode_batch([Record(500 + size, 1, None, b"x" * size)], codec=codec, compress=compress) for size in range(14)]
    write_segment(tmp_path / "orders-0", 0, *batches)
    assert same(tmp_path / "orders-0").num_rows == 10 * len(sizes) + 14
    assert same(tmp_path / "orders-0", start_offset=57, stop_offset=503).num_rows > 300
    assert same(tmp_path / "orders-0", columns=["value", "key", "headers", "offset"], threads=3).num_rows > 400


def test_views_of_all_formats_and_codecs_in_one_file(tmp_path: Path) -> None:
    entries = []
    for first in range(0, 600, 60):
        entries += [encode_message(record, magic=0) for record in made_records(first, 10)]
        entries += [encode_wrapper(made_records(first + 10, 10), codec=first // 60 % 3 + 1, compress=compress, magic=1)]
        entries += [encode_message(record, magic=1) for record in made_records(first + 20, 10)]
        entries += [made_batch(first + 30, 10), made_batch(first + 40, 10, codec=first // 60 % 5), made_batch(first + 50, 10)]
    write_segment(tmp_path / "orders-0", 0, *entries)
    table = same(tmp_path / "orders-0")
    assert table["value"].to_pylist() == [b"value-%d" % offset for offset in range(600)]


def test_views_stay_right_while_others_are_read_and_dropped(tmp_path: Path) -> None:
    """Their memory must not be reused while they are used, whichever batch goes first."""
    for partition in range(3):
        batches = [
            encode_batch(
                [Record(first + 1 + n, 1, b"k", b"%06d" % (first + 1 + n) * 2000) for n in range(10)],
                codec=codec,
                compress=compress,
            )
            for codec, first in zip([0, 0, 3, 0] * 60, range(0, 2400, 10), strict=True)
        ]
        write_segment(tmp_path / f"orders-{partition}", 0, *batches)
    held: list[pa.RecordBatch] = []
    for _ in range(3):
        for batch in kafkalog.open(tmp_path).read("records", ["offset", "value"], views=True, threads=2):
            held.append(batch)
            if len(held) > 12:
                held.pop(CHANCE.randrange(len(held)))
            probe = CHANCE.choice(held)
            row = CHANCE.randrange(probe.num_rows)
            assert probe["value"][row].as_py() == b"%06d" % probe["offset"][row].as_py() * 2000
    for batch in held:
        assert batch["value"].to_pylist() == [b"%06d" % offset * 2000 for offset in batch["offset"].to_pylist()]


def test_the_memory_of_a_window_is_reused_when_the_last_of_its_views_is_gone(tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-0", 0, *(made_batch(first) for first in range(0, 100, 10)))
    WindowBuffers._free_data.clear()
    batches = list(kafkalog.open(tmp_path / "orders-0").read("records", ["key"], views=True, threads=1, stop_offset=5000))
    part = batches[0]["key"].slice(3, 1)
    del batches
    gc.collect()
    assert len(WindowBuffers._free_data) == 0
    assert part.to_pylist() == [b"key-3"]
    del part
    gc.collect()
    assert [len(data) for data in WindowBuffers._free_data] == [WINDOW_BYTES]


@pytest.mark.parametrize("codec", CODECS)
def test_damage_is_found_as_without_views(codec: int, tmp_path: Path) -> None:
    batches = [bytearray(made_batch(first, codec=codec)) for first in range(0, 50, 10)]
    batches[2][-3] ^= 1
    write_segment(tmp_path / "orders-0", 0, *map(bytes, batches))
    for mode in ("skip", "salvage"):
        assert same(tmp_path / "orders-0", on_damage=mode).num_rows == 40
    logs = kafkalog.open(tmp_path / "orders-0")
    with pytest.raises(CorruptBatch, match="crc"):
        logs.read("records", views=True).read_all()


def test_large_payloads_are_copied_one_at_a_time_and_views_all_the_same(tmp_path: Path) -> None:
    write_ordinary(tmp_path)
    minimal_records(tmp_path, batches=2)
    zero_values(tmp_path, batches=2, size=20 << 20)
    for partition in kafkalog.open(tmp_path).partitions:
        before = pa.total_allocated_bytes()
        peak, rows = 0, 0
        for batch in kafkalog.open(partition.folder).read("records", ["key", "value"], views=True, threads=2):
            peak = max(peak, pa.total_allocated_bytes() - before)
            rows += batch.num_rows
        assert rows > 0
        assert peak < 300 * MIB
    assert (tmp_path / "ordinary-0" / SEGMENT).exists()


def test_polars_duckdb_and_pandas_take_views_as_they_are(tmp_path: Path) -> None:
    require("duckdb", "polars", "pandas")
    import duckdb
    import polars

    write_segment(tmp_path / "orders-0", 0, *(made_batch(first, 10, codec=first // 10 % 5) for first in range(0, 1000, 10)))
    logs = kafkalog.open(tmp_path / "orders-0")
    expected = [b"value-%d" % offset for offset in range(1000)]

    found = logs.read("records", ["value", "offset"], views=True)
    assert duckdb.from_arrow(found).order('"offset"').project("value").fetchall() == [(value,) for value in expected]
    assert polars.DataFrame(logs.read("records", ["value"], views=True))["value"].to_list() == expected
    assert logs.read("records", ["value"], views=True).read_pandas()["value"].to_list() == expected


def test_views_are_for_records(tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-0", 0, made_batch(0))
    with pytest.raises(UsageError, match="views=True is for the table records; table batches"):
        kafkalog.open(tmp_path).read("batches", views=True)
    assert same(tmp_path, columns=["offset", "key"]).num_rows == 10
    offsets = kafkalog.open(tmp_path).read("records", ["offset"], views=True).read_all()
    assert offsets["offset"].to_pylist() == list(range(10))
