"""A metadata log cut at every byte and with every bit flipped: a state that was, or a clear error, never a traceback.

    python -m tests.campaigns.cluster_damage [--cut-step N] [--flip-step N]     every N-th byte; about 40 minutes with steps of 1

A cut leaves the state after the last whole batch. A flipped bit leaves the state before the damaged batch, or (in bytes that no
checksum covers and that the neighbours do not contradict) the whole state. With the CRC repaired after the flip the content is
another one: then only the errors count, of the replay and of every table.
"""

from __future__ import annotations

import argparse
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import crc32c

from kafkalog.clusters.metadata import read_image
from kafkalog.errors import KafkaLogError
from kafkalog.format import batch
from kafkalog.log.folders import find_partitions
from kafkalog.payloads.cluster_image import ClusterImage
from kafkalog.tables.logs import Logs
from kafkalog.tables.schemas import METADATA_TABLES
from tests.builders.memory_store import MemoryStore
from tests.clusters import packed

FOLDER = "/disk/__cluster_metadata-0"
LOG = f"{FOLDER}/{0:020}.log"
EPOCHS = f"{FOLDER}/leader-epoch-checkpoint"


@dataclass
class Tally:
    """What came of the cases; `wrong` are those that must not be."""

    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class MetadataLog:
    """A metadata log in memory, and the state after each of its batches."""

    def __init__(self, folder: Path) -> None:
        self.data = (folder / f"{0:020}.log").read_bytes()
        self.others = {EPOCHS: (folder / "leader-epoch-checkpoint").read_bytes()}
        self.ends = list(self._ends())
        self.states = {offset: state_of(self.image(self.data[:end])) for end, offset in self.ends}

    def _ends(self) -> Iterator[tuple[int, int]]:
        """Where each batch ends, and its last offset."""
        position = 0
        while position < len(self.data):
            base, length = struct.unpack_from(">qi", self.data, position)
            (delta,) = struct.unpack_from(">i", self.data, position + batch.LAST_OFFSET_DELTA_POSITION)
            position += 12 + length
            yield position, base + delta

    def image(self, data: bytes) -> ClusterImage:
        return read_image(find_partitions(MemoryStore(self.files(data)), FOLDER)).image

    def files(self, data: bytes) -> Mapping[str, bytes]:
        return {LOG: data, **self.others}


def state_of(image: ClusterImage) -> str:
    return repr(packed.facts_of_image(image))


def cut(log: MetadataLog, sizes: Iterator[int] | range | list[int]) -> Tally:
    """The log cut to each of these sizes."""
    tally = Tally()
    for size in sizes:
        whole = [offset for end, offset in log.ends if end <= size]
        try:
            image = log.image(log.data[:size])
        except KafkaLogError as error:
            tally.outcomes[type(error).__name__] += 1
            if whole:
                tally.wrong.append(f"cut to {size}: {error}")
            continue
        tally.outcomes["state"] += 1
        if not whole or image.offset != whole[-1] or state_of(image) != log.states[whole[-1]]:
            tally.wrong.append(f"cut to {size}: the state at {image.offset} is not the one after {whole[-1:]}")
    return tally


def flip(log: MetadataLog, positions: range | list[int], bits: range = range(8)) -> Tally:
    """The log with each of these bits flipped."""
    tally = Tally()
    for position in positions:
        for bit in bits:
            data = bytearray(log.data)
            data[position] ^= 1 << bit
            try:
                image = log.image(bytes(data))
            except KafkaLogError as error:
                tally.outcomes[type(error).__name__] += 1
                continue
            is_whole = image.offset == log.ends[-1][1]
            tally.outcomes["whole state" if is_whole else "state before the damage"] += 1
            if state_of(image) != log.states.get(image.offset):
                tally.wrong.append(f"bit {bit} of byte {position}: the state at {image.offset} never was")
    return tally


def flip_content(log: MetadataLog, positions: range | list[int], bits: range = range(8)) -> Tally:
    """The same in the records, with the checksum repaired: no error may leave the tree of errors."""
    tally = Tally()
    starts = [0, *(end for end, _ in log.ends)]
    for position in positions:
        start = max(each for each in starts if each <= position)
        if position < start + batch.HEADER_SIZE:
            continue
        stop = min(each for each in starts if each > position)
        for bit in bits:
            data = bytearray(log.data)
            data[position] ^= 1 << bit
            checksum = crc32c.crc32c(bytes(data[start + batch.CRC_START : stop]))
            struct.pack_into(">I", data, start + batch.CRC_POSITION, checksum)
            logs = Logs(FOLDER, find_partitions(MemoryStore(log.files(bytes(data))), FOLDER))
            try:
                for table in METADATA_TABLES:
                    logs.read(table, threads=1).read_all()
                tally.outcomes["read"] += 1
            except KafkaLogError as error:
                tally.outcomes[type(error).__name__] += 1
    return tally


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cut-step", type=int, default=1)
    parser.add_argument("--flip-step", type=int, default=1)
    given = parser.parse_args(arguments)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        unpacked = packed.unpack(Path(folder))
        for name in packed.NAMES:
            log = MetadataLog(unpacked / name / "b1" / "d1" / "__cluster_metadata-0")
            flips = range(0, len(log.data), given.flip_step)
            for title, tally in (
                ("cut", cut(log, range(0, len(log.data) + 1, given.cut_step))),
                ("flipped", flip(log, flips)),
                ("flipped, checksum repaired", flip_content(log, flips)),
            ):
                wrong += len(tally.wrong)
                sys.stdout.write(f"{name} {title}: {dict(tally.outcomes)}, {len(tally.wrong)} wrong\n")
                sys.stdout.writelines(f"  {case}\n" for case in tally.wrong[:20])
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
