"""Two copies of a partition: what `diff` finds in them, and its time compared with a `verify` of both, in turns.

    python -m tests.campaigns.two_copies [MEBIBYTES]      1024 by default; prints one line for each fault

The faults are planted in the second copy, one after the other: a flipped bit, a missing batch, a diverged leader epoch.
"""

from __future__ import annotations

import random
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import kafkalog
from kafkalog.format.batch import PARTITION_LEADER_EPOCH_POSITION
from kafkalog.format.names import segment_file_name
from kafkalog.format.reference import Record, encode_batch
from kafkalog.tasks.diff import Comparison

DEFAULT_MEBIBYTES = 1024
ROUNDS = 3
SEGMENTS = 4
RECORDS = 100
DISTINCT = 200
VALUE_BYTES = 120
FIRST_TIME = 1_700_000_000_000


def make_partition(folder: Path, size: int) -> int:
    """The number of batches in a partition of about `size` bytes, in a few segments; distinct batches repeat, except offsets."""
    folder.mkdir(parents=True)
    chance = random.Random(1)
    batches = [bytearray(_batch(chance, number)) for number in range(DISTINCT)]
    number = 0
    for _ in range(SEGMENTS):
        (folder / segment_file_name(number * RECORDS, "index")).touch()  # without one, verify would rebuild it in memory
        with (folder / segment_file_name(number * RECORDS)).open("wb") as segment:
            while segment.tell() < size // SEGMENTS:
                content = batches[number % DISTINCT]
                content[:8] = struct.pack(">q", number * RECORDS)
                segment.write(content)
                number += 1
    return number


def _batch(chance: random.Random, number: int) -> bytes:
    offsets = range(RECORDS)
    times = [FIRST_TIME + number * RECORDS + at for at in offsets]
    values = [chance.randbytes(VALUE_BYTES // 2).hex().encode() for _ in offsets]
    return encode_batch(
        [Record(at, times[at], b"key-%d" % chance.randrange(10**6), values[at]) for at in offsets], leader_epoch=3
    )


@dataclass(frozen=True)
class Planted:
    """A fault in the second copy: the reason, and the first and last offset that `diff` has to name."""

    what: str
    reason: str
    first_offset: int
    last_offset: int
    position: int


def flip_a_bit(folder: Path, batch_count: int) -> Planted:
    segment, position, content, base = _batch_at(folder, batch_count * 2 // 3)
    at = len(content) // 2
    _write(segment, position + at, bytes([content[at] ^ 4]))
    return Planted("a flipped bit", "crc", base, base + RECORDS - 1, position)


def remove_a_batch(folder: Path, batch_count: int) -> Planted:
    segment, position, content, base = _batch_at(folder, batch_count // 3)
    data = segment.read_bytes()
    segment.write_bytes(data[:position] + data[position + len(content) :])
    return Planted("a missing batch", "missing", base, base + RECORDS - 1, position)


def diverge(folder: Path, batch_count: int) -> Planted:
    """The last two batches as another leader wrote them."""
    segment, position, content, base = _batch_at(folder, batch_count - 2)
    data = segment.read_bytes()
    _, _, other, _ = _batch_at(folder, 0)
    other[:8] = struct.pack(">q", base)
    other[PARTITION_LEADER_EPOCH_POSITION : PARTITION_LEADER_EPOCH_POSITION + 4] = struct.pack(">i", 4)
    later = bytearray(data[position + len(content) :])
    later[PARTITION_LEADER_EPOCH_POSITION : PARTITION_LEADER_EPOCH_POSITION + 4] = struct.pack(">i", 4)
    segment.write_bytes(data[:position] + other + later)
    return Planted("a diverged epoch", "diverged", base, base + RECORDS - 1, position)


FAULTS: tuple[Callable[[Path, int], Planted], ...] = (flip_a_bit, remove_a_batch, diverge)


def _batch_at(folder: Path, number: int) -> tuple[Path, int, bytearray, int]:
    """The segment, position and content of a batch, and its base offset."""
    segments = sorted(folder.glob("*.log"))
    segment = [path for path in segments if int(path.stem) <= number * RECORDS][-1]
    data = segment.read_bytes()
    position = 0
    for _ in range(number - int(segment.stem) // RECORDS):
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return segment, position, bytearray(data[position : position + size]), number * RECORDS


def _write(path: Path, position: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)


def find_planted(folder: Path, size: int) -> Iterator[tuple[Planted, Comparison, float]]:
    """Each fault, what `diff` finds of it, and the seconds that took."""
    first, second = folder / "a" / "t-0", folder / "b" / "t-0"
    count = make_partition(first, size)
    for plant in FAULTS:
        shutil.rmtree(second, ignore_errors=True)
        shutil.copytree(first, second)
        planted = plant(second, count)
        begin = time.perf_counter()
        found = kafkalog.diff(first, second)
        yield planted, found, time.perf_counter() - begin


def main(arguments: list[str]) -> int:
    size = int(arguments[0] if arguments else DEFAULT_MEBIBYTES) << 20
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for planted, found, seconds in find_planted(folder, size):
            rows = [f"{row.reason} at offsets {row.first_offset} to {row.last_offset}" for row in found.unexplained]
            expected = f"{planted.what} at offsets {planted.first_offset} to {planted.last_offset}"
            sys.stdout.write(f"{expected}: found {', '.join(rows)} in {seconds:.1f} s\n")
        shutil.rmtree(folder / "b")
        shutil.copytree(folder / "a", folder / "b")
        _compare_times(folder / "a" / "t-0", folder / "b" / "t-0")
    return 0


def _compare_times(first: Path, second: Path) -> None:
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS + 1):  # the first compiles, and fills the page cache
        begin = time.perf_counter()
        kafkalog.verify(first)
        kafkalog.verify(second)
        middle = time.perf_counter()
        found = kafkalog.diff(first, second)
        times[0].append(middle - begin)
        times[1].append(time.perf_counter() - middle)
    sys.stdout.write(f"{found.text}\n")
    verified, compared = (min(each[1:]) for each in times)
    sys.stdout.write(f"verify of both {verified:.2f} s, diff {compared:.2f} s: {compared / verified:.2f} of it\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
