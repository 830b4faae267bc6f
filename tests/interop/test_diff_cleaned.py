"""Logs before and after Kafka's own log cleaner differ in nothing that compaction does not explain."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import kafkalog
from tests.conftest import require, unavailable
from tests.engine.compacted_logs import COMPACT
from tests.interop.live.broker import resolve_jars
from tests.interop.live.cleaning import Folder, clean
from tests.interop.test_cleaner import make_dirty_log

pytestmark = pytest.mark.slow

LOGS = int(os.environ.get("KAFKALOG_DIRTY_LOGS", "15"))


@pytest.fixture(scope="module", autouse=True)
def jars() -> None:
    require("java", "mvn")
    problem = resolve_jars()
    if problem is not None:
        unavailable(problem)


def test_compaction_explains_everything_that_kafkas_cleaner_does(tmp_path: Path) -> None:
    folders = []
    for seed in range(LOGS):
        place = make_dirty_log(seed, tmp_path / f"before-{seed}")
        shutil.copytree(tmp_path / f"before-{seed}", tmp_path / f"after-{seed}")
        folders.append(Folder(tmp_path / f"after-{seed}" / "t-0", *place))
    assert all(answer.startswith("ok") for answer in clean(folders, COMPACT))
    compacted = 0
    for seed in range(LOGS):
        found = kafkalog.diff(tmp_path / f"before-{seed}", tmp_path / f"after-{seed}", compacted=True, threads=1)
        assert found.is_explained, (seed, list(found.unexplained))
        compacted += sum(row.record_count for row in found if row.reason == "compacted")
    assert compacted > LOGS
