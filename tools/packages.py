"""`python -m tools.packages`: builds wheel and sdist, and installs them with pip and pipx in clean environments.

There is one for every Python from 3.11 on that this machine has. Commands run in build/packages, so that only what was installed
is found. Needs a package index. What came of each is printed; the exit code is 1 if one failed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "packages"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
QUIET = ("--quiet", "--disable-pip-version-check")
OUTSIDE = "import kafkalog, pathlib, sys; sys.exit(not pathlib.Path(kafkalog.__file__).is_relative_to(sys.prefix))"
DAMAGE = 1


class Failed(Exception):
    """A command ended with another exit code than expected."""


def run(*command: str | Path, code: int = 0, environment: Mapping[str, str] = MappingProxyType({})) -> str:
    """Run a command in the folder of this work; its output."""
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=WORK, env={**variables, **environment}, capture_output=True, text=True, check=False)
    if done.returncode != code:
        raise Failed(f"{' '.join(words)}: exit code {done.returncode}\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def find_python(version: str) -> str | None:
    """An interpreter of this version: on the PATH, or one of pyenv's."""
    there = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python3"))
    for candidate in (shutil.which(f"python{version}"), *map(str, there)):
        asked = [candidate, "-c", "import sys, ensurepip; print('%d.%d' % sys.version_info[:2])"] if candidate else []
        if asked and subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() == version:
            return candidate
    return None


def new_environment(python: str, name: str) -> Path:
    """The interpreter of a new environment."""
    run(python, "-m", "venv", "--clear", WORK / name)
    return WORK / name / "bin" / "python"


def build() -> tuple[Path, Path]:
    """The wheel and the sdist, made by `python -m build` in an environment of its own, and checked by twine."""
    python = new_environment(sys.executable, "building")
    run(python, "-m", "pip", "install", *QUIET, "build", "twine")
    run(python, "-m", "build", "--outdir", WORK / "dist", ROOT)
    (wheel,), (sdist,) = (WORK / "dist").glob("*.whl"), (WORK / "dist").glob("*.tar.gz")
    run(python, "-m", "twine", "check", "--strict", wheel, sdist)
    return wheel, sdist


def check_command(kafkalog: Path, name: str) -> None:
    """The installed command makes a disk, lists it, and finds what is damaged."""
    disk = WORK / f"{name}-disk"
    run(kafkalog, "--version")
    run(kafkalog, "demo", "--make", disk)
    run(kafkalog, "ls", disk)
    found = run(kafkalog, "verify", disk, code=DAMAGE)
    if "crc" not in found:
        raise Failed(f"{kafkalog} verify found no damage")


def check_pip(python: str, name: str, source: Path) -> None:
    """`pip install SOURCE` in a clean environment."""
    inside = new_environment(python, name)
    run(inside, "-m", "pip", "install", *QUIET, source)
    run(inside, "-c", OUTSIDE)
    run(inside, "-m", "pip", "check")
    check_command(inside.with_name("kafkalog"), name)


def check_pipx(python: str, name: str, source: Path) -> None:
    """`pipx install SOURCE` with a pipx of its own, which touches nothing of the user's."""
    inside = new_environment(python, name)
    run(inside, "-m", "pip", "install", *QUIET, "pipx")
    places = {"PIPX_HOME": str(WORK / f"{name}-home"), "PIPX_BIN_DIR": str(WORK / f"{name}-bin")}
    run(inside, "-m", "pipx", "install", "--quiet", source, environment=places)
    kafkalog = WORK / f"{name}-bin" / "kafkalog"
    check_command(kafkalog, name)
    if "(left out: PySpark is not installed" not in run(kafkalog, "demo"):
        raise Failed("kafkalog demo did not say what it leaves out without PySpark")


def checks() -> Iterator[tuple[str, Callable[[], None]]]:
    """What is to be checked, by name."""
    wheel, sdist = build()
    pythons = {version: found for version in PYTHONS if (found := find_python(version))}
    for version, python in pythons.items():
        yield (
            f"pip install, the wheel, Python {version}",
            partial(check_pip, python, f"wheel-{version}", wheel),
        )
    first, last = next(iter(pythons.values())), list(pythons.values())[-1]
    yield "pip install, the sdist", partial(check_pip, first, "sdist", sdist)
    yield "pip install ., a clone", partial(check_pip, first, "clone", ROOT)
    yield "pipx install, the wheel", partial(check_pipx, last, "pipx", wheel)


def main() -> int:
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    failed = 0
    for name, check in checks():
        begin = time.monotonic()
        try:
            check()
            outcome = "ok"
        except Failed as error:
            failed += 1
            outcome = f"FAILED: {error}"
        print(f"{name}: {outcome} ({time.monotonic() - begin:.0f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
