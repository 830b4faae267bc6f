"""The tables of clusters of each KRaft release equal what these said of themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.campaigns.cluster_releases import KINDS, RELEASES, differences, found_in
from tests.clusters import packed
from tests.golden import sets


@pytest.fixture(scope="session")
def releases(golden_folder: Path) -> Path:
    return sets.unpack("releases", golden_folder.parent / "releases", packed.DATA)


@pytest.mark.parametrize("release", RELEASES)
def test_tables_equal_what_a_cluster_of_this_release_said(releases: Path, release: str) -> None:
    said = json.loads((releases / release / "said.json").read_text(encoding="utf-8"))
    found = found_in(releases / release / "data")
    assert list(differences(said, found)) == []
    assert {kind for kind in KINDS if found[kind]} >= {"topics", "configs", "acls", "quotas", "features", "groupOffsets"}
