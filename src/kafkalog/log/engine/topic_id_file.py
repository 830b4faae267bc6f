"""The `partition.metadata` file: which topic, of several of that name one after the other, the folder belongs to."""

from __future__ import annotations

import os

from kafkalog.errors import InconsistentTopicId
from kafkalog.format.checkpoint import PartitionMetadata, decode_partition_metadata, encode_partition_metadata
from kafkalog.format.names import PARTITION_METADATA
from kafkalog.storage.fs import Fs
from kafkalog.storage.publish import replace_file, sync_names


class TopicIdFile:
    """The topic id of a folder. One that the folder has none yet of is written before the first append."""

    def __init__(self, fs: Fs, folder: str, topic_id: str | None) -> None:
        self._fs = fs
        self._path = os.path.join(folder, PARTITION_METADATA)
        self._is_written = fs.kind(self._path) != "missing"
        self.topic_id = topic_id
        if self._is_written:
            stored = decode_partition_metadata(fs.read(self._path, 0, fs.size(self._path))).topic_id
            if topic_id not in (None, stored):
                raise InconsistentTopicId(f"{folder}: belongs to the topic with id {stored}, not {topic_id}")
            self.topic_id = stored

    def flush(self) -> None:
        """Write the topic id, unless it is there or nobody said one."""
        if self._is_written or self.topic_id is None:
            return
        replace_file(self._fs, self._path, [encode_partition_metadata(PartitionMetadata(0, self.topic_id))], self._path + ".tmp")
        sync_names(self._fs, os.path.dirname(self._path))
        self._is_written = True
