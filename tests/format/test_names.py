"""Names of files and folders: Kafka's, and those that only look like Kafka's."""

from __future__ import annotations

import pytest

from kafkalog.errors import UsageError
from kafkalog.format.names import (
    FileName,
    FolderName,
    is_valid_topic,
    parse_file_name,
    parse_folder_name,
    partition_folder_name,
    segment_file_name,
)

HEX = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("00000000000000000000.log", FileName("log", 0)),
        ("00000000000000000208.index", FileName("index", 208)),
        ("00000000000000000208.timeindex", FileName("timeindex", 208)),
        ("00000000000000000208.txnindex", FileName("txnindex", 208)),
        ("00000000000000000208.snapshot", FileName("snapshot", 208)),
        ("09223372036854775807.log", FileName("log", 2**63 - 1)),
        ("00000000000000000208.log.deleted", FileName("log", 208, suffix="deleted")),
        ("00000000000000000208.log.cleaned", FileName("log", 208, suffix="cleaned")),
        ("00000000000000000208.timeindex.swap", FileName("timeindex", 208, suffix="swap")),
        ("00000000000000000208.snapshot.deleted", FileName("snapshot", 208, suffix="deleted")),
        ("00000000000000000187-0000000003.checkpoint", FileName("checkpoint", 187, 3)),
        ("00000000000000000187-0000000003.checkpoint.deleted", FileName("checkpoint", 187, 3, "deleted")),
        ("00000000000000000187-0000000003.checkpoint.part", FileName("checkpoint", 187, 3, "part")),
        ("00000000000000000187-0000000003-8812345.checkpoint.part", FileName("checkpoint", 187, 3, "part")),
        ("leader-epoch-checkpoint", FileName("leader-epoch-checkpoint")),
        ("leader-epoch-checkpoint.tmp", FileName("leader-epoch-checkpoint", suffix="tmp")),
        ("partition.metadata", FileName("partition.metadata")),
        ("quorum-state", FileName("quorum-state")),
        ("meta.properties", FileName("meta.properties")),
        ("bootstrap.checkpoint", FileName("bootstrap.checkpoint")),
        ("recovery-point-offset-checkpoint", FileName("recovery-point-offset-checkpoint")),
        ("replication-offset-checkpoint.tmp", FileName("replication-offset-checkpoint", suffix="tmp")),
        ("log-start-offset-checkpoint", FileName("log-start-offset-checkpoint")),
        ("cleaner-offset-checkpoint", FileName("cleaner-offset-checkpoint")),
        (".kafka_cleanshutdown", FileName(".kafka_cleanshutdown")),
        (".lock", FileName(".lock")),
    ],
)
def test_every_name_that_kafka_gives_to_a_file_is_understood(name: str, meaning: FileName) -> None:
    assert parse_file_name(name) == meaning


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".log",
        "0.log",
        "0000000000000000000.log",
        "000000000000000000000.log",
        "09223372036854775808.log",
        "99999999999999999999.log",
        "0000000000000000020\u0663.log",
        "-0000000000000000208.log",
        "+0000000000000000208.log",
        " 0000000000000000208.log",
        "00000000000000000208.log\n",
        "00000000000000000208.LOG",
        "00000000000000000208.log.gz",
        "00000000000000000208.log.deleted.deleted",
        "00000000000000000208",
        "00000000000000000187-9999999999.checkpoint",
        "00000000000000000187-3.checkpoint",
        "00000000000000000187-0000000003-8812345.checkpoint",
        "leader-epoch-checkpoint.swap",
        "leader-epoch-checkpoint\n",
        "../00000000000000000208.log",
        "00000000000000000208.log\0",
    ],
)
def test_a_name_that_only_looks_like_kafkas_is_none(name: str) -> None:
    assert parse_file_name(name) is None


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("orders-0", FolderName("orders", 0)),
        ("my-topic.with-dashes-12", FolderName("my-topic.with-dashes", 12)),
        ("__consumer_offsets-49", FolderName("__consumer_offsets", 49)),
        ("a--1", FolderName("a-", 1)),
        ("--0", FolderName("-", 0)),
        ("t-2147483647", FolderName("t", 2**31 - 1)),
        (f"my-topic-7.{HEX}-delete", FolderName("my-topic", 7, "delete")),
        (f"my.topic-7.{HEX}-future", FolderName("my.topic", 7, "future")),
        (f"my.topic-7.{HEX}-stray", FolderName("my.topic", 7, "stray")),
        ("orders-7-delete-3", FolderName("orders-7-delete", 3)),
        (f"{'t' * 249}-0", FolderName("t" * 249, 0)),
    ],
)
def test_a_folder_name_is_split_at_its_last_dash(name: str, meaning: FolderName) -> None:
    assert parse_folder_name(name) == meaning


@pytest.mark.parametrize(
    "name",
    [
        "",
        "orders",
        "-0",
        "orders-",
        "orders-x",
        "orders--1x",
        "orders-\u0663",
        "orders-2147483648",
        "orders-99999999999999999999",
        "orders-00",
        "orders-+1",
        "orders- 1",
        "orders-1\n",
        "or ders-1",
        "\u00f6rders-1",
        "../orders-1",
        "..-0",
        ".-0",
        f"{'t' * 250}-0",
        f"orders-1.{HEX[:-1]}-delete",
        f"orders-1.{HEX}0-delete",
        f"orders-1.{HEX}-gone",
        "orders-1.zz23456789abcdef0123456789abcdef-delete",
        "remote-log-index-cache",
    ],
)
def test_a_folder_that_is_no_partition_is_none(name: str) -> None:
    assert parse_folder_name(name) is None


def test_topic_names_are_those_that_kafka_allows() -> None:
    assert is_valid_topic("a.b_c-D9")
    assert not any(map(is_valid_topic, ["", ".", "..", "a/b", "a\n", "t" * 250, "\u0663", "a b"]))


def test_file_names_are_twenty_digits_of_the_first_offset() -> None:
    assert segment_file_name(0) == "00000000000000000000.log"
    assert segment_file_name(208, "timeindex") == "00000000000000000208.timeindex"
    assert segment_file_name(2**63 - 1, "log.cleaned") == "09223372036854775807.log.cleaned"
    assert partition_folder_name("orders", 3) == "orders-3"


@pytest.mark.parametrize("offset", [-1, 2**63])
def test_no_file_is_named_after_an_impossible_offset(offset: int) -> None:
    with pytest.raises(UsageError):
        segment_file_name(offset)


def test_no_folder_is_named_after_a_topic_that_would_escape() -> None:
    with pytest.raises(UsageError):
        partition_folder_name("../x", 0)
