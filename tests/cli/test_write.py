"""`kafkalog append`, `convert`, `compact`, `retain`, `truncate` and `recover` as a user types them: what they say and leave."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkalog.format.names import segment_file_name
from kafkalog.storage.fs import LocalFs
from kafkalog.tasks.append import AppendOptions, Target, append_records, source_file
from tests.builders.small_logs import FIRST_TIME, made_batch, read_offsets, read_rows, write_segment
from tests.tasks.test_salvage import damaged, tree

from .runner import COMMAND, Run

RECORDS = 20_000  # more than one table of a source, so that some are in the log before the rest is read
CHANGES = {
    "convert": ("--codec", "gzip"),
    "compact": ("--roll",),
    "retain": ("--start-offset", "25"),
    "truncate": ("--to-offset", "35"),
    "recover": ("--whole",),
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "records.jsonl"
    path.write_text("".join(json.dumps({"key": f"k{n % 5}", "value": f"v{n}", "timestamp": n}) + "\n" for n in range(100)))
    return path


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "orders-0"
    for base in (0, 20, 40):
        write_segment(folder, base, made_batch(base), made_batch(base + 10))
    return folder


# append


def test_append_makes_a_topic_and_continues_at_its_end(run: Run, source: Path, tmp_path: Path) -> None:
    to = ("--to", tmp_path / "data", "--topic", "orders")
    ended = run("append", source, *to, "--partitions", "3", "--codec", "lz4")
    assert ended.code == 0
    assert ended.text.startswith(f"orders: written, 100 records, in {tmp_path / 'data'}\n")
    assert len(read_offsets(tmp_path / "data")) == 100
    assert run("verify", tmp_path / "data").code == 0
    same = run("append", source, *to, "--json")
    assert json.loads(same.text)["state"] == "already there"
    single = ("append", source, "--to", tmp_path / "other" / "orders-0", "--json")
    assert json.loads(run(*single).text)["state"] == "written"
    shutil.rmtree(tmp_path / "other" / "orders-0")
    assert json.loads(run(*single).text)["state"] == "written", "it was there, but no longer is"
    assert len(read_offsets(tmp_path / "data")) == 100
    assert json.loads(run("append", source, *to, "--again", "--json").text)["state"] == "written"
    assert len(read_offsets(tmp_path / "data")) == 200


def test_append_reads_the_output_of_cat(run: Run, source: Path, tmp_path: Path) -> None:
    run("append", source, "--to", tmp_path / "first" / "orders-0")
    (tmp_path / "copy.jsonl").write_bytes(run("cat", tmp_path / "first", "--format", "json").out)
    (tmp_path / "copy.csv").write_bytes(run("cat", tmp_path / "first", "--format", "csv", "--headers").out)
    expected = read_rows(tmp_path / "first", columns=["offset", "timestamp_ms", "key", "value", "headers_raw"])
    for name in ("copy.jsonl", "copy.csv"):
        assert run("append", tmp_path / name, "--to", tmp_path / name.replace(".", "-") / "orders-0").code == 0
        found = read_rows(tmp_path / name.replace(".", "-"), columns=["offset", "timestamp_ms", "key", "value", "headers_raw"])
        assert found == expected


def test_append_reads_standard_input(tmp_path: Path) -> None:
    command = [*COMMAND, "append", "-", "--to", str(tmp_path / "orders-0"), "--magic", "1", "--codec", "gzip"]
    done = subprocess.run(command, input=b'{"key": "a", "value": "b"}\n17\n', capture_output=True, timeout=240, check=True)
    assert b"orders: written, 2 records" in done.stdout
    assert read_rows(tmp_path, columns=["key", "value", "magic"]) == [
        {"key": b"a", "value": b"b", "magic": 1},
        {"key": None, "value": b"17", "magic": 1},
    ]


@pytest.mark.parametrize(("end", "visible"), [("commit", 100), ("abort", 0), ("open", 0)])
def test_a_transaction_is_all_or_nothing_for_readers_of_committed_records(
    run: Run, source: Path, tmp_path: Path, end: str, visible: int
) -> None:
    assert run("append", source, "--to", tmp_path / "orders-0", "--transactional", "--end", end).code == 0
    assert len(read_offsets(tmp_path / "orders-0", isolation="read_committed")) == visible
    assert len(read_offsets(tmp_path / "orders-0")) == 100
    assert run("verify", tmp_path / "orders-0").code == 0


def test_a_dry_run_counts_and_writes_nothing(run: Run, source: Path, tmp_path: Path) -> None:
    before = tree(tmp_path)
    ended = run("append", source, "--to", tmp_path / "data", "--topic", "orders", "--partitions", "2", "--dry-run", "--json")
    told = json.loads(ended.text)
    assert (told["state"], told["records"]) == ("not written", 100)
    assert sum(part["records"] for part in told["partitions"]) == 100
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--to", "data"], "not the name of a partition's folder"),
        (["--to", "data/orders-0", "--partitions", "2"], "give --topic"),
        (["--to", "data/orders-0", "--magic", "1", "--idempotent"], "have neither producers nor transactions"),
        (["--to", "data/orders-0", "--config", "segment.bytes"], "write NAME=VALUE"),
        (["--to", "data/orders-0", "--config", "no.such=1"], "no such topic setting: no.such"),
        (["--to", "data/orders-0", "--config", "max.message.bytes=50"], "bytes"),
        (["--to", "data/orders-0", "--config", "message.timestamp.before.max.ms=1000"], "timestamp"),
        (["--to", "data", "--topic", "orders", "--partitioner", "record"], "names no partition"),
    ],
)
def test_an_append_that_cannot_be_done_is_refused_and_leaves_nothing(
    run: Run, source: Path, tmp_path: Path, arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = run("append", source, *arguments)
    assert ended.code == 2, ended.errors
    assert words in ended.errors
    assert not list(tmp_path.glob("data/*"))


@pytest.mark.parametrize("options", [(), ("--idempotent",), ("--transactional",), ("--config", "segment.index.bytes=80")])
def test_a_bad_line_at_the_end_of_a_source_leaves_the_log_as_it_was(
    run: Run, orders: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    to = ("--to", orders, "--batch-bytes", "100", *options)
    before = read_rows(orders, columns=["offset", "value", "producer_id"])
    segments = {path.name: path.stat().st_size for path in orders.glob("*.log")}
    source = tmp_path / "records.jsonl"
    good = "".join(f'"v{number}"\n' for number in range(RECORDS))
    source.write_text(good + "{no JSON\n")
    refused = run("append", source, *to)
    assert refused.code == 2
    assert f"line {RECORDS + 1}: not JSON" in refused.errors
    assert read_rows(orders, columns=["offset", "value", "producer_id"]) == before
    assert {path.name: path.stat().st_size for path in orders.glob("*.log")} == segments
    assert not list(orders.parent.glob(".*.append.json")), "so that the repaired source counts as the same append"
    assert run("verify", orders).code == 0
    source.write_text(good)
    assert run("append", source, *to).code == 0
    assert len(read_offsets(orders)) == len(before) + RECORDS


def test_a_refused_append_leaves_the_one_before_it_known(run: Run, source: Path, tmp_path: Path) -> None:
    to = ("--to", tmp_path / "orders-0")
    run("append", source, *to)
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{no JSON\n")
    assert run("append", bad, *to).code == 2
    assert run("append", source, *to).text.startswith("orders: already there")
    assert len(read_offsets(tmp_path / "orders-0")) == 100


def test_another_append_does_not_take_the_place_of_one_that_was_interrupted(run: Run, source: Path, tmp_path: Path) -> None:
    run("append", source, "--to", tmp_path / "orders-0")
    job = tmp_path / ".orders-0.append.json"
    job.write_text(job.read_text().replace('"state": "done"', '"state": "begun"'))
    other = tmp_path / "other.jsonl"
    other.write_text("1\n")
    refused = run("append", other, "--to", tmp_path / "orders-0")
    assert refused.code == 2
    assert "was interrupted here: run it again to complete it" in refused.errors
    assert "continued after" in run("append", source, "--to", tmp_path / "orders-0").text
    assert len(read_offsets(tmp_path / "orders-0")) == 100


def test_an_append_interrupted_before_anything_appeared_blocks_no_other(run: Run, source: Path, tmp_path: Path) -> None:
    run("append", source, "--to", tmp_path / "orders-0")
    job = tmp_path / ".orders-0.append.json"
    job.write_text(job.read_text().replace('"state": "done"', '"state": "begun"'))
    shutil.rmtree(tmp_path / "orders-0")
    other = tmp_path / "other.jsonl"
    other.write_text("1\n")
    assert run("append", other, "--to", tmp_path / "orders-0").code == 0
    assert read_offsets(tmp_path / "orders-0") == [0]


def _limited() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


def test_an_append_that_finds_no_room_says_what_to_do_and_continues_when_there_is(
    run: Run, orders: Path, source: Path, tmp_path: Path
) -> None:
    large = tmp_path / "large.txt"
    large.write_text("".join(f"{number:099d}\n" for number in range(20_000)))
    arguments = ["append", str(large), "--to", str(orders), "--config", "segment.index.bytes=8192"]
    command = [*COMMAND, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=_limited, timeout=240, check=False)
    assert done.returncode == 4
    assert f"{orders}: appending failed: File too large; the limit for the size of a file is reached" in done.stderr
    assert "Errno" not in done.stderr
    assert "then run the same command again, which continues after what it has appended" in done.stderr
    assert run(*arguments).code == 0
    assert read_offsets(orders) == list(range(20_060))


def test_progress_counts_the_bytes_of_the_source_as_they_are_appended(tmp_path: Path) -> None:
    """Counted as tables in memory, compressed sources were done before they had begun."""
    source = tmp_path / "records.parquet"
    pq.write_table(pa.table({"value": pa.array([b"x" * 1000] * 100_000, pa.binary())}), source)
    done: list[int] = []
    target = Target.of(str(tmp_path / "orders-0"), None)
    append_records([source_file(str(source))], target, AppendOptions(), LocalFs(), done.append, lambda: done.append(-1))
    size = source.stat().st_size
    assert done[-1] == -1, "and then all of it is made durable"
    assert sum(done[:-1]) == size
    assert done[0] < 0.2 * size


# the others


@pytest.mark.parametrize("command", CHANGES)
def test_a_plan_comes_before_and_a_dry_run_ends_there(run: Run, orders: Path, tmp_path: Path, command: str) -> None:
    before = tree(tmp_path)
    for place in (("--in-place",), ("--out", tmp_path / "out")):
        ended = run(command, orders, *CHANGES[command], *place, "--dry-run")
        assert (ended.code, ended.errors) == (0, "")
        assert ended.text.startswith("orders-0: plan: ")
        assert "written" not in ended.text
    assert tree(tmp_path) == before


@pytest.mark.parametrize("command", CHANGES)
def test_the_source_is_only_read_and_a_second_run_finds_the_first(run: Run, orders: Path, tmp_path: Path, command: str) -> None:
    before = tree(orders)
    out = ("--out", tmp_path / "out")
    assert f"orders-0: written, {tmp_path / 'out' / 'orders-0'}" in run(command, orders, *CHANGES[command], *out).text
    assert tree(orders) == before
    assert run("verify", tmp_path / "out").code == 0
    written = tree(tmp_path / "out")
    again = run(command, orders, *CHANGES[command], *out)
    assert (again.code, "already there" in again.text) == (0, True)
    assert tree(tmp_path / "out") == written
    write_segment(orders, 60, made_batch(60))
    other = run(command, orders, *CHANGES[command], *out)
    assert other.code == 2
    assert "exists already with other content" in other.errors


@pytest.mark.parametrize("command", CHANGES)
def test_in_place_it_is_done_once_and_no_marker_stays(run: Run, orders: Path, command: str) -> None:
    marker = orders.parent / ".kafka_cleanshutdown"
    marker.touch()
    assert "orders-0: written" in run(command, orders, *CHANGES[command], "--in-place").text
    assert not marker.exists()
    assert run("verify", orders).code == 0
    done = tree(orders)
    marker.touch()
    again = run(command, orders, *CHANGES[command], "--in-place", "--json")
    assert json.loads(again.text)["state"] == "already there"
    assert tree(orders) == done
    assert marker.exists(), "nothing was touched"


HOLDING = """
import sys
from kafkalog.storage.fs import LocalFs
with getattr(LocalFs(), sys.argv[1])(sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("lock", "message"), [("broker_lock", "a broker is running on this"), ("lock", "another kafkalog is writing here")]
)
def test_a_log_that_another_process_writes_to_is_left_alone(run: Run, orders: Path, lock: str, message: str) -> None:
    (orders.parent / ".lock").touch()
    holding = [sys.executable, "-c", HOLDING, lock, str(orders.parent if lock == "broker_lock" else orders)]
    with subprocess.Popen(holding, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        before = tree(orders)
        for command, options in {**CHANGES, "reindex": (), "append": ()}.items():
            places = (__file__, "--format", "lines", "--to", orders) if command == "append" else (orders, "--in-place")
            ended = run(command, *places, *options)
            assert (ended.code, message in ended.errors) == (4, True), (command, ended.errors)
        assert tree(orders) == before
        holder.communicate()


def test_the_same_append_twice_at_once_appends_once(run: Run, orders: Path, source: Path) -> None:
    command = [*COMMAND, "append", str(source), "--to", str(orders)]
    both = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(2)]
    errors = [child.communicate(timeout=240)[1] for child in both]
    codes = sorted(child.returncode for child in both)
    assert codes in ([0, 0], [0, 4]), errors
    assert json.loads(run("append", source, "--to", orders, "--json").text)["state"] == "already there"
    assert read_offsets(orders) == list(range(160))


