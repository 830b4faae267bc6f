"""The numbers of a report, against what the builders wrote."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kafkalog
from kafkalog.errors import UsageError
from kafkalog.format.reference import Record, encode_batch
from kafkalog.tasks import overview as task
from kafkalog.tasks.overview import Counted, OverviewChoices, OverviewPlan, count, part_of
from kafkalog.tasks.overview.observed import axis_bins
from kafkalog.tasks.overview.result import AXIS_BINS, Overview
from kafkalog.tasks.overview.spans import MOST_MOMENTS, TimeCounts
from tests.builders.small_logs import FIRST_TIME, made_batch, marker, transactional_batch, write_segment

NOW = FIRST_TIME + 3_600_000


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A topic of two segments and two epochs, one with transactions, one that a broker has deleted."""
    write_segment(tmp_path / "orders-0", 0, made_batch(0, leader_epoch=3), made_batch(10, leader_epoch=3))
    write_segment(tmp_path / "orders-0", 20, made_batch(20, leader_epoch=5))
    batches = (
        transactional_batch(0, 3, 7),
        marker(3, 7, commit=True),
        transactional_batch(4, 2, 7, 3),
        marker(6, 7, commit=False),
    )
    write_segment(tmp_path / "payments-0", 0, *batches, transactional_batch(7, 5, 8))
    write_segment(tmp_path / f"gone-0.{'0' * 31}7-delete", 0, made_batch(0))
    return tmp_path


def overview(paths: Any, *, on_progress: Any = None, **choices: Any) -> Overview:
    return task.overview(paths, OverviewChoices(**choices), on_progress=on_progress)


def named(found: Overview) -> dict[str, object]:
    return {str(each): each for each in found.partitions}


def test_segments_epochs_and_formats_are_those_of_the_entries(logs: Path) -> None:
    found = overview(logs, now_ms=NOW)
    assert [str(each) for each in found.partitions] == ["orders-0", "payments-0"]
    orders = found.partitions[0]
    assert [(each.base_offset, each.last_offset, each.batches, each.records) for each in orders.segments] == [
        (0, 19, 2, 20),
        (20, 29, 1, 10),
    ]
    assert [(each.epoch, each.first_offset, each.last_offset, each.records) for each in orders.epochs.values()] == [
        (3, 0, 19, 20),
        (5, 20, 29, 10),
    ]
    assert (orders.end_offset, orders.first_timestamp_ms, orders.last_timestamp_ms) == (30, FIRST_TIME, FIRST_TIME + 29)
    assert sum(each.size for each in orders.segments) == orders.size == found.formats["orders"][2].bytes
    assert [(each.topic, each.state) for each in found.deleted] == [("gone", "delete")]


def test_times_and_sizes_add_up_to_the_records(logs: Path) -> None:
    found = overview(logs, now_ms=NOW)
    total = found.profile.total
    assert sum(moment.records for moment in found.timeline.moments) == total.records == 42
    assert sum(moment.bytes for moment in found.timeline.moments) == total.bytes
    assert found.key_sizes.records == found.value_sizes.records == 40  # two are markers
    assert (found.key_sizes.smallest, found.key_sizes.largest) == (len(b"key-0"), len(b"key-29"))


