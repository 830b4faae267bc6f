"""The partition log: one folder of segments, written and maintained by Kafka's rules.

Given the same calls and the same clock it leaves the same files as Kafka's own engine, byte for byte. Only one thread at a time
may use it. Deferred work (flushing, deleting files, expiring producers) waits in its schedule until `run_due_tasks` is called.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kafkalog.errors import InvalidArgument, OffsetOutOfRange, PolicyViolation, UsageError
from kafkalog.format.control import EndTxnMarker
from kafkalog.format.names import LEADER_EPOCH_CHECKPOINT, parse_folder_name
from kafkalog.format.quantities import offsets_text, plural, size_text
from kafkalog.log.partition import shown
from kafkalog.storage.failures import writing
from kafkalog.storage.fs import Buffer, Fs, LocalFs
from kafkalog.storage.publish import make_folders

from .appending import AppendRequest, AppendResult, append, start_verification
from .building import end_transaction_marker
from .checkpoints import CheckpointFile, TopicIdFile
from .config import LogConfig
from .fetching import FetchResult, Isolation, fetch, find_offset_by_time
from .file_records import TimestampAndOffset
from .leader_epochs import UNDEFINED_OFFSET, LeaderEpochs
from .loading import LoadedOffsets, LogLoader, delete_snapshots, rebuild_producers
from .local_log import LocalLog
from .log_segment import LogSegment
from .log_segments import LogSegments
from .offsets import AppendOrigin, OffsetMetadata
from .producer_state import TRANSACTION_VERSION_UNKNOWN, VerificationGuard
from .producers import ProducerSettings, ProducerStates
from .retention import delete_old_segments
from .schedule import Clock, Schedule, SystemClock, Task, TaskFailure
from .segment_files import SegmentFiles, StorageGuard
from .transaction_index import AbortedTransaction
from .watermarks import Watermarks

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_BYTES = 16_384  # a producer's batch.size
EXPIRATION_CHECK_MS = 10 * 60 * 1000


def _ignore_truncation() -> None:
    pass


class PartitionLog:
    """An open log; create one with `open`."""

    def __init__(
        self,
        files: SegmentFiles,
        producers: ProducerStates,
        leader_epochs: LeaderEpochs,
        loaded: LoadedOffsets,
        topic: str,
        partition: int,
        topic_id: str | None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.files = files
        self.producers = producers
        self.leader_epochs = leader_epochs
        self.local_log = LocalLog(files, loaded.recovery_point, loaded.log_end)
        self.watermarks = Watermarks(self.local_log, producers, leader_epochs, loaded.log_start_offset)
        self.topic_id_file = TopicIdFile(files.fs, files.folder, topic_id)
        # Truncation moves the recovery point back: its checkpoint must be written before anything is appended, or after a crash
        # new entries below the old recovery point would not be recovered.
        self.on_truncated: Callable[[], None] = _ignore_truncation
        self.flushes_at_close = False  # as a broker does at shutdown; Kafka's log leaves it to its caller
        self._expiration: Task | None = None
        self._was_closed = False

    @classmethod
    def open(
        cls,
        folder: str,
        config: LogConfig | None = None,
        *,
        clock: Clock | None = None,
        schedule: Schedule | None = None,
        fs: Fs | None = None,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        clean: bool = False,
        topic: str | None = None,
        partition: int | None = None,
        topic_id: str | None = None,
        transaction_verification: bool = True,
        producer_id_expiration_ms: int = ProducerSettings.producer_id_expiration_ms,
        expiration_check_interval_ms: int = EXPIRATION_CHECK_MS,
        max_transaction_timeout_ms: int = ProducerSettings.max_transaction_timeout_ms,
    ) -> Self:
        """Load the log in `folder`, or create one there.

        `log_start_offset`, `recovery_point` and `clean` come from the log directory's checkpoints and its clean shutdown file
        (`log_directory`); without them everything is recovered. Topic and partition default to those of the folder's name.
        """
        folder = folder.rstrip("/")
        if topic is None or partition is None:
            name = parse_folder_name(os.path.basename(folder))
            if name is None:
                raise UsageError(f"{folder}: a partition folder must be named <topic>-<partition>")
            topic, partition = name.topic, name.partition
        fs = fs or LocalFs()
        clock = clock or SystemClock()
        files = SegmentFiles(folder, config or LogConfig(), fs=fs, clock=clock, schedule=schedule or Schedule(clock))
        settings = ProducerSettings(producer_id_expiration_ms, transaction_verification, max_transaction_timeout_ms)
        with writing(folder, "cannot open the log"):
            make_folders(fs, folder)
            try:
                checkpoint = CheckpointFile(fs, os.path.join(folder, LEADER_EPOCH_CHECKPOINT))
                leader_epochs = LeaderEpochs(checkpoint, files.schedule, f"{topic}-{partition}")
                producers = ProducerStates(fs, folder, clock, settings)
                loaded = LogLoader(
                    files, producers, leader_epochs, log_start_offset=log_start_offset, recovery_point=recovery_point, clean=clean
                ).load()
                log = cls(files, producers, leader_epochs, loaded, topic, partition, topic_id)
            except BaseException:
                files.segments.close_handlers()
                raise
        log.expire_producers_every(expiration_check_interval_ms)
        return log

    def __repr__(self) -> str:
        if not hasattr(self, "watermarks"):  # opening it failed
            return "PartitionLog(not open)"
        parts = [offsets_text(self.log_start_offset, self.log_end_offset), f"high watermark {self.high_watermark}"]
        parts += [plural(len(self.segments), "segment"), size_text(self.size), *(["closed"] if self.local_log.is_closed else [])]
        return f"PartitionLog({shown(f'{self.topic}-{self.partition}')}, {', '.join(parts)}, {shown(self.folder)})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self.local_log.is_closed:
            return
        if kind is None:
            self.run_due_tasks()
            with self.guard.doing("creating index files"):
                self.active_segment.make_index_files()  # a broker expects them after a clean shutdown
            self.close()
        else:
            self.close_handlers()

    def expire_producers_every(self, interval_ms: int) -> None:
        """Schedule the periodic expiry of producers, and the write of the topic id."""
        schedule = self.files.schedule
        self._expiration = schedule.submit(
            "PeriodicProducerExpirationCheck",
            lambda: self.producers.remove_expired_producers(self.clock.now_ms()),
            interval_ms,
            interval_ms,
        )
        schedule.submit("flush-metadata-file", self.topic_id_file.flush)

    # state

    @property
    def folder(self) -> str:
        return self.files.folder

    @property
    def config(self) -> LogConfig:
        return self.files.config

    @property
    def fs(self) -> Fs:
        return self.files.fs

    @property
    def clock(self) -> Clock:
        return self.files.clock

    @property
    def schedule(self) -> Schedule:
        return self.files.schedule

    @property
    def guard(self) -> StorageGuard:
        return self.files.guard

    @property
    def topic_id(self) -> str | None:
        return self.topic_id_file.topic_id

    @property
    def segments(self) -> LogSegments:
        return self.files.segments

    @property
    def active_segment(self) -> LogSegment:
        return self.files.segments.active

    @property
    def size(self) -> int:
        return self.files.segments.size

    @property
    def log_start_offset(self) -> int:
        return self.watermarks.log_start_offset

    @property
    def local_log_start_offset(self) -> int:
        return self.watermarks.local_log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.local_log.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self.watermarks.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self.watermarks.last_stable_offset

    @property
    def first_unstable_offset(self) -> int | None:
        return self.watermarks.first_unstable_offset

    @property
    def recovery_point(self) -> int:
        """Everything before it is durable."""
        return self.local_log.recovery_point

    # appending

    def append(
        self,
        data: Buffer,
        *,
        leader_epoch: int | None = None,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        verification: VerificationGuard | None = None,
        transaction_version: int = TRANSACTION_VERSION_UNKNOWN,
    ) -> AppendResult:
        """Append entries as the leader, by default in the latest epoch. LogRefusal if they break a rule.

        A batch of a transaction that is not open yet needs the `verification` that `start_verification` returned.
        """
        epoch = self.latest_epoch if leader_epoch is None else leader_epoch
        return append(self, data, AppendRequest(origin, epoch or 0, verification, transaction_version))

    def append_records(
        self,
        table: pa.Table | pa.RecordBatch,
        *,
        codec: str = "none",
        level: int | None = None,
        batch_bytes: int = BATCH_BYTES,
        leader_epoch: int | None = None,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
    ) -> AppendResult:
        """Append the rows of a table with columns of `records`, in batches as a producer would make them.

        The log assigns the offsets. The topic's compression.type, unless it is `producer`, overrides `codec`.
        """
        from kafkalog.segment.encode import Producer

        from .append_tables import append_table

        epoch = self.latest_epoch if leader_epoch is None else leader_epoch
        producer = Producer(producer_id, producer_epoch, base_sequence, is_transactional)
        return append_table(self, table, codec, level, batch_bytes, epoch or 0, producer)

    def append_as_follower(self, data: Buffer, leader_epoch: int) -> AppendResult:
        """Append entries as the leader of `leader_epoch` stored them; entries of a newer epoch are left out."""
        return append(self, data, AppendRequest(AppendOrigin.REPLICATION, leader_epoch, None, TRANSACTION_VERSION_UNKNOWN))

    def end_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        *,
        coordinator_epoch: int = 0,
        transaction_version: int = 1,
        leader_epoch: int | None = None,
    ) -> AppendResult:
        """Append the marker that ends a producer's transaction, as its coordinator does."""
        end = EndTxnMarker(commit, coordinator_epoch)
        marker = end_transaction_marker(producer_id, producer_epoch, end, timestamp=self.clock.now_ms())
        origin = AppendOrigin.COORDINATOR
        return self.append(marker, leader_epoch=leader_epoch, origin=origin, transaction_version=transaction_version)

    def start_verification(
        self, producer_id: int, sequence: int, producer_epoch: int, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """A guard for the producer's next batch; None if none is needed."""
        return start_verification(self.producers, producer_id, sequence, producer_epoch, supports_epoch_bump)

    def assign_epoch_start_offset(self, leader_epoch: int, start_offset: int) -> None:
        """Start a leader epoch; a new leader does so at the log end offset."""
        self.leader_epochs.assign(leader_epoch, start_offset)

    @property
    def latest_epoch(self) -> int | None:
        return self.leader_epochs.latest_epoch

    def epoch_end(self, leader_epoch: int) -> tuple[int, int] | None:
        """The greatest epoch up to this one and the offset where it ends; None if unknown."""
        epoch, offset = self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)
        return None if offset == UNDEFINED_OFFSET else (epoch, offset)

    def roll(self, expected_next_offset: int = 0) -> LogSegment:
        """Start a new segment at the log end offset, or at `expected_next_offset` if that is higher."""
        segment = self.local_log.roll(expected_next_offset)
        with self.guard.doing("taking a snapshot of the producers"):
            self.producers.map_end_offset = segment.base_offset
            snapshot = self.producers.take_snapshot(sync=False)
            self.watermarks.follow_log_end()

        def flush() -> None:
            if snapshot is not None:
                self._sync_snapshot(snapshot)
            self._flush(segment.base_offset, segment.base_offset)

        self.files.schedule.submit("flush-log", flush)
        return segment

    def _sync_snapshot(self, path: str) -> None:
        with self.guard.doing("flushing a producer snapshot"):
            if self.fs.kind(path) == "file":
                file = self.fs.open(path)
                try:
                    file.sync()
                finally:
                    file.close()

    def flush(self, force: bool = False) -> None:
        """Make everything that was appended durable; `force` includes an empty active segment."""
        end = self.log_end_offset
        self._flush(end + 1 if force else end, end)

    def _flush(self, stop: int, recovery_point: int) -> None:
        with self.guard.doing("flushing"):
            if stop > self.recovery_point:
                self.local_log.flush(stop)
                self.local_log.mark_flushed(recovery_point)

    # retention and truncation

    def delete_old_segments(self) -> int:
        """Apply the retention settings; how many segments were deleted."""
        return delete_old_segments(self)

    def delete_records(self, offset: int) -> bool:
        """Raise the log start offset to `offset` (-1: the high watermark); whether it moved. `delete_old_segments` frees it."""
        if self.config.compact and not self.config.delete:
            raise PolicyViolation(f"{self.folder}: records of a topic with cleanup.policy=compact cannot be deleted")
        if offset == -1:
            offset = self.high_watermark
        if offset < 0:
            raise OffsetOutOfRange(f"{self.folder}: offset {offset} does not exist")
        return self.watermarks.increment_log_start_offset(offset)

    def truncate_to(self, offset: int) -> bool:
        """Cut off the entry that holds `offset` and everything after it, as a follower does whose leader wrote something else.

        Whether there was anything to cut off.
        """
        with self.guard.doing("truncating the log"):
            if offset < 0:
                raise InvalidArgument(f"{self.folder}: cannot truncate the log to offset {offset}")
            if offset >= self.log_end_offset:
                self.leader_epochs.truncate_from_end(self.log_end_offset)
                return False
            self.local_log.check_open()
            first = self.segments.first
            assert first is not None
            if first.base_offset > offset:
                self.truncate_fully(offset)
                return True
            self.delete_snapshots(self.local_log.truncate_to(offset))
            self.leader_epochs.truncate_from_end(offset)
            self.watermarks.log_start_offset = min(offset, self.log_start_offset)
            self.rebuild_producers(offset)
            if self.high_watermark >= self.log_end_offset:
                self.watermarks.update_high_watermark(self.local_log.log_end)
            self.on_truncated()
            return True

    def truncate_fully(self, offset: int, log_start_offset: int | None = None) -> None:
        """Delete everything, and start again at `offset`."""
        with self.guard.doing("truncating the log"):
            self.local_log.truncate_fully(offset)
            self.leader_epochs.clear_and_flush()
            self.producers.truncate_fully_and_start_at(offset)
            self.watermarks.log_start_offset = offset if log_start_offset is None else log_start_offset
            self.rebuild_producers(offset)
            self.watermarks.update_high_watermark(self.local_log.log_end)
            self.on_truncated()

    # reading

    def read(
        self, offset: int, max_bytes: int = 1 << 20, isolation: Isolation = "uncommitted", *, min_one: bool = True
    ) -> FetchResult:
        """Entries from `offset` on as stored, as far as the isolation allows."""
        return fetch(self, offset, max_bytes, isolation, min_one=min_one)

    def offset_for_time(self, timestamp: int) -> TimestampAndOffset | None:
        """The first record not older than `timestamp`; -1 latest, -2 earliest, -3 the record with the greatest timestamp."""
        return find_offset_by_time(self, timestamp)

    # settings and surroundings

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, bounded by the log; returns what it is now."""
        return self.watermarks.update_high_watermark(OffsetMetadata(offset))

    def update_config(self, config: LogConfig) -> None:
        self.files.config = config

    def run_due_tasks(self) -> list[TaskFailure]:
        """Run the tasks that are due; returns those that failed."""
        return self.files.schedule.run_due()

    def close(self) -> None:
        """Write what the next start needs, and close the files; `flush` first for a clean shutdown. May be called twice."""
        if self._was_closed:
            return
        if self.flushes_at_close:
            self.flush(force=True)
            self.run_due_tasks()
        self.topic_id_file.flush()
        self.local_log.check_open()
        if self._expiration is not None:
            self._expiration.cancel()
        with self.guard.doing("taking a snapshot of the producers"):
            self.producers.take_snapshot()
        self.local_log.close()
        self.local_log.is_closed = self._was_closed = True

    def close_handlers(self) -> None:
        """Close the files as they are, as a crash would leave them."""
        self.local_log.close_handlers()

    @property
    def is_abandoned(self) -> bool:
        """Whether its files were closed without `close`: the next start must recover it."""
        return self.local_log.is_closed and not self._was_closed

    # for parts of the engine

    def log_segments(self, start: int, stop: int) -> list[LogSegment]:
        return self.segments.between(start, stop)

    def non_active_segments_from(self, start: int) -> list[LogSegment]:
        return self.segments.non_active_from(start)

    def create_new_cleaned_segment(self, base_offset: int) -> LogSegment:
        return self.files.create_cleaned(base_offset)

    def replace_segments(self, new: Sequence[LogSegment], old: Sequence[LogSegment]) -> None:
        """Replace segments by complete `.cleaned` ones."""
        self.local_log.check_open()
        self.delete_snapshots(self.files.replace(new, old))

    def split_overflowed_segment(self, segment: LogSegment) -> list[LogSegment]:
        """Replace a segment whose offsets are too far from its base by several that fit."""
        new, deleted = self.files.split_overflowed(segment)
        self.delete_snapshots(deleted)
        return new

    def collect_aborted_transactions(self, start_offset: int, upper_bound_offset: int) -> list[AbortedTransaction]:
        return self.local_log.collect_aborted_transactions(self.log_start_offset, start_offset, upper_bound_offset)

    def rebuild_producers(self, last_offset: int) -> None:
        self.local_log.check_open()
        rebuild_producers(self.producers, self.segments, self.log_start_offset, last_offset, self.clock)

    def delete_snapshots(self, segments: Sequence[LogSegment]) -> None:
        delete_snapshots(self.producers, segments, self.files.schedule, self.config, self.guard)
