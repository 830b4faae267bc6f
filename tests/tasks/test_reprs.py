"""Results in an interactive session: the result of each public function shows its subject, its size, and what was lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kafkalog
from kafkalog.tasks.explain import Field, Part
from kafkalog.tasks.salvage import SalvageResult
from tests.builders.small_logs import FIRST_TIME, made_batch, marker, transactional_batch, write_segment

SIZE = len(made_batch(100))  # of each batch below


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """orders-0: three batches of ten records."""
    write_segment(tmp_path / "data" / "orders-0", 100, *(made_batch(first) for first in (100, 110, 120)))
    return tmp_path / "data"


def damage(data: Path) -> None:
    """Break the second of the three batches."""
    broken = bytearray(made_batch(110))
    broken[-1] ^= 1
    write_segment(data / "orders-0", 100, made_batch(100), bytes(broken), made_batch(120))


def test_findings(data: Path) -> None:
    path = str(data)
    size = f"{3 * SIZE} B"
    kafkalog.reindex(data)
    assert repr(kafkalog.verify(data)) == f"Findings({path!r}, 1 partition, 30 records, {size}, nothing found)"
    damage(data)
    assert repr(kafkalog.verify(data)) == f"Findings({path!r}, 1 partition, 20 records, {size}, 1 error, reasons: crc)"


def test_a_listing_its_topics_and_partitions(data: Path) -> None:
    size = f"{3 * SIZE} B"
    listing = kafkalog.ls(data)
    assert repr(listing) == f"Listing({str(data)!r}, 1 topic, 1 partition, {size})"
    assert repr(listing.topics) == f"[TopicListing('orders', 1 partition, {size})]"
    assert repr(listing.partitions[0]) == f"PartitionListing('orders-0', 1 segment, {size}, offsets 100 to 129)"
    write_segment(data / "orders-0", 130, b"no entry")
    write_segment(data / "orders-0", 140, made_batch(140))
    listing = kafkalog.ls(data)
    assert repr(listing).endswith(", 1 problem)")
    assert repr(listing.partitions[0]).endswith(", offsets 100 to 149, 1 problem)")


def test_transactions(data: Path) -> None:
    write_segment(data / "pay-0", 0, transactional_batch(0, 3, 1), marker(3, 1, commit=True), transactional_batch(4, 2, 2))
    found = kafkalog.transactions(data)
    assert repr(found) == f"Transactions({str(data)!r}, 2 partitions, 1 open, 0 aborted, 1 committed)"
    assert repr(found.partitions[1]) == (
        "PartitionTransactions('pay-0', offsets 0 to 5, last stable offset 4, 1 open, 0 aborted, 1 committed)"
    )


def test_a_profile(data: Path) -> None:
    size = f"{3 * SIZE} B"
    assert repr(kafkalog.profile(data)) == f"Profile({str(data)!r}, 1 topic, 1 partition, {size}, 30 records in 3 batches)"
    assert repr(kafkalog.profile(data, quick=True)).endswith("30 records in 3 batches, quick)")
    damage(data)
    assert repr(kafkalog.profile(data)).endswith(f"{2 * SIZE} B, 20 records in 2 batches, {SIZE} B dropped for damage)")


def test_an_explanation_its_parts_and_fields(data: Path) -> None:
    damage(data)
    file = data / "orders-0" / f"{100:020}.log"
    explained = kafkalog.explain(file, offset=110)
    assert repr(explained) == (
        f"Explanation({str(file)!r}, log, bytes {SIZE} to {2 * SIZE - 1} of {3 * SIZE}, 1 part, 2 problems)"
    )
    batch = explained.parts[0]
    assert repr(batch) == f"Part('batch', bytes {SIZE} to {2 * SIZE - 1}, {len(batch.children)} children)"
    assert repr(batch.children[0]) == f"Field('base_offset', bytes {SIZE} to {SIZE + 7}, int64 110)"
    assert repr(Field("value", 5, b"x" * 100, "bytes", b"x" * 100)) == f"Field('value', bytes 5 to 104, bytes {b'x' * 40!r}…)"
    assert repr(Part("zeros", 7, 0, (), problem="torn")) == "Part('zeros', no bytes at 7, 0 children, 1 problem)"


def test_an_estimation() -> None:
    estimated = kafkalog.estimate(value_size=100)
    assert repr(estimated) == "Estimation('no key, value of 100 bytes', 1 record, 126 B as v0 none to 170 B as v2 none)"


def test_a_dump(data: Path) -> None:
    log = data / "orders-0" / f"{100:020}.log"
    assert repr(kafkalog.dump(log)) == f"Dump({str(log)!r})"
    assert repr(kafkalog.dump([log, log], style="0.8")) == f"Dump({str(log)!r}, 1 more file, in the style of 0.8)"
    dump = kafkalog.dump(log, deep_iteration=True)
    assert repr(dump.findings) == "DumpFindings(none)"
    list(dump.lines())
    assert repr(dump.findings) == "DumpFindings(gaps in 1 file)"  # before offset 100


def test_an_append(data: Path, tmp_path: Path) -> None:
    source = tmp_path / "source.jsonl"
    source.write_text("".join(json.dumps({"key": f"{row}", "value": "x"}) + "\n" for row in range(5)))
    planned = kafkalog.append(source, data / "orders-0", now_ms=FIRST_TIME, dry_run=True)
    assert repr(planned) == f"AppendResult({str(data)!r}, topic 'orders', not written, 5 records in 1 partition, 0 B)"
    done = kafkalog.append(source, data / "orders-0", now_ms=FIRST_TIME)
    part = done.partitions[0]
    assert repr(done) == f"AppendResult({str(data)!r}, topic 'orders', written, 5 records in 1 partition, {part.size} B)"
    assert repr(part) == (f"PartitionAppend({str(data / 'orders-0')!r}, existing, 5 records, offsets 130 to 134, {part.size} B)")
    again = kafkalog.append(source, data / "orders-0", now_ms=FIRST_TIME)
    assert repr(again).endswith(f"already there, 5 records in 1 partition, {part.size} B, 1 source appended before)")


def test_a_conversion(data: Path, tmp_path: Path) -> None:
    (planned,) = kafkalog.convert(data, in_place=True, codec="gzip", dry_run=True)
    sizes = f"{3 * SIZE} B -> {planned.new_size} B"
    work = "3 entries: 0 to re-encode, 3 to recompress, 0 to keep"
    assert repr(planned) == f"ConvertResult({str(data / 'orders-0')!r}, not written, {work}, {sizes})"
    (done,) = kafkalog.convert(data, out=tmp_path / "out", codec="gzip")
    assert repr(done) == f"ConvertResult({str(tmp_path / 'out' / 'orders-0')!r}, written, {work}, {sizes})"


def test_a_salvage(data: Path, tmp_path: Path) -> None:
    damage(data)
    (result,) = kafkalog.salvage(data, tmp_path / "out")
    kept = f"20 records in 2 batches, {2 * SIZE} B, offsets 100 to 129"
    folder = str(tmp_path / "out" / "orders-0")
    assert repr(result) == f"SalvageResult({folder!r}, written, {kept}, {SIZE} B dropped, lost offsets 110 to 119)"
    nothing = SalvageResult("orders", 0, [], "/out/orders-0", kept_records=None)
    assert repr(nothing) == "SalvageResult('/out/orders-0', not written, 0 batches, 0 B)"


def test_compact_retain_truncate_and_recover(data: Path, tmp_path: Path) -> None:
    folder, size = str(data / "orders-0"), f"{3 * SIZE} B"
    before = f"offsets 100 to 129, 1 segment, {size}"
    (planned,) = kafkalog.truncate(data, 120, in_place=True, dry_run=True)
    change = f"{before} -> offsets 100 to 119, 1 segment, {2 * SIZE} B"
    lost = f"10 records at offsets 120 to 129, {SIZE} B"
    assert repr(planned) == f"MaintenanceResult({folder!r}, truncate, not written, {change}, loses {lost})"
    assert repr(planned.before) == f"LogState({before})"
    assert repr(planned.loss) == f"Loss({lost})"
    (done,) = kafkalog.truncate(data, 120, out=tmp_path / "out")
    out = str(tmp_path / "out" / "orders-0")
    assert repr(done) == f"MaintenanceResult({out!r}, truncate, written, {change}, lost {lost})"
    (kept,) = kafkalog.compact(data, in_place=True, now_ms=FIRST_TIME, dry_run=True)
    assert repr(kept) == f"MaintenanceResult({folder!r}, compact, not written, {before})"
    (deleted,) = kafkalog.retain(data, in_place=True, start_offset=115, now_ms=FIRST_TIME, dry_run=True)
    assert repr(deleted) == (
        f"MaintenanceResult({folder!r}, retain, not written, {before} -> offsets 115 to 129, 1 segment, {size}, "
        "loses at most 15 records at offsets 100 to 114, 0 B)"
    )
    write_segment(data / "orders-0", 100, made_batch(100), made_batch(110)[:50])
    (cut,) = kafkalog.recover(data, in_place=True, now_ms=FIRST_TIME, dry_run=True)
    assert repr(cut).endswith(
        f", recover, not written, offsets 100 to 109, 1 segment, {SIZE} B, 50 B cut after the last whole batch)"
    )


def test_a_reindex(data: Path) -> None:
    folder = str(data / "orders-0")
    (planned,) = kafkalog.reindex(data, dry_run=True)
    assert repr(planned) == f"ReindexResult({folder!r}, not written, {len(planned.changed)} files to change, 0 unchanged)"
    kafkalog.reindex(data)
    (again,) = kafkalog.reindex(data)
    assert repr(again) == f"ReindexResult({folder!r}, already there, 0 files changed, {len(planned.changed)} unchanged)"
    damage(data)
    (stopped,) = kafkalog.reindex(data, dry_run=True)
    assert repr(stopped).endswith(", stopped at damage)")


def test_what_was_deleted_and_copied_back(tmp_path: Path) -> None:
    gone = tmp_path / "data" / ("t-0." + "0" * 32 + "-delete")
    write_segment(gone, 100, made_batch(100))
    (deleted,) = kafkalog.find_deleted(tmp_path / "data")
    assert repr(deleted) == f"Deleted({str(gone)!r}, deleted topic, 1 segment, {SIZE} B, from offset 100)"
    (back,) = kafkalog.undelete(tmp_path / "data", tmp_path / "back")
    folder = str(tmp_path / "back" / "t-0")
    assert repr(back) == f"SalvageResult({folder!r}, written, 10 records in 1 batch, {SIZE} B, offsets 100 to 109)"
