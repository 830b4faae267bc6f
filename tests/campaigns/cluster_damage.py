"""What a cluster's state is read from, damaged: a state that was, or a clear error, and never a wrong one unsaid.

    python -m tests.campaigns.cluster_damage [--cut-step N] [--flip-step N] [--content-step N]     some bytes; else all

Metadata logs, snapshots that brokers wrote, and logs of `__consumer_offsets`, of 4.3 and 3.9: cut at every byte, every bit
flipped, and one bit of every byte of the records flipped with the checksum repaired. A cut leaves the state after the last whole
batch. A flipped bit leaves a state from before the damage, and a word about it, or (in bytes that no checksum covers and that the
neighbours do not contradict) the whole state. With a repaired checksum the content is another one: then only errors outside of
our tree count. hostile_metadata.py has records that no chance would make.

A flip in a metadata log is tried on some batches around it, after a snapshot that holds nothing: what a replay does about damage
does not depend on how many records came before.
"""

from __future__ import annotations

import argparse
import copy
import resource
import struct
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path

import crc32c

from kafkalog.clusters.copies import COLUMNS, iter_stored_records
from kafkalog.clusters.groups import read_groups
from kafkalog.clusters.metadata import ClusterRead, apply_record, read_image
from kafkalog.errors import KafkaLogError
from kafkalog.format import batch
from kafkalog.log.folders import find_partitions
from kafkalog.log.partition import Partition
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import ReadReport
from kafkalog.payloads.cluster_image import ClusterImage
from kafkalog.payloads.group_image import GroupsImage
from kafkalog.payloads.metadata_snapshot import encode_metadata_snapshot
from kafkalog.tables.logs import Logs
from kafkalog.tables.schemas import GROUP_TABLES
from kafkalog.tasks.groups import groups_of
from tests.builders.memory_store import MemoryStore
from tests.clusters import packed
from tests.golden import sets

from .hostile_metadata import Tally, hostile, show_everything

FOLDER = "/disk/__cluster_metadata-0"
OFFSETS_FOLDER = "/disk/__consumer_offsets-0"
CHECKPOINT = "leader-epoch-checkpoint"
GOLDEN = ("4.3.0", "3.9.1")
NEIGHBOURS = 3
BITS = range(8)


def batch_ends(data: bytes) -> Iterator[tuple[int, int]]:
    """Where each batch ends, and its last offset."""
    position = 0
    while position < len(data):
        base, length = struct.unpack_from(">qi", data, position)
        (delta,) = struct.unpack_from(">i", data, position + batch.LAST_OFFSET_DELTA_POSITION)
        position += batch.LOG_OVERHEAD + length
        yield position, base + delta


def flipped(data: bytes, position: int, bit: int) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 1 << bit
    return bytes(changed)


def repaired(data: bytes, start: int, stop: int) -> bytes:
    """With the right checksum of the batch from `start` to `stop`."""
    changed = bytearray(data)
    struct.pack_into(">I", changed, start + batch.CRC_POSITION, crc32c.crc32c(data[start + batch.CRC_START : stop]))
    return bytes(changed)


class MetadataLog:
    """A metadata log in memory, and the state after each of its batches."""

    def __init__(self, data: bytes, others: Mapping[str, bytes], base_offset: int = 0) -> None:
        self.data = data
        self.others = dict(others)
        self.base_offset = base_offset
        self.ends = list(batch_ends(data))

    @classmethod
    def of(cls, folder: Path) -> MetadataLog:
        return cls((folder / f"{0:020}.log").read_bytes(), {CHECKPOINT: (folder / CHECKPOINT).read_bytes()})

    @cached_property
    def states(self) -> dict[int, str]:
        """By the last offset; what is there before the log, too."""
        states = {offset: state_of(self.read(self.data[:end])[0].image) for end, offset in self.ends}
        if self.base_offset:
            states[self.base_offset - 1] = state_of(ClusterImage())
        return states

    def read(self, data: bytes) -> tuple[ClusterRead, ReadReport]:
        report = ReadReport()
        return read_image(find_partitions(MemoryStore(self.files(data)), FOLDER), report=report), report

    def files(self, data: bytes) -> dict[str, bytes]:
        files = {f"{FOLDER}/{name}": content for name, content in self.others.items()}
        return {f"{FOLDER}/{self.base_offset:020}.log": data, **files}

    def start_of(self, row: int) -> int:
        return self.ends[row - 1][0] if row else 0

    def window(self, row: int) -> MetadataLog:
        """The batches around one, after a snapshot that holds nothing."""
        first, stop = max(row - NEIGHBOURS, 0), row + NEIGHBOURS
        data = self.data[self.start_of(first) : self.ends[min(stop, len(self.ends) - 1)][0]]
        if not first:
            return MetadataLog(data, self.others)
        base, *_, epoch = struct.unpack_from(">qii", data)
        snapshot = {f"{base:020}-{epoch:010}.checkpoint": encode_metadata_snapshot([], 0)}
        return MetadataLog(data, {**self.others, **snapshot}, base)


