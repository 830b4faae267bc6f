"""Our own JSON files next to data, edited or damaged: whatever is in them, no command fails as if it had a bug."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkalog.spark.ingestion import lease
from tests.cli.runner import Run, batch_of, write_topic

NOT_OBJECTS = {
    "empty": b"",
    "a list": b"[]",
    "null": b"null",
    "a number": b"7",
    "a text": b'"text"',
    "cut off": b'{"a": ',
    "not UTF-8": b'{"a": "\xff"}',
    "nested lists": b"[" * 100_000,
    "nested objects": b'{"a":' * 900 + b"1" + b"}" * 900,
    "a huge number": b'{"a": ' + b"1" * 5000 + b"}",
    "an empty object": b"{}",
}
WRONG: dict[str, Any] = {
    "missing": ...,
    "none": None,
    "true": True,
    "negative": -1,
    "fraction": 1.5,
    "text": "text",
    "number as text": "7",
    "NUL": "\0",
    "64 bits": 1 << 62,
    "huge": 10**30,
    "list": [],
    "list of a list": [[1]],
    "object": {},
    "object of an object": {"a": {"b": 1}},
    "nested": json.loads("[" * 40 + "]" * 40),
}


def mutants(valid: Any, wrong: Any) -> Iterator[Any]:
    """The value with each of its parts, one at a time, replaced by a wrong one, or left out."""
    inner = valid.items() if isinstance(valid, dict) else enumerate(valid) if isinstance(valid, list) else ()
    for key, value in list(inner):
        changed = copy.copy(valid)
        if wrong is ...:
            del changed[key]
        else:
            changed[key] = wrong
        yield changed
        for mutant in mutants(value, wrong):
            yield {**valid, key: mutant} if isinstance(valid, dict) else [*valid[:key], mutant, *valid[key + 1 :]]


def wrong_contents(name: str, *valid: Any) -> Iterator[bytes]:
    if name in NOT_OBJECTS:
        yield NOT_OBJECTS[name]
    else:
        for each in valid:
            yield from (json.dumps(mutant).encode() for mutant in mutants(each, WRONG[name]))


KINDS = pytest.mark.parametrize("kind", [*NOT_OBJECTS, *(name for name in WRONG if name not in NOT_OBJECTS)])


def check(run: Run, arguments: list[object], place: Path, content: bytes, *, is_refused: bool) -> None:
    """Run a command with this content of the file: it must not fail as a bug, and what is no object is refused by name."""
    ended = run(*arguments)
    assert ended.code in ((2,) if is_refused else (0, 1, 2, 4)), (content[:2000], ended)
    if is_refused:
        assert str(place) in ended.errors, ended


@KINDS
def test_a_job_file_of_append_that_is_not_one(run: Run, tmp_path: Path, kind: str) -> None:
    data, kept = tmp_path / "data", tmp_path / "kept"
    sources = [tmp_path / "old.jsonl", tmp_path / "new.jsonl"]
    for source in sources:
        source.write_text(f'{{"value": "{source.name}"}}\n')
    to = ["--to", data / "orders-0"]
    assert run("append", sources[0], *to).code == 0
    job = data / ".orders-0.append.json"
    done = json.loads(job.read_bytes())
    begun = {**done, "state": "begun", "result": {}, "starts": {"orders-0": [0, -1, 0]}}
    twice = {**begun, "before": [done]}
    data.rename(kept)
    for content in wrong_contents(kind, done, begun, twice):
        for source in sources:
            shutil.copytree(kept, data)
            job.write_bytes(content)
            check(run, ["append", source, *to], job, content, is_refused=kind in NOT_OBJECTS)
            shutil.rmtree(data)


@KINDS
@pytest.mark.parametrize("command", [["compact"], ["truncate", "--to-offset", "1"]], ids=lambda command: command[0])
def test_a_journal_of_a_copy_that_is_not_one(run: Run, tmp_path: Path, kind: str, command: list[str]) -> None:
    write_topic(tmp_path / "logs", "orders-0", batch_of(b"a", key=b"k"), batch_of(b"b", key=b"k", base_offset=1))
    write_topic(tmp_path / "logs", "orders-0", batch_of(b"c", base_offset=2), base_offset=2)
    arguments = [command[0], tmp_path / "logs", "--out", tmp_path / "out", *command[1:]]
    assert run(*arguments).code == 0
    journal = tmp_path / "out" / f"orders-0.{command[0]}.json"
    valid = json.loads(journal.read_bytes())
    for content in wrong_contents(kind, valid):
        journal.write_bytes(content)
        check(run, arguments, journal.with_name("orders-0"), content, is_refused=kind in NOT_OBJECTS)


@KINDS
def test_a_commit_of_an_ingest_that_is_not_one(run: Run, tmp_path: Path, kind: str) -> None:
    write_topic(tmp_path / "logs", "orders-0", batch_of(b'{"a": 1}'))
    target, kept = tmp_path / "tables", tmp_path / "kept"
    arguments = ["ingest", tmp_path / "logs", target, "--master", "none[1]", "--value", "json"]
    assert run(*arguments).code == 0
    commit = target / "_kafkalog" / "commits" / f"{1:020}.json"
    valid = json.loads(commit.read_bytes())
    target.rename(kept)
    write_topic(tmp_path / "logs", "orders-0", batch_of(b'{"a": 1}'), batch_of(b'{"a": 2}', base_offset=1))
    for content in wrong_contents(kind, valid):
        shutil.copytree(kept, target)
        commit.write_bytes(content)
        check(run, arguments, target, content, is_refused=kind in NOT_OBJECTS)
        shutil.rmtree(target)


@KINDS
def test_a_lease_that_is_not_one_is_shown_as_far_as_it_goes(kind: str) -> None:
    valid = {"token": "t", "host": "h", "process": 1, "since": "s", "renewals": 1, "free": True}
    for content in wrong_contents(kind, valid):
        assert lease._is_free(content) in (True, False)
        assert len(lease._holder(content)) < 400
