"""Messages and questions before records are deleted for good, and runs in which one partition of several cannot be changed."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.format.names import segment_file_name
from kafkalog.format.reference import Record, encode_batch
from kafkalog.log.folders import find_partitions
from kafkalog.storage.failures import read_error
from kafkalog.storage.local import LocalFile, LocalStore
from kafkalog.tasks.compact import Compaction
from kafkalog.tasks.maintenance import ChangeRequest, MaintenanceResult, maintain_partition
from tests.builders.memory_store import MemoryStore
from tests.builders.small_logs import FIRST_TIME, made_batch, read_offsets, write_segment
from tests.tasks.test_salvage import damaged, tree

from .runner import Run, run_on_terminal

QUESTION = b"for good? [y/N]: "
SIZE = len(made_batch(0))
WHOLE = sum(len(made_batch(base)) for base in (0, 10, 20, 30))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three partitions: the one in the middle is damaged at offsets 10 to 19, and has intact batches after that."""
    folder = tmp_path / "data"
    for name in ("orders-0", "orders-1", "users-0"):
        second = damaged(made_batch(10)) if name == "orders-1" else made_batch(10)
        write_segment(folder / name, 0, made_batch(0), second, made_batch(20))
        write_segment(folder / name, 30, made_batch(30))
    return folder


@pytest.fixture
def broken(data: Path) -> Path:
    return data / "orders-1"


# recover


def test_recover_says_what_is_there_what_goes_and_what_salvage_would_keep(run: Run, broken: Path) -> None:
    ended = run("recover", broken, "--in-place", "--dry-run")
    assert ended.code == 1
    size, whole = SIZE, WHOLE
    assert ended.text.splitlines()[:3] == [
        f"orders-1: plan: recover: offsets 0 to 39, 2 segments, {whole} bytes",
        f"  cut off at the first damage, byte {size} of {segment_file_name(0)}: "
        f"deletes offsets 10 to 39, 20 intact records, {whole - size} bytes",
        f"  `kafkalog salvage {broken} --out DIR` loses only offsets 10 to 19",
    ]
    assert f"  then offsets 0 to 9, 1 segment, {size} bytes" in ended.text
    told = json.loads(run("recover", broken, "--in-place", "--dry-run", "--json").text)
    assert (told["before"]["end_offset"], told["after"]["end_offset"], told["loss"]["records"]) == (40, 10, 20)
    copied = json.loads(run("recover", broken, "--out", broken.parent.parent / "out", "--json").text)
    assert (copied["before"], copied["loss"]) == (told["before"], told["loss"])


def test_recover_without_a_terminal_deletes_intact_batches_only_with_yes(run: Run, broken: Path) -> None:
    before = tree(broken)
    refused = run("recover", broken, "--in-place")
    assert refused.code == 2
    assert "would delete offsets 10 to 39, 20 intact records" in refused.errors
    assert f"add --yes to delete it, or keep what is intact with `kafkalog salvage {broken} --out DIR`" in refused.errors
    assert tree(broken) == before
    assert run("recover", broken, "--in-place", "--yes").code == 1
    assert read_offsets(broken) == list(range(10))


@pytest.mark.parametrize(
    ("command", "goes", "answers"),
    [
        (("recover",), b"offsets 10 to 39, 20 intact records", {b"\n": (2, "not written"), b"\x03": (130, "interrupted")}),
        (("truncate", "--to-offset", "20"), b"offsets 20 to 39, 20 records", {b"n\n": (2, "not written")}),
        (("retain", "--start-offset", "15"), b"offsets 0 to 14, at most 15 records", {b"y\n": (0, "written, ")}),
    ],
)
def test_on_a_terminal_nothing_goes_before_somebody_has_said_yes(
    data: Path, command: tuple[str, ...], goes: bytes, answers: dict[bytes, tuple[int, str]]
) -> None:
    folder = data / ("orders-1" if command[0] == "recover" else "users-0")
    name, *options = command
    before = tree(folder)
    for answer, (code, words) in answers.items():
        ended = run_on_terminal(name, folder, *options, "--in-place", answers=[(QUESTION, answer)])
        assert (ended.code, words in ended.text) == (code, True), ended.text
        assert b"delete " + goes in ended.out.replace(b"\n", b" ")
        assert (tree(folder) == before) == (code != 0)


