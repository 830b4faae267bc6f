"""A local target that somebody else has prepared: nothing outside of it changes, and every name fits before anything counts."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kafkalog.spark.errors import SparkSourceError
from kafkalog.spark.ingestion import layout, manifest
from kafkalog.spark.ingestion.layout import Edition, file_name, topic_folder
from kafkalog.spark.ingestion.local_target import LocalTarget
from kafkalog.storage.unfinished import NAME_BYTES
from tests.builders.small_logs import made_batch, write_segment
from tests.conftest import unavailable
from tests.spark.ingested import check_manifest, data_files, read_logs, read_table, take, write_orders
from tests.storage.test_own_folders import empty_own, make_nested

NOBODY = 65534


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return write_orders(tmp_path / "logs")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that has nothing to do with the target, and must stay as it is."""
    folder = tmp_path / "outside"
    (folder / "inner").mkdir(parents=True)
    (folder / "precious").write_bytes(b"precious")
    (folder / "inner" / "precious").write_bytes(b"precious")
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -- names -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["t" * 224, "t" * 225, "t" * 249, "_" + "t" * 248], ids=["224", "225", "249", "escaped"])
def test_a_topic_with_a_long_name_does_not_wedge_the_target(tmp_path: Path, target: Path, topic: str) -> None:
    folder = tmp_path / "logs" / f"{topic}-0"
    write_segment(folder, 0, made_batch(0))
    assert take(tmp_path / "logs", target).records == 10
    with (folder / f"{0:020}.log").open("ab") as file:
        file.write(made_batch(10))
    assert take(tmp_path / "logs", target).records == 10
    assert read_table(target) == read_logs(tmp_path / "logs")
    check_manifest(target)


def test_every_name_fits_and_names_of_ordinary_topics_are_what_they_were() -> None:
    assert topic_folder("orders") == "topic=orders"
    assert file_name("orders", 0, Edition(), 4711) == "orders-0-00000000000000004711.parquet"
    assert file_name("_a=b", 12, Edition(3), 0) == "%5Fa%3Db-12-3-00000000000000000000.parquet"
    assert file_name("orders", 0, Edition(0, 2), 80) == "orders-0-00000000000000000080-t2.parquet"
    assert file_name("t" * 224, 0, Edition(), 7) == "t" * 224 + "-0-00000000000000000007.parquet"
    assert topic_folder("t" * 249) == "topic=" + "t" * 249
    seen = set()
    for letter in ("t", "#", "_", "ü", "🜁", "\udcff"):
        for count in range(1, 250):
            name = file_name(letter * count, 2**31 - 1, Edition(999, 999), 2**63 - 1)
            folder = topic_folder(letter * count)
            assert max(len(name.encode()), len(folder.encode())) <= NAME_BYTES
            assert not name.startswith(("_", "."))
            seen.add((folder, name))
    assert len(seen) == 6 * 249


def test_a_name_that_does_not_fit_is_refused_before_anything_is_published(
    logs: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "file_name", lambda *parts: "x" * 256)
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_BAD_TARGET: .*a name of 256 bytes; at most 255 are possible"):
        take(logs, target)
    monkeypatch.undo()
    assert take(logs, target).commit == 1
    assert read_table(target) == read_logs(logs)
    check_manifest(target)


# -- commits -----------------------------------------------------------------------------------------------------------------


def forge(target: Path, **changes: Any) -> None:
    """A next commit of the target, with a run of its own and one file, changed as an attacker would."""
    before = json.loads((target / manifest.commit_path(1)).read_text())
    run = changes.pop("run", "evil")
    file = {"path": "topic=orders/x.parquet", "staged": f"{manifest.STAGING}/{run}/x", "records": 1, "size": 8, "offsets": {}}
    number = changes.pop("number", 2)
    content = {**before, "number": number, "run": run, "files": [{**file, **changes}]}
    (target / manifest.commit_path(2)).write_text(json.dumps(content))
    (target / manifest.STAGING / "evil").mkdir(parents=True, exist_ok=True)
    (target / manifest.STAGING / "evil" / "x").write_bytes(b"evil")


@pytest.mark.parametrize(
    "changes",
    [
        {"staged": "{outside}/precious"},
        {"staged": "_kafkalog/staging/evil/../../../../outside/precious"},
        {"staged": "topic=orders/somebody"},
        {"staged": 7},
        {"path": "{outside}/precious"},
        {"path": "../outside/precious"},
        {"path": "topic=orders//x.parquet"},
        {"path": "_kafkalog/commits/00000000000000000003.json"},
        {"path": "topic=orders/\0"},
        {"run": "../../../outside"},
        {"run": ".."},
        {"run": ""},
        {"run": {}},
        {"number": 3},
    ],
)
def test_a_commit_that_names_anything_but_its_own_files_moves_none(
    logs: Path, target: Path, outside: Path, changes: dict[str, Any]
) -> None:
    take(logs, target)
    before = tree(outside)
    forge(target, **{name: value.format(outside=outside) if isinstance(value, str) else value for name, value in changes.items()})
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_BAD_TARGET: .*00002\.json: not a commit of an ingest: (it|commit\.)"):
        take(logs, target)
    assert tree(outside) == before
    assert read_table(target) == read_logs(logs)


