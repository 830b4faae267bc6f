"""The short form of the campaign on tables of a lake (`make lake` is the long one)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns.lake_kills import Campaign
from tests.campaigns.lake_objects import ObjectCampaign
from tests.campaigns.object_store import store
from tests.conftest import require


@pytest.mark.slow
def test_ingests_into_a_lake_that_are_killed_or_compete_lose_and_double_nothing(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path / "campaign", seed=7, cycles_per_log=2)
    campaign.kill(4)
    campaign.pair(4)
    campaign.close()
    assert (campaign.tally["kills"], campaign.tally["pairs"]) == (4, 4)
    assert campaign.rows > 1000
    assert campaign.snapshots > 4


@pytest.mark.slow
def test_ingests_into_a_lake_in_an_object_store_that_are_killed_or_compete_lose_and_double_nothing(tmp_path: Path) -> None:
    require("moto", "boto3", "werkzeug")
    with store() as client:
        campaign = ObjectCampaign(tmp_path / "campaign", client, seed=7, cycles_per_log=2)
        campaign.kill(2)
        campaign.pair(2)
    assert (campaign.tally["kills"], campaign.tally["pairs"]) == (2, 2)
    assert campaign.rows > 500
