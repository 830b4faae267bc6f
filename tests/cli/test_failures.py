"""Every failure has its exit code and a few lines that say what, where and what to do."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog.cli import failure
from kafkalog.cli.main import main
from kafkalog.cli.render.summary import report_exit_code, summarise
from kafkalog.cli.render.target import open_target, refuse_kafka_file
from kafkalog.cli.render.writers import FORMATS
from kafkalog.errors import CodecMissing, CorruptBatch, LimitExceeded, NoLogs, StorageError, UsageError
from kafkalog.log.report import ReadReport
from kafkalog.tables.schemas import LOG_TABLES
from tests.cli.runner import COMMAND, Run, batch_of, run_child, write_topic
from tests.conftest import NOBODY, require, require_root

SENSORS = ("--topic", "sensors", "--columns", "offset", "--format", "csv")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CorruptBatch("crc"), 1),
        (CodecMissing("zstd needs a package"), 1),
        (UsageError("no"), 2),
        (LimitExceeded("batch-limit"), 3),
        (MemoryError(), 3),
        (StorageError("gone"), 4),
        (NoLogs("none"), 4),
        (OSError(5, "I/O"), 4),
        (AssertionError(), 5),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 141),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error: BaseException, code: int) -> None:
    assert failure.exit_code(error) == code
    assert 1 <= len(failure.describe(error).split("\n")) <= 3


def test_a_log_in_shared_memory_is_overwritten_no_more_than_one_on_a_disk() -> None:
    with pytest.raises(UsageError):
        refuse_kafka_file("--output", "/dev/shm/orders-0/00000000000000000000.log")
    refuse_kafka_file("--output", "/dev/stdout")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["records", "{logs}/nosuch"], 4, ["no such file or folder", "nosuch"]),
        (["records", "{empty}"], 4, ["no Kafka log here", "it is empty", "topic-partition folder"]),
        (["records", "{text}"], 2, ["not-a-segment", "20 digits"]),
        (["recrods", "{logs}"], 2, ["unknown table 'recrods'", "Did you mean records?"]),
        (["records", "{logs}", "--columns", "ofset"], 2, ["'ofset'", "Did you mean offset"]),
        (["records", "{logs}", "--columns", "offset,offset"], 2, ["twice"]),
        (["records", "{logs}", "--columns", "offset,"], 2, ["empty name"]),
        (["records", "{logs}", "--topic", "order"], 2, ["no topic 'order' here", "did you mean orders?"]),
        (["records", "{logs}", "--partition", "7"], 2, ["no partition 7", "there are: 0"]),
        (["records", "{logs}", "--format", "xml"], 2, ["xml", "parquet", "--help"]),
        (["records", "{logs}", "--start-time", "2026-01-01T00:00:00"], 2, ["no time zone", "2026-01-01T00:00:00Z"]),
        (["records", "{logs}", "--start-time", "soon"], 2, ["is not a time", "milliseconds"]),
        (["records", "{logs}", "--threads", "0"], 2, ["--threads"]),
        (["records"], 2, ["PATH", "--help"]),
        (["segments", "{logs}", "--start-offset", "1"], 2, ["--start-offset", "records and batches"]),
        (["batches", "{logs}", "--start-time", "1"], 2, ["--start-time", "records"]),
        (["records", "{logs}", "--nope"], 2, ["--nope", "--help"]),
        (["records", "{logs}", "--output", "{logs}/orders-0/00000000000000000000.log"], 2, ["no log is overwritten"]),
        (["records", "{logs}", "--report", "{logs}/meta.properties"], 2, ["no log is overwritten"]),
        (["records", "{logs}", "--topic", "orders", "--output", "{empty}/no/file"], 4, ["cannot write", "create the folder"]),
        (["records", "{logs}", "--topic", "orders", "--output", "{empty}"], 4, ["cannot write", "directory"]),
    ],
)
def test_a_mistake_is_explained(run: Run, logs: Path, tmp_path: Path, arguments: list[str], code: int, says: list[str]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("hello, this is no segment\n")
    places = {"logs": logs, "empty": tmp_path / "empty", "text": tmp_path / "notes.txt"}
    ended = run("table", *(argument.format(**places) for argument in arguments))
    assert ended.code == code
    assert ended.out == b""
    assert ended.errors.startswith("kafkalog: ")
    assert ended.errors.count("\n") <= 3
    assert "Traceback" not in ended.errors
    for word in says:
        assert word in ended.errors


def test_an_unknown_command_is_a_usage_error(run: Run) -> None:
    ended = run("tabel")
    assert ended.code == 2
    assert "tabel" in ended.errors


def test_alone_it_shows_its_help(run: Run) -> None:
    alone, asked = run(), run("--help")
    assert alone.code == asked.code == 0
    assert alone.out == asked.out
    assert "Exit codes:" in alone.text
    assert run("--version").text.startswith("kafkalog, version ")


def test_the_shell_completes_the_names_of_tables() -> None:
    environment = {**os.environ, "_KAFKALOG_COMPLETE": "bash_complete", "COMP_WORDS": "kafkalog table e", "COMP_CWORD": "2"}
    done = subprocess.run(COMMAND, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "plain,epochs\n"


# -- damage ----------------------------------------------------------------------------------------------------------------------


def test_strict_writes_the_rows_before_the_damage_then_the_error(run: Run, logs: Path) -> None:
    ended = run("table", "records", logs, *SENSORS)
    assert ended.code == 1
    assert ended.text.split() == ["offset", "0", "1"]
    assert "00000000000000000000.log at byte 92: crc" in ended.errors
    assert "--on-damage skip" in ended.errors


@pytest.mark.parametrize("name", ["text", "json", "csv", "arrow", "parquet"])
def test_no_file_is_left_after_a_strict_read_met_damage(run: Run, logs: Path, tmp_path: Path, name: str) -> None:
    old = tmp_path / "old"
    old.write_text("before")
    for file in (tmp_path / "new", old):
        ended = run("table", "records", logs, "--topic", "sensors", "--format", name, "--output", file)
        assert ended.code == 1
        assert "was not written" in ended.errors
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert old.read_text() == "before"


@pytest.mark.parametrize("mode", ["skip", "salvage"])
def test_skip_and_salvage_keep_the_rest_and_end_with_one_line(run: Run, logs: Path, tmp_path: Path, mode: str) -> None:
    report = tmp_path / "report.json"
    ended = run("table", "records", logs, *SENSORS, "--on-damage", mode, "--report", report)
    assert ended.code == 1
    assert ended.text.split()[1:] == ["0", "1", "4", "5", "6", "7"]
    assert ended.errors.count("\n") == 1
    assert "1 damaged range of 92 bytes" in ended.errors
    assert "at byte 92 of" in ended.errors
    found = json.loads(report.read_text())
    assert found["exit_code"] == 1
    assert found["error"] is None
    assert [(dropped["position"], dropped["length"]) for dropped in found["dropped"]] == [(92, 92)]
    assert found["kept"]["records"] == 6


def test_quiet_keeps_the_exit_code_and_says_nothing(run: Run, logs: Path) -> None:
    ended = run("table", "records", logs, *SENSORS, "--on-damage", "skip", "--quiet")
    assert (ended.code, ended.errors) == (1, "")


def test_the_report_of_a_strict_read_names_what_ended_it(run: Run, logs: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    assert run("table", "records", logs, *SENSORS, "--report", report).code == 1
    found = json.loads(report.read_text())
    assert (found["error"]["reason"], found["error"]["position"]) == ("crc", 92)
    assert found["kept"]["records"] == 2


def test_a_copy_that_was_cut_short_reads_up_to_there_and_says_so(run: Run, logs: Path, tmp_path: Path) -> None:
    copy = tmp_path / "orders-0" / "00000000000000000000.log"
    copy.parent.mkdir()
    copy.write_bytes((logs / "orders-0" / copy.name).read_bytes()[:300])
    ended = run("table", "records", copy, "--columns", "offset", "--format", "csv")
    assert ended.code == 0
    assert ended.text.split() == ["offset", "0", "1", "2", "3"]
    assert "tail of 49 bytes" in ended.errors
    assert "at byte 251 of" in ended.errors


def test_unreadable_files_outrank_damage_and_damage_outranks_a_limit() -> None:
    report = ReadReport()
    assert report_exit_code(report) == 0
    assert summarise(report) == ""
    report.drop(LimitExceeded("batch-limit", file="a", position=0, length=10))
    assert report_exit_code(report) == 3
    report.drop(CorruptBatch("crc", file="b\x1b", position=0, length=10))
    assert report_exit_code(report) == 1
    report.leave_unread(StorageError("c: gone"))
    assert report_exit_code(report) == 4
    assert summarise(report).isprintable()


# -- files, pipes, signals -------------------------------------------------------------------------------------------------------


def test_a_closed_pipe_ends_quietly_with_141(tmp_path: Path) -> None:
    write_topic(tmp_path, "many-0", *(batch_of(*[b"x" * 1000] * 100, base_offset=base) for base in range(0, 3000, 100)))
    for name in ("text", "arrow", "parquet"):
        command = [*COMMAND, "table", "records", str(tmp_path), "--format", name, "--quiet"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            child.stdout.close()
            errors = child.stderr.read()
            assert child.wait(60) == 141, (name, errors)
        assert errors.decode() == ""


def test_an_interrupt_ends_with_130_and_no_traceback(tmp_path: Path) -> None:
    write_topic(tmp_path, "many-0", *(batch_of(*[b"x" * 1000] * 100, base_offset=base) for base in range(0, 3000, 100)))
    command = [*COMMAND, "table", "records", str(tmp_path), "--format", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.read(100)  # it is writing now, and waits because nobody reads on
        child.send_signal(signal.SIGINT)
        errors = child.stderr.read()
        assert child.wait(60) == 130
    assert errors.endswith(b"kafkalog: interrupted\n")
    assert b"Traceback" not in errors


def test_a_full_disk_and_a_closed_standard_output_are_io_errors(logs: Path) -> None:
    table = f"table records {logs} --topic orders"
    cases = (
        (f"{table} > /dev/full", "No space left"),
        (f"{table} >&-", "output is closed"),
        ("--help > /dev/full", "No space left"),
    )
    for arguments, says in cases:
        done = subprocess.run(
            ["bash", "-c", f"{sys.executable} -m kafkalog {arguments}"], capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 4
        assert says in done.stderr
        assert "Traceback" not in done.stderr
        assert "Exception ignored" not in done.stderr


def test_a_folder_that_may_not_be_read_says_what_to_do(logs: Path, tmp_path: Path) -> None:
    command = [*COMMAND, "table", "segments", str(tmp_path / "orders-0")]
    if os.geteuid() == 0:
        require("setpriv")  # root without its capabilities is refused like anybody else
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]
    shutil.copytree(logs / "orders-0", tmp_path / "orders-0")
    (tmp_path / "orders-0").chmod(0)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    finally:
        (tmp_path / "orders-0").chmod(0o700)
    assert done.returncode == 4, done.stderr
    assert "Permission denied" in done.stderr
    assert "run as the user that owns the log folder" in done.stderr


def test_an_output_file_keeps_the_permissions_of_the_one_it_replaces(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("old")
    target.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(target)
    with open_target(str(link)) as sink:
        sink.write(b"new")
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "out"]


def test_an_output_file_that_root_writes_belongs_to_the_owner_of_the_one_it_replaces_or_of_its_folder(tmp_path: Path) -> None:
    require_root()
    os.chown(tmp_path, NOBODY, NOBODY)
    for name in ("new", "old"):
        target = tmp_path / name
        if name == "old":
            target.write_text("before")
            os.chown(target, 1234, 1234)
            target.chmod(0o600)
        with open_target(str(target)) as sink:
            sink.write(b"after")
    owners = {path.name: (path.stat().st_uid, path.stat().st_gid) for path in tmp_path.iterdir()}
    assert owners == {"new": (NOBODY, NOBODY), "old": (1234, 1234)}
    assert (tmp_path / "old").stat().st_mode & 0o777 == 0o600


def test_after_an_error_nothing_of_an_output_file_is_left_and_the_old_one_stays(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("old")
    with pytest.raises(BrokenPipeError), open_target(str(target)) as sink:
        sink.write(b"new")
        assert sorted(path.name.partition(".out")[1] for path in tmp_path.iterdir()) == ["", ".out"]
        raise BrokenPipeError
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_output_can_be_a_device(run: Run, logs: Path) -> None:
    assert run("table", "records", logs, "--topic", "orders", "--output", "/dev/null").code == 0
    assert Path("/dev/null").is_char_device()


def test_a_bug_is_called_one_and_its_trace_is_there_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], logs: Path
) -> None:
    def broken(request: object) -> int:
        raise RuntimeError("impossible \x1b[31m")

    monkeypatch.setattr("kafkalog.cli.run.table.write_table", broken)
    assert main(["table", "records", str(logs)]) == 5
    plain = capsys.readouterr().err
    assert "a bug in kafkalog" in plain
    assert "RuntimeError" in plain
    assert "Traceback" not in plain
    assert "\x1b" not in plain
    monkeypatch.setenv(failure.SHOW_TRACEBACK, "1")
    assert main(["table", "records", str(logs)]) == 5
    traced = capsys.readouterr().err
    assert "Traceback" in traced
    assert "\x1b" not in traced


NOT_UTF8 = os.fsdecode(b"\xff\xfe-0")


@pytest.mark.parametrize("name", ["evil\x1b]0;owned\x07-0", "line\nbreak-0", "\u202egnp-0", NOT_UTF8])
def test_a_hostile_folder_name_is_escaped_wherever_it_is_shown(run: Run, tmp_path: Path, name: str) -> None:
    write_topic(tmp_path, name, batch_of(b"a"), b"\x00" * 7 + b"\x09" + b"damage" * 20, batch_of(b"b", base_offset=20))
    folder = tmp_path / name
    for arguments in (["records", folder], ["records", tmp_path, "--topic", "x"], ["batches", folder, "--on-damage", "salvage"]):
        ended = run("table", *arguments, "--columns", "topic,file" if len(arguments) != 4 else "file")
        assert ended.code != 5, ended.errors
        assert all(line.isprintable() for line in (ended.text + ended.errors).split("\n"))


@pytest.mark.parametrize(
    "command",
    [
        *[["verify", "--format", name] for name in FORMATS],
        *[["table", name, "--format", "json"] for name in LOG_TABLES],
        ["verify"],
        ["ls", "--json"],
        ["profile", "--json"],
    ],
    ids=" ".join,
)
def test_a_folder_next_to_the_logs_whose_name_is_not_utf_8_is_no_bug(run: Run, tmp_path: Path, command: list[str]) -> None:
    write_topic(tmp_path, "orders-0", batch_of(b"a"))
    for name in (b"bad-\xff-0", b"bad-\xff-delete", b"orders-0/bad-\xff"):
        os.mkdir(os.fsencode(tmp_path) + b"/" + name)
    number = 2 if command[0] == "table" else 1
    ended = run(*command[:number], tmp_path, *command[number:])
    assert ended.code in (0, 1), ended.errors
    if "json" in command[-1] and (command[0] in ("verify", "ls") or "findings" in command):
        assert "\\udcff-delete" in ended.text


def test_the_real_console_script_reads_a_log(logs: Path) -> None:
    ended = run_child("table", "records", logs, "--topic", "orders", "--format", "json", "--columns", "offset")
    assert ended.code == 0
    assert [json.loads(line) for line in ended.text.splitlines()] == [{"offset": offset} for offset in range(10)]
    assert ended.errors == ""


def test_a_partition_without_segments_is_read_as_empty(run: Run, logs: Path, tmp_path: Path) -> None:
    shutil.copytree(logs / "orders-0", tmp_path / "orders-0")
    (tmp_path / "new-0").mkdir()
    ended = run("table", "records", tmp_path, "--columns", "topic", "--format", "csv")
    assert (ended.code, ended.errors) == (0, "")
    assert ended.text.split() == ["topic", *["orders"] * 10]


@pytest.mark.parametrize("name", LOG_TABLES)
@pytest.mark.parametrize("mode", ["strict", "skip"])
def test_a_segment_that_cannot_be_read_is_never_passed_over_in_silence(
    run: Run, logs: Path, tmp_path: Path, name: str, mode: str
) -> None:
    shutil.copytree(logs / "orders-0", tmp_path / "orders-0")
    (tmp_path / "orders-0" / "00000000000000000010.log").symlink_to(logs / "legacy-0" / "00000000000000000000.log")
    ended = run("table", name, tmp_path, "--on-damage", mode)
    assert ended.code == 4
    assert "00000000000000000010.log" in ended.errors
