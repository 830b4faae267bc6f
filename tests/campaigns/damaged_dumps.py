"""`kafkalog dump` against Kafka's own DumpLogSegments on damaged files: python -m tests.campaigns.damaged_dumps [COUNT]

Files of the golden logs are damaged at random (bits, bytes, zeros, cuts, tails, header fields) and both tools are asked. Compared
are standard output, whether the tool died, and, if it did not, standard error. Ends with `N damaged files, D differences`.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kafkalog.errors import KafkaLogError
from kafkalog.tasks.dump import Dump, DumpOptions
from tests.golden import sets
from tests.interop.tools.kafka_tools import DumpTool, resolve_jars

DEFAULT_COUNT = 3000
LARGEST = 300_000
SIBLINGS = ("log", "index", "timeindex")
# Positions of the size, magic and attributes of an entry.
TELLING = (8, 9, 10, 11, 16, 17, 22, 23)
OPTIONS = {
    "log": ("", "--deep-iteration", "--print-data-log", "--print-data-log\t--skip-record-metadata"),
    "index": ("", "--verify-index-only", "--index-sanity-check"),
    "timeindex": ("", "--verify-index-only", "--index-sanity-check"),
    "txnindex": ("",),
    "snapshot": ("",),
}
OUT_OF_MEMORY = "OutOfMemoryError"  # the outcome of a lying size there says nothing


@dataclass(frozen=True)
class Case:
    """A file to dump, damaged, with the other files of its segment."""

    files: dict[str, bytes]
    name: str
    options: tuple[str, ...]


def golden_files(folder: Path, eras: list[str]) -> list[Path]:
    """The files that can be damaged, small enough to be dumped in a moment."""
    for era in eras:
        sets.unpack(era, folder)
    found = [path for era in eras for path in sorted((folder / era).rglob("0*")) if path.suffix[1:] in OPTIONS]
    return [path for path in found if 0 < path.stat().st_size < LARGEST]


def cases(source: random.Random, files: list[Path]) -> Iterator[Case]:
    """Damaged files without end, logs more often than the others."""
    kinds = ["log"] * 4 + list(OPTIONS)
    while True:
        kind = source.choice(kinds)
        path = source.choice([path for path in files if path.suffix == f".{kind}"])
        siblings = {f"{path.stem}.{other}": path.with_suffix(f".{other}") for other in SIBLINGS}
        contents = {name: sibling.read_bytes() for name, sibling in siblings.items() if sibling.exists()}
        victim = f"{path.stem}.log" if kind.endswith("index") and source.random() < 0.3 else path.name
        contents[path.name] = path.read_bytes()
        contents[victim] = damage(source, contents.get(victim) or b"\0")
        yield Case(contents, path.name, tuple(filter(None, source.choice(OPTIONS[kind]).split("\t"))))


def damage(source: random.Random, data: bytes) -> bytes:
    damaged = bytearray(data)
    position = source.randrange(len(damaged))
    match source.randrange(7):
        case 0:
            damaged[position] ^= 1 << source.randrange(8)
        case 1:
            del damaged[position:]
        case 2:
            damaged[position % 200] = source.choice([0, 1, 2, 3, 127, 128, 255])
        case 3:
            damaged[position : position + 40] = bytes(len(damaged[position : position + 40]))
        case 4:
            damaged += source.randbytes(source.randrange(1, 80))
        case 5:
            damaged += bytes(source.randrange(1, 40))
        case 6 if len(damaged) > max(TELLING):
            damaged[source.choice(TELLING)] = source.randrange(256)
    return bytes(damaged)


def compare(case: Case, tool: DumpTool, folder: Path) -> str | None:
    """The difference between the two dumps; None if there is none."""
    for name, content in case.files.items():
        (folder / name).write_bytes(content)
    path = folder / case.name
    try:
        stdout, stderr, death = _ours(path, case.options)  # first: Kafka's tool cuts index files to whole entries
        theirs = tool.dump("--files", str(path), *case.options)
    finally:
        for name in case.files:
            (folder / name).unlink()
    if OUT_OF_MEMORY in theirs.death:
        return None
    label = f"{case.name} {' '.join(case.options)}"
    if stdout != theirs.stdout:
        row = next((row for row, pair in enumerate(zip(stdout, theirs.stdout, strict=False)) if pair[0] != pair[1]), -100)
        around = slice(row - 40, row + 80)
        return f"{label}: output: Kafka {theirs.stdout[around]!r}, ours {stdout[around]!r}; {theirs.death}"
    if bool(death) != bool(theirs.death):
        return f"{label}: Kafka died of {theirs.death!r}, ours of {death!r}"
    if not death and stderr != theirs.stderr:
        return f"{label}: complaints: Kafka {theirs.stderr[-300:]!r}, ours {stderr[-300:]!r}"
    return None


def _ours(path: Path, options: tuple[str, ...]) -> tuple[bytes, bytes, str]:
    chosen = DumpOptions(**{option.removeprefix("--").replace("-", "_"): True for option in options})  # type: ignore[arg-type]
    dump = Dump([str(path)], chosen)
    parts: list[bytes] = []
    try:
        for chunk in dump.chunks():
            parts.append(bytes(chunk))
    except KafkaLogError as error:
        return b"".join(parts), b"", str(error)
    return b"".join(parts), "".join(f"{line}\n" for line in [*dump.warnings, *dump.findings.lines()]).encode(), ""


def run(count: int, seed: int, eras: list[str], golden: Path) -> list[str]:
    """The differences found in so many damaged files."""
    files = golden_files(golden, eras)
    endless = cases(random.Random(seed), files)
    with DumpTool() as tool, tempfile.TemporaryDirectory() as folder:
        found = [compare(next(endless), tool, Path(folder)) for _ in range(count)]
    return [difference for difference in found if difference is not None]


def main(arguments: list[str]) -> int:
    problem = resolve_jars()
    if problem is not None:
        sys.stderr.write(f"{problem}\n")
        return 1
    count = int(arguments[0]) if arguments else DEFAULT_COUNT
    with tempfile.TemporaryDirectory() as golden:
        differences = run(count, random.randrange(1 << 30), sets.eras(), Path(golden))
    sys.stdout.write("".join(f"{difference}\n" for difference in differences))
    sys.stdout.write(f"{count} damaged files, {len(differences)} differences\n")
    return int(bool(differences))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
