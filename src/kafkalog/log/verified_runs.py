"""The intact entries of a damaged segment that cannot be bytes inside a value (T-24).

Anyone may send a value that holds whole batches with correct checksums and plausible offsets. If the header of the batch around
it is damaged, the search for what follows finds them. So entries after damage count only if something vouches for their place:
the lengths of the damaged entries before them lead there, the lengths after them lead on to the next intact entry or the end, or
they extend further than one batch can be long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kafkalog.errors import CorruptBatch, Limits, StorageError
from kafkalog.format.batch import MAX_MAGIC
from kafkalog.format.entry_front import FRONT_SIZE, peek_front
from kafkalog.format.entry_table import EntryTable
from kafkalog.format.message import MIN_MESSAGE_SIZE
from kafkalog.storage.store import ByteSource

from .batches import BatchHeaders, read_batches
from .partition import Partition, Segment
from .reading import ReadOptions
from .report import ReadReport

DEFAULT_MAX_MESSAGE_BYTES = 1_048_588  # Kafka's max.message.bytes


@dataclass(frozen=True)
class Run:
    """Consecutive entries of one file; `bases` are their first offsets, where known."""

    file: str
    entries: EntryTable
    bases: NDArray[np.int64]
    verified: bool = True

    @property
    def start(self) -> int:
        return int(self.entries.position[0])

    @property
    def stop(self) -> int:
        return self.entries.header(-1).stop

    def cut_at(self, cuts: NDArray[np.bool_]) -> Iterator[Run]:
        """Its parts; a cut is between an entry and the next one."""
        edges = [0, *(np.flatnonzero(cuts) + 1).tolist(), len(self.entries)]
        for start, stop in pairwise(edges):
            yield replace(self, entries=self.entries[start:stop], bases=self.bases[start:stop])


class VerifiedSegment:
    """The runs of intact entries of one segment; those that nothing vouches for are dropped, or marked if `unverified`."""

    def __init__(self, partition: Partition, segment: Segment, limits: Limits, report: ReadReport, *, unverified: bool) -> None:
        self.partition = replace(partition, segments=(segment,))
        self.segment = segment
        self.limits = limits
        self.report = report
        self.unverified = unverified
        self.longest = DEFAULT_MAX_MESSAGE_BYTES
        self.held: list[Run] = []
        self.damage: int | None = None  # where the last accepted entries end, if other bytes follow

    def runs(self) -> Iterator[Run]:
        stop = self.segment.start_position
        for headers in self._entries():
            for run in _contiguous(headers):
                self.longest = max(self.longest, int(run.entries.size.max()))
                if run.start != stop:
                    yield from self._decide(stop, run.start)
                    self.damage = stop if self.damage is None else self.damage
                    self.held.append(run)
                    if self._chains(self.damage, run.start):
                        yield from self._release()
                elif self.held:
                    self.held.append(run)
                else:
                    yield run
                stop = run.stop
                if self.damage is not None and stop - self.damage > self.longest:
                    yield from self._release()
        yield from self._decide(stop, None)

    def _entries(self) -> Iterator[BatchHeaders]:
        columns = frozenset({"crc_valid", "base_offset"})
        options = ReadOptions(columns, on_damage="salvage", skip_io_errors=True, limits=self.limits)
        return read_batches([self.partition], options, self.report)

    def _decide(self, stop: int, following: int | None) -> Iterator[Run]:
        """Accept held runs that end at `stop` if lengths lead from there to the following intact entry, or to the end."""
        if not self.held:
            return
        if self._chains(stop, following):
            yield from self._release()
        elif self.unverified:
            self.held = [replace(run, verified=False) for run in self.held]
            yield from self._release()
        else:
            for run in self.held:
                self._drop(run)
            self.held = []

    def _release(self) -> Iterator[Run]:
        yield from self.held
        self.held = []
        self.damage = None

    def _chains(self, start: int, stop: int | None) -> bool:
        """Whether the lengths of entries, intact or not, lead from one position to the other; None: to the end of the data."""
        try:
            with self.partition.open_log(self.segment) as source:
                end = self.segment.stop_in(source)
                return _follow_lengths(source, start, end if stop is None else stop, at_end=stop is None)
        except StorageError:  # an unreadable length leads nowhere
            return False

    def _drop(self, run: Run) -> None:
        self.report.kept_batches -= len(run.entries)
        self.report.kept_bytes -= run.stop - run.start
        self.report.drop(
            CorruptBatch(
                "unverified",
                file=run.file,
                position=run.start,
                length=run.stop - run.start,
                base_offset=int(run.bases[0]),
                last_offset=int(run.entries.last_offset[-1]),
            )
        )


def _contiguous(headers: BatchHeaders) -> Iterator[Run]:
    entries = headers.entries
    bases = np.where(headers.base_offsets < 0, entries.last_offset, headers.base_offsets)
    return Run(headers.file, entries, bases).cut_at(entries.position[1:] != entries.stop[:-1])


def _follow_lengths(source: ByteSource, position: int, stop: int, *, at_end: bool) -> bool:
    """Whether lengths lead from `position` to `stop`. At the end of the data, a cut entry and zeros count as the end."""
    while position < stop:
        data = source.read(position, FRONT_SIZE)
        front = peek_front(data)
        if at_end and not any(data):
            return True
        if front is None or front.length < MIN_MESSAGE_SIZE or front.magic > MAX_MAGIC:
            return at_end and front is None
        position += front.size
    return position == stop or at_end
