"""What a caller of a rebuild decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkalog.errors import KafkaLogError, UsageError
from kafkalog.format.checkpoint import decode_properties

from ..partitions import PathLike

STRAY_FIRST, LIVE_FIRST = PREFERENCES = ("stray", "live")
EVERY_TOPIC = "*"


@dataclass(frozen=True)
class RebuildOptions:
    """How to rebuild.

    `node` merges all disks into one new node. `metadata` are older copies of the cluster's metadata. `missing_empty` makes
    partitions of which no copy is left begin empty. `prefer` and `topic_ids` decide between two topics of one name. `configs`
    are settings by topic, "*" for every topic of users. `in_place` makes the disks themselves open again, without a copy.
    """

    release: str | None = None
    cluster_id: str | None = None
    node: int | None = None
    controllers: tuple[int, ...] = ()
    metadata: tuple[PathLike, ...] = ()
    configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    prefer: str | None = None
    missing_empty: bool = False
    in_place: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        if self.prefer is not None and self.prefer not in PREFERENCES:
            raise UsageError(f"prefer={self.prefer!r}: {' or '.join(PREFERENCES)}")
        if self.in_place and (self.node is not None or self.cluster_id is not None or self.controllers):
            raise UsageError("--in-place changes nothing but the metadata: --node, --cluster-id and --controller need --out")
        for number in (*self.controllers, *(() if self.node is None else (self.node,))):
            if number < 0:
                raise UsageError(f"{number}: the number of a node is 0 or above")


def read_configs(content: bytes, file: str) -> dict[str, dict[str, str]]:
    """Settings by topic, from a properties file with lines TOPIC/KEY=VALUE; UsageError for any other line."""
    try:
        properties = decode_properties(content)
    except KafkaLogError as error:
        raise UsageError(f"{file}: not a properties file: {error}") from error
    configs: dict[str, dict[str, str]] = {}
    for name, value in properties.items():
        topic, slash, key = name.partition("/")
        if not (topic and slash and key):
            raise UsageError(f"{file}: {name!r}: a line is TOPIC/KEY=VALUE, such as orders/retention.ms=604800000")
        configs.setdefault(topic, {})[key] = value
    return configs
