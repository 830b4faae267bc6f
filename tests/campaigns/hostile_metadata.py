"""Records that nobody but an enemy writes, under a right checksum: the state that Kafka would have, or a clear error.

Part of `python -m tests.campaigns.cluster_damage`, and whole in the suite. Each case is read by every command that replays
metadata or groups: the tables, `cluster`, `groups`, and the plan of `cluster rebuild`.
"""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafkalog.clusters.groups import read_groups
from kafkalog.clusters.metadata import read_image
from kafkalog.errors import KafkaLogError, Limits
from kafkalog.format import control
from kafkalog.format.reference import Record, encode_batch, encode_control_batch
from kafkalog.format.varint import encode_uvarint
from kafkalog.log.folders import find_partitions
from kafkalog.log.report import ReadReport
from kafkalog.payloads.cluster_image import ClusterImage
from kafkalog.payloads.message_writing import encode_cluster_metadata
from kafkalog.tables.cluster_rows import ClusterSource, cluster_rows
from kafkalog.tables.logs import Logs
from kafkalog.tables.rows import row_batches
from kafkalog.tables.schemas import GROUP_TABLES, METADATA_TABLES, TABLES
from kafkalog.tasks.cluster import topic_summaries
from kafkalog.tasks.cluster_rebuild import RebuildOptions, rebuild_disks
from kafkalog.tasks.cluster_rebuild.disks import read_disk
from kafkalog.tasks.groups import groups_of
from tests.builders.memory_store import MemoryStore
from tests.builders.simulated_disk import SimulatedFs
from tests.builders.small_clusters import LEVELS, OTHER_ID, TOPIC_ID, CopyFiles, disk_files
from tests.builders.small_logs import made_batch

DISK = "/disks/b1"
METADATA_LOG = f"{DISK}/__cluster_metadata-0/{0:020}.log"
OFFSETS_FOLDER = f"{DISK}/__consumer_offsets-0"
ERROR, STATE, UNKNOWN, DANGLING = "error", "state", "unknown", "dangling"
NO_UTF8 = b"\xff\xed\xa0\x80\x1b[2J"
MOST_PARTITION = (1 << 31) - 1
LONG = 1 << 17
MANY = 3000
MOST_SECONDS = 5.0


@dataclass
class Tally:
    """What came of the cases; `wrong` are those that must not be."""

    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def add(self, case: str, outcome: Callable[[], tuple[str, str]]) -> None:
        """Count a case by what is found, and by what is wrong with it."""
        started = time.process_time()
        try:
            found, wrong = outcome()
        except KafkaLogError as error:
            found, wrong = type(error).__name__, ""
        except Exception as error:
            found, wrong = "traceback", f"{type(error).__name__}: {error}"
        taken = time.process_time() - started
        self.slowest = max(self.slowest, taken)
        self.outcomes[found] += 1
        if wrong or taken > MOST_SECONDS:
            self.wrong.append(f"{case}: {wrong or f'{taken:.1f} s'}")

    def merge(self, other: Tally) -> None:
        self.outcomes += other.outcomes
        self.wrong += other.wrong
        self.slowest = max(self.slowest, other.slowest)


@dataclass(frozen=True)
class Case:
    """Records after those of an intact log, and what has to come of them: an error, or a state with a word about them."""

    name: str
    batches: Callable[[int], bytes]  # from an offset on
    outcome: str


def show_everything(image: ClusterImage) -> None:
    """Every table of an image, and the summary of each topic."""
    source = ClusterSource([], Limits(), ReadReport())
    vars(source)["image"] = image
    for table in METADATA_TABLES:
        for _ in row_batches(cluster_rows(table, source, None, None), TABLES[table].schema()):
            pass
    topic_summaries(image)


# Metadata


def metadata(kind: str, version: int = 0, /, **values: Any) -> bytes:
    return encode_cluster_metadata(kind, version, values)


def framed(type: int, version: int, content: bytes, frame: int = 1) -> bytes:
    return b"".join(map(encode_uvarint, (frame, type, version))) + content


