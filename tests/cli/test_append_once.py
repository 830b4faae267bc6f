"""`kafkalog append` run again: a source that was appended is recognised by its content, and one that may have been is refused."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from kafkalog import append
from kafkalog.tasks.append import job as jobs
from tests.builders.small_logs import read_offsets, read_rows
from tests.tasks.test_salvage import tree

from .runner import COMMAND, Run

LINES = "".join(json.dumps({"key": f"k{n % 5}", "value": f"v{n}", "timestamp": n}) + "\n" for n in range(100))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "records.jsonl"
    path.write_text(LINES)
    return path


@pytest.fixture
def other(tmp_path: Path) -> Path:
    path = tmp_path / "other.jsonl"
    path.write_text('"other"\n')
    return path


def state(run: Run, *arguments: object) -> str:
    ended = run("append", *arguments, "--json")
    assert ended.code == 0, ended.errors
    return str(json.loads(ended.text)["state"])


def refusal(run: Run, folder: Path, *arguments: object) -> str:
    """The message of an append that is refused and changes nothing."""
    before = tree(folder)
    ended = run("append", *arguments)
    assert ended.code == 2, ended.text
    assert "--again" in ended.errors
    assert tree(folder) == before
    return ended.errors


def test_a_file_that_was_touched_is_not_appended_again(run: Run, source: Path, tmp_path: Path) -> None:
    to = ("--to", tmp_path / "data" / "orders-0")
    assert state(run, source, *to) == "written"
    os.utime(source, (1, 1))
    before = tree(tmp_path / "data")
    assert state(run, source, *to) == "already there"
    assert tree(tmp_path / "data") == before


@pytest.mark.parametrize(
    "options", [("--codec", "gzip"), ("--batch-bytes", "99"), ("--config", "segment.bytes=9999999"), ("--idempotent",)]
)
def test_other_options_for_the_same_records_append_nothing_and_are_reported(
    run: Run, source: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    to = ("--to", tmp_path / "orders-0")
    run("append", source, *to)
    ended = run("append", source, *to, *options)
    assert (ended.code, ended.text.startswith("orders: already there, 100 records")) == (0, True)
    assert f"{source}: appended to orders-0 on " in ended.text
    assert f" {options[0]} " in ended.text
    assert len(read_offsets(tmp_path / "orders-0")) == 100


def test_without_the_earlier_number_of_partitions_nothing_is_appended_again(run: Run, source: Path, tmp_path: Path) -> None:
    to = ("--to", tmp_path / "data", "--topic", "orders")
    assert state(run, source, *to, "--partitions", 3) == "written"
    assert state(run, source, *to) == "already there"
    assert len(read_offsets(tmp_path / "data")) == 100


def test_a_source_is_still_known_after_another_append(run: Run, source: Path, other: Path, tmp_path: Path) -> None:
    to = ("--to", tmp_path / "orders-0")
    for path in (source, other):
        assert state(run, path, *to) == "written"
    for path in (source, other):
        assert state(run, path, *to) == "already there"
    assert len(read_offsets(tmp_path / "orders-0")) == 101


def test_sources_that_were_appended_before_are_left_out(run: Run, source: Path, other: Path, tmp_path: Path) -> None:
    to = ("--to", tmp_path / "orders-0")
    run("append", source, *to)
    ended = run("append", source, other, *to)
    assert ended.text.startswith("orders: written, 1 record,")
    assert f"{source}: appended to orders-0 on " in ended.text
    assert state(run, other, source, *to) == "already there"
    assert len(read_offsets(tmp_path / "orders-0")) == 101


def test_the_same_content_under_another_name_is_refused(run: Run, source: Path, tmp_path: Path) -> None:
    """It may be the same file, moved, or other records that look the same: nothing may be doubled, nothing lost."""
    to = ("--to", tmp_path / "data" / "orders-0")
    run("append", source, *to)
    moved = source.rename(tmp_path / "moved.jsonl")
    assert f"{moved}: has the same content as {source}, appended to orders-0 on " in refusal(run, tmp_path / "data", moved, *to)
    assert state(run, moved, *to, "--again") == "written"
    assert state(run, moved, *to) == "already there"
    assert len(read_offsets(tmp_path / "data")) == 200


@pytest.mark.parametrize(
    "options",
    [("--format", "lines"), ("--timestamps", "now"), ("--encoding", "base64"), ("--transactional", "--end", "abort")],
)
def test_options_that_make_other_records_of_the_same_file_are_refused(
    run: Run, source: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    to = ("--to", tmp_path / "data" / "orders-0")
    run("append", source, *to)
    assert f"with {options[-2]} " in refusal(run, tmp_path / "data", source, *to, *options)


@pytest.mark.parametrize("name", ["records.jsonl", "records.txt", "records.csv"])
def test_of_a_file_that_has_grown_only_the_new_lines_are_appended_if_asked_for(run: Run, tmp_path: Path, name: str) -> None:
    to = ("--to", tmp_path / "data" / "orders-0")
    source = tmp_path / name
    source.write_text(("value\n" if name.endswith("csv") else "") + "1\n2\n")
    assert state(run, source, *to) == "written"
    for number in (3, 4):
        with source.open("a") as file:
            file.write(f"{number}\n")
        said = refusal(run, tmp_path / "data", source, *to)
        assert "has grown by 2 bytes; --only-new appends those, --again appends all of it once more" in said
        assert state(run, source, *to, "--only-new") == "written"
        assert state(run, source, *to) == "already there"
    assert read_rows(tmp_path / "data", columns=["value"]) == [b"1", b"2", b"3", b"4"]


def test_a_line_that_was_not_complete_is_not_taken_for_one_that_has_grown(run: Run, tmp_path: Path) -> None:
    to = ("--to", tmp_path / "data" / "orders-0")
    source = tmp_path / "records.txt"
    source.write_text("1\n2")
    run("append", source, *to)
    source.write_text("1\n23\n")
    assert "ended inside a line" in refusal(run, tmp_path / "data", source, *to, "--only-new")


def piped(text: str, *arguments: object) -> tuple[int, str]:
    command = [*COMMAND, "append", "-", *map(str, arguments)]
    done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=240, check=False)
    return done.returncode, (done.stdout + done.stderr).decode()


def test_piped_records_are_refused_when_they_come_again_and_the_log_is_as_before(run: Run, source: Path, tmp_path: Path) -> None:
    to = ("--to", tmp_path / "data" / "orders-0", "--config", "internal.segment.bytes=1000")
    assert piped(LINES, *to)[0] == 0
    before = read_rows(tmp_path / "data", columns=["offset", "value", "timestamp_ms"])
    for text, words in ((LINES, "has the same content as standard input"), (LINES + "1\n", "and has 2 bytes more")):
        code, said = piped(text, *to)
        assert (code, words in said, "--again" in said) == (2, True, True), said
        assert read_rows(tmp_path / "data", columns=["offset", "value", "timestamp_ms"]) == before
        assert run("verify", tmp_path / "data").code == 0
    assert piped('"something else"\n', *to)[0] == 0
    assert piped(LINES, *to, "--again")[0] == 0
    assert len(read_offsets(tmp_path / "data")) == 201
    assert "the same content as standard input" in refusal(run, tmp_path / "data", source, *to)


@pytest.mark.parametrize("name", ["records.parquet", "records.arrow", "records.arrows"])
def test_binary_sources_are_known_by_their_content_too(run: Run, tmp_path: Path, name: str) -> None:
    source = tmp_path / name
    table = pa.table({"value": pa.array([b"a", b"b"], pa.binary())})
    if name.endswith("parquet"):
        pyarrow.parquet.write_table(table, source)
    else:
        made = pa.ipc.new_file if name.endswith("arrow") else pa.ipc.new_stream
        with pa.OSFile(str(source), "wb") as sink, made(sink, table.schema) as writer:
            writer.write_table(table)
    to = ("--to", tmp_path / "data" / "orders-0")
    assert state(run, source, *to) == "written"
    os.utime(source, (1, 1))
    assert state(run, source, *to, "--codec", "zstd") == "already there"


def test_truncated_records_can_be_appended_again(run: Run, source: Path, other: Path, tmp_path: Path) -> None:
    """Otherwise append would claim that a truncated log holds these records."""
    folder = tmp_path / "orders-0"
    run("append", other, "--to", folder)
    run("append", source, "--to", folder)
    assert run("truncate", folder, "--to-offset", 1, "--in-place", "--yes").code == 0
    assert state(run, source, "--to", folder) == "written"
    assert state(run, other, "--to", folder) == "already there"
    assert len(read_offsets(folder)) == 101
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    assert state(run, other, "--to", folder) == "written"
    assert state(run, source, "--to", folder) == "written", "a source appended before the folder was deleted does not count"


def test_the_sources_of_a_topic_are_known_to_its_partitions(run: Run, source: Path, tmp_path: Path) -> None:
    topic = ("--to", tmp_path / "data", "--topic", "orders")
    partition = ("--to", tmp_path / "data" / "orders-0")
    run("append", source, *topic)
    assert "appended to orders on " in refusal(run, tmp_path / "data", source, *partition)
    assert state(run, source, *partition, "--again") == "written"
    job = tmp_path / "data" / ".orders-0.append.json"
    job.write_text(job.read_text().replace('"done"', '"begun"'))
    ended = run("append", source, *topic, "--codec", "gzip")
    assert (ended.code, "to orders-0 was interrupted here" in ended.errors) == (2, True)


def test_an_interrupted_append_names_the_options_it_was_begun_with_and_how_to_give_it_up(
    run: Run, source: Path, other: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "orders-0"
    run("append", other, "--to", folder)
    run("append", source, "--to", folder, "--codec", "lz4")
    job = tmp_path / ".orders-0.append.json"
    told = json.loads(job.read_text())
    job.write_text(json.dumps({**told, "state": "begun"}))
    ended = run("append", source, "--to", folder, "--codec", "zstd")
    assert ended.code == 2
    assert "run it again with --codec lz4 to complete it" in ended.errors
    assert f"kafkalog truncate {folder} --to-offset 1 --in-place" in ended.errors
    os.utime(source, (1, 1))
    assert "continued after" in run("append", source, "--to", folder, "--codec", "lz4").text
    assert len(read_offsets(folder)) == 101
    assert state(run, other, "--to", folder) == "already there", "earlier sources are still known"


def test_an_interrupted_append_with_again_continues_with_the_same_command(run: Run, source: Path, tmp_path: Path) -> None:
    to = ("--to", tmp_path / "orders-0")
    run("append", source, *to)
    run("append", source, *to, "--again")
    job = tmp_path / ".orders-0.append.json"
    job.write_text(json.dumps({**json.loads(job.read_text()), "state": "begun"}))
    assert "continued after" in run("append", source, *to, "--again").text
    assert len(read_offsets(tmp_path / "orders-0")) == 200


def test_a_new_topic_that_was_interrupted_between_two_partitions_is_completed(run: Run, source: Path, tmp_path: Path) -> None:
    to = ("--to", tmp_path / "data", "--topic", "orders", "--partitions", 3)
    run("append", source, *to)
    whole = read_rows(tmp_path / "data", columns=["partition", "offset", "value"])
    job = tmp_path / "data" / ".orders.append.json"
    told = json.loads(job.read_text())
    for path in (tmp_path / "data" / "orders-2").iterdir():
        path.unlink()
    (tmp_path / "data" / "orders-2").rmdir()
    job.write_text(json.dumps({**told, "state": "begun"}))
    os.utime(source, (1, 1))
    refused = run("append", source, *to)
    assert (refused.code, "has changed since" in refused.errors) == (2, True)
    described = told["request"]["sources"][0]
    os.utime(source, ns=(0, described["modified_ns"]))
    assert run("append", source, *to).code == 0
    assert read_rows(tmp_path / "data", columns=["partition", "offset", "value"]) == whole


def old_job(source: Path, told: dict[str, Any]) -> dict[str, Any]:
    """A job file as it was before sources were known by their content."""
    found = source.stat()
    sources = [{"path": str(source), "size": found.st_size, "modified_ns": found.st_mtime_ns}]
    request = {name: value for name, value in told["request"].items() if name != "again"}
    kept = {name: told[name] for name in ("now_ms", "producer_id", "starts", "state", "result")}
    kept["result"].pop("appended_before")
    return {"request": {**request, "sources": sources}, **kept}


def test_job_files_of_earlier_versions_are_read(run: Run, source: Path, tmp_path: Path) -> None:
    to = ("--to", tmp_path / "data" / "orders-0")
    run("append", source, *to)
    job = tmp_path / "data" / ".orders-0.append.json"
    old = old_job(source, json.loads(job.read_text()))
    job.write_text(json.dumps(old))
    assert state(run, source, *to) == "already there"
    job.write_text(json.dumps({**old, "state": "begun"}))
    assert "continued after" in run("append", source, *to).text
    job.write_text(json.dumps(old))
    os.utime(source, (1, 1))
    assert "whether it held the same is not known" in refusal(run, tmp_path / "data", source, *to)


def test_the_job_file_keeps_so_many_sources_and_no_more(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "SOURCES_KEPT", 3)
    for number in range(6):
        (tmp_path / f"{number}.txt").write_text(f"{number}\n")
        assert state(run, tmp_path / f"{number}.txt", "--to", tmp_path / "orders-0") == "written"
    told = json.loads((tmp_path / ".orders-0.append.json").read_text())
    assert len(told["before"]) == 3
    assert state(run, tmp_path / "2.txt", "--to", tmp_path / "orders-0") == "already there"


def test_empty_files_and_tables_have_nothing_to_be_known_by(run: Run, tmp_path: Path) -> None:
    to = tmp_path / "orders-0"
    table = pa.table({"value": pa.array([b"a"], pa.binary())})
    for _ in range(2):
        assert append(table, to).state == "written"
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("")
        assert state(run, tmp_path / name, "--to", to) == "written"
    assert len(read_offsets(to)) == 2


def test_a_pipe_with_a_name_is_not_said_to_be_missing(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    ended = run("append", tmp_path / "pipe.jsonl", "--to", tmp_path / "orders-0")
    assert (ended.code, "give - and make it standard input" in ended.errors) == (4, True)


def test_the_sources_of_a_topic_of_several_partitions_are_known_to_each_of_them(run: Run, source: Path, tmp_path: Path) -> None:
    run("append", source, "--to", tmp_path / "data", "--topic", "orders", "--partitions", 3)
    assert "appended to orders on " in refusal(run, tmp_path / "data", source, "--to", tmp_path / "data" / "orders-0")


@pytest.mark.parametrize("missing", [0, 1])
def test_a_topic_of_which_a_partition_is_elsewhere_is_not_taken_for_one_with_fewer(
    run: Run, source: Path, other: Path, tmp_path: Path, missing: int
) -> None:
    data = tmp_path / "data"
    run("append", source, "--to", data, "--topic", "orders", "--partitions", 3)
    (data / f"orders-{missing}").rename(tmp_path / "elsewhere")
    before = tree(data)
    ended = run("append", other, "--to", data, "--topic", "orders")
    assert ended.code == 2
    assert f"but no {missing}" in ended.errors
    assert f"--to {data / 'orders'}-" in ended.errors
    assert tree(data) == before


def test_an_append_that_was_given_up_as_advised_leaves_what_was_known(
    run: Run, source: Path, other: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "orders-0"
    run("append", other, "--to", folder)
    run("append", source, "--to", folder)
    job = tmp_path / ".orders-0.append.json"
    job.write_text(json.dumps({**json.loads(job.read_text()), "state": "begun"}))
    for again in ((), ("--again",)):
        ended = run("append", other, "--to", folder, *again)
        assert ended.code == 2
        assert "was interrupted here" in ended.errors
        assert "remove" not in ended.errors
    assert run("truncate", folder, "--to-offset", 1, "--in-place", "--yes").code == 0
    assert state(run, other, "--to", folder) == "already there"
    assert state(run, source, "--to", folder) == "written"
    assert len(read_offsets(folder)) == 101


def test_two_files_with_the_same_content_in_one_run_are_refused(run: Run, source: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(source.read_bytes())
    for second in (copy, source):
        assert "has the same content as" in refusal(run, tmp_path, source, second, "--to", tmp_path / "orders-0")
    assert state(run, source, copy, "--to", tmp_path / "orders-0", "--again") == "written"
    assert len(read_offsets(tmp_path / "orders-0")) == 200


def test_of_two_sources_the_one_that_is_given_again_is_counted_alone(run: Run, source: Path, other: Path, tmp_path: Path) -> None:
    run("append", source, other, "--to", tmp_path / "orders-0")
    assert run("append", other, "--to", tmp_path / "orders-0").text.startswith("orders: already there, 1 record,")


def test_a_plan_refuses_piped_records_that_were_appended_before(source: Path, tmp_path: Path) -> None:
    command = [*COMMAND, "append", "-", "--format", "json", "--to", str(tmp_path / "orders-0")]
    for options, code in (([], 0), (["--dry-run"], 2)):
        ended = subprocess.run([*command, *options], input=source.read_bytes(), capture_output=True, check=False)
        assert ended.returncode == code, ended.stderr


def test_all_and_only_what_is_new_cannot_both_be_meant(run: Run, source: Path, tmp_path: Path) -> None:
    ended = run("append", source, "--to", tmp_path / "orders-0", "--again", "--only-new")
    assert (ended.code, "give one of the two" in ended.errors) == (2, True)


@pytest.mark.parametrize("content", ['"two"\n', '"two\n'], ids=["other records", "a line that is no record"])
def test_records_that_others_appended_after_an_interrupted_append_stay_when_it_is_refused(
    run: Run, other: Path, tmp_path: Path, content: str
) -> None:
    to, job = ("--to", tmp_path / "orders-0"), tmp_path / ".orders-0.append.json"
    assert state(run, other, *to) == "written"
    mine, theirs = tmp_path / "mine.jsonl", tmp_path / "theirs.jsonl"
    mine.write_text('"one"\n')
    theirs.write_text('"theirs"\n')
    assert state(run, mine, *to) == "written"
    begun = json.loads(job.read_text()) | {"state": "begun", "result": {}}
    job.unlink()
    assert run("truncate", tmp_path / "orders-0", "--to-offset", 1, "--in-place").code == 0
    assert state(run, theirs, *to) == "written"
    job.write_text(json.dumps(begun))
    mine.write_text(content)
    assert run("append", mine, *to).code == 2
    assert [row["value"] for row in read_rows(tmp_path / "orders-0")] == [b"other", b"theirs"]
