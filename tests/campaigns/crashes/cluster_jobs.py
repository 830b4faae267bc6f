"""`cluster rebuild` and `cluster move` under crashes: see power_cuts.py."""

from __future__ import annotations

from contextlib import suppress

from kafkalog.errors import CorruptBatch, TornTail
from kafkalog.format.names import META_PROPERTIES
from kafkalog.format.reference import decode_entries
from kafkalog.payloads.metadata_snapshot import NewMetadataRecord
from kafkalog.storage.unfinished import UNFINISHED
from kafkalog.tasks.cluster_move import MoveOptions, move_topics
from kafkalog.tasks.cluster_rebuild import RebuildOptions, rebuild_disks
from kafkalog.tasks.cluster_rebuild.disks import read_disk
from kafkalog.tasks.cluster_rebuild.writing import JOURNAL
from tests.builders.memory_store import MemoryStore
from tests.builders.simulated_disk import Files, SimulatedFs
from tests.builders.small_clusters import (
    OTHER_ID,
    STRAY,
    TOPIC_ID,
    CopyFiles,
    cluster_records,
    directory_id,
    disk_files,
    metadata_batch,
    metadata_files,
)
from tests.builders.small_logs import FIRST_TIME, made_batch

from .power_cuts import Job
from .write_jobs import SAME_FOLDER

DISKS = ("/disks/b1/d1", "/disks/b2/d1")
OUT = "/rebuilt"
METADATA_LOG = f"__cluster_metadata-0/{0:020d}.log"


def cluster_files(count: int = 1) -> Files:
    """A broker with partitions, and a controller."""
    copies = {f"orders-{number}": CopyFiles(made_batch(0, leader_epoch=1), epochs=[(1, 0)]) for number in range(count)}
    return disk_files(DISKS[0], 1, copies) | disk_files(DISKS[1], 2, {}, clean=False)


def _rebuild(fs: SimulatedFs) -> None:
    store = MemoryStore({path: content for path, content in fs.files().items() if path.startswith("/disks/")})
    rebuild_disks([read_disk(store, disk) for disk in DISKS], OUT, RebuildOptions(), fs=fs)


def rebuild_holds(image: Files, complete: Files) -> bool:
    """The disks are as they were; a log directory that a broker would open is complete, and so is every partition folder."""
    if _below(image, "/disks") != _below(complete, "/disks"):
        return False
    for path in complete:
        is_root = path.startswith(OUT) and path.endswith(META_PROPERTIES)
        if is_root and path in image and any(image.get(each) != complete[each] for each in _opened_by(path, complete)):
            return False
    folders = {path.rpartition("/")[0] for path in complete if "/orders-" in path and path.startswith(OUT)}
    return all(_below(image, folder) in ({}, _below(complete, folder)) for folder in folders)


def _opened_by(meta: str, complete: Files) -> list[str]:
    """The files of the log directory, and the journal."""
    return [*_below(complete, meta.removesuffix(f"/{META_PROPERTIES}")), f"{OUT}/cluster.rebuild.jsonl"]


def _below(files: Files, folder: str) -> Files:
    return {path: content for path, content in files.items() if path.startswith(folder + "/")}


def stray_files() -> Files:
    """Two brokers that made their folders stray, and metadata logs that are damaged from the first byte on."""
    files: Files = {}
    batch = made_batch(0, leader_epoch=1)
    for node, path in enumerate(DISKS, 1):
        ids = {"orders": TOPIC_ID, "users": OTHER_ID}
        folders = {f"{topic}-0{STRAY}": CopyFiles(batch, topic_id) for topic, topic_id in ids.items()}
        files |= disk_files(path, node, folders)
        files[f"{path}/{METADATA_LOG}"] = b"not a log"
    return files


def _change(fs: SimulatedFs) -> None:
    store = MemoryStore(fs.files())
    rebuild_disks([read_disk(store, disk) for disk in DISKS], None, RebuildOptions(in_place=True), fs=fs)


def change_holds(image: Files, complete: Files) -> bool:
    """Every log is there under one of its names; a file that was replaced is the old or the new one, and the old one is kept.

    A disk on which anything has changed has its journal, and one without its metadata log has the new bootstrap.checkpoint.
    """
    before = stray_files()
    return all(_disk_holds(disk, image, before, complete) for disk in DISKS) and _logs(image) == _logs(before)


def _disk_holds(disk: str, image: Files, before: Files, complete: Files) -> bool:
    bootstrap = f"{disk}/bootstrap.checkpoint"
    kept = f"{bootstrap}.before-rebuild"
    is_new = image.get(bootstrap) == complete[bootstrap]
    if image.get(bootstrap) != before[bootstrap] and not (is_new and image.get(kept) == before[bootstrap]):
        return False
    if f"{disk}/{METADATA_LOG}" not in image and not is_new:
        return False
    is_untouched = _without_unfinished(_below(image, disk)) == _below(before, disk)
    return is_untouched or image.get(f"{disk}/{JOURNAL}", b"").endswith(b"}\n")


