"""The micro-batches of a stream: where it starts, how far each one goes, what each one reads, and when data was lost.

Offsets have the shape and order of Spark's own Kafka source, `{"orders": {"0": 23}}`: the next offset to read. Spark compares
their text, so the order matters. A restarted micro-batch comes with the offsets of its first attempt and yields the same rows.
A key that no topic can have carries the lineage, which shows whether the log still holds what was read (`kafkalog.log.lineage`).
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
from kafkalog.format.quantities import plural

from .errors import DATA_LOSS, SparkSourceError
from .live_listing import TRIES, TRY_SECONDS, LiveLogs, LivePartition
from .options import SourceOptions, TopicPartition
from .read_plan import Range, check_assigned, choose_partitions, parts_of, requests_at_once, starting_offset
from .splits import HIGHEST, Split, divide, largest_of, target_bytes

LOGGER = logging.getLogger("kafkalog.spark")

LINEAGE: Final = "@lineage"

Offsets = dict[TopicPartition, int]
OffsetsJson = dict[str, dict[str, Any]]


class Origin(NamedTuple):
    """The origin of what was read: its last leader epoch, where that started, and the topic id; None where unknown."""

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
    """One stream since its start or restart. It lives on the driver, in one process."""

    def __init__(self, options: SourceOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self.options = options
        self.clock = clock
        self.logs = LiveLogs(options, clock)
        self._initial: Offsets | None = None
        self._at_latest: set[TopicPartition] = set()  # of the first micro-batch, until its end is chosen
        self._frozen: Offsets | None = None
        self._last_trigger: float | None = None
        self._reported: set[str] = set()
        self._proven: dict[TopicPartition, tuple[int, int]] = {}
        self._topics_checked = False

    def settled(self, answer: Callable[[], Answer]) -> Answer:
        """The answer from a listing whose files all still exist when they are opened: a broker removes and cleans segments."""
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

    # -- where it starts and ends --------------------------------------------------------------------------------------------

    def initial_offsets(self) -> Offsets:
        """Where a new stream starts. Spark asks more than once, and must get the same answer."""
        if self._initial is None:
            self._check_topics(())
            seen = self.logs.look(fresh=self._frozen is None)
            check_assigned(self.options.starting, seen.keys())
            self._initial = {key: self._start_of(live) for key, live in seen.items()}
        return self._initial

    def _check_topics(self, read_before: Collection[str]) -> None:
        """Refuse, once, a topic that does not exist and was never read; one that was read before is lost data."""
        if self._topics_checked:
            return
        wanted = tuple(topic for topic in self.options.subscribe or () if topic not in read_before)
        if wanted:
            choose_partitions(replace(self.options, subscribe=wanted))
        self._topics_checked = True

    def _start_of(self, live: LivePartition) -> int:
        def latest() -> int:
            # Only the end of the first micro-batch is recorded. If it held records of this partition, its repetition after
            # a crash would start at a later "latest" and miss them; so it holds none.
            self._at_latest.add(live.found.key)
            return self._end_of(live)

        if self.options.starting.kind == "default":
            return latest()
        return starting_offset(live.partition, self.options, latest)

    def _end_of(self, live: LivePartition) -> int:
        return live.end_offset if self._frozen is None else self._frozen.get(live.found.key, live.start_offset)

    def freeze(self) -> None:
        """Stop at what is there now (Trigger.AvailableNow)."""
        self._frozen = {key: live.end_offset for key, live in self.logs.look(fresh=True).items()}

    def available_offsets(self) -> Offsets:
        """The ends of all partitions."""
        return {key: live.end_offset for key, live in self.logs.look().items()}

    # -- how far a micro-batch goes --------------------------------------------------------------------------------------------

    def latest_offsets(self, start: Offsets, *, limited: bool = True, may_be_last: bool = False) -> Offsets:
        """The end of the micro-batch that starts at `start`: `start` itself if there is nothing new, or not enough.

        If Spark may end the query after it (`may_be_last`), damage further on is raised now: otherwise nobody would see it.
        """
        self._check_topics({topic for topic, _ in start})
        held: Collection[TopicPartition] = ()
        if self._at_latest and start == self._initial:
            held, self._at_latest = self._at_latest, set()
            self._say_what_latest_leaves_out(start)
            if not may_be_last:
                return start
        begin, end = self._available(start)
        end.update({key: begin[key] for key in held})
        if limited:
            if self._waits(begin, end):
                return start
            end = self._limited(begin, end)
        self._raise_damage(begin, begin if may_be_last else end)
        return end

    def _say_what_latest_leaves_out(self, start: Offsets) -> None:
        """A new query that shows nothing is most often one that never asked for what is there."""
        seen = self.logs.look()
        passed = sum(max(offset - seen[key].start_offset, 0) for key, offset in start.items() if key in seen)
        kind = self.options.starting.kind
        if passed and kind in ("default", "latest"):
            LOGGER.warning(
                "the kafkalog stream starts at the end of the logs (%s) and shows only what is appended from now on; for the %s "
                'that are there as well: .option("startingOffsets", "earliest") and a new checkpoint',
                "the default of a stream" if kind == "default" else "startingOffsets=latest",
                plural(passed, "offset"),
            )

    # -- whether the logs still hold what was read -----------------------------------------------------------------------------

    def resumed(self, start: Offsets, origins: Origins) -> Offsets:
        """`start`, or earlier where a log no longer holds what was read: it was truncated and rewritten, or recreated."""
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
            self._lose(f"{partition} was read up to offset {read}, but the topic has been deleted and created again")
            return live.start_offset
        if origin.epoch is None or origin.epoch_start_offset is None or read <= live.start_offset:
            return None
        known = Lineage(read, epochs=(EpochStart(origin.epoch, origin.epoch_start_offset),))
        found = find_divergence(partition, known, max(live.tail.end_offset, read), Limits())
        if found is None or found.offset is None:
            return None
        self._lose(
            f"{partition} was read up to offset {read}, but the log has been truncated to {found.offset} and written again: "
            f"offsets {found.offset} to {read - 1} are other records now"
        )
        return found.offset

    def origins(self, end: Offsets, start: Offsets, known: Origins) -> Origins:
        """What the next micro-batch needs to check that the logs still hold everything before `end`."""
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
        """`start` with new partitions added, and the end of what can be read from there."""
        seen = self.logs.look()
        self._check_frozen(seen)
        begin, end = dict(start), dict(start)
        for key in start.keys() - seen.keys():
            self._lose(f"{_name(key)} was read up to offset {start[key]}, but no longer exists")
        for key, live in seen.items():
            if key in start and live.is_old:  # it is not known whether it still holds what was read: it waits
                continue
            if key in start:
                end[key] = self._end_after(live, start[key])
            elif self._frozen is None or key in self._frozen:
                begin[key] = self._start_of_added(live)
                end[key] = max(self._end_of(live), begin[key])
        return begin, end

    def _end_after(self, live: LivePartition, start: int) -> int:
        if live.tail.end_offset < start:
            self._lose(f"{live.partition} was read up to offset {start}, but now ends at {live.tail.end_offset}")
            return live.tail.end_offset
        # Past a high watermark or an open transaction the stream waits.
        end = max(self._end_of(live), start)
        if start < live.start_offset and start < end:
            self._lose(f"{live.partition} now starts at offset {live.start_offset}, but was read only up to {start}")
        return end

    def _start_of_added(self, live: LivePartition) -> int:
        if live.start_offset > 0:
            self._lose(f"{live.partition} was added and starts at offset {live.start_offset} instead of 0")
        return live.start_offset

    def _check_frozen(self, seen: Mapping[TopicPartition, LivePartition]) -> None:
        gone = sorted((self._frozen or {}).keys() - seen.keys())
        if gone:
            names = ", ".join(map(_name, gone))
            raise SparkSourceError(DATA_LOSS, f"{names} no longer exists, but Trigger.AvailableNow has to read it; start again")

    def _waits(self, begin: Offsets, end: Offsets) -> bool:
        """Whether there are fewer offsets than `minOffsetsPerTrigger`, and time to wait for more."""
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
        """Raise the damage that stops a partition of which nothing more is read before it."""
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
        # A repeated first micro-batch may now start with partitions that came since; they belong to the next one.
        for key in start.keys() - end.keys() if start != self._initial else ():
            self._lose(f"{_name(key)} was read up to offset {start[key]}, but no longer exists")
        wanted = [_range(seen[key], *found) for key, found in sorted(ranges.items())]
        at_once = requests_at_once(each.found for each in wanted)
        parts = list(parts_of(wanted, HIGHEST, at_once))
        target = target_bytes(self.options, sum(part.bytes for part in parts), cores or os.cpu_count() or 1)
        if any(largest_of(part.slices) > target for part in parts):
            return divide(parts_of(wanted, target, at_once), target, self.options)
        return divide(parts, target, self.options)

    def _range(self, key: TopicPartition, start: Offsets, stop: int, live: LivePartition | None) -> tuple[int, int] | None:
        """The offsets to read from a partition; None if there are none."""
        begin = start.get(key)
        if begin is not None and begin == stop:
            return None
        if live is None:
            self._lose(f"{_name(key)} no longer exists, but offsets {begin or 0} to {stop} were to be read")
            return None
        if begin is None:
            begin = self._start_of_added(live)
        if stop < begin:
            # A repeated first micro-batch may now start at a later "latest"; it held nothing.
            if start != self._initial:
                self._lose(f"{live.partition} was read up to offset {begin}, but then ended at {stop}")
            return None
        if begin < live.start_offset:
            self._lose(f"{live.partition} now starts at offset {live.start_offset}, but {begin} to {stop} were to be read")
        if stop > live.tail.end_offset:
            self._lose(f"{live.partition} now ends at offset {live.tail.end_offset}, but {begin} to {stop} were to be read")
        return max(begin, live.start_offset), min(stop, live.tail.end_offset)

    def commit(self, end: Offsets) -> None:
        """Everything below `end` was processed."""
        for key, live in self.logs.seen.items():
            live.tail.forget_before(end.get(key, 0))

    def _lose(self, what: str) -> None:
        """Fail, or with failOnDataLoss=false report it once and continue."""
        if self.options.fail_on_data_loss:
            raise SparkSourceError(DATA_LOSS, f"{what}; with failOnDataLoss=false the stream continues with what is there")
        if what not in self._reported:
            self._reported.add(what)
            LOGGER.warning("%s; continuing with what is there", what)


def _range(live: LivePartition, start: int, stop: int) -> Range:
    return Range(live.found, start, stop, live.tail.committed(start, stop), claim=(start, stop))


def _name(key: TopicPartition) -> str:
    return f"{key[0]}-{key[1]}"
