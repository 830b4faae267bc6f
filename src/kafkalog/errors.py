"""The exception tree, the reason codes and the limits.

    KafkaLogError
    ├── UsageError            an argument nobody could honour: unknown table, column, codec, mode  (also a ValueError)
    ├── StorageError          the bytes could not be had: no such path, no permission, an I/O error (also an OSError)
    │   └── NoLogs            the path is there, but holds nothing that Kafka would call a log
    ├── CodecError            loose compressed bytes do not decompress; the segment layer adds file and position
    │   ├── OutputFull        the target buffer is too small; give more room or call it a limit
    │   └── CodecMissing      the library of that codec is not installed
    └── SegmentError          bad data, with file, byte position, reason code, expected and found
        ├── TornTail          the file ends inside an entry, or in zeros
        ├── CorruptBatch      an entry that cannot be what its writer stored
        ├── LimitExceeded     an entry that asks for more than the limits allow
        ├── UnsupportedFormat not a file of Kafka's, or one from the future
        └── SegmentChanged    the file shrank or was replaced while it was read

Bad data raises nothing outside this tree.
"""

from __future__ import annotations

from dataclasses import dataclass

# Stable reason codes, each with what it says and what a person can do about it. They are interface: reports, findings and
# exit messages carry them, so they are never renamed.
REASONS: dict[str, str] = {
    "crc": "the stored checksum does not fit the bytes",
    "inner-crc": "the checksum of a message inside a compressed set does not fit its bytes",
    "length": "the length field cannot be right",
    "magic": "the format version is none of 0, 1, 2",
    "codec": "the compressed bytes do not decompress",
    "codec-unknown": "the attributes name a codec that does not exist in this format",
    "nested": "a compressed message inside a compressed set",
    "count": "the record count does not fit the records",
    "varint": "a variable-length integer is too long",
    "record-structure": "a record does not fit its own length, or its batch",
    "control": "a control record without a readable key",
    "offset-range": "an offset is negative or beyond what the format can hold",
    "offset-order": "offsets go back",
    "gap": "offsets are missing between two batches of a log that was never compacted",
    "gap-at-end": "the segment ends before the next one begins",
    "epoch": "the leader epoch goes back, or contradicts the checkpoint",
    "unverified": "an intact batch between two damages, which may have been part of a value (--unverified keeps it)",
    "torn": "the file ends inside an entry",
    "torn-write": "an entry with a zeroed sector: written by halves",
    "zero-tail": "the file ends in zeros",
    "batch-limit": "a batch above the size limit",
    "decompressed-limit": "a batch that decompresses to more than the limit",
    "record-limit": "a record above the size limit",
    "headers-limit": "more headers in a record than the limit allows",
    "memory-limit": "the work needs more memory than the limit allows",
    "not-a-file": "not a regular file",
    "not-a-segment": "the bytes are not a Kafka log",
    "file-format": "an index, snapshot or checkpoint file that cannot be read as such",
    "version": "a format version from the future",
    "changed": "the file shrank or was replaced while it was read",
    "unreadable": "the bytes could not be read from the device",
}


@dataclass(frozen=True)
class Limits:
    """What one entry may ask for before anything is allocated; every field can be raised by the caller."""

    batch_bytes: int = 128 << 20
    decompressed_bytes: int = 256 << 20
    record_bytes: int = 128 << 20
    headers_per_record: int = 10_000


def path_text(path: str) -> str:
    """`path` as text that UTF-8 can hold: the bytes of a name that is not UTF-8 are spelled out."""
    return path.encode(errors="backslashreplace").decode()


class KafkaLogError(Exception):
    """Everything that kafkalog raises on purpose."""


class UsageError(KafkaLogError, ValueError):
    """An argument that cannot be honoured; the message lists what is allowed."""


class StorageError(KafkaLogError, OSError):
    """The bytes could not be had."""

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
    """The decompressed bytes do not fit the target buffer."""

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
        parts = [f"{where}: {self.reason}: {REASONS[self.reason]}"]
        if self.base_offset >= 0:
            last = f" to {self.last_offset}" if self.last_offset > self.base_offset else ""
            parts.append(f"offsets {self.base_offset}{last}")
        told = [f"{word} {value}" for word, value in (("expected", self.expected), ("found", self.found)) if value is not None]
        if told:
            parts.append(", ".join(told))
        if self.detail:
            parts.append(self.detail)
        return "; ".join(parts)

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
    """Not a file of Kafka's, or one from the future."""


class SegmentChanged(SegmentError):
    """The file shrank or was replaced while it was read."""
