"""The exception tree, the reason codes and the limits.

    KafkaLogError
    ├── UsageError            an argument that is not allowed: unknown table, column, codec, mode (also a ValueError)
    ├── StorageError          the bytes could not be read: no such path, no permission, an I/O error (also an OSError)
    │   └── NoLogs            the path exists, but holds no Kafka log
    ├── CodecError            compressed bytes do not decompress; the segment layer adds file and position
    │   ├── OutputFull        the target buffer is too small: retry with a larger one, or report a limit
    │   └── CodecMissing      the library of that codec is not installed
    ├── LogRefusal            the partition log refused a call by Kafka's rules; one class per error name of Kafka's, below
    └── SegmentError          bad data, with file, byte position, reason code, expected and found
        ├── TornTail          the file ends inside an entry, or in zeros
        ├── CorruptBatch      an entry that cannot be what its writer stored
        ├── LimitExceeded     an entry that asks for more than the limits allow
        ├── UnsupportedFormat not one of Kafka's files, or a newer version of one
        │   └── NotANumber    a line of a checkpoint with other text where a number belongs
        └── SegmentChanged    the file shrank or was replaced while it was read

Bad data raises nothing outside this tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

ERROR, WARNING, INFO = "error", "warning", "info"
SEVERITIES = (ERROR, WARNING, INFO)
NAME_LENGTH = 160

FROM_REPLICA = "Copy the partition from another replica, or read around it with --on-damage skip or salvage."
CUT_OFF = f"At the end of the newest segment: an unfinished write, which a broker truncates. Elsewhere: {FROM_REPLICA}"
REBUILT = "Stop the broker and move the file away: without a segment's .index, a broker rebuilds its indexes and snapshots."
RAISE_LIMIT = "Raise the limit (kafkalog.Limits) if the entry may be that large; it was not checked."


class Reason(NamedTuple):
    """The meaning of a reason code, what to do about it, and its severity as a finding."""

    about: str
    advice: str
    severity: str = ERROR


# Stable reason codes. They are interface: reports, findings and exit messages carry them, so they are never renamed.
REASONS: dict[str, Reason] = {
    # entries that cannot be read
    "crc": Reason("the stored checksum does not match the bytes", FROM_REPLICA),
    "inner-crc": Reason("the checksum of a message inside a compressed set does not match its bytes", FROM_REPLICA),
    "length": Reason("the length field cannot be right", FROM_REPLICA),
    "magic": Reason("the format version is not 0, 1 or 2", FROM_REPLICA),
    "codec": Reason("the compressed bytes do not decompress", FROM_REPLICA),
    "codec-unknown": Reason("the attributes name a codec that does not exist in this format", FROM_REPLICA),
    "nested": Reason("a compressed message inside a compressed set", FROM_REPLICA),
    "count": Reason("the record count does not match the records", FROM_REPLICA),
    "varint": Reason("a variable-length integer is too long", FROM_REPLICA),
    "record-structure": Reason("a record does not match its own length, or exceeds its batch", FROM_REPLICA),
    "control": Reason("a control record without a readable key", FROM_REPLICA),
    "payload": Reason(
        "a key or value is not the message that its topic holds",
        "Dump it without a decoder, or look at its bytes with kafkalog explain.",
    ),
    "offset-range": Reason("an offset is negative or beyond what the format can hold", FROM_REPLICA),
    "torn": Reason("the file ends inside an entry", CUT_OFF),
    "torn-write": Reason("an entry with a zeroed sector: only part of it was written", CUT_OFF),
    "zero-tail": Reason("the file ends in zeros", CUT_OFF),
    # entries that contradict adjacent entries
    "offset-order": Reason("offsets go back", FROM_REPLICA),
    "gap": Reason(
        "offsets are missing between two batches of a log that was never compacted",
        "Harmless if the topic is or was compacted, or truncated inside a batch. If not, batches are lost: copy another replica.",
        WARNING,
    ),
    "gap-at-end": Reason(
        "the segment ends before the next one begins",
        "Harmless if the topic is or was compacted, or truncated inside a batch. If not, its end is lost: copy another replica.",
        WARNING,
    ),
    "epoch": Reason("the leader epoch goes back, or contradicts the checkpoint", FROM_REPLICA),
    "unverified": Reason(
        "an intact batch between two damaged places, which may be bytes inside a value (--unverified keeps it)",
        "Look at its records; salvage --unverified keeps it.",
        WARNING,
    ),
    "record-order": Reason(
        "the records of a batch are not in offset order, or are outside the offsets of the batch",
        "Brokers store uncompressed batches as clients send them: look for a client that numbers records wrongly.",
        WARNING,
    ),
    "max-timestamp": Reason(
        "the largest timestamp of a batch is not that of its records",
        "Retention and searches by time use the batch's timestamp: records may be found or deleted at the wrong time.",
        WARNING,
    ),
    "time-range": Reason(
        "a timestamp beyond what microseconds in 64 bits can hold",
        "Such a record keeps its segment alive: retention by time waits for that day. Look for the client that sent it.",
        INFO,
    ),
    "sequence-gap": Reason(
        "sequence numbers of an idempotent producer are missing, though no offset is",
        "Harmless if the broker had forgotten the producer (producer.id.expiration.ms); otherwise the producer lost records.",
        WARNING,
    ),
    "sequence-duplicate": Reason(
        "the sequence numbers of an idempotent producer go back: a batch may be there twice",
        "Compare the records of the two batches; consumers get both.",
        WARNING,
    ),
    "producer-epoch": Reason(
        "the epoch of a producer goes back: a fenced producer was writing",
        "Consumers see what it wrote; search the broker's log for the producer id.",
        WARNING,
    ),
    "segment-overflow": Reason(
        "offsets too far above the segment's base offset for its index (KAFKA-6264)",
        "Readable; a broker from 2.0 on splits the segment when it loads the log after an unclean shutdown.",
        WARNING,
    ),
    # limits, and files that cannot be read
    "batch-limit": Reason("a batch above the size limit", RAISE_LIMIT),
    "decompressed-limit": Reason("a batch that decompresses to more than the limit", RAISE_LIMIT),
    "record-limit": Reason("a record above the size limit", RAISE_LIMIT),
    "headers-limit": Reason("more headers in a record than the limit allows", RAISE_LIMIT),
    "memory-limit": Reason("the work needs more memory than the limit allows", RAISE_LIMIT),
    "not-a-file": Reason("not a regular file", "Check what it is: a broker would not open it either."),
    "not-a-segment": Reason("the bytes are not a Kafka log", "Pass a log directory, a partition folder or a segment file."),
    "version": Reason("a format version newer than any known", "Use a newer kafkalog; the file may be from a newer broker."),
    "changed": Reason(
        "the file shrank or was replaced while it was read", "A broker is writing here: run the command again.", WARNING
    ),
    "unreadable": Reason("the bytes could not be read from the device", "Check permissions, the disk and the system's log."),
    # index, snapshot and checkpoint files
    "file-format": Reason("an index, snapshot or checkpoint file whose content is malformed", REBUILT),
    "index-mismatch": Reason("an index entry that the log contradicts", REBUILT),
    "index-missing": Reason(
        "a segment without its index", "A broker rebuilds it when it loads the log, by scanning the segment.", WARNING
    ),
    "snapshot-missing": Reason(
        "a segment without a .snapshot at its base offset, though the segments before and after it have one",
        "Harmless, except after a truncation to that offset: a broker then replays the log from an earlier snapshot.",
        INFO,
    ),
    "snapshot-mismatch": Reason("the state of a producer in a .snapshot contradicts the log", REBUILT, WARNING),
    "snapshot-incomplete": Reason(
        "a KRaft snapshot without its first or last control record",
        "Do not use it; use an older one, or one of another node.",
        ERROR,
    ),
    "checkpoint-mismatch": Reason(
        "a checkpoint that the log contradicts",
        "If offsets beyond the end were acknowledged, the end of the log is lost: copy the partition from another replica.",
        WARNING,
    ),
    "topic-id": Reason(
        "partitions of one topic with different topic ids", "One of them belongs to a deleted topic of that name: find out which."
    ),
    "partition-missing": Reason(
        "a checkpoint names a partition that has no folder here",
        "Normal after a topic was deleted; otherwise a folder is lost.",
        INFO,
    ),
    "orphan": Reason("an index or snapshot without its segment", "A broker deletes it when it loads the log.", INFO),
    "leftover": Reason(
        "a file or folder that a broker was about to remove or rename",
        "A broker deletes or finishes it at its next start; copy it first if you need its data.",
        INFO,
    ),
    "foreign-folder": Reason(
        "a folder that belongs to no partition",
        "Move it out of the log directory: a broker does not start while it is there.",
        WARNING,
    ),
}


@dataclass(frozen=True)
class Limits:
    """The most that one entry may ask for, checked before anything is allocated. Callers can raise every field."""

    batch_bytes: int = 128 << 20
    decompressed_bytes: int = 256 << 20
    record_bytes: int = 128 << 20
    headers_per_record: int = 10_000


def path_text(path: str) -> str:
    """`path` as text that UTF-8 can hold: the bytes of a name that is not UTF-8 are spelled out."""
    return path.encode(errors="backslashreplace").decode()


def name_text(name: str) -> str:
    """A name or path as `repr` shows it, with the middle of a long one left out."""
    text = repr(name)
    return text if len(text) <= NAME_LENGTH else f"{text[: NAME_LENGTH // 2]}...{text[-NAME_LENGTH // 2 :]}"


class KafkaLogError(Exception):
    """Everything that kafkalog raises on purpose."""


class UsageError(KafkaLogError, ValueError):
    """An argument that is not allowed; the message lists what is."""


class StorageError(KafkaLogError, OSError):
    """The bytes could not be read, or (`is_of_output`) written."""

    is_of_output = False

    def __init__(self, message: str, *, file: str | None = None) -> None:
        super().__init__(path_text(message))
        self.file = file

    def __str__(self) -> str:
        return str(self.args[0])


class NoLogs(StorageError):
    """The path exists but holds no log."""


class CodecError(KafkaLogError):
    """Compressed bytes that do not decompress. `reason` is a reason code."""

    def __init__(self, message: str, reason: str = "codec") -> None:
        super().__init__(message, reason)
        self.message = message
        self.reason = reason

    def __str__(self) -> str:
        return self.message


class OutputFull(CodecError):
    """The decompressed bytes do not fit into the target buffer."""

    def __init__(self, message: str = "the target buffer is too small") -> None:
        super().__init__(message, "decompressed-limit")
        self.args = (message,)


class CodecMissing(CodecError):
    """The library of a codec is not installed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "codec")
        self.args = (message,)


