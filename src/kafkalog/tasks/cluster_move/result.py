"""What a move decided, and what came of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from kafkalog.format.quantities import plural, repr_text, size_text

from ..cluster_rebuild.result import Note, PlannedPartition


@dataclass(frozen=True)
class MovedTopic:
    """A topic of the source, and what it is called in the target. `topic_id` is another one only if its own is taken there."""

    source: str
    topic: str
    topic_id: str


@dataclass(repr=False)
class MoveResult:
    """The plan, and what was done. `state` is "written", "already there" or "not written".

    `metadata` are the copies of the target's metadata log that get the new records, from `metadata_offset` on in
    `metadata_epoch`. `next_producer_id` is None where the target's is above every id in the logs. With `obstacles` nothing is
    written.
    """

    cluster_id: str
    topics: list[MovedTopic]
    partitions: list[PlannedPartition]
    configs: dict[str, dict[str, str]]
    metadata: list[str]
    metadata_offset: int
    metadata_epoch: int
    next_producer_id: int | None = None
    record_count: int = 0
    notes: list[Note] = field(default_factory=list)
    obstacles: list[str] = field(default_factory=list)
    state: str = "not written"

    def __repr__(self) -> str:
        parts = [plural(len(self.topics), "topic"), plural(len(self.partitions), "partition"), size_text(self.size)]
        return repr_text("MoveResult", self.cluster_id, self.state, *parts, plural(len(self.obstacles), "obstacle"))

    @property
    def size(self) -> int:
        """Bytes to copy."""
        return sum(copy.size for each in self.partitions for copy in each.copies)

    def notes_of(self, kind: str) -> Sequence[str]:
        return [note.text for note in self.notes if note.kind == kind]

    @property
    def identity(self) -> dict[str, Any]:
        """What makes two moves the same one: the first line of the journal."""
        return {"event": "move", "cluster_id": self.cluster_id, "topics": [asdict(topic) for topic in self.topics]}

    @property
    def journal_name(self) -> str:
        """A name of its own for each move: a log directory may see several."""
        return f"cluster.move-{hashlib.sha256(json.dumps(self.identity).encode()).hexdigest()[:12]}.jsonl"

    def events(self) -> Iterator[dict[str, Any]]:
        """The journal, line by line."""
        yield self.identity
        for note in self.notes:
            yield {"event": note.kind, "text": note.text}
        for topic, settings in sorted(self.configs.items()):
            yield {"event": "configs", "topic": topic, "configs": settings}
        for partition in self.partitions:
            yield {"event": "partition", **asdict(partition)}
        yield {
            "event": "metadata",
            "copies": self.metadata,
            "offset": self.metadata_offset,
            "epoch": self.metadata_epoch,
            "records": self.record_count,
            "next_producer_id": self.next_producer_id,
        }

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        return {**asdict(self), "size": self.size}
