"""The log directories of three brokers read as one: each record that a consumer got comes once."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.cli.main import main
from kafkalog.tables.logs import SeveralLogs
from tests.builders.small_logs import made_batch, write_segment
from tests.cli.runner import Ended, Run
from tests.clusters.disks import expected_records, log_directories, unpack_three

INTERNAL = "__"
Records = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def three(golden_folder: Path) -> Path:
    return unpack_three(golden_folder.parent / "clusters")


@pytest.fixture(scope="module")
def expected(golden_folder: Path) -> Records:
    return expected_records(golden_folder.parent / "clusters")


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def as_consumed(rows: Iterator[dict[str, Any]]) -> Records:
    """Rows of `records` in the shape of what a consumer got, by partition."""
    found: Records = {}
    for row in rows:
        if row["topic"].startswith(INTERNAL):
            continue
        names = {"CreateTime": 0, "LogAppendTime": 1}
        kind = next(name for name, number in names.items() if number == row["timestampType"])
        headers = [[each["key"], each["value"]] for each in row["headers"] or ()]
        found.setdefault(f"{row['topic']}-{row['partition']}", []).append(
            {
                "offset": row["offset"],
                "timestamp": row["timestamp_ms"],
                "timestampType": kind,
                "key": row["key"],
                "value": row["value"],
                "headers": headers,
                "leaderEpoch": row["leader_epoch"],
            }
        )
    return found


def consumed(expected: Records) -> Records:
    return {
        name: [
            {
                **row,
                "key": decoded(row["key"]),
                "value": decoded(row["value"]),
                "headers": [[name, decoded(content)] for name, content in row["headers"]],
            }
            for row in rows
        ]
        for name, rows in expected.items()
        if rows
    }


COLUMNS = ["topic", "partition", "offset", "timestamp_ms", "timestampType", "key", "value", "headers", "leader_epoch"]


@pytest.mark.parametrize("turned", [False, True])
def test_all_places_together_are_what_a_consumer_got_each_record_once(three: Path, expected: Records, turned: bool) -> None:
    logs = kafkalog.open(sorted(log_directories(three), reverse=turned))
    rows = iter(logs.read("records", COLUMNS, threads=1).read_all().to_pylist())
    assert as_consumed(rows) == consumed(expected)


def test_replicas_are_known_as_replicas(three: Path) -> None:
    logs = kafkalog.open(log_directories(three))
    assert isinstance(logs, SeveralLogs)
    assert len(logs.copies) == len(logs.partitions) == 36
    places = sum(len(each.chosen) + len(each.others) for each in logs.copies)
    assert places == sum(len(kafkalog.open(place).partitions) for place in log_directories(three))
    (orders,) = [each for each in logs.copies if str(each.chosen[0]) == "orders-0"]
    assert len(orders.others) == 2


@pytest.mark.parametrize("table", ["batches", "transactions", "epochs", "producers", "segments"])
def test_no_row_of_any_table_comes_twice(three: Path, table: str) -> None:
    places = log_directories(three)
    rows = kafkalog.open([*places, *places]).read(table).read_all().to_pylist()
    once = {json.dumps(row, default=str, sort_keys=True) for row in rows}
    assert rows
    assert len(once) == len(rows)


def test_log_directories_of_one_broker_are_a_union(three: Path) -> None:
    places = [three / "b1" / "d1", three / "b1" / "d2"]
    apart = [str(partition) for place in places for partition in kafkalog.open(place).live]
    assert sorted(str(partition) for partition in kafkalog.open(places).live) == sorted(apart)


def without_its_last_batch(folder: Path) -> None:
    """Cut the last batch off a partition, as if it had not been fetched."""
    log = [path for path in sorted(folder.glob("*.log")) if path.stat().st_size][-1]
    data, position, last = log.read_bytes(), 0, 0
    while position < len(data):
        last, position = position, position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    log.write_bytes(data[:last])


def test_a_copy_that_lost_its_end_is_not_read_though_its_checkpoint_has_a_newer_epoch(three: Path, tmp_path: Path) -> None:
    stale, good = tmp_path / "stale" / "orders-0", three / "b2" / "d1" / "orders-0"
    shutil.copytree(three / "b1" / "d1" / "orders-0", stale)
    without_its_last_batch(stale)
    checkpoint = stale / "leader-epoch-checkpoint"
    lines = checkpoint.read_text().split("\n")
    end = kafkalog.open(stale).read("records", ["offset"], include_control=True).read_all()["offset"][-1].as_py() + 1
    checkpoint.write_text("\n".join(["0", str(int(lines[1]) + 1), *filter(None, lines[2:]), f"99 {end}", ""]))
    for places in ([stale, good], [good, stale]):
        assert [partition.folder for partition in kafkalog.open(places).live] == [str(good)]


def test_a_diverged_copy_with_more_offsets_but_an_older_epoch_is_not_read(tmp_path: Path) -> None:
    write_segment(tmp_path / "old" / "t-0", 0, *(made_batch(base, leader_epoch=1) for base in (0, 10, 20, 30)))
    write_segment(tmp_path / "new" / "t-0", 0, made_batch(0, leader_epoch=1), made_batch(10, leader_epoch=2))
    logs = kafkalog.open([tmp_path / "old", tmp_path / "new"])
    assert logs.read("records", ["offset"]).read_all()["offset"].to_pylist() == list(range(20))


def test_a_copy_with_a_hole_and_without_an_index_is_not_older_than_a_short_one(tmp_path: Path) -> None:
    """Its entries cannot be followed from the first to the last; with an index the same copy was read."""
    batches = [made_batch(base, leader_epoch=1) for base in range(0, 80, 10)]
    write_segment(tmp_path / "short" / "t-0", 0, *batches[:6])
    batches[4] = bytes(len(batches[4]))
    holed = write_segment(tmp_path / "holed" / "t-0", 0, *batches)
    for places in (["holed", "short"], ["short", "holed"]):
        logs = kafkalog.open([tmp_path / place for place in places])
        assert [partition.folder for partition in logs.live] == [str(tmp_path / "holed" / "t-0")]
        found = logs.read("records", ["offset"], on_damage="salvage").read_all()["offset"].to_pylist()
        assert found == [*range(40), *range(50, 80)]
    shutil.rmtree(tmp_path / "short")
    holed.write_bytes(b"".join(batches[:2]) + bytes(1 << 12))
    write_segment(tmp_path / "whole" / "t-0", 0, *batches[:2], made_batch(20, leader_epoch=1))
    logs = kafkalog.open([tmp_path / "holed", tmp_path / "whole"])
    assert [partition.folder for partition in logs.live] == [str(tmp_path / "whole" / "t-0")]


def test_folders_that_a_broker_has_put_aside_are_not_replicas(tmp_path: Path) -> None:
    write_segment(tmp_path / "d1" / "t-0", 0, made_batch(0))
    write_segment(tmp_path / "d2" / "t-0.5f3c9a7be1d24c0f8a6b7d9e0c1f2a3b-future", 0, made_batch(0), made_batch(10))
    logs = kafkalog.open([tmp_path / "d1", tmp_path / "d2"])
    assert [partition.folder for partition in logs.live] == [str(tmp_path / "d1" / "t-0")]
    assert len(logs.partitions) == 2


def two_of_one_name(tmp_path: Path) -> list[Path]:
    for name, letter, count in (("a", "Q", 10), ("b", "g", 5)):
        write_segment(tmp_path / name / "t-0", 0, made_batch(0, count))
        (tmp_path / name / "t-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAA{letter}")
        write_segment(tmp_path / name / "u-0", 0, made_batch(0, count))
    return [tmp_path / "a", tmp_path / "b"]


def test_two_topics_of_one_name_are_named_and_one_is_asked_for(tmp_path: Path) -> None:
    places = two_of_one_name(tmp_path)
    logs = kafkalog.open(places)
    with pytest.raises(kafkalog.UsageError, match=r"^t: 2 topics have this name.*AAAAAQ \(.*/a/t-0\) and .*--topic-id ID"):
        logs.read("records", topics="t")
    assert logs.read("records", topics="u").read_all().num_rows == 10
    chosen = kafkalog.open(places, topic_ids="AAAAAAAAAAAAAAAAAAAAAg")
    assert chosen.read("records", topics="t").read_all().num_rows == 5
    with pytest.raises(kafkalog.UsageError, match=r"no topic with the id 'x' here; there are: AAAAAAAAAAAAAAAAAAAAAQ \(t\)"):
        kafkalog.open(places, topic_ids=["x"])


def test_what_is_at_none_of_the_places_is_an_error(three: Path) -> None:
    with pytest.raises(kafkalog.UsageError, match="did you mean orders"):
        kafkalog.open(log_directories(three)).read("records", topics="order")
    with pytest.raises(kafkalog.UsageError, match="at least one path"):
        kafkalog.open([])


def test_an_empty_log_directory_of_a_broker_holds_nothing(three: Path, tmp_path: Path) -> None:
    (tmp_path / "d3").mkdir()
    with pytest.raises(kafkalog.NoLogs):
        kafkalog.open([three / "b1" / "d1", tmp_path / "d3"])
    shutil.copy(three / "b1" / "d1" / "meta.properties", tmp_path / "d3")
    assert kafkalog.open([three / "b1" / "d1", tmp_path / "d3"]).live


# -- commands ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:

    def run_here(*arguments: object, **_: object) -> Ended:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        done = capfd.readouterr()
        return Ended(code, done.out.encode(), done.err)

    return run_here


def test_cat_and_table_of_all_places_have_each_record_once(run: Run, three: Path, expected: Records) -> None:
    places = log_directories(three)
    count = sum(len(rows) for name, rows in expected.items() if name.startswith("orders-"))
    ended = run("cat", *places, "--topic", "orders", "--format", "json", "--quiet")
    assert (ended.code, len(ended.text.splitlines())) == (0, count)
    ended = run("table", "records", *places, "--topic", "orders", "--columns", "offset", "--format", "csv", "--quiet")
    assert (ended.code, len(ended.text.splitlines())) == (0, count + 1)


def test_verify_checks_every_copy_and_gives_a_verdict_for_each_place(run: Run, three: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(three / "b2" / "d1", tmp_path / "d1")
    log = broken / "orders-0" / f"{0:020d}.log"
    content = bytearray(log.read_bytes())
    content[100] ^= 1
    log.write_bytes(content)
    ended = run("verify", three / "b1" / "d1", broken, "--json", "--quiet")
    *rows, last = map(json.loads, ended.text.splitlines())
    assert ended.code == 1
    assert [row["file"] for row in rows if row["reason"] == "crc"] == [str(log)]
    assert [verdict["path"] for verdict in last["verdicts"]] == [str(three / "b1" / "d1"), str(broken)]
    assert "verdict of " in run("verify", three / "b1" / "d1", broken).text


def test_ls_lists_each_partition_once_with_its_other_copies(run: Run, three: Path) -> None:
    ended = run("ls", *log_directories(three), "--json")
    found = json.loads(ended.text)["partitions"]
    assert (ended.code, len(found)) == (0, 36)
    (orders,) = [each for each in found if (each["topic"], each["partition"]) == ("orders", 0)]
    assert len(orders["replicas"]) == 2
    assert "replicas: listed from the copy that a read takes" in run("ls", *log_directories(three)).text


@pytest.mark.parametrize("command", ["transactions", "profile", "report"])
def test_other_commands_take_several_places(run: Run, three: Path, command: str, tmp_path: Path) -> None:
    more = ("--output", tmp_path / "report.html") if command == "report" else ("--json",)
    ended = run(command, *log_directories(three), *more, "--quiet")
    assert ended.code == 0
    if command == "profile":
        once = sum(partition.size for partition in kafkalog.open(log_directories(three)).live)
        assert json.loads(ended.text)["total"]["bytes"] == once


def test_segment_files_and_a_folder_given_twice_are_read_once(run: Run, three: Path) -> None:
    folder = three / "b1" / "d1" / "audit-0"
    files = sorted(folder.glob("*.log"), reverse=True)
    once = run("cat", folder, "--format", "csv", "--quiet").text
    assert len(files) == 2
    assert run("cat", *files, "--format", "csv", "--quiet").text == once
    assert run("cat", folder, three / "b1" / "d1", "--topic", "audit", "--format", "csv", "--quiet").text == once


def test_the_last_records_of_all_places_are_those_of_the_consumer(run: Run, three: Path, expected: Records) -> None:
    ended = run("cat", *log_directories(three), "--topic", "orders", "--tail-each", "1", "--format", "json", "--quiet")
    last = {(row["partition"], row["offset"]) for row in map(json.loads, ended.text.splitlines())}
    assert last == {(number, expected[f"orders-{number}"][-1]["offset"]) for number in range(6)}
