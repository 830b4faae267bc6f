"""The overlay: writes to it are read from it, and none reaches the disk below."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.storage.fs import LocalFs
from kafkalog.storage.overlay import OverlayFs
from tests.builders.simulated_disk import SimulatedFs
from tests.tasks.test_salvage import tree

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 9000), st.binary(min_size=1, max_size=5000)),
        st.tuples(st.just("truncate"), st.integers(0, 12_000), st.just(b"")),
    ),
    max_size=8,
)


@given(st.binary(max_size=9000), STEPS)
def test_a_file_changed_in_memory_reads_like_one_changed_on_a_disk(content: bytes, steps: list[tuple[str, int, bytes]]) -> None:
    below = SimulatedFs({"/a/file": content})
    overlay, disk = OverlayFs(below), SimulatedFs({"/a/file": content})
    for fs in (overlay, disk):
        file = fs.open("/a/file")
        for action, position, data in steps:
            if action == "write":
                file.write(position, data)
            else:
                file.truncate(position)
    expected = disk.files()["/a/file"]
    assert overlay.size("/a/file") == len(expected)
    assert overlay.read("/a/file", 0, len(expected) + 10) == expected
    assert overlay.read("/a/file", 3, 4500) == expected[3:4503]
    assert overlay.changes() == (["/a/file"] if expected != content else [])
    assert below.files() == {"/a/file": content}


def test_names_change_in_memory_only(tmp_path: Path) -> None:
    for name in ("kept", "renamed", "removed"):
        (tmp_path / name).write_text(name)
    before = tree(tmp_path)
    fs, folder = OverlayFs(LocalFs()), str(tmp_path)
    fs.rename(f"{folder}/renamed", f"{folder}/moved")
    fs.remove(f"{folder}/removed")
    fs.link(f"{folder}/kept", f"{folder}/linked")
    fs.make_folder(f"{folder}/below")
    new = fs.create(f"{folder}/below/new")
    new.write(b"ab")
    new.write(b"c")
    new.close()
    assert fs.list(folder) == ["below", "kept", "linked", "moved"]
    assert fs.read(f"{folder}/moved", 0, 9) == b"renamed"
    assert fs.read(f"{folder}/below/new", 1, 9) == b"bc"
    assert [fs.kind(f"{folder}/{name}") for name in ("below", "moved", "removed")] == ["folder", "file", "missing"]
    names = [os.path.relpath(path, folder) for path in fs.changes()]
    assert names == ["below/new", "linked", "moved", "removed", "renamed"]
    for action in (lambda: fs.open(f"{folder}/removed"), lambda: fs.remove(f"{folder}/renamed")):
        with pytest.raises(FileNotFoundError):
            action()
    with pytest.raises(FileExistsError):
        fs.create(f"{folder}/kept")
    assert tree(tmp_path) == before
