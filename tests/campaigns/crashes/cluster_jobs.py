"""`cluster rebuild` under crashes: see power_cuts.py."""

from __future__ import annotations

from kafkalog.format.names import META_PROPERTIES
from kafkalog.storage.unfinished import UNFINISHED
from kafkalog.tasks.cluster_rebuild import RebuildOptions, rebuild_disks
from kafkalog.tasks.cluster_rebuild.disks import read_disk
from kafkalog.tasks.cluster_rebuild.writing import JOURNAL
from tests.builders.memory_store import MemoryStore
from tests.builders.simulated_disk import Files, SimulatedFs
from tests.builders.small_clusters import OTHER_ID, STRAY, TOPIC_ID, CopyFiles, disk_files
from tests.builders.small_logs import made_batch

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


JOBS = (
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
