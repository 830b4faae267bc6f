"""The names of files and folders in a log directory.

    segment files     <offset>.log  .index  .timeindex  .txnindex  .snapshot      20 digits; a snapshot's offset is exclusive
    KRaft snapshots   <offset>-<epoch>.checkpoint                                 20 and 10 digits
    named files       leader-epoch-checkpoint, partition.metadata, meta.properties, ...
    suffixes          .deleted (waits for its removal), .cleaned (compaction in progress), .swap (compaction done, not yet in
                      place), .tmp (checkpoint being written), .part (KRaft snapshot being written)

    partition folders <topic>-<partition>, split at the last dash
                      <topic>-<partition>.<32 hex digits>-delete | -future | -stray
                      The topic is cut short in a -delete or -stray name that would pass 255 characters.

Anyone may have written to these disks and buckets, so only ASCII digits are digits and no number overflows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kafkalog.errors import UsageError

from .java import MAX_INT32, MAX_INT64

SEGMENT_KINDS: Final = ("log", "index", "timeindex", "txnindex", "snapshot")
SEGMENT_SUFFIXES: Final = ("deleted", "cleaned", "swap", "tmp")

# The kind of a named file is its name.
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
QUORUM_STATE: Final = "quorum-state"
META_PROPERTIES: Final = "meta.properties"
BOOTSTRAP_CHECKPOINT: Final = "bootstrap.checkpoint"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
REPLICATION_CHECKPOINT: Final = "replication-offset-checkpoint"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOCK: Final = ".lock"
REMOTE_LOG_INDEX_CACHE: Final = "remote-log-index-cache"  # a folder next to the partitions that is not one

OFFSET_CHECKPOINTS: Final = (RECOVERY_POINT_CHECKPOINT, REPLICATION_CHECKPOINT, LOG_START_CHECKPOINT, CLEANER_CHECKPOINT)
PARTITION_FILES: Final = (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, QUORUM_STATE)
LOG_DIRECTORY_FILES: Final = (META_PROPERTIES, BOOTSTRAP_CHECKPOINT, *OFFSET_CHECKPOINTS, CLEAN_SHUTDOWN, LOCK)

MAX_OFFSET: Final = MAX_INT64

OFFSET_DIGITS: Final = 20
# What follows the digits in the name of a segment's file, with the kind and the suffix that it means.
_SEGMENT_ENDINGS: Final = {
    f".{kind}{suffix and '.'}{suffix}": (kind, suffix) for kind in SEGMENT_KINDS for suffix in ("", *SEGMENT_SUFFIXES)
}
# While it is being written, a KRaft snapshot has a random number before its suffix.
_KRAFT_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})(?:(?:-[0-9]+)?\.checkpoint\.(part)|\.checkpoint(?:\.(deleted|tmp))?)")
_FOLDER = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})(?:\.[0-9a-fA-F]{32}-(delete|future|stray))?", re.DOTALL)
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
# Files that kafkalog itself leaves next to partitions: jobs of append, journals, and folders of interrupted work.
_OWN_FILE = re.compile(
    r"\..+\.(append\.json|inprogress)|.+\.(salvage|undelete|reindex|convert|compact|retain|truncate|recover)\.(jsonl?|txt)"
)


@dataclass(frozen=True, slots=True)
class FileName:
    """A parsed file name; `base_offset` and `epoch` are -1 if it has none."""

    kind: str  # one of SEGMENT_KINDS, "checkpoint" for a KRaft snapshot, or the name of a named file
    base_offset: int = -1
    epoch: int = -1
    suffix: str = ""  # "", "deleted", "cleaned", "swap", "tmp" or "part"


@dataclass(frozen=True, slots=True)
class FolderName:
    """A parsed name of a partition folder."""

    topic: str
    partition: int
    state: str = ""  # "", "delete", "future" or "stray"


def parse_file_name(name: str) -> FileName | None:
    """The parts of `name`, or None if Kafka gives no file such a name."""
    if segment := parse_segment_name(name):
        base_offset, (kind, suffix) = segment
        return FileName(kind, base_offset, suffix=suffix)
    if match := _KRAFT_SNAPSHOT.fullmatch(name):
        offset, epoch, part, suffix = match.groups()
        return _in_range(FileName("checkpoint", int(offset), int(epoch), part or suffix or ""))
    stem, suffix = (name[: -len(".tmp")], "tmp") if name.endswith(".tmp") else (name, "")
    if stem in PARTITION_FILES or stem in LOG_DIRECTORY_FILES:
        return FileName(stem, suffix=suffix)
    return None


def parse_segment_name(name: str) -> tuple[int, tuple[str, str]] | None:
    """Base offset, and kind and suffix, of a segment's file; None for any other name. Lakes have millions of them."""
    ending = _SEGMENT_ENDINGS.get(name[OFFSET_DIGITS:])
    digits = name[:OFFSET_DIGITS]
    if ending is None or not (digits.isascii() and digits.isdigit()):
        return None
    base_offset = int(digits)
    return (base_offset, ending) if base_offset <= MAX_OFFSET else None


def is_own_name(name: str) -> bool:
    """Whether a file or folder of this name in a log directory is one of kafkalog's own notes."""
    return _OWN_FILE.fullmatch(name) is not None


def _in_range(name: FileName) -> FileName | None:
    return name if name.base_offset <= MAX_OFFSET and name.epoch <= MAX_INT32 else None


def parse_folder_name(name: str) -> FolderName | None:
    """The parts of `name`, or None if it is not the name of a partition folder."""
    match = _FOLDER.fullmatch(name)
    if match is None:
        return None
    topic, digits, state = match.groups()
    if not is_valid_topic(topic) or int(digits) > MAX_INT32:
        return None
    return FolderName(topic, int(digits), state or "")


def is_valid_topic(topic: str) -> bool:
    """Whether Kafka accepts `topic` as a name: 1 to 249 of a-z A-Z 0-9 . _ - and neither . nor .."""
    return _TOPIC.fullmatch(topic) is not None and topic not in (".", "..")


def segment_file_name(base_offset: int, suffix: str = "log") -> str:
    """The name of a segment's file with a suffix such as "log", "index" or "log.cleaned"."""
    if not 0 <= base_offset <= MAX_OFFSET:
        raise UsageError(f"a file cannot be named after offset {base_offset}: allowed are 0 to {MAX_OFFSET}")
    return f"{base_offset:020d}.{suffix}"


def partition_folder_name(topic: str, partition: int) -> str:
    """The folder name of a live partition."""
    if not is_valid_topic(topic) or not 0 <= partition <= MAX_INT32:
        raise UsageError(f"not the name of a partition: topic {topic!r}, partition {partition}")
    return f"{topic}-{partition}"
