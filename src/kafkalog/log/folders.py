"""Find the partitions under a path (a log directory, one partition folder, or one file), and choose among them.

One rule of choice for reads, tasks, commands and Spark: a topic or number that is named and not there is an error.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from kafkalog.errors import KafkaLogError, NoLogs, StorageError, UnsupportedFormat, UsageError
from kafkalog.format import names
from kafkalog.format.batch import MAX_MAGIC
from kafkalog.format.checkpoint import decode_offset_checkpoint
from kafkalog.format.entry_front import FRONT_SIZE, peek_front
from kafkalog.format.message import MIN_MESSAGE_SIZE
from kafkalog.storage.parallel import in_parallel
from kafkalog.storage.store import LINKED_FOLDER, SMALL_FILE, Entry, Store

from .partition import Partition, Segment, StoredFile
from .stored_files import Segments, StoredFiles, stored_file

LOG_KINDS = ("log", "checkpoint", names.BOOTSTRAP_CHECKPOINT)
UNNAMED = -1
NAMES_LISTED = 20
IsWanted = Callable[[names.FolderName], bool]


def find_partitions(store: Store, path: str, is_wanted: IsWanted | None = None) -> list[Partition]:
    """Every partition at or directly under `path`, sorted by topic and number; NoLogs if there is none.

    Under a log directory, partitions whose name is not wanted are returned without files: their folders are not listed.
    """
    found = store.stat(path)
    if found is None:
        raise StorageError(f"{path}: no such file or folder", file=path)
    if found.kind == "folder":
        return _partitions_of_folder(store, path, is_wanted)
    if found.kind == "other":
        raise UnsupportedFormat(
            "not-a-file", file=path, detail="give the path of a log directory, a partition folder or a segment file"
        )
    return [_partition_of_file(store, path, found)]


def _partitions_of_folder(store: Store, folder: str, is_wanted: IsWanted | None) -> list[Partition]:
    entries = store.list(folder)
    if any(_is_segment_file(entry) for entry in entries):
        parsed = names.parse_folder_name(store.name(folder))
        starts = _log_starts(store, store.parent(folder)) if parsed else {}
        return [_partition(store, folder, entries, starts)]
    starts = _log_starts(store, folder)

    def listed(name: str) -> Partition:
        parsed = names.parse_folder_name(name)
        if parsed is not None and is_wanted is not None and not is_wanted(parsed):
            return _partition(store, store.join(folder, name), [], starts)
        return _listed_partition(store, store.join(folder, name), starts)

    found = (entry.name for entry in entries if entry.kind == "folder" and names.parse_folder_name(entry.name) is not None)
    partitions = list(in_parallel(listed, found, store.requests_at_once))
    # A broker follows these links, so they are partitions; left out silently they would look lost.
    partitions += [
        replace(_partition(store, store.join(folder, entry.name), [], starts), problems=(_problem(store, folder, entry),))
        for entry in entries
        if entry.problem == LINKED_FOLDER and names.parse_folder_name(entry.name) is not None
    ]
    if not partitions:
        raise NoLogs(_nothing_found(folder, entries), file=folder)
    return sorted(partitions, key=lambda partition: (partition.topic, partition.partition, partition.state))


def _nothing_found(folder: str, entries: Iterable[Entry]) -> str:
    held = [entry.name for entry in entries][:3]
    holds = f"it holds {', '.join(map(repr, held))}…" if held else "it is empty"
    return f"{folder}: no Kafka log here: neither segment files (20 digits and .log) nor topic-partition folders; {holds}"


def _is_segment_file(entry: Entry) -> bool:
    parsed = names.parse_file_name(entry.name) if entry.kind == "file" else None
    return parsed is not None and parsed.kind in names.SEGMENT_KINDS


def read_high_watermarks(store: Store, log_directory: str) -> dict[tuple[str, int], int] | None:
    """The high watermark of each partition in the broker's checkpoint; None if that cannot be read."""
    return _read_checkpoint(store, log_directory, names.REPLICATION_CHECKPOINT)


def _log_starts(store: Store, log_directory: str) -> dict[tuple[str, int], int]:
    return _read_checkpoint(store, log_directory, names.LOG_START_CHECKPOINT) or {}


def _read_checkpoint(store: Store, log_directory: str, name: str) -> dict[tuple[str, int], int] | None:
    try:
        path = store.join(log_directory, name)
        entry = store.stat(path)
        if entry is None or entry.kind != "file":
            return None
        found = decode_offset_checkpoint(store.read_small(path, SMALL_FILE))
    except KafkaLogError:
        return None
    return {(noted.topic, noted.partition): noted.offset for noted in found}


def _listed_partition(store: Store, folder: str, starts: dict[tuple[str, int], int]) -> Partition:
    try:
        return _partition(store, folder, store.list(folder), starts)
    except StorageError as error:
        return replace(_partition(store, folder, [], starts), problems=(str(error),))


