"""The verdict of `verify`: the start of a broker, replayed.

Nothing is guessed: the engine loads each partition that has findings as a broker does at start, on an overlay that keeps every
change in memory. What stops a broker besides that follows Kafka's LogManager and MetaPropertiesEnsemble.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from kafkalog.engine.checkpoints import OffsetCheckpoint
from kafkalog.engine.config import LogConfig
from kafkalog.engine.schedule import SystemClock
from kafkalog.errors import ERROR, WARNING, CorruptRecord, InvalidNumber, KafkaLogError, LogRefusal, StorageError, path_text
from kafkalog.format import names
from kafkalog.format.quantities import size_text
from kafkalog.log.checks.finding import Finding
from kafkalog.log.partition import Partition
from kafkalog.storage.fs import Fs, LocalFs
from kafkalog.storage.local import LocalStore
from kafkalog.storage.lock import is_broker_running
from kafkalog.storage.overlay import OverlayFs

from .locking import is_log_directory
from .losses import find_damaged_loss
from .opening import find_cut, loses_batches, opening_in_place, settled_view
from .verdict import CUT, EMPTIED, REFUSED, UNKNOWN, LoadedPartition, Obstacle, Verdict
from .verdict_text import describe, next_steps

METADATA_TOPIC = "__cluster_metadata"
LIMITS = frozenset({"batch-limit", "decompressed-limit", "record-limit", "headers-limit", "memory-limit"})
# What readers use and a broker rebuilds only where it recovers a segment.
INDEX_KINDS = ("index", "timeindex", "txnindex")
# The engine reads a transaction index entry by entry, as a broker does: two million aborted transactions.
MOST_INDEX_BYTES = 64 << 20


def find_verdict(path: str, partitions: Sequence[Partition], findings: Sequence[Finding], *, whole: bool) -> Verdict | None:
    """The verdict on local partitions with these findings; None for an object store, a single file, or an unnamed folder.

    `partitions` are those that were checked; `whole`: all of a log directory, the root included.
    """
    local = [found for found in partitions if found.file is None and isinstance(found.store, LocalStore) and found.partition >= 0]
    if not local:
        return None
    fs = LocalFs()
    root = os.path.dirname(os.path.abspath(local[0].folder))
    verdict = Verdict(
        path,
        starts=True,
        is_whole=whole,
        is_running=bool(is_broker_running(root)),
        is_configured=_is_file(fs, root, names.META_PROPERTIES),
        was_clean=_is_file(fs, root, names.CLEAN_SHUTDOWN),
        has_recovery_points=_is_file(fs, root, names.RECOVERY_POINT_CHECKPOINT),
    )
    if verdict.is_running:
        verdict = replace(verdict, starts=None)
    else:
        loaded = _load(fs, local, findings)
        obstacles = (*_obstacles(fs, root, findings), *_missing_snapshots(local)) if whole else ()
        verdict = replace(verdict, starts=_starts(loaded, obstacles), obstacles=obstacles, partitions=loaded)
    return replace(verdict, text=describe(verdict), next_steps=tuple(next_steps(verdict, findings)))


def _is_file(fs: Fs, root: str, name: str) -> bool:
    return fs.kind(os.path.join(root, name)) == "file"


def _starts(loaded: Iterable[LoadedPartition], obstacles: Iterable[Obstacle]) -> bool | None:
    outcomes = {found.outcome for found in loaded}
    doubts = {found.is_sure for found in obstacles}
    if REFUSED in outcomes or True in doubts:
        return False
    return None if UNKNOWN in outcomes or False in doubts else True


def _load(fs: Fs, partitions: Iterable[Partition], findings: Iterable[Finding]) -> tuple[LoadedPartition, ...]:
    """Those partitions to which something happens. One without findings loads as it is."""
    by_folder: dict[str, list[Finding]] = {}
    named = set()
    for finding in findings:
        by_folder.setdefault(os.path.dirname(finding.file), []).append(finding)
        named.add((finding.topic, finding.partition))  # also by findings in the checkpoints of the log directory
    wanted = (found for found in partitions if (found.topic, found.partition) in named or _is_odd(found))
    loaded = (load_partition(fs, found, by_folder.get(found.folder, [])) for found in wanted)
    return tuple(found for found in loaded if found.is_eventful)


def _is_odd(partition: Partition) -> bool:
    """Whether it was put aside, has files that a broker was about to rename, or could not be listed."""
    return bool(partition.state or partition.leftovers or partition.problems)


def load_partition(fs: Fs, partition: Partition, findings: Sequence[Finding]) -> LoadedPartition:
    """What a broker at start does to one partition; nothing is written."""
    nothing = LoadedPartition(partition.topic, partition.partition, partition.folder)
    paths = [stored.path for stored in partition.files]
    closed = next((path for path in paths if os.path.exists(path) and not os.access(path, os.R_OK)), None)
    if closed is not None:  # after a clean shutdown a log is loaded without being read, so that this would not show
        return replace(nothing, outcome=UNKNOWN, detail=f"{path_text(os.path.basename(closed))}: {os.strerror(errno.EACCES)}")
    long = (stored for stored in partition.files if stored.kind == "txnindex" and stored.size > MOST_INDEX_BYTES)
    endless = next(long, None)
    if endless is not None:
        detail = (
            f"{path_text(os.path.basename(endless.path))}: {size_text(endless.size)}, which a broker would read entry by entry"
        )
        return replace(nothing, outcome=UNKNOWN, detail=detail)
    try:
        result = _loaded(fs, partition, nothing, findings)
    except (StorageError, OSError) as error:
        return replace(nothing, outcome=UNKNOWN, detail=_unread_text(error, partition))
    except KafkaLogError as error:
        outcome = UNKNOWN if isinstance(error.__cause__, OSError) else REFUSED
        unread = error.__cause__ if outcome == UNKNOWN else None
        detail = _unread_text(unread, partition) if isinstance(unread, OSError) else _refusal(error, findings)
        result = replace(nothing, outcome=outcome, detail=detail)
    if result.is_eventful and _has_changed(partition):  # by a broker whose lock cannot be seen, as on a network file system
        return replace(nothing, outcome=UNKNOWN, detail="its files are changing, so a broker is running")
    return result


def _unread_text(error: OSError, partition: Partition) -> str:
    """The file and the reason, without the whole path and without advice about writing: nothing is to be written."""
    file = os.path.basename((error.file if isinstance(error, StorageError) else error.filename) or "")
    if not error.errno:
        return str(error)
    is_inside = file and file != os.path.basename(partition.folder)
    return f"{path_text(file)}: {os.strerror(error.errno)}" if is_inside else os.strerror(error.errno)


def _has_changed(partition: Partition) -> bool:
    """Whether a file is not as it was when the partition was listed, or a segment is new."""
    store = partition.store
    listed = {stored.path: (stored.size, stored.mtime_ns) for stored in partition.files}
    try:
        now = {store.join(partition.folder, found.name): (found.size, found.mtime_ns) for found in store.list(partition.folder)}
    except (KafkaLogError, OSError):
        return False  # what cannot be listed was not, either
    is_new = any(path.endswith(".log") and path not in listed for path in now) and not partition.problems
    return is_new or any(now.get(path) != facts for path, facts in listed.items())


def _loaded(fs: Fs, partition: Partition, result: LoadedPartition, findings: Sequence[Finding]) -> LoadedPartition:
    folder = os.path.abspath(partition.folder)
    opening = opening_in_place(fs, folder, LogConfig.of({"file.delete.delay.ms": 0}), SystemClock().now_ms())
    if partition.topic == METADATA_TOPIC:  # KRaft recovers its own log whole at every start
        opening = replace(opening, log_start_offset=0, recovery_point=0, clean=False)
    view = settled_view(fs, folder, opening)
    overlay = OverlayFs(view)
    log = opening.open(overlay, folder)
    try:
        cut = find_cut(view, folder, log)
        end_offset = log.log_end_offset
        sizes = {segment.base_offset: segment.size for segment in log.segments}
        log.run_due_tasks()
    finally:
        log.close_handlers()
    result = replace(result, end_offset=end_offset, cut_bytes=cut.size)
    if partition.state:  # put aside: a broker loads it too, and deletes it or waits for an operator
        return result
    changed = {os.path.basename(path) for path in overlay.changes()}
    result = replace(result, damage=tuple(_damage_left(findings, sizes)), stale=tuple(_stale(findings, changed)))
    if cut.new_start is not None:
        return replace(result, outcome=EMPTIED, loss=find_damaged_loss(partition, 0, cut.size))
    if not cut.size:
        return result
    loss = find_damaged_loss(partition, end_offset, cut.size) if loses_batches(view, folder, cut) else None
    return replace(result, outcome=CUT, loss=loss)


def _damage_left(findings: Iterable[Finding], sizes: dict[int, int]) -> Iterator[Finding]:
    """The errors in what remains of the segments."""
    for finding in findings:
        name = names.parse_file_name(os.path.basename(finding.file))
        if name is None or name.kind != "log" or name.suffix or finding.severity != ERROR or finding.reason in LIMITS:
            continue
        if (finding.position or 0) < sizes.get(name.base_offset, 0):
            yield finding


def _stale(findings: Iterable[Finding], changed: set[str]) -> Iterator[str]:
    """The names of files that are wrong and that loading does not rebuild."""
    wrong = dict.fromkeys(os.path.basename(each.file) for each in findings if each.severity in (ERROR, WARNING))
    for name in wrong:
        parsed = names.parse_file_name(name)
        if parsed is not None and not parsed.suffix and parsed.kind in INDEX_KINDS and name not in changed:
            yield name


def _refusal(error: KafkaLogError, findings: Sequence[Finding]) -> str:
    """Why loading fails, by the file and place that the check found."""
    errors = [found for found in findings if found.severity == ERROR and found.file.endswith(".log")]
    if isinstance(error, CorruptRecord) and errors:
        first = errors[0]
        return f"{first.reason} in {os.path.basename(first.file)} at byte {first.position or 0}"
    unread = [name for name in names.PARTITION_FILES if f"{os.sep}{name}: cannot be read" in str(error)]
    return f"{unread[0]} cannot be read" if unread else str(error)


def _obstacles(fs: Fs, root: str, findings: Iterable[Finding]) -> Iterator[Obstacle]:
    """What is in the root of the log directory that stops a broker."""
    for finding in findings:
        name = os.path.basename(finding.file)
        is_root = os.path.dirname(os.path.abspath(finding.file)) == root
        if is_root and finding.reason == "foreign-folder":
            yield Obstacle(finding.file, "is a folder that belongs to no partition")
        elif is_root and name == names.META_PROPERTIES and finding.severity == ERROR:
            yield Obstacle(finding.file, "cannot be read")
        elif _is_kraft_doubt(finding, name):
            yield Obstacle(finding.file, "is damaged, and KRaft may need it", is_sure=False)
    if is_log_directory(fs, root):
        yield from _unreadable_checkpoints(fs, root)


def _missing_snapshots(partitions: Iterable[Partition]) -> Iterator[Obstacle]:
    """A metadata log whose beginning was deleted: KRaft loads a snapshot first, and there is none."""
    for partition in partitions:
        has_snapshot = any(stored.kind == "checkpoint" and not stored.suffix for stored in partition.files)
        if partition.topic == METADATA_TOPIC and partition.start_offset > 0 and not has_snapshot and not partition.problems:
            why = f"begins at offset {partition.start_offset} and has no snapshot (.checkpoint) of what was before"
            yield Obstacle(partition.folder, why, is_sure=False)


def _is_kraft_doubt(finding: Finding, name: str) -> bool:
    parsed = names.parse_file_name(name)
    kinds = ("checkpoint", names.BOOTSTRAP_CHECKPOINT, names.QUORUM_STATE)
    return finding.severity == ERROR and parsed is not None and not parsed.suffix and parsed.kind in kinds


def _unreadable_checkpoints(fs: Fs, root: str) -> Iterator[Obstacle]:
    """A malformed offset checkpoint takes the directory offline; only a word instead of a number is forgiven, in two of them."""
    overlay = OverlayFs(fs)
    for name in names.OFFSET_CHECKPOINTS:
        path = os.path.join(root, name)
        if fs.kind(path) != "file":
            continue
        try:
            OffsetCheckpoint(overlay, path).read()
        except InvalidNumber:
            if name not in (names.RECOVERY_POINT_CHECKPOINT, names.LOG_START_CHECKPOINT):
                yield Obstacle(path, "has a word instead of a number", is_sure=False)
        except LogRefusal:
            yield Obstacle(path, "cannot be read")
        except (StorageError, OSError):
            yield Obstacle(path, "could not be read here", is_sure=False)
