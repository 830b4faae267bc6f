"""The container file: what it copies is there, it does not run as root, and where there is a Docker it is built and used."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kafkalog.cli.demo.disk import make_disk
from tests.tidy.source import ROOT

LINES = (ROOT / "Containerfile").read_text(encoding="utf-8").splitlines()
INSTRUCTIONS = [tuple(line.split(" ", 1)) for line in LINES if re.match(r"[A-Z]+ ", line)]
IMAGE = "kafkalog-test"


def has_docker() -> bool:
    """Whether there is a Docker whose daemon answers; a build machine may have none."""
    return (
        shutil.which("docker") is not None and not subprocess.run(["docker", "info"], capture_output=True, check=False).returncode
    )


def test_what_is_copied_is_there_and_not_ignored() -> None:
    copied = [words.split()[:-1] for name, words in INSTRUCTIONS if name == "COPY" and "--from" not in words]
    names = {name for each in copied for name in each}
    assert {"src", "pyproject.toml", "README.md"} <= names
    assert [name for name in sorted(names) if not (ROOT / name).exists()] == []
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert ignored[0] == "*"
    assert {f"!{name}" for name in names} == {line for line in ignored if line.startswith("!")}


def test_it_runs_kafkalog_as_a_user_of_its_own() -> None:
    last = [name for name, _ in INSTRUCTIONS].index("USER")
    assert INSTRUCTIONS[last] == ("USER", "kafkalog")
    assert ("RUN", "kafkalog demo") in INSTRUCTIONS[last:]
    assert [words for name, words in INSTRUCTIONS[last + 1 :] if name == "USER"] == []
    (entry,) = (words for name, words in INSTRUCTIONS if name == "ENTRYPOINT")
    assert json.loads(entry) == ["kafkalog"]


@pytest.mark.slow
def test_the_image_is_built_and_verifies_a_disk(tmp_path: Path) -> None:
    if not has_docker():
        pytest.skip("no Docker daemon here")
    make_disk(tmp_path / "disk")
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    subprocess.run(["docker", "build", "--quiet", "-f", "Containerfile", "-t", IMAGE, "."], cwd=ROOT, check=True)
    command = ["docker", "run", "--rm", "-v", f"{tmp_path}/disk:/data:ro", IMAGE, "verify", "."]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "offsets 1800 to 1949" in done.stdout) == (1, True), done
