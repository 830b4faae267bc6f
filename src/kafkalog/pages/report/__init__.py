"""`kafkalog.report`: what is on a disk, as one HTML file that needs nothing else.

The page is a list of sections, each a module with a function that makes it or returns None where it has nothing to show. What a
later version learns about (lake tables, schemas, buckets) becomes a module in this list.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from kafkalog.errors import Limits
from kafkalog.format.markup import Markup, element
from kafkalog.format.quantities import plural, repr_text, size_text
from kafkalog.storage import local_path
from kafkalog.storage.publish import streamed_file
from kafkalog.tables.choices import Names, Numbers
from kafkalog.tables.logs import Logs
from kafkalog.tasks.overview import TOP, OverviewChoices, Path, Progress, overview
from kafkalog.tasks.overview.result import Overview

from . import cluster, disk, epochs, findings, formats, groups, made, records, savings, summary, times, transactions
from .document import document
from .section import Section

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

FRAME_HEIGHT = 640

SECTIONS: tuple[Callable[[Overview], Section | None], ...] = (
    summary.section,
    findings.section,
    disk.section,
    times.section,
    formats.section,
    records.section,
    transactions.section,
    transactions.producers,
    epochs.section,
    cluster.section,
    groups.section,
    savings.section,
    made.section,
)


@dataclass(frozen=True, repr=False)
class Report:
    """A report: `overview` has its numbers, `html` is the page."""

    overview: Overview

    def __repr__(self) -> str:
        found = self.overview
        findings = "not checked" if found.checked is None else plural(len(found.checked), "finding")
        return repr_text(
            "Report", ", ".join(found.paths), plural(len(found.partitions), "partition"), size_text(found.size), findings
        )

    def _repr_html_(self) -> str:
        """The whole page, in a frame of a notebook that shares nothing with it."""
        return element("iframe", srcdoc=Markup(escape(self.html)), sandbox="allow-scripts", width="100%", height=FRAME_HEIGHT)

    @property
    def html(self) -> str:
        """The page, complete in itself."""
        return render(self.overview)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, which appears once it is complete."""
        target = os.path.realpath(local_path(os.fspath(path)))
        with streamed_file(target, os.fspath(path)) as descriptor, open(descriptor, "wb", closefd=False) as file:
            file.write(self.html.encode())


def render(found: Overview) -> str:
    """The page of an overview."""
    sections = [section for make in SECTIONS if (section := make(found)) is not None]
    return document(found, sections)


def report(
    paths: Path | Logs | Sequence[Path],
    *,
    topics: Names | None = None,
    partitions: Numbers | None = None,
    top: int = TOP,
    quick: bool = False,
    on_damage: str = "skip",
    now_ms: int | None = None,
    threads: int | None = None,
    limits: Limits | None = None,
    filesystem: FileSystem | None = None,
    on_progress: Progress | None = None,
) -> Report:
    """What is at these paths, as a report: `.write("report.html")` makes one HTML file that needs no network.

    The logs are read twice, once to count and once to check, in memory that does not grow with them. `quick` reads headers and a
    few batches only, and checks nothing. Rankings list the `top` heaviest. Damaged batches are left out and listed, unless
    `on_damage` says otherwise. `on_progress` is called with the bytes done and the bytes to do.
    """
    choices = OverviewChoices(
        topics=topics,
        partitions=partitions,
        top=top,
        quick=quick,
        on_damage=on_damage,
        now_ms=now_ms,
        threads=threads,
        limits=limits,
    )
    return Report(overview(paths, choices, filesystem=filesystem, on_progress=on_progress))
