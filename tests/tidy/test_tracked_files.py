"""Content that no file of the project may have: paths of one machine, package registries, large files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.tidy.source import ROOT, tracked_names, tracked_texts

LARGEST_FILE = 2_000_000
# Written in halves so that this file does not contain what it looks for.
MACHINE_FOLDERS = ("/wo" + "rk/", "/tm" + "p/", "/ro" + "ot/", "/ho" + "me/", "/Us" + "ers/")
REGISTRIES = ("pythonho" + "sted.org", "pypi" + ".org/simple", "repo1.ma" + "ven.org", "repo.ma" + "ven.apache.org")
DOWNLOAD = re.compile(r"https?://[^\s\"'<>]+\.(?:whl|jar|tar\.gz|deb)\b")
HOST = re.compile(r"https?://(?:[^/@\s\"'<>]*@)?([^/:\s\"'<>]+)")
PUBLIC_HOSTS = {"localhost", "127.0.0.1", "maven.apache.org", "www.w3.org"}


def containing(words: list[str]) -> list[str]:
    return [f"{name}: {word}" for name, text in tracked_texts() for word in words if word in text]


def configured_registry_hosts() -> list[str]:
    """The hosts that this machine's own package clients are set up with."""
    pip = [sys.executable, "-m", "pip", "config", "list"]
    settings = subprocess.run(pip, capture_output=True, text=True, timeout=60, check=False).stdout
    for file in (".m2/settings.xml", ".npmrc", ".cargo/config.toml", ".config/pip/pip.conf", ".pip/pip.conf"):
        path = Path.home() / file
        settings += path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return sorted(set(HOST.findall(settings)) - PUBLIC_HOSTS)


def test_no_file_names_a_path_of_one_machine() -> None:
    home = str(Path.home()) + os.sep
    words = {*MACHINE_FOLDERS, str(ROOT), *([home] if len(home) > 2 else [])}
    assert containing(sorted(words)) == []


def test_no_file_names_a_package_registry_or_a_download() -> None:
    assert containing([*REGISTRIES, *configured_registry_hosts()]) == []
    assert [(name, found) for name, text in tracked_texts() for found in DOWNLOAD.findall(text)] == []


def test_no_file_is_large() -> None:
    sizes = {name: (ROOT / name).stat().st_size for name in tracked_names() if (ROOT / name).is_file()}
    assert {name: size for name, size in sizes.items() if size >= LARGEST_FILE} == {}


def test_no_build_output_is_tracked() -> None:
    folders = {"__pycache__", ".venv", "node_modules", "target", "spark-warehouse", "metastore_db"}
    assert [name for name in tracked_names() if folders & set(name.split("/"))] == []