def state_of(image: ClusterImage) -> str:
    return repr(packed.facts_of_image(image))


def cut(log: MetadataLog, sizes: Iterable[int]) -> Tally:
    """The log cut to each of these sizes."""
    tally = Tally()
    for size in sizes:
        tally.add(f"cut to {size}", partial(_cut, log, size))
    return tally


def _cut(log: MetadataLog, size: int) -> tuple[str, str]:
    ends = [0, *(end for end, _ in log.ends if end <= size)]
    whole = [log.base_offset - 1, *(offset for end, offset in log.ends if end <= size)]
    try:
        read, report = log.read(log.data[:size])
    except KafkaLogError as error:
        return type(error).__name__, str(error) if whole[-1] >= 0 else ""
    if read.image.offset != whole[-1] or state_of(read.image) != log.states.get(whole[-1]):
        return "state", f"the state at {read.image.offset} is not the one after {whole[-1]}"
    return "state", "" if size in ends or _is_said(read, report) else "nothing is said about the rest"


def _is_said(read: ClusterRead, report: ReadReport) -> bool:
    return bool(read.problems or report.tails or not report.is_clean)


def flip(log: MetadataLog, positions: Iterable[int], bits: Iterable[int] = BITS) -> Tally:
    """The log with each of these bits flipped."""
    tally = Tally()
    for position in positions:
        for bit in bits:
            data = flipped(log.data, position, bit)
            tally.add(f"bit {bit} of byte {position}", partial(_flip, log, data))
    return tally


def _flip(log: MetadataLog, data: bytes) -> tuple[str, str]:
    read, report = log.read(data)
    is_whole = read.image.offset == log.ends[-1][1]
    outcome = "whole state" if is_whole else "state before the damage"
    if state_of(read.image) != log.states.get(read.image.offset):
        return outcome, f"the state at {read.image.offset} never was"
    return outcome, "" if is_whole or _is_said(read, report) else "nothing is said about the damage"


def chosen(start: int, stop: int, step: int) -> list[int]:
    """Each byte of a batch that no checksum covers, and every `step`-th of the others."""
    covered = start + batch.CRC_START
    return [*range(start, covered), *range(covered + -covered % step, stop, step)]


def in_windows(log: MetadataLog, step: int, damage: Callable[[MetadataLog, list[int]], Tally]) -> Tally:
    """The damage at the chosen bytes of each batch, each tried on the batches around it."""
    tally = Tally()
    for row, (end, _) in enumerate(log.ends):
        start, window = log.start_of(row), log.window(row)
        before = start - log.start_of(max(row - NEIGHBOURS, 0))
        tally.merge(damage(window, [before + position - start for position in chosen(start, end, step)]))
    return tally


def flip_content(log: MetadataLog, positions: Iterable[int], bits: Iterable[int] | None = None) -> Tally:
    """A bit of each byte of the records flipped, with the checksum repaired: no error may leave the tree of errors."""
    tally = Tally()
    row, before = 0, ClusterImage()
    for position in sorted(positions):
        while log.ends[row][0] <= position:
            before = log.read(log.data[: log.ends[row][0]])[0].image
            row += 1
        start, stop = log.start_of(row), log.ends[row][0]
        if position < start + batch.HEADER_SIZE:
            continue
        for bit in bits or (position % len(BITS),):
            data = repaired(flipped(log.data[start:stop], position - start, bit), 0, stop - start)
            tally.add(f"bit {bit} of byte {position}", partial(_content, before, data))
    return tally


