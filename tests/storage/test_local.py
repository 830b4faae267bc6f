"""Local files as a reader sees them: whole, growing, shrinking, with holes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from kafkalog.errors import LimitExceeded, SegmentChanged, StorageError, UnsupportedFormat, UsageError
from kafkalog.storage import LocalStore, Store, local_path, open_store

CONTENT = bytes(range(256)) * 64


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    (partition / "00000000000000000000.log").write_bytes(CONTENT)
    (partition / "00000000000000000000.index").write_bytes(b"")
    return tmp_path


def segment_of(folder: Path) -> tuple[Store, str]:
    store, root = open_store(folder)
    return store, store.join(store.join(root, "orders-0"), "00000000000000000000.log")


def test_a_listing_is_sorted_and_has_kinds_and_sizes(folder: Path) -> None:
    (folder / "meta.properties").write_bytes(b"version=1\n")
    (folder / "a-0").mkdir()
    store, root = open_store(folder)
    assert [(entry.name, entry.kind, entry.size) for entry in store.list(root)] == [
        ("a-0", "folder", 0),
        ("meta.properties", "file", 10),
        ("orders-0", "folder", 0),
    ]
    (entry,) = [entry for entry in store.list(root) if entry.name == "meta.properties"]
    assert entry.mtime_ns == (folder / "meta.properties").stat().st_mtime_ns
    assert entry.problem == ""


def test_a_segment_renamed_during_the_listing_does_not_hide_the_one_that_replaces_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cleaner gives the old segment another name and puts the new one in its place: one of the two is always listed."""
    real_scandir = os.scandir
    orders = folder / "orders-0"
    (orders / "00000000000000000000.log.swap").write_bytes(CONTENT)

    def scandir_with_a_broker_deleting(descriptor: int) -> object:
        found = real_scandir(descriptor)
        names = list(found)
        if (orders / "00000000000000000000.log.swap").exists():
            (orders / "00000000000000000000.log").rename(orders / "00000000000000000000.log.deleted")
            (orders / "00000000000000000000.index").unlink()
            (orders / "00000000000000000000.log.swap").rename(orders / "00000000000000000000.log")

        class Listing:
            def __enter__(self) -> list[os.DirEntry[str]]:
                return names

            def __exit__(self, *_: object) -> None:
                found.close()

        return Listing()

    store, root = open_store(folder)
    monkeypatch.setattr(os, "scandir", scandir_with_a_broker_deleting)
    listed = [entry.name for entry in store.list(store.join(root, "orders-0"))]
    assert listed == ["00000000000000000000.log", "00000000000000000000.log.deleted"]


def test_stat_distinguishes_files_folders_and_nothing(folder: Path) -> None:
    store, segment = segment_of(folder)
    entry = store.stat(segment)
    assert entry is not None
    assert (entry.name, entry.kind, entry.size) == ("00000000000000000000.log", "file", len(CONTENT))
    partition = store.stat(store.parent(segment))
    assert partition is not None
    assert partition.kind == "folder"
    assert store.stat(segment + "x") is None
    assert store.stat(store.join(segment, "below-a-file")) is None


def test_reads_give_the_bytes_at_the_position_and_stop_at_the_end(folder: Path) -> None:
    store, segment = segment_of(folder)
    with store.open(segment) as source:
        assert source.path == segment
        assert source.size == len(CONTENT)
        assert source.read(1000, 100) == CONTENT[1000:1100]
        assert source.read(len(CONTENT) - 3, 100) == CONTENT[-3:]
        assert source.read(len(CONTENT), 1) == b""
        assert source.read(1 << 62, 1) == b""
        target = bytearray(b"\xee" * 16)
        assert source.read_into(len(CONTENT) - 10, memoryview(target)) == 10
        assert target == CONTENT[-10:] + b"\xee" * 6


def test_a_size_of_petabytes_allocates_only_what_is_there(folder: Path) -> None:
    store, segment = segment_of(folder)
    with store.open(segment) as source:
        assert source.read(0, 1 << 60) == CONTENT


