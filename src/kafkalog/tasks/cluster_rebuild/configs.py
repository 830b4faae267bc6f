"""The settings of topics: what is known of them, and what keeps a broker from deleting what was just recovered.

Settings are lost with the metadata, so a broker would apply its defaults: thirty seconds after its start it deletes whatever is
older than a week. So a topic whose settings are unknown keeps everything until a user decides otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kafkalog.errors import UsageError
from kafkalog.format import names
from kafkalog.payloads.cluster_image import TOPIC, ClusterImage

from .coordinators import COORDINATOR_TOPICS
from .disks import Disk
from .options import EVERY_TOPIC, RebuildOptions
from .result import CHOSEN, KNOWN, LOST, Note

KEEP_EVERYTHING: Mapping[str, str] = {"retention.ms": "-1", "retention.bytes": "-1"}
# As brokers create them. The other internal topics are no such tables of keys: compaction would delete what they need.
OF_COORDINATORS: Mapping[str, str] = {"cleanup.policy": "compact", "segment.bytes": "104857600"}
SEGMENT_BYTES = "segment.bytes"
# KIP-1030: a broker of 4.0 or later whose metadata say less for a topic ends at start.
LEAST_SEGMENT_BYTES = 1 << 20
FIRST_OF_4 = 22  # the first metadata.version of Kafka 4.0
REMOTE_METADATA_TOPIC = "__remote_log_metadata"
INTERNAL = "__"


def choose_configs(
    topics: Sequence[tuple[str, str]],
    options: RebuildOptions,
    image: ClusterImage | None,
    disks: Iterable[Disk],
    metadata_version: int,
) -> tuple[dict[str, dict[str, str]], list[Note]]:
    """(the settings of each topic, given by name and id, and what to say about them)"""
    there = {topic for topic, _ in topics}
    unknown_names = [topic for topic in options.configs if topic not in there and topic != EVERY_TOPIC]
    if unknown_names:
        raise UsageError(f"--config: no disk has the topic {', '.join(unknown_names)}; there are: {', '.join(sorted(there))}")
    configs: dict[str, dict[str, str]] = {}
    guessed = []
    for topic, topic_id in topics:
        known = image is not None and topic_id in image.topics
        settings = dict(image.configs.get((TOPIC, topic), {})) if image is not None and known else _safe(topic)
        everyones = {} if topic.startswith(INTERNAL) else options.configs.get(EVERY_TOPIC, {})
        guessed += [] if known else [topic]
        settings |= options.configs.get(topic, everyones)
        if settings:
            configs[topic] = settings
    raised = _raise_segment_bytes(configs) if metadata_version >= FIRST_OF_4 else []
    return configs, [*_notes(guessed, there, options, disks), *raised]


def _raise_segment_bytes(configs: Mapping[str, dict[str, str]]) -> list[Note]:
    small = {topic: settings for topic, settings in configs.items() if _number(settings.get(SEGMENT_BYTES)) < LEAST_SEGMENT_BYTES}
    if not small:
        return []
    were = ", ".join(f"{topic} (was {settings[SEGMENT_BYTES]})" for topic, settings in small.items())
    for settings in small.values():
        settings[SEGMENT_BYTES] = str(LEAST_SEGMENT_BYTES)
    return [
        Note(CHOSEN, f"{SEGMENT_BYTES}={LEAST_SEGMENT_BYTES} for {were}: from Kafka 4.0 on a broker does not start with less")
    ]


def _number(text: str | None) -> int:
    """The value of a setting; one that is no number is left to the broker."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else LEAST_SEGMENT_BYTES


def _safe(topic: str) -> dict[str, str]:
    return dict(OF_COORDINATORS if topic in COORDINATOR_TOPICS else KEEP_EVERYTHING)


def _notes(guessed: Sequence[str], there: set[str], options: RebuildOptions, disks: Iterable[Disk]) -> Iterable[Note]:
    if options.configs:
        yield Note(KNOWN, f"settings from --config: {', '.join(sorted(options.configs))}")
    users = [topic for topic in guessed if topic not in COORDINATOR_TOPICS]
    if users:
        yield Note(LOST, f"settings of {', '.join(users)}")
        why = "else a broker deletes what is older than a week; set them back with kafka-configs.sh once their settings are known"
        yield Note(CHOSEN, f"retention.ms=-1 and retention.bytes=-1 for these, unless --config says otherwise: {why}")
    if compacted := _compacted(disks, users, options):
        why = "they grow until they are compacted again; give --config with TOPIC/cleanup.policy=compact, or set it later"
        yield Note(LOST, f"{', '.join(compacted)} was compacted, as {names.CLEANER_CHECKPOINT} says: {why}")
    if REMOTE_METADATA_TOPIC in there and guessed:
        why = "give --config with TOPIC/remote.storage.enable=true, or records that are only there cannot be read"
        yield Note(LOST, f"which topics are in tiered storage: {why}")


def _compacted(disks: Iterable[Disk], topics: Sequence[str], options: RebuildOptions) -> list[str]:
    """Those topics that a cleaner has worked on, and whose policy the user does not give."""
    found = {topic for disk in disks for topic, _ in disk.offsets[names.CLEANER_CHECKPOINT]}
    return [topic for topic in topics if topic in found and "cleanup.policy" not in options.configs.get(topic, {})]
