"""`cluster rebuild` under crashes: see power_cuts.py."""

from __future__ import annotations

from kafkalog.format.names import META_PROPERTIES
from kafkalog.tasks.cluster_rebuild import RebuildOptions, rebuild_disks
from kafkalog.tasks.cluster_rebuild.disks import read_disk
from tests.builders.memory_store import MemoryStore
from tests.builders.simulated_disk import Files, SimulatedFs
from tests.builders.small_clusters import OTHER_ID, STRAY, TOPIC_ID, CopyFiles, disk_files
from tests.builders.small_logs import made_batch

from .power_cuts import Job

DISKS = ("/disks/b1/d1", "/disks/b2/d1")
OUT = "/rebuilt"


def cluster_files() -> Files:
    """A broker with a partition, and a controller."""
    broker = disk_files(DISKS[0], 1, {"orders-0": CopyFiles(made_batch(0, leader_epoch=1), epochs=[(1, 0)])})
    return broker | disk_files(DISKS[1], 2, {}, clean=False)


def _rebuild(fs: SimulatedFs) -> None:
    store = MemoryStore({path: content for path, content in fs.files().items() if path.startswith("/disks/")})
    rebuild_disks([read_disk(store, disk) for disk in DISKS], OUT, RebuildOptions(), fs=fs)


def rebuild_holds(image: Files, complete: Files) -> bool:
    """The disks are as they were; a log directory that a broker would open is complete, and so is every partition folder."""
    if any(image.get(path) != content for path, content in cluster_files().items()):
        return False
    for path in complete:
        is_root = path.startswith(OUT) and path.endswith(META_PROPERTIES)
        if is_root and path in image and any(image.get(each) != complete[each] for each in _opened_by(path, complete)):
            return False
    folders = {path.rpartition("/")[0] for path in complete if "/orders-0/" in path and path.startswith(OUT)}
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
        files[f"{path}/__cluster_metadata-0/{0:020d}.log"] = b"not a log"
    return files


def _change(fs: SimulatedFs) -> None:
    store = MemoryStore(fs.files())
    rebuild_disks([read_disk(store, disk) for disk in DISKS], None, RebuildOptions(in_place=True), fs=fs)


def change_holds(image: Files, complete: Files) -> bool:
    """Every log is there under one of its names; a file that was replaced is the old or the new one, and the old one is kept."""
    before = stray_files()
    for disk in DISKS:
        bootstrap, kept = (f"{disk}/bootstrap.checkpoint{suffix}" for suffix in ("", ".before-rebuild"))
        if image.get(bootstrap) != before[bootstrap] and (image.get(bootstrap), image.get(kept)) != (
            complete[bootstrap],
            before[bootstrap],
        ):
            return False
    return _logs(image) == _logs(before)


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
