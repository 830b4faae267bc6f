"""`kafkalog.spark.report`: the numbers of `kafkalog.report`, from the executors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.log.report import ReadReport
from kafkalog.spark import report
from kafkalog.spark.errors import SparkSourceError
from kafkalog.spark.reporting import balanced
from kafkalog.tasks.overview.result import Overview
from tests.builders.small_logs import FIRST_TIME, made_batch, marker, transactional_batch, write_segment

NOW = FIRST_TIME + 3_600_000


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Topics of several sizes and epochs, one with transactions, a damaged batch and a deleted partition."""
    for number in range(3):
        batches = [made_batch(at * 10, leader_epoch=at // 2, codec=number) for at in range(2 + 3 * number)]
        write_segment(tmp_path / f"orders-{number}", 0, *batches)
    write_segment(
        tmp_path / "payments-0", 0, transactional_batch(0, 3, 7), marker(3, 7, commit=True), transactional_batch(4, 2, 8)
    )
    damaged = bytearray(made_batch(10))
    damaged[-1] ^= 1
    write_segment(tmp_path / "users-0", 0, made_batch(0), bytes(damaged), made_batch(20))
    write_segment(tmp_path / f"gone-0.{'0' * 31}7-delete", 0, made_batch(0))
    return tmp_path


def comparable(found: Overview) -> Overview:
    """Without the order in which partitions were read."""
    return replace(found, profile=replace(found.profile, report=ReadReport()))


def test_executors_count_what_one_machine_counts(spark: Any, logs: Path) -> None:
    one, many = kafkalog.report(logs, now_ms=NOW), report(logs, spark=spark, now_ms=NOW)
    assert comparable(many.overview) == comparable(one.overview)
    assert many.html == one.html
    assert [found.reason for found in many.overview.profile.report.dropped] == ["crc"]
    quick = report([logs], spark=spark, topics="orders", quick=True, now_ms=NOW)
    assert quick.html == kafkalog.report([logs], topics="orders", quick=True, now_ms=NOW).html


def test_a_failed_task_says_why(spark: Any, logs: Path) -> None:
    write_segment(logs / "users-0", 30, made_batch(30))
    with pytest.raises(SparkSourceError, match="crc"):
        report(logs, spark=spark, on_damage="strict", now_ms=NOW)


def test_groups_have_about_the_same_size(logs: Path) -> None:
    partitions = kafkalog.open(logs).choose(None, None)
    groups = balanced(partitions, 2)
    assert sorted(map(str, [each for group in groups for each in group])) == sorted(map(str, partitions))
    sizes = [sum(each.size for each in group) for group in groups]
    assert abs(sizes[0] - sizes[1]) <= max(each.size for each in partitions)
    assert len(balanced(partitions, 100)) == len(partitions)
