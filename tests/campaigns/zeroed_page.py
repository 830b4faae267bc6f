"""A 4 KiB page of a segment zeroed, as a failing disk does it: what salvage keeps, and what a real broker keeps of the same file.

    python -m tests.campaigns.zeroed_page [MEBIBYTES]      128 by default; prints both

A broker writes the log. Its consumer then reads what another start of it, after a crash, left of the damaged log; and what it
serves from the salvaged partition, put in the place of the damaged one by the commands of docs/recipes/put-back.md.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import kafkalog
from kafkalog.tasks.salvage import SalvageResult, salvage_partitions
from tests.interop.live.broker import ROOT, resolve_jars, running_broker
from tools.recipes import DOCS, blocks

TOPIC = "pages"
PAGE = 4096
DEFAULT_MEBIBYTES = 128
Rows = list[list[int]]


@dataclass(frozen=True)
class Outcome:
    """Rows are [offset, CRC-32 of the value], as a consumer got them."""

    written: Rows
    touched: list[tuple[int, int]]  # first and last offset of each batch that the page lay in
    batch_count: int
    segment_bytes: int
    salvage: SalvageResult
    kept_by_broker: Rows
    served_from_salvaged: Rows

    @property
    def untouched(self) -> Rows:
        return [row for row in self.written if not any(first <= row[0] <= last for first, last in self.touched)]


def _client(*arguments: str) -> bytes:
    command = [sys.executable, "-m", "tests.interop.live.clients", *arguments]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, timeout=600, check=True).stdout


def _forget_the_shutdown(folder: Path) -> None:
    """Let the next start check everything, as after a crash."""
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (folder / "data" / name).unlink(missing_ok=True)


def put_back_commands() -> list[str]:
    """What the recipe types to put a salvaged folder into a log directory, for our names."""
    page = (DOCS / "recipes" / "put-back.md").read_text(encoding="utf-8")
    lines = [command.line for block in blocks(page) if block.kind == "console" for command in block.commands]
    changing = [line for line in lines if line.split()[0] in ("mkdir", "mv", "cp", "rm", "sed")]
    return [line.replace("disk/", "data/").replace("clicks", TOPIC) for line in changing]


def _put_back(folder: Path) -> None:
    for command in put_back_commands():
        subprocess.run(["bash", "-c", command], cwd=folder, check=True, timeout=60)


def _serve(folder: Path) -> Rows:
    """The rows that a consumer gets from a broker that starts on this data."""
    with running_broker(folder) as broker:
        rows: Rows = json.loads(_client("digests", broker.bootstrap, TOPIC))
        return rows


def compare(scratch: Path, mebibytes: int) -> Outcome:
    first, damaged, mended = (scratch / name for name in ("first", "damaged", "mended"))
    first.mkdir()
    with running_broker(first) as broker:
        _client("fill", broker.bootstrap, TOPIC, str(mebibytes))
        written = json.loads(_client("digests", broker.bootstrap, TOPIC))
    partition = f"{TOPIC}-0"
    (log,) = (first / "data" / partition).glob("*.log")
    position = log.stat().st_size // 2 // PAGE * PAGE
    batches = kafkalog.open(log).read("batches", ["position", "size", "base_offset", "last_offset"]).read_all().to_pylist()
    touched = [
        (each["base_offset"], each["last_offset"])
        for each in batches
        if each["position"] < position + PAGE and position < each["position"] + each["size"]
    ]
    with log.open("r+b") as file:
        file.seek(position)
        file.write(bytes(PAGE))
    shutil.copytree(first, damaged)
    shutil.copytree(first, mended)
    _forget_the_shutdown(damaged)
    (result,) = salvage_partitions([first / "data" / partition], mended / "rescued")
    _put_back(mended)
    return Outcome(written, touched, len(batches), log.stat().st_size, result, _serve(damaged), _serve(mended))


def main(arguments: list[str]) -> int:
    problem = resolve_jars()
    if problem is not None:
        sys.stderr.write(problem + "\n")
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        found = compare(Path(scratch), int(arguments[0]) if arguments else DEFAULT_MEBIBYTES)
    result = found.salvage
    lines = [
        f"segment: {found.segment_bytes} bytes, {found.batch_count} batches, {len(found.written)} records; {PAGE} bytes zeroed",
        f"batches touched by the page: {len(found.touched)}",
        f"salvage keeps: {result.kept_batches} batches, {result.kept_records} records",
        f"a broker started on it keeps: {len(found.kept_by_broker)} records",
        f"a broker serves from the salvaged partition: {len(found.served_from_salvaged)} records",
        f"exactly the records of all untouched batches: {found.served_from_salvaged == found.untouched}",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return int(found.served_from_salvaged != found.untouched)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
