"""What a rebuild decided, and what came of it: the plan that is shown, written down, and returned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from kafkalog.format.quantities import plural, repr_text, size_text

KNOWN, LOST, CHOSEN = KINDS = "known", "lost", "chosen"


@dataclass(frozen=True)
class Note:
    """A fact of the plan: what is `known` and from where, what is `lost`, or what was `chosen` and why."""

    kind: str
    text: str


@dataclass(frozen=True)
class PlannedCopy:
    """A copy that goes into the output: from which folder, to which."""

    node: int
    source: str
    folder: str
    end_offset: int
    last_epoch: int
    size: int
    in_sync: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedPartition:
    """A partition of the rebuilt cluster; without copies it begins empty."""

    topic: str
    partition: int
    topic_id: str
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader_epoch: int
    directories: tuple[str, ...]
    copies: tuple[PlannedCopy, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True)
class PlannedDirectory:
    """A log directory of the output."""

    node: int
    folder: str
    directory_id: str | None
    sources: tuple[str, ...]


@dataclass(repr=False)
class RebuildResult:
    """The plan, and what was done. `state` is "written", "already there" or "not written".

    `obstacles` are what has to be decided or brought first; with any of them nothing is written.
    """

    cluster_id: str
    features: dict[str, int]
    next_producer_id: int
    directories: list[PlannedDirectory]
    partitions: list[PlannedPartition]
    configs: dict[str, dict[str, str]]
    notes: list[Note] = field(default_factory=list)
    obstacles: list[str] = field(default_factory=list)
    record_count: int = 0
    state: str = "not written"

    def __repr__(self) -> str:
        nodes, topics = plural(len(self.nodes), "node"), plural(len(self.topics), "topic")
        parts = [nodes, topics, plural(len(self.partitions), "partition"), size_text(self.size)]
        return repr_text("RebuildResult", self.cluster_id, self.state, *parts, plural(len(self.obstacles), "obstacle"))

    @property
    def nodes(self) -> list[int]:
        return sorted({each.node for each in self.directories})

    @property
    def topics(self) -> list[str]:
        return sorted({each.topic for each in self.partitions})

    @property
    def size(self) -> int:
        """Bytes to copy."""
        return sum(copy.size for each in self.partitions for copy in each.copies)

    def notes_of(self, kind: str) -> Sequence[str]:
        return [note.text for note in self.notes if note.kind == kind]

    def events(self) -> Iterator[dict[str, Any]]:
        """The journal, line by line."""
        yield {
            "event": "rebuild",
            "cluster_id": self.cluster_id,
            "features": self.features,
            "next_producer_id": self.next_producer_id,
            "records": self.record_count,
        }
        for directory in self.directories:
            yield {"event": "directory", **asdict(directory)}
        for note in self.notes:
            yield {"event": note.kind, "text": note.text}
        for text in self.obstacles:
            yield {"event": "obstacle", "text": text}
        for topic, settings in sorted(self.configs.items()):
            yield {"event": "configs", "topic": topic, "configs": settings}
        for partition in self.partitions:
            yield {"event": "partition", **asdict(partition)}

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        return {**asdict(self), "nodes": self.nodes, "topics": self.topics, "size": self.size}
