"""Hostile names, special files, links, missing permissions and failing disks: faults T-22 and T-23."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from kafkalog.errors import KafkaLogError, StorageError, UnsupportedFormat
from kafkalog.storage import open_store

SEGMENT = "00000000000000000000.log"
SECRET = b"outside the log folder"

# Names that a file system stores. Bytes, since a name need not be text.
STORABLE = [
    b"...",
    b" ",
    b"~",
    b"-rf",
    b"--help",
    b"*",
    b"?.log",
    b"[0]",
    b"%2e%2e%2fsecret",
    b"..%2f..",
    b"\\..\\secret",
    b"C:\\secret",
    b"con",
    b"a\nb.log",
    b"a\rb.log",
    b"a\tb.log",
    b"\x1b[31mred.log",
    b"\x1b]52;c;c2VjcmV0\x07",
    b"\x07",
    b"\x7f",
    b"\xff\xfe.log",
    b"\xc0\xae\xc0\xae",
    b"\xed\xa0\x80",
    "\u202egol.0".encode(),
    "\u200b".encode(),
    "\u0663\u0663.log".encode(),
    "\uff0e\uff0e".encode(),
    "\uff0fetc".encode(),
    b"$(reboot)",
    b"`reboot`",
    b"'; DROP TABLE",
    b"{}",
    b"s3:",
    b"n" * 255,
]
# Names that lead elsewhere or nowhere.
LEADING_AWAY = ["", ".", "..", "../secret", "../../secret", "/etc/passwd", "a/../../secret", "a/b", "\0", SEGMENT + "\0.txt"]


@pytest.fixture
def log_folder(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_bytes(SECRET)
    folder = tmp_path / "data"
    (folder / "orders-0").mkdir(parents=True)
    (folder / "orders-0" / SEGMENT).write_bytes(b"segment")
    return folder


def within_two_seconds(work: Callable[[], object]) -> BaseException | None:
    """The exception that `work` raised; fails if it still waits after two seconds."""
    raised: list[BaseException | None] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)
        else:
            raised.append(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(2)
    assert raised, "still waiting after two seconds"
    return raised[0]


def require(condition: bool, reason: str) -> None:
    if not condition and os.environ.get("KAFKALOG_REQUIRE_ALL") == "1":
        pytest.fail(reason)
    if not condition:
        pytest.skip(reason)


def test_there_are_more_than_forty_hostile_names() -> None:
    assert len({*STORABLE, *(name.encode() for name in LEADING_AWAY)}) >= 40


def test_hostile_names_are_listed_and_each_reads_its_own_bytes(log_folder: Path) -> None:
    partition = log_folder / "orders-0"
    for number, raw in enumerate(STORABLE):
        Path(os.fsdecode(os.fsencode(partition) + b"/" + raw)).write_bytes(b"content %d" % number)
    store, root = open_store(log_folder)
    folder = store.join(root, "orders-0")
    names = {os.fsencode(entry.name) for entry in store.list(folder)}
    assert names == {*STORABLE, SEGMENT.encode()}
    for number, raw in enumerate(STORABLE):
        path = store.join(folder, os.fsdecode(raw))
        assert store.read_small(path, 100) == b"content %d" % number
        assert store.name(path) == os.fsdecode(raw)
        assert store.parent(path) == folder


def test_hostile_names_work_as_folders_and_as_the_given_path(log_folder: Path) -> None:
    for raw in STORABLE:
        folder = Path(os.fsdecode(os.fsencode(log_folder) + b"/" + raw))
        folder.mkdir()
        (folder / SEGMENT).write_bytes(raw)
        store, root = open_store(log_folder)
        assert store.read_small(store.join(store.join(root, folder.name), SEGMENT), 300) == raw
        store, root = open_store(folder)
        assert store.read_small(store.join(root, SEGMENT), 300) == raw


@pytest.mark.parametrize("name", LEADING_AWAY)
def test_a_name_that_leads_away_is_refused_and_nothing_outside_is_read(log_folder: Path, name: str) -> None:
    store, root = open_store(log_folder)
    with pytest.raises(StorageError):
        store.join(root, name)
    # Glued together by a careless caller it must still fail inside our errors or stay inside the folder.
    for glued in (f"{root}/{name}", f"{root}/orders-0/{name}", f"{root}/orders-0/../../{name}", f"{root}/{name}/{SEGMENT}"):
        try:
            assert store.read_small(glued, 100) != SECRET
        except KafkaLogError:
            continue


@pytest.mark.parametrize("length", [256, 5000])
def test_a_name_too_long_for_the_file_system_is_a_storage_error(log_folder: Path, length: int) -> None:
    store, root = open_store(log_folder)
    path = store.join(root, "n" * length)
    for call in (store.open, store.stat, store.list):
        with pytest.raises(StorageError, match="no file system stores a name this long"):
            call(path)
    with pytest.raises(StorageError):
        open_store(path)


def test_a_name_with_no_bytes_of_its_own_is_a_storage_error(log_folder: Path) -> None:
    store, root = open_store(log_folder)
    path = store.join(root, "\ud800.log")
    for call in (store.open, store.stat, store.list):
        with pytest.raises(StorageError):
            call(path)


def test_a_fifo_named_like_a_segment_never_hangs(log_folder: Path) -> None:
    fifo = log_folder / "orders-0" / "00000000000000000001.log"
    os.mkfifo(fifo)
    for given in (log_folder, fifo):
        store, _ = open_store(given)
        error = within_two_seconds(partial(store.open, str(fifo)))
        assert isinstance(error, UnsupportedFormat)
        assert (error.reason, error.detail) == ("not-a-file", "a FIFO")
    entry = store.stat(str(fifo))
    assert entry is not None
    assert (entry.kind, entry.problem) == ("other", "a FIFO")


def test_a_fifo_that_replaces_a_file_after_the_look_never_hangs(log_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = log_folder / "orders-0" / SEGMENT
    store, _ = open_store(log_folder)
    real_open = os.open

    def swap_then_open(path: str, flags: int, *, dir_fd: int | None = None) -> int:
        if path == SEGMENT:
            segment.unlink()
            os.mkfifo(segment)
        return real_open(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swap_then_open)
    error = within_two_seconds(lambda: store.open(str(segment)))
    assert isinstance(error, UnsupportedFormat)


def test_sockets_are_refused(log_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = log_folder / "orders-0" / "00000000000000000001.log"
    monkeypatch.chdir(path.parent)  # a socket's own path may have only 108 bytes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
        for given in (log_folder, path):
            store, _ = open_store(given)
            with pytest.raises(UnsupportedFormat, match="a socket"):
                store.open(str(path))


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/tty"])
def test_devices_are_refused(device: str) -> None:
    require(os.path.exists(device), f"{device} is not there")
    store, path = open_store(device)
    error = within_two_seconds(lambda: store.open(path))
    assert isinstance(error, UnsupportedFormat)
    assert error.detail == "a device"


def test_a_linked_segment_is_listed_as_a_link_and_not_followed(log_folder: Path) -> None:
    link = log_folder / "orders-0" / "00000000000000000001.log"
    link.symlink_to(log_folder.parent / "secret")
    store, root = open_store(log_folder)
    (entry,) = [entry for entry in store.list(store.join(root, "orders-0")) if entry.name == link.name]
    assert entry.kind == "other"
    assert "symbolic link" in entry.problem
    with pytest.raises(UnsupportedFormat, match="symbolic link") as caught:
        store.open(str(link))
    assert (caught.value.reason, caught.value.file) == ("not-a-file", str(link))


def test_a_linked_partition_folder_is_not_entered(log_folder: Path) -> None:
    elsewhere = log_folder.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / SEGMENT).write_bytes(SECRET)
    (log_folder / "orders-1").symlink_to(elsewhere)
    store, root = open_store(log_folder)
    folder = store.join(root, "orders-1")
    assert [(entry.name, entry.kind) for entry in store.list(root)] == [("orders-0", "folder"), ("orders-1", "other")]
    with pytest.raises(UnsupportedFormat, match="symbolic link"):
        store.list(folder)
    for call in (store.open, store.stat, store.list):
        with pytest.raises(UnsupportedFormat, match="symbolic link"):
            call(store.join(folder, SEGMENT))


def test_a_folder_swapped_for_a_link_after_the_look_is_not_entered(log_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = log_folder.parent / "outside"
    outside.mkdir()
    (outside / SEGMENT).write_bytes(SECRET)
    store, _ = open_store(log_folder)
    real_open = os.open

    def swap_then_open(path: str, flags: int, *, dir_fd: int | None = None) -> int:
        if path == "orders-0":
            (log_folder / "orders-0").rename(log_folder / "moved")
            (log_folder / "orders-0").symlink_to(outside)
        return real_open(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swap_then_open)
    with pytest.raises(KafkaLogError):
        store.open(str(log_folder / "orders-0" / SEGMENT))


def test_a_segment_swapped_for_a_link_after_the_look_is_not_read(log_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = log_folder / "orders-0" / SEGMENT
    store, _ = open_store(log_folder)
    real_open = os.open

    def swap_then_open(path: str, flags: int, *, dir_fd: int | None = None) -> int:
        if path == SEGMENT:
            segment.unlink()
            segment.symlink_to(log_folder.parent / "secret")
        return real_open(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swap_then_open)
    with pytest.raises(KafkaLogError):
        store.open(str(segment))


def test_the_path_that_the_user_gave_may_be_or_contain_a_link(log_folder: Path) -> None:
    (log_folder.parent / "link").symlink_to(log_folder)
    (log_folder.parent / "segment-link").symlink_to(log_folder / "orders-0" / SEGMENT)
    store, root = open_store(log_folder.parent / "link")
    assert store.read_small(store.join(store.join(root, "orders-0"), SEGMENT), 100) == b"segment"
    store, path = open_store(log_folder.parent / "segment-link")
    assert store.read_small(path, 100) == b"segment"
    store, path = open_store(log_folder.parent / "link" / "orders-0" / SEGMENT)
    assert store.read_small(path, 100) == b"segment"
    assert [entry.name for entry in store.list(store.parent(path))] == [SEGMENT]
    assert [entry.name for entry in store.list(store.parent(store.parent(path)))] == ["orders-0"]


def test_a_circle_of_links_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(StorageError, match="circle"):
        open_store(tmp_path / "a")


def test_refused_paths_leave_no_file_open(log_folder: Path) -> None:
    partition = log_folder / "orders-0"
    os.mkfifo(partition / "fifo.log")
    (partition / "link.log").symlink_to("/etc/passwd")
    store, root = open_store(log_folder)
    before = len(os.listdir("/dev/fd"))
    for name in ("fifo.log", "link.log", "missing.log", "n" * 300, SEGMENT):
        for path in (f"{root}/orders-0/{name}", f"{root}/orders-0/{name}/below", f"{root}/../{name}"):
            for call in (store.open, store.list, store.stat):
                try:
                    call(path)
                except KafkaLogError:
                    continue
    store.list(root)
    assert len(os.listdir("/dev/fd")) == before


# Starts as the user that runs the tests, with everything imported, then becomes nobody: root may read everything.
AS_NOBODY = """
import os, sys
from kafkalog.errors import StorageError
from kafkalog.storage import open_store
if os.getuid() == 0:
    try:
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
    except PermissionError:
        sys.exit(77)