def log_of(values: Sequence[bytes], offset: int) -> bytes:
    return encode_batch([Record(offset + number, 0, None, value) for number, value in enumerate(values)], leader_epoch=1)


def _case(name: str, outcome: str, *values: bytes) -> Case:
    return Case(name, partial(log_of, values), outcome)


def _control(name: str, kind: int, value: bytes, outcome: str) -> Case:
    def batch(offset: int) -> bytes:
        return encode_control_batch(struct.pack(">hh", 0, kind), value, offset=offset, timestamp=0, leader_epoch=1)

    return Case(name, batch, outcome)


TOPIC = metadata("TopicRecord", name="orders", topicId=TOPIC_ID)
PARTITION = {"topicId": TOPIC_ID, "replicas": [1], "isr": [1], "leader": 1, "leaderEpoch": 1, "partitionEpoch": 1}
INTACT = [
    *(metadata("FeatureLevelRecord", name=name, featureLevel=level) for name, level in LEVELS.items()),
    TOPIC,
    metadata("PartitionRecord", partitionId=0, **PARTITION),
]
BEGIN, END, ABORT = (metadata(f"{name}TransactionRecord") for name in ("Begin", "End", "Abort"))
OTHER = metadata("TopicRecord", name="users", topicId=OTHER_ID)
HUGE = b"\xff\xff\xff\xff\x07"  # 2**31 - 1
MINUS_ONE = b"\xff\xff\xff\xff\x0f"


def _uvarint_string(content: bytes) -> bytes:
    return encode_uvarint(len(content) + 1) + content


def tagged_cases() -> Iterable[Case]:
    """Tagged fields that lie about themselves. A size that is too small for a known field is ignored, as Kafka does."""
    bare = TOPIC[:-1]
    yield _case("2**31 - 1 tagged fields", ERROR, bare + HUGE)
    yield _case("-1 tagged fields", STATE, bare + MINUS_ONE)
    yield _case("an unknown tag of 2**31 - 1 bytes", ERROR, bare + b"\x01\x63" + HUGE)
    yield _case("an unknown tag of -1 bytes", ERROR, bare + b"\x01\x63" + MINUS_ONE)
    yield _case("an unknown tag of more bytes than are left", ERROR, bare + b"\x01\x63\x05\x00")
    yield _case("an unknown tag of its size", STATE, bare + b"\x01\x63\x02\x00\x00")
    yield _case("bytes after the tagged fields", ERROR, bare + b"\x00\x00")
    yield _case("a hundred thousand unknown tags", STATE, bare + encode_uvarint(LONG) + b"\x63\x00" * LONG)
    change = metadata("PartitionChangeRecord", partitionId=0, topicId=TOPIC_ID)[:-1]
    yield _case("isr of 2**31 - 1 replicas", ERROR, change + b"\x01\x00\x05" + HUGE)
    yield _case("a tag of a later version", ERROR, change + b"\x01\x08\x01\x01")
    yield _case("a tag twice", STATE, change + b"\x02\x01\x04\x00\x00\x00\x02\x01\x04\x00\x00\x00\x03")


def kind_cases() -> Iterable[Case]:
    """Types and versions that no release has; a later one may write some, so they count and change nothing."""
    for number in (6, 29, 999, 32767):
        yield _case(f"type {number}", UNKNOWN, framed(number, 0, b"\x00"))
    for version in (1, 32767):
        yield _case(f"version {version} of a topic", UNKNOWN, framed(2, version, b"\x00"))
    for frame in (0, 2, 32767):
        yield _case(f"frame version {frame}", UNKNOWN, framed(2, 0, TOPIC[3:], frame))
    yield _case("type 40000", ERROR, framed(40000, 0, b"\x00"))
    yield _case("type -1", UNKNOWN, b"\x01" + MINUS_ONE + b"\x00")
    yield _case("an empty value", ERROR, b"")
    yield _case("a frame version alone", ERROR, b"\x01")
    yield _case("a varint without an end", ERROR, b"\xff" * 9)
    yield _case("a long row of zeros", UNKNOWN, bytes(LONG))
    yield Case("no value", lambda offset: encode_batch([Record(offset, 0, b"k", None)], leader_epoch=1), UNKNOWN)