@pytest.mark.parametrize("quick", [False, True])
def test_transactions_lie_on_the_axis_of_their_offsets(logs: Path, quick: bool) -> None:
    (axis,) = overview(logs, now_ms=NOW, quick=quick).transactions
    assert axis.counts == {"committed": 1, "aborted": 1, "open": 1}
    assert (axis.start_offset, axis.end_offset, axis.last_stable_offset) == (0, 12, 7)
    first_of = {state: bins.index(1) * 12 // AXIS_BINS for state, bins in axis.bins.items()}
    assert first_of == {"committed": 0, "aborted": 4, "open": 7}
    assert [each.producer_id for each in axis.open] == [8]


def test_an_axis_takes_offsets_beyond_its_ends() -> None:
    spans = np.array([[-5, 3], [90, 1 << 62]], np.int64)
    bins = axis_bins(spans, 0, 100)
    assert len(bins) == AXIS_BINS
    assert (bins[0], bins[AXIS_BINS // 2], bins[-1]) == (1, 0, 1)


def test_a_quick_overview_checks_nothing_and_counts_by_batch(logs: Path) -> None:
    found = overview(logs, now_ms=NOW, quick=True)
    assert found.checked is None
    assert found.profile.total.records == sum(moment.records for moment in found.timeline.moments) == 42
    assert found.key_sizes.records == 0


def test_damage_is_a_finding_and_left_out_of_the_counts(logs: Path) -> None:
    path = logs / "orders-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    found = overview(logs, now_ms=NOW)
    assert found.checked is not None
    assert "crc" in [finding.reason for finding in found.checked.errors]
    assert [dropped.reason for dropped in found.profile.report.dropped] == ["crc"]
    assert found.partitions[0].count.records == 20


def test_a_verdict_of_each_path_says_what_a_broker_will_do(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    whole = overview(logs, now_ms=NOW)
    assert [found.text for found in whole.verdicts] == [kafkalog.verify(logs).verdict.text]  # type: ignore[union-attr]
    other = tmp_path_factory.mktemp("other")
    path = write_segment(other / "users-0", 0, made_batch(0), made_batch(10))
    path.write_bytes(path.read_bytes()[:-9])
    both = overview([logs, other], now_ms=NOW)
    assert both.verdicts == (whole.verdicts[0], kafkalog.verify(other).verdict)
    assert "When a broker starts here" in kafkalog.report([logs, other], now_ms=NOW).html
    assert overview(logs, now_ms=NOW, quick=True).verdicts == ()


def test_several_paths_are_one_overview(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    write_segment(other / "users-0", 0, made_batch(0))
    found = overview([logs, other], now_ms=NOW)
    assert found.paths == (str(logs), str(other))
    assert list(found.topics) == ["orders", "payments", "users"]
    assert found.checked is not None
    assert found.checked.partitions == ["orders-0", "payments-0", "users-0"]
    chosen = overview([logs, other], topics="users", now_ms=NOW)
    assert list(named(chosen)) == ["users-0"]
    assert chosen.checked is not None
    assert chosen.checked.partitions == ["users-0"]
    with pytest.raises(UsageError, match="nothing"):
        overview([logs, other], topics="nothing")
    with pytest.raises(UsageError, match="at least one path"):
        overview([])


def test_progress_ends_at_the_total(logs: Path) -> None:
    seen: list[tuple[int, int]] = []
    found = overview(logs, now_ms=NOW, on_progress=lambda done, total: seen.append((done, total)))
    assert {total for _, total in seen} == {2 * found.size}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1][0] <= 2 * found.size


def test_spans_of_time_become_longer_when_there_are_too_many() -> None:
    times = TimeCounts()
    ones = np.ones(20_000, np.int64)
    timestamps = np.arange(20_000, dtype=np.int64) * 977_777_777
    times.add(timestamps, ones * 5, ones)
    times.add(np.full(3, -1), np.full(3, 7), np.ones(3, np.int64))
    found = times.result()
    assert len(found.moments) <= MOST_MOMENTS
    assert sum(moment.records for moment in found.moments) == 20_000
    assert sum(moment.bytes for moment in found.moments) == 100_000
    assert all(moment.start_ms % found.span_ms == 0 for moment in found.moments)
    assert (found.untimed_bytes, found.untimed_records) == (21, 3)


def test_a_report_says_what_it_is_and_writes_one_file(logs: Path, tmp_path: Path) -> None:
    found = kafkalog.report(logs, now_ms=NOW, quick=True)
    assert repr(found).startswith(f"Report('{logs}', 2 partitions, ")
    found.write(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == found.html
    assert repr(found.overview).endswith("42 records, not checked)")


def test_one_record_of_another_century_takes_no_room(tmp_path: Path) -> None:
    records = [Record(0, 1 << 62, b"k", b"v"), Record(1, FIRST_TIME, b"k", b"v")]
    write_segment(tmp_path / "late-0", 0, encode_batch(records))
    found = overview(tmp_path, now_ms=NOW)
    assert [moment.records for moment in found.timeline.moments] == [1, 1]
    assert "after 9999" in kafkalog.report(tmp_path, now_ms=NOW).html


def test_parts_add_up_to_the_whole_wherever_they_were_counted(logs: Path) -> None:
    write_segment(logs / "orders-1", 0, made_batch(0, 40), made_batch(40, 3, codec=4))
    write_segment(logs / "users-0", 0, *(made_batch(at * 7, 7, leader_epoch=at) for at in range(9)))
    (logs / "orders-1" / f"{0:020d}.index").write_bytes(b"12345678")
    plan = OverviewPlan(logs, OverviewChoices(now_ms=NOW))
    counted = plan.begin()
    plan.check_directories(counted)
    for partition in reversed(plan.chosen):
        part = travelled(part_of(counted, [partition]))
        counted.merge(travelled(count(part, [partition], quick=False)))
    merged, whole = plan.result(counted), overview(logs, now_ms=NOW)
    assert replaced(merged) == replaced(whole)
    assert list(merged.checked or ()) == list(whole.checked or ()) != []


def travelled(part: Counted) -> Counted:
    """As Spark sends it from one process to another."""
    found: Counted = pickle.loads(pickle.dumps(part))
    return found


def replaced(found: Overview) -> Overview:
    """Without the order in which batches were left out of the counts, and what findings were counted beside."""
    return replace(found, checked=None, profile=replace(found.profile, report=None))  # type: ignore[arg-type]