root = sys.argv[1]
"""


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that any user may enter, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="kafkalog-test-"))
    folder.chmod(0o755)
    yield folder
    subprocess.run(["chmod", "-R", "u+rwx", str(folder)], check=True)
    shutil.rmtree(folder)


def run_as_nobody(script: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", AS_NOBODY + script, str(folder)], capture_output=True, text=True, timeout=60)
    require(done.returncode != 77, "this user may not become another one")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_unreadable_file_is_reported_and_the_others_are_read(shared_folder: Path) -> None:
    for name, mode in (("00000000000000000000.log", 0o000), ("00000000000000000005.log", 0o644)):
        (shared_folder / name).write_bytes(b"segment")
        (shared_folder / name).chmod(mode)
    output = run_as_nobody(
        """
store, path = open_store(root)
for entry in store.list(path):
    try:
        print(entry.name, entry.kind, entry.size, store.read_small(store.join(path, entry.name), 10))
    except StorageError as error:
        print(entry.name, entry.kind, entry.size, error.errno, error)
""",
        shared_folder,
    )
    unreadable, readable = output.splitlines()
    assert unreadable.startswith(f"00000000000000000000.log file 7 13 {shared_folder}/00000000000000000000.log: opening failed")
    assert "Permission denied; run as the user that owns the log folder" in unreadable
    assert readable == "00000000000000000005.log file 7 b'segment'"


def test_an_unreadable_folder_is_a_storage_error_with_a_hint(shared_folder: Path) -> None:
    (shared_folder / "orders-0").mkdir(mode=0o000)
    output = run_as_nobody(
        """
