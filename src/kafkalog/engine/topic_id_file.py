"""The `partition.metadata` file: which topic, of several of that name one after the other, the folder belongs to."""

from __future__ import annotations

import os
import re

from kafkalog.errors import InconsistentTopicId, InvalidArgument, LogStorageFailure, UnsupportedFormat
from kafkalog.format.checkpoint import PartitionMetadata, decode_partition_metadata, encode_partition_metadata
from kafkalog.format.names import PARTITION_METADATA
from kafkalog.storage.fs import Fs, read_small
from kafkalog.storage.publish import replace_file, sync_names

_LINES = re.compile(r"[^\n]*:\s+\+?\d+\r?\n[^\n]*:\s+[^\n]")
_ZERO_ID = "A" * 22


class TopicIdFile:
    """The topic id of a folder. One that the folder has none yet of is written before the first append."""

    def __init__(self, fs: Fs, folder: str, topic_id: str | None) -> None:
        self._fs = fs
        self._path = os.path.join(folder, PARTITION_METADATA)
        self._is_written = fs.kind(self._path) != "missing"
        self.topic_id = topic_id
        if self._is_written:
            stored = self._read()
            if topic_id not in (None, stored):
                raise InconsistentTopicId(f"{folder}: belongs to the topic with id {stored}, not {topic_id}")
            self.topic_id = stored

    def _read(self) -> str:
        data = read_small(self._fs, self._path)
        try:
            return decode_partition_metadata(data).topic_id
        except UnsupportedFormat as error:
            # Lines that are in order, with a topic id that is none, are another matter to Kafka than lines that are not.
            text = data.decode(errors="ignore")
            is_id_wrong = text.encode() == data and _LINES.match(text) and _ZERO_ID not in text
            kind = InvalidArgument if is_id_wrong else LogStorageFailure
            raise kind(f"{self._path}: cannot be read as partition metadata: {error}") from error

    def flush(self) -> None:
        """Write the topic id, unless it is there or nobody said one."""
        if self._is_written or self.topic_id is None:
            return
        replace_file(self._fs, self._path, [encode_partition_metadata(PartitionMetadata(0, self.topic_id))], self._path + ".tmp")
        sync_names(self._fs, os.path.dirname(self._path))
        self._is_written = True