def subject_cases() -> Iterable[Case]:
    """Things that are not there, numbers that nothing has, and names that no file has."""
    elsewhere = {**PARTITION, "topicId": OTHER_ID}
    yield _case("a partition of no topic", DANGLING, metadata("PartitionRecord", partitionId=0, **elsewhere))
    yield _case("a change of no topic", DANGLING, metadata("PartitionChangeRecord", partitionId=0, topicId=OTHER_ID))
    yield _case("a change of no partition", DANGLING, metadata("PartitionChangeRecord", partitionId=7, topicId=TOPIC_ID))
    yield _case("no topic removed", DANGLING, metadata("RemoveTopicRecord", topicId=OTHER_ID))
    yield _case("no broker fenced", DANGLING, metadata("FenceBrokerRecord", id=-9, epoch=1))
    for number in (-1, -MOST_PARTITION - 1, MOST_PARTITION):
        yield _case(f"partition {number}", STATE, metadata("PartitionRecord", partitionId=number, **PARTITION))
    yield _case("a topic's name twice", STATE, metadata("TopicRecord", name="orders", topicId=OTHER_ID))
    yield _case("a topic's id twice", STATE, metadata("TopicRecord", name="users", topicId=TOPIC_ID))
    name = framed(2, 0, _uvarint_string(NO_UTF8) + bytes(16) + b"\x00")
    yield _case("a topic's name that is no UTF-8", STATE, name)
    value = framed(4, 0, b"\x02" + _uvarint_string(b"orders") + _uvarint_string(NO_UTF8) + _uvarint_string(NO_UTF8) + b"\x00")
    yield _case("a setting that is no UTF-8", STATE, value)
    yield _case("a name of 40,000 bytes", ERROR, framed(2, 0, _uvarint_string(b"x" * 40_000) + bytes(16) + b"\x00"))
    setting = {"resourceName": "gone", "name": "retention.ms", "value": "1"}
    for kind in (2, -128):
        yield _case(f"a setting of nothing, of kind {kind}", STATE, metadata("ConfigRecord", resourceType=kind, **setting))
    yield _case("replicas 2**31 - 1", ERROR, framed(3, 0, bytes(4) + bytes(16) + HUGE))
    for level in (-32768, 32767):
        feature = metadata("FeatureLevelRecord", name="metadata.version", featureLevel=level)
        yield _case(f"metadata.version {level}", STATE, feature)
    for number in (-1, (1 << 63) - 1, -(1 << 63)):
        ids = metadata("ProducerIdsRecord", brokerId=1, brokerEpoch=1, nextProducerId=number)
        yield _case(f"producer ids from {number} on", STATE, ids)
    entity = [{"entityType": "user", "entityName": None}, {"entityType": "user", "entityName": "me"}]
    quota = metadata("ClientQuotaRecord", entity=entity, key="rate", value=float("nan"), remove=False)
    yield _case("a quota that is no number, for two users", STATE, quota)
    yield _case("a quota for nobody", STATE, metadata("ClientQuotaRecord", entity=[], key="", value=float("inf"), remove=False))


def transaction_cases() -> Iterable[Case]:
    """Markers that Kafka refuses: the transaction, or its absence, goes on as before."""
    yield _case("an end without a begin", DANGLING, END, OTHER)
    yield _case("an abort without a begin", DANGLING, ABORT, OTHER)
    yield _case("a begin in a transaction", DANGLING, BEGIN, OTHER, BEGIN, END)
    yield _case("a thousand begins and ends", STATE, *[BEGIN, OTHER, END] * 1000)
    yield _case("a thousand begins", DANGLING, *[BEGIN] * 1000)
    yield _case("begin, abort, end", DANGLING, BEGIN, ABORT, END)
    yield _case("a begin at the end", STATE, BEGIN, OTHER)


