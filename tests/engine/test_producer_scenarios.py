"""Producers where scripts do not reach: late transactions after truncation, checks that change nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.engine.entries import iter_entries
from kafkalog.engine.offsets import AppendOrigin
from tests.engine.test_producers import NOW, Log, data_batch


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def is_late(log: Log) -> bool:
    """After the timeout and the minutes that a broker adds to it."""
    return log.producers.has_late_transaction(NOW + log.settings.max_transaction_timeout_ms + 5 * 60_000 + 1)


@pytest.mark.parametrize("everything", [True, False])
def test_a_late_transaction_is_forgotten_when_it_is_truncated(log: Log, everything: bool) -> None:
    log.append(data_batch(1, 0, 0))
    log.producers.take_snapshot()
    log.append(data_batch(2, 0, 0, transactional=True))
    assert is_late(log)
    if everything:
        log.producers.truncate_fully_and_start_at(0)
    else:
        log.producers.truncate_and_reload(0, 1, NOW)
    assert not is_late(log)


def test_a_late_transaction_is_known_after_a_reload(log: Log) -> None:
    log.append(data_batch(2, 0, 0, transactional=True))
    log.reload()
    assert is_late(log)
    log.end(2, 0)
    assert not is_late(log)


def test_checking_an_append_changes_nothing(log: Log) -> None:
    log.append(data_batch(1, 0, 0))
    before = log.producers.active_producers[1]
    known = [tuple(batch) for batch in before.batches]
    append = log.producers.prepare_update(1, AppendOrigin.CLIENT)
    [entry] = iter_entries(bytearray(data_batch(1, 0, 1)))
    entry.set_last_offset(20)
    append.append(entry)
    after = log.producers.active_producers[1]
    assert [tuple(batch) for batch in after.batches] == known
    log.producers.update(append)
    assert len(list(log.producers.active_producers[1].batches)) == len(known) + 1
