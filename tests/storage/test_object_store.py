"""Object stores, against a real S3 server on this machine behind a proxy that counts what crosses the wire."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from kafkalog.errors import KafkaLogError, LimitExceeded, SegmentChanged, StorageError, UnsupportedFormat, UsageError
from kafkalog.storage import LocalStore, open_store
from kafkalog.storage.object_store import ObjectStore
from tests.s3_server import S3Server

SEGMENT = "00000000000000000000.log"
CONTENT = bytes(range(256)) * 1024
LARGE_SIZE = 64 << 20


@dataclass
class CountingProxy:
    """Passes connections on to the server; counts the bytes that it answers and keeps the request lines."""

    server_port: int
    answered_bytes: int = 0
    requests: list[str] = field(default_factory=list)

    def start(self) -> int:
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()
        return int(self._listener.getsockname()[1])

    def stop(self) -> None:
        self._listener.close()

    def reset(self) -> None:
        self.answered_bytes = 0
        self.requests.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self.server_port)) as server:
            answers = threading.Thread(target=self._pass, args=(server, client, False), daemon=True)
            answers.start()
            self._pass(client, server, True)
            answers.join()

    def _pass(self, source: socket.socket, target: socket.socket, is_request: bool) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(65536):
                if is_request:
                    self.requests += [line.decode() for line in re.findall(rb"^(?:GET|HEAD) \S+", part, re.MULTILINE)]
                else:
                    self.answered_bytes += len(part)
                target.sendall(part)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@dataclass
class Bucket:
    client: Any
    proxy: CountingProxy
    endpoint: str

    def put(self, key: str, content: bytes) -> None:
        self.client.put_object(Bucket="logs", Key=key, Body=content)


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    if os.environ.get("KAFKALOG_REQUIRE_ALL") != "1":
        pytest.importorskip("moto.server", reason="moto's server is not installed")
    import boto3

    server = S3Server()
    proxy = CountingProxy(server.port)
    endpoint = f"http://127.0.0.1:{proxy.start()}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_ENDPOINT_URL", endpoint)
        patch.delenv("AWS_PROFILE", raising=False)
        client = boto3.client("s3", endpoint_url=server.endpoint, region_name="us-east-1")
        client.create_bucket(Bucket="logs")
        found = Bucket(client, proxy, endpoint)
        found.put(f"data/orders-0/{SEGMENT}", CONTENT)
        found.put("data/orders-0/00000000000000000000.index", b"")
        found.put(f"data/orders-1/{SEGMENT}", b"one")
        found.put("data/meta.properties", b"version=1\n")
        yield found
    proxy.stop()
    server.stop()


@pytest.fixture
def segment(bucket: Bucket) -> tuple[ObjectStore, str]:
    store, path = open_store(f"s3://logs/data/orders-0/{SEGMENT}")
    assert isinstance(store, ObjectStore)
    return store, path


def test_a_folder_is_listed_with_kinds_and_sizes_in_one_request(bucket: Bucket) -> None:
    store, root = open_store("s3://logs/data/")
    assert root == "s3://logs/data"
    bucket.proxy.reset()
    assert [(entry.name, entry.kind, entry.size) for entry in store.list(root)] == [
        ("meta.properties", "file", 10),
        ("orders-0", "folder", 0),
        ("orders-1", "folder", 0),
    ]
    assert len(bucket.proxy.requests) == 1, bucket.proxy.requests
    listed = store.list(store.join(root, "orders-0"))
    assert [(entry.name, entry.size) for entry in listed] == [("00000000000000000000.index", 0), (SEGMENT, len(CONTENT))]
    assert all(entry.mtime_ns > 0 for entry in listed)


def test_a_bucket_is_listed_from_its_top(bucket: Bucket) -> None:
    store, root = open_store("s3://logs")
    assert root == "s3://logs"
    assert "data" in [entry.name for entry in store.list(root)]
    assert store.parent(store.join(root, "data")) == root
    assert store.parent(root) == root


def test_a_ranged_read_of_a_large_object_fetches_little_more_than_the_range(bucket: Bucket) -> None:
    bucket.put("large/" + SEGMENT, bytes(LARGE_SIZE))
    bucket.proxy.reset()
    store, path = open_store("s3://logs/large/" + SEGMENT)
    with store.open(path) as source:
        assert source.size == LARGE_SIZE
        assert source.read(40_000_000, 10_000) == bytes(10_000)
        target = bytearray(b"\xee" * 10_000)
        assert source.read_into(LARGE_SIZE - 4_000, memoryview(target)) == 4_000
        assert target == bytes(4_000) + b"\xee" * 6_000
    assert 14_000 < bucket.proxy.answered_bytes < 200_000
    assert len(bucket.proxy.requests) <= 4, bucket.proxy.requests


def test_reads_give_the_bytes_at_the_position_and_stop_at_the_end(segment: tuple[ObjectStore, str]) -> None:
    store, path = segment
    with store.open(path) as source:
        assert (source.path, source.size, source.fileno()) == (path, len(CONTENT), None)
        assert source.read(1000, 5000) == CONTENT[1000:6000]
        assert source.read(len(CONTENT) - 3, 1 << 60) == CONTENT[-3:]
        assert source.read(len(CONTENT), 10) == b""
        assert source.read(1 << 62, 10) == b""
        assert source.minimum_gap == 65536
        assert list(source.data_ranges(10, 1 << 40)) == [(10, len(CONTENT))]
        assert list(source.data_ranges(1 << 40, 2 << 40)) == []


def test_short_answers_of_a_file_system_are_continued(segment: tuple[ObjectStore, str], monkeypatch: pytest.MonkeyPatch) -> None:
    store, path = segment
    with store.open(path) as source:
        (whole,) = source._idle

        class ShortAnswers:
            def seek(self, position: int) -> None:
                whole.seek(position)

            def readinto(self, target: memoryview) -> int:
                return int(whole.readinto(target[:700])) if len(target) > 700 else int(whole.readinto(target))

        monkeypatch.setattr(source, "_idle", [ShortAnswers()])
        assert source.read(5, 3000) == CONTENT[5:3005]


def test_a_thread_pool_reads_one_source(segment: tuple[ObjectStore, str]) -> None:
    store, path = segment
    with store.open(path) as source, ThreadPoolExecutor(8) as pool:
        positions = range(0, len(CONTENT) - 1000, 4099)
        for position, found in zip(positions, pool.map(lambda position: source.read(position, 1000), positions), strict=True):
            assert found == CONTENT[position : position + 1000]


def test_a_listing_of_more_than_one_page_is_complete(bucket: Bucket) -> None:
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    # Straight into the server's memory: a thousand requests would take five seconds.
    for number in range(1005):
        s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object("logs", f"many/{number:020d}.log", b"")
    store, root = open_store("s3://logs/many")
    assert [entry.name for entry in store.list(root)] == [f"{number:020d}.log" for number in range(1005)]


def test_stat_distinguishes_objects_folders_and_nothing(segment: tuple[ObjectStore, str]) -> None:
    store, path = segment
    entry = store.stat(path)
    assert entry is not None
    assert (entry.name, entry.kind, entry.size) == (SEGMENT, "file", len(CONTENT))
    folder = store.stat(store.parent(path))
    assert folder is not None
    assert (folder.name, folder.kind) == ("orders-0", "folder")
    assert store.stat(path + "x") is None


def test_small_objects_are_read_whole_and_large_ones_refused(bucket: Bucket) -> None:
    store, root = open_store("s3://logs/data")
    assert store.read_small(store.join(root, "meta.properties"), 10) == b"version=1\n"
    with pytest.raises(LimitExceeded):
        store.read_small(store.join(root, "meta.properties"), 9)


def test_an_object_replaced_by_a_longer_copy_has_grown(bucket: Bucket) -> None:
    bucket.put("live/" + SEGMENT, b"12345")
    store, path = open_store("s3://logs/live/" + SEGMENT)
    with store.open(path) as source:
        before = source.fingerprint
        assert before.mtime_ns > 0
        assert source.refresh() == 5
        assert source.fingerprint == before
        bucket.put("live/" + SEGMENT, b"1234567")
        assert source.read(0, 100) == b"12345"
        assert source.refresh() == 7
        assert source.read(0, 100) == b"1234567"
        assert source.fingerprint != before


def test_an_object_replaced_by_a_shorter_or_another_one_has_changed(bucket: Bucket) -> None:
    bucket.put("changed/" + SEGMENT, b"x" * 5000)
    store, path = open_store("s3://logs/changed/" + SEGMENT)
    with store.open(path) as source:
        bucket.put("changed/" + SEGMENT, b"y" * 5000)
        with pytest.raises(SegmentChanged):
            source.refresh()
        bucket.put("changed/" + SEGMENT, b"x" * 1000)
        with pytest.raises(SegmentChanged):
            source.refresh()
        assert source.read(500, 500) == b"x" * 500
        for position, size in ((500, 2000), (500, 501), (999, 2), (1000, 1), (3000, 2000)):
            with pytest.raises(SegmentChanged) as caught:
                source.read(position, size)
            assert (caught.value.reason, caught.value.file) == ("changed", path)


def test_every_last_byte_is_distinguished_from_a_byte_that_was_never_read(bucket: Bucket) -> None:
    bucket.put("bytes/" + SEGMENT, bytes(range(256)))
    store, path = open_store("s3://logs/bytes/" + SEGMENT)
    with store.open(path) as source:
        assert [source.read(position, 1)[0] for position in range(0xA0, 0xB0)] == list(range(0xA0, 0xB0))


def test_an_object_deleted_while_it_is_read_is_a_storage_error(bucket: Bucket) -> None:
    bucket.put("deleted/" + SEGMENT, b"x" * 5000)
    store, path = open_store("s3://logs/deleted/" + SEGMENT)
    with store.open(path) as source:
        bucket.client.delete_object(Bucket="logs", Key="deleted/" + SEGMENT)
        with pytest.raises(StorageError, match=f"{path}: reading 10 bytes at byte 7 failed"):
            source.read(7, 10)


def test_a_folder_is_not_opened_and_a_missing_object_is_named(segment: tuple[ObjectStore, str]) -> None:
    store, path = segment
    with pytest.raises(UnsupportedFormat, match="a folder"):
        store.open(store.parent(path))
    with pytest.raises(StorageError) as caught:
        store.open(path + "x")
    assert caught.value.file == path + "x"
    with pytest.raises(StorageError, match="listing the folder failed"):
        store.list(path + "x")


@pytest.mark.parametrize("uri", ["s3://logs/nothing/here", "s3://nobucket/data", "s3://nobucket"])
def test_a_bucket_or_key_that_is_not_there_is_a_storage_error(bucket: Bucket, uri: str) -> None:
    with pytest.raises(StorageError) as caught:
        open_store(uri)
    assert str(caught.value).startswith(uri)


def test_every_spelling_of_the_endpoint_reaches_the_store(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    options = f"endpoint_override={bucket.endpoint.removeprefix('http://')}&scheme=http&region=us-east-1"
    for uri in ("s3://logs/data", "S3://logs/data", "s3a://logs/data", "s3n://logs/data"):
        assert open_store(uri)[1] == "s3://logs/data"
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    for uri in (f"s3://logs/data?{options}", f"s3://key:hidden@logs/data?{options}"):
        store, root = open_store(uri)
        assert root == "s3://logs/data"
        assert store.read_small(store.join(root, "meta.properties"), 100) == b"version=1\n"


def test_a_ready_file_system_is_used_as_given(bucket: Bucket) -> None:
    filesystem = fs.S3FileSystem(endpoint_override=bucket.endpoint, region="us-east-1", access_key="a", secret_key="b")
    for given in ("logs/data", "logs/data/", "s3://logs/data"):
        store, root = open_store(given, filesystem=filesystem)
        assert root == given.rstrip("/")
        assert store.read_small(store.join(root, "meta.properties"), 100) == b"version=1\n"


def test_a_local_file_system_of_arrow_becomes_the_local_store(tmp_path: Path) -> None:
    store, root = open_store(tmp_path, filesystem=fs.LocalFileSystem())
    assert isinstance(store, LocalStore)
    assert root == str(tmp_path)


def test_a_fifo_behind_a_file_system_of_arrow_never_hangs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / SEGMENT)
    (tmp_path / "plain.log").write_bytes(b"plain")
    store, root = open_store("/", filesystem=fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()))
    assert isinstance(store, ObjectStore)
    assert [(entry.name, entry.kind) for entry in store.list(root)] == [(SEGMENT, "other"), ("plain.log", "file")]
    assert store.read_small(store.join(root, "plain.log"), 100) == b"plain"
    raised: list[BaseException] = []

    def open_it() -> None:
        try:
            store.open(store.join(root, SEGMENT))
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=open_it, daemon=True)
    thread.start()
    thread.join(2)
    assert [type(error) for error in raised] == [UnsupportedFormat]


def test_keys_with_characters_that_mean_something_in_a_uri_are_found(bucket: Bucket) -> None:
    names = ["a b", "a#b", "a?b", "a%20b", "a+b", "a:b", "\u00e9\u4e2d", "a\\b", "\x1b[31m", "...", "~", "[x]", "a&b=c"]
    for name in names:
        bucket.put(f"odd/{name}/{SEGMENT}", name.encode())
    store, root = open_store("s3://logs/odd")
    assert {entry.name for entry in store.list(root)} == set(names)
    for name in names:
        assert store.read_small(store.join(store.join(root, name), SEGMENT), 100) == name.encode()
    for given, name in (("a b", "a b"), ("a#b", "a#b"), ("a%2520b", "a%20b"), ("a%3Fb", "a?b"), ("\u00e9\u4e2d", "\u00e9\u4e2d")):
        store, folder = open_store(f"s3://logs/odd/{given}")
        assert folder == f"s3://logs/odd/{name}"
        assert store.read_small(store.join(folder, SEGMENT), 100) == name.encode()


def test_names_that_lead_away_are_refused(segment: tuple[ObjectStore, str]) -> None:
    store, path = segment
    for name in ("", ".", "..", "../orders-1", "a/b", "\0"):
        with pytest.raises(StorageError):
            store.join(store.parent(path), name)
    for glued in ("\ud800", "\0", "..", "../../../..", "x" * 5000):
        for call in (store.open, store.stat, store.list):
            try:
                call(f"{store.parent(path)}/{glued}")
            except KafkaLogError:
                continue


def test_an_endpoint_that_does_not_answer_says_what_to_check(bucket: Bucket) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    once = fs.AwsStandardS3RetryStrategy(max_attempts=1)
    filesystem = fs.S3FileSystem(endpoint_override=f"http://127.0.0.1:{port}", region="us-east-1", retry_strategy=once)
    with pytest.raises(StorageError, match="check the network and the endpoint"):
        open_store("logs/data", filesystem=filesystem)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://key:hidden@logs/data?nonsense=hidden",
        "s3://key:hidden@logs/data?region=with space",
        "s3://key:hidden@logs/data?scheme=hidden%20one",
        "s3://key:hidden@/data",
        "s3://key:hidden@[logs/data",
        "ftp://key:hidden@logs/data",
    ],
)
def test_a_uri_that_cannot_be_used_is_refused_without_repeating_its_secrets(uri: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_store(uri)
    assert "hidden" not in str(caught.value)
    assert caught.value.__cause__ is None
