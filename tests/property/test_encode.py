"""Random columns through the encoder, against the reference codec, byte for byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog import codecs
from kafkalog.errors import UsageError
from kafkalog.format.batch import increment_sequence
from kafkalog.format.names import MAX_OFFSET
from kafkalog.format.reference import (
    Headers,
    Record,
    decode_entries,
    decode_records,
    encode_batch,
    encode_message,
    encode_wrapper,
)
from kafkalog.segment import encode
from kafkalog.segment.columns import RAW_HEADERS_TYPE

CONTENT = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.binary(max_size=8), CONTENT), max_size=3).map(tuple)
TIMESTAMP = st.integers(-1, 2**63 - 1) | st.integers(1_600_000_000_000, 1_600_000_001_000)
STEP = st.just(1) | st.integers(1, 200) | st.integers(1, 2**32)
PRODUCER = st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1))

# No deadline: a busy machine is not a failure.
BOUNDED = settings(max_examples=100)


@st.composite
def _records(draw: st.DrawFn, *, headers: bool = True, max_size: int = 12) -> list[Record]:
    """Records with rising offsets, gaps included."""
    steps = draw(st.lists(STEP, min_size=1, max_size=max_size))
    offset = draw(st.integers(0, 1000) | st.integers(0, MAX_OFFSET - sum(steps)))
    records = []
    for step in steps:
        found: Headers = draw(HEADERS) if headers else ()
        records.append(Record(offset, draw(TIMESTAMP), draw(CONTENT), draw(CONTENT), found))
        offset += step
    return records


def _table(records: Sequence[Record], cuts: Sequence[int] = ()) -> pa.Table:
    """The records as columns, in chunks that begin at `cuts`."""
    columns = {
        "offset": pa.array([each.offset for each in records], pa.int64()),
        "timestamp_ms": pa.array([each.timestamp for each in records], pa.int64()),
        "key": pa.array([each.key for each in records], pa.binary()),
        "value": pa.array([each.value for each in records], pa.binary()),
        "headers_raw": pa.array([list(each.headers) or None for each in records], RAW_HEADERS_TYPE),
    }
    table = pa.table(columns)
    stops = [*sorted(cut for cut in set(cuts) if cut < len(records)), len(records)]
    starts = [0, *stops[:-1]]
    return pa.concat_tables([table.slice(start, stop - start) for start, stop in zip(starts, stops, strict=True)])


def _compress(codec: int, data: bytes, magic: int) -> bytes:
    return codecs.compress(codec, data, magic=magic)


def _decompress(codec: int, payload: bytes, magic: int) -> bytes:
    out = bytearray(1 << 20)
    return bytes(out[: codecs.decompress(codec, payload, memoryview(out), magic=magic)])


def _decoded(data: bytes) -> list[Record]:
    return [record for entry in decode_entries(data) for record in decode_records(entry, _decompress)]


def _groups(records: Sequence[Record], size: int) -> list[Sequence[Record]]:
    """Runs of at most `size` records whose offsets span 31 bits."""
    groups: list[list[Record]] = []
    for each in records:
        if not groups or len(groups[-1]) == size or each.offset - groups[-1][0].offset >= 2**31:
            groups.append([])
        groups[-1].append(each)
    return list(groups)


@BOUNDED
@given(
    records=_records(),
    codec=st.sampled_from(codecs.NAMES),
    size=st.integers(1, 13),
    cuts=st.lists(st.integers(0, 12), max_size=3),
    producer=st.none() | PRODUCER,
    append_time=st.none() | st.integers(0, 2**63 - 1),
    horizon=st.none() | st.integers(0, 2**63 - 1),
    transactional=st.booleans(),
    leader_epoch=st.integers(-1, 2**31 - 1),
)
def test_batches_are_those_of_the_reference_codec(
    records: list[Record],
    codec: str,
    size: int,
    cuts: list[int],
    producer: tuple[int, int, int] | None,
    append_time: int | None,
    horizon: int | None,
    transactional: bool,
    leader_epoch: int,
) -> None:
    producer_id, producer_epoch, sequence = producer or (-1, -1, -1)
    shared: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": producer_epoch, "leader_epoch": leader_epoch}
    shared["delete_horizon_ms"] = horizon
    transactional = transactional and producer is not None
    found = encode.encode_batches(
        _table(records, cuts),
        encode.EncodeOptions(codec, batch_records=size, batch_bytes=1 << 20, log_append_time_ms=append_time),
        encode.BatchFields(
            leader_epoch,
            encode.Producer(producer_id, producer_epoch, sequence, transactional),
            delete_horizon_ms=horizon,
        ),
    )
    expected = []
    for group in _groups(records, size):
        expected.append(
            encode_batch(
                group,
                codec=codecs.codec_id(codec),
                compress=_compress,
                log_append_time=append_time,
                base_sequence=sequence,
                transactional=transactional,
                **shared,
            )
        )
        if producer is not None:
            sequence = increment_sequence(sequence, group[-1].offset - group[0].offset + 1)
    assert list(found) == expected


@BOUNDED
@given(
    records=_records(headers=False),
    magic=st.sampled_from([0, 1]),
    codec=st.sampled_from(codecs.NAMES[:-1]),
    size=st.integers(1, 13),
    cuts=st.lists(st.integers(0, 12), max_size=3),
    append_time=st.none() | st.integers(0, 2**63 - 1),
)
def test_messages_are_those_of_the_reference_codec(
    records: list[Record], magic: int, codec: str, size: int, cuts: list[int], append_time: int | None
) -> None:
    append_time = append_time if magic else None
    found = encode.encode_messages(
        _table(records, cuts),
        magic,
        encode.EncodeOptions(codec, batch_records=size, batch_bytes=1 << 20, log_append_time_ms=append_time),
    )
    number = codecs.codec_id(codec)
    expected = []
    for group in _groups(records, size):
        if number:
            wrapper = encode_wrapper(group, codec=number, compress=_compress, magic=magic, log_append_time=append_time)
            expected.append(wrapper)
            continue
        times = [each.timestamp if append_time is None else append_time for each in group]
        plain = [Record(each.offset, time, each.key, each.value) for each, time in zip(group, times, strict=True)]
        expected.append(b"".join(encode_message(each, magic=magic, log_append_time=append_time is not None) for each in plain))
    assert list(found) == expected


@BOUNDED
@given(
    records=_records(),
    limit=st.integers(1, 400),
    slice_rows=st.integers(1, 5),
    target_bytes=st.integers(1, 1000),
    cuts=st.lists(st.integers(0, 12), max_size=3),
)
def test_batches_are_cut_by_size_wherever_slices_and_chunks_end(
    records: list[Record], limit: int, slice_rows: int, target_bytes: int, cuts: list[int]
) -> None:
    whole = list(encode.encode_batches(_table(records), encode.EncodeOptions(batch_bytes=limit)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode, "SLICE_ROWS", slice_rows)
        patch.setattr(encode, "TARGET_BYTES", target_bytes)
        assert list(encode.encode_batches(_table(records, cuts), encode.EncodeOptions(batch_bytes=limit))) == whole
    batches = [_decoded(data) for data in whole]
    assert [(each.offset, each.headers, each.value) for group in batches for each in group] == [
        (each.offset, each.headers, each.value) for each in records
    ]
    for data, group, following in zip(whole, batches, [*batches[1:], []], strict=True):
        assert len(data) <= limit or len(group) == 1
        if following and following[0].offset - group[0].offset < 2**31:  # one record more would have been too much
            assert len(encode_batch([*group, following[0]])) > limit


@BOUNDED
@given(
    offsets=st.lists(st.integers(-3, 6), min_size=2, max_size=6), timestamps=st.lists(st.integers(-3, 3), min_size=6, max_size=6)
)
def test_the_encoder_refuses_what_the_reference_refuses(offsets: list[int], timestamps: list[int]) -> None:
    records = [Record(offset, time, None, None) for offset, time in zip(offsets, timestamps, strict=False)]
    try:
        expected = encode_batch(records)
    except UsageError:
        with pytest.raises(UsageError):
            list(encode.encode_batches(_table(records)))
    else:
        assert b"".join(encode.encode_batches(_table(records))) == expected
