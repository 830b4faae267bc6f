"""A sample of the damage campaign, the same code as `make damage`: no crash, no hang, nothing silently wrong, all kept."""

from __future__ import annotations

import pytest

from tests.campaigns.damage.golden_set import BATCHES, VARIANTS, golden_segment, golden_set
from tests.campaigns.damage.outcome import read, rows, table_of, warm_up
from tests.campaigns.damage.run import cells, run_here, run_threat
from tests.campaigns.damage.tally import Tally
from tests.campaigns.damage.threats import THREATS


@pytest.fixture(scope="module", autouse=True)
def _kernels() -> None:
    warm_up()


@pytest.mark.parametrize("threat", THREATS)
def test_no_figure_of_the_fault_model_misses(threat: str) -> None:
    line = run_threat(threat, quick=True, run=run_here)
    assert line.tally.cases > 0
    assert line.tally.details == [], cells(line)
    assert not line.tally.missed
    assert line.tally.kept == line.tally.keepable


def test_the_golden_set_has_every_format_and_codec_in_segments_of_about_five_kilobytes() -> None:
    assert len(VARIANTS) == 17
    for segment in golden_set():
        assert 3_500 < len(segment.data) < 5_500
        assert len(segment.entries) >= BATCHES


def test_undamaged_golden_segments_read_as_the_reference_decoder_reads_them() -> None:
    for segment in golden_set():
        alone = read(segment.alone())
        among = read(segment.among_neighbours(), neighbours=True)
        assert (alone.error, among.error) == (None, None)
        assert rows(alone.records) == table_of(segment.records)
        assert rows(among.records) == table_of([*segment.records, *segment.next_records])
        assert alone.report.is_clean
        assert among.report.is_clean


def test_the_golden_set_has_what_its_formats_have() -> None:
    records = read(golden_segment("v2-none").alone()).records
    assert set(records["leader_epoch"].to_pylist()) == {3, 4}
    assert set(records["producer_id"].to_pylist()) == {-1, 7, 9}
    assert set(records["timestampType"].to_pylist()) == {0, 1}
    assert records["is_control"].to_pylist().count(True) == 1
    assert records["is_transactional"].to_pylist().count(True) == 5
    for name in ("key", "value", "headers_raw"):
        assert 0 < records[name].null_count < records.num_rows
    assert set(read(golden_segment("v1-lz4").alone()).records["timestampType"].to_pylist()) == {0, 1}
    assert set(read(golden_segment("v0-gzip").alone()).records["timestamp_ms"].to_pylist()) == {-1}


def test_a_tally_with_any_failure_misses() -> None:
    for kind in ("crashes", "hangs", "silent", "lost"):
        tally = Tally()
        assert not tally.missed
        tally.fail(kind, "why")
        assert tally.missed


def test_an_exception_that_escapes_is_a_crash() -> None:
    tally = Tally()
    with tally.case("division"):
        _ = 1 // tally.crashes
    assert (tally.cases, tally.crashes) == (1, 1)
