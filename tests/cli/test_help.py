"""Help that can be skimmed: groups, widths, exit codes once, the same option for the same thing, and examples that work."""

from __future__ import annotations

import inspect
import re
import shlex
import shutil
import signal
import struct
import subprocess
from importlib.metadata import version
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet
import pytest

import kafkalog
from kafkalog.cli.commands.help import Command, Context, Option
from kafkalog.cli.main import COMMANDS, main
from kafkalog.cli.main import kafkalog as group
from kafkalog.cli.run.version import MISSING, NATIVE_FUNCTIONS, version_lines
from kafkalog.format.reference import Record, encode_batch
from kafkalog.kernels import native
from tests.builders.small_clusters import (
    OTHER_ID,
    CopyFiles,
    cluster_records,
    directory_id,
    disk_files,
    metadata_batch,
    metadata_files,
    write_files,
)
from tests.builders.small_logs import made_batch
from tests.cli.runner import COMMAND, Run, write_topic
from tests.clusters import packed

NARROW = 80
EXAMPLE = re.compile(r"^  (kafkalog .*)$", re.MULTILINE)
RECORDS = 5000
FIRST_TIME = 1_767_225_600_000  # 2026-01-01
INTERRUPTED = 130

# Names in the examples, and their replacements in the folder in which they run.
PATHS = {
    "/var/lib/kafka/data": "data",
    "/mnt/broken/data": "data",
    "/disk1/kafka": "data",
    "/disk2/kafka": "other",
    "/lake/kafka": "lake",
    "s3://lake/kafka": "lake",
    "s3://bucket/backup": "data",
    "/mnt/nodes": "three",
    "/mnt/b1": "b1",
    "/mnt/b2": "b2",
    "/mnt/new": "new",
}


def help_of(command: click.Command, width: int = NARROW) -> str:
    parent = Context(group, info_name="kafkalog", **group.context_settings)
    if command is group:
        return group.get_help(Context(group, info_name="kafkalog", terminal_width=width, **group.context_settings))
    return command.get_help(Context(command, parent=parent, info_name=command.name, terminal_width=width))


def examples_of(command: click.Command) -> list[str]:
    return EXAMPLE.findall(help_of(command).partition("\nExamples:\n")[2])


ELSEWHERE = "kafkalog demo --keep tour"  # test_demo.py runs all of the demo
EXAMPLES = sorted({example for command in (group, *COMMANDS) for example in examples_of(command)} - {ELSEWHERE})


@pytest.mark.parametrize("command", [group, *COMMANDS], ids=lambda command: str(command.name))
@pytest.mark.parametrize("width", [NARROW, 120])
def test_every_help_fits_the_terminal(command: click.Command, width: int) -> None:
    assert [line for line in help_of(command, width).splitlines() if len(line) > width] == []


def test_no_name_is_broken_at_a_hyphen() -> None:
    wrong = [line for command in COMMANDS for line in help_of(command).splitlines() if re.search(r"\w-$", line)]
    assert wrong == []


def test_no_range_is_shown_as_a_formula_and_no_default_is_broken_off() -> None:
    for command in COMMANDS:
        assert "[x>=" not in help_of(command)
        assert [line for line in help_of(command).splitlines() if line.endswith("[default:")] == []


def test_every_option_says_what_it_is() -> None:
    options = [option for command in COMMANDS for option in command.params if isinstance(option, click.Option)]
    assert [option.name for option in options if not option.help or option.help.startswith("[default")] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["truncate", "x", "--to-offset", "-3", "--out", "y"], "'--to-offset': -3 is too small: the least is 0"),
        (["append", "x", "--to", "y", "--producer-epoch", "32768"], "'--producer-epoch': 32768 is too large: the most is 32767"),
        (["cat", "x", "--tail", "ten"], "'--tail': 'ten' is not a valid integer"),
        (["ingest", "logs"], "give SOURCE and TARGET: kafkalog ingest /var/lib/kafka/data /lake/kafka"),
    ],
)
def test_a_mistake_is_answered_in_words(run: Run, arguments: list[str], message: str) -> None:
    ended = run(*arguments)
    assert (ended.code, message in ended.errors) == (2, True), ended


