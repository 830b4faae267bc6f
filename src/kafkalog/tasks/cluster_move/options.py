"""What a caller of a move decides."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kafkalog.errors import UsageError

from ..cluster_rebuild.options import RebuildOptions
from ..partitions import PathLike

# Kafka's own topics: what is in them makes sense only in their own cluster, and every cluster has some of these.
INTERNAL_TOPICS: Final = (
    "__cluster_metadata",
    "__consumer_offsets",
    "__transaction_state",
    "__share_group_state",
    "__remote_log_metadata",
)
LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # as Kafka's Topic class has it


@dataclass(frozen=True)
class MoveOptions:
    """Which topics to move, and how.

    `names` gives a topic another name in the target. `replicas` is the number of copies of each partition there. `metadata` are
    older copies of the source's metadata, `configs` settings by topic, "*" for all. `topic_ids` and `prefer` decide between two
    topics of one name on the disks. `missing_empty` makes partitions of which no copy is left begin empty.
    """

    topics: tuple[str, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    replicas: int | None = None
    metadata: tuple[PathLike, ...] = ()
    configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    prefer: str | None = None
    missing_empty: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        if not self.topics:
            raise UsageError("say which topics to move: --topic NAME")
        for topic in self.topics:
            if topic in INTERNAL_TOPICS:
                raise UsageError(f"--topic {topic}: one of Kafka's own topics, which belongs to its cluster; it cannot be moved")
        for topic, name in self.names.items():
            if topic not in self.topics:
                raise UsageError(f"--as {topic}={name}: {topic} is not among the topics to move")
            if LEGAL_NAME.fullmatch(name) is None or name in (".", "..") or name in INTERNAL_TOPICS:
                raise UsageError(f"--as {topic}={name}: not a name that a topic can have")
        new = [self.name_of(topic) for topic in self.topics]
        if len(set(new)) < len(new):
            raise UsageError("two of the topics would have the same name; give each another one with --as TOPIC=NAME")
        if self.replicas is not None and self.replicas < 1:
            raise UsageError(f"--replicas {self.replicas}: at least 1")

    def name_of(self, topic: str) -> str:
        """What a topic is called in the target."""
        return self.names.get(topic, topic)

    @property
    def choosing(self) -> RebuildOptions:
        """How the copies of the source are chosen: the best one of each partition, whichever node it is from."""
        return RebuildOptions(
            node=0, topic_ids=self.topic_ids, prefer=self.prefer, missing_empty=self.missing_empty, configs=self.configs
        )
