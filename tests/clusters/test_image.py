"""The image of a cluster: equal to Kafka's own at the end of the log, the same from every copy, and silent about secrets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafkalog.clusters.metadata import read_image
from kafkalog.payloads.cluster_image import ClusterImage, PartitionState
from kafkalog.payloads.internal_topics import MetadataRecord
from tests.clusters import packed


def test_the_image_equals_that_of_kafkas_own_classes(cluster: Path) -> None:
    read = read_image(packed.partitions_of(packed.log_directories(cluster)), strict=True)
    head, *records = packed.image_lines(cluster)
    assert (read.image.offset, read.image.epoch) == (head["lastOffset"], head["epoch"])
    assert read.image.next_producer_id == head["nextProducerId"]
    assert not read.image.unknown
    assert not read.image.dangling
    assert read.is_complete
    expected = packed.facts_of_records(records, in_one_delta=True)
    assert sum(map(len, expected.values())) > 90
    assert packed.differences(expected, packed.facts_of_image(read.image)) == []


def test_every_copy_gives_the_same_image(three: Path) -> None:
    facts = [packed.facts_of_image(read_image(packed.partitions_of([folder])).image) for folder in sorted(three.glob("b*/d1"))]
    assert len(facts) == 3
    assert facts[0] == facts[1] == facts[2]


def record(kind: str, **data: object) -> MetadataRecord:
    return MetadataRecord(0, kind, 0, data)


def test_records_of_a_metadata_transaction_count_once_it_has_ended() -> None:
    image = ClusterImage()
    image.apply(record("BEGIN_TRANSACTION_RECORD"))
    image.apply(record("FEATURE_LEVEL_RECORD", name="metadata.version", featureLevel=7))
    assert (image.in_transaction, image.features) == (True, {})
    image.apply(record("END_TRANSACTION_RECORD"))
    assert (image.in_transaction, image.features) == (False, {"metadata.version": 7})
    image.apply(record("BEGIN_TRANSACTION_RECORD"))
    image.apply(record("FEATURE_LEVEL_RECORD", name="group.version", featureLevel=1))
    image.apply(record("ABORT_TRANSACTION_RECORD"))
    assert image.features == {"metadata.version": 7}


def test_a_begin_in_a_metadata_transaction_drops_nothing_of_it() -> None:
    """Kafka refuses it, as it does an end without a begin, and goes on."""
    image = ClusterImage()
    image.apply(record("END_TRANSACTION_RECORD"))
    image.apply(record("BEGIN_TRANSACTION_RECORD"))
    image.apply(record("FEATURE_LEVEL_RECORD", name="metadata.version", featureLevel=7))
    image.apply(record("BEGIN_TRANSACTION_RECORD"))
    image.apply(record("END_TRANSACTION_RECORD"))
    assert (image.in_transaction, image.features) == (False, {"metadata.version": 7})
    assert image.dangling == {"END_TRANSACTION_RECORD": 1, "BEGIN_TRANSACTION_RECORD": 1}


def test_two_topics_of_one_name_are_both_shown() -> None:
    image = ClusterImage()
    image.apply(record("TOPIC_RECORD", name="orders", topicId="old"))
    image.apply(record("TOPIC_RECORD", name="orders", topicId="new"))
    assert [topic.topic_id for topic in image.sorted_topics] == ["old", "new"]
    assert image.topics_by_name["orders"].topic_id == "new"


def test_a_deleted_topic_takes_its_settings_along() -> None:
    image = ClusterImage()
    image.apply(record("TOPIC_RECORD", name="orders", topicId="id"))
    image.apply(record("CONFIG_RECORD", resourceType=2, resourceName="orders", name="retention.ms", value="1"))
    image.apply(record("REMOVE_TOPIC_RECORD", topicId="id"))
    assert not image.topics
    assert not image.configs


def test_what_names_something_that_is_not_there_is_counted_and_changes_nothing() -> None:
    image = ClusterImage()
    image.apply(record("PARTITION_CHANGE_RECORD", topicId="id", partitionId=0))
    image.apply(record("REMOVE_TOPIC_RECORD", topicId="id"))
    image.apply(record("OF_A_LATER_RELEASE_RECORD"))
    assert image.dangling == {"PARTITION_CHANGE_RECORD": 1, "REMOVE_TOPIC_RECORD": 1}
    assert image.unknown == {"OF_A_LATER_RELEASE_RECORD": 1}


def test_a_change_without_a_leader_keeps_the_leader_epoch() -> None:
    before = PartitionState((1, 2), (1, 2), leader=1, leader_epoch=4, partition_epoch=9)
    after = before.changed({"isr": [1]})
    assert (after.isr, after.leader, after.leader_epoch, after.partition_epoch) == ((1,), 1, 4, 10)
    elected = after.changed({"leader": 2, "isr": []})
    assert (elected.isr, elected.leader, elected.leader_epoch, elected.replicas) == ((), 2, 5, (1, 2))


def test_secrets_are_kept_but_never_shown(three: Path) -> None:
    image = read_image(packed.partitions_of(packed.log_directories(three))).image
    assert len(image.credentials) == 3
    for credential in image.credentials.values():
        for secret in (credential.salt, credential.stored_key, credential.server_key):
            assert len(secret) > 20
            assert repr(secret)[2:-1] not in f"{credential} {credential!r}"


@pytest.mark.parametrize("era", ["3.9.1", "4.3.0"])
def test_a_brokers_own_snapshot_and_the_log_after_it_give_the_state_of_the_whole_log(era: str, golden: Any) -> None:
    (copy,) = [each for each in packed.partitions_of([golden(era) / era]) if each.topic == "__cluster_metadata"]
    snapshots = sorted((each for each in copy.files if each.kind == "checkpoint"), key=lambda each: -each.base_offset)
    assert len(snapshots) >= 2
    whole = read_image([replace(copy, files=tuple(each for each in copy.files if each not in snapshots))], strict=True)
    assert whole.snapshot is None
    for number, newest in enumerate(snapshots):
        found = read_image(
            [replace(copy, files=tuple(each for each in copy.files if each not in snapshots[:number]))], strict=True
        )
        assert found.snapshot == newest.path
        assert packed.differences(packed.facts_of_image(whole.image), packed.facts_of_image(found.image)) == []
        assert (found.image.voters, found.image.kraft_version) == (whole.image.voters, 1)
