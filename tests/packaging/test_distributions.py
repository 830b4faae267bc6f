"""What is released: the wheel and the sdist hold the package, its metadata and nothing else. `make packages` installs them."""

from __future__ import annotations

import email
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import kafkalog
from tests.conftest import require
from tests.tidy.source import ROOT, tracked_names

LARGEST_SDIST = 3_000_000
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NAME = f"kafkalog-{kafkalog.__version__}"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the wheel and the sdist, built as a release is, without a download."""
    require("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(built / f"{NAME}-py3-none-any.whl")


@pytest.fixture(scope="module")
def sdist(built: Path) -> set[str]:
    """The names in the sdist, without its folder."""
    with tarfile.open(built / f"{NAME}.tar.gz") as archive:
        return {member.name.removeprefix(f"{NAME}/") for member in archive.getmembers() if member.isfile()}


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    return email.message_from_string(wheel.read(f"{NAME}.dist-info/METADATA").decode())


def package_files() -> set[str]:
    return {name.removeprefix("src/") for name in tracked_names() if name.startswith("src/") and (ROOT / name).is_file()}


def test_the_wheel_holds_the_package_and_its_metadata_only(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    about = {f"{NAME}.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")}
    assert names == package_files() | about
    assert {"kafkalog/py.typed", "kafkalog/payloads/messages.json", "pyspark_kafkalog/__init__.py"} <= names


def test_the_sdist_holds_what_the_wheel_is_built_from_and_no_test_data(built: Path, sdist: set[str]) -> None:
    around = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "PKG-INFO", ".gitignore"}
    assert sdist == {f"src/{name}" for name in package_files()} | around
    assert (built / f"{NAME}.tar.gz").stat().st_size < LARGEST_SDIST


def test_a_wheel_of_the_sdist_is_the_same_wheel(built: Path, wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    with tarfile.open(built / f"{NAME}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=tmp_path / NAME, check=True, capture_output=True
    )
    with zipfile.ZipFile(tmp_path / NAME / "dist" / f"{NAME}-py3-none-any.whl") as again:
        assert {name: again.read(name) for name in again.namelist()} == {name: wheel.read(name) for name in wheel.namelist()}


def test_the_metadata_says_what_pyproject_says(metadata: Message) -> None:
    assert (metadata["Name"], metadata["Version"]) == ("kafkalog", kafkalog.__version__)
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert set(metadata.get_all("Classifier", [])) == set(PROJECT["classifiers"])
    assert {"Typing :: Typed", "Operating System :: POSIX :: Linux"} <= set(PROJECT["classifiers"])
    assert set(metadata.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])
    plain = {each for each in metadata.get_all("Requires-Dist", []) if "extra ==" not in each}
    assert {each.partition(">")[0] for each in plain} == {each.partition(">")[0] for each in PROJECT["dependencies"]}


def test_the_readme_is_the_description_and_renders(metadata: Message) -> None:
    assert metadata["Description-Content-Type"] == "text/markdown"
    text = metadata.get_payload()
    assert isinstance(text, str)
    assert text.strip() == (ROOT / "README.md").read_text(encoding="utf-8").strip()
    kinds = [token.type for token in MarkdownIt("commonmark", {"html": False}).enable("table").parse(text)]
    assert kinds.count("table_open") == text.count("\n|---")
    assert "html_block" not in kinds


def test_a_release_names_no_host(metadata: Message) -> None:
    """The project has no page yet; an address that leads nowhere is worse than none."""
    assert metadata.get_all("Project-URL", []) == []
    assert metadata["Home-page"] is None
