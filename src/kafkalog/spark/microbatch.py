"""The micro-batches of a stream: where it begins, how far each one goes, what each one reads, and when data was lost.

Offsets have the shape and order of Spark's own Kafka source, `{"orders": {"0": 23}}`: the next offset to be read. Spark compares
their text, so the order counts. A restarted micro-batch comes with the offsets of its first attempt and gives the same rows.
Under a key that no topic can have they carry what tells whether the log still holds what was read: `kafkalog.log.lineage`.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

from kafkalog.errors import Limits, SegmentChanged, StorageError
from kafkalog.format.checkpoint import EpochStart

from .errors import DATA_LOSS, SparkSourceError
from .live_listing import TRIES, TRY_SECONDS, LiveLogs, LivePartition
from .options import SourceOptions, TopicPartition
from .read_plan import check_assigned, choose_partitions, parts_of, starting_offset
from .splits import HIGHEST, Part, Split, divide, target_bytes

LOGGER = logging.getLogger("kafkalog.spark")

LINEAGE: Final = "@lineage"

Offsets = dict[TopicPartition, int]
OffsetsJson = dict[str, dict[str, Any]]


class Origin(NamedTuple):
    """What was read of a partition: its last leader epoch, where that began, and the id of the topic; None where not known."""

    epoch: int | None
    epoch_start_offset: int | None
    topic_id: str | None


UNKNOWN: Final = Origin(None, None, None)
Answer = TypeVar("Answer")
Origins = dict[TopicPartition, Origin]


def to_json(offsets: Mapping[TopicPartition, int], origins: Mapping[TopicPartition, Origin] | None = None) -> OffsetsJson:
    """Topics by name, partitions by number."""
    found = _by_topic(offsets)
    return {**found, LINEAGE: _by_topic({key: list(origin) for key, origin in origins.items()})} if origins else found


def _by_topic(values: Mapping[TopicPartition, Any]) -> OffsetsJson:
    found: OffsetsJson = {}
    for topic, partition in sorted(values):
        found.setdefault(topic, {})[str(partition)] = values[topic, partition]
    return found


def from_json(value: Mapping[str, Mapping[str, Any]]) -> Offsets:
    topics = ((topic, numbers) for topic, numbers in value.items() if topic != LINEAGE)
    return {(topic, int(number)): int(offset) for topic, numbers in topics for number, offset in numbers.items()}


def origins_of_json(value: Mapping[str, Mapping[str, Any]]) -> Origins:
    topics = value.get(LINEAGE, {}).items()
    return {(topic, int(number)): Origin(*origin) for topic, numbers in topics for number, origin in numbers.items()}


class MicroBatches:
    """One stream from its start or restart on. It lives on the driver, in one process."""

    def __init__(self, options: SourceOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self.options = options
        self.clock = clock
        self.logs = LiveLogs(options, clock)
        self._initial: Offsets | None = None
        self._holds_first = False
        self._frozen: Offsets | None = None
        self._last_trigger: float | None = None
        self._told: set[str] = set()
        self._proven: dict[TopicPartition, tuple[int, int]] = {}
        self._topics_checked = False

    def settled(self, answer: Callable[[], Answer]) -> Answer:
        """What is answered from a listing of which no file is gone when it is opened: a broker removes and cleans segments."""
        for left in reversed(range(TRIES)):
            try:
                return answer()
            except (StorageError, SegmentChanged) as error:
                is_passing = isinstance(error, SegmentChanged) or error.errno == errno.ENOENT
                if not left or not is_passing:
                    raise
            time.sleep(TRY_SECONDS)
            self.logs.look(fresh=True)
        raise AssertionError("the last try returns or raises")

    # -- where it begins and ends --------------------------------------------------------------------------------------------

    def initial_offsets(self) -> Offsets:
        """Where a new stream begins. Spark asks more than once, and the answer must stay."""
        if self._initial is None:
            self._check_topics(())
            seen = self.logs.look(fresh=self._frozen is None)
            check_assigned(self.options.starting, seen.keys())
            self._initial = {key: self._start_of(live) for key, live in seen.items()}
        return self._initial

    def _check_topics(self, read_before: Collection[str]) -> None:
        """Refuse a topic that is not there and never was, once; of one that was read before, data is lost."""
        if self._topics_checked:
            return
        wanted = tuple(topic for topic in self.options.subscribe or () if topic not in read_before)
        if wanted:
            choose_partitions(replace(self.options, subscribe=wanted))
        self._topics_checked = True

    def _start_of(self, live: LivePartition) -> int:
        def latest() -> int:
            # Nothing but the end of the first micro-batch is written down. Were it to hold records, one that is repeated
            # after a crash would begin at a later "latest" and miss them; so it holds none.
            self._holds_first = True
            return self._end_of(live)

        if self.options.starting.kind == "default":
            return latest()
        return starting_offset(live.partition, self.options, latest)

    def _end_of(self, live: LivePartition) -> int:
        return live.end_offset if self._frozen is None else self._frozen.get(live.found.key, live.start_offset)

    def freeze(self) -> None:
        """Take what is there now as all that there will be (Trigger.AvailableNow)."""
        self._frozen = {key: live.end_offset for key, live in self.logs.look(fresh=True).items()}

    def available_offsets(self) -> Offsets:
        """The ends of all partitions."""
        return {key: live.end_offset for key, live in self.logs.look().items()}

    # -- how far a micro-batch goes --------------------------------------------------------------------------------------------

    def latest_offsets(self, start: Offsets, *, limited: bool = True) -> Offsets:
        """The end of the micro-batch that begins at `start`: `start` itself where there is nothing new, or not enough."""
        self._check_topics({topic for topic, _ in start})
        if self._holds_first and start == self._initial:
            self._holds_first = False
            return start
        begin, end = self._available(start)
        if limited:
            if self._waits(begin, end):
                return start
            end = self._limited(begin, end)
        self._raise_damage(begin, end)
        return end

    # -- whether the logs still hold what was read -----------------------------------------------------------------------------

    def resumed(self, start: Offsets, origins: Origins) -> Offsets:
        """`start`, or where it was before what a log no longer holds: truncated and written again, or created again."""
        found = {}
        for key, live in self.logs.look().items():
            state = live.tail.restarts, live.partition.segments[-1].base_offset
            if key not in start or key not in origins or live.is_old or self._proven.get(key) == state:
                continue
            offset = self._diverged(live, start[key], origins[key])
            if offset is None:
                self._proven[key] = state
            else:
                found[key] = offset
        return {**start, **found} if found else start

    def _diverged(self, live: LivePartition, read: int, origin: Origin) -> int | None:
        from kafkalog.log.lineage import Lineage, find_divergence  # loads Numba

        partition = live.partition
        if None not in (origin.topic_id, partition.topic_id) and origin.topic_id != partition.topic_id:
            self._lose(f"{partition} was read up to offset {read}, but the topic was deleted and created again since")
            return live.start_offset
        if origin.epoch is None or origin.epoch_start_offset is None or read <= live.start_offset:
            return None
        known = Lineage(read, epochs=(EpochStart(origin.epoch, origin.epoch_start_offset),))
        found = find_divergence(partition, known, max(live.tail.end_offset, read), Limits())
        if found is None or found.offset is None:
            return None
        self._lose(
            f"{partition} was read up to offset {read}, but the log was truncated to {found.offset} and written again since: "
            f"offsets {found.offset} to {read - 1} now are other records"
        )
        return found.offset

    def origins(self, end: Offsets, start: Offsets, known: Origins) -> Origins:
        """What the next micro-batch has to know to see whether the logs still hold all before `end`."""
        seen = self.logs.look()
        found = {key: known[key] for key, offset in end.items() if key in known and start.get(key) == offset}
        found |= {key: self._origin(seen[key], offset) for key, offset in end.items() if key in seen and key not in found}
        return {key: origin for key, origin in found.items() if origin != UNKNOWN}

    def _origin(self, live: LivePartition, offset: int) -> Origin:
        from kafkalog.log.lineage import last_entry_before  # loads Numba

        partition = live.partition
        found = live.tail.epoch_before(offset)
        if found is None and offset > live.start_offset:
            entry = last_entry_before(partition, offset, Limits())
            found = None if entry is None else EpochStart(entry.leader_epoch, entry.base_offset)
        if found is None or found.epoch < 0:
            return Origin(None, None, partition.topic_id)
        starts = [start.start_offset for start in partition.epochs if start.epoch == found.epoch]
        return Origin(found.epoch, min([found.start_offset, *starts]), partition.topic_id)

    # -- what is there -----------------------------------------------------------------------------------------------------------

    def _available(self, start: Offsets) -> tuple[Offsets, Offsets]:
        """`start` with partitions that are new, and all that can be read from there."""
        seen = self.logs.look()
        self._check_frozen(seen)
        begin, end = dict(start), dict(start)
        for key in start.keys() - seen.keys():
            self._lose(f"{_name(key)} is gone, which was read up to offset {start[key]}")
        for key, live in seen.items():
            if key in start and live.is_old:  # whether it still holds what was read is not known: it waits
                continue
            if key in start:
                end[key] = self._end_behind(live, start[key])
            elif self._frozen is None or key in self._frozen:
                begin[key] = self._start_of_added(live)
                end[key] = max(self._end_of(live), begin[key])
        return begin, end

    def _end_behind(self, live: LivePartition, start: int) -> int:
        if live.tail.end_offset < start:
            self._lose(f"{live.partition} was read up to offset {start}, but ends at {live.tail.end_offset} now")
            return live.tail.end_offset
        # Behind a high watermark or an open transaction the stream waits.
        end = max(self._end_of(live), start)
        if start < live.start_offset and start < end:
            self._lose(f"{live.partition} begins at offset {live.start_offset} now, but was read up to {start} only")
        return end

    def _start_of_added(self, live: LivePartition) -> int:
        if live.start_offset > 0:
            self._lose(f"{live.partition} was added and begins at offset {live.start_offset} instead of 0")
        return live.start_offset

    def _check_frozen(self, seen: Mapping[TopicPartition, LivePartition]) -> None:
        gone = sorted((self._frozen or {}).keys() - seen.keys())
        if gone:
            names = ", ".join(map(_name, gone))
            raise SparkSourceError(DATA_LOSS, f"{names} vanished, which Trigger.AvailableNow had promised to read; start again")

    def _waits(self, begin: Offsets, end: Offsets) -> bool:
        """Whether there are fewer offsets than wanted, and time left to wait for more."""
        from .admission import count_offsets  # loads Numba

        admission = self.options.admission
        if admission.min_offsets is None or self._frozen is not None:
            return False
        now = self.clock()
        is_due = self._last_trigger is None or now - self._last_trigger >= admission.max_delay_seconds
        if not is_due and count_offsets(begin, end) < admission.min_offsets:
            return True
        self._last_trigger = now
        return False

    def _limited(self, begin: Offsets, end: Offsets) -> Offsets:
        from .admission import limit_bytes, limit_offsets  # loads Numba

        admission = self.options.admission
        if admission.max_offsets is not None:
            end = limit_offsets(admission.max_offsets, begin, end)
        if admission.max_bytes is not None:
            partitions = {key: live.partition for key, live in self.logs.look().items()}
            readable = {key: max(begin[key], partitions[key].start_offset) for key in end.keys() & partitions.keys()}
            end = end | limit_bytes(admission.max_bytes, partitions, readable, {key: end[key] for key in readable})
        return end

    def _raise_damage(self, begin: Offsets, end: Offsets) -> None:
        """Where damage keeps a partition from going on, say so; what lies before it was given out."""
        for key, live in self.logs.seen.items():
            if live.tail.damage is not None and end.get(key) == begin.get(key):
                raise live.tail.damage

    # -- what it reads -----------------------------------------------------------------------------------------------------------

    def plan(self, start: Offsets, end: Offsets, cores: int | None = None) -> list[Split]:
        """The splits of the micro-batch."""
        seen = self.logs.look()
        if any(key not in seen or seen[key].tail.end_offset < stop for key, stop in end.items()):
            seen = self.logs.look(fresh=True)
        ranges = {key: found for key, stop in end.items() if (found := self._range(key, start, stop, seen.get(key))) is not None}
        # A first micro-batch that is repeated may now begin with partitions that came since; they are the next one's.
        for key in start.keys() - end.keys() if start != self._initial else ():
            self._lose(f"{_name(key)} is gone, which was read up to offset {start[key]}")
        parts = [part for key, found in sorted(ranges.items()) for part in _parts(seen[key], *found, HIGHEST)]
        target = target_bytes(self.options, sum(part.bytes for part in parts), cores or os.cpu_count() or 1)
        if any(part.bytes > target for part in parts):
            parts = [part for key, found in sorted(ranges.items()) for part in _parts(seen[key], *found, target)]
        return divide(parts, target, self.options)

    def _range(self, key: TopicPartition, start: Offsets, stop: int, live: LivePartition | None) -> tuple[int, int] | None:
        """The offsets to read of a partition, where there are any."""
        begin = start.get(key)
        if begin is not None and begin == stop:
            return None
        if live is None:
            self._lose(f"{_name(key)} is gone, of which offsets {begin or 0} to {stop} were to be read")
            return None
        if begin is None:
            begin = self._start_of_added(live)
        if stop < begin:
            # A first micro-batch that is repeated may now begin at a later "latest"; it held nothing.
            if start != self._initial:
                self._lose(f"{live.partition} was read up to offset {begin}, but ended at {stop} then")
            return None
        if begin < live.start_offset:
            self._lose(f"{live.partition} begins at offset {live.start_offset} now, and {begin} to {stop} were to be read")
        if stop > live.tail.end_offset:
            self._lose(f"{live.partition} ends at offset {live.tail.end_offset} now, and {begin} to {stop} were to be read")
        return max(begin, live.start_offset), min(stop, live.tail.end_offset)

    def commit(self, end: Offsets) -> None:
        """Everything below `end` was processed."""
        for key, live in self.logs.seen.items():
            live.tail.forget_before(end.get(key, 0))

    def _lose(self, what: str) -> None:
        """Fail, or with failOnDataLoss=false say it once and go on."""
        if self.options.fail_on_data_loss:
            raise SparkSourceError(DATA_LOSS, f"{what}; with failOnDataLoss=false the stream goes on with what is there")
        if what not in self._told:
            self._told.add(what)
            LOGGER.warning("%s; going on with what is there", what)


def _parts(live: LivePartition, start: int, stop: int, target: int) -> list[Part]:
    return list(parts_of(live.found, start, stop, target, live.tail.committed(start, stop), claim=(start, stop)))


def _name(key: TopicPartition) -> str:
    return f"{key[0]}-{key[1]}"
