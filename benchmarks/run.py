"""`python -m benchmarks.run`: make the data, run every race, print the ratios, write the page."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks import page, peers
from benchmarks.experiments import EXPERIMENTS, Setup
from benchmarks.jvm import find_jvm
from benchmarks.measure import REPOSITORY, RunFailed

PYTHON_PEERS = ("aiokafka", "kafka-python")
BUSY_LOAD = 0.7


def main() -> int:
    arguments = _parse()
    jvm, problem = (None, "left out by --without jvm") if "jvm" in arguments.without else find_jvm()
    notices = [] if jvm else [f"JVM peers skipped: {problem}; kafkalog's own encoder wrote the data."]
    notices += ["Quick run on small files: it shows that everything works, not how fast it is."] if arguments.quick else []
    busy = os.getloadavg()[0]
    notices += (
        [f"The machine was busy when the run began (load {busy:.1f}): do not trust the figures."] if busy > BUSY_LOAD else []
    )
    present = []
    for name in PYTHON_PEERS:
        if name in arguments.without or peers.find_version(name) is None:
            notices.append(f"{name} skipped: {'left out by --without' if name in arguments.without else 'not installed'}.")
        else:
            present.append(name)
    for notice in notices:
        _log(notice)
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    mebibytes = (16, 64) if arguments.quick else (256, 1024)
    setup = Setup(arguments.data, arguments.records, arguments.rounds, mebibytes, cores, jvm, present, _log)
    try:
        sections = [EXPERIMENTS[name](setup) for name in arguments.only]
    except RunFailed as failure:
        _log(f"the run failed: {failure}")
        return 1
    text = page.render(sections, setup.agreements, jvm, _shown_command(arguments), notices)
    arguments.page.parent.mkdir(parents=True, exist_ok=True)
    arguments.page.write_text(text)
    targets = [target for section in sections for target in section.targets]
    for section in sections:
        sys.stdout.write("\n\n".join(["", section.title, *(table.markdown() for table in section.tables)]) + "\n")
    sys.stdout.write("\n" + page.target_table(targets).markdown() + "\n")
    missed = sum(not target.met for target in targets)
    _log(f"{len(targets)} targets, {missed} missed; rows agree everywhere; page: {arguments.page}")
    return 1 if missed and arguments.strict else 0


def _log(line: str) -> None:
    sys.stderr.write(line + "\n")


def _shown_command(arguments: argparse.Namespace) -> str:
    """The command without the paths of this machine."""
    words = ["python", "-m", "benchmarks.run", "--records", str(arguments.records), "--rounds", str(arguments.rounds)]
    words += ["--quick"] if arguments.quick else []
    words += ["--only", ",".join(arguments.only)] if len(arguments.only) < len(EXPERIMENTS) else []
    words += ["--without", ",".join(arguments.without)] if arguments.without else []
    return " ".join(words)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    build = REPOSITORY / "build" / "bench"
    parser.add_argument("--data", type=Path, default=build / "data", help="where segment files are kept between runs")
    parser.add_argument("--records", type=int, help="records in each file (1,000,000; 100,000 with --quick)")
    parser.add_argument("--rounds", type=int, help="timed passes of each contestant (5; 2 with --quick)")
    parser.add_argument("--quick", action="store_true", help="small files, few rounds: shows that it works, not how fast it is")
    parser.add_argument("--only", default=",".join(EXPERIMENTS), help=f"some of {','.join(EXPERIMENTS)}")
    parser.add_argument("--without", default="", help=f"leave out some of jvm,{','.join(PYTHON_PEERS)}")
    parser.add_argument("--strict", action="store_true", help="exit code 1 when a target is missed")
    parser.add_argument(
        "--page", type=Path, help="what to write (docs/benchmarks.md for a whole run, else build/bench/benchmarks.md)"
    )
    arguments = parser.parse_args()
    arguments.records = arguments.records or (100_000 if arguments.quick else 1_000_000)
    arguments.rounds = arguments.rounds or (2 if arguments.quick else 5)
    arguments.only = [name for name in arguments.only.split(",") if name]
    arguments.without = [name for name in arguments.without.split(",") if name]
    unknown = [*set(arguments.only) - set(EXPERIMENTS), *set(arguments.without) - {"jvm", *PYTHON_PEERS}]
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    whole = not arguments.quick and not arguments.without and len(arguments.only) == len(EXPERIMENTS)
    arguments.page = arguments.page or (REPOSITORY / "docs" / "benchmarks.md" if whole else build / "benchmarks.md")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
