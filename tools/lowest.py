"""The lowest versions that pyproject.toml allows, as a constraints file for pip: python -m tools.lowest [EXTRA…] > constraints

Only what the package itself needs and the named extras; a requirement without a lower bound is left to pip.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
# A name, perhaps with extras in brackets (which a constraint cannot have), the bounds, perhaps a marker.
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[[\w,.-]*\])?(?P<bounds>[^;]*)(;(?P<marker>.*))?")
LOWEST = re.compile(r">=\s*([\w.]+)")


def lowest_versions(project: Path, extras: Iterable[str]) -> Iterator[str]:
    """`name==version` of every requirement that has a lower bound, with its marker."""
    described = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    optional = described["optional-dependencies"]
    for requirement in [*described["dependencies"], *(each for extra in extras for each in optional[extra])]:
        parts = REQUIREMENT.fullmatch(requirement)
        assert parts is not None, requirement
        bound = LOWEST.search(parts["bounds"])
        if bound is not None:
            yield f"{parts['name']}=={bound[1]}" + (f" ;{parts['marker']}" if parts["marker"] else "")


def main(*extras: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in sorted(set(lowest_versions(PROJECT, extras)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
