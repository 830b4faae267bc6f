"""Objects of storage show themselves in one short line, without touching the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyarrow import fs

from kafkalog.storage import LocalStore, open_store
from kafkalog.storage.fs import LocalFs
from kafkalog.storage.local import PatchedSource
from kafkalog.storage.object_store import ObjectStore
from kafkalog.storage.overlay import OverlayFs, OwnedFs, UnsyncedFs
from kafkalog.storage.ownership import Ownership, Pattern
from kafkalog.storage.publish import StagedFolder
from tests.builders.simulated_disk import SimulatedFs


def test_stores_and_file_systems_show_what_they_are(tmp_path: Path) -> None:
    assert repr(LocalStore("/data")) == "LocalStore('/data')"
    assert repr(ObjectStore(fs.LocalFileSystem(), "s3://")) == "ObjectStore('s3://')"
    assert repr(ObjectStore(fs.LocalFileSystem())) == "ObjectStore('local')"
    simulated = SimulatedFs({"/a/b": b"x"})
    assert repr(simulated) == "SimulatedFs(files=1, steps=0)"
    overlay = OverlayFs(LocalFs())
    overlay.create("/nowhere/file")
    assert repr(overlay) == "OverlayFs(LocalFs(), touched=1)"
    assert repr(UnsyncedFs(OwnedFs(LocalFs(), Pattern.below(Ownership(0, 0))))) == "UnsyncedFs(OwnedFs(LocalFs()))"
    assert repr(StagedFolder(simulated, "/a/new")) == "StagedFolder('/a/new', unfinished)"


def test_an_open_file_shows_its_path_and_size_also_when_it_is_closed(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"1234")
    store, path = open_store(tmp_path / "a.log")
    with store.open(path) as source:
        assert repr(source).endswith("a.log', 4 bytes)")
        assert repr(PatchedSource(source, lambda position, size: None)).endswith("a.log', 4 bytes), unreadable=0)")
    assert repr(source).endswith("a.log', 4 bytes, closed)")


@pytest.mark.parametrize("name", ["x" * 5000, "line\nbreak", os.fsdecode(b"\xff\xfe"), "\x1b[31m"])
def test_a_hostile_or_long_path_is_quoted_and_cut(name: str) -> None:
    shown = repr(LocalStore(f"/data/{name}"))
    assert len(shown) < 200
    assert shown.isprintable()