def test_every_command_is_in_one_group_and_its_summary_on_one_line() -> None:
    grouped = [command.name for commands in group.headings.values() for command in commands]
    assert sorted(map(str, grouped)) == sorted(group.commands)
    lines = help_of(group).splitlines()
    for command in COMMANDS:
        (line,) = (line for line in lines if line.startswith(f"  {command.name}  "))
        assert line.endswith("."), line


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command.name))
def test_every_command_ends_with_two_or_three_examples_of_itself(command: click.Command) -> None:
    examples = examples_of(command)
    assert 2 <= len(examples) <= 3
    assert help_of(command).rstrip().endswith(examples[-1])
    assert all(f"kafkalog {command.name} " in example for example in examples)


def test_exit_codes_are_listed_once() -> None:
    assert help_of(group).count("Exit codes:") == 1
    assert [command.name for command in COMMANDS if "Exit codes:" in help_of(command)] == []


# Kafka's own tool gives dump its options; estimate has nothing to be quiet about; demo only shows the others; a report is a page;
# a cluster is more than its topics.
WITHOUT = {
    "--json": {"demo", "dump", "report"},
    "--quiet": {"demo", "dump", "estimate"},
    "--topic": {"cluster", "cluster rebuild", "demo", "dump", "estimate", "explain"},
}


@pytest.mark.parametrize("option", ["--json", "--quiet", "--topic"])
def test_an_option_has_one_name_in_all_commands(option: str) -> None:
    missing = {str(command.name) for command in COMMANDS if option not in options_of(command)}
    assert missing == WITHOUT[option]


def options_of(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts}


def test_output_files_and_folders_are_called_the_same_everywhere() -> None:
    for command in COMMANDS:
        names = options_of(command)
        assert ("--output" in names) == ("-o" in names), command.name
        assert not names & {"--output-file", "--outfile", "--output-dir", "--target", "--dir"}, command.name


def test_old_spellings_are_accepted_and_not_shown() -> None:
    found = {old: option for command in COMMANDS for option in command.params if isinstance(option, Option) for old in option.old}
    assert set(found) == {"--value"}
    ingest = group.commands["ingest"]
    assert "--value" not in help_of(ingest)
    for spelling in ("--decode", "--value"):
        assert ingest.make_context("ingest", ["a", "b", spelling, "json"]).params["value"] == "json"


# -- the examples ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the examples name, made by the commands themselves."""
    folder = tmp_path_factory.mktemp("examples")
    times = range(FIRST_TIME, FIRST_TIME + RECORDS * 1000, 1000)
    orders = pa.table({"key": [f"user-{time % 7}" for time in times], "value": ['{"id": 1}'] * RECORDS, "timestamp_ms": times})
    pa.parquet.write_table(orders, folder / "made.parquet")
    for name in ("a", "b"):
        pa.parquet.write_table(orders.slice(0, 3 + len(name) + ord(name)), folder / f"{name}.parquet")
    for topic in ("orders", "users", "payments"):
        form = ["--transactional"] if topic == "payments" else []
        assert main(["append", str(folder / "made.parquet"), "--to", str(folder / "data"), "--topic", topic, *form]) == 0
    for name in ("orders-0", "users-0", "payments-0"):
        shutil.copytree(folder / "data" / name, folder / name)
    for name in ("broker1", "broker2", "backup", "other"):
        shutil.copytree(folder / "data" / "orders-0", folder / name / ("orders-0" if name != "other" else "more-0"))
    write_topic(folder, "offsets-0", committed_offset())
    for node, path in enumerate(("b1/d1", "b2/d1", "cluster-backup/b1"), 1):
        write_files(folder, disk_files(path, node, {"orders-0": CopyFiles(made_batch(0))}))
    metadata = metadata_files("new/d1", [1], metadata_batch(0, *cluster_records({1: [directory_id(1, 70)]})))
    write_files(folder, disk_files("new/d1", 1, {}, number=70, cluster=OTHER_ID) | metadata)
    (folder / "topics.properties").write_text("orders/retention.ms=604800000\n")
    shutil.copy(folder / "offsets-0" / f"{0:020}.log", folder)
    for name in ("orders.jsonl", "records.jsonl"):
        (folder / name).write_text(f'{{"key": "k", "value": "v", "timestamp": {FIRST_TIME}}}\n')
    (folder / "orders.ddl").write_text("id INT")
    packed.unpack(folder)
    return folder


