"""Compare `kafkalog dump` with what Kafka's own DumpLogSegments said of golden log directories, line for line.

    python tests/golden/compare_dump.py FOLDER

FOLDER holds log directories `<era>/` next to `<era>-expected/`. Compared are the eras whose tool writes the lines that we write:
4.3.0, and 0.8 with `--style 0.8`; standard output byte for byte, standard error with the folder cut off its paths. Prints each
difference and ends with `N files, L lines, D differences`; exit status 1 if there are any.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kafkalog.errors import KafkaLogError
from kafkalog.tasks.dump import Dump, DumpOptions
from kafkalog.tasks.dump.contents import DECODERS

EXPECTED_SUFFIX = "-expected"
STYLES = {"4.3.0": "4.3", "0.8.2.2": "0.8"}
INDEXES = ("index", "timeindex", "txnindex", "snapshot")
DIED = b"["  # how the line about an uncaught exception begins
ALL_RECORDS = DumpOptions(print_data_log=True, deep_iteration=True)


@dataclass(frozen=True)
class Recording:
    """The tool's output for some files, each by itself, one after the other."""

    files: list[Path]
    options: DumpOptions
    stdout: bytes
    stderr: bytes


@dataclass
class Tally:
    files: int = 0
    lines: int = 0
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.files} files, {self.lines} lines, {len(self.differences)} differences"


def eras(folder: Path) -> list[str]:
    """The log directories of FOLDER that can be compared."""
    names = sorted(path.name.removesuffix(EXPECTED_SUFFIX) for path in folder.glob(f"*{EXPECTED_SUFFIX}"))
    return [name for name in names if compares(name)]


def compares(era: str) -> bool:
    """Whether the tool of that era writes the lines that we write."""
    return _style(era) is not None


def _style(era: str) -> str | None:
    return STYLES.get(era.partition("-")[0])


def recordings(folder: Path, era: str) -> Iterator[Recording]:
    """Everything that was recorded of one log directory."""
    expected, logs = folder / f"{era}{EXPECTED_SUFFIX}", folder / era
    for path in sorted(expected.rglob("*.dump*.txt")):
        if path.name.endswith(".stderr.txt"):
            continue
        place = logs / path.parent.relative_to(expected)
        name, _, rest = path.name.partition(".dump")
        options = _options(place.name, rest.removesuffix(".txt").removeprefix("-"), _style(era) or "")
        complaints = path.with_name(path.name.replace(".txt", ".stderr.txt"))
        if name.endswith(".indexes"):
            stem = name.removesuffix(".indexes")
            files = [file for kind in INDEXES if (file := place / f"{stem}.{kind}").exists()]
        else:
            files = [place / name]
        yield Recording(files, options, path.read_bytes(), complaints.read_bytes() if complaints.exists() else b"")


def _options(folder: str, decoder: str, style: str) -> DumpOptions:
    """How a recording was made: with everything, but KRaft's metadata without contents unless a decoder was given."""
    options = replace(ALL_RECORDS, style=style)
    if decoder:
        return replace(options, contents=DECODERS[decoder])
    return replace(options, print_data_log=False) if folder.startswith("__cluster_metadata") else options


def compare_recording(recording: Recording, log_directory: Path, tally: Tally) -> None:
    """Add the differences between a recording and our own dump of the same files to the tally."""
    out, complaints = b"", []
    for file in recording.files:
        text, told, died = _dump(file, log_directory, recording.options)
        out += text
        if died:
            told = [line for line in told if not line.startswith(b"##")] + [DIED]
        if told:
            complaints += ([b"## " + file.name.encode()] if ".index" in str(recording.files) else []) + told
    tally.files += len(recording.files)
    tally.lines += recording.stdout.count(b"\n")
    label = f"{log_directory.name}/{recording.files[0].parent.name}/{recording.files[0].name}"
    _compare_lines(f"{label} stdout", recording.stdout, out, tally)
    _compare_lines(f"{label} stderr", _without_messages(recording.stderr), b"\n".join([*complaints, b""]), tally)


def _dump(file: Path, log_directory: Path, options: DumpOptions) -> tuple[bytes, list[bytes], bool]:
    """(text, lines about mismatches, whether it ended with an error) of our dump of one file."""
    dump = Dump([str(file)], options)
    shown, real = str(file.relative_to(log_directory)).encode(), str(file).encode()
    parts = []
    try:
        for chunk in dump.chunks():
            parts.append(bytes(chunk))
    except KafkaLogError:
        return b"".join(parts).replace(real, shown), [], True
    told = [line.encode().replace(real, shown) for line in [*dump.warnings, *dump.findings.lines()]]
    return b"".join(parts).replace(real, shown), told, False


def _without_messages(stderr: bytes) -> bytes:
    """Of the line about an uncaught exception only that there was one: the text is ours to choose."""
    lines = stderr.splitlines()
    kept = [DIED if line.startswith(DIED) else line for line in lines if line != b"]"]
    return b"\n".join([*kept, b""])


def _compare_lines(label: str, expected: bytes, found: bytes, tally: Tally) -> None:
    if expected == found:
        return
    theirs, ours = expected.split(b"\n"), found.split(b"\n")
    for number, (one, other) in enumerate(zip(theirs, ours, strict=False), 1):
        if one != other:
            tally.differences.append(f"{label} line {number}: expected {one[:300]!r}, found {other[:300]!r}")
    if len(theirs) != len(ours):
        tally.differences.append(f"{label}: expected {len(theirs) - 1} lines, found {len(ours) - 1}")


def compare_era(folder: Path, era: str) -> Tally:
    tally = Tally()
    for recording in recordings(folder, era):
        compare_recording(recording, folder / era, tally)
    return tally


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write(f"usage: python {sys.argv[0]} FOLDER\n")
        return 2
    folder = Path(arguments[0]).resolve()
    total = Tally()
    for era in eras(folder):
        tally = compare_era(folder, era)
        sys.stdout.write("".join(f"{difference}\n" for difference in tally.differences) + f"{era}: {tally}\n")
        total.files += tally.files
        total.lines += tally.lines
        total.differences += tally.differences
    sys.stdout.write(f"{total}\n")
    return int(bool(total.differences))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
