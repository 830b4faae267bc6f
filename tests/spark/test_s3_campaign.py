"""The short form of the campaign on an object store (`make s3` is the long one)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns.object_store import Campaign, can_unshare, store
from tests.conftest import require, unavailable


@pytest.mark.slow
def test_runs_that_are_killed_or_compete_lose_and_double_nothing(tmp_path: Path) -> None:
    require("moto", "boto3", "werkzeug")
    if not can_unshare():
        unavailable("no namespaces of process numbers here: unshare --pid --uts")
    with store() as client:
        campaign = Campaign(tmp_path, client, seed=3)
        try:
            campaign.kill(2)
            campaign.pair(2)
        finally:
            campaign.close()
    assert campaign.tally["kills"] == campaign.tally["pairs"] == 2
    assert campaign.rows > 300