class SegmentError(KafkaLogError):
    """Bad data in one file: what, where, and between which offsets."""

    reason: str = ""
    file: str = ""
    position: int = -1

    def __init__(
        self,
        reason: str,
        *,
        file: str = "",
        position: int = -1,
        length: int = -1,
        base_offset: int = -1,
        last_offset: int = -1,
        at_tail: bool = False,
        expected: object = None,
        found: object = None,
        detail: str = "",
    ) -> None:
        assert reason in REASONS, reason
        self.reason = reason
        self.file = file
        self.position = position
        self.length = length
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.at_tail = at_tail
        self.expected = expected
        self.found = found
        self.detail = detail
        super().__init__(self._message())

    def _message(self) -> str:
        where = path_text(self.file) or "<bytes>"
        if self.position >= 0:
            where += f" at byte {self.position}"
        parts = [f"{where}: {self.reason}: {REASONS[self.reason].about}"]
        if self.base_offset >= 0:
            last = f" to {self.last_offset}" if self.last_offset > self.base_offset else ""
            parts.append(f"offsets {self.base_offset}{last}")
        values = [f"{word} {value}" for word, value in (("expected", self.expected), ("found", self.found)) if value is not None]
        if values:
            parts.append(", ".join(values))
        if self.detail:
            parts.append(self.detail)
        return "; ".join(parts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.reason!r}, file={name_text(self.file)}, position={self.position})"

    def __reduce__(self) -> tuple[object, ...]:
        fields = {name: value for name, value in self.__dict__.items() if name != "reason"}
        return (_rebuild, (type(self), self.reason, fields))