# -- links -------------------------------------------------------------------------------------------------------------------


def link(target: Path, name: str, to: Path) -> None:
    place = target / name
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.symlink_to(to)


@pytest.mark.parametrize(
    "name", ["_kafkalog", "_kafkalog/lock", "_kafkalog/staging", "_kafkalog/staging/inner", "_kafkalog/commits", "topic=orders"]
)
@pytest.mark.parametrize("is_new", [True, False])
def test_a_link_in_a_target_is_refused_and_what_it_points_to_stays(
    logs: Path, target: Path, outside: Path, name: str, is_new: bool
) -> None:
    if not is_new:
        take(logs, target)
        with (logs / "orders-1" / f"{0:020}.log").open("ab") as file:
            file.write(made_batch(10))
    before = tree(outside)
    link(target, name, outside / "precious" if name.endswith("lock") else outside)
    with pytest.raises(SparkSourceError, match=rf"BAD_TARGET: .*(/{name}: a symbolic link where|: topic=orders exists)"):
        take(logs, target)
    assert tree(outside) == before
    (target / name).unlink()
    if name in ("_kafkalog/lock", "_kafkalog/staging", "_kafkalog/staging/inner"):
        take(logs, target)
        assert read_table(target) == read_logs(logs)


def test_a_folder_of_a_table_that_is_a_link_is_refused_before_anything_is_published(
    logs: Path, target: Path, outside: Path
) -> None:
    take(logs, target)
    day = next(iter((target / "topic=orders").iterdir()))
    elsewhere = outside / "moved"
    day.rename(elsewhere)
    day.symlink_to(elsewhere)
    with (logs / "orders-1" / f"{0:020}.log").open("ab") as file:
        file.write(made_batch(10))
    before = tree(outside)
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_BAD_TARGET: .*/topic=orders/day=2023-11-14: a symbolic link where"):
        take(logs, target)
    assert tree(outside) == before
    assert not (target / manifest.commit_path(2)).exists()
    day.unlink()
    elsewhere.rename(day)
    assert take(logs, target).commit == 2
    assert read_table(target) == read_logs(logs)


def test_links_within_what_a_killed_run_left_are_removed_and_not_followed(logs: Path, target: Path, outside: Path) -> None:
    before = tree(outside)
    left = target / manifest.STAGING / "killed"
    left.mkdir(parents=True)
    (left / "000000").symlink_to(outside)
    (left / "file").symlink_to(outside / "precious")
    os.link(outside / "precious", left / "hard")
    take(logs, target)
    assert tree(outside) == before
    check_manifest(target)


