"""Runs the operations of an engine script on our partition log, and answers each as Kafka's own engine did.

A script is a file of JSON lines, one operation each. The clock moves only by `advance`; background tasks that are due run
at the end of every operation. The field names of operations and results are those of the program that ran the scripts on Kafka.
"""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from crc32c import crc32c

from kafkalog.engine.appending import AppendResult
from kafkalog.engine.checkpoints import CleanShutdownFlag, OffsetCheckpoint
from kafkalog.engine.cleaner import Cleaner, CleanerSelection, OffsetMap, clean_filthiest
from kafkalog.engine.config import MIN_SEGMENT_BYTES, LogConfig
from kafkalog.engine.entries import Entry, file_entry_at, file_entry_size, iter_entries
from kafkalog.engine.offsets import AppendOrigin
from kafkalog.engine.partition_log import PartitionLog
from kafkalog.engine.producer_state import ProducerState, VerificationGuard
from kafkalog.engine.schedule import ManualClock, Schedule, TaskFailure
from kafkalog.errors import InvalidArgument, KafkaLogError, LogRefusal, RecordValidation, StorageError
from kafkalog.storage.fs import Fs, LocalFs

Json = dict[str, Any]

RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"

WITHOUT_LOG = {"open", "damage", "meta", "advance", "ls"}

# Settings that an operation may be given, by the name that `PartitionLog.open` has for them.
OPEN_OPTIONS = {
    "transaction_verification": "transaction_verification",
    "producer_id_expiration_ms": "producer_id_expiration_ms",
    "expiration_check_interval_ms": "expiration_check_interval_ms",
    "max_txn_timeout_ms": "max_transaction_timeout_ms",
    "topic_id": "topic_id",
}

APPEND_RESULTS = {
    "firstOffset": "first_offset",
    "lastOffset": "last_offset",
    "lastLeaderEpoch": "last_leader_epoch",
    "maxTimestamp": "max_timestamp",
    "logAppendTime": "log_append_time",
    "appendLogStartOffset": "log_start_offset",
    "sourceCompression": "source_codec",
    "validBytes": "valid_bytes",
    "numMessages": "message_count",
    "recordsConverted": "records_converted",
}
assert set(APPEND_RESULTS.values()) == {field.name for field in fields(AppendResult)}

CLEAN_STATS = {
    "mapMessagesRead": "map_messages_read",
    "messagesRead": "messages_read",
    "bytesRead": "bytes_read",
    "messagesWritten": "messages_written",
    "bytesWritten": "bytes_written",
    "invalidMessages": "invalid_messages",
}


