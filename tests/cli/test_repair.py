"""`kafkalog salvage`, `reindex` and `undelete` as a user types them: what they say, exit codes, interrupts, full disks."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog.format.names import segment_file_name
from tests.builders.small_logs import made_batch, read_offsets, write_segment
from tests.tasks.test_salvage import damaged, tree

from .runner import COMMAND, Ended, Run, run_child


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "orders-0"
    write_segment(folder, 0, made_batch(0), damaged(made_batch(10)), made_batch(20))
    return folder


def test_several_partitions_are_added_up(run: Run, orders: Path, tmp_path: Path) -> None:
    write_segment(orders.with_name("orders-1"), 0, made_batch(0))
    text = run("salvage", orders.parent, "--out", tmp_path / "out").text
    assert "\n\ntotal: 2 partitions (2 written): kept 30 records in 3 batches, " in text
    ended = run("salvage", orders.parent, "--out", tmp_path / "out", "--json")
    assert [json.loads(line)["state"] for line in ended.text.splitlines()] == ["already there"] * 2


def test_salvage_reports_what_it_kept_dropped_and_lost(run: Run, orders: Path, tmp_path: Path) -> None:
    ended = run("salvage", orders, "--out", tmp_path / "out")
    assert ended.code == 1
    assert ended.errors == ""
    first, kept, dropped, lost, empty, *steps = ended.text.splitlines()
    assert (empty, steps[-1]) == ("", f"    kafkalog verify {tmp_path}/out")
    assert first == f"orders-0: written, {tmp_path / 'out' / 'orders-0'}"
    assert "kept 2 batches, 20 records" in kept
    assert "dropped" in dropped
    assert "crc" in dropped
    assert lost == "  lost offsets 10 to 19, at most"
    again = run("salvage", orders, "--out", tmp_path / "out", "--json")
    assert again.code == 1
    told = json.loads(again.text)
    assert (told["state"], told["kept_records"], told["lost"]) == ("already there", 20, [{"first_offset": 10, "last_offset": 19}])


def test_an_intact_log_is_salvaged_with_exit_code_0(run: Run, orders: Path, tmp_path: Path) -> None:
    write_segment(orders, 0, made_batch(0), made_batch(10))
    assert run("salvage", orders, "--out", tmp_path / "out", "--dry-run").code == 0
    assert not (tmp_path / "out").exists()


def test_out_as_a_file_uri_is_that_folder_and_an_object_store_is_refused(run: Run, orders: Path, tmp_path: Path) -> None:
    done = run("salvage", f"file:{orders}", "--out", f"file:{tmp_path}/clean")
    assert f"orders-0: written, {tmp_path}/clean/orders-0\n" in done.text
    assert (tmp_path / "clean" / "orders-0").is_dir()
    refused = run("salvage", orders, "--out", "s3://bucket/clean")
    assert refused.code == 2
    assert "s3://bucket/clean" in refused.errors
    assert not os.path.exists("s3:")


def test_reindex_requires_out_or_in_place(run: Run, orders: Path) -> None:
    ended = run("reindex", orders)
    assert ended.code == 2
    assert "either --out DIR (writes a copy) or --in-place" in ended.errors


def test_reindex_says_where_damage_ended_it(run: Run, orders: Path) -> None:
    ended = run("reindex", orders, "--in-place")
    assert ended.code == 1
    assert "rebuilt 00000000000000000000.index" in ended.text
    assert f"to keep it: kafkalog salvage {orders} --out DIR" in ended.text
    assert (orders / segment_file_name(0, "index")).exists()


def test_reindex_into_another_folder_advises_to_salvage_the_logs_not_that_folder(run: Run, orders: Path, tmp_path: Path) -> None:
    ended = run("reindex", orders, "--out", tmp_path / "rebuilt")
    assert f"to keep it: kafkalog salvage {orders} --out DIR" in ended.text


def test_undelete_lists_without_out_and_copies_with_it(run: Run, orders: Path, tmp_path: Path) -> None:
    write_segment(orders.parent / f"gone-1.{'0' * 32}-delete", 5, made_batch(5))
    listed = run("undelete", orders.parent)
    assert listed.code == 0
    assert listed.text.startswith("gone-1: deleted topic, 1 segment, ")
    assert json.loads(run("undelete", orders.parent, "--json").text)["topic"] == "gone"
    assert run("undelete", orders.parent, "--out", tmp_path / "out").code == 0
    assert read_offsets(tmp_path / "out" / "gone-1") == list(range(5, 15))


@pytest.mark.parametrize("arguments", [("salvage", "--out", "x"), ("reindex", "--in-place"), ("undelete",)])
def test_a_path_that_is_not_there_is_an_io_error(run: Run, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    command, *rest = arguments
    ended = run(command, tmp_path / "nothing", *rest)
    assert ended.code == 4
    assert "no such file or folder" in ended.errors


def test_a_hostile_file_name_reaches_no_terminal_raw(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "evil\x1b]0;title\x07" / "orders-0"
    write_segment(folder, 0, made_batch(0), damaged(made_batch(10)), made_batch(20))
    ended = run("salvage", folder, "--out", tmp_path / "out")
    assert ended.code == 1
    assert "\x1b" not in ended.text
    assert "\\x1b" in ended.text


def _large(folder: Path) -> Path:
    """A segment of more than two MiB."""
    folder.mkdir(parents=True)
    batch = made_batch(0, 2000)
    with (folder / segment_file_name(0)).open("wb") as log:
        for number in range(40):
            log.write((number * 2000).to_bytes(8, "big") + batch[8:])
    return folder


def _limited() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


def test_a_file_that_cannot_grow_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = _large(tmp_path / "data" / "orders-0")
    command = [*COMMAND, "salvage", str(folder), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, preexec_fn=_limited, timeout=240, check=False)
    ended = Ended(done.returncode, done.stdout, done.stderr.decode())
    assert ended.code == 4
    assert "ulimit -f" in ended.errors
    assert os.listdir(tmp_path / "out") == []


# The command, which waits when it has written the first part of a log: a signal comes in the middle on any machine.
WAITING = """
import os, sys, time
from kafkalog.cli.main import main
write = os.write
def write_and_wait(descriptor, data):
    written = write(descriptor, data[: len(data) // 2])
    if os.readlink(f"/proc/self/fd/{descriptor}").endswith(".log"):
        print("writing", flush=True)
        time.sleep(600)
    return written
os.write = write_and_wait
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_salvage_publishes_nothing_and_can_be_repeated(tmp_path: Path, sent: signal.Signals, code: int) -> None:
    folder = _large(tmp_path / "data" / "orders-0")
    before = tree(folder)
    out = tmp_path / "out"
    command = [sys.executable, "-c", WAITING, "salvage", str(folder), "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"writing\n"
        assert list(out.glob(".orders-0.inprogress/*.log"))
        child.send_signal(sent)
        child.communicate(timeout=240)
    assert child.returncode == code
    assert os.listdir(out) == []
    assert tree(folder) == before
    assert run_child("salvage", folder, "--out", out).code == 0
    assert sorted(os.listdir(out)) == ["orders-0", "orders-0.salvage.jsonl", "orders-0.salvage.txt"]
