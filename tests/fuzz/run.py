"""Fuzz the decoder for some time: python -m tests.fuzz.run [--seconds 60] [--runs N] [--seed 1] [--corpus build/fuzz]

Finds are kept in the corpus folder, so that a later run continues there; an input that fails is written next to it and named.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.seeds import write_seeds

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class FuzzResult:
    """How a run ended: the counts of libFuzzer, and its output where it failed."""

    runs: int
    runs_per_second: int
    failed: bool
    output: str


def fuzz(folder: Path, *, seconds: int, runs: int = -1, seed: int = 1) -> FuzzResult:
    """Run the target in a child process, with bounds-checked kernels, for at most `seconds`."""
    corpus = folder / "corpus"
    write_seeds(corpus)
    flags = [f"-max_total_time={seconds}", f"-runs={runs}", f"-seed={seed}", f"-artifact_prefix={folder}/"]
    flags += ["-print_final_stats=1", "-timeout=20", "-rss_limit_mb=4096"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.target", *flags, str(corpus)],
        cwd=ROOT,
        env={**os.environ, "NUMBA_BOUNDSCHECK": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=seconds + 240,
        check=False,
    )
    return FuzzResult(
        _statistic(done.stdout, "number_of_executed_units"),
        _statistic(done.stdout, "average_exec_per_sec"),
        done.returncode != 0,
        done.stdout,
    )


def _statistic(output: str, name: str) -> int:
    found = re.search(rf"stat::{name}:\s*(\d+)", output)
    return int(found[1]) if found else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--runs", type=int, default=-1, help="stop after this many inputs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, default=ROOT / "build" / "fuzz")
    options = parser.parse_args()
    options.corpus.mkdir(parents=True, exist_ok=True)
    result = fuzz(options.corpus.resolve(), seconds=options.seconds, runs=options.runs, seed=options.seed)
    if result.failed:
        sys.stdout.write(result.output[-6000:])
    sys.stdout.write(f"{result.runs} runs, {result.runs_per_second} a second, {'FAILED' if result.failed else 'no failure'}\n")
    return int(result.failed)


if __name__ == "__main__":
    sys.exit(main())
