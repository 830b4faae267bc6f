"""The whole damage campaign: `make damage`, or `python -m tests.campaigns.damage.run [--only T-02] [--quick]`.

Runs every threat of the fault model that concerns reading, on all cores, and prints one line for each; exits 1 if one misses.
The test suite runs the same code on a sample (`--quick`), so nothing is checked here in another way.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from .outcome import warm_up
from .tally import Tally
from .threats import THREATS, Job

HEADINGS = ("threat", "cases", "reads", "crashes", "hangs", "silent", "lost", "kept", "residue", "seconds")


@dataclass
class Line:
    """The figures of one threat."""

    threat: str
    title: str
    tally: Tally


def run_job(job: Job) -> Tally:
    start = time.monotonic()
    tally = job()
    tally.seconds = time.monotonic() - start
    return tally


def run_threat(threat: str, *, quick: bool, run: Callable[[Sequence[Job]], Iterable[Tally]]) -> Line:
    title, make_jobs = THREATS[threat]
    total = Tally()
    for tally in run(make_jobs(quick)):
        total.add(tally)
    return Line(threat, title, total)


def run_here(jobs: Sequence[Job]) -> list[Tally]:
    return [run_job(job) for job in jobs]


def cells(line: Line) -> tuple[str, ...]:
    tally = line.tally
    kept = f"{100 * tally.kept / tally.keepable:.2f} %" if tally.keepable else "-"
    if tally.keepable and tally.kept != tally.keepable:
        kept = f"{tally.kept}/{tally.keepable}"
    counts = (tally.cases, tally.reads, tally.crashes, tally.hangs, tally.silent, tally.lost)
    return (line.threat, *(f"{count:,}" for count in counts), kept, f"{tally.residue:,}", f"{tally.seconds:.0f}")


def show(values: Sequence[str]) -> None:
    widths = (7, 9, 11, 8, 6, 7, 6, 10, 8, 8)
    print("  ".join(value.rjust(width) for value, width in zip(values, widths, strict=True)), flush=True)


def show_details(lines: Sequence[Line]) -> None:
    for line in lines:
        for detail in line.tally.details:
            print(f"{line.threat}: {detail}")
        for residue, count in sorted(line.tally.residues.items()):
            print(f"{line.threat}: residue: {residue}: {count:,}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.damage.run", description=__doc__)
    parser.add_argument("--only", action="append", choices=sorted(THREATS), help="only this threat; may be given again")
    parser.add_argument("--quick", action="store_true", help="the sample that the test suite takes")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    chosen = parser.parse_args(arguments)
    warm_up()  # once, so that the workers find the kernels compiled
    lines = []
    show(HEADINGS)
    # Not forked: Arrow and the codecs may have started threads.
    with multiprocessing.get_context("spawn").Pool(chosen.workers, initializer=warm_up) as pool:
        for threat in chosen.only or THREATS:
            lines.append(run_threat(threat, quick=chosen.quick, run=partial(pool.imap, run_job)))
            show(cells(lines[-1]))
    show_details(lines)
    return 1 if any(line.tally.missed for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
