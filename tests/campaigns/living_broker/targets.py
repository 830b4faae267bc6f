"""The tables of an ingest, commit by commit, as the campaign's judge needs them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.campaigns.living_broker.judge import FALSE, WRONG, Book, Found, Place, show
from tests.campaigns.living_broker.ledger import Ledger
from tests.spark.ingested import data_files

DYING_SECONDS = 0.5
TOPIC = re.compile(r"topic=([^/]+)")
Generation = tuple[str, int, int]  # topic, generation, partition
FirstOffset = Callable[[str, int], int]


@dataclass
class Target:
    """A target with its choices; `topics` is a pattern, `accepts_losses` is --on-data-loss continue."""

    folder: Path
    topics: str
    book: Book
    ledger: Ledger
    choices: dict[str, Any] = field(default_factory=dict)
    accepts_losses: bool = False
    commits: int = 0
    has_superseded: bool = False  # since the whole table was last compared
    lives: dict[Generation, int] = field(default_factory=dict)
    generation: dict[tuple[str, int], int] = field(default_factory=dict)

    def arguments(self, *, accept: bool) -> dict[str, Any]:
        source = {"subscribePattern": f"^({self.topics})$", **self.choices.get("options", {})}
        rule = "continue" if accept or self.accepts_losses else "fail"
        return {**self.choices, "options": source, "on_data_loss": rule}

    # -- commits -----------------------------------------------------------------------------------------------------------

    def absorb(self, first_offset: FirstOffset) -> bool:
        """Judge the rows of new commits. Whether there were any."""
        found = False
        while (path := self._path(self.commits + 1)).exists():
            self._absorb(json.loads(path.read_text()), first_offset)
            self.commits += 1
            found = True
        return found

    def _moved(self, file: dict[str, Any]) -> Path:
        """Where a file is now: a killed run may have published it, but not moved it yet; one that is dying may be about to."""
        moved: Path = self.folder / file["path"]
        staged: Path = self.folder / file["staged"]
        time.sleep(0 if moved.exists() else DYING_SECONDS)
        return moved if moved.exists() else staged

    def _path(self, number: int) -> Path:
        return self.folder / "_kafkalog" / "commits" / f"{number:020}.json"

    def _absorb(self, commit: dict[str, Any], first_offset: FirstOffset) -> None:
        for gap in commit["gaps"]:
            self.has_superseded |= self._name_gap(gap, commit, first_offset)
        for topic, partitions in commit["partitions"].items():
            for number, fields in partitions.items():
                self._note_generation(topic, int(number), fields)
        for file in commit["files"]:
            for place, rows in self._read(self._moved(file), file["path"]).items():
                self.book.take(place, rows)
        for topic, partitions in commit["partitions"].items():
            for number, fields in partitions.items():
                generation = (topic, fields["generation"], int(number))
                place = (topic, self.lives[generation], int(number))
                if place not in self.book.next and self.ledger.lives[topic][place[1]].is_retained:
                    self.book.begin_at(place, first_offset(topic, int(number)))
                if fields["next_offset"] != self.book.next.get(place):
                    self.book.advance(place, fields["next_offset"])

    def _note_generation(self, topic: str, partition: int, fields: dict[str, Any]) -> None:
        generation = (topic, fields["generation"], partition)
        self.generation[topic, partition] = fields["generation"]
        if generation not in self.lives:
            life = self.ledger.of_id(fields["topic_id"])
            self.lives[generation] = life.number

    def place(self, topic: str, partition: int) -> Place | None:
        """The place of a partition in the target: the life that it took last."""
        generation = self.generation.get((topic, partition))
        return None if generation is None else (topic, self.lives[topic, generation, partition], partition)

    def _name_gap(self, gap: dict[str, Any], commit: dict[str, Any], first_offset: FirstOffset) -> bool:
        """Compare a loss that a run named with what really happened; whether rows were superseded."""
        topic, partition, start, stop = gap["topic"], gap["partition"], gap["start_offset"], gap["stop_offset"]
        place = self.place(topic, partition)
        assert place is not None
        text = f"{show(place)} {start} to {stop} ({gap['reason']})"
        after = self.ledger.of_id(commit["partitions"][topic][str(partition)]["topic_id"])
        if after.number != place[1]:
            return False  # created again, as its id says
        if gap["reason"] == "removed":
            if start != self.book.next[place] or stop > first_offset(topic, partition):
                taken = self.book.next[place]
                self.book.faults.add(FALSE, self.book.name, f"{text} is not what was removed: taken up to {taken}")
            self.book.excuse(place, start, stop)
            return False
        cut = self.book.pending_cuts.get(place)
        if cut is None:
            self.book.faults.add(FALSE, self.book.name, f"{text}, but nothing was cut off")
            return True
        if (start, stop) != (cut, self.book.next[place]):
            self.book.faults.add(WRONG, self.book.name, f"{text}: it was cut at {cut}, taken up to {self.book.next[place]}")
        self.book.supersede(place, cut)
        return True

    # -- tables ------------------------------------------------------------------------------------------------------------

    def _read(self, path: Path, name: str) -> dict[Place, list[Found]]:
        found: dict[Place, list[Found]] = {}
        match = TOPIC.search(name)
        table = pq.ParquetFile(path).read()
        names = table.column_names
        columns = {each: table.column(each).to_pylist() for each in ("partition", "offset", "key", "value")}
        generations = table.column("generation").to_pylist() if "generation" in names else [0] * table.num_rows
        topics = table.column("topic").to_pylist() if "topic" in names else [match[1] if match else ""] * table.num_rows
        for topic, generation, partition, *row in zip(topics, generations, *columns.values(), strict=True):
            place = (topic, self.lives[topic, generation, partition], partition)
            found.setdefault(place, []).append((row[0], row[1], row[2]))
        return found

    def _rows(self, paths: list[Path]) -> Iterator[tuple[Place, Found]]:
        for path in paths:
            for place, rows in self._read(path, str(path)).items():
                yield from ((place, row) for row in rows)

    def compare(self) -> None:
        """Compare the whole table, and the rows set aside, after a run that ended well."""
        self.has_superseded = False
        self.book.compare_table(self._rows(data_files(self.folder)))
        self.book.compare_superseded(self._rows(sorted((self.folder / "_superseded").rglob("*.parquet"))))


def losses(book: Book, place: Place, life_now: int, first_offset: int) -> list[str]:
    """The real losses of a reader of this partition."""
    found = []
    if place[1] != life_now:
        found.append("created again")
    else:
        if first_offset > book.next.get(place, 0):
            found.append("removed")
        if place in book.pending_cuts:
            found.append("cut")
    return found
