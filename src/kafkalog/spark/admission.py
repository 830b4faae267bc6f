"""How much a micro-batch reads: limits by offsets, distributed as in Spark's own Kafka source, and by bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping

from kafkalog.errors import Limits
from kafkalog.log.partition import Partition, Segment
from kafkalog.segment.seek import seek_position
from kafkalog.segment.windows import SegmentWalk
from kafkalog.storage.store import ByteSource

from .options import TopicPartition

Offsets = dict[TopicPartition, int]


def count_offsets(start: Offsets, end: Offsets) -> int:
    return sum(max(stop - start[key], 0) for key, stop in end.items())


def limit_offsets(most: int, start: Offsets, end: Offsets) -> Offsets:
    """`end`, or earlier: each partition gets its share of `most`, and each with new offsets gets at least one."""
    total = count_offsets(start, end)
    limited = dict(end)
    for key, stop in end.items():
        if stop > start[key]:
            share = most * ((stop - start[key]) / total)
            limited[key] = min(stop, start[key] + int(math.ceil(share) if share < 1 else math.floor(share)))
    return limited


def limit_bytes(most: int, partitions: Mapping[TopicPartition, Partition], start: Offsets, end: Offsets) -> Offsets:
    """`end`, or earlier: each partition gets its share of `most` bytes of its files, in whole entries, at least one."""
    starts = {key: _Start(partitions[key], start[key]) for key, stop in end.items() if stop > start[key]}
    total = sum(start_of.bytes for start_of in starts.values())
    limited = dict(end)
    if total > most:
        for key, start_of in starts.items():
            limited[key] = min(end[key], start_of.offset_after(most * start_of.bytes // total))
    return limited


class _Start:
    """The position of an offset in the files of a partition, and how many bytes follow."""

    def __init__(self, partition: Partition, offset: int) -> None:
        self.partition = partition
        self.offset = offset
        self.segments = partition.segments_from(offset)
        with partition.open_log(self.segments[0]) as source:
            self.position = self._position(self.segments[0], source)
        self.bytes = sum(map(_stop, self.segments)) - self.position

    def _position(self, segment: Segment, source: ByteSource) -> int:
        index = segment.siblings.get("index")
        path = index.path if index else None
        position = seek_position(source, self.partition.store, path, segment.base_offset, self.offset, Limits())
        for entries in SegmentWalk(source, position, _stop(segment), Limits()).headers():
            reached = entries.last_offset >= self.offset
            if reached.any():
                return int(entries.position[reached.argmax()])
            position = entries.header(-1).stop
        return position

    def offset_after(self, share: int) -> int:
        """The offset after the entries that fit into `share` bytes, or after the first one."""
        position, reached = self.position, self.offset
        for segment in self.segments:
            stop = min(_stop(segment), position + share)
            with self.partition.open_log(segment) as source:
                reached = max(reached, _last_offset(source, position, stop) + 1)
                if reached == self.offset:
                    reached = max(reached, _first_offset(source, position, _stop(segment)) + 1)
            if stop < _stop(segment) and reached > self.offset:
                return reached
            # All of it, or damage without an offset: up to where the next one starts.
            reached = max(reached, segment.next_base_offset or 0)
            share, position = share - (stop - position), 0
            if share <= 0 and reached > self.offset:
                return reached
        return max(reached, self.offset + 1)


def _stop(segment: Segment) -> int:
    return segment.log.size if segment.stop_position is None else segment.stop_position


def _last_offset(source: ByteSource, position: int, stop: int) -> int:
    last = -1
    for entries in SegmentWalk(source, position, stop, Limits()).headers():
        last = int(entries.last_offset[-1])
    return last


def _first_offset(source: ByteSource, position: int, stop: int) -> int:
    for entries in SegmentWalk(source, position, stop, Limits()).headers():
        return int(entries.last_offset[0])
    return -1