class Driver:
    """One script, run below the folder `base`."""

    def __init__(self, base: Path, fs: Fs | None = None) -> None:
        self._base = base
        self._fs = fs or LocalFs()
        self._clock = ManualClock()
        self._schedule = Schedule(self._clock)
        self._settings: dict[str, str] = {}
        self._guards: dict[int, VerificationGuard] = {}
        self._leader_epoch = 0
        self._root: Path | None = None
        self._log: PartitionLog | None = None
        self._selection: CleanerSelection | None = None

    def run(self, operation: Json) -> Json:
        """The result of one operation."""
        name = operation["op"]
        result: Json = {"op": name}
        try:
            if self._log is None and name not in WITHOUT_LOG:
                raise _NoOpenLog
            answer = getattr(self, f"do_{name}")(operation) or {}
        except (KafkaLogError, OSError, _NoOpenLog) as error:
            result |= {"ok": False, **_failure(error)}
        else:
            result |= {"ok": True, **answer}
        if self._log is not None or name == "advance":
            background = [_task_failure(failure) for failure in self._schedule.run_due()]
            if background:
                result["background"] = background
        if (log := self._log) is not None:
            result["after"] = [
                log.log_start_offset,
                log.log_end_offset,
                log.high_watermark,
                log.last_stable_offset,
                len(log.segments),
            ]
        return result

    def abandon(self) -> None:
        """Close the files of a log that the script leaves open."""
        if self._log is not None:
            self._log.close_handlers()

    @property
    def log(self) -> PartitionLog:
        assert self._log is not None
        return self._log

    @property
    def root(self) -> Path:
        assert self._root is not None
        return self._root

    # the log directory

    def do_meta(self, operation: Json) -> None:
        pass

    def do_open(self, operation: Json) -> Json:
        folder = self._base / operation["dir"]
        self._root = folder.parent
        self._root.mkdir(parents=True, exist_ok=True)
        self._clock.now = operation.get("time", self._clock.now)
        if "config" in operation:
            self._settings = _settings(operation["config"])
        self._schedule = Schedule(self._clock)
        self._guards.clear()
        answer: Json = {}
        flag = CleanShutdownFlag(self._fs, str(self.root))
        clean = flag.exists
        if clean:
            flag.delete()
        clean = operation.get("clean", clean)
        recovery_point = self._read_checkpoint(RECOVERY_POINT, "recoveryCheckpointError", folder.name, answer)
        log_start = self._read_checkpoint(LOG_START, "startCheckpointError", folder.name, answer)
        recovery_point = operation.get("recovery_point", recovery_point)
        log_start = operation.get("log_start", log_start)
        answer |= {"clean": clean, "recoveryPointGiven": recovery_point, "logStartGiven": log_start}
        self._log = PartitionLog.open(
            str(folder),
            self._config(),
            clock=self._clock,
            schedule=self._schedule,
            fs=self._fs,
            log_start_offset=log_start,
            recovery_point=recovery_point,
            clean=clean,
            **{option: operation[name] for name, option in OPEN_OPTIONS.items() if name in operation},
        )
        self._selection = CleanerSelection(str(self.root), [self._log], self._fs)
        latest_epoch = self.log.latest_epoch
        self._leader_epoch = 0 if latest_epoch is None else latest_epoch
        return answer | {"recoveryPoint": self.log.recovery_point, "segments": self._base_offsets()}

    def _config(self) -> LogConfig:
        settings = dict(self._settings)
        if int(settings.get("segment.bytes", MIN_SEGMENT_BYTES)) < MIN_SEGMENT_BYTES:
            settings["internal.segment.bytes"] = settings.pop("segment.bytes")
        return LogConfig.of(settings)

    def _base_offsets(self) -> list[int]:
        return [segment.base_offset for segment in self.log.segments]

    def _checkpoint_file(self, name: str) -> OffsetCheckpoint:
        return OffsetCheckpoint(self._fs, str(self.root / name))

    def _partition(self) -> tuple[str, int]:
        return self.log.topic, self.log.partition

    def _read_checkpoint(self, name: str, error_field: str, folder: str, answer: Json) -> int:
        topic, partition = folder.rsplit("-", 1)
        try:
            return self._checkpoint_file(name).read().get((topic, int(partition)), 0)
        except LogRefusal as error:
            answer[error_field] = error.kafka_name
            return 0

    def do_checkpoint(self, operation: Json) -> None:
        self._write_recovery_point()
        start, first_base = self.log.log_start_offset, self._base_offsets()[0]
        self._checkpoint_file(LOG_START).write({self._partition(): start} if start > first_base else {})

    def _write_recovery_point(self) -> None:
        self._checkpoint_file(RECOVERY_POINT).write({self._partition(): self.log.recovery_point})

    def do_close(self, operation: Json) -> None:
        if operation.get("clean", True):
            self.log.flush(True)
            self._schedule.run_due()
            self.log.close()
            self.do_checkpoint(operation)
            CleanShutdownFlag(self._fs, str(self.root)).write(operation.get("broker_epoch", 1))
        else:
            self.log.close_handlers()
        self._schedule.clear()
        self._log = None

    def do_damage(self, operation: Json) -> Json:
        path = self._base / operation["file"]
        if operation.get("delete"):
            existed = path.exists()
            path.unlink(missing_ok=True)
            return {"existed": existed}
        if "rename" in operation:
            os.replace(path, self._base / operation["rename"])
            return {}
        if "copy" in operation:
            shutil.copyfile(path, self._base / operation["copy"])
            return {}
        data = bytearray(path.read_bytes() if path.exists() else b"")
        if "truncate_by" in operation:
            del data[max(0, len(data) - operation["truncate_by"]) :]
        if "truncate_to" in operation:
            del data[operation["truncate_to"] :]
        if "xor" in operation:
            position, byte = operation["xor"]
            if position < 0:
                position += len(data)
            if position < 0:
                path.touch()
                raise InvalidArgument(f"no byte {position} in {path.name}")
            data.extend(bytes(max(0, position + 1 - len(data))))
            data[position] ^= byte
        if "append" in operation:
            data += base64.b64decode(operation["append"])
        path.write_bytes(data)
        return {"size": len(data)}

    def do_advance(self, operation: Json) -> Json:
        self._clock.now += operation["ms"]
        return {"now": self._clock.now}

    # writing

    def do_append(self, operation: Json) -> Json:
        data = base64.b64decode(operation["records"])
        leader_epoch = operation.get("leader_epoch", self._leader_epoch)
        origin = operation.get("origin", "client")
        if origin in ("replication", "follower"):
            return _append_result(self.log.append_as_follower(data, leader_epoch))
        guard, answer = self._guard(data, operation)
        if operation.get("verify_only") and "guard" in answer:
            return answer
        appended = self.log.append(
            data,
            leader_epoch=leader_epoch,
            origin=AppendOrigin(origin),
            verification=guard,
            transaction_version=operation.get("tv", -1),
        )
        return answer | _append_result(appended)

    def _guard(self, data: bytes, operation: Json) -> tuple[VerificationGuard | None, Json]:
        verify = operation.get("verify", "none")
        if verify == "none":
            return None, {}
        entry = next(iter_entries(data))
        if verify == "reuse":
            return self._guards.get(entry.producer_id), {}
        guard = self.log.start_verification(
            entry.producer_id, entry.base_sequence, entry.producer_epoch, supports_epoch_bump=verify == "start_v2"
        )
        if guard is not None:
            self._guards[entry.producer_id] = guard
        return guard, {"guard": guard is not None}

    def do_end_txn(self, operation: Json) -> Json:
        return _append_result(
            self.log.end_transaction(
                operation["pid"],
                _as_int16(operation["epoch"]),
                operation["commit"],
                coordinator_epoch=operation.get("coordinator_epoch", 0),
                transaction_version=operation.get("tv", 1),
                leader_epoch=operation.get("leader_epoch", self._leader_epoch),
            )
        )

    def do_become_leader(self, operation: Json) -> None:
        self._leader_epoch = operation["epoch"]
        self.log.assign_epoch_start_offset(self._leader_epoch, self.log.log_end_offset)

    def do_roll(self, operation: Json) -> Json:
        return {"base": self.log.roll().base_offset}

    def do_flush(self, operation: Json) -> Json:
        self.log.flush(operation.get("force", False))
        return {"recoveryPoint": self.log.recovery_point}

    def do_hw(self, operation: Json) -> Json:
        return {"hw_set": self.log.update_high_watermark(operation["offset"])}

    def do_retention(self, operation: Json) -> Json:
        return {"deleted": self.log.delete_old_segments()}

    def do_truncate(self, operation: Json) -> Json:
        offset = operation["offset"]
        before_active = offset < self.log.active_segment.base_offset
        truncated = self.log.truncate_to(offset)
        if before_active:
            self._truncate_cleaner_checkpoint()
        if truncated:
            self._write_recovery_point()
        return {"truncated": truncated}

    def do_truncate_fully(self, operation: Json) -> None:
        self.log.truncate_fully(operation["offset"], operation.get("log_start"))
        self._truncate_cleaner_checkpoint()
        self._write_recovery_point()

    def _truncate_cleaner_checkpoint(self) -> None:
        assert self._selection is not None
        self._selection.maybe_truncate_checkpoint(self.log, self.log.active_segment.base_offset)

    def do_delete_records(self, operation: Json) -> Json:
        return {"moved": self.log.delete_records(operation["offset"])}

    def do_clean(self, operation: Json) -> Json:
        assert self._selection is not None
        io_buffer_bytes = operation.get("io_buffer", 524_288)
        cleaner = Cleaner(
            OffsetMap(operation.get("dedupe_bytes", 1 << 20)),
            load_factor=operation.get("load_factor", 0.9),
            io_buffer_bytes=io_buffer_bytes,
            max_io_buffer_bytes=operation.get("max_io_buffer", max(io_buffer_bytes, 1 << 22)),
        )
        done = clean_filthiest(self._selection, cleaner, self._clock.now)
        checkpoint = {"checkpoint": self._selection.checkpoints().get(self._partition(), -1)}
        if done is None:
            return {"cleaned": False, **checkpoint}
        answer = {
            "cleaned": True,
            "firstDirty": done.to_clean.first_dirty_offset,
            "firstUncleanable": done.to_clean.first_uncleanable_offset,
            "cleanBytes": done.to_clean.clean_bytes,
            "cleanableBytes": done.to_clean.cleanable_bytes,
        }
        if done.is_aborted:
            answer["aborted"] = True
        else:
            answer["endOffset"] = done.end_offset
            answer |= {name: getattr(done.stats, attribute) for name, attribute in CLEAN_STATS.items()}
        return answer | checkpoint | {"segments": self._base_offsets()}

    def do_config(self, operation: Json) -> None:
        self._settings |= _settings(operation["config"])
        self.log.update_config(self._config())

    # asking

    def do_read(self, operation: Json) -> Json:
        isolation = operation.get("isolation", "uncommitted")
        found = self.log.read(
            operation["offset"], operation.get("max", 1 << 20), isolation=isolation, min_one=operation.get("min_one", True)
        )
        answer = {
            "size": len(found.data),
            "segment": found.start.segment_base_offset,
            "position": found.start.position,
            "firstEntryIncomplete": found.first_entry_incomplete,
            "batches": [],
        }
        if operation.get("list", True):
            answer["batches"] = [[entry.base_offset, entry.last_offset] for entry in _file_entries(found.data)]
        if found.is_readable:
            answer["crc32c"] = crc32c(found.data)
        if found.aborted is not None:
            answer["aborted"] = [list(aborted) for aborted in found.aborted]
        return answer

    def do_offset_for_time(self, operation: Json) -> Json:
        found = self.log.offset_for_time(operation["ms"])
        if found is None:
            return {"found": False}
        return {"found": True, **dict(zip(("timestamp", "offset", "leaderEpoch"), found, strict=True))}

    def do_epoch_end(self, operation: Json) -> Json:
        epoch, end_offset = self.log.epoch_end(operation["epoch"]) or (-1, -1)
        return {"epoch": epoch, "end": end_offset}

    def do_state(self, operation: Json) -> Json:
        log = self.log
        first_unstable = log.first_unstable_offset
        answer = {
            "logStartOffset": log.log_start_offset,
            "localLogStartOffset": log.local_log_start_offset,
            "logEndOffset": log.log_end_offset,
            "lastStableOffset": log.last_stable_offset,
            "highWatermark": log.high_watermark,
            "recoveryPoint": log.recovery_point,
            "firstUnstableOffset": -1 if first_unstable is None else first_unstable,
            "size": log.size,
            "segments": [_segment_state(segment) for segment in log.segments],
            "producers": [_producer_state(state) for _, state in sorted(log.producers.active_producers.items())],
            "mapEndOffset": log.producers.map_end_offset,
            "epochs": [list(entry) for entry in log.leader_epochs.entries],
        }
        return answer | (self.do_ls(operation) if operation.get("files", True) else {})

    def do_ls(self, operation: Json) -> Json:
        return {"files": dict(self._files())}

    def _files(self) -> Iterator[tuple[str, list[int]]]:
        if self._root is not None:
            for path in sorted(self._root.rglob("*")):
                if path.is_file():
                    data = path.read_bytes()
                    yield str(path.relative_to(self._root)), [len(data), crc32c(data)]


