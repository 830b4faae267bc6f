"""A profile as one page that fits a screen: what could go, the largest topics, and a line about everything else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kafkalog.format.quantities import size_text
from kafkalog.tasks.profile.result import Item, Profile, Ranking

from .escape import printable
from .layout import BOLD, Style, shorten_middle, width_of
from .profile_page import ProfilePage, hour_text, key_text

FEWEST_ROWS, FEWEST_FACTS = 3, 2
LABEL_WIDTH = 11
WIDEST_NAME = 26
PROMPT_LINES = 1


class ProfileScreen(ProfilePage):
    """The lines of one profile, not more than the terminal has."""

    def __init__(self, found: Profile, style: Style, top: int) -> None:
        super().__init__(found, style, top)
        self.pinned_shown = 1

    def lines(self) -> Iterator[str]:
        head = [self.style.paint(printable(self.found.path), BOLD), *self._wrapped(self._summary())]
        yield from head
        if not self.found.total.batches:
            return
        savings = list(self._section("what could go", self._wrapped(self._savings())))
        yield from savings
        facts = [line for line in self._facts() if line]
        frame = 4  # a title, a heading and two empty lines
        room = self.style.height - PROMPT_LINES - len(head) - len(savings) - frame
        facts = facts[: max(room - FEWEST_ROWS, FEWEST_FACTS)]
        yield from self._table(max(min(room - len(facts), self.top), FEWEST_ROWS))
        yield ""
        yield from facts

    def _table(self, rows: int) -> Iterator[str]:
        """The largest topics; of a single topic, its partitions."""
        self.top = rows
        if len(self.found.topics) > 1:
            title, names = "topic", self.found.topics
        else:
            title = "partition"
            names = {f"{topic}-{number}": count for (topic, number), count in self.found.partitions.items()}
        yield from self._counts(f"by {title}", title, names, note=" (all tables: --full)")

    # -- everything else, the most telling first -------------------------------------------------------------------------------

    def _facts(self) -> Iterator[str]:
        found = self.found
        yield self._fact("keys", self._heaviest(found.keys, self._key_name))
        yield self._fact("codecs", [f"{name} {self._percent(count.bytes)}" for name, count in found.codecs.items()])
        yield self._fact("batches", self._batches())
        yield self._fact("hours UTC", self._heaviest(found.hours, hour_text))
        yield self._fact("producers", self._heaviest(found.producers, self._producer))
        yield self._fact("headers", self._heaviest(found.headers, self._key_name))

    def _batches(self) -> list[str]:
        records, sizes = self.found.batch_records, self.found.batch_bytes
        return [
            f"{round(records.mean, 1)} records on average ({records.smallest} to {records.largest})",
            f"{size_text(round(sizes.mean, 1))} ({size_text(sizes.smallest)} to {size_text(sizes.largest)})",
        ]

    def _heaviest(self, ranking: Ranking, name_of: Callable[[Item], str]) -> list[str]:
        return [f"{name_of(item)} {self._percent(item.bytes)}" for item in ranking.items]

    def _key_name(self, item: Item) -> str:
        key = shorten_middle(key_text(item), WIDEST_NAME)
        return f"{key} in {printable(item.topic)}" if item.topic is not None and len(self.found.topics) > 1 else key

    def _fact(self, label: str, parts: Iterable[str]) -> str:
        """A line with as many of the parts as it has room for; empty without any."""
        line = ""
        for part in parts:
            longer = f"{line}, {part}" if line else f"{label:<{LABEL_WIDTH}}{part}"
            if line and width_of(longer) > self.style.width:
                break
            line = longer
        return line
