"""The fuzz target: a whole segment from bytes, read in every mode and compared with the reference codec.

    python -m tests.fuzz.target [libFuzzer's flags] [corpus folder]

Coverage comes from the pure-Python layers and from the reference codec; the kernels are machine code, with bounds checks on so
that an access outside an array is an error instead of silence. Mutations mostly repair lengths and checksums: without that, none
would reach the decoder.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
import struct
import sys

import atheris

import kafkalog.kernels

# Imported first, and so left as they are: Numba compiles kernels from bytecode that must be their own.
for module in pkgutil.iter_modules(kafkalog.kernels.__path__, "kafkalog.kernels."):
    importlib.import_module(module.name)

with atheris.instrument_imports(include=["kafkalog"]):
    from kafkalog.format import batch
    from kafkalog.log.folders import find_partitions
    from kafkalog.log.partition import Partition
    from kafkalog.log.reading import ReadOptions
    from kafkalog.log.report import ReadReport
    from kafkalog.tables.records import record_batches
    from kafkalog.tables.schemas import find_table
    from tests.builders.memory_store import MemoryStore
    from tests.fuzz.seeds import seeds
    from tests.property.oracle import (
        LIMITS,
        agrees,
        joined_entry,
        kernel_outcome,
        reference_outcome,
        sealed,
        sealed_messages,
        split_entry,
    )

FOLDER = "/logs/orders-0"
FILE = f"{FOLDER}/00000000000000000000.log"
MAX_BYTES = 4096
WINDOW_BYTES = 1024  # so that windows end inside the segment


def read_partition(data: bytes) -> Partition:
    """A partition of one segment that holds `data`."""
    (found,) = find_partitions(MemoryStore({FILE: data}), FOLDER)
    return found


def check(data: bytes) -> None:
    """Read `data` in every mode; an AssertionError, or any other exception, is a bug."""
    partition = read_partition(data)
    found, expected = kernel_outcome(partition, window_bytes=WINDOW_BYTES), reference_outcome(data)
    assert agrees(data, found, expected), (found, expected)
    before_damage = [row[0] for row in found.rows]
    skipped = _offsets(partition, "skip", allow_disorder=True)
    assert skipped[: len(before_damage)] == before_damage, (before_damage, skipped)
    for mode in ("skip", "salvage"):
        offsets = _offsets(partition, mode, allow_disorder=False)
        if found.reason:  # a sound batch may have them in any order
            continue
        assert set(offsets) <= set(before_damage), "records from nowhere"


def _offsets(partition: Partition, mode: str, *, allow_disorder: bool) -> list[int]:
    """The offsets that a read gives which must not fail."""
    options = ReadOptions(
        frozenset({"offset", "value"}),
        on_damage=mode,
        allow_disorder=allow_disorder,
        include_control=True,
        threads=1,
        limits=LIMITS,
        window_bytes=WINDOW_BYTES,
    )
    report = ReadReport()
    schema = find_table("records").schema(["offset", "value"])
    offsets: list[int] = []
    for each in record_batches([partition], schema, options, report):
        offsets += each.column(0).to_pylist()
    lost = report.dropped_bytes + sum(tail.length for tail in report.tails)
    assert report.kept_records == len(offsets)
    assert report.kept_bytes + lost <= partition.size, "more bytes kept and lost than there are"
    return offsets


def test_one_input(data: bytes) -> None:
    check(data)


# -- mutation ----------------------------------------------------------------------------------------------------------------


def split_segment(data: bytes) -> list[bytes]:
    """The entries as far as lengths lead; the remaining bytes are the last one."""
    entries = []
    position = 0
    while position + batch.LOG_OVERHEAD <= len(data):
        (length,) = struct.unpack_from(">i", data, position + batch.BATCH_LENGTH_POSITION)
        stop = position + batch.LOG_OVERHEAD + length
        if length < 0 or stop > len(data):
            break
        entries.append(data[position:stop])
        position = stop
    return [*entries, data[position:]] if position < len(data) else entries


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """One change to the segment: of an entry's content, of its header, of the order of entries, or of any bytes."""
    choose = random.Random(seed)
    entries = split_segment(data)
    kind = choose.random()
    if not entries or kind < 0.1:
        return bytes(atheris.Mutate(data, max_size))
    at = choose.randrange(len(entries))
    if kind < 0.55:
        entries[at] = _with_content(entries[at], choose)
    elif kind < 0.85:
        entries[at] = _repaired(bytes(atheris.Mutate(entries[at], len(entries[at]) + 16)))
    elif kind < 0.9:
        entries.insert(choose.randrange(len(entries) + 1), entries[at])
    elif kind < 0.95:
        del entries[at]
    else:
        choose.shuffle(entries)
    return b"".join(entries)[:max_size]


def _with_content(stored: bytes, choose: random.Random) -> bytes:
    split = split_entry(stored)
    if split is None:
        return _repaired(bytes(atheris.Mutate(stored, len(stored) + 16)))
    front, codec, magic, content = split
    content = bytes(atheris.Mutate(content, len(content) + 32))
    if magic < 2 and choose.random() < 0.7:
        content = sealed_messages(content)
    return joined_entry(front, codec if codec < 5 else 0, magic, content)


def _repaired(data: bytes) -> bytes:
    stored = bytearray(data)
    if len(stored) > batch.LOG_OVERHEAD:
        struct.pack_into(">i", stored, batch.BATCH_LENGTH_POSITION, len(stored) - batch.LOG_OVERHEAD)
    return sealed(bytes(stored))


def compile_kernels() -> None:
    """Run every kernel once, sound and damaged, so that the clock of the fuzzer does not run while they are compiled."""
    for _, data in seeds():
        check(data)
        check(data[:40] + b"\xff" + data[41:] + data)


if __name__ == "__main__":
    compile_kernels()
    atheris.Setup([*sys.argv, f"-max_len={MAX_BYTES}"], test_one_input, custom_mutator=mutate)
    atheris.Fuzz()