def _without_unfinished(files: Files) -> Files:
    return {path: content for path, content in files.items() if not path.endswith((UNFINISHED, "/.lock"))}


def _logs(files: Files) -> list[bytes]:
    return sorted(content for path, content in files.items() if path.endswith(".log"))


def _without_notes(files: Files) -> Files:
    """A second run finds folders under other names, and its journal says so; a killed one leaves its lock file, as a broker."""
    return {path: content for path, content in files.items() if not path.endswith((".rebuild.jsonl", "/.lock"))}


INTO = ("/target/t1/d1", "/target/t2/d1")
TARGET = "VGFyZ2V0IG9mIHRoZSB0ZQ"
METADATA = "__cluster_metadata-0"


def target_files() -> Files:
    """The disk of a broker, and two controllers' disks; the second has not caught up."""
    brokers = {node: [directory_id(node, 7)] for node in (1, 2)}
    levels = {"metadata.version": 30}
    batch = metadata_batch(0, *cluster_records(brokers, levels=levels))
    more = metadata_batch(len(levels) + 3, NewMetadataRecord("NoOpRecord", 0, {}))
    files = cluster_files()
    for node, path in enumerate(INTO, 1):
        own = {"users-0": CopyFiles(made_batch(0, leader_epoch=1), OTHER_ID)}
        files |= disk_files(path, node, own, number=7, cluster=TARGET)
        files |= metadata_files(path, (1, 2), batch, more if node == 1 else b"")
    return files


def _move(fs: SimulatedFs) -> None:
    store = MemoryStore(fs.files())
    sources, into = ([read_disk(store, disk) for disk in disks] for disks in (DISKS, INTO))
    move_topics(sources, into, MoveOptions(("orders",), replicas=2), fs=fs, now_ms=FIRST_TIME)


def move_holds(image: Files, complete: Files) -> bool:
    """Nothing of what was there is gone; a partition is there whole or not at all; and no controller knows of one that is not."""
    before = target_files()
    logs = {path: before[path] for path in before if path.endswith(".log") and METADATA in path}
    kept = {path for path in before if path.endswith((".log", "meta.properties", ".kafka_cleanshutdown"))}
    if any(not image.get(path, b"").startswith(before[path]) for path in kept):
        return False
    folders = [f"{disk}/orders-0" for disk in INTO]
    if any(_below(image, folder) not in ({}, _below(complete, folder)) for folder in folders):
        return False
    if not any(_entries(image[path]) == _entries(complete[path]) for path in logs):
        return True
    needed = [path for path in complete if path.endswith("-checkpoint") and METADATA not in path]
    needed += [path for folder in folders for path in _below(complete, folder)]
    return all(image.get(path) == complete[path] for path in needed)


def _entries(log: bytes) -> list[tuple[int | None, int, int]]:
    """The entries of a log as far as it goes, without their times, which are those of the run."""
    found = []
    with suppress(TornTail, CorruptBatch):
        for entry in decode_entries(log):
            found.append((entry.base_offset, entry.leader_epoch, entry.size))
    return found


def _what_counts(files: Files) -> dict[str, object]:
    """Indexes and snapshots of the metadata log are what recovery makes of it, sooner or later."""
    counted: dict[str, object] = {path: content for path, content in files.items() if METADATA not in path}
    counted |= {path: _entries(content) for path, content in files.items() if METADATA in path and path.endswith(".log")}
    counted.pop("/target/t1/d1/.lock", None)
    counted.pop("/target/t2/d1/.lock", None)
    return counted


JOBS = (
    Job(
        "cluster move",
        target_files,
        _move,
        move_holds,
        lambda folder: [
            *("cluster", "move", f"{folder}/disks", "--topic", "orders", "--into", f"{folder}/target"),
            *("--replicas", "2", "--yes"),
        ],
        _what_counts,
        sampled=16,
        unfinished=r"\.inprogress|/__cluster_metadata-0\.[0-9a-f]{32}-stray",
    ),
    Job(
        "cluster rebuild",
        cluster_files,
        _rebuild,
        rebuild_holds,
        lambda folder: ["cluster", "rebuild", f"{folder}/disks", "--out", folder + OUT],
        excused={2: SAME_FOLDER, 4: SAME_FOLDER},
    ),
    Job(
        "cluster rebuild in place",
        stray_files,
        _change,
        change_holds,
        lambda folder: ["cluster", "rebuild", f"{folder}/disks", "--in-place", "--yes"],
        _without_notes,
    ),
)

# Its images are too many, as of an append to a new topic: files of both partitions may or may not be durable.
TWO_PARTITIONS = Job(
    "cluster rebuild of two partitions",
    lambda: cluster_files(2),
    _rebuild,
    rebuild_holds,
    lambda folder: ["cluster", "rebuild", f"{folder}/disks", "--out", folder + OUT],
)
