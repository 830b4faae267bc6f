"""An ingest to an object store: the lease, leftovers of killed and slow runs, and that every record counts once."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from kafkalog.errors import StorageError, UsageError
from kafkalog.spark.errors import SparkSourceError
from kafkalog.spark.ingestion import lease, manifest, object_target
from kafkalog.spark.ingestion.lease import LEASE, Lease
from kafkalog.spark.ingestion.manifest import CommitLog, run_name, staging_folder
from kafkalog.spark.ingestion.object_target import ObjectSlot, ObjectTarget, PlainRequests
from kafkalog.spark.ingestion.target import open_target
from kafkalog.storage.object_store import filesystem_of_uri
from kafkalog.storage.s3 import S3Requests
from tests.spark.ingested import check_manifest, read_logs, read_table, take, write_orders
from tests.storage import test_object_store as server

bucket = server.bucket
RECORDS = 120
BUSY = r"^KAFKALOG_TARGET_BUSY: s3://logs/\S+: another ingest is at work here"


@pytest.fixture(autouse=True)
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "LEASE_SECONDS", 0.5)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return write_orders(tmp_path / "logs")


@pytest.fixture
def place(bucket: server.Bucket, request: pytest.FixtureRequest) -> str:
    """A target of the test's own."""
    return f"s3://logs/{abs(hash(request.node.name)):x}"


def prefix_of(place: str) -> str:
    return place.removeprefix("s3://logs/")


def keys(bucket: server.Bucket, place: str) -> list[str]:
    listed = bucket.client.list_objects_v2(Bucket="logs", Prefix=f"{prefix_of(place)}/").get("Contents", [])
    return [found["Key"].removeprefix(f"{prefix_of(place)}/") for found in listed if found["Size"]]


def uploads(bucket: server.Bucket, prefix: str = "") -> list[str]:
    return [each["Key"] for each in bucket.client.list_multipart_uploads(Bucket="logs", Prefix=prefix).get("Uploads", [])]


def fetched(bucket: server.Bucket, place: str, folder: Path) -> Path:
    """The target as a local folder."""
    for key in keys(bucket, place):
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bucket.client.get_object(Bucket="logs", Key=f"{prefix_of(place)}/{key}")["Body"].read())
    return folder


def check_once(bucket: server.Bucket, place: str, logs: Path, folder: Path) -> None:
    found = fetched(bucket, place, folder)
    assert read_table(found) == read_logs(logs)
    check_manifest(found)


def opened(place: str) -> ObjectTarget:
    target = open_target(place)
    assert isinstance(target, ObjectTarget)
    return target


# -- the lease ---------------------------------------------------------------------------------------------------------------


def test_a_dead_run_blocks_nobody_though_its_process_number_exists_again(logs: Path, place: str, bucket: server.Bucket) -> None:
    Lease(ObjectSlot(opened(place)), place).take()  # of this very host and process, and nobody renews it
    begin = time.monotonic()
    assert take(logs, place).records == RECORDS
    assert time.monotonic() - begin >= lease.LEASE_SECONDS


def test_a_live_run_with_the_same_host_and_process_is_not_robbed(logs: Path, place: str, bucket: server.Bucket) -> None:
    with Lease(ObjectSlot(opened(place)), place).held():
        with pytest.raises(SparkSourceError, match=rf"{BUSY} \(process {os.getpid()} on {socket.gethostname()}, since 20"):
            take(logs, place)
        assert keys(bucket, place) == [LEASE]
    assert take(logs, place).records == RECORDS


def test_a_damaged_lease_expires_like_any_other(place: str, bucket: server.Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "LEASE_SECONDS", 0.1)
    slot = ObjectSlot(opened(place))
    for content in (
        b"",
        b"{}",
        b"null",
        b"not JSON \xff",
        b"[" * 100_000,
        b'{"process": 1e999, "since": 99999999999999999999999999, "host": {"a": []}}',
        b'{"process": ' + b"9" * 5000 + b"}",
        b'{"free": "no"}',
    ):
        bucket.put(f"{prefix_of(place)}/{LEASE}", content)
        with Lease(slot, place).held():
            assert keys(bucket, place) == [LEASE]