store, path = open_store(root)
print([(entry.name, entry.kind) for entry in store.list(path)])
for call, below in ((store.list, "/orders-0"), (store.stat, "/orders-0/x"), (open_store, "/orders-0/x")):
    try:
        call(path + below)
    except StorageError as error:
        print(error.errno, "run as the user" in str(error), "orders-0" in str(error))
""",
        shared_folder,
    )
    assert output.splitlines() == ["[('orders-0', 'folder')]", *["13 True True"] * 3]


def test_entries_that_cannot_be_examined_are_listed_with_their_problem(shared_folder: Path) -> None:
    folder = shared_folder / "orders-0"
    folder.mkdir()
    (folder / SEGMENT).write_bytes(b"segment")
    folder.chmod(0o744)  # names may be listed, but not looked up
    output = run_as_nobody("store, path = open_store(root + '/orders-0')\nprint(store.list(path))", shared_folder)
    assert output.strip() == f"[Entry(name='{SEGMENT}', kind='file', size=0, mtime_ns=0, problem='Permission denied')]"


def test_a_folder_that_may_be_entered_but_not_listed_still_opens_a_known_file(shared_folder: Path) -> None:
    folder = shared_folder / "orders-0"
    folder.mkdir()
    (folder / SEGMENT).write_bytes(b"segment")
    folder.chmod(0o711)
    script = f"store, path = open_store(root)\nprint(store.read_small(path + '/orders-0/{SEGMENT}', 10))"
    assert run_as_nobody(script, shared_folder).strip() == "b'segment'"


def test_an_io_error_in_the_middle_names_the_file_and_the_position(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    require(strace is not None, "strace is not installed")
    traceable = subprocess.run([str(strace), "-qq", "-o", os.devnull, "true"], capture_output=True, timeout=20).returncode == 0
    require(traceable, "strace may not trace here")
    path = tmp_path / SEGMENT
    path.write_bytes(b"x" * 65536)
    script = """
import sys
from kafkalog.errors import StorageError
from kafkalog.storage import open_store
store, path = open_store(sys.argv[1])
with store.open(path) as source:
    for position in range(0, source.size, 4096):
        try:
            assert source.read(position, 4096) == b"x" * 4096
        except StorageError as error:
            print(error.errno, error.file == path, error)
        else:
            print("read", position)
"""
    inject = [str(strace), "-f", "-qq", "-o", os.devnull, "-P", str(path), "-e", "inject=pread64,preadv,preadv2:error=EIO:when=3"]
    done = subprocess.run([*inject, sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[2].startswith(f"5 True {path}: reading 4096 bytes at byte 8192 failed: Input/output error; ")
    assert lines[:2] + lines[3:] == [f"read {position}" for position in range(0, 65536, 4096) if position != 8192]


def test_reads_interrupted_by_signals_are_continued(log_folder: Path) -> None:
    path = log_folder / "orders-0" / SEGMENT
    path.write_bytes(b"y" * (8 << 20))
    store, name = open_store(path)
    old_handler = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        with store.open(name) as source:
            assert all(source.read(0, source.size).count(b"y") == 8 << 20 for _ in range(3))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old_handler)