class _NoOpenLog(Exception):
    """The script asks something of a log that it has not opened, or that could not be opened."""


def _settings(config: Json) -> dict[str, str]:
    return {name: str(value) for name, value in config.items()}


def _as_int16(epoch: int) -> int:
    """The epoch as Java's cast to a short leaves it."""
    return (epoch + (1 << 15)) % (1 << 16) - (1 << 15)


def _append_result(appended: AppendResult) -> Json:
    return {name: getattr(appended, attribute) for name, attribute in APPEND_RESULTS.items()}


def _file_entries(data: bytes) -> Iterator[Entry]:
    """The whole entries of bytes that were read from a file."""
    start = 0
    while (size := file_entry_size(data, start, len(data) - start)) is not None:
        yield file_entry_at(data, start, start)
        start += size


def _segment_state(segment: Any) -> Json:
    next_offset: int | str
    try:
        next_offset = segment.read_next_offset()
    except KafkaLogError as error:
        next_offset = _error_name(error)
    largest = segment.max_timestamp_and_offset
    return {
        "base": segment.base_offset,
        "size": segment.size,
        "nextOffset": next_offset,
        "maxTimestampSoFar": largest.timestamp,
        "offsetOfMaxTimestamp": largest.offset,
        "indexEntries": segment.offset_index.entry_count,
        "timeIndexEntries": segment.time_index.entry_count,
    }