def test_checkpoints_of_the_directory_stay_true(run: Run, orders: Path) -> None:
    data = orders.parent
    names = ("recovery-point", "replication", "cleaner")
    for name in names:
        (data / f"{name}-offset-checkpoint").write_text("0\n2\norders 0 55\nother 3 7\n")
    assert run("truncate", orders, "--to-offset", "33", "--in-place").code == 0
    for name in names:
        assert (data / f"{name}-offset-checkpoint").read_text() == "0\n2\nother 3 7\norders 0 30\n", name
    assert run("retain", orders, "--start-offset", "22", "--in-place").code == 0
    assert (data / "log-start-offset-checkpoint").read_text() == "0\n1\norders 0 22\n"
    assert read_offsets(data, topics=["orders"]) == list(range(22, 30))


def test_retain_requires_a_limit(run: Run, orders: Path) -> None:
    ended = run("retain", orders, "--in-place")
    assert ended.code == 2
    assert "say what to delete" in ended.errors
    now = str(FIRST_TIME + 40 + 1000)
    assert run("retain", orders, "--config", "retention.ms=1010", "--now", now, "--in-place").code == 0
    assert read_offsets(orders) == list(range(20, 60))
    assert run("retain", orders, "--config", "retention.bytes=542", "--in-place").code == 0
    assert read_offsets(orders) == list(range(40, 60))
    beyond = run("retain", orders, "--start-offset", "100", "--in-place")
    assert (beyond.code, "the log ends at 60" in beyond.errors) == (2, True)


