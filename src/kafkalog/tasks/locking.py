"""A partition that is changed where it is: brokers are kept out, the clean-shutdown marker goes first, checkpoints stay true."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from kafkalog.engine.checkpoints import CleanShutdownFlag
from kafkalog.errors import StorageError, UnsupportedFormat
from kafkalog.format import names
from kafkalog.format.checkpoint import PartitionOffset, decode_offset_checkpoint, encode_offset_checkpoint
from kafkalog.log.partition import Partition
from kafkalog.storage.failures import writing
from kafkalog.storage.fs import Fs, read_small
from kafkalog.storage.overlay import OwnedFs
from kafkalog.storage.ownership import Pattern
from kafkalog.storage.publish import replace_file, replaced_ownership, sync_names

LOG_DIRECTORY_FILES = (names.META_PROPERTIES, names.LOCK, *names.OFFSET_CHECKPOINTS)


def is_log_directory(fs: Fs, folder: str) -> bool:
    """Whether a broker kept its logs there."""
    return any(fs.kind(os.path.join(folder, name)) != "missing" for name in LOG_DIRECTORY_FILES)


@contextmanager
def held(fs: Fs, folder: str) -> Iterator[None]:
    """Hold the folder of a partition against brokers and against other writers; StorageError if one of them is there.

    Also if what is made there would be of no use to the broker.
    """
    log_directory = os.path.dirname(folder)
    with ExitStack() as held_locks:
        fs.require_useful(folder)
        if is_log_directory(fs, log_directory):
            fs.require_useful(log_directory)
            held_locks.enter_context(fs.broker_lock(log_directory))
        try:
            held_locks.enter_context(fs.lock(folder))
        except BlockingIOError as error:
            raise StorageError(f"{folder}: another kafkalog is writing here; wait for it") from error
        yield


def like_its_log(fs: Fs, folder: str) -> Fs:
    """`fs`, on which new files of a partition belong to the owner of its folder and have the mode of its newest log."""
    logs = [name for name in fs.list(folder) if name.endswith(".log")] if fs.kind(folder) == "folder" else []
    newest = replaced_ownership(fs, os.path.join(folder, logs[-1])) if logs else None
    return fs if newest is None else OwnedFs(fs, Pattern.of_log(newest, fs.ownership(folder)))


def was_shut_down(fs: Fs, folder: str) -> bool:
    """Whether the broker of this partition was stopped in order."""
    return CleanShutdownFlag(fs, os.path.dirname(folder)).exists


def remove_marker(fs: Fs, folder: str) -> None:
    """Without its marker the next broker trusts nothing, whatever becomes of us."""
    with writing(os.path.join(os.path.dirname(folder), names.CLEAN_SHUTDOWN), "cannot remove"):
        CleanShutdownFlag(fs, os.path.dirname(folder)).delete()


def drop_segments(fs: Fs, folder: str, base_offsets: Iterable[int]) -> None:
    """Take these segments, the last ones of a log, out of it: the newest first, so that no crash leaves a hole."""
    for base_offset in sorted(base_offsets, reverse=True):
        for kind in names.SEGMENT_KINDS:
            path = os.path.join(folder, names.segment_file_name(base_offset, kind))
            if fs.kind(path) == "file":
                with writing(path, "cannot be put away"):
                    fs.rename(path, path + ".deleted")
        sync_names(fs, folder)


class Checkpoints:
    """What the offset checkpoints of a log directory say of one partition."""

    def __init__(self, fs: Fs, log_directory: str, topic: str, partition: int) -> None:
        self.fs = fs
        self.log_directory = log_directory
        self.topic = topic
        self.partition = partition

    def offset(self, name: str) -> int | None:
        """None where nothing is said, or what is there cannot be read."""
        found = [entry.offset for entry in self._entries(name) or () if self._is_ours(entry)]
        return found[0] if found else None

    def set(self, name: str, offset: int) -> None:
        """Say this of the partition, whatever was said before; a file that cannot be read stays as it is."""
        entries = self._entries(name)
        if entries is None or self.offset(name) == offset:
            return
        others = [entry for entry in entries if not self._is_ours(entry)]
        self._write(name, [*others, PartitionOffset(self.topic, self.partition, offset)])

    def _write(self, name: str, entries: Sequence[PartitionOffset]) -> None:
        replace_file(self.fs, os.path.join(self.log_directory, name), [encode_offset_checkpoint(entries)])
        sync_names(self.fs, self.log_directory)

    def forget(self, name: str) -> None:
        """Say nothing of the partition."""
        if self.offset(name) is not None:
            self._write(name, [entry for entry in self._entries(name) or () if not self._is_ours(entry)])

    def lower(self, name: str, offset: int) -> None:
        """Say no more than this."""
        said = self.offset(name)
        if said is not None and said > offset:
            self.set(name, offset)

    def raise_to(self, name: str, offset: int) -> None:
        """Say no less than this, if anything is said."""
        said = self.offset(name)
        if said is not None and said < offset:
            self.set(name, offset)

    def _is_ours(self, entry: PartitionOffset) -> bool:
        return (entry.topic, entry.partition) == (self.topic, self.partition)

    def _entries(self, name: str) -> list[PartitionOffset] | None:
        path = os.path.join(self.log_directory, name)
        if self.fs.kind(path) != "file":
            return []
        content = read_small(self.fs, path)
        try:
            return decode_offset_checkpoint(content) if content else []
        except UnsupportedFormat:
            return None


class NewCheckpoints(Checkpoints):
    """Those of a partition that is not there yet: whatever a run that was interrupted said of it, nothing is known.

    What is said now counts from `keep` on.
    """

    def __init__(self, fs: Fs, log_directory: str, topic: str, partition: int) -> None:
        super().__init__(fs, log_directory, topic, partition)
        self._said: dict[str, int] = {}

    def offset(self, name: str) -> int | None:
        return self._said.get(name)

    def set(self, name: str, offset: int) -> None:
        self._said[name] = offset

    def keep(self) -> None:
        """Write it down, and nothing else of the partition."""
        stored = Checkpoints(self.fs, self.log_directory, self.topic, self.partition)
        for name in names.OFFSET_CHECKPOINTS:
            if (offset := self.offset(name)) is not None:
                stored.set(name, offset)
            else:
                stored.forget(name)


def say_log_start(checkpoints: Checkpoints, partition: Partition) -> None:
    """Say where the log of a partition begins, if its segments alone would say less."""
    start = partition.log_start_offset
    if start is not None and partition.segments and start > partition.segments[0].base_offset and partition.partition >= 0:
        checkpoints.set(names.LOG_START_CHECKPOINT, start)
