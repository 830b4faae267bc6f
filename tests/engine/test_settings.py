"""The settings of a log, and the schedule of its background tasks."""

from __future__ import annotations

import pytest

from kafkalog.engine.config import LogConfig
from kafkalog.engine.schedule import ManualClock, Schedule
from kafkalog.errors import UsageError


def test_settings_have_kafkas_names_and_defaults() -> None:
    config = LogConfig.of({"cleanup.policy": "compact, delete", "retention.ms": -1, "preallocate": "TRUE"})
    assert (config.compact, config.delete, config.retention_ms, config.preallocate) == (True, True, -1, True)
    assert (config.segment_bytes, config.segment_index_bytes, config.max_message_bytes) == (1 << 30, 10 << 20, 1048588)


def test_an_empty_cleanup_policy_is_one() -> None:
    config = LogConfig.of({"cleanup.policy": ""})
    assert (config.compact, config.delete) == (False, False)


def test_small_segments_need_the_internal_setting() -> None:
    with pytest.raises(UsageError, match=r"segment\.bytes=1000: .*1048576"):
        LogConfig.of({"segment.bytes": 1000})
    assert LogConfig.of({"internal.segment.bytes": 1000}).segment_bytes == 1000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.hours", "1"),
        ("compression.type", "brotli"),
        ("segment.ms", "0"),
        ("max.message.bytes", "-1"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("cleanup.policy", "compact,forget"),
        ("preallocate", "yes"),
        ("segment.ms", "soon"),
        ("message.format.version", "new"),
    ],
)
def test_settings_that_kafka_refuses_are_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=name.replace(".", r"\.")):
        LogConfig.of({name: value})


@pytest.mark.parametrize(
    ("version", "magic"), [("0.8.2", 0), ("0.9.0.1", 0), ("0.10.0", 1), ("0.10.2-IV0", 1), ("0.11.0", 2), ("3.9", 2)]
)
def test_the_message_format_of_older_brokers(version: str, magic: int) -> None:
    assert LogConfig.of({"message.format.version": version}).magic == magic


def test_a_compaction_lag_closes_segments_earlier() -> None:
    assert LogConfig.of({"max.compaction.lag.ms": 5}).max_segment_ms == LogConfig().segment_ms
    assert LogConfig.of({"cleanup.policy": "compact", "max.compaction.lag.ms": 5}).max_segment_ms == 5


def test_tasks_run_by_due_time_then_by_submission_and_may_submit_more() -> None:
    clock = ManualClock(1000)
    schedule = Schedule(clock)
    ran: list[str] = []
    schedule.submit("late", lambda: ran.append("late"), 20)

    def first() -> None:
        ran.append("first")
        schedule.submit("more", lambda: ran.append("more"))

    schedule.submit("first", first)
    schedule.submit("second", lambda: ran.append("second"))
    schedule.submit("cancelled", lambda: ran.append("cancelled")).cancel()
    schedule.run_due()
    assert ran == ["first", "second", "more"]
    clock.now += 20
    schedule.run_due()
    assert ran[3:] == ["late"]
    assert schedule.waiting == 0


def test_a_periodic_task_catches_up_and_a_failure_keeps_no_other_from_running() -> None:
    clock = ManualClock(0)
    schedule = Schedule(clock)
    ran: list[int] = []
    schedule.submit("periodic", lambda: ran.append(clock.now), 10, 10)
    schedule.submit("broken", lambda: 1 // 0, 5)
    clock.now = 35
    (failure,) = schedule.run_due()
    assert (failure.name, type(failure.error)) == ("broken", ZeroDivisionError)
    assert ran == [35, 35, 35]