def test_damage_is_refused_except_by_recover_which_says_so(run: Run, orders: Path) -> None:
    write_segment(orders, 20, made_batch(20), damaged(made_batch(30)))
    for command in ("compact", "retain", "truncate"):
        before = tree(orders)
        ended = run(command, orders, *CHANGES[command], "--in-place")
        assert ended.code == 1
        assert "salvage" in ended.errors
        assert tree(orders) == before
    ended = run("recover", orders, "--in-place", "--yes")
    assert ended.code == 1
    assert "cut off at the first damage" in ended.text
    assert read_offsets(orders) == list(range(30))


@pytest.mark.parametrize("left", ["orders-0/00000000000000000040.log.cleaned", ".kafka_cleanshutdown"])
def test_no_batch_after_damage_is_silently_cut_off_whatever_a_broker_left(
    run: Run, orders: Path, source: Path, left: str
) -> None:
    """A segment without index files is recovered also after a clean stop, and when the log is opened only to look at it."""
    write_segment(orders, 20, damaged(made_batch(20)), made_batch(30))
    (orders.parent / left).write_bytes(b"")
    before = tree(orders.parent)
    compact = ("compact", orders)
    for command in (("append", source, "--to", orders), (*compact, "--in-place"), (*compact, "--out", orders.parent / "new")):
        ended = run(*command)
        assert (ended.code, "`kafkalog salvage` keeps what follows" in ended.errors) == (1, True)
        assert tree(orders.parent) == before
    assert run("recover", orders, "--in-place", "--dry-run").code == 1


