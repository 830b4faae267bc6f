"""The clusters that every test here reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import clusters


@pytest.fixture(scope="session")
def unpacked(golden_folder: Path) -> Path:
    return clusters.unpack(golden_folder.parent / "clusters")


@pytest.fixture(params=clusters.NAMES)
def cluster(request: pytest.FixtureRequest, unpacked: Path) -> Path:
    """Each of the clusters in turn."""
    return unpacked / str(request.param)


@pytest.fixture
def three(unpacked: Path) -> Path:
    return unpacked / "three"