def _producer_state(state: ProducerState) -> Json:
    first_offset = state.current_txn_first_offset
    return {
        "pid": state.producer_id,
        "epoch": state.producer_epoch,
        "coordinatorEpoch": state.coordinator_epoch,
        "lastTimestamp": state.last_timestamp,
        "currentTxnFirstOffset": -1 if first_offset is None else first_offset,
        "batches": [
            [batch.first_sequence, batch.last_sequence, batch.first_offset, batch.last_offset, batch.timestamp]
            for batch in state.batches
        ],
    }


def _failure(error: Exception) -> Json:
    answer: Json = {"error": _error_name(error), "message": str(error)}
    if isinstance(error, RecordValidation):
        answer["cause"] = error.cause.kafka_name
        answer["recordErrors"] = [[row, fault] for row, fault in error.record_errors]
    return answer


def _error_name(error: Exception) -> str:
    """The name of the exception that Kafka throws for it."""
    if isinstance(error, LogRefusal):
        return error.kafka_name
    if isinstance(error, _NoOpenLog):
        return "IllegalStateException"
    if isinstance(error, StorageError):
        return "KafkaStorageException"
    return "NoSuchFileException" if isinstance(error, FileNotFoundError) else type(error).__name__


def _task_failure(failure: TaskFailure) -> str:
    return f"{failure.name} failed: {_error_name(failure.error)}: {failure.error}"
