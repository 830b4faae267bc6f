"""`kafkalog.verify`: everything that is wrong with the logs at a path, as one result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalog.errors import ERROR, INFO, SEVERITIES, WARNING, Limits, UsageError
from kafkalog.format.html_table import ROWS_SHOWN, html_table
from kafkalog.format.quantities import plural, repr_text, size_text
from kafkalog.log.checks.finding import Finding
from kafkalog.log.reading import ReadOptions
from kafkalog.log.report import ReadReport
from kafkalog.tables.choices import Names, Numbers
from kafkalog.tables.logs import Logs, Path, open_logs

from .broker_start import find_verdict
from .verdict import Verdict

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

Progress = Callable[[ReadReport], None]
REASONS_NAMED = 3


@dataclass(repr=False)
class Findings:
    """The result of `verify`: findings sorted by place, and how much was checked.

    `verdicts`: what a broker that starts at each of the paths will do; none for an object store, a single file, or a folder of
    another name. `verdict` is that of a single path.
    """

    path: str
    findings: list[Finding] = field(default_factory=list)
    partitions: list[str] = field(default_factory=list)
    batch_count: int = 0
    record_count: int = 0
    log_bytes: int = 0
    verdicts: tuple[Verdict, ...] = ()

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __repr__(self) -> str:
        looked_at = (plural(len(self.partitions), "partition"), plural(self.record_count, "record"), size_text(self.log_bytes))
        several = {INFO: INFO}
        counts = [plural(len(found), name, several.get(name)) for name in SEVERITIES if (found := self.of(name))]
        reasons = list(dict.fromkeys(finding.reason for finding in self.at_least(WARNING)))
        named = ", ".join(reasons[:REASONS_NAMED]) + (", …" if len(reasons) > REASONS_NAMED else "")
        return repr_text("Findings", self.path, *looked_at, *counts or ["nothing found"], named and f"reasons: {named}")

    def _repr_html_(self) -> str:
        by_severity = [finding for name in SEVERITIES for finding in self.of(name)]
        heads = ("severity", "reason", "file", "position", "first offset", "last offset", "about", "advice")
        rows = [
            (each.severity, each.reason, each.file, each.position, each.base_offset, each.last_offset, each.about, each.advice)
            for each in by_severity[:ROWS_SHOWN]
        ]
        note = ". ".join(verdict.text for verdict in self.verdicts)
        steps = [(step.why, step.command) for verdict in self.verdicts for step in verdict.next_steps]
        return html_table(repr(self), heads, rows, more=len(by_severity) - len(rows), note=note, commands=steps)

    def of(self, severity: str) -> list[Finding]:
        """The findings of one severity: error, warning or info."""
        return [finding for finding in self.findings if finding.severity == severity]

    def at_least(self, severity: str) -> list[Finding]:
        """The findings of that severity or worse."""
        graver = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return [finding for finding in self.findings if finding.severity in graver]

    @property
    def verdict(self) -> Verdict | None:
        """What a broker that starts there will do, if a single path was checked and that can be said."""
        return self.verdicts[0] if len(self.verdicts) == 1 else None

    @property
    def errors(self) -> list[Finding]:
        return self.of(ERROR)

    @property
    def warnings(self) -> list[Finding]:
        return self.of(WARNING)

    @property
    def info(self) -> list[Finding]:
        return self.of(INFO)

    @property
    def is_healthy(self) -> bool:
        """No errors and no warnings. Leftovers and the tail that a broker is writing are `info`, which is no fault."""
        return not self.at_least(WARNING)


def verify(
    path: Path | Sequence[Path] | Logs,
    *,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    threads: int | None = None,
    limits: Limits | None = None,
    filesystem: FileSystem | None = None,
    on_progress: Progress | None = None,
) -> Findings:
    """Everything that is wrong with the logs at `path`: entries, indexes, snapshots and checkpoints, each against the others.

    Of several paths every copy of a partition is checked, and each path has its verdict.

    Nothing is written, and damage raises nothing. `threads`: how many windows are decoded at once; by default the cores of this
    process, at most 4. `on_progress` is called between windows, with a report that counts bytes, batches and records so far.
    """
    if threads is not None and threads < 1:
        raise UsageError(f"threads={threads!r}: at least 1")
    logs = path if isinstance(path, Logs) else open_logs(path, filesystem=filesystem)
    for partition in (each for place in logs.places for each in place.partitions):
        if partition.file is not None and not partition.segments:
            raise UsageError(f"{partition.file}: nothing to compare it with; give the folder that it is in")
    report = ReadReport()
    options = ReadOptions(frozenset(), threads=threads, limits=limits or Limits())
    found: list[Finding] = []
    for finding in logs.check(topics=topics, partitions=partitions, options=options, report=report):
        if finding is not None:
            found.append(finding)
        elif on_progress is not None:
            on_progress(report)
    found.sort(key=in_place_order)
    checked: list[str] = []
    verdicts = []
    for place in logs.places:
        chosen = logs.chosen_at(place, topics, partitions)
        whole = topics is None and partitions is None and place.is_log_directory
        checked += [str(partition) for partition in chosen]
        own = [each for each in found if is_below(each.file, place.path)] if len(logs.places) > 1 else found
        verdicts.append(find_verdict(place.path, place.partitions if whole else chosen, own, whole=whole))
    known = tuple(verdict for verdict in verdicts if verdict is not None)
    return Findings(logs.path, found, checked, report.kept_batches, report.kept_records, report.kept_bytes, known)


def is_below(file: str, place: str) -> bool:
    """Whether a finding is about this path, or about something in it."""
    return file == place or file.startswith(f"{place.rstrip('/')}/")


def in_place_order(finding: Finding) -> tuple[str, int, str, int]:
    """What findings are sorted by: partition, file, position."""
    number = -1 if finding.partition is None else finding.partition
    return finding.topic or "", number, finding.file, -1 if finding.position is None else finding.position
