"""Folders of ours are emptied; files and links that somebody else put in their place, or swaps in meanwhile, are left alone."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.errors import StorageError
from kafkalog.storage.unfinished import OPEN_FOLDER, empty_folder, require_own
from tests.conftest import NOBODY, require_root, unavailable


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file that must stay, whatever is asked for."""
    folder = tmp_path / "precious"
    (folder / "deep").mkdir(parents=True)
    (folder / "letter").write_text("keep")
    (folder / "deep" / "photo").write_text("keep")
    return folder


def is_whole(folder: Path) -> bool:
    return (folder / "letter").read_text() == (folder / "deep" / "photo").read_text() == "keep"


def make_staging(root: Path, run: str = "a") -> Path:
    staging = root / "_kafkalog" / "staging" / run
    (staging / "task" / "deeper").mkdir(parents=True)
    (staging / "task" / "deeper" / "part").write_text("x")
    (staging / "commit").write_text("x")
    return staging


def empty_own(folder: Path, swap: Callable[[], None] = lambda: None) -> None:
    """Empty a folder as those for unfinished work are; `swap` comes right before."""
    descriptor = os.open(folder, OPEN_FOLDER)
    try:
        require_own(descriptor, str(folder))
        swap()
        empty_folder(descriptor)
    finally:
        os.close(descriptor)


def test_all_that_is_in_a_folder_of_ours_goes(tmp_path: Path) -> None:
    staging = make_staging(tmp_path)
    empty_own(staging)
    assert list(staging.iterdir()) == []
    empty_own(staging)


def make_nested(folder: Path, depth: int) -> None:
    """So many folders, one in the other, with a file in the last: their path is longer than a system call accepts."""
    descriptor = os.open(folder, OPEN_FOLDER)
    for _ in range(depth):
        os.mkdir("nested", dir_fd=descriptor)
        inner = os.open("nested", OPEN_FOLDER, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(os.open("part", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)


def test_3000_nested_folders_inside_a_folder_of_ours_go_too(tmp_path: Path) -> None:
    staging = make_staging(tmp_path)
    make_nested(staging / "task", 3000)
    make_nested(staging, 3)
    (staging / "task" / "empty").mkdir(0o500)
    empty_own(staging)
    assert list(staging.iterdir()) == []


def test_of_links_inside_only_the_links_go(tmp_path: Path, precious: Path) -> None:
    staging = make_staging(tmp_path)
    (staging / "link").symlink_to(precious)
    (staging / "task" / "link").symlink_to(precious / "letter")
    os.link(precious / "letter", staging / "task" / "hard")
    empty_own(staging)
    assert list(staging.iterdir()) == []
    assert is_whole(precious)


def test_a_link_in_the_place_of_a_folder_is_not_followed(tmp_path: Path, precious: Path) -> None:
    (tmp_path / "staging").symlink_to(precious)
    with pytest.raises(OSError, match="Not a directory"):
        empty_own(tmp_path / "staging")
    assert is_whole(precious)


def test_a_folder_of_another_user_is_left_alone(tmp_path: Path) -> None:
    require_root()
    staging = make_staging(tmp_path)
    os.chown(staging, NOBODY, NOBODY)
    with pytest.raises(StorageError, match=r"belongs to nobody, so this command, which runs as root, did not make it"):
        empty_own(staging)
    assert (staging / "task" / "deeper" / "part").exists()


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_a_folder_that_others_may_write_to_is_left_alone(tmp_path: Path, mode: int) -> None:
    staging = make_staging(tmp_path)
    staging.chmod(mode)
    with pytest.raises(StorageError, match=rf"others may write to it \(mode {mode:04o}\)"):
        empty_own(staging)
    assert (staging / "commit").exists()


def test_a_link_that_is_swapped_in_while_we_delete_leads_nowhere(tmp_path: Path, precious: Path) -> None:
    staging = make_staging(tmp_path)
    (staging / "letter").write_text("x")

    def swap() -> None:
        staging.rename(tmp_path / "aside")
        staging.symlink_to(precious)

    empty_own(staging, swap)
    assert is_whole(precious)
    assert list((tmp_path / "aside").iterdir()) == []


def test_a_folder_inside_that_is_swapped_for_a_link_leads_nowhere(
    tmp_path: Path, precious: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging = make_staging(tmp_path)
    (staging / "deep").mkdir()
    open_folder = os.open

    def swap_and_open(name: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if name in ("deep", "task"):
            (staging / name).rename(tmp_path / f"aside-{name}")
            (staging / name).symlink_to(precious)
        return open_folder(name, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swap_and_open)
    with pytest.raises(OSError, match="Not a directory"):
        empty_own(staging)
    assert is_whole(precious)


def test_a_planted_folder_with_an_access_control_list_is_not_taken_for_one_on_a_disk_without_owners(tmp_path: Path) -> None:
    """The list says which modes new files get; a file made to find out whether modes are kept is given one first."""
    require_root()
    staging = make_staging(tmp_path)
    entries = [(0x01, 4), (0x04, 7), (0x20, 7)]  # the user reads, the group and others may do everything
    packed = b"".join(struct.pack("<HHI", tag, rights, 0xFFFFFFFF) for tag, rights in entries)
    try:
        os.setxattr(staging, "system.posix_acl_default", struct.pack("<I", 2) + packed)
    except OSError:
        unavailable("the file system of the tests has no access control lists")
    os.chown(staging, NOBODY, NOBODY)
    with pytest.raises(StorageError, match="belongs to nobody"):
        empty_own(staging)
    assert sorted(path.name for path in staging.iterdir()) == ["commit", "task"]
