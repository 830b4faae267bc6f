"""Indexes that lie (T-25) and snapshots and checkpoints that are cut or changed (T-26) under `verify`, on files of a real broker.

An index is only a hint, so the judge of an index is its use: if some lookup would begin after its target, the fault has
to be reported. One that still leads every reader right (entries cut off at the end, an offset within the same batch) may be.
Of the other files every change of meaning has to be reported, except those that nothing contradicts, counted as residue by rule:
an empty checkpoint (brokers write such), an offset that the log has, a digit of an id.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from kafkalog.errors import KafkaLogError
from kafkalog.format import checkpoint, index, names
from kafkalog.format.reference import decode_entries
from kafkalog.format.snapshot import decode_snapshot
from kafkalog.log.checks.finding import Finding
from tests.golden import sets

from .side_files import corrupt
from .tally import Tally
from .verified_logs import found_in

ERA = "4.3.0"
ROOT = "/logs"
PARTITIONS = ("txn-0", "none-0", "epochs-0")
SHOWN = 4


class Batch(NamedTuple):
    """A batch of a log, with what indexes say of it."""

    position: int
    base_offset: int
    last_offset: int
    max_timestamp: int


@cache
def real_files() -> dict[str, bytes]:
    """A few partitions of a real broker's log directory, with the checkpoints of its root, by path."""
    with tempfile.TemporaryDirectory(prefix="kafkalog-verified-") as name:
        source = sets.unpack(ERA, Path(name)) / ERA
        files = {f"{ROOT}/{path.name}": path.read_bytes() for path in source.iterdir() if path.name in names.OFFSET_CHECKPOINTS}
        for partition in PARTITIONS:
            files |= {f"{ROOT}/{partition}/{path.name}": path.read_bytes() for path in (source / partition).iterdir()}
    return files


def paths_of(*kinds: str) -> list[str]:
    return sorted(path for path in real_files() if path.rsplit(".", 1)[-1] in kinds and len(real_files()[path]))


def found_with(path: str, content: bytes) -> list[Finding]:
    """The findings of verify in the partition of `path`, with other content in that file."""
    return found_in({**real_files(), path: content}, folder=path.rsplit("/", 1)[0])


def check_healthy_files() -> Tally:
    tally = Tally()
    for partition in PARTITIONS:
        with tally.case(partition):
            tally.reads += 1
            found = found_in(real_files(), folder=f"{ROOT}/{partition}")
            tally.expect(not found, f"{partition}: {found[:SHOWN]}")
    return tally


@cache
def batches_of(index_path: str) -> tuple[Batch, ...]:
    log = real_files()[index_path.rsplit(".", 1)[0] + ".log"]
    found = []
    for entry in decode_entries(log):
        assert entry.base_offset is not None
        found.append(Batch(entry.position, entry.base_offset, entry.last_offset, entry.max_timestamp))
    return tuple(found)


def misleads_by_offset(entries: list[tuple[int, int]], batches: tuple[Batch, ...]) -> bool:
    """Whether a search as Kafka does it, among sorted entries, would begin after the batch that it looks for, or in none."""
    if entries != sorted(entries) or len({offset for offset, _ in entries}) < len(entries):
        return True
    positions = {batch.position for batch in batches}
    for batch in batches:
        for target in (batch.base_offset, batch.last_offset):
            at = bisect_right(entries, (target, 1 << 62)) - 1
            position = entries[at][1] if at >= 0 else 0
            if position > batch.position or position not in positions:
                return True
    return False


def misleads_by_time(entries: list[tuple[int, int]], batches: tuple[Batch, ...]) -> bool:
    """Whether a search by timestamp would begin after the first batch that has such a timestamp."""
    if entries != sorted(entries):
        return True
    for target in sorted({batch.max_timestamp + step for batch in batches for step in (-1, 0, 1)}):
        at = bisect_right(entries, (target, 1 << 62)) - 1
        while at >= 0 and entries[at][0] > target:
            at -= 1
        first = next((batch for batch in batches if batch.max_timestamp >= target), None)
        if first is not None and at >= 0 and entries[at][1] > first.last_offset:
            return True
    return False


def is_harmful(path: str, content: bytes) -> bool:
    """Whether a reader that trusts the changed index would be misled."""
    base, kind = int(Path(path).stem), path.rsplit(".", 1)[-1]
    batches = batches_of(path)
    if kind == "index":
        return misleads_by_offset([(int(o), int(p)) for o, p in index.read_offset_index(content, base).tolist()], batches)
    if kind == "timeindex":
        return misleads_by_time([(int(t), int(o)) for t, o in index.read_time_index(content, base).tolist()], batches)
    try:
        return bool(index.read_txn_index(content).tolist() != index.read_txn_index(real_files()[path]).tolist())
    except KafkaLogError:
        return True