def test_nothing_is_asked_with_yes_in_a_dry_run_for_a_copy_or_where_nothing_goes(data: Path, tmp_path: Path) -> None:
    for options in (("--dry-run", "--in-place"), ("--in-place", "--yes")):
        ended = run_on_terminal("recover", data / "orders-1", *options)
        assert (ended.code, "[y/N]" in ended.text) == (1, False)
    ended = run_on_terminal("truncate", data / "users-0", "--to-offset", 20, "--out", tmp_path / "out")
    assert (ended.code, "[y/N]" in ended.text) == (0, False)


# truncate


def test_truncate_says_that_a_batch_goes_as_a_whole_before_it_does_it(run: Run, data: Path) -> None:
    ended = run("truncate", data / "orders-0", "--to-offset", "5", "--in-place", "--dry-run")
    assert "  offset 5 is inside a batch, which is removed as a whole: the log will end at 0, not at 5" in ended.text
    assert f"  deletes offsets 0 to 39, 40 records, {WHOLE} bytes" in ended.text
    assert "asked for" not in run("truncate", data / "orders-0", "--to-offset", "10", "--in-place", "--dry-run").text


def test_an_offset_that_compaction_left_out_is_inside_no_batch(run: Run, tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-0", 0, made_batch(0), made_batch(30))
    ended = run("truncate", tmp_path / "orders-0", "--to-offset", "20", "--in-place", "--dry-run")
    assert "asked for" not in ended.text
    assert "  deletes offsets 10 to 39, 10 records" in ended.text


# several partitions


CHANGES = {
    "compact": ("--roll",),
    "retain": ("--start-offset", "10"),
    "truncate": ("--to-offset", "20"),
    "convert": ("--codec", "gzip"),
    "recover": (),
}


PLACES = [*((name, "--in-place") for name in CHANGES), ("compact", "--out"), ("convert", "--out")]


@pytest.mark.parametrize(("name", "place"), PLACES)
def test_a_damaged_partition_does_not_keep_the_others_from_their_turn(
    run: Run, data: Path, tmp_path: Path, name: str, place: str
) -> None:
    before = tree(data / "orders-1")
    options, code = CHANGES[name], 2 if name == "recover" else 1
    where = (place,) if place == "--in-place" else (place, tmp_path / "out")
    ended = run(name, data, *options, *where)
    assert ended.code == code, ended.errors
    assert "orders-1: " in ended.errors
    assert "1 partition failed, the others are done: orders-1" in ended.errors
    for other in ("orders-0", "users-0"):
        assert f"{other}: written" in ended.text
    assert tree(data / "orders-1") == before
    again = run(name, data, *options, *where, "--json")
    assert [json.loads(line)["state"] for line in again.text.splitlines()] == ["already there", "failed", "already there"]


@pytest.fixture
def unreadable(data: Path, tmp_path: Path) -> Path:
    """A partition whose only log is a link, which is not followed."""
    for path in (data / "orders-0").iterdir():
        path.unlink()
    (tmp_path / "moved.log").write_bytes(made_batch(0))
    (data / "orders-0" / segment_file_name(0)).symlink_to(tmp_path / "moved.log")
    return data / "orders-0"


def test_salvage_rescues_the_others_when_one_partition_cannot_be_read(
    run: Run, data: Path, unreadable: Path, tmp_path: Path
) -> None:
    ended = run("salvage", data, "--out", tmp_path / "out")
    assert ended.code == 4
    assert f"orders-0: {unreadable / segment_file_name(0)}: a symbolic link" in ended.errors
    assert "1 partition failed, the others are done: orders-0" in ended.errors
    assert len(read_offsets(tmp_path / "out" / "orders-1")) == 30
    assert len(read_offsets(tmp_path / "out" / "users-0")) == 40


def test_of_a_log_that_cannot_be_opened_salvage_leaves_no_empty_partition(
    run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would look like a rescued one, and be in the way when the log can be read again."""
    opened = LocalStore.open

    def refuse(store: LocalStore, path: str) -> LocalFile:
        if path.startswith(str(data / "orders-0")):
            raise read_error(path, "opening failed", PermissionError(errno.EACCES, "no"))
        return opened(store, path)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "open", refuse)
        ended = run("salvage", data, "--topic", "orders", "--out", tmp_path / "out")
    assert (ended.code, "failed, the others are done: orders-0" in ended.errors) == (4, True)
    assert sorted(path.name for path in (tmp_path / "out").iterdir() if path.is_dir()) == ["orders-1"]
    assert "orders-0: written" in run("salvage", data, "--topic", "orders", "--out", tmp_path / "out").text


@pytest.mark.parametrize("command", [("compact",), ("convert",), ("reindex",), ("salvage",), ("truncate", "--to-offset", 5)])
def test_a_folder_inside_a_log_directory_is_refused_once_and_also_in_a_dry_run(
    run: Run, data: Path, command: tuple[object, ...]
) -> None:
    (data / "meta.properties").touch()
    name, *options = command
    for rest in ((), ("--dry-run",)):
        ended = run(name, data, *options, "--out", data / "rescued", *rest)
        assert (ended.code, ended.errors.count("inside of"), ended.text) == (2, 1, "")
    assert not (data / "rescued").exists()


def test_where_every_partition_failed_no_others_are_said_to_be_done(run: Run, tmp_path: Path) -> None:
    for name in ("orders-0", "users-0"):
        write_segment(tmp_path / name, 0, damaged(made_batch(0)), made_batch(10))
    ended = run("convert", tmp_path, "--codec", "gzip", "--out", tmp_path / "out")
    assert (ended.code, "2 partitions failed: orders-0, users-0" in ended.errors) == (1, True)


def test_salvage_takes_the_other_replica_of_one_that_cannot_be_read(
    run: Run, data: Path, unreadable: Path, tmp_path: Path
) -> None:
    write_segment(tmp_path / "second" / "orders-0", 0, made_batch(0))
    ended = run("salvage", data, tmp_path / "second", "--topic", "orders", "--partition", 0, "--out", tmp_path / "out")
    assert (ended.code, "not read: " in ended.text) == (4, True)
    assert read_offsets(tmp_path / "out") == list(range(10))


def test_reindex_rebuilds_the_others_when_one_partition_cannot_be_read(run: Run, data: Path, unreadable: Path) -> None:
    ended = run("reindex", data, "--in-place")
    assert (ended.code, "failed, the others are done: orders-0" in ended.errors) == (4, True)
    assert (data / "users-0" / segment_file_name(0, "index")).exists()


@pytest.mark.parametrize("command", ["recover", "compact", "convert", "truncate", "retain", "reindex", "salvage", "undelete"])
def test_a_mistyped_second_topic_is_refused_as_reads_refuse_it(run: Run, data: Path, tmp_path: Path, command: str) -> None:
    options = {"truncate": ("--to-offset", 20), "retain": ("--start-offset", 10)}.get(command, ())
    place = ("--out", tmp_path / "out")
    before = tree(data)
    for wrong in (("--topic", "usres"), ("--topic", "users", "--partition", 7)):
        ended = run(command, data, *options, "--topic", "orders", *wrong, *place)
        assert ended.code == 2
        meant = "no topic 'usres' here; did you mean users? there are: orders, users"
        assert meant in ended.errors or "no partition 7 here" in ended.errors
    assert tree(data) == before
    assert not (tmp_path / "out").exists()


# damage


def test_a_plan_of_convert_meets_the_damage_that_the_work_would_meet(run: Run, data: Path, broken: Path, tmp_path: Path) -> None:
    """Headers alone do not show it."""
    before = tree(tmp_path)
    for place in (("--in-place",), ("--out", tmp_path / "out")):
        ended = run("convert", broken, "--codec", "gzip", *place, "--dry-run")
        assert (ended.code, f"{broken / segment_file_name(0)} at byte {SIZE}: crc" in ended.errors) == (1, True)
        assert ended.text.startswith("orders-1: plan: 2 segments")
        planned = json.loads(run("convert", data / "users-0", "--codec", "gzip", *place, "--dry-run", "--json").text)
        assert tree(tmp_path) == before
        assert (planned["state"], planned["changed_segments"]) == ("not written", 2)
    done = json.loads(run("convert", data / "users-0", "--codec", "gzip", "--in-place", "--json").text)
    assert (planned["new_size"], planned["new_batches"]) == (done["new_size"], done["new_batches"])


def damaged_length(batch: bytes) -> bytes:
    return batch[:8] + (1).to_bytes(4, "big") + batch[12:]


def test_damage_met_by_a_change_is_reported_with_its_place_and_reason(run: Run, tmp_path: Path) -> None:
    """Before the recovery point a log is trusted, so that the work itself meets it; exit code 2 is for mistyped options."""
    folder = tmp_path / "data" / "orders-0"
    for base in (0, 20):
        write_segment(folder, base, made_batch(base), made_batch(base + 10))
    assert run("recover", folder, "--in-place").code == 0
    (folder.parent / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 40\n")
    path = write_segment(folder, 0, made_batch(0), damaged_length(made_batch(10)))
    for command in (("compact", "--roll"), ("truncate", "--to-offset", "15")):
        name, *options = command
        ended = run(name, folder, *options, "--in-place")
        assert (ended.code, f"{path} at byte {SIZE}: length: " in ended.errors) == (1, True), (ended.code, ended.errors)
        assert read_offsets(folder, on_damage="salvage", start_offset=20) == list(range(20, 40))


@pytest.mark.parametrize(("spoil", "reason"), [(damaged, "crc"), (damaged_length, "length")])
def test_the_reason_of_damage_is_the_true_one(run: Run, tmp_path: Path, spoil: Callable[[bytes], bytes], reason: str) -> None:
    path = write_segment(tmp_path / "orders-0", 0, made_batch(0), spoil(made_batch(10)), made_batch(20))
    ended = run("compact", tmp_path / "orders-0", "--in-place")
    assert (ended.code, f"{path} at byte {SIZE}: {reason}: " in ended.errors) == (1, True), ended.errors


# links


def test_a_partition_folder_that_is_a_link_is_reported_as_one(run: Run, data: Path, tmp_path: Path) -> None:
    moved = (data / "users-0").rename(tmp_path / "users-0")
    (data / "users-0").symlink_to(moved)
    for command in (("recover",), ("compact",), ("convert",), ("reindex",), ("truncate", "--to-offset", 1)):
        name, *options = command
        ended = run(name, data / "users-0", *options, "--in-place")
        assert (ended.code, f"a symbolic link to {moved}" in ended.errors, "mv" in ended.errors) == (2, True, True)
    (tmp_path / "a.txt").write_text("a\n")
    for to in (("--to", data / "users-0"), ("--to", data, "--topic", "users")):
        ended = run("append", tmp_path / "a.txt", *to)
        assert (ended.code, f"a symbolic link to {moved}" in ended.errors) == (2, True)
    copied = run("recover", data / "users-0", "--out", tmp_path / "out")
    assert copied.code == 0, "a partition that is only read may be a link"


def test_a_linked_partition_in_a_log_directory_is_not_silently_left_out(run: Run, data: Path, tmp_path: Path) -> None:
    """A broker follows the link, so it is one of its partitions."""
    moved = (data / "users-0").rename(tmp_path / "users-0")
    (data / "users-0").symlink_to(moved)
    read = run("cat", data, "--topic", "users")
    assert (read.code, f"{data / 'users-0'}: a symbolic link to a folder" in read.errors) == (4, True)
    assert "--on-damage skip leaves out what cannot be read; with --skip-io-errors, only the bad blocks" in read.errors
    assert run("verify", data).code == 4
    ended = run("recover", data, "--topic", "users", "--topic", "orders", "--in-place", "--whole", "--yes")
    assert (ended.code, "users-0: " in ended.errors, "orders-0: written" in ended.text) == (4, True, True)


# names


@pytest.mark.parametrize("hostile", ["a\nb\x1b]0;title\x07", "c\u202ed\rx"])
def test_no_name_of_a_folder_breaks_a_line_or_reaches_a_terminal_raw(run: Run, tmp_path: Path, hostile: str) -> None:
    data = tmp_path / hostile
    write_segment(data / "orders-0", 0, made_batch(0), damaged(made_batch(10)), made_batch(20))
    write_segment(data / "users-0", 0, made_batch(0))
    write_segment(data / f"gone-1.{'0' * 32}-delete", 5, made_batch(5))
    (tmp_path / "a.txt").write_text("a\n")
    out = ("--out", data / "out")
    for command in (
        ("salvage", data, *out),
        ("salvage", data / "orders-0", *out),
        ("undelete", data),
        ("reindex", data, "--in-place", "--dry-run"),
        ("recover", data, "--in-place", "--dry-run"),
        ("recover", data, "--in-place"),
        ("truncate", data / "users-0", "--to-offset", 5, "--in-place", "--dry-run"),
        ("convert", data, "--in-place"),
        ("append", tmp_path / "a.txt", "--to", data / "users-0"),
        ("append", tmp_path / "a.txt", "--to", data / "users-0"),
        ("append", tmp_path / "a.txt", "--to", data / "users-0", "--timestamps", "now"),
        ("undelete", data, "--out", data / "new"),
    ):
        ended = run(*command)
        for line in (*ended.text.split("\n"), *ended.errors.split("\n")):
            assert line.isprintable(), (command, line)
            assert not line.startswith(("b", "x")), (command, line)


# reindex


def test_a_dry_run_of_reindex_does_not_say_that_it_was_done(run: Run, data: Path) -> None:
    folder = data / "users-0"
    (folder / f"{5:020d}.snapshot").write_bytes(b"stale")
    ended = run("reindex", folder, "--in-place", "--dry-run")
    assert f"to rebuild {segment_file_name(0, 'index')}" in ended.text
    assert f"to remove {5:020d}.snapshot" in ended.text
    assert not [line for line in ended.text.splitlines() if line.lstrip().startswith(("rebuilt", "removed"))]
    assert os.listdir(folder)
    assert f"  rebuilt {segment_file_name(0, 'index')}" in run("reindex", folder, "--in-place").text


def test_compact_does_not_silently_delete_records_without_a_key(run: Run, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"line {number}\n" for number in range(20)))
    run("append", lines, "--to", tmp_path / "data", "--topic", "events")
    folder = tmp_path / "data" / "events-0"
    before = tree(folder)
    compaction = ("compact", folder, "--in-place", "--roll")
    plan = run(*compaction, "--dry-run").text
    assert "deletes 20 records without a key, the first at offset 0: the topic is not a compacted one" in plan
    refused = run(*compaction)
    assert (refused.code, "add --yes to delete it" in refused.errors) == (2, True)
    answered = run_on_terminal(*compaction, answers=[(QUESTION, b"n\n")])
    assert (answered.code, b"20 records without a key" in answered.out) == (2, True)
    assert tree(folder) == before
    done = run(*compaction, "--yes")
    assert (done.code, "0 of 20 records kept" in done.text) == (0, True)


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A partition of which half the records have no key."""
    keys = [b"a", None, b"a", None, b"b", None]
    records = [Record(offset, FIRST_TIME + offset, key, b"%d" % offset) for offset, key in enumerate(keys)]
    write_segment(tmp_path / "data" / "events-0", 0, encode_batch(records))
    return tmp_path / "data" / "events-0"


def test_a_compacted_copy_does_not_silently_lack_records_without_a_key(run: Run, mixed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    compaction = ("compact", mixed, "--out", out, "--roll")
    loss = "3 records without a key, the first at offset 1: the topic is not a compacted one"
    assert f"  deletes {loss}" in run(*compaction, "--dry-run").text
    refused = run(*compaction)
    assert (refused.code, f"would delete {loss}; add --yes" in refused.errors, out.exists()) == (2, True, False)
    answered = run_on_terminal(*compaction, answers=[(b"in the copy? [y/N]: ", b"n\n")])
    assert (answered.code, out.exists()) == (2, False)
    done = run(*compaction, "--yes")
    assert (done.code, "2 of 6 records kept" in done.text, f"  deleted {loss}" in done.text) == (0, True, True)
    again = run(*compaction, "--json")
    assert (again.code, json.loads(again.text)["state"], json.loads(again.text)["loss"]["without_key"]) == (0, "already there", 3)


def test_a_compacted_copy_from_elsewhere_does_not_silently_lack_records_without_a_key(mixed: Path, tmp_path: Path) -> None:
    """There is no plan of it; the loss is counted before the copy appears."""
    store = MemoryStore({f"events-0/{path.name}": path.read_bytes() for path in mixed.iterdir()})
    (partition,) = find_partitions(store, "events-0")
    asked: list[MaintenanceResult] = []

    def refuse(result: MaintenanceResult) -> bool:
        asked.append(result)
        return False

    for may_lose, state in ((refuse, "not written"), (lambda result: True, "written")):
        request = ChangeRequest(tmp_path / "out", now_ms=FIRST_TIME, may_lose=may_lose)
        result = maintain_partition(partition, Compaction(roll=True), request, {"cleanup.policy": "compact"})
        assert (result.state, result.loss and result.loss.without_key) == (state, 3)
        assert (tmp_path / "out" / "events-0").exists() == (state == "written")
    assert len(asked) == 1


def test_a_loss_has_no_more_records_than_offsets(run: Run, data: Path) -> None:
    plan = run("retain", data / "users-0", "--start-offset", 15, "--in-place", "--dry-run").text
    assert "deletes offsets 0 to 14, at most 15 records" in plan


@pytest.mark.parametrize("name", ["partition.metadata", "leader-epoch-checkpoint"])
def test_a_huge_sparse_metadata_file_is_refused_unread_and_the_other_partitions_have_their_turn(
    run: Run, data: Path, name: str
) -> None:
    huge = data / "users-0" / name
    huge.write_bytes(b"")
    os.truncate(huge, 8 << 30)
    ended = run("truncate", data, "--to-offset", 20, "--in-place", "--dry-run")
    assert f"users-0: {huge}: memory-limit: " in ended.errors
    assert "orders-0: plan" in ended.text
