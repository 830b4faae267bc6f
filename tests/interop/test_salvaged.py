"""Repair and a real broker: it serves a salvaged partition, and keeps its directory to itself while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.errors import StorageError
from kafkalog.tasks.reindex import ReindexOptions, reindex_partitions
from tests.campaigns.zeroed_page import compare, put_back_commands
from tests.conftest import require, unavailable
from tests.interop.live.broker import resolve_jars, running_broker

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def _jars() -> None:
    require("java", "mvn", "kafka")
    problem = resolve_jars()
    if problem is not None:
        unavailable(problem)


def test_a_running_broker_keeps_its_log_directory(tmp_path: Path) -> None:
    """T-33: Java's lock on `.lock` and ours are the same kind."""
    with running_broker(tmp_path) as broker:
        folder = broker.log_directory / "__cluster_metadata-0"
        with pytest.raises(StorageError, match="a broker is running"):
            list(reindex_partitions(folder, ReindexOptions()))
        (planned,) = reindex_partitions(folder, ReindexOptions(dry_run=True))
        assert planned.state == "not written"


def test_the_recipe_has_the_commands_that_put_a_folder_back() -> None:
    assert [command.split()[0] for command in put_back_commands()] == ["mkdir", "mv", "cp", "rm", "sed", "sed"]


def test_a_broker_serves_every_untouched_batch_of_a_log_with_a_zeroed_page(tmp_path: Path) -> None:
    found = compare(tmp_path, 4)
    assert len(found.touched) in (1, 2)
    assert found.salvage.kept_batches == found.batch_count - len(found.touched)
    assert found.served_from_salvaged == found.untouched
    assert found.salvage.kept_records == len(found.untouched)
    assert found.kept_by_broker == found.written[: len(found.kept_by_broker)]
    assert len(found.kept_by_broker) < 0.6 * len(found.written), "a broker cuts the log at the first damage"
