"""All producers of a log: their states, their transactions, and the `.snapshot` files that store them.

The state is that of the log up to `map_end_offset`. A snapshot holds it as of the offset in its name; what came after is replayed
from the log when it is loaded or truncated.

An offset is unstable while its transaction is open, or its marker is not yet below the high watermark: readers of committed
records may not pass the first unstable offset.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog.errors import InvalidArgument, UnsupportedFormat
from kafkalog.format.batch import NO_PRODUCER_ID
from kafkalog.format.java import HashMap, NewestFirstMap
from kafkalog.format.names import parse_file_name, segment_file_name
from kafkalog.format.snapshot import decode_snapshot
from kafkalog.log.producer_replay import PRODUCER_ID_EXPIRATION_MS, encode_producers, is_expired
from kafkalog.log.swap_segments import DELETED
from kafkalog.storage.fs import Fs, read_small

from .offsets import AppendOrigin, OffsetMetadata
from .producer_state import (
    BatchMetadata,
    CompletedTransaction,
    ProducerAppend,
    ProducerState,
    TransactionMetadata,
    VerificationState,
)
from .schedule import Clock

if TYPE_CHECKING:
    from .entries import Entry

LATE_TRANSACTION_BUFFER_MS: Final = 5 * 60 * 1000


@dataclass(frozen=True)
class ProducerSettings:
    """Broker settings for producers, by Kafka's names and with its defaults."""

    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS
    transaction_verification: bool = True
    max_transaction_timeout_ms: int = 900_000


class SnapshotFile:
    """A `.snapshot`: the producers as of `offset`."""

    def __init__(self, fs: Fs, path: str, offset: int) -> None:
        self.path = path
        self.offset = offset
        self._fs = fs

    def read(self) -> list[ProducerState]:
        """The producers in it; UnsupportedFormat if it is damaged."""
        stored = decode_snapshot(read_small(self._fs, self.path))
        return [_decoded_state(*entry) for entry in stored.tolist()]

    def write(self, producers: Iterable[ProducerState], *, sync: bool) -> None:
        file = self._fs.open(self.path, create=True)
        try:
            file.write(0, encode_producers(map(_encoded_state, producers)))
            if sync:
                file.sync()
        finally:
            file.close()

    def delete_if_exists(self) -> None:
        with suppress(FileNotFoundError):
            self._fs.remove(self.path)

    def rename_to_deleted(self) -> None:
        renamed = self.path + DELETED
        try:
            self._fs.rename(self.path, renamed)
        finally:
            self.path = renamed

    def update_parent_folder(self, folder: str) -> None:
        self.path = os.path.join(folder, os.path.basename(self.path))


def _encoded_state(state: ProducerState) -> tuple[int, ...]:
    first_offset = state.current_txn_first_offset
    return (
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_data_offset,
        state.last_offset_delta,
        state.last_timestamp,
        state.coordinator_epoch,
        -1 if first_offset is None else first_offset,
    )


def _decoded_state(
    producer_id: int,
    producer_epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    current_txn_first_offset: int,
) -> ProducerState:
    batches = [BatchMetadata(last_sequence, last_offset, offset_delta, timestamp)] if last_offset >= 0 else []
    first_offset = current_txn_first_offset if current_txn_first_offset >= 0 else None
    return ProducerState(producer_id, producer_epoch, coordinator_epoch, timestamp, first_offset, batches)


