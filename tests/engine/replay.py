"""Replay scripts that ran on Kafka's own log engine on ours, and compare every result and every file.

    python tests/engine/replay.py FOLDER [--only CASE ...] [-v] [-j PROCESSES] [--keep FOLDER] [--strict]

FOLDER holds one folder per case, or is one: `script.jsonl`, `results.jsonl` and `data/`, the log directory as the script left it.
Prints the first difference of each case and ends with `N scripts, S same, D different`; exit status 1 if any differ.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.engine.comparison import Difference, compare_results, compare_trees, is_safer
from tests.engine.driver import Driver


class Replay(NamedTuple):
    """How a case went; `difference` is None if all was the same."""

    case: str
    kind: str
    difference: Difference | None
    safer: int  # results where Kafka fails by accident, and ours does not


def find_cases(folder: Path) -> list[Path]:
    """The folders of the cases in `folder`, or itself."""
    if (folder / "script.jsonl").exists():
        return [folder]
    return sorted(path.parent for path in folder.glob("*/script.jsonl"))


def replay(case: Path, keep: Path | None = None, *, strict: bool = False) -> Replay:
    """Run the script of a case in a folder of its own."""
    operations = [json.loads(line) for line in (case / "script.jsonl").read_text().splitlines()]
    expected = [json.loads(line) for line in (case / "results.jsonl").read_text().splitlines()]
    recompressed = bool(operations[0].get("may_recompress")) and not strict
    with _working_folder(case.name, keep) as base:
        driver = Driver(base)
        difference = None
        found = []
        safer = 0
        try:
            for line, operation in enumerate(operations, 1):
                result = driver.run(operation)
                found.append(result)
                safer += is_safer(expected[line - 1], result)
                difference = difference or compare_results(line, expected[line - 1], result, recompressed=recompressed)
                if difference is not None and keep is None:
                    break
        except Exception as error:  # a fault of ours must not hide the other cases
            place = traceback.extract_tb(error.__traceback__)[-1]
            fault = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
            difference = difference or Difference(f"line {len(found) + 1} ({operation['op']})", expected[len(found)], fault)
        finally:
            driver.abandon()
        if keep is not None:
            (base / "results.jsonl").write_text("".join(json.dumps(result) + "\n" for result in found))
        if difference is None:
            difference = compare_trees(case / "data", base / "data", recompressed=recompressed)
    return Replay(case.name, operations[0].get("kind", ""), difference, safer)


@contextmanager
def _working_folder(name: str, keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="engine-") as folder:
            yield Path(folder)
    else:
        shutil.rmtree(keep / name, ignore_errors=True)
        (keep / name).mkdir(parents=True)
        yield keep / name


def replay_all(cases: list[Path], processes: int, keep: Path | None = None, *, strict: bool = False) -> Iterator[Replay]:
    """Replay cases, in their order."""
    one = partial(replay, keep=keep, strict=strict)
    if processes == 1:
        yield from map(one, cases)
    else:
        with ProcessPoolExecutor(processes) as pool:
            yield from pool.map(one, cases)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", default=[], metavar="CASE", help="names of cases, kinds, or numbers")
    parser.add_argument("-v", "--verbose", action="store_true", help="also report which are the same, and how many of each kind")
    parser.add_argument("-j", "--processes", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="run every script to its end and leave results and files there")
    parser.add_argument("--strict", action="store_true", help="hold us to the bytes of recompressed records too")
    return parser.parse_args()


def _is_asked(case: Path, only: list[str]) -> bool:
    if not only or case.name in only or case.name.lstrip("case-0") in only:
        return True
    return json.loads((case / "script.jsonl").open().readline()).get("kind") in only


def main() -> int:
    arguments = _arguments()
    cases = [case for case in find_cases(arguments.folder) if _is_asked(case, arguments.only)]
    same: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    safer = 0
    for done in replay_all(cases, arguments.processes, arguments.keep, strict=arguments.strict):
        kinds[done.kind] += 1
        same[done.kind] += done.difference is None
        safer += done.safer
        if done.difference is not None:
            print(f"{done.case} ({done.kind}): {done.difference}")
        elif arguments.verbose:
            print(f"{done.case} ({done.kind}): same")
    if arguments.verbose:
        print(", ".join(f"{kind} {same[kind]}/{count}" for kind, count in sorted(kinds.items())))
    if safer:
        print(f"{safer} results where Kafka failed by accident and ours refused on purpose (docs/engine.md)")
    total = sum(same.values())
    print(f"{len(cases)} scripts, {total} same, {len(cases) - total} different")
    return int(not cases or total < len(cases))


if __name__ == "__main__":
    sys.exit(main())