def _rebuild(kind: type[SegmentError], reason: str, fields: dict[str, object]) -> SegmentError:
    return kind(reason, **fields)  # type: ignore[arg-type]


class TornTail(SegmentError):
    """The file ends inside an entry, or in zeros."""


class CorruptBatch(SegmentError):
    """An entry that cannot be what its writer stored."""


class LimitExceeded(SegmentError):
    """An entry that asks for more than the limits allow."""


class UnsupportedFormat(SegmentError):
    """Not one of Kafka's files, or a newer version of one."""


class NotANumber(UnsupportedFormat):
    """A line of a checkpoint with other text where a number belongs; Kafka distinguishes it from other faults of the file."""


class SegmentChanged(SegmentError):
    """The file shrank or was replaced while it was read."""


class LogRefusal(KafkaLogError):
    """A call that the rules of Kafka's log forbid. `kafka_name` is the exception that a broker's engine throws for it."""

    kafka_name: ClassVar[str] = "KafkaException"


class LogStorageFailure(LogRefusal):
    """The log cannot be used: its directory failed."""

    kafka_name = "KafkaStorageException"


class InvalidArgument(LogRefusal):
    """An argument that the engine does not accept."""

    kafka_name = "IllegalArgumentException"


class InvalidNumber(InvalidArgument):
    """A checkpoint with other text where a number belongs."""

    kafka_name = "NumberFormatException"