@pytest.mark.parametrize("command", ["append", "convert", "compact"])
def test_no_command_advises_an_option_that_it_does_not_have(run: Run, orders: Path, source: Path, command: str) -> None:
    write_segment(orders, 20, damaged(made_batch(20)), made_batch(30))
    arguments = ("append", source, "--to", orders) if command == "append" else (command, orders, *CHANGES[command], "--in-place")
    ended = run(*arguments)
    assert (ended.code, "kafkalog salvage" in ended.errors) == (1, True)
    assert "--on-damage skip" not in ended.errors


def test_a_segment_that_is_a_link_is_neither_lost_nor_silently_left_out(
    run: Run, orders: Path, source: Path, tmp_path: Path
) -> None:
    """Somebody moved it to another disk. The target of a link is not read, and no command acts as if the segment were gone."""
    moved = (orders / segment_file_name(20)).rename(tmp_path / "moved.log")
    (orders / segment_file_name(20)).symlink_to(moved)
    before = tree(orders)
    for command, options in {**CHANGES, "reindex": ()}.items():
        for where in (("--in-place",), ("--out", tmp_path / "out")):
            ended = run(command, orders, *options, *where)
            assert (ended.code, "link" in ended.errors) == (4, True)
    assert run("append", source, "--to", orders).code == 4
    assert tree(orders) == before
    assert not (tmp_path / "out").exists()
    salvaged = run("salvage", orders, "--out", tmp_path / "out")
    assert (salvaged.code, "not read" in salvaged.text, "40 records" in salvaged.text) == (4, True, True)


