"""Commands under a memory limit, and the memory and time that they took."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
SHOWN = 10_000_000  # characters of the output

# Runs the command line in a process of its own. The peak is that of this program: Linux counts what the process was before it
# into ru_maxrss.
CHILD = """
import atexit, json, resource, sys, time

def report():
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))
    with open(report_path, "w") as file:
        json.dump([peak, time.process_time()], file)

report_path, limit, *arguments = sys.argv[1:]
atexit.register(report)
if int(limit):
    resource.setrlimit(resource.RLIMIT_AS, (int(limit), int(limit)))
from kafkalog.cli.main import main
sys.exit(main(arguments))
"""


@dataclass
class Measured:
    """How a command ended. `peak` is its memory in bytes, `seconds` is time of the processor, both -1 if it was killed."""

    code: int
    output: str
    errors: str
    peak: int
    seconds: float


def measure(folder: Path, *arguments: str | Path, limit: int = 0, timeout: float = 120) -> Measured:
    """Run `kafkalog ARGUMENTS`, at most with `limit` bytes of address space."""
    report, output = folder / "measured.json", folder / "measured.out"
    command = [sys.executable, "-c", CHILD, str(report), str(limit), *map(str, arguments)]
    with output.open("wb") as target:
        done = subprocess.run(command, stdout=target, stderr=subprocess.PIPE, text=True, timeout=timeout, check=False)
    with output.open() as text:
        shown = text.read(SHOWN)
    peak, seconds = json.loads(report.read_text()) if report.exists() else (-1, -1.0)
    report.unlink(missing_ok=True)
    output.unlink()
    return Measured(done.returncode, shown, done.stderr, peak, seconds)