def _partition(store: Store, folder: str, entries: list[Entry], starts: dict[tuple[str, int], int]) -> Partition:
    name = store.name(folder)
    parsed = names.parse_folder_name(name) or names.FolderName(name, UNNAMED)
    files = StoredFiles(store.join(folder, "-")[:-1], entries)
    problems = tuple(_problem(store, folder, entry) for entry in entries if entry.problem and names.parse_file_name(entry.name))
    return Partition(
        store,
        folder,
        parsed.topic,
        parsed.partition,
        parsed.state,
        segments=Segments(files),
        leftovers=files.leftovers(),
        files=files,
        problems=problems,
        log_start_offset=starts.get((parsed.topic, parsed.partition)) if not parsed.state else None,
    )


def _problem(store: Store, folder: str, entry: Entry) -> str:
    return f"{store.join(folder, entry.name)}: {entry.problem}"


def segments_of(files: Iterable[StoredFile]) -> tuple[Segment, ...]:
    """The live segments in offset order, each with its index files."""
    by_offset: dict[int, dict[str, StoredFile]] = {}
    for stored in files:
        if stored.kind in names.SEGMENT_KINDS and not stored.suffix:
            by_offset.setdefault(stored.base_offset, {})[stored.kind] = stored
    bases = sorted(base for base, group in by_offset.items() if "log" in group)
    following: list[int | None] = [*bases[1:], None][: len(bases)]
    return tuple(
        Segment(by_offset[base]["log"], {kind: stored for kind, stored in by_offset[base].items() if kind != "log"}, after)
        for base, after in zip(bases, following, strict=True)
    )


def _partition_of_file(store: Store, path: str, entry: Entry) -> Partition:
    """A partition of one file. Topic and number come from its folder's name; a file of another name must look like a segment."""
    folder = store.parent(path)
    parsed_folder = names.parse_folder_name(store.name(folder)) or names.FolderName(store.name(folder), UNNAMED)
    parsed = names.parse_file_name(store.name(path))
    if parsed is None:
        _require_segment(store, path, entry)
        parsed = names.FileName("log", UNNAMED)
    elif parsed.kind not in (*LOG_KINDS, *names.SEGMENT_KINDS, names.LEADER_EPOCH_CHECKPOINT):
        raise UnsupportedFormat("not-a-segment", file=path, detail=f"a {parsed.kind} file holds no records; give its folder")
    stored = stored_file(path, entry, parsed)
    segments = (Segment(stored),) if parsed.kind in LOG_KINDS else ()
    return Partition(
        store,
        folder,
        parsed_folder.topic,
        parsed_folder.partition,
        parsed_folder.state,
        segments=segments,
        files=(stored,),
        file=path,
    )


def _require_segment(store: Store, path: str, entry: Entry) -> None:
    with store.open(path) as source:
        data = source.read(0, FRONT_SIZE)
    if not entry.size:
        return
    front = peek_front(data)
    if front is None or front.length < MIN_MESSAGE_SIZE or front.magic > MAX_MAGIC or front.offset < 0:
        detail = "its first bytes are not an entry of a Kafka log; segment files are named with 20 digits and .log"
        raise UnsupportedFormat("not-a-segment", file=path, position=0, found=data.hex(" ") or "an empty file", detail=detail)


def is_given(partition: Partition, place: str) -> bool:
    """Whether `place` is the path of this partition itself or of one of its files, not of a folder that it is in."""
    return partition.folder == place or partition.file is not None


def live_partitions(found: Iterable[Partition], place: str) -> list[Partition]:
    """Those at `place` that no broker has deleted or moved aside; one that is given by its own path counts in any state."""
    return [partition for partition in found if not partition.state or is_given(partition, place)]


def choose(
    found: Sequence[Partition], place: str, topics: Sequence[str] | None, numbers: Sequence[int] | None
) -> list[Partition]:
    """The partitions of these topics with these numbers; UsageError for a name or number that is not at `place`."""
    require_topics(found, place, topics)
    chosen = [partition for partition in found if topics is None or partition.topic in topics]
    for number in numbers or ():
        if number not in (there := {partition.partition for partition in chosen}):
            raise UsageError(f"{place}: no partition {number} here; there are: {_listed(map(str, sorted(there)))}")
    return [partition for partition in chosen if numbers is None or partition.partition in numbers]


def require_topics(found: Iterable[Partition], place: str, topics: Sequence[str] | None) -> None:
    """UsageError for a topic that is not there."""
    there = sorted({partition.topic for partition in found})
    for topic in topics or ():
        if topic not in there:
            raise UsageError(f"{place}: {no_topic(topic, there)}")


def no_topic(topic: str, there: Sequence[str]) -> str:
    """The message for a missing topic: a similar name, and what is there."""
    near = difflib.get_close_matches(topic, there, 1)
    guess = f"did you mean {near[0]}? " if near else ""
    return f"no topic {topic!r} here; {guess}there are: {_listed(there)}"


def _listed(names: Iterable[str]) -> str:
    there = list(names)
    more = f" and {len(there) - NAMES_LISTED} more" if len(there) > NAMES_LISTED else ""
    return (", ".join(there[:NAMES_LISTED]) or "none") + more
