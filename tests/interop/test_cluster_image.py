"""The state of a cluster at every batch of its metadata log, compared with Kafka's own MetadataDelta and MetadataImage."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kafkalog.clusters.metadata import read_image
from tests.clusters import packed
from tests.interop.tools.kafka_tools import HERE, JARS, require_jars

EVERY = 3  # all of them take 10 seconds


@pytest.fixture(scope="module", params=packed.NAMES)
def metadata(request: pytest.FixtureRequest, golden_folder: Path) -> Path:
    return packed.unpack(golden_folder.parent / "clusters") / str(request.param) / "b1" / "d1" / "__cluster_metadata-0"


def images_by_kafka(log: Path) -> list[dict[str, Any]]:
    require_jars()
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", f"{JARS}/*", str(HERE / "ClusterImages.java"), str(log)]
    done = subprocess.run(command, capture_output=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_state_at_every_batch_is_that_of_kafkas_own_classes(metadata: Path) -> None:
    partitions = packed.partitions_of([metadata])
    images = images_by_kafka(metadata / f"{0:020}.log")
    written = [image for image in images if image["records"]]
    assert len(written) > 150
    for image in [*written[::EVERY], written[-1]]:
        found = read_image(partitions, at=image["offset"]).image
        expected = packed.facts_of_records(image["records"])
        assert packed.differences(expected, packed.facts_of_image(found)) == [], image["offset"]
        assert (found.offset, found.epoch) == (image["offset"], image["epoch"])
