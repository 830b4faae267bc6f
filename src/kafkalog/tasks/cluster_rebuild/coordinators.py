"""What the coordinators' own topics say about the cluster: producers' ids, kinds of groups, and which partitions there were.

A group lives in the partition of `__consumer_offsets` that the hash of its name gives, modulo the number of partitions; a
transactional id likewise in `__transaction_state`. So the names that are found tell how many partitions these topics have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from kafkalog.errors import CorruptBatch, KafkaLogError
from kafkalog.format.java import MAX_INT32, hash_of_text
from kafkalog.format.quantities import plural
from kafkalog.log.partition import Partition
from kafkalog.payloads.internal_topics import CoordinatorRecord, decode_consumer_offsets, decode_transaction_state
from kafkalog.tables.logs import Logs

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
COORDINATOR_TOPICS = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
OFFSET_COMMITS = (0, 1)
GROUP_METADATA = 2
MAX_PARTITIONS = 10_000  # of a coordinator's topic; the search for their number ends there
MOST_PARTITIONS = 100_000  # of any topic, far above what a cluster runs: a number beyond it is not believed


@dataclass
class CoordinatorFacts:
    """What was found in the coordinators' topics. `commits` are the live ones: (group, topic, partition)."""

    highest_producer_id: int = -1
    transaction_version: int = -1
    has_new_groups: bool = False
    commits: set[tuple[str, str, int]] = field(default_factory=set)
    beyond_belief: Counter[str] = field(default_factory=Counter)  # topic -> commits for partitions that no topic has
    names: dict[str, set[tuple[str, int]]] = field(default_factory=dict)  # topic -> (group or transactional id, partition)
    unread: list[str] = field(default_factory=list)

    def partition_count(self, topic: str, least: int) -> int | None:
        """The smallest number of partitions, from `least` on, that puts every name where it was found; None if none does."""
        found = self.names.get(topic, set())
        hashes = [(_java_abs(hash_of_text(name)), number) for name, number in found]
        for count in range(least, MAX_PARTITIONS):
            if all(code % count == number for code, number in hashes):
                return count
        return None

    def committed_partitions(self, topic: str) -> int:
        """How many partitions of a topic groups have committed offsets for: the highest number, plus one."""
        return self._committed.get(topic, 0)

    @cached_property
    def _committed(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for _, topic, number in self.commits:
            counts[topic] = max(counts.get(topic, 0), number + 1)
        return counts


def _java_abs(code: int) -> int:
    """As Kafka's Utils.abs: the smallest integer has no positive twin, and counts as 0."""
    return 0 if code == -MAX_INT32 - 1 else abs(code)


def read_coordinators(partitions: Iterable[Partition]) -> CoordinatorFacts:
    """The facts in these partitions of the coordinators' topics; what cannot be read is noted and left out."""
    facts = CoordinatorFacts()
    for partition in partitions:
        decode = _DECODERS.get(partition.topic)
        if decode is None or not partition.segments:
            continue
        try:
            for record in _records(partition, decode):
                _note(facts, partition, record)
        except KafkaLogError as error:
            facts.unread.append(f"{partition.folder}: {error}")
    for topic, count in facts.beyond_belief.items():
        facts.unread.append(f"{plural(count, 'committed offset')} of {topic}: for partitions that no topic has")
    return facts


Decode = Callable[[bytes, bytes | None], CoordinatorRecord]
_DECODERS: dict[str, Decode] = {OFFSETS_TOPIC: decode_consumer_offsets, TRANSACTIONS_TOPIC: decode_transaction_state}


def _records(partition: Partition, decode: Decode) -> Iterator[CoordinatorRecord]:
    for batch in Logs(partition.folder, [partition]).read("records", ["key", "value"], on_damage="skip"):
        for key, value in zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True):
            try:
                if key is not None:
                    yield decode(key, value)
            except CorruptBatch:
                continue


def _note(facts: CoordinatorFacts, partition: Partition, record: CoordinatorRecord) -> None:
    if partition.topic == TRANSACTIONS_TOPIC:
        name = record.key["transactionalId"]
        if record.value is not None:
            ids = (record.value.get(each, -1) for each in ("producerId", "previousProducerId", "nextProducerId"))
            facts.highest_producer_id = max(facts.highest_producer_id, *ids)
            facts.transaction_version = max(facts.transaction_version, record.version or 0)
    else:
        name = record.key["group"] if "group" in record.key else record.key["groupId"]
        if record.type in OFFSET_COMMITS:
            commit = name, record.key["topic"], record.key["partition"]
            if not 0 <= commit[2] < MOST_PARTITIONS:
                facts.beyond_belief[commit[1]] += 1
            else:
                (facts.commits.add if record.value is not None else facts.commits.discard)(commit)
        elif record.type != GROUP_METADATA:
            facts.has_new_groups |= record.value is not None
    facts.names.setdefault(partition.topic, set()).add((name, partition.partition))