def test_a_folder_that_is_named_like_a_segment_costs_nothing(run: Run, orders: Path, source: Path) -> None:
    (orders / segment_file_name(5)).mkdir()
    assert run("recover", orders, "--in-place").code == 0
    assert read_offsets(orders) == list(range(60))
    assert run("append", source, "--to", orders).code == 0


def test_a_log_that_begins_after_its_end_is_not_reported_as_damaged(run: Run, orders: Path) -> None:
    """A broker deletes all of it then."""
    (orders.parent / "log-start-offset-checkpoint").write_text("0\n1\norders 0 500\n")
    ended = run("compact", orders, "--in-place")
    assert (ended.code, "log-start-offset-checkpoint" in ended.errors, "checksum" in ended.errors) == (2, True, False)
    assert read_offsets(orders, start_offset=0) == []
    assert len(list(orders.glob("*.log"))) == 3


def test_recover_distinguishes_a_tail_from_damage_in_the_newest_segment(run: Run, orders: Path) -> None:
    write_segment(orders, 40, made_batch(40), made_batch(50)[:-5])
    tail = run("recover", orders, "--in-place")
    assert (tail.code, "cut off after the last whole batch" in tail.text) == (0, True)
    write_segment(orders, 40, damaged(made_batch(40)), made_batch(50))
    damage = run("recover", orders, "--in-place", "--yes")
    assert (damage.code, "cut off at the first damage" in damage.text) == (1, True)


def test_a_torn_tail_is_no_damage(run: Run, orders: Path) -> None:
    write_segment(orders, 40, made_batch(40), made_batch(50)[:-5])
    assert run("retain", orders, "--start-offset", "5", "--in-place").code == 0
    assert read_offsets(orders) == list(range(5, 50))


@pytest.mark.parametrize("content", ["0\n1\na b\n", "0\nx\n0 0\n"], ids=["a word for an epoch", "a word for the count"])
def test_an_epoch_checkpoint_that_cannot_be_read_is_named(run: Run, source: Path, tmp_path: Path, content: str) -> None:
    folder = tmp_path / "data" / "orders-0"
    assert run("append", source, "--to", folder).code == 0
    (folder / "leader-epoch-checkpoint").write_text(content)
    ended = run("append", source, "--to", folder, "--again")
    assert (ended.code, f"{folder / 'leader-epoch-checkpoint'}: cannot be read" in ended.errors) == (4, True)
