"""Where the files of a run go: Parquet in folders by topic and day, named after their first record.

Files are named as Kafka names its segments: `orders-0-00000000000000004711.parquet`. A record is in one file only, so the name is
unique in its folder, and the same however often the task runs. An offset that is ingested again, after a truncation, is in a file
of another name: a run that was suspended long before, and continues, may still delete the old one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkalog.errors import path_text
from kafkalog.format.batch import NO_TIMESTAMP
from kafkalog.storage.unfinished import NAME_BYTES

from .manifest import TABLE, staging_folder

DAMAGED: Final = "_damaged"
SUPERSEDED: Final = "_superseded"
GENERATION: Final = "generation"
DIGEST_LETTERS: Final = 16
HOUR_MS: Final = 3_600_000
GRAIN_MS: Final = {"day": 24 * HOUR_MS, "hour": HOUR_MS}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# The range of a date: the years 1 to 9999.
FIRST_MS: Final = (datetime(1, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
LAST_MS: Final = (datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
# How Hive spells null; readers read it as null.
UNKNOWN_TIME: Final = "__HIVE_DEFAULT_PARTITION__"
NO_BUCKET: Final = -(1 << 62)


class Edition(NamedTuple):
    """The log that records are from: how often its topic was created again, and how often it was truncated since."""

    generation: int = 0
    truncations: int = 0


class DataFile(NamedTuple):
    """A file of records: what it begins with, and which attempt of a task writes it, with which number."""

    topic: str
    partition: int
    edition: Edition
    bucket: int
    first_offset: int
    attempt: str
    number: int


class Layout(Protocol):
    """Where the files of a run go, and what their rows look like. Places are pairs: the final path, and where it is written."""

    def data_file(self, file: DataFile) -> tuple[str, str]: ...

    def damaged_file(self, group: str, attempt: str) -> tuple[str, str]:
        """The place for damaged ranges of the topics in a group."""
        ...

    def damage_group(self, topic: str) -> str:
        """The topics that share a file of damaged ranges share this."""
        ...

    def shaped(self, topic: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as they are stored."""
        ...


@dataclass(frozen=True)
class FolderLayout:
    """Folders of Parquet by topic and day. Files are staged where no reader looks, and moved after the commit."""

    run: str
    by: str

    def data_file(self, file: DataFile) -> tuple[str, str]:
        folder = f"{topic_folder(file.topic)}/{folder_of(file.bucket, self.by)}"
        name = file_name(file.topic, file.partition, file.edition, file.first_offset)
        return f"{folder}/{name}", f"{staging_folder(self.run)}/{file.attempt}/{file.number:06}.parquet"

    def damaged_file(self, group: str, attempt: str) -> tuple[str, str]:
        name = f"{self.run}-{attempt.partition('-')[0]}.parquet"
        return f"{DAMAGED}/{name}", f"{staging_folder(self.run)}/{attempt}/damaged.parquet"

    def damage_group(self, topic: str) -> str:
        return ""

    def shaped(self, topic: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows


# -- names of folders and files --------------------------------------------------------------------------------------------------

_ESCAPED: Final = frozenset("\"#%'*/:=?\\{}[]^\x7f") | {chr(code) for code in range(0x20)}


def escaped(topic: str) -> str:
    """A topic as the value in the name of a partition folder, escaped as Hive and Spark do."""
    return "".join(_escaped_letters(topic))


def _escaped_letters(topic: str) -> list[str]:
    return [f"%{ord(letter):02X}" if letter in _ESCAPED else letter for letter in path_text(topic)]


def topic_folder(topic: str) -> str:
    """The folder of a topic's table. Every name that Kafka allows fits; a longer one is cut, and marked by a digest."""
    return f"{TABLE}{_fitting(topic, _escaped_letters(topic), NAME_BYTES - len(TABLE))}"


def file_name(topic: str, partition: int, edition: Edition, first_offset: int) -> str:
    """The name of a file after its first record; a long topic is cut, and marked by a digest."""
    generation = f"-{edition.generation}" if edition.generation else ""
    truncations = f"-t{edition.truncations}" if edition.truncations else ""
    rest = f"-{partition}{generation}-{first_offset:020}{truncations}.parquet"
    letters = _escaped_letters(topic)
    if letters[0] in ("_", "."):  # readers skip names that start so
        letters[0] = f"%{ord(letters[0]):02X}"
    return _fitting(topic, letters, NAME_BYTES - len(rest)) + rest


def _fitting(topic: str, letters: Sequence[str], limit: int) -> str:
    """The letters, if they have at most `limit` bytes; else as many whole ones as leave room for a digest of the topic."""
    sizes = [len(letter.encode("utf-8", "surrogateescape")) for letter in letters]
    if sum(sizes) <= limit:
        return "".join(letters)
    digest = f"~{hashlib.sha256(topic.encode('utf-8', 'surrogateescape')).hexdigest()[:DIGEST_LETTERS]}"
    room = limit - len(digest)
    count = sum(size <= room for size in accumulate(sizes))
    return "".join(letters[:count]) + digest


# -- days and hours ------------------------------------------------------------------------------------------------------------


def split_by_time(batch: pa.RecordBatch, grain: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The buckets of the batch's records, days or hours since 1970, each with its records in order."""
    if not batch.num_rows:
        return
    milliseconds = _milliseconds(batch.column("timestamp"))
    lowest, highest = _buckets(np.array([milliseconds.min(), milliseconds.max()]), GRAIN_MS[grain]).tolist()
    if lowest == highest != NO_BUCKET:
        yield lowest, batch
        return
    numbers = _buckets(milliseconds, GRAIN_MS[grain])
    for number in np.unique(numbers).tolist():
        rows = np.flatnonzero(numbers == number)
        first, last = int(rows[0]), int(rows[-1])
        whole = last - first + 1 == len(rows)
        yield number, batch.slice(first, len(rows)) if whole else batch.take(pa.array(rows))


def bucket_of(rows: pa.Table, grain: str) -> int:
    """The bucket of rows that all have the same."""
    first = rows.column("timestamp")[:1].combine_chunks().cast(pa.timestamp("ms", "UTC"))
    return int(_buckets(_milliseconds(first), GRAIN_MS[grain])[0])


def _milliseconds(times: pa.Array) -> NDArray[np.int64]:
    stored = times.cast(pa.int64())
    milliseconds: NDArray[np.int64] = (stored.fill_null(NO_TIMESTAMP) if stored.null_count else stored).to_numpy()
    return milliseconds


def _buckets(milliseconds: NDArray[np.int64], grain_ms: int) -> NDArray[np.int64]:
    """The number of the day or hour since 1970 of each time; `NO_BUCKET` where there is none."""
    known = (milliseconds != NO_TIMESTAMP) & (milliseconds >= FIRST_MS) & (milliseconds <= LAST_MS)
    numbers: NDArray[np.int64] = milliseconds // grain_ms
    return numbers if known.all() else np.where(known, numbers, NO_BUCKET)


@lru_cache(4096)
def folder_of(number: int, grain: str) -> str:
    """The folder of a bucket, such as `day=2026-01-31`."""
    if number == NO_BUCKET:
        return f"day={UNKNOWN_TIME}/hour={UNKNOWN_TIME}" if grain == "hour" else f"day={UNKNOWN_TIME}"
    moment = EPOCH + timedelta(milliseconds=number * GRAIN_MS[grain])
    day = f"day={moment.year:04}-{moment.month:02}-{moment.day:02}"
    return f"{day}/hour={moment.hour:02}" if grain == "hour" else day
