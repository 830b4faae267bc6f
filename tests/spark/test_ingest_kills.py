"""The short form of the campaign of kills (`make kills` is the long one)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns.ingest_kills import Campaign
from tests.conftest import require


def test_ingests_killed_at_random_moments_lose_and_double_nothing(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path / "campaign", seed=4)
    campaign.run(6, "none[2]")
    assert campaign.tally["kills"] == 6
    assert campaign.rows > 1000


@pytest.mark.slow
def test_a_spark_killed_with_all_its_processes_loses_and_doubles_nothing(tmp_path: Path) -> None:
    require("pyspark")
    campaign = Campaign(tmp_path / "campaign", seed=5)
    campaign.run(1, "local[2]")
    assert campaign.tally["re-runs equal to an undisturbed run"] == 1