def test_a_staging_folder_swapped_for_a_link_while_it_is_emptied_harms_nothing(
    target: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(outside)
    left = target / manifest.STAGING / "killed"
    left.mkdir(parents=True)
    real = shutil.rmtree

    def swapped(name: str, dir_fd: int) -> None:
        left.rename(left.with_name("away"))
        left.parent.rename(target / "moved")
        (target / manifest.STAGING).symlink_to(outside)
        real(name, dir_fd=dir_fd)

    monkeypatch.setattr(shutil, "rmtree", swapped)
    LocalTarget(str(target)).remove(f"{manifest.STAGING}/killed")
    assert tree(outside) == before


def test_nothing_outside_changes_while_somebody_swaps_folders_for_links(logs: Path, target: Path, outside: Path) -> None:
    """As root on a target that another user can write to: whichever moment the other picks, the run ends well or is refused."""
    before = tree(outside)
    take(logs, target)
    ended = threading.Event()
    swapped = [target / "_kafkalog", target / manifest.STAGING, target / "topic=orders"]

    def swap() -> None:
        while not ended.is_set():
            for folder in swapped:
                away = folder.with_name("away")
                with suppress(OSError):
                    folder.rename(away)
                    folder.symlink_to(outside)
                    ended.wait(0.001)
                    folder.unlink()
                    away.rename(folder)

    swapping = threading.Thread(target=swap)
    swapping.start()
    codes = set()
    try:
        for number in range(1, 40):
            with (logs / "orders-1" / f"{0:020}.log").open("ab") as file:
                file.write(made_batch(number * 10))
            try:
                take(logs, target)
            except SparkSourceError as error:
                codes.add(error.code)
    finally:
        ended.set()
        swapping.join()
    assert "KAFKALOG_BAD_TARGET" in codes
    assert tree(outside) == before


@pytest.mark.parametrize("kind", ["fifo", "folder"])
def test_a_lock_that_is_no_file_is_refused_at_once(logs: Path, target: Path, kind: str) -> None:
    (target / "_kafkalog").mkdir(parents=True)
    (os.mkfifo if kind == "fifo" else os.mkdir)(target / "_kafkalog" / "lock")
    with pytest.raises(SparkSourceError, match=rf"BAD_TARGET: .*/_kafkalog/lock: a {kind.replace('fifo', 'FIFO')} where"):
        take(logs, target)


def test_a_folder_that_another_user_has_put_into_staging_is_not_emptied(logs: Path, target: Path) -> None:
    if os.geteuid() != 0:
        unavailable("only root can give a folder to another user")
    planted = target / manifest.STAGING / "planted" / "deeper"
    planted.mkdir(parents=True)
    (planted / "theirs").write_bytes(b"theirs")
    os.chown(planted, NOBODY, NOBODY)
    with pytest.raises(SparkSourceError, match=rf"BAD_TARGET: .*/planted/deeper: belongs to user {NOBODY}, so it is not"):
        take(logs, target)
    assert (planted / "theirs").exists()
    os.chown(target, NOBODY, NOBODY)  # whose target it is, may have run an ingest there before
    take(logs, target)
    assert not planted.exists()
    assert len(data_files(target)) == 1


def test_3000_nested_folders_in_staging_are_refused_with_the_place(logs: Path, target: Path) -> None:
    planted = target / manifest.STAGING / "planted"
    planted.mkdir(parents=True)
    make_nested(planted, 3000)
    with pytest.raises(SparkSourceError, match=r"BAD_TARGET: .*/planted/nested/.*: folders nested deeper than an ingest makes"):
        take(logs, target)
    empty_own(planted)
    take(logs, target)


def test_a_folder_that_files_cannot_be_moved_to_is_found_before_anything_is_published(logs: Path, target: Path) -> None:
    take(logs, target)
    with (logs / "orders-1" / f"{0:020}.log").open("ab") as file:
        file.write(made_batch(10))
    day = next(iter((target / "topic=orders").iterdir()))
    kept = day.rename(target / "kept")
    day.write_bytes(b"a file")
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_BAD_TARGET: .*/day=2023-11-14: a file where an ingest has a folder"):
        take(logs, target)
    assert not (target / manifest.commit_path(2)).exists()
    day.unlink()
    kept.rename(day)
    take(logs, target)
    assert read_table(target) == read_logs(logs)


def test_a_run_that_published_and_could_not_move_its_files_says_so(
    logs: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object, **folders: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_STORAGE: .*No space left .*; commit 1 is published all the same"):
        take(logs, target)
    monkeypatch.undo()
    assert take(logs, target).commit is None
    assert read_table(target) == read_logs(logs)
    check_manifest(target)


def test_files_that_root_writes_into_another_user_s_target_belong_to_that_user(logs: Path, target: Path) -> None:
    if os.geteuid() != 0:
        unavailable("only root can give a folder to another user")
    target.mkdir()
    os.chown(target, NOBODY, NOBODY)
    take(logs, target)
    assert {(path.name, path.stat().st_uid, path.stat().st_gid) for path in target.rglob("*")} == {
        (path.name, NOBODY, NOBODY) for path in target.rglob("*")
    }


def test_a_root_s_file_linked_as_the_lock_stays_root_s(logs: Path, target: Path, outside: Path) -> None:
    if os.geteuid() != 0:
        unavailable("only root can give a folder to another user")
    (target / "_kafkalog").mkdir(parents=True)
    for folder in (target, target / "_kafkalog"):
        os.chown(folder, NOBODY, NOBODY)
    os.link(outside / "precious", target / "_kafkalog" / "lock")
    take(logs, target)
    assert (outside / "precious").stat().st_uid == 0
    assert (outside / "precious").read_bytes() == b"precious"


def test_a_folder_of_root_s_that_was_renamed_into_a_target_stays_root_s(logs: Path, target: Path) -> None:
    if os.geteuid() != 0:
        unavailable("only root can give a folder to another user")
    (target / "_kafkalog").mkdir(0o700, parents=True)
    os.chown(target, NOBODY, NOBODY)
    take(logs, target)
    assert (target / "_kafkalog").stat().st_uid == 0


def test_a_folder_that_a_killed_run_of_root_s_had_not_given_away_is_given_by_the_next(logs: Path, target: Path) -> None:
    if os.geteuid() != 0:
        unavailable("only root can give a folder to another user")
    (target / "_kafkalog").mkdir(parents=True)
    (target / "_kafkalog").chmod(0o1700)  # as it is made, before it is given to its owner
    os.chown(target, NOBODY, NOBODY)
    take(logs, target)
    found = (target / "_kafkalog").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7000) == (NOBODY, NOBODY, 0)
