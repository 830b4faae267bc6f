"""The next steps that repairs print: typed as they are, they bring a broker's log directory back into order."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kafkalog
from kafkalog.engine.log_directory import LogDirectory
from kafkalog.errors import UsageError
from kafkalog.format import names
from kafkalog.tasks.next_steps import NextStep
from kafkalog.tasks.totals import total_convert, total_recover, total_reindex, total_salvage, total_undelete
from tests.builders.small_logs import made_batch, read_offsets, write_segment
from tests.conftest import NOBODY, require_root

OFFSETS = [*range(10), *range(20, 30)]  # without the damaged batch


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A log directory with a name that needs quoting; its first partition is damaged, and the broker crashed."""
    logs = tmp_path / "it's a disk"
    for number in (0, 1):
        write_segment(logs / f"orders-{number}", 0, made_batch(0), made_batch(10), made_batch(20))
    (logs / names.META_PROPERTIES).write_bytes(b"version=1\ncluster.id=x\nnode.id=1\n")
    with LogDirectory(str(logs)) as directory:
        for number in (0, 1):
            directory.open_log("orders", number)
    (logs / names.CLEAN_SHUTDOWN).unlink()
    (logs / names.RECOVERY_POINT_CHECKPOINT).unlink()
    log = logs / "orders-0" / names.segment_file_name(0)
    content = bytearray(log.read_bytes())
    content[len(made_batch(0)) + 100] ^= 1
    log.write_bytes(content)
    return logs


def do(steps: tuple[NextStep, ...], folder: Path) -> str:
    """Type the commands one after the other; what the last one prints."""
    printed = ""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "KAFKALOG_NO_NOTICE": "1"}
    for step in steps:
        command = ["bash", "-c", step.command]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode <= (1 if step is steps[-1] else 0), done.stderr
        printed = done.stdout
    return printed


def test_salvaged_partitions_take_the_place_of_damaged_ones(damaged: Path, tmp_path: Path) -> None:
    verdict = kafkalog.verify(damaged).verdict
    assert verdict is not None
    assert verdict.loses_records
    total = total_salvage(kafkalog.salvage(damaged, tmp_path / "rescued", topics="orders"))
    kept = "2 partitions (2 written): kept 50 records in 5 batches"
    assert total.text.startswith(kept)
    assert "; left out 1 damaged range, " in total.text
    assert [step.command.split()[0] for step in total.next_steps] == ["mkdir", "mv", "kafkalog"]
    assert "verdict: the broker will start and lose nothing." in do(total.next_steps, tmp_path)
    assert read_offsets(damaged / "orders-0") == OFFSETS
    assert os.listdir(tmp_path / "it's a disk.replaced") == ["orders-0"], "in the other one nothing is damaged"


def test_a_partition_that_could_not_be_read_whole_does_not_take_the_place_of_the_old_one(damaged: Path, tmp_path: Path) -> None:
    """What could not be read is in the old one still."""
    log = write_segment(damaged / "orders-1", 30, made_batch(30))
    elsewhere = log.rename(tmp_path / "elsewhere.log")
    log.symlink_to(elsewhere)  # not followed, so not read
    results = kafkalog.salvage(damaged, tmp_path / "rescued")
    total = total_salvage(results)
    assert "left out 1 damaged range, " in total.text
    assert total.text.endswith("; 1 file could not be read")
    again, *placing = total.next_steps
    assert "orders-1 could not be read whole and must not take the place" in again.why
    assert "orders-1" not in " ".join(step.command for step in placing)
    assert [step.command.split()[0] for step in placing] == ["mkdir", "mv", "kafkalog"]
    alone = total_salvage([each for each in results if each.partition == 1])
    assert ("nothing was damaged" in alone.text, alone.next_steps) == (False, (again,))
    log.unlink()
    elsewhere.rename(log)
    with pytest.raises(UsageError, match=r"other content \(an earlier run could not read all of the source\)"):
        kafkalog.salvage(damaged / "orders-1", tmp_path / "rescued")
    do((again,), tmp_path)
    assert read_offsets(tmp_path / "rescued.whole" / "orders-1") == list(range(40))


