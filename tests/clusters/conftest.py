"""The clusters that every test here reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clusters import packed


@pytest.fixture(scope="session")
def unpacked(golden_folder: Path) -> Path:
    return packed.unpack(golden_folder.parent / "clusters")


@pytest.fixture(params=packed.NAMES)
def cluster(request: pytest.FixtureRequest, unpacked: Path) -> Path:
    """Each of the clusters in turn."""
    return unpacked / str(request.param)


@pytest.fixture
def three(unpacked: Path) -> Path:
    return unpacked / "three"
