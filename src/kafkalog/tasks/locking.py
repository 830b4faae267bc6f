"""A partition changed in place: brokers are locked out, the clean-shutdown marker is removed first, checkpoints stay correct."""

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
    """Lock the folder of a partition against brokers and other writers; StorageError if one of them holds it.

    Also if the broker could not use the files that are made there.
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
    """Whether the broker of this partition was shut down cleanly."""
    return CleanShutdownFlag(fs, os.path.dirname(folder)).exists


def remove_marker(fs: Fs, folder: str) -> None:
    """Remove the clean-shutdown marker: without it the next broker checks everything, whatever happens to this process."""
    with writing(os.path.join(os.path.dirname(folder), names.CLEAN_SHUTDOWN), "cannot remove"):
        CleanShutdownFlag(fs, os.path.dirname(folder)).delete()


def drop_segments(fs: Fs, folder: str, base_offsets: Iterable[int]) -> None:
    """Remove these segments, the last ones of a log: the newest first, so that no crash leaves a hole."""
    for base_offset in sorted(base_offsets, reverse=True):
        for kind in names.SEGMENT_KINDS:
            path = os.path.join(folder, names.segment_file_name(base_offset, kind))
            if fs.kind(path) == "file":
                with writing(path, "cannot be renamed"):
                    fs.rename(path, path + ".deleted")
        sync_names(fs, folder)


class Checkpoints:
    """The entries of one partition in the offset checkpoints of a log directory."""

    def __init__(self, fs: Fs, log_directory: str, topic: str, partition: int) -> None:
        self.fs = fs
        self.log_directory = log_directory
        self.topic = topic
        self.partition = partition

    def offset(self, name: str) -> int | None:
        """None where there is no entry, or the file cannot be read."""
        found = [entry.offset for entry in self._entries(name) or () if self._is_ours(entry)]
        return found[0] if found else None

    def set(self, name: str, offset: int) -> None:
        """Set the entry, whatever it was; a file that cannot be read stays as it is."""
        entries = self._entries(name)
        if entries is None or self.offset(name) == offset:
            return
        others = [entry for entry in entries if not self._is_ours(entry)]
        self._write(name, [*others, PartitionOffset(self.topic, self.partition, offset)])

    def _write(self, name: str, entries: Sequence[PartitionOffset]) -> None:
        replace_file(self.fs, os.path.join(self.log_directory, name), [encode_offset_checkpoint(entries)])
        sync_names(self.fs, self.log_directory)

    def forget(self, name: str) -> None:
        """Remove the entry."""
        if self.offset(name) is not None:
            self._write(name, [entry for entry in self._entries(name) or () if not self._is_ours(entry)])

    def lower(self, name: str, offset: int) -> None:
        """Lower the entry to this offset, if it is above."""
        stored = self.offset(name)
        if stored is not None and stored > offset:
            self.set(name, offset)

    def raise_to(self, name: str, offset: int) -> None:
        """Raise the entry to this offset, if there is one and it is below."""
        stored = self.offset(name)
        if stored is not None and stored < offset:
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
    """The entries of a partition that does not exist yet: those of an interrupted run are ignored.

    `keep` writes them.
    """

    def __init__(self, fs: Fs, log_directory: str, topic: str, partition: int) -> None:
        super().__init__(fs, log_directory, topic, partition)
        self._offsets: dict[str, int] = {}

    def offset(self, name: str) -> int | None:
        return self._offsets.get(name)

    def set(self, name: str, offset: int) -> None:
        self._offsets[name] = offset

    def keep(self) -> None:
        """Write the entries, and remove all others of the partition."""
        stored = Checkpoints(self.fs, self.log_directory, self.topic, self.partition)
        for name in names.OFFSET_CHECKPOINTS:
            if (offset := self.offset(name)) is not None:
                stored.set(name, offset)
            else:
                stored.forget(name)


def set_log_start(checkpoints: Checkpoints, partition: Partition) -> None:
    """Set where the log of a partition begins, if its segments alone begin earlier."""
    start = partition.log_start_offset
    if start is not None and partition.segments and start > partition.segments[0].base_offset and partition.partition >= 0:
        checkpoints.set(names.LOG_START_CHECKPOINT, start)