def test_of_many_runs_that_wait_for_a_dead_one_one_continues(place: str, bucket: server.Bucket) -> None:
    leases = [Lease(ObjectSlot(opened(place)), place) for _ in range(4)]
    leases[0].take()
    ended: list[str] = []
    all_ended = threading.Event()

    def wait(own: Lease) -> None:
        try:
            with own.held():
                ended.append("held")
                all_ended.wait(20)
        except SparkSourceError as error:
            ended.append(error.code)

    threads = [threading.Thread(target=wait, args=(own,)) for own in leases[1:]]
    for thread in threads:
        thread.start()
    while len(ended) < len(threads):
        time.sleep(0.01)
    all_ended.set()
    for thread in threads:
        thread.join()
    assert sorted(ended) == ["KAFKALOG_TARGET_BUSY"] * 2 + ["held"]


def test_a_run_whose_lease_was_removed_by_hand_is_reported_as_what_it_is(
    logs: Path, place: str, bucket: server.Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = CommitLog.complete

    def complete(log: CommitLog, commit: manifest.Commit) -> None:
        real(log, commit)
        bucket.client.delete_object(Bucket="logs", Key=f"{prefix_of(place)}/{LEASE}")

    monkeypatch.setattr(CommitLog, "complete", complete)
    assert take(logs, place).commit == 1


def test_a_run_that_lost_its_lease_publishes_nothing(
    logs: Path, place: str, bucket: server.Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = CommitLog.publish

    def publish(log: CommitLog, commit: manifest.Commit) -> None:
        other = {"token": "other", "host": "b", "process": 7, "since": "now"}
        bucket.put(f"{prefix_of(place)}/{LEASE}", json.dumps(other).encode())
        real(log, commit)

    monkeypatch.setattr(CommitLog, "publish", publish)
    with pytest.raises(SparkSourceError, match=rf"{BUSY} \(process 7 on b, since now\), since this run did not renew its lease"):
        take(logs, place)
    assert keys(bucket, place) == [LEASE]


def test_a_run_whose_uploads_another_run_has_aborted_says_why(
    logs: Path, place: str, bucket: server.Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def output(target: ObjectTarget, path: str) -> None:
        bucket.put(f"{prefix_of(place)}/{LEASE}", b'{"token": "other", "host": "b", "process": 7, "since": "now"}')
        raise StorageError(f"{path}: writing failed: NoSuchUpload")

    monkeypatch.setattr(ObjectTarget, "output", output)
    with pytest.raises(SparkSourceError, match=rf"{BUSY} \(process 7 on b, since now\), since this run did not renew its lease"):
        take(logs, place)


# -- once --------------------------------------------------------------------------------------------------------------------


def while_both_hold_it(place: str, monkeypatch: pytest.MonkeyPatch, action: Any) -> None:
    """Run something as another run that also believes it holds the lease, after a run has checked its own for the last time."""
    real = Lease.require
    seen: list[Lease] = []

    def require(own: Lease) -> None:
        real(own)
        if not seen:
            seen.append(own)
            with own.guard:  # as the store looks when a run was stopped for longer than its lease
                assert own.slot.write(b'{"free": true}', own.tag)
                own.tag = None
            action()

    monkeypatch.setattr(Lease, "require", require)


def test_of_two_runs_that_both_believe_to_hold_the_lease_one_counts(
    logs: Path, place: str, bucket: server.Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    while_both_hold_it(place, monkeypatch, lambda: take(logs, place))
    with pytest.raises(SparkSourceError, match=rf"{BUSY} and has published _kafkalog/commits/0*1\.json"):
        take(logs, place)
    check_once(bucket, place, logs, tmp_path / "fetched")
    assert uploads(bucket) == []


def test_staged_files_of_a_live_run_are_not_removed_before_its_number_is_taken(
    logs: Path, place: str, bucket: server.Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settle_only() -> None:
        with pytest.raises(RuntimeError):
            take(logs, place, on_progress=fail)

    def fail(done: int, total: int) -> None:
        raise RuntimeError

    while_both_hold_it(place, monkeypatch, settle_only)
    assert take(logs, place).commit == 1
    check_once(bucket, place, logs, tmp_path / "fetched")


def test_two_runs_that_complete_one_commit_do_not_disturb_each_other(
    logs: Path, place: str, bucket: server.Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ObjectTarget._copied
    seen: list[str] = []

    def copied(target: ObjectTarget, source: str, destination: str) -> bool:
        if not seen:  # published, and nothing moved yet: another run does it all
            seen.append(source)
            other = CommitLog(opened(place))
            other.settle(other.latest())
        return real(target, source, destination)

    monkeypatch.setattr(ObjectTarget, "_copied", copied)
    assert take(logs, place).commit == 1
    check_once(bucket, place, logs, tmp_path / "fetched")


def test_a_commit_whose_answer_was_lost_is_published(
    logs: Path, place: str, bucket: server.Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = S3Requests.put

    def put(client: S3Requests, key: str, content: bytes, tag: str | None) -> str | None:
        written = real(client, key, content, tag)
        return real(client, key, content, tag) if "commits" in key else written  # as it is sent again

    monkeypatch.setattr(S3Requests, "put", put)
    assert take(logs, place).commit == 1


def test_a_renewal_whose_answer_was_lost_for_good_does_not_lose_the_lease() -> None:
    class LossySlot:
        """Writes, and then does not answer once."""

        is_atomic = True
        stored: tuple[bytes, str] | None = None
        is_lossy = False

        def read(self) -> tuple[bytes, str] | None:
            return self.stored

        def write(self, content: bytes, tag: str | None) -> str | None:
            if (None if self.stored is None else self.stored[1]) != tag:
                return None
            self.stored = content, content.hex()
            if self.is_lossy:
                self.is_lossy = False
                raise StorageError("timed out")
            return content.hex()

    slot = LossySlot()
    held = Lease(slot, "s3://logs")
    held.take()
    slot.is_lossy = True
    with pytest.raises(StorageError):
        held.renew()
    assert held.renew()


def test_uploads_of_killed_runs_are_aborted_and_no_others(logs: Path, place: str, bucket: server.Bucket) -> None:
    def begin(key: str) -> str:
        bucket.client.create_multipart_upload(Bucket="logs", Key=key)
        return key

    prefix = prefix_of(place)
    for _ in range(3):
        begin(f"{prefix}/{staging_folder(run_name(None))}/000000-0a/000000.parquet")
    kept = [
        begin(f"{prefix}-2/{staging_folder(run_name(None))}/000000-0a/000000.parquet"),
        begin(f"{prefix}/topic=orders/somebody.parquet"),
        begin(f"{prefix}/_kafkalog/elsewhere"),
    ]
    assert take(logs, place).commit == 1
    assert sorted(uploads(bucket, prefix)) == sorted(kept)
    late = begin(f"{prefix}/{staging_folder(run_name(None))}/000001-0b/000000.parquet")  # by a task that outlived its run
    assert late in uploads(bucket, prefix)
    assert take(logs, place).commit is None
    assert sorted(uploads(bucket, prefix)) == sorted(kept)


def test_a_user_who_may_not_list_uploads_can_ingest(
    logs: Path, place: str, bucket: server.Bucket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def denied(client: S3Requests, prefix: str) -> None:
        raise StorageError("s3://logs: listing uploads failed: AccessDenied")

    monkeypatch.setattr(S3Requests, "unfinished_uploads", denied)
    assert take(logs, place).commit == 1
    assert "uploads of killed runs stay in the store: s3://logs: listing uploads failed: AccessDenied" in caplog.text


# -- stores ------------------------------------------------------------------------------------------------------------------


def test_a_store_that_ignores_conditions_is_refused(
    logs: Path, place: str, bucket: server.Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put(client: S3Requests, key: str, content: bytes, tag: str | None) -> str:
        return str(client._client.put_object(Bucket=client.bucket, Key=key, Body=content)["ETag"])

    monkeypatch.setattr(S3Requests, "put", put)
    with pytest.raises(SparkSourceError, match=r"^KAFKALOG_BAD_TARGET: s3://\S+: this store ignores If-None-Match"):
        take(logs, place)


def test_without_boto3_the_error_says_what_to_install(logs: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_BAD_OPTION: .* needs boto3 .*: pip install 'kafkalog\[s3\]'"):
        take(logs, place)
    with pytest.raises(UsageError):
        S3Requests(place, "us-east-1")


def test_boto3_gets_what_arrow_reads_from_a_uri(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    uri = "s3://key:s%2Fcret@bucket/a?region=eu-west-1&scheme=http&endpoint_override=127.0.0.1:2"
    arrow = filesystem_of_uri(uri)[0].__reduce__()[1][0]
    client = S3Requests(uri, filesystem_of_uri(uri)[0].region)._client
    credentials = client._request_signer._credentials
    assert (credentials.access_key, credentials.secret_key) == (arrow["access_key"], arrow["secret_key"]) == ("key", "s/cret")
    assert client.meta.endpoint_url == f"{arrow['scheme']}://{arrow['endpoint_override']}"
    assert client.meta.region_name == arrow["region"]


def test_a_target_whose_endpoint_and_login_are_in_its_uri(
    logs: Path, place: str, bucket: server.Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    host = bucket.endpoint.removeprefix("http://")
    uri = f"s3a://test:test@logs/{prefix_of(place)}?region=us-east-1&scheme=http&endpoint_override={host}"
    assert take(logs, uri).records == RECORDS
    assert take(logs, uri).commit is None


def test_a_key_that_is_too_long_is_refused_before_anything_is_published(logs: Path, place: str, bucket: server.Bucket) -> None:
    deep = f"{place}/{'d' * 950}"
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_BAD_TARGET: .*a key of 1\d\d\d bytes; at most 1024 are possible"):
        take(logs, deep)
    assert manifest.commit_path(1) not in keys(bucket, deep)


def test_files_that_s3_cannot_move_are_refused(logs: Path, place: str) -> None:
    with pytest.raises(SparkSourceError, match=r"KAFKALOG_BAD_OPTION: option file_bytes=5000000000: an object store moves"):
        take(logs, place, file_bytes=5_000_000_000)


@pytest.fixture
def plain(tmp_path: Path) -> ObjectTarget:
    """A store without conditional puts."""
    for folder in (manifest.COMMITS, manifest.STAGING):
        (tmp_path / "store" / folder).mkdir(parents=True)
    local = fs.LocalFileSystem()
    return ObjectTarget(local, "", str(tmp_path / "store"), lambda: PlainRequests(local))


def test_a_store_without_conditional_puts_has_the_lease(plain: ObjectTarget) -> None:
    with plain.lock():
        with pytest.raises(SparkSourceError, match="KAFKALOG_TARGET_BUSY"), plain.lock():
            raise AssertionError
        plain.publish(manifest.commit_path(1), b"one", "")
        with pytest.raises(SparkSourceError, match=r"KAFKALOG_TARGET_BUSY: .* and has published _kafkalog/commits/0*1\.json"):
            plain.publish(manifest.commit_path(1), b"two", "")
    with plain.lock():
        assert plain.read(manifest.commit_path(1)) == b"one"


def test_of_two_that_take_the_lease_of_a_plain_store_at_once_at_most_one_has_it(
    plain: ObjectTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = PlainRequests.put
    other = Lease(ObjectSlot(plain), "")

    def put(requests: PlainRequests, key: str, content: bytes, tag: str | None) -> str | None:
        monkeypatch.setattr(PlainRequests, "put", real)
        written = requests.put(key, content, tag)
        with requests.filesystem.open_output_stream(key) as stream:  # by a run that found the same a moment before
            stream.write(other._content())
        return written

    monkeypatch.setattr(object_target.PlainRequests, "put", put)
    with pytest.raises(SparkSourceError, match="KAFKALOG_TARGET_BUSY"):
        Lease(ObjectSlot(plain), "").take()
