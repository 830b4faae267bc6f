"""The bytes that zstd would save, from batches that are recompressed.

A small log is recompressed as a whole. Of a larger one, bytes are drawn at random, each with the same chance, and the batch that
holds a drawn byte is recompressed. A batch is so drawn in proportion to its size, and the mean of `new size / old size` over the
draws is an estimate without bias of what all bytes together would shrink to (Hansen and Hurwitz), with the standard error of any
mean.
"""

from __future__ import annotations

import math
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kafkalog import codecs
from kafkalog.errors import CodecError, Limits, OutputFull, StorageError
from kafkalog.format import batch
from kafkalog.format.entry_table import EntryTable
from kafkalog.log.partition import Partition

from .keys import NORMAL_QUANTILE
from .result import Estimate, ZstdSaving

DRAWS = 200
WHOLE_BYTES = 8 << 20  # a log up to this size is recompressed as a whole
LEAST_DRAWS = 5  # with fewer the interval would be wider than what it is about
SEED = 2  # the same log has the same profile


@dataclass
class _Group:
    """Ratios of new to old size, of one topic or of all."""

    of_bytes: int = 0
    ratios: list[float] = field(default_factory=list)
    batches: int = 0
    saved_bytes: int = 0

    def __iadd__(self, other: _Group) -> _Group:
        self.of_bytes += other.of_bytes
        self.ratios += other.ratios
        self.batches += other.batches
        self.saved_bytes += other.saved_bytes
        return self

    def result(self, *, whole: bool) -> ZstdSaving:
        if whole:
            return ZstdSaving(self.of_bytes, self.batches, Estimate(self.saved_bytes, self.saved_bytes, self.saved_bytes))
        if not self.of_bytes:
            return ZstdSaving(0, 0, Estimate(0, 0, 0))
        if len(self.ratios) < LEAST_DRAWS:
            return ZstdSaving(self.of_bytes, self.batches, None)
        mean = float(np.mean(self.ratios))
        error = student_quantile(len(self.ratios) - 1) * float(np.std(self.ratios, ddof=1)) / math.sqrt(len(self.ratios))
        value, low, high = (round(self.of_bytes * (1 - ratio)) for ratio in (mean, mean + error, mean - error))
        return ZstdSaving(self.of_bytes, self.batches, Estimate(value, low, min(high, self.of_bytes)))


def student_quantile(freedom: int) -> float:
    """Of Student's distribution, what `NORMAL_QUANTILE` is of the normal one; expanded in 1 / freedom, good from 4 on."""
    z = NORMAL_QUANTILE
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + (z**3 + z) / 4 / freedom + second / freedom**2 + third / freedom**3


def _is_eligible(entries: EntryTable) -> NDArray[np.bool_]:
    """Which entries could be zstd, and are not."""
    attributes = entries.attributes
    is_data = (entries.magic == 2) & (attributes & batch.CONTROL == 0) & (entries.record_count > 0)
    eligible: NDArray[np.bool_] = is_data & (attributes & batch.CODEC_MASK != codecs.ZSTD)
    return eligible


class ZstdTrial:
    """Recompresses some batches of partitions as their headers pass."""

    def __init__(
        self, partitions: list[Partition], limits: Limits, *, draws: int = DRAWS, whole_bytes: int = WHOLE_BYTES, seed: int = SEED
    ) -> None:
        self.limits = limits
        self.starts: dict[str, int] = {}
        total = 0
        for partition in partitions:
            for segment in partition.segments:
                self.starts[segment.log.path] = total
                total += segment.log.size
        self.whole = total <= whole_bytes
        self.drawn = np.sort(np.random.default_rng(seed).integers(0, max(total, 1), draws))
        self.total = _Group()
        self.topics: dict[str, _Group] = {}

    def part(self, partitions: list[Partition]) -> ZstdTrial:
        """The same draws for some of the partitions."""
        part = copy(self)
        files = {segment.log.path for partition in partitions for segment in partition.segments}
        part.starts = {file: start for file, start in self.starts.items() if file in files}
        part.total, part.topics = _Group(), {}
        return part

    def merge(self, other: ZstdTrial) -> None:
        """Add what became of other partitions' draws."""
        self.total += other.total
        for topic, group in other.topics.items():
            self.topics.setdefault(topic, _Group()).__iadd__(group)

    def add(self, partition: Partition, file: str, entries: EntryTable) -> None:
        """The next entries."""
        eligible = _is_eligible(entries)
        groups = (self.total, self.topics.setdefault(partition.topic, _Group()))
        for group in groups:
            group.of_bytes += int(entries.size[eligible].sum())
        hits = np.where(eligible, self._hits(file, entries), 0)
        chosen = np.flatnonzero(hits)
        if len(chosen):
            self._recompress(partition, file, entries[chosen], hits[chosen], groups)

    def _hits(self, file: str, entries: EntryTable) -> NDArray[np.int64]:
        """How often each entry was drawn."""
        if self.whole:
            return np.ones(len(entries), np.int64)
        starts = self.starts.get(file, 0) + entries.position
        hits: NDArray[np.int64] = np.searchsorted(self.drawn, starts + entries.size) - np.searchsorted(self.drawn, starts)
        return hits

    def _recompress(
        self, partition: Partition, file: str, entries: EntryTable, hits: NDArray[np.int64], groups: tuple[_Group, ...]
    ) -> None:
        # What was there a moment ago may be gone or, where checksums were not checked, no compressed bytes at all.
        with suppress(StorageError), partition.store.open(file) as source:
            for row, times in enumerate(hits.tolist()):
                header = entries.header(row)
                size = header.size
                payload = source.read(header.position + batch.HEADER_SIZE, size - batch.HEADER_SIZE)
                with suppress(CodecError, OutputFull):
                    new_size = self._new_size(header.attributes & batch.CODEC_MASK, payload)
                    for group in groups:
                        group.batches += 1
                        group.saved_bytes += size - new_size
                        group.ratios += [new_size / size] * times if not self.whole else []

    def _new_size(self, codec: int, payload: bytes) -> int:
        content = codecs.decompressed(codec, payload, limit=self.limits.decompressed_bytes) if codec else payload
        return batch.HEADER_SIZE + len(codecs.compress(codecs.ZSTD, content))

    def result(self) -> tuple[ZstdSaving, dict[str, ZstdSaving]]:
        """Of everything, and by topic."""
        by_topic = {topic: group.result(whole=self.whole) for topic, group in self.topics.items()}
        return self.total.result(whole=self.whole), by_topic