def _content(before: ClusterImage, data: bytes) -> tuple[str, str]:
    """The records of a batch applied to the state before it, and every table of that."""
    image = copy.deepcopy(before)
    (base,) = struct.unpack_from(">q", data)
    (partition,) = find_partitions(MemoryStore({f"{FOLDER}/{base:020}.log": data}), FOLDER)
    for record in iter_stored_records(partition, ReadOptions(frozenset(COLUMNS), include_control=True, threads=1), ReadReport()):
        apply_record(image, record)
    show_everything(image)
    return "read", ""


class Snapshot:
    """A snapshot, given as a file."""

    def __init__(self, name: str, data: bytes) -> None:
        self.path = f"{FOLDER}/{name}"
        self.data = data
        self.state = state_of(self.image(data))

    def image(self, data: bytes) -> ClusterImage:
        return read_image(find_partitions(MemoryStore({self.path: data}), self.path)).image

    def outcome(self, data: bytes) -> tuple[str, str]:
        image = self.image(data)
        return "whole state", "" if state_of(image) == self.state else "another state"


def positions(data: bytes, step: int) -> Iterator[int]:
    start = 0
    for end, _ in batch_ends(data):
        yield from chosen(start, end, step)
        start = end


def damage_snapshot(snapshot: Snapshot, cut_step: int, flip_step: int) -> Tally:
    """Cut to every size it is an error; a flipped bit is one, or changes nothing."""
    tally = Tally()
    for size in range(0, len(snapshot.data), cut_step):
        found = Tally()
        found.add(f"cut to {size}", partial(snapshot.outcome, snapshot.data[:size]))
        found.wrong += [f"cut to {size}: no error"] * found.outcomes["whole state"]
        tally.merge(found)
    for position in positions(snapshot.data, flip_step):
        for bit in BITS:
            data = flipped(snapshot.data, position, bit)
            tally.add(f"bit {bit} of byte {position}", partial(snapshot.outcome, data))
    return tally