def test_short_reads_of_the_kernel_are_continued(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_preadv = os.preadv

    def seven_bytes_at_most(descriptor: int, targets: Sequence[memoryview], position: int) -> int:
        return real_preadv(descriptor, [targets[0][:7]], position)

    store, segment = segment_of(folder)
    with store.open(segment) as source:
        monkeypatch.setattr(os, "preadv", seven_bytes_at_most)
        assert source.read(5, 1000) == CONTENT[5:1005]


def test_a_live_file_keeps_its_size_until_it_is_refreshed(folder: Path) -> None:
    store, segment = segment_of(folder)
    with store.open(segment) as source:
        before = source.fingerprint
        with open(segment, "ab") as writer:
            writer.write(b"more")
        assert source.read(len(CONTENT) - 2, 100) == CONTENT[-2:]
        assert source.refresh() == source.size == len(CONTENT) + 4
        assert source.read(len(CONTENT), 100) == b"more"
        assert source.fingerprint != before
        assert source.fingerprint.identity == before.identity


def test_a_file_that_shrank_is_reported_where_the_bytes_end(folder: Path) -> None:
    store, segment = segment_of(folder)
    with store.open(segment) as source:
        os.truncate(segment, 5000)
        assert source.read(0, 5000) == CONTENT[:5000]
        with pytest.raises(SegmentChanged) as caught:
            source.read(4000, 2000)
        assert (caught.value.reason, caught.value.file, caught.value.position) == ("changed", segment, 5000)
        with pytest.raises(SegmentChanged):
            source.refresh()


def test_a_segment_deleted_under_the_reader_still_reads(folder: Path) -> None:
    store, segment = segment_of(folder)
    with store.open(segment) as source:
        os.unlink(segment)
        assert source.read(0, len(CONTENT)) == CONTENT


def test_a_replaced_file_has_another_fingerprint(folder: Path) -> None:
    store, segment = segment_of(folder)
    with store.open(segment) as source:
        replacement = Path(segment + ".swap")
        replacement.write_bytes(CONTENT)
        os.utime(replacement, ns=(0, source.fingerprint.mtime_ns))
        os.replace(replacement, segment)
        with store.open(segment) as again:
            assert again.size == source.size
            assert again.fingerprint != source.fingerprint


def test_holes_of_a_gibibyte_are_skipped_without_reading_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "00000000000000000000.log"
    with open(path, "wb") as writer:
        writer.write(b"head")
        writer.seek(512 << 20)
        writer.write(b"middle")
        writer.truncate(1 << 30)
        if path.stat().st_blocks * 512 > 64 << 20 or os.lseek(writer.fileno(), 256 << 20, os.SEEK_DATA) == 256 << 20:
            pytest.skip("this file system has no holes, or does not report them")
    store, name = open_store(path)
    monkeypatch.delattr(os, "preadv")
    with store.open(name) as source:
        ranges = list(source.data_ranges(0, source.size))
        assert sum(stop - start for start, stop in ranges) < 1 << 20
        assert all(any(start <= wanted < stop for start, stop in ranges) for wanted in (0, 512 << 20))
        assert list(source.data_ranges(600 << 20, source.size)) == []
        assert list(source.data_ranges(1, 3)) == [(1, 3)]
        assert list(source.data_ranges(1 << 30, 2 << 30)) == []


def test_a_file_system_without_hole_search_gives_the_whole_range(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(22, "Invalid argument")

    store, segment = segment_of(folder)
    with store.open(segment) as source:
        monkeypatch.setattr(os, "lseek", refuse)
        assert list(source.data_ranges(100, 1 << 40)) == [(100, len(CONTENT))]


def test_many_threads_read_one_source(folder: Path) -> None:
    store, segment = segment_of(folder)
    wrong: list[int] = []
    with store.open(segment) as source:

        def read_all(shift: int) -> None:
            for position in range(shift, len(CONTENT) - 100, 97):
                if source.read(position, 100) != CONTENT[position : position + 100]:
                    wrong.append(position)

        threads = [threading.Thread(target=read_all, args=(shift,)) for shift in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_a_closed_source_raises_a_storage_error_and_closes_twice(folder: Path) -> None:
    store, segment = segment_of(folder)
    source = store.open(segment)
    source.close()
    source.close()
    with pytest.raises(StorageError):
        source.read(0, 1)
    with pytest.raises(StorageError):
        source.refresh()


def test_small_files_are_read_whole_and_large_ones_refused(folder: Path) -> None:
    store, segment = segment_of(folder)
    assert store.read_small(segment, len(CONTENT)) == CONTENT
    with pytest.raises(LimitExceeded) as caught:
        store.read_small(segment, len(CONTENT) - 1)
    assert caught.value.file == segment


def test_a_missing_path_names_the_first_part_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no such file or folder") as caught:
        open_store(tmp_path / "dta" / "orders-0")
    assert f"{tmp_path} exists, but has no 'dta'" in str(caught.value)
    assert caught.value.file == str(tmp_path / "dta" / "orders-0")


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(tmp_path / "unmounted")
    with pytest.raises(StorageError, match="does not exist"):
        open_store(tmp_path / "data")


def test_a_missing_file_keeps_the_errno_for_callers_that_race_with_a_broker(folder: Path) -> None:
    store, segment = segment_of(folder)
    with pytest.raises(StorageError) as caught:
        store.open(segment + ".deleted")
    assert caught.value.errno == 2


def test_a_folder_is_not_opened_as_a_file_nor_a_file_listed(folder: Path) -> None:
    store, segment = segment_of(folder)
    with pytest.raises(UnsupportedFormat, match="a folder") as caught:
        store.open(store.parent(segment))
    assert caught.value.reason == "not-a-file"
    with pytest.raises(StorageError, match="Not a directory"):
        store.list(segment)


@pytest.mark.parametrize(
    "spelling", ["plain", "uri", "one slash", "four slashes", "localhost", "pathlike", "relative", "dots", "slash"]
)
def test_every_spelling_of_a_local_path_is_the_same_path(folder: Path, monkeypatch: pytest.MonkeyPatch, spelling: str) -> None:
    target = folder / "with space#and?more"
    target.mkdir()
    monkeypatch.chdir(folder)
    encoded = str(target).replace(" ", "%20").replace("#", "%23").replace("?", "%3F")
    spellings: dict[str, str | Path] = {
        "plain": str(target),
        "uri": f"file://{encoded}",
        "one slash": f"file:{encoded}",  # as Hadoop and Spark write it
        "four slashes": f"file:///{encoded}",
        "localhost": f"FILE://localhost{encoded}",
        "pathlike": target,
        "relative": target.name,
        "dots": f"orders-0/../{target.name}",
        "slash": f"{target}//",
    }
    store, path = open_store(spellings[spelling])
    assert isinstance(store, LocalStore)
    assert path == str(target)


def test_dots_after_a_link_go_where_the_kernel_goes(tmp_path: Path) -> None:
    (tmp_path / "real" / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "below")
    assert open_store(tmp_path / "link" / ".." / "below")[1] == str(tmp_path / "real" / "below")


@pytest.mark.parametrize("path", ["", "file://otherhost/data", "ftp://host/data", "https://host/data"])
def test_a_path_nobody_can_honour_is_a_usage_error(path: str) -> None:
    with pytest.raises(UsageError):
        open_store(path)


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("file:/a%20b/c", "/a b/c"),
        ("file:///a", "/a"),
        ("File://localhost/a", "/a"),
        ("/a%20b", "/a%20b"),
        ("./file:/a", "./file:/a"),
        ("file:a", "file:a"),
        ("files:/a", "files:/a"),
    ],
)
def test_a_place_to_write_to_is_a_path_or_a_file_uri(place: str, expected: str) -> None:
    assert local_path(place) == expected


@pytest.mark.parametrize("place", ["s3://bucket/folder", "hdfs://host/folder", "file://otherhost/folder"])
def test_a_place_elsewhere_never_becomes_a_local_folder_of_that_name(place: str) -> None:
    with pytest.raises(UsageError, match=place):
        local_path(place)


def test_parents_and_names_take_a_joined_path_apart(folder: Path) -> None:
    store, segment = segment_of(folder)
    assert store.name(segment) == "00000000000000000000.log"
    assert store.name(store.parent(segment)) == "orders-0"
    assert store.parent(store.parent(segment)) == str(folder)
    assert store.parent("/") == "/"


def test_local_reading_loads_neither_arrow_nor_numpy(folder: Path) -> None:
    script = (
        "import sys; from kafkalog.storage import open_store; store, path = open_store(sys.argv[1]); store.list(path)\n"
        "print([name for name in ('pyarrow', 'numpy', 'numba') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script, str(folder)], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