def control_cases() -> Iterable[Case]:
    yield _control("voters 2**31 - 1", control.KRAFT_VOTERS, b"\x00\x00" + HUGE, ERROR)
    yield _control("voters cut off", control.KRAFT_VOTERS, b"\x00\x00\x03\x00", ERROR)
    yield _control("a leader cut off", control.LEADER_CHANGE, b"\x00\x00", ERROR)
    yield _control("a snapshot's header inside the log", control.SNAPSHOT_HEADER, bytes(11), STATE)
    yield _control("a snapshot's footer inside the log", control.SNAPSHOT_FOOTER, bytes(3), STATE)
    yield _control("kraft.version cut off", control.KRAFT_VERSION, b"\x00", ERROR)
    yield _control("an unknown control record", 99, b"", STATE)
    yield _control("a control record's type -1", -1, b"", STATE)


def metadata_cases() -> list[Case]:
    return [*tagged_cases(), *kind_cases(), *subject_cases(), *transaction_cases(), *control_cases()]


def metadata_files(case: Case) -> dict[str, bytes]:
    files = disk_files(DISK, 1, {"orders-0": CopyFiles(made_batch(0, leader_epoch=1), epochs=[(1, 0)])})
    return {**files, METADATA_LOG: log_of(INTACT, 0) + case.batches(len(INTACT))}


def read_metadata_case(case: Case) -> tuple[str, str]:
    """(what came of it, what is wrong with that)"""
    store = MemoryStore(metadata_files(case))
    try:
        read = read_image(find_partitions(store, DISK), report=ReadReport())
    except KafkaLogError as error:
        return "error", f"nothing is left: {error}"
    found = _word_about(read.image, is_error=bool(read.problems))
    if found == ERROR and read.image.offset != len(INTACT) - 1:
        return found, f"the state at {read.image.offset} is not the one before the record"
    show_everything(read.image)
    plan_rebuild(store)
    return found, "" if found == case.outcome else f"{found} instead of {case.outcome}"


def _word_about(image: ClusterImage, *, is_error: bool) -> str:
    if is_error:
        return ERROR
    return UNKNOWN if image.unknown else DANGLING if image.dangling else STATE


def plan_rebuild(store: MemoryStore) -> None:
    """The plan of a rebuild; an error of ours is an answer, too."""
    try:
        rebuild_disks([read_disk(store, DISK)], "/out", RebuildOptions(dry_run=True), fs=SimulatedFs(dict(store.files)))
    except KafkaLogError:
        return


# Groups


def _string(content: bytes) -> bytes:
    return struct.pack(">h", len(content)) + content


def commit(
    group: bytes = b"g", topic: bytes = b"orders", partition: int = 0, offset: int = 5, time: int = 1, version: int = 3
) -> tuple[bytes, bytes]:
    key = struct.pack(">h", 1) + _string(group) + _string(topic) + struct.pack(">i", partition)
    return key, struct.pack(">hqi", version, offset, -1) + _string(b"") + struct.pack(">q", time)


def _groups_case(name: str, outcome: str, *records: tuple[bytes | None, bytes | None], producer_id: int = -1) -> Case:
    def batches(offset: int) -> bytes:
        stored = [Record(offset + number, 0, key, value) for number, (key, value) in enumerate(records)]
        first = min(producer_id, 0)  # epoch and sequence; -1 without a producer
        return encode_batch(
            stored,
            leader_epoch=1,
            transactional=producer_id >= 0,
            producer_id=producer_id,
            producer_epoch=first,
            base_sequence=first,
        )

    return Case(name, batches, outcome)


def _marker(name: str, value: bytes, outcome: str) -> Case:
    def batch(offset: int) -> bytes:
        key = struct.pack(">hh", 0, control.COMMIT)
        return encode_control_batch(key, value, offset=offset, timestamp=0, leader_epoch=1, producer_id=9, producer_epoch=0)

    return Case(name, batch, outcome)