def judge_index(path: str, content: bytes, case: str, tally: Tally) -> None:
    """A harmful index is reported in its own file, not before the first entry that is not as it was."""
    right = real_files()[path]
    if content == right:
        return
    tally.reads += 1
    found = [finding for finding in found_with(path, content) if finding.file == path]
    size = {"index": 8, "timeindex": 12, "txnindex": 34}[path.rsplit(".", 1)[-1]]
    shorter = min(len(right), len(content))
    first_changed = next((at for at in range(shorter) if right[at] != content[at]), shorter)
    # An entry is also wrong because of the one after it, so the one before a changed entry may be named, too.
    placed = all(finding.position is not None and finding.position >= (first_changed // size - 1) * size for finding in found)
    tally.expect(placed, f"{case}: changed from byte {first_changed} on, found {found[:SHOWN]}", "lost")
    if not found and is_harmful(path, content):
        tally.fail("silent", f"{case}: misleads, and nothing is said")
    elif not found:
        tally.leave(f".{path.rsplit('.', 1)[-1]}: still leads every reader right")


def check_indexes(start: int, stop: int) -> Tally:
    """T-25: random corruption, of the kinds that reads are tried with."""
    tally = Tally()
    paths = paths_of("index", "timeindex", "txnindex")
    for seed in range(start, stop):
        random = Random(seed)
        path = paths[seed % len(paths)]
        case = f"{path} seed {seed}"
        with tally.case(case):
            log_size = len(real_files()[path.rsplit(".", 1)[0] + ".log"])
            judge_index(path, corrupt(real_files()[path], random, log_size), case, tally)
    return tally


def check_index_flips(step: int) -> Tally:
    """T-25: bits of every index file."""
    tally = Tally()
    for path in paths_of("index", "timeindex", "txnindex"):
        right = real_files()[path]
        for bit in range(0, len(right) * 8, step):
            content = bytearray(right)
            content[bit // 8] ^= 1 << bit % 8
            case = f"{path} bit {bit}"
            with tally.case(case):
                judge_index(path, bytes(content), case, tally)
    return tally


# T-26


def meaning(path: str, content: bytes) -> Any:
    """The content of a snapshot or checkpoint, or the error that it cannot be read."""
    name = path.rsplit("/", 1)[-1]
    if name.endswith(".snapshot"):
        return decode_snapshot(content).tolist()
    if name == names.LEADER_EPOCH_CHECKPOINT:
        return checkpoint.decode_leader_epoch_checkpoint(content)
    if name == names.PARTITION_METADATA:
        return checkpoint.decode_partition_metadata(content)
    folders = {tuple(partition.rsplit("-", 1)) for partition in PARTITIONS}
    lines = checkpoint.decode_offset_checkpoint(content)
    return sorted(line for line in lines if (line.topic, str(line.partition)) in folders)


def judge_side_file(path: str, content: bytes, case: str, tally: Tally) -> None:
    tally.reads += 1
    found = found_in({**real_files(), path: content}, log_directory=ROOT)
    found = [finding for finding in found if finding.reason != "partition-missing"]
    try:
        said = meaning(path, content)
    except KafkaLogError as error:
        named = [finding for finding in found if finding.file == path]
        tally.expect(bool(named), f"{case}: cannot be read ({error}), and nothing is said of it: {found[:SHOWN]}")
        return
    if said == meaning(path, real_files()[path]):
        tally.expect(not found, f"{case}: means the same, but {found[:SHOWN]}", "lost")
    elif not found:
        tally.expect(path.rsplit("/", 1)[-1] in RESIDUE, f"{case}: {said} is wrong, and nothing is said")
        tally.leave(f"{path.rsplit('/', 1)[-1]}: empty, or says something that the log does not contradict")


RESIDUE = (names.LEADER_EPOCH_CHECKPOINT, names.PARTITION_METADATA, *names.OFFSET_CHECKPOINTS)


def text_paths() -> list[str]:
    return [path for path in sorted(real_files()) if path.rsplit("/", 1)[-1] in RESIDUE]


def check_side_files(step: int) -> Tally:
    """T-26: each file cut at every byte, and each of its bits flipped."""
    tally = Tally()
    for path in [*paths_of("snapshot"), *text_paths()]:
        right = real_files()[path]
        for size in range(0, len(right), step):
            with tally.case(f"{path} cut at byte {size}"):
                judge_side_file(path, right[:size], f"{path} cut at byte {size}", tally)
        for bit in range(0, len(right) * 8, step * 8 + 1):
            content = bytearray(right)
            content[bit // 8] ^= 1 << bit % 8
            with tally.case(f"{path} bit {bit}"):
                judge_side_file(path, bytes(content), f"{path} bit {bit}", tally)
    return tally
