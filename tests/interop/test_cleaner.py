"""The same dirty logs given to Kafka's own log cleaner and to ours: the same records are kept, in the same batches and files."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from kafkalog.storage.fs import LocalFs
from tests.conftest import require, unavailable
from tests.engine.compacted_logs import COMPACT, Log, random_steps, run_steps
from tests.engine.comparison import compare_trees
from tests.interop.live.broker import resolve_jars
from tests.interop.live.cleaning import Folder, clean

pytestmark = pytest.mark.slow

LOGS = int(os.environ.get("KAFKALOG_DIRTY_LOGS", "60"))
MAP_SLOTS = (4, 10, 1000)
BUFFERS = (200, 4096, 1 << 19)


@pytest.fixture(scope="module", autouse=True)
def jars() -> None:
    require("java", "mvn")
    problem = resolve_jars()
    if problem is not None:
        unavailable(problem)


def make_dirty_log(seed: int, directory: Path) -> tuple[int, int, int]:
    """A log with parts that were cleaned before; when, with what map and what buffers it is to be cleaned."""
    chance = random.Random(seed)
    directory.mkdir()
    log = Log(str(directory), LocalFs())
    run_steps(log, random_steps(chance, chance.randrange(5, 40)))
    log.roll()
    log.close()
    return log.clock.now + chance.choice((0, 2000)), 24 * chance.choice(MAP_SLOTS), chance.choice(BUFFERS)


def test_the_same_dirty_log_comes_out_of_both_cleaners_alike(tmp_path: Path) -> None:
    folders = []
    for seed in range(LOGS):
        place = make_dirty_log(seed, tmp_path / f"ours-{seed}")
        shutil.copytree(tmp_path / f"ours-{seed}", tmp_path / f"theirs-{seed}")
        folders.append(Folder(tmp_path / f"theirs-{seed}" / "t-0", *place))
    answers = clean(folders, COMPACT)
    kept = 0
    for seed, (folder, answer) in enumerate(zip(folders, answers, strict=True)):
        log = Log(str(tmp_path / f"ours-{seed}"), LocalFs(), folder.now_ms)
        read, written = log.clean_all(folder.map_bytes // 24, io_buffer_bytes=folder.buffer_bytes)
        log.close()
        assert answer == f"ok\t{read}\t{written}", seed
        assert compare_trees(folder.path.parent, tmp_path / f"ours-{seed}", recompressed=True) is None, seed
        kept += written
    assert kept
