"""`kafkalog.open("s3://…")` from end to end: the same tables as from local files, and little of a large segment fetched."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.format.reference import Record, encode_batch
from kafkalog.tables.schemas import LOG_TABLES, TABLES
from tests.builders.small_logs import made_batch, marker, read_offsets, transactional_batch, write_segment
from tests.storage import test_object_store as server

SEGMENT_BYTES = 64 << 20
# Each folder costs a few requests per table; these hold every format, transactions, epochs, control records and a log start.
PARTITIONS = ("__cluster_metadata-0", "delete-records-0", "epochs-0", "headers-zstd-0", "txn-0", "upgraded-mixed-0")

bucket = server.bucket


def _upload(folder: Path, key: str) -> str:
    """Put every file below `folder` under `key`; the URI of it all."""
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = f"{key}/{path.relative_to(folder).as_posix()}"
            # Straight into the server's memory: a request of 64 MiB takes many seconds.
            s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object("logs", name, path.read_bytes())
    return f"s3://logs/{key}"


def _fetched_share(target: server.Bucket, uri: str, **choices: Any) -> tuple[float, Any]:
    """How much of the segment's bytes crossed the wire, and the table that was read."""
    target.proxy.reset()
    table = kafkalog.open(uri).read(**choices).read_all()
    return target.proxy.answered_bytes / SEGMENT_BYTES, table


@pytest.fixture(scope="module")
def copied(bucket: server.Bucket, golden: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Some partitions of a real log directory, local and in the bucket."""
    source, local = golden("4.3.0") / "4.3.0", tmp_path_factory.mktemp("copied")
    for name in PARTITIONS:
        shutil.copytree(source / name, local / name)
    shutil.copy(source / "log-start-offset-checkpoint", local)
    return local, _upload(local, "golden")


@pytest.mark.parametrize("table", LOG_TABLES)
def test_every_table_of_real_logs_is_the_same_as_from_local_files(table: str, copied: tuple[Path, str]) -> None:
    local, uri = copied
    # Times of modification are those of the copy, and paths those of the store.
    columns = [column.name for column in TABLES[table].columns if column.name not in ("file", "modified_ms")]
    choices: dict[str, Any] = {"include_control": True, "on_damage": "skip"}
    expected = kafkalog.open(local).read(table, columns, **choices).read_all()
    found = kafkalog.open(uri).read(table, columns, **choices).read_all()
    assert (expected.num_rows > 0) == (table != "findings")
    assert found.equals(expected)


def test_a_report_of_a_bucket_has_the_numbers_of_local_files(copied: tuple[Path, str]) -> None:
    local, uri = copied
    here, there = (kafkalog.report(path, now_ms=0).overview for path in (local, uri))
    assert there.profile.total == here.profile.total
    assert (there.timeline, there.key_sizes, there.formats) == (here.timeline, here.key_sizes, here.formats)
    assert [each.counts for each in there.transactions] == [each.counts for each in here.transactions] != []
    assert there.checked is not None
    assert there.verdicts == ()
    html = kafkalog.report(f"{uri}/txn-0", now_ms=0, quick=True).html
    assert f"kafkalog profile {uri}/txn-0 --full" in html.replace("<span>", "").replace("</span>", "")


def test_single_files_and_partition_folders_are_found_in_a_bucket(bucket: server.Bucket, tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-0", 0, transactional_batch(0, 3, 1), marker(3, 1, commit=False), made_batch(4, 2))
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 1\n")
    uri = _upload(tmp_path, "small")
    assert read_offsets(uri) == [1, 2, 4, 5]
    assert read_offsets(f"{uri}/orders-0", isolation="read_committed") == [4, 5]
    assert read_offsets(f"{uri}/orders-0/00000000000000000000.log") == [0, 1, 2, 4, 5]
    with pytest.raises(kafkalog.NoLogs):
        kafkalog.open("s3://logs")


def test_damage_is_reported_by_the_path_in_the_bucket(bucket: server.Bucket, tmp_path: Path) -> None:
    broken = bytearray(made_batch(10))
    broken[-1] ^= 1
    write_segment(tmp_path / "orders-0", 0, made_batch(0), bytes(broken), made_batch(20))
    uri = _upload(tmp_path, "broken")
    with pytest.raises(kafkalog.CorruptBatch, match=r"s3://logs/broken/orders-0/0{20}\.log"):
        read_offsets(uri)
    assert read_offsets(uri, on_damage="salvage") == [*range(10), *range(20, 30)]


@pytest.fixture(scope="module")
def large(bucket: server.Bucket, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A partition of one 64 MiB segment of 16 KiB batches, with an index entry for each."""
    folder = tmp_path_factory.mktemp("large") / "large-0"
    noise = random.Random(5).randbytes(16_000)
    size = len(_one_record_batch(0, noise))
    batches = [_one_record_batch(offset, noise) for offset in range(SEGMENT_BYTES // size)]
    write_segment(folder, 0, *batches, indexed=range(1, len(batches)))
    return _upload(folder, "large/large-0")


def _one_record_batch(offset: int, value: bytes) -> bytes:
    return encode_batch([Record(offset, 0, None, value)])


@pytest.mark.parametrize("share", [0.5, 0.9, 0.999])
def test_a_few_offsets_of_a_large_segment_fetch_less_than_a_twentieth_of_it(
    share: float, bucket: server.Bucket, large: str
) -> None:
    start = int(share * SEGMENT_BYTES / 16_100)
    fetched, table = _fetched_share(bucket, large, columns=["offset"], start_offset=start, stop_offset=start + 3)
    assert table.column("offset").to_pylist() == [start, start + 1, start + 2]
    assert fetched < 0.05


def test_the_headers_of_large_batches_are_read_without_the_batches(bucket: server.Bucket, tmp_path: Path) -> None:
    value = os.urandom((1 << 20) - 100)
    batches = [_one_record_batch(offset, value) for offset in range(64)]
    write_segment(tmp_path / "wide-0", 0, *batches)
    uri = _upload(tmp_path, "wide")
    fetched, table = _fetched_share(bucket, uri, table="batches")
    assert table.column("base_offset").to_pylist() == list(range(64))
    assert fetched < 0.20
    fetched, table = _fetched_share(bucket, uri, table="segments", columns=["last_offset", "record_count"])
    assert table.to_pylist() == [{"last_offset": 63, "record_count": 64}]
    assert fetched < 0.20