def group_cases() -> list[Case]:
    key, value = commit()
    group = struct.pack(">h", 2) + _string(b"g")
    member = struct.pack(">hh", 3, 8) + b"consumer" + struct.pack(">i", 1) + b"\xff\xff\xff\xff" + bytes(8)
    return [
        _groups_case("type 99", UNKNOWN, (struct.pack(">h", 99), value)),
        _groups_case("type -1", UNKNOWN, (struct.pack(">h", -1), value)),
        _groups_case("version 99", UNKNOWN, (key, struct.pack(">h", 99) + value[2:])),
        _groups_case("version -1", UNKNOWN, (key, struct.pack(">h", -1) + value[2:])),
        _groups_case("no key", UNKNOWN, (None, value)),
        _groups_case("an empty key", UNKNOWN, (b"", value)),
        _groups_case("an empty value", UNKNOWN, (key, b"")),
        _groups_case("a group's name of 32,767 bytes that are not there", UNKNOWN, (struct.pack(">hh", 1, 32767), value)),
        _groups_case("a value cut off", UNKNOWN, (key, value[:9])),
        _groups_case("2**31 - 1 members", UNKNOWN, (group, member + struct.pack(">i", MOST_PARTITION))),
        _groups_case("-2 members", UNKNOWN, (group, member + struct.pack(">i", -2))),
        _groups_case("names that are no UTF-8", STATE, commit(NO_UTF8, NO_UTF8)),
        *(_groups_case(f"partition {number}", STATE, commit(partition=number)) for number in (-1, MOST_PARTITION)),
        _groups_case("partition 2**31 - 1 of the offsets", STATE, commit(topic=b"__consumer_offsets", partition=MOST_PARTITION)),
        *(_groups_case(f"offset {offset}", STATE, commit(offset=offset)) for offset in (-1, -(1 << 63), (1 << 63) - 1)),
        *(_groups_case(f"time {time}", STATE, commit(time=time)) for time in (-(1 << 63), (1 << 63) - 1)),
        _groups_case("a tombstone of nothing", STATE, (commit(b"nobody")[0], None)),
        _groups_case("a pending commit", STATE, commit(), producer_id=9),
        _groups_case("thousands of pending commits of one partition", STATE, *[commit()] * MANY, producer_id=9),
        _groups_case("thousands of pending commits", STATE, *(commit(partition=n) for n in range(MANY)), producer_id=9),
        _marker("a marker of nobody", struct.pack(">hi", 0, 0), STATE),
        _marker("a marker cut off", b"\x00", UNKNOWN),
    ]


def group_files(case: Case) -> dict[str, bytes]:
    files = disk_files(DISK, 1, {"orders-0": CopyFiles(made_batch(0, leader_epoch=1), epochs=[(1, 0)])})
    intact = encode_batch([Record(0, 0, *commit(b"before", offset=3))], leader_epoch=1)
    return {**files, f"{OFFSETS_FOLDER}/{0:020}.log": intact + case.batches(1)}


def read_group_case(case: Case) -> tuple[str, str]:
    store = MemoryStore(group_files(case))
    partitions = find_partitions(store, DISK)
    image = read_groups(partitions, history=True, strict=True)
    found = UNKNOWN if image.unknown else STATE
    groups_of((DISK,), partitions, history=True).as_dict()
    for table in GROUP_TABLES:
        Logs(DISK, partitions).read(table, threads=1).read_all()
    plan_rebuild(store)
    if image.offsets["before"]["orders", 0].offset != 3:
        return found, "the offset that was committed before is lost"
    return found, "" if found == case.outcome else f"{found} instead of {case.outcome}"


def hostile() -> Tally:
    """All cases."""
    tally = Tally()
    for case in metadata_cases():
        tally.add(f"metadata: {case.name}", partial(read_metadata_case, case))
    for case in group_cases():
        tally.add(f"groups: {case.name}", partial(read_group_case, case))
    return tally
