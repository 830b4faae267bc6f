"""The packed scripts, run on Kafka's own engine again: python -m tests.engine.oracle.rerun [--write] [cases|fresh|scenarios …]

Ends with how many scripts gave the same results and files as are packed; --write packs the new ones. The scripts of
`scenarios` are written in tests/engine/scenarios, and `python -m tests.engine.scenarios.record` packs changed ones.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.engine.comparison import compare_trees
from tests.engine.oracle.kafka_engine import NoEngine, run_scripts
from tests.engine.replay import find_cases
from tests.golden import sets

DATA = Path(__file__).resolve().parents[1] / "data"
IDENTITY = re.compile(r"(?<=FileChannelImpl)@[0-9a-f]+")
PACKS = ("cases", "fresh", "scenarios")


def rerun(pack: str, scratch: Path) -> tuple[Path, list[str]]:
    """A folder with what Kafka's engine does with the scripts of a pack, and where that is not what is packed."""
    packed = find_cases(sets.unpack(pack, scratch / "packed", DATA) / pack)
    again = scratch / pack
    for case in packed:
        (again / case.name).mkdir(parents=True)
        shutil.copy(case / "script.jsonl", again / case.name)
    run_scripts([again / case.name for case in packed], scratch)
    return again, [f"{pack}/{case.name}: {text}" for case in packed if (text := _difference(case, again / case.name)) is not None]


def _difference(before: Path, after: Path) -> str | None:
    """The difference between two runs of a script: the first line of its results, or a file."""
    pairs = zip(_results(before), _results(after), strict=True)
    for number, (expected, found) in enumerate(pairs, 1):
        if expected != found:
            return f"line {number} of results.jsonl"
    difference = compare_trees(before / "data", after / "data", recompressed=False)
    return None if difference is None else str(difference)


def _results(case: Path) -> list[object]:
    """The results, without the identities of Java's objects that messages show."""
    text = (case / "results.jsonl").read_text(encoding="utf-8")
    return [json.loads(IDENTITY.sub("", line)) for line in text.splitlines()]


def write_pack(folder: Path, pack: str) -> None:
    """Pack the case folders below `folder`: the same bytes for the same content."""
    with tarfile.open(DATA / f"{pack}.tar.xz", "w:xz", preset=9) as target:
        for path in sorted(folder.rglob("*")):
            target.add(path, f"{pack}/{path.relative_to(folder).as_posix()}", recursive=False, filter=_without_owner)


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def main(arguments: Sequence[str]) -> int:
    names = [each for each in arguments if each != "--write"] or list(PACKS)
    if not set(names) <= set(PACKS):
        sys.stderr.write(f"{__doc__}")
        return 2
    different = 0
    for pack in names:
        with tempfile.TemporaryDirectory() as place:
            try:
                folder, differences = rerun(pack, Path(place))
            except NoEngine as error:
                sys.stderr.write(f"{error}\n")
                return 1
            if "--write" in arguments:
                write_pack(folder, pack)
            count = len(find_cases(folder))
        different += len(differences)
        sys.stdout.write("".join(f"{difference}\n" for difference in differences))
        sys.stdout.write(f"{pack}: {count} scripts, {count - len(differences)} the same, {len(differences)} different\n")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