class OffsetsLog:
    """A log of `__consumer_offsets`, and the groups after each of its batches."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.ends = [end for end, _ in batch_ends(data)]
        self.states = [groups_state(self.read(data[:end])[0]) for end in (0, *self.ends)]

    def read(self, data: bytes, *, strict: bool = False) -> tuple[GroupsImage, ReadReport]:
        report = ReadReport()
        return read_groups(self.partitions(data), history=True, report=report, strict=strict), report

    def partitions(self, data: bytes) -> list[Partition]:
        return find_partitions(MemoryStore({f"{OFFSETS_FOLDER}/{0:020}.log": data}), OFFSETS_FOLDER)

    def outcome(self, data: bytes, *, strict: bool) -> tuple[str, str]:
        """Where damage is left out, the report has it; strict, the state ends at a torn end at most."""
        image, report = self.read(data, strict=strict)
        state = groups_state(image)
        if state == self.states[-1]:
            return "whole state", ""
        if report.is_clean and not report.tails:
            return "another state", "nothing is said about the damage"
        if not report.dropped and state not in self.states:
            return "another state", "it never was"
        return "state without the damage", ""

    def cut(self, size: int) -> tuple[str, str]:
        image, report = self.read(self.data[:size])
        whole = sum(end <= size for end in self.ends)
        if groups_state(image) != self.states[whole]:
            return "state", f"not the one after {whole} batches"
        return "state", "" if size in (0, *self.ends) or report.tails else "nothing is said about the rest"

    def content(self, data: bytes) -> tuple[str, str]:
        """Every command and table on other content."""
        partitions = self.partitions(data)
        groups_of((OFFSETS_FOLDER,), partitions, history=True).as_dict()
        for table in GROUP_TABLES:
            Logs(OFFSETS_FOLDER, partitions).read(table, threads=1).read_all()
        return "read", ""


def groups_state(image: GroupsImage) -> str:
    """Groups and offsets; not in which record they are, which no checksum covers."""
    offsets = {
        group: {key: (each.offset, each.metadata, each.state) for key, each in sorted(found.items())}
        for group, found in sorted(image.offsets.items())
    }
    groups = {name: (vars(group), sorted(group.members)) for name, group in image.groups.items()}
    return repr((offsets, groups, [(each.group_id, each.key, each.offset) for each in image.pending]))


def damage_offsets(log: OffsetsLog, cut_step: int, flip_step: int, content_step: int) -> Iterator[tuple[str, Tally]]:
    cuts, flips, contents = Tally(), Tally(), Tally()
    for size in range(0, len(log.data) + 1, cut_step):
        cuts.add(f"cut to {size}", partial(log.cut, size))
    yield "cut", cuts
    for position in positions(log.data, flip_step):
        for bit in BITS:
            data = flipped(log.data, position, bit)
            for strict in (False, True):
                case = f"bit {bit} of byte {position}, {'strict' if strict else 'damage left out'}"
                flips.add(case, partial(log.outcome, data, strict=strict))
    yield "flipped", flips
    for position in range(0, len(log.data), content_step):
        start = max(end for end in (0, *log.ends) if end <= position)
        stop = min(end for end in log.ends if end > position)
        if position >= start + batch.HEADER_SIZE:
            data = repaired(flipped(log.data, position, position % len(BITS)), start, stop)
            contents.add(f"byte {position}", partial(log.content, data))
    yield "flipped, checksum repaired", contents


def golden_snapshots(folder: Path) -> Iterator[Snapshot]:
    """The newest snapshot that a controller of each release wrote."""
    for era in GOLDEN:
        newest = max((sets.unpack(era, folder) / era / "__cluster_metadata-0").glob("*-*.checkpoint"))
        yield Snapshot(newest.name, newest.read_bytes())


def _campaign(folder: Path, cut_step: int, flip_step: int, content_step: int) -> Iterator[tuple[str, Tally]]:
    yield "hostile records", hostile()
    unpacked = packed.unpack(folder / "clusters")
    for snapshot in golden_snapshots(folder / "golden"):
        yield f"{Path(snapshot.path).name} cut and flipped", damage_snapshot(snapshot, cut_step, flip_step)
    for name in packed.NAMES:
        logs = {path.parent.name: path for path in sorted((unpacked / name).glob("b*/d*/__consumer_offsets-*/*.log"))}
        for number, path in logs.items():
            for title, tally in damage_offsets(OffsetsLog(path.read_bytes()), cut_step, flip_step, content_step):
                yield f"{name} {number} {title}", tally
    for name in packed.NAMES:
        log = MetadataLog.of(unpacked / name / "b1" / "d1" / "__cluster_metadata-0")
        yield f"{name} metadata cut", in_windows(log, cut_step, cut)
        yield f"{name} metadata cut at the ends of batches", cut(log, [end + step for end, _ in log.ends for step in (-1, 0)])
        yield f"{name} metadata flipped, checksum repaired", flip_content(log, range(0, len(log.data), content_step))
        yield f"{name} metadata flipped", in_windows(log, flip_step, flip)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cut-step", type=int, default=1, help="cut at every N-th byte")
    parser.add_argument("--flip-step", type=int, default=1, help="flip every N-th byte that a checksum covers, and all others")
    parser.add_argument("--content-step", type=int, default=1, help="flip every N-th byte of the records")
    given = parser.parse_args(arguments)
    total = Tally()
    with tempfile.TemporaryDirectory() as folder:
        for title, tally in _campaign(Path(folder), given.cut_step, given.flip_step, given.content_step):
            cases = sum(tally.outcomes.values())
            outcomes = ", ".join(f"{name} {count}" for name, count in tally.outcomes.most_common())
            sys.stdout.write(f"{title}: {cases} cases ({outcomes}), slowest {tally.slowest:.2f} s, {len(tally.wrong)} wrong\n")
            sys.stdout.writelines(f"  {case}\n" for case in tally.wrong[:20])
            sys.stdout.flush()
            total.merge(tally)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    sys.stdout.write(f"all: {sum(total.outcomes.values())} cases, {len(total.wrong)} wrong, at most {peak} MiB of memory\n")
    return min(len(total.wrong), 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