class ProducerStates:
    """The producers of the log in `folder`."""

    def __init__(
        self,
        fs: Fs,
        folder: str,
        clock: Clock,
        settings: ProducerSettings | None = None,
        snapshots: Mapping[int, SnapshotFile] | None = None,
    ) -> None:
        """`snapshots` are those in the folder, if they are known already."""
        self.settings = settings or ProducerSettings()
        self.map_end_offset = 0
        self._fs = fs
        self._folder = folder
        self._clock = clock
        self._producers: HashMap[ProducerState] = HashMap()
        self._verifications: dict[int, VerificationState] = {}
        self._ongoing: dict[int, TransactionMetadata] = {}  # by first offset, ascending
        self._unreplicated: dict[int, TransactionMetadata] = {}  # the same, of ended ones
        self._last_snapshot_offset = 0
        self._snapshots = self._load_snapshots() if snapshots is None else dict(snapshots)

    # state

    @property
    def snapshots(self) -> Mapping[int, SnapshotFile]:
        """The snapshot files by their offsets."""
        return self._snapshots

    @property
    def active_producers(self) -> Mapping[int, ProducerState]:
        return self._producers.entries

    @property
    def is_empty(self) -> bool:
        return not self._producers.entries and not self._unreplicated

    def last_entry(self, producer_id: int) -> ProducerState | None:
        return self._producers.entries.get(producer_id)

    @property
    def first_unstable_offset(self) -> OffsetMetadata | None:
        """Where the first transaction begins that is open, or whose marker is not yet below the high watermark."""
        firsts = [transaction.first_offset for transaction in (*_first(self._unreplicated), *_first(self._ongoing))]
        return min(firsts, key=lambda first: first.offset, default=None)

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the first open transaction begins."""
        return next(iter(self._ongoing), None)

    def has_late_transaction(self, now_ms: int) -> bool:
        """Whether the oldest open transaction has been silent longer than allowed: its coordinator has lost it."""
        for transaction in _first(self._ongoing):
            state = self._producers.entries.get(transaction.producer_id)
            late_after_ms = self.settings.max_transaction_timeout_ms + LATE_TRANSACTION_BUFFER_MS
            return state is not None and state.last_timestamp > 0 and now_ms - state.last_timestamp > late_after_ms
        return False

    # verification of transactions

    def create_verification(self, producer_id: int, sequence: int, epoch: int, supports_epoch_bump: bool) -> VerificationState:
        """The state of the producer's verification, created if there is none."""
        state = self._verifications.get(producer_id)
        if state is None:
            state = VerificationState(self._clock.now_ms(), sequence, epoch, supports_epoch_bump)
            self._verifications[producer_id] = state
        state.note(sequence, epoch)
        return state

    def verification(self, producer_id: int) -> VerificationState | None:
        return self._verifications.get(producer_id)

    def clear_verification(self, producer_id: int) -> None:
        self._verifications.pop(producer_id, None)

    # appends

    def prepare_update(self, producer_id: int, origin: AppendOrigin) -> ProducerAppend:
        """An append of the producer that starts from its current state."""
        before = self._producers.entries.get(producer_id) or ProducerState(producer_id)
        return ProducerAppend(before, origin, self._verifications.get(producer_id))

    def update_producers(
        self,
        entry: Entry,
        appends: NewestFirstMap[ProducerAppend],
        first_offset: OffsetMetadata | None,
        origin: AppendOrigin,
        transaction_version: int,
    ) -> CompletedTransaction | None:
        """Apply an entry with a producer id to `appends`; returns the transaction that it ends."""
        producer_id = entry.producer_id
        append = appends.compute_if_absent(producer_id, lambda: self.prepare_update(producer_id, origin))
        completed = append.append(entry, first_offset, transaction_version)
        if entry.is_transactional:
            # A late marker of the previous epoch must not clear the verification of the next transaction.
            verification = self._verifications.get(producer_id)
            is_next_verified = (
                verification is not None
                and verification.supports_epoch_bump
                and entry.is_control_batch
                and entry.producer_epoch == verification.epoch
            )
            if not is_next_verified:
                self.clear_verification(producer_id)
        return completed

    def update(self, append: ProducerAppend) -> None:
        """Merge the state after an append that has been written."""
        if append.producer_id == NO_PRODUCER_ID:
            raise InvalidArgument("an append without a producer id has no producer state")
        current = self._producers.entries.get(append.producer_id)
        if current is None:
            self._producers.put(append.producer_id, append.state)
        else:
            current.update(append.state)
        for transaction in append.started_transactions:
            self._ongoing = _with(self._ongoing, transaction)

    def last_stable_offset(self, completed: CompletedTransaction) -> int:
        """The last stable offset once this transaction has ended."""
        for transaction in self._ongoing.values():
            if transaction.producer_id != completed.producer_id:
                return transaction.first_offset.offset
        return completed.last_offset + 1

    def complete_transaction(self, completed: CompletedTransaction) -> None:
        """End a transaction whose marker is written; it stays unstable until the high watermark has passed it."""
        transaction = self._ongoing.pop(completed.first_offset, None)
        if transaction is None:
            raise InvalidArgument(f"no open transaction begins at offset {completed.first_offset}")
        transaction.last_offset = completed.last_offset
        self._unreplicated = _with(self._unreplicated, transaction)

    def load_from_entries(self, entries: Iterable[Entry]) -> None:
        """Replay entries of the log."""
        appends: NewestFirstMap[ProducerAppend] = NewestFirstMap()
        all_completed = []
        for entry in entries:
            if entry.has_producer_id:
                completed = self.update_producers(entry, appends, None, AppendOrigin.REPLICATION, 0)
                if completed is not None:
                    all_completed.append(completed)
        for append in appends:
            self.update(append)
        for completed in all_completed:
            self.complete_transaction(completed)

    # time, high watermark, log start offset

    def remove_expired_producers(self, now_ms: int) -> None:
        """Drop producers that have been silent for too long, except those with an open transaction."""
        producers = self._producers.entries
        self._producers.remove_all([producer_id for producer_id, state in producers.items() if self._is_expired(state, now_ms)])
        expiration_ms = self.settings.producer_id_expiration_ms
        for producer_id, verification in list(self._verifications.items()):
            if is_expired(verification.timestamp, now_ms, expiration_ms, in_transaction=False):
                del self._verifications[producer_id]

    def _is_expired(self, state: ProducerState, now_ms: int) -> bool:
        in_transaction = state.current_txn_first_offset is not None
        return is_expired(state.last_timestamp, now_ms, self.settings.producer_id_expiration_ms, in_transaction=in_transaction)

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        self._remove_unreplicated(high_watermark)

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        self._remove_unreplicated(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        latest = self.latest_snapshot_offset
        self._last_snapshot_offset = log_start_offset if latest is None else latest

    def _remove_unreplicated(self, offset: int) -> None:
        if self._unreplicated:
            self._unreplicated = {
                first_offset: transaction
                for first_offset, transaction in self._unreplicated.items()
                if transaction.last_offset is None or transaction.last_offset >= offset
            }

    # truncation

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Reload the newest snapshot within these offsets, unless the state is that of `log_end_offset` already."""
        for offset in sorted(self._snapshots):
            if not log_start_offset < offset <= log_end_offset:
                self._delete_snapshot(offset)
        if log_end_offset == self.map_end_offset:
            self.on_log_start_offset_incremented(log_start_offset)
        else:
            self._clear()
            self._load_from_snapshot(log_start_offset, now_ms)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything, snapshots too."""
        self._clear()
        for snapshot_offset in sorted(self._snapshots):
            self._delete_snapshot(snapshot_offset)
        self._last_snapshot_offset = 0
        self.map_end_offset = offset

    def _clear(self) -> None:
        self._producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()

    # snapshots

    @property
    def latest_snapshot_offset(self) -> int | None:
        return max(self._snapshots, default=None)

    def take_snapshot(self, sync: bool = True) -> str | None:
        """Write a snapshot as of `map_end_offset`, unless the last one is as new; returns its path."""
        offset = self.map_end_offset
        if offset <= self._last_snapshot_offset:
            return None
        snapshot = SnapshotFile(self._fs, self._snapshot_path(offset), offset)
        snapshot.write(self._producers, sync=sync)
        self._snapshots[offset] = snapshot
        self._last_snapshot_offset = offset
        return snapshot.path

    def remove_stray_snapshots(self, segment_base_offsets: Collection[int]) -> None:
        """Delete snapshots where no segment begins, except the newest if it is after all of them: that of a clean shutdown."""
        snapshots = self._load_snapshots()
        strays = sorted(set(snapshots) - set(segment_base_offsets))
        if strays and not (segment_base_offsets and strays[-1] < max(segment_base_offsets)):
            strays.pop()
        for offset in strays:
            snapshots.pop(offset).delete_if_exists()
        self._snapshots = snapshots

    def delete_snapshots_before(self, offset: int) -> None:
        for snapshot_offset in sorted(self._snapshots):
            if 0 <= snapshot_offset < offset:
                self._delete_snapshot(snapshot_offset)

    def remove_and_mark_snapshot_for_deletion(self, offset: int) -> SnapshotFile | None:
        """Rename the snapshot of `offset`, to be deleted later; None if it does not exist any more."""
        snapshot = self._snapshots.pop(offset, None)
        if snapshot is not None:
            with suppress(FileNotFoundError):  # recovery deletes through a `ProducerStates` of its own
                snapshot.rename_to_deleted()
                return snapshot
        return None

    def update_parent_folder(self, folder: str) -> None:
        """Follow the partition's folder to its new name."""
        self._folder = folder
        for snapshot in self._snapshots.values():
            snapshot.update_parent_folder(folder)

    def _snapshot_path(self, offset: int) -> str:
        return os.path.join(self._folder, segment_file_name(offset, "snapshot"))

    def _delete_snapshot(self, offset: int) -> None:
        self._snapshots.pop(offset).delete_if_exists()

    def _load_snapshots(self) -> dict[int, SnapshotFile]:
        if self._fs.kind(self._folder) != "folder":
            return {}
        snapshots = {}
        for name in self._fs.list(self._folder):
            parsed = parse_file_name(name)
            if parsed is not None and parsed.kind == "snapshot" and not parsed.suffix:
                path = os.path.join(self._folder, name)
                snapshots[parsed.base_offset] = SnapshotFile(self._fs, path, parsed.base_offset)
        return snapshots

    def _load_from_snapshot(self, log_start_offset: int, now_ms: int) -> None:
        while (offset := self.latest_snapshot_offset) is not None:
            try:
                states = self._snapshots[offset].read()
            except UnsupportedFormat:
                self._delete_snapshot(offset)
                continue
            for state in states:
                if not self._is_expired(state, now_ms):
                    self._load(state)
            self._last_snapshot_offset = self.map_end_offset = offset
            return
        self._last_snapshot_offset = self.map_end_offset = log_start_offset

    def _load(self, state: ProducerState) -> None:
        self._producers.put(state.producer_id, state)
        if state.current_txn_first_offset is not None:
            transaction = TransactionMetadata(state.producer_id, OffsetMetadata(state.current_txn_first_offset))
            self._ongoing = _with(self._ongoing, transaction)


def _first(transactions: dict[int, TransactionMetadata]) -> list[TransactionMetadata]:
    return [next(iter(transactions.values()))] if transactions else []


def _with(transactions: dict[int, TransactionMetadata], added: TransactionMetadata) -> dict[int, TransactionMetadata]:
    """The transactions in order of their first offsets; the added one almost always is the last."""
    first_offset = added.first_offset.offset
    is_last = not transactions or first_offset > next(reversed(transactions))
    transactions[first_offset] = added
    return transactions if is_last else dict(sorted(transactions.items()))