def test_new_partitions_get_the_owner_of_the_log_directory(damaged: Path, tmp_path: Path) -> None:
    require_root()
    results = kafkalog.salvage(damaged, tmp_path / "rescued")
    os.chown(damaged, NOBODY, NOBODY)
    total = total_salvage(results)
    assert "chown -R --reference='" in total.next_steps[2].command.replace('"\'"', "")
    do(total.next_steps, tmp_path)
    assert {path.stat().st_uid for path in (damaged / "orders-0").iterdir()} == {NOBODY}


def test_a_dry_run_and_copies_of_no_log_directory_only_say_what_can_be_said(damaged: Path, tmp_path: Path) -> None:
    planned = total_salvage(kafkalog.salvage(damaged, tmp_path / "out", dry_run=True))
    assert (planned.text.split(":")[0], planned.next_steps) == ("2 partitions (2 not written)", ())
    alone = shutil.copytree(damaged / "orders-0", tmp_path / "copy" / "orders-0")
    total = total_salvage(kafkalog.salvage(alone, tmp_path / "out"))
    assert [step.command for step in total.next_steps] == [f"kafkalog verify {tmp_path}/out"]
    merged = total_salvage(kafkalog.salvage([alone, damaged / "orders-0"], tmp_path / "merged"))
    assert [step.command for step in merged.next_steps] == [f"kafkalog verify {tmp_path}/merged"]


def test_recover_says_what_was_lost_and_to_check_before_the_start(damaged: Path, tmp_path: Path) -> None:
    sources = {f"orders-{number}": str(damaged / f"orders-{number}") for number in (0, 1)}
    copied = total_recover(sources, kafkalog.recover(damaged, out=tmp_path / "copy"))
    assert copied.text.endswith("10 records lost")
    assert [step.command.split()[0] for step in copied.next_steps] == ["mkdir", "mv", "kafkalog"]
    in_place = total_recover(sources, kafkalog.recover(damaged, in_place=True))
    assert in_place.text == copied.text.replace("2 written", "1 written, 1 already there")
    assert [step.why for step in in_place.next_steps] == ["see what the broker will do, then start it"]
    assert "verdict: the broker will start and lose nothing." in do(in_place.next_steps, tmp_path)


def test_convert_says_what_it_saved(damaged: Path, tmp_path: Path) -> None:
    results = kafkalog.convert(damaged, out=tmp_path / "new", partitions=[1], codec="zstd")
    total = total_convert({"orders-1": str(damaged / "orders-1")}, results)
    assert total.text.startswith("1 partition (1 written), ")
    assert " before and " in total.text
    do(total.next_steps, tmp_path)
    assert read_offsets(damaged / "orders-1") == list(range(30))


def test_reindex_beside_first_and_then_in_place(damaged: Path, tmp_path: Path) -> None:
    (damaged / "orders-1" / names.segment_file_name(0, "index")).write_bytes(b"odd")
    shutil.rmtree(damaged / "orders-0")
    beside = total_reindex(str(damaged), str(tmp_path / "new"), kafkalog.reindex(damaged, out=tmp_path / "new"))
    assert beside.next_steps[0].command.endswith(" --topic orders --in-place")
    printed = do(beside.next_steps, tmp_path)
    assert "total" not in printed
    assert "  see what the broker will do, then start it:\n    kafkalog verify '" in printed
    assert kafkalog.verify(damaged / "orders-1").errors == []


def test_undeleted_records_can_be_produced_again(tmp_path: Path) -> None:
    write_segment(tmp_path / "logs" / f"gone-0.{'0' * 32}-delete", 0, made_batch(0))
    total = total_undelete(kafkalog.undelete(tmp_path / "logs", tmp_path / "back"))
    assert [step.command.split()[1] for step in total.next_steps] == ["verify", "cat"]
    do(total.next_steps, tmp_path)
    assert (tmp_path / "gone.jsonl").read_text().count("\n") == 10
