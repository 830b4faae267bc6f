"""Small files that are replaced as a whole: checkpoints, the clean shutdown file, and the topic id of a partition."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress

from kafkalog.errors import (
    InconsistentTopicId,
    InvalidArgument,
    InvalidNumber,
    LogRefusal,
    LogStorageFailure,
    NotANumber,
    UnsupportedFormat,
)
from kafkalog.format.checkpoint import (
    PartitionMetadata,
    PartitionOffset,
    decode_clean_shutdown,
    decode_offset_checkpoint,
    decode_partition_metadata,
    encode_offset_checkpoint,
    encode_partition_metadata,
)
from kafkalog.format.names import CLEAN_SHUTDOWN, PARTITION_METADATA
from kafkalog.storage.fs import Fs, read_small
from kafkalog.storage.publish import replace_file, sync_names

TEMPORARY_SUFFIX = ".tmp"  # Kafka's name for the file while it is written; a broker ignores a leftover one

_METADATA_LINES = re.compile(r"[^\n]*:\s+\+?\d+\r?\n[^\n]*:\s+[^\n]")
_ZERO_TOPIC_ID = "A" * 22


class CheckpointFile:
    """The file at `path`, created empty if it does not exist."""

    def __init__(self, fs: Fs, path: str) -> None:
        self.fs = fs
        self.path = path
        if fs.kind(path) == "missing":
            fs.create(path).close()

    def read(self) -> bytes:
        return read_small(self.fs, self.path)

    def write(self, data: bytes) -> None:
        """Replace the content by `data`, durably."""
        _replace(self.fs, self.path, data)


def _replace(fs: Fs, path: str, data: bytes) -> None:
    replace_file(fs, path, [data], path + TEMPORARY_SUFFIX)
    sync_names(fs, os.path.dirname(path))


def unreadable(file: CheckpointFile, meaning: str, error: UnsupportedFormat | OSError) -> LogRefusal:
    """The error for a file that cannot be read: as in Kafka a storage failure, unless a line has a word instead of a number."""
    kind = InvalidNumber if isinstance(error, NotANumber) else LogStorageFailure
    return kind(f"{file.path}: cannot be read as {meaning}: {error}")


class OffsetCheckpoint:
    """Offsets of partitions; the file is created empty if it does not exist."""

    def __init__(self, fs: Fs, path: str) -> None:
        self._file = CheckpointFile(fs, path)

    def read(self) -> dict[tuple[str, int], int]:
        """The offsets by topic and partition; LogRefusal if the file cannot be read."""
        try:
            entries = decode_offset_checkpoint(self._file.read())
        except (UnsupportedFormat, OSError) as error:
            raise unreadable(self._file, "an offset checkpoint", error) from error
        return {(entry.topic, entry.partition): entry.offset for entry in entries}

    def write(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Replace the content by these offsets, durably."""
        entries = [PartitionOffset(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        try:
            self._file.write(encode_offset_checkpoint(entries))
        except OSError as error:
            raise LogStorageFailure(f"{self._file.path}: cannot be written: {error}") from error


class CleanShutdownFlag:
    """`.kafka_cleanshutdown`: while it exists, everything before the recovery points is durable and complete."""

    def __init__(self, fs: Fs, log_directory: str) -> None:
        self._fs = fs
        self._folder = log_directory
        self._path = os.path.join(log_directory, CLEAN_SHUTDOWN)

    @property
    def exists(self) -> bool:
        return self._fs.kind(self._path) == "file"

    @property
    def broker_epoch(self) -> int:
        """The epoch of the broker that stopped; -1 if unknown."""
        if not self.exists:
            return -1
        try:
            return decode_clean_shutdown(read_small(self._fs, self._path)).broker_epoch
        except UnsupportedFormat:
            return -1

    def delete(self) -> None:
        """Delete it, durably: what is written from now on must be recovered after a crash."""
        with suppress(FileNotFoundError):
            self._fs.remove(self._path)
            self._fs.sync_folder(self._folder)

    def write(self, broker_epoch: int = -1) -> None:
        file = CheckpointFile(self._fs, self._path)
        file.write(b'{"version":0,"brokerEpoch":%d}' % broker_epoch)


class TopicIdFile:
    """`partition.metadata`: the id of the topic that the folder belongs to, of several of that name over time.

    An id that is not stored yet is written before the first append.
    """

    def __init__(self, fs: Fs, folder: str, topic_id: str | None) -> None:
        self._fs = fs
        self._path = os.path.join(folder, PARTITION_METADATA)
        self._is_written = fs.kind(self._path) != "missing"
        self.topic_id = topic_id
        if self._is_written:
            stored = self._read()
            if topic_id not in (None, stored):
                raise InconsistentTopicId(f"{folder}: belongs to topic id {stored}, not {topic_id}")
            self.topic_id = stored

    def _read(self) -> str:
        data = read_small(self._fs, self._path)
        try:
            return decode_partition_metadata(data).topic_id
        except UnsupportedFormat as error:
            # Kafka distinguishes well-formed lines with an invalid topic id from malformed lines.
            text = data.decode(errors="ignore")
            is_id_wrong = text.encode() == data and _METADATA_LINES.match(text) and _ZERO_TOPIC_ID not in text
            kind = InvalidArgument if is_id_wrong else LogStorageFailure
            raise kind(f"{self._path}: cannot be read as partition metadata: {error}") from error

    def flush(self) -> None:
        """Write the topic id, unless it is stored already or unknown."""
        if self._is_written or self.topic_id is None:
            return
        _replace(self._fs, self._path, encode_partition_metadata(PartitionMetadata(0, self.topic_id)))
        self._is_written = True