def committed_offset() -> bytes:
    """A batch of __consumer_offsets with one OffsetCommit, version 1 of key and value."""

    def text(content: bytes) -> bytes:
        return struct.pack(">h", len(content)) + content

    key = struct.pack(">h", 1) + text(b"group") + text(b"orders") + struct.pack(">i", 0)
    value = struct.pack(">hq", 1, 42) + text(b"") + struct.pack(">qq", FIRST_TIME, FIRST_TIME)
    return encode_batch([Record(0, FIRST_TIME, key, value)])


# What a search says at its end; the logs here need not have what an example looks for.
MATCHED = re.compile(r"kafkalog: (\d+ of \d+ records? matched|no records between these offsets and times|wrote .*)\n")


def commands_in(example: str) -> list[list[str]]:
    """The arguments of each command of a pipe, with paths that exist here."""
    for path, there in sorted(PATHS.items(), key=lambda pair: -len(pair[0])):
        example = example.replace(path, there)
    commands = [shlex.split(part)[1:] for part in example.split(" | ")]
    return [[*words, "--master", "none"] if words[0] == "ingest" and "--master" not in words else words for words in commands]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 2 * len(COMMANDS) - 1


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_does_what_it_says(
    example: str, run: Run, template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "here"
    shutil.copytree(template, folder)
    monkeypatch.chdir(folder)
    commands = commands_in(example)
    if "--follow" in commands[0]:
        assert follow(commands[0]) == INTERRUPTED
        return
    if len(commands) == 1:
        ended = run(*commands[0])
        assert (ended.code, MATCHED.sub("", ended.errors)) == (0, ""), ended
        return
    content = b""
    for words in commands:
        done = subprocess.run([*COMMAND, *words], input=content, capture_output=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr
        content = done.stdout


def follow(words: list[str]) -> int:
    """The exit code after Ctrl-C, once the first record is there."""
    with subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=240)
        return child.returncode


# -- the version -------------------------------------------------------------------------------------------------------------


def test_the_version_alone_is_one_line(run: Run) -> None:
    assert run("--version").text == run("-V").text == f"kafkalog, version {kafkalog.__version__}\n"


def test_the_version_in_detail_names_libraries_and_c_functions(run: Run) -> None:
    lines = run("--version", "--verbose").text.splitlines()
    assert lines[0] == f"kafkalog, version {kafkalog.__version__}"
    for name in ("numpy", "numba", "pyarrow"):
        assert f"{name} {version(name)}" in lines
    for find, name, package in NATIVE_FUNCTIONS:
        (line,) = (line for line in lines if name in line)
        assert (f"found in {package} " in line) == (find() != native.NOT_FOUND)


def test_a_missing_c_function_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MISSING == "missing: the Python binding is used instead"
    monkeypatch.setattr("kafkalog.cli.run.version.NATIVE_FUNCTIONS", ((lambda: native.NOT_FOUND, "crc32_iscsi", "isal"),))
    assert f"  {'crc32_iscsi':<24}{MISSING}" in list(version_lines())


def test_the_version_in_detail_leaves_no_c_function_out() -> None:
    finders = {function for name, function in inspect.getmembers(native) if name.endswith("_function")}
    assert finders == {find for find, _, _ in NATIVE_FUNCTIONS}


def test_verbose_alone_says_what_to_type(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--verbose"]) == 2
    assert "kafkalog --version --verbose" in capsys.readouterr().err


def test_a_verb_is_a_command_of_its_own_and_the_path_of_the_other_may_have_its_name() -> None:
    called: list[tuple[str, tuple[str, ...]]] = []

    @click.command("show", cls=Command)
    @click.argument("paths", nargs=-1)
    def show(paths: tuple[str, ...]) -> None:
        called.append(("show", paths))

    @click.command("rebuild", cls=Command, help="Make it again.")
    @click.argument("paths", nargs=-1)
    def rebuild(paths: tuple[str, ...]) -> None:
        called.append(("rebuild", paths))

    show.add_verb(rebuild)
    for words in (["a", "b"], ["rebuild", "a"], ["./rebuild"], ["a", "rebuild"]):
        with show.make_context("show", words) as context:
            context.command.invoke(context)
    assert called == [("show", ("a", "b")), ("rebuild", ("a",)), ("show", ("./rebuild",)), ("show", ("a", "rebuild"))]
    with pytest.raises(click.exceptions.Exit):
        show.make_context("show", ["rebuild", "--help"])
    assert "rebuild  Make it again." in help_of(show)
