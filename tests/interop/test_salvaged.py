"""A salvaged partition in a real broker: it opens, and its consumer reads exactly the records of the batches that were kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import require, unavailable
from tests.interop.live.broker import resolve_jars
from tests.interop.zeroed_page import compare

pytestmark = pytest.mark.slow


def test_a_broker_serves_every_untouched_batch_of_a_log_with_a_zeroed_page(tmp_path: Path) -> None:
    require("java", "mvn", "kafka")
    problem = resolve_jars()
    if problem is not None:
        unavailable(problem)
    found = compare(tmp_path, 4)
    assert len(found.touched) in (1, 2)
    assert found.salvage.kept_batches == found.batch_count - len(found.touched)
    assert found.served_from_salvaged == found.untouched
    assert found.salvage.kept_records == len(found.untouched)
    assert found.kept_by_broker == found.written[: len(found.kept_by_broker)]
    assert len(found.kept_by_broker) < 0.6 * len(found.written), "a broker cuts the log at the first damage"
