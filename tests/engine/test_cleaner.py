"""The cleaner on logs of every kind: a consumer ends up with the same, obsolete records go, a second pass changes nothing."""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.compacted_logs import (
    BUFFERS,
    CODECS,
    KEYS,
    MAP_SLOTS,
    OLD_CODECS,
    PRODUCERS,
    TRANSACTIONAL,
    WAITS,
    Log,
    Step,
    consume,
    run_steps,
)

EXAMPLES = int(os.environ.get("KAFKALOG_CLEANER_EXAMPLES", "60"))

pairs = st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.binary(max_size=30)), min_size=1, max_size=6)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), pairs, st.sampled_from(CODECS), st.sampled_from(PRODUCERS)),
        st.tuples(st.just("transaction"), pairs, st.sampled_from(CODECS), st.sampled_from(TRANSACTIONAL)),
        st.tuples(st.just("end"), st.sampled_from(TRANSACTIONAL), st.booleans()),
        st.tuples(st.just("old"), pairs, st.sampled_from(OLD_CODECS), st.sampled_from([0, 1])),
        st.tuples(st.just("roll")),
        st.tuples(st.just("wait"), st.sampled_from(WAITS)),
        st.tuples(st.just("clean"), st.sampled_from(MAP_SLOTS), st.sampled_from(BUFFERS)),
    ),
    max_size=25,
)


@settings(max_examples=EXAMPLES)
@given(steps)
def test_a_consumer_ends_up_with_the_same_before_and_after_and_a_second_run_changes_nothing(
    chosen: list[Step],
) -> None:
    log = Log()
    run_steps(log, chosen)
    log.roll()
    before = consume(log.log)
    log.clean_all()
    assert consume(log.log) == before
    files = log.files()
    assert log.clean() is None
    assert log.files() == files
    records = [record for record in log.records if record.value is not None]
    log.clean_again()  # deletes may go, if their time has come
    assert [record for record in log.records if record.value is not None] == records
    assert consume(log.log) == before


@settings(max_examples=EXAMPLES)
@given(steps)
def test_all_that_is_left_of_a_clean_log_is_the_last_record_of_each_key(chosen: list[Step]) -> None:
    log = Log()
    for producer_id in sorted(run_steps(log, chosen)):
        log.end(producer_id, commit=True)
    log.roll()
    log.clean_all()
    left = [record.key for record in log.records]
    assert len(left) == len(set(left))


@settings(max_examples=EXAMPLES)
@given(steps)
def test_both_paths_of_the_cleaner_leave_the_same_files(chosen: list[Step]) -> None:
    logs = [Log(), Log()]
    for log, by_kernels in zip(logs, (True, False), strict=True):
        run_steps(log, [step for step in chosen if step[0] != "clean"])
        log.roll()
        log.clean_all(by_kernels=by_kernels)
    assert logs[0].files() == logs[1].files()
