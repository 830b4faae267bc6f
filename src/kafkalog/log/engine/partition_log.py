"""The partition log: Kafka's rules for one folder of segments, to append, read, truncate and expire.

(interface; the parts are filled in next)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from kafkalog.storage.fs import Fs, LocalFs

from .config import LogConfig
from .offsets import AppendOrigin, OffsetMetadata
from .schedule import Clock, Schedule


@dataclass
class AppendResult:
    """What an append did; for a duplicate, what the first append of the batch did."""

    first_offset: int
    last_offset: int
    last_leader_epoch: int
    max_timestamp: int
    log_append_time: int
    log_start_offset: int
    source_codec: str
    valid_bytes: int
    message_count: int
    records_converted: int


@dataclass
class FetchResult:
    """Whole entries as stored, from the one that holds the offset asked for."""

    start: OffsetMetadata
    data: bytes
    first_entry_incomplete: bool
    aborted: list[tuple[int, int]] | None  # producer id, first offset; None unless read_committed


class PartitionLog:
    # state (properties): folder, fs, clock, schedule, config, topic, partition, topic_id
    #   segments (LogSegments), active_segment, local_log, producers (ProducerStates), leader_epochs (LeaderEpochs)
    #   log_start_offset, local_log_start_offset, log_end_offset, high_watermark, last_stable_offset, first_unstable_offset,
    #   recovery_point, size
    @classmethod
    def open(
        cls,
        folder: str,
        config: LogConfig | None = None,
        *,
        clock: Clock | None = None,
        schedule: Schedule | None = None,
        fs: Fs = LocalFs(),
        log_start_offset: int = 0,
        recovery_point: int = 0,
        clean: bool = False,
        topic_id: str | None = None,
        transaction_verification: bool = True,
        producer_id_expiration_ms: int = 86_400_000,
        expiration_check_interval_ms: int = 600_000,
        max_transaction_timeout_ms: int = 900_000,
    ) -> Self:
        raise NotImplementedError

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def close(self) -> None: ...
    def close_handlers(self) -> None: ...

    def append(
        self,
        data: bytes,
        *,
        leader_epoch: int | None = None,  # None: the latest epoch that the log knows, else 0
        origin: AppendOrigin = AppendOrigin.CLIENT,
        verification: object | None = None,  # the guard of start_verification; None: no guard
        transaction_version: int = -1,
    ) -> AppendResult: ...
    def append_as_follower(self, data: bytes, leader_epoch: int) -> AppendResult: ...
    def end_transaction(
        self, producer_id: int, producer_epoch: int, commit: bool, *, coordinator_epoch: int = 0, transaction_version: int = 1,
        leader_epoch: int | None = None,
    ) -> AppendResult: ...
    def start_verification(self, producer_id: int, sequence: int, producer_epoch: int, supports_epoch_bump: bool) -> object | None: ...
    def assign_epoch_start_offset(self, leader_epoch: int, start_offset: int) -> None: ...
    def latest_epoch(self) -> int | None: ...
    def epoch_end(self, leader_epoch: int) -> tuple[int, int] | None:
        """(epoch, end offset)"""
    def roll(self, expected_next_offset: int = 0) -> "LogSegment": ...  # noqa
    def flush(self, force: bool = False) -> None: ...
    def delete_old_segments(self) -> int: ...
    def delete_records(self, offset: int) -> bool: ...  # -1: the high watermark
    def truncate_to(self, offset: int) -> bool: ...
    def truncate_fully(self, offset: int, log_start_offset: int | None = None) -> None: ...
    def update_high_watermark(self, offset: int) -> int: ...
    def update_config(self, config: LogConfig) -> None: ...
    def read(self, offset: int, max_bytes: int = 1 << 20, isolation: str = "uncommitted", min_one: bool = True) -> FetchResult: ...
    def offset_for_time(self, timestamp: int) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch or -1); -1 latest, -2 earliest, -3 greatest timestamp, -4 earliest local"""
    # for the cleaner
    def replace_segments(self, new: list, old: list) -> None: ...
    def log_segments(self, start: int, stop: int) -> list: ...
    def non_active_segments_from(self, start: int) -> list: ...
    def collect_aborted_transactions(self, start_offset: int, upper_bound_offset: int) -> list: ...
