"""The text files of a log directory: as brokers wrote them, and malformed ones that must be refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkalog.errors import UnsupportedFormat, UsageError
from kafkalog.format.checkpoint import (
    CleanShutdown,
    EpochStart,
    MetaProperties,
    PartitionMetadata,
    PartitionOffset,
    QuorumState,
    decode_clean_shutdown,
    decode_leader_epoch_checkpoint,
    decode_meta_properties,
    decode_offset_checkpoint,
    decode_partition_metadata,
    decode_properties,
    decode_quorum_state,
    encode_leader_epoch_checkpoint,
    encode_offset_checkpoint,
    encode_partition_metadata,
)

TOPIC_ID = "0Y-TlW-UQcqdeS2YWgK7bQ"
OFFSETS = b"0\n2\norders 0 235\nmy.topic-x 12 9223372036854775807\n"
EPOCHS = b"0\n2\n0 0\n3 1204\n"


def test_an_offset_checkpoint_is_read_and_written_alike() -> None:
    lines = decode_offset_checkpoint(OFFSETS)
    assert lines == [PartitionOffset("orders", 0, 235), PartitionOffset("my.topic-x", 12, 2**63 - 1)]
    assert encode_offset_checkpoint(lines) == OFFSETS


def test_a_leader_epoch_checkpoint_is_read_and_written_alike() -> None:
    lines = decode_leader_epoch_checkpoint(EPOCHS)
    assert lines == [EpochStart(0, 0), EpochStart(3, 1204)]
    assert encode_leader_epoch_checkpoint(lines) == EPOCHS
    assert encode_leader_epoch_checkpoint([]) == b"0\n0\n"


@pytest.mark.parametrize("stored", [b"", b"0", b"0\n", b"0\n0", b"0\n0\n"])
def test_a_checkpoint_that_nobody_wrote_to_is_empty(stored: bytes) -> None:
    assert decode_offset_checkpoint(stored) == []
    assert decode_leader_epoch_checkpoint(stored) == []


def test_other_line_ends_and_more_blanks_are_accepted_as_by_kafka() -> None:
    assert decode_offset_checkpoint(b"0\r\n1\r\nt  0\t5 \r\n") == [PartitionOffset("t", 0, 5)]
    assert decode_offset_checkpoint(b"0\n1\nt 0 5") == [PartitionOffset("t", 0, 5)]


@pytest.mark.parametrize(
    "stored",
    [
        b"\n",
        b"x\n0\n",
        b"0\nx\n",
        b"0\n1\n",
        b"0\n0\nt 0 5\n",
        b"0\n2\nt 0 5\n",
        b"0\n-1\n",
        b"0\n1\nt 0\n",
        b"0\n1\nt 0 5 6\n",
        b"0\n1\n t 0 5\n",
        b"0\n1\nt 0 5\n\n",
        b"0\n1\nt 0 x\n",
        b"0\n1\nt 2147483648 5\n",
        b"0\n1\nt 0 9223372036854775808\n",
        b"0\n1\nt 0 " + b"9" * 5000 + b"\n",
        "0\n1\nt 0 \u0663\n".encode(),
        b"0\n1\nt\xff 0 5\n",
        b"0\n1\nt 0 5_0\n",
        bytes(64),
    ],
)
def test_a_malformed_offset_checkpoint_is_refused(stored: bytes) -> None:
    with pytest.raises(UnsupportedFormat) as error:
        decode_offset_checkpoint(stored)
    assert error.value.reason == "file-format"


@pytest.mark.parametrize("decode", [decode_offset_checkpoint, decode_leader_epoch_checkpoint])
def test_a_checkpoint_from_the_future_is_named(decode: Callable[[bytes], object]) -> None:
    with pytest.raises(UnsupportedFormat) as error:
        decode(b"1\n0\n")
    assert (error.value.reason, error.value.found) == ("version", 1)


@pytest.mark.parametrize("size", range(1, len(EPOCHS)))
def test_a_cut_epoch_checkpoint_is_refused_or_has_only_whole_lines(size: int) -> None:
    try:
        lines = decode_leader_epoch_checkpoint(EPOCHS[:size])
    except UnsupportedFormat:
        return
    # A cut inside the last number cannot be seen: the file has no checksum.
    assert lines == [] or [line.epoch for line in lines] == [0, 3]


def test_partition_metadata_is_read_and_written_alike() -> None:
    stored = f"version: 0\ntopic_id: {TOPIC_ID}".encode()
    assert len(stored) == 43
    assert decode_partition_metadata(stored) == PartitionMetadata(0, TOPIC_ID)
    assert decode_partition_metadata(stored + b"\n") == PartitionMetadata(0, TOPIC_ID)
    assert encode_partition_metadata(PartitionMetadata(0, TOPIC_ID)) == stored


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"version: 0",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        b"version: 0\ntopic_id: short",
        b"version:0\ntopic_id: " + TOPIC_ID.encode(),
        b"version: x\ntopic_id: " + TOPIC_ID.encode(),
        b"topic_id: " + TOPIC_ID.encode() + b"\nversion: 0",
        b"version: 0\ntopic_id: " + TOPIC_ID.encode() + b"\nmore: 1",
        b"version: -1\ntopic_id: " + TOPIC_ID.encode(),
    ],
)
def test_malformed_partition_metadata_is_refused(stored: bytes) -> None:
    with pytest.raises(UnsupportedFormat):
        decode_partition_metadata(stored)


def test_a_topic_id_that_kafka_would_refuse_is_not_written() -> None:
    with pytest.raises(UsageError):
        encode_partition_metadata(PartitionMetadata(0, "A" * 22))


def test_meta_properties_of_both_versions_are_read() -> None:
    zookeeper = b"#\n#Sun Nov 15 09:34:45 UTC 2026\nbroker.id=1\nversion=0\ncluster.id=9NMYuwuqSMaT4mS6nhxbZQ\n"
    assert decode_meta_properties(zookeeper) == MetaProperties(0, 1, "9NMYuwuqSMaT4mS6nhxbZQ", None)
    kraft = b"node.id=7\ndirectory.id=U4J2igAvTR-hBlyGX6SZYw\nversion=1\ncluster.id=c\n"
    assert decode_meta_properties(kraft) == MetaProperties(1, 7, "c", "U4J2igAvTR-hBlyGX6SZYw")
    assert decode_meta_properties(b"") == MetaProperties(0, None, None, None)


def test_java_properties_are_read_with_their_escapes() -> None:
    stored = b"! note\n  a = 1\nb:2\nc 3\nd\\=e=f\\\n   g\nu=\\u00e9\\t\nempty=\n\nlone\nend=x\\\n"
    assert decode_properties(stored) == {
        "a": "1", "b": "2", "c": "3", "d=e": "fg", "u": "\u00e9\t", "empty": "", "lone": "", "end": "x",
    }  # fmt: skip


@pytest.mark.parametrize("stored", [b"version=2\n", b"version=x\n", b"node.id=\n", b"a=\\u12\n", b"\xff=1\n"])
def test_malformed_meta_properties_are_refused(stored: bytes) -> None:
    with pytest.raises(UnsupportedFormat):
        decode_meta_properties(stored)


def test_a_clean_shutdown_marker_is_empty_or_json() -> None:
    assert decode_clean_shutdown(b"") == CleanShutdown(0, -1)
    assert decode_clean_shutdown(b'{"version":0,"brokerEpoch":103}') == CleanShutdown(0, 103)


def test_quorum_state_of_both_versions_is_read() -> None:
    newest = b'{"leaderId":1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    assert decode_quorum_state(newest) == QuorumState(1, 1, 3, -1, "A" * 22, ())
    oldest = (
        b'{"clusterId":"","leaderId":2,"leaderEpoch":4,"votedId":3,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    )
    assert decode_quorum_state(oldest) == QuorumState(0, 2, 4, 3, None, (1, 2))


@pytest.mark.parametrize(
    "stored",
    [
        b"x",
        b"[]",
        b"{",
        b'{"leaderId":"1"}',
        b'{"leaderId":true}',
        b'{"leaderId":1e3}',
        b'{"leaderId":4294967296}',
        b'{"currentVoters":[1]}',
        b'{"currentVoters":{"a":1}}',
        b'{"votedDirectoryId":7}',
        b'{"leaderId":' + b"9" * 5000 + b"}",
        b"[" * 100_000,
        b"\xff",
        b"",
    ],
)
def test_malformed_quorum_state_is_refused(stored: bytes) -> None:
    with pytest.raises(UnsupportedFormat) as error:
        decode_quorum_state(stored)
    assert error.value.reason == "file-format"
    assert len(str(error.value)) < 400
