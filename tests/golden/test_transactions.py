"""`kafkalog transactions` against a broker's own view: what a read_committed consumer returned, and its `.txnindex` files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kafkalog
from kafkalog.log.report import ReadReport
from kafkalog.tasks.transactions import STATES, PartitionTransactions, read_transactions
from tests.golden import sets
from tests.golden.expected import ExpectedPartition, read_era

INDEX_FIELDS = ("producer_id", "first_offset", "last_offset", "last_stable_offset")


def committed_view(folder: Path, found: PartitionTransactions) -> list[int]:
    """The offsets that these transactions leave to a read_committed consumer."""
    aborted = found.in_states(("aborted",))

    def is_seen(row: dict[str, Any]) -> bool:
        if row["offset"] >= found.last_stable_offset:
            return False
        return not row["is_transactional"] or not any(
            each.producer_id == row["producer_id"] and each.first_offset <= row["offset"] < each.marker_offset for each in aborted
        )

    rows = kafkalog.open(folder).read("records", ["offset", "producer_id", "is_transactional"]).read_all().to_pylist()
    return [row["offset"] for row in rows if is_seen(row)]


def indexed(partition: ExpectedPartition) -> list[tuple[int, ...]] | None:
    """The aborted transactions that Kafka's tool found in the `.txnindex` files; None without such a file."""
    dumps = [dump for name, dump in partition.index_dumps.items() if name.endswith(".txnindex")]
    if not dumps or not all(dump.complete for dump in dumps):
        return None
    return sorted(tuple(entry[name] for name in INDEX_FIELDS) for dump in dumps for entry in dump.entries)


def compare_with_index(
    partition: ExpectedPartition, found: PartitionTransactions, expected: list[tuple[int, ...]], counts: Counter[str]
) -> None:
    """Ours are in the index. What else is in it has no data left: cleaned away, or (0.11) a marker that ended nothing."""
    aborted = found.in_states(("aborted",))
    ours = {(each.producer_id, each.first_offset, each.marker_offset): each.last_stable_offset for each in aborted}
    theirs = {entry[:3]: entry[3] for entry in expected}
    assert ours.keys() <= theirs.keys(), partition.folder
    gone = theirs.keys() - ours.keys()
    if not gone:
        assert ours == theirs, partition.folder
    rows = read_transactional(partition.folder)
    for producer_id, first_offset, marker_offset in gone:
        assert not [row for row in rows if row[0] == producer_id and first_offset <= row[1] < marker_offset], partition.folder
    counts["indexed"] += len(theirs)
    counts["indexed without data"] += len(gone)


def read_transactional(folder: Path) -> list[tuple[int, int]]:
    rows = kafkalog.open(folder).read("records", ["producer_id", "offset", "is_transactional"]).read_all().to_pylist()
    return [(row["producer_id"], row["offset"]) for row in rows if row["is_transactional"]]


def compare(partition: ExpectedPartition, counts: Counter[str]) -> None:
    (found,) = read_transactions(kafkalog.open(partition.folder).partitions, ReadReport())
    counts.update(found.counts)
    counts["partitions"] += 1
    expected = indexed(partition)
    if expected is not None:
        compare_with_index(partition, found, expected, counts)
    if partition.committed_offsets is not None:
        start = found.start_offset
        ours_seen = [offset for offset in committed_view(partition.folder, found) if offset >= start]
        assert ours_seen == partition.committed_offsets, partition.folder
        counts["seen"] += len(ours_seen)


def test_transactions_agree_with_the_consumer_and_the_index_of_every_broker(golden: Callable[[str], Path]) -> None:
    counts: Counter[str] = Counter()
    for name in sets.eras():
        era = read_era(golden(name) / name)
        for partition in era.partitions:
            if partition.folder.is_dir() and not era.is_damaged(partition):
                compare(partition, counts)
    assert all(counts[state] for state in STATES)
    assert counts["indexed"] >= 1
    assert counts["seen"] >= 1
