"""The repairing commands under crashes: see power_cuts.py."""

from __future__ import annotations

import re

from kafkalog.log.folders import find_partitions
from kafkalog.tasks.reindex import ReindexOptions, reindex_partition
from kafkalog.tasks.salvage import SalvageOptions, salvage_partition
from tests.builders.memory_store import MemoryStore
from tests.builders.simulated_disk import Files, SimulatedFs
from tests.builders.small_logs import made_batch, marker, transactional_batch

from .power_cuts import Job

SOURCE = "/broken/orders-0"
TARGET = "/rescued/orders-0"
INTERVAL = 100
INTERVAL_ARGUMENTS = ["--index-interval-bytes", str(INTERVAL)]


def source_files() -> Files:
    """Two segments with a damaged batch, an aborted transaction over both, and a wrong index and snapshot."""
    first = made_batch(0) + bytes(100) + made_batch(10)[100:] + made_batch(20) + transactional_batch(30, 10, 7)
    second = made_batch(40) + marker(50, 7, commit=False) + made_batch(51, leader_epoch=2)
    return {
        f"{SOURCE}/{0:020d}.log": first,
        f"{SOURCE}/{0:020d}.index": b"wrong",
        f"{SOURCE}/{40:020d}.log": second,
        f"{SOURCE}/{40:020d}.snapshot": b"wrong",
        "/broken/.kafka_cleanshutdown": b"",
    }


def healthy_files() -> Files:
    """The same without the damaged batch, and with a snapshot that does not belong there."""
    files = source_files()
    files[f"{SOURCE}/{0:020d}.log"] = made_batch(0) + made_batch(20) + transactional_batch(30, 10, 7)
    files[f"{SOURCE}/{17:020d}.snapshot"] = b"stray"
    return files


def _salvage(fs: SimulatedFs) -> None:
    (partition,) = find_partitions(MemoryStore(fs.files()), SOURCE)
    salvage_partition([partition], TARGET, SalvageOptions(index_interval_bytes=INTERVAL), fs=fs)


def _reindex(fs: SimulatedFs) -> None:
    (partition,) = find_partitions(MemoryStore(fs.files()), SOURCE)
    reindex_partition(partition, ReindexOptions(index_interval_bytes=INTERVAL), fs)


def _below(files: Files, folder: str) -> Files:
    return {path: content for path, content in files.items() if path.startswith(folder + "/")}


def salvage_holds(image: Files, complete: Files) -> bool:
    """The source is as it was; of the target there is nothing, or all of it and its journal."""
    whole = _below(complete, TARGET)
    journals = [f"{TARGET}.salvage.{kind}" for kind in ("jsonl", "txt")]
    published = _below(image, TARGET)
    return _below(image, "/broken") == _below(complete, "/broken") and (
        not published or (published == whole and all(image.get(path) == complete[path] for path in journals))
    )


def reindex_holds(image: Files, complete: Files) -> bool:
    """Logs are as they were, every other file is the old or the new one, and the old copy of a changed one is kept."""
    before = healthy_files()
    changed = False
    for path in {*before, *(path for path in complete if ".broken-" not in path)}:
        if image.get(path) not in (before.get(path), complete.get(path)):
            return False
        if path in _below(before, SOURCE) and image.get(path) != before[path]:
            changed = True
            kept = [image[aside] for aside in image if aside.startswith(f"{path}.broken-")]
            if before[path] not in kept:
                return False
    return not (changed and "/broken/.kafka_cleanshutdown" in image)


def _without_times(files: Files) -> Files:
    """The time in the names of copies kept aside does not count."""
    return {re.sub(r"\.broken-\w+", ".broken", path): content for path, content in files.items()}


JOBS = (
    Job(
        "salvage",
        source_files,
        _salvage,
        salvage_holds,
        lambda folder: ["salvage", folder + SOURCE, "--out", f"{folder}/rescued", *INTERVAL_ARGUMENTS],
        _without_times,
    ),
    Job(
        "reindex",
        healthy_files,
        _reindex,
        reindex_holds,
        lambda folder: ["reindex", folder + SOURCE, "--in-place", *INTERVAL_ARGUMENTS],
        _without_times,
    ),
)