class InvalidState(LogRefusal):
    """A call that makes no sense in the state that the log is in."""

    kafka_name = "IllegalStateException"


class CorruptRecord(LogRefusal):
    """Bytes that are not an entry, or whose checksum does not match."""

    kafka_name = "CorruptRecordException"


class InvalidRecord(LogRefusal):
    """An intact entry that breaks a rule."""

    kafka_name = "InvalidRecordException"


class InvalidTimestamp(LogRefusal):
    """A timestamp too far from the broker's clock."""

    kafka_name = "InvalidTimestampException"


class RecordValidation(LogRefusal):
    """Records that were refused one by one: `cause`, and `record_errors` with the number and the fault of each."""

    kafka_name = "RecordValidationException"

    def __init__(self, cause: LogRefusal, record_errors: Sequence[tuple[int, str]]) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.record_errors = tuple(record_errors)


class RecordTooLarge(LogRefusal):
    """A batch above max.message.bytes."""

    kafka_name = "RecordTooLargeException"


class RecordBatchTooLarge(LogRefusal):
    """More bytes in one call than a segment may hold."""

    kafka_name = "RecordBatchTooLargeException"


class UnsupportedForMessageFormat(LogRefusal):
    """Something that the target message format cannot hold."""

    kafka_name = "UnsupportedForMessageFormatException"


class BrokenSnappy(LogRefusal):
    """A snappy block of impossible size; Kafka's library throws an error of its own for it."""

    kafka_name = "SnappyError"


class OffsetOutOfRange(LogRefusal):
    """An offset that the log does not hold."""

    kafka_name = "OffsetOutOfRangeException"


class OffsetsOutOfOrder(LogRefusal):
    """Offsets of a replicated set that do not increase."""

    kafka_name = "OffsetsOutOfOrderException"


class UnexpectedAppendOffset(LogRefusal):
    """A replicated set that begins before the end of the log."""

    kafka_name = "UnexpectedAppendOffsetException"


class InvalidOffset(LogRefusal):
    """An offset that an index cannot take."""

    kafka_name = "InvalidOffsetException"


class SegmentOffsetOverflow(LogRefusal):
    """An offset too far from the base offset of its segment. `segment` is that segment: opening a log splits it."""

    kafka_name = "LogSegmentOffsetOverflowException"

    def __init__(self, message: str, segment: object) -> None:
        super().__init__(message)
        self.segment = segment


class IndexOffsetOverflow(LogRefusal):
    """An offset too far from the base offset of its index."""

    kafka_name = "IndexOffsetOverflowException"


class IndexOverflow(LogRefusal):
    """An index whose file has no room for one more entry."""

    kafka_name = "BufferOverflowException"


class MissingEntry(LogRefusal):
    """No entry where the log needs one."""

    kafka_name = "NoSuchElementException"


class CorruptIndex(LogRefusal):
    """An index file that cannot be what was written; it is rebuilt."""

    kafka_name = "CorruptIndexException"


class OutOfOrderSequence(LogRefusal):
    """Sequence numbers of an idempotent producer that do not follow the last ones."""

    kafka_name = "OutOfOrderSequenceException"


class InvalidProducerEpoch(LogRefusal):
    """A producer that a newer one with the same id has fenced."""

    kafka_name = "InvalidProducerEpochException"


class InvalidTxnState(LogRefusal):
    """A batch that does not match the state of its producer's transaction."""

    kafka_name = "InvalidTxnStateException"


class TransactionCoordinatorFenced(LogRefusal):
    """A marker of a coordinator that a newer one has fenced."""

    kafka_name = "TransactionCoordinatorFencedException"


class InconsistentTopicId(LogRefusal):
    """The folder belongs to another topic of that name."""

    kafka_name = "InconsistentTopicIdException"


class PolicyViolation(LogRefusal):
    """An operation that the topic's cleanup.policy forbids."""

    kafka_name = "PolicyViolationException"


class CleaningFailed(LogRefusal):
    """A log whose dirty part cannot be determined; `__cause__` says why."""

    kafka_name = "LogCleaningException"
