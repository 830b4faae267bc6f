"""The project's own files as the tidy tests see them: parsed modules, imports, tracked text."""

from __future__ import annotations

import ast
import functools
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "kafkalog"
SKIPPED_FOLDERS = {".git", ".venv", "__pycache__", "build", "dist", "target"}
SKIPPED_FOLDERS |= {".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}


@dataclass(frozen=True)
class Module:
    """One Python file, parsed."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def where(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def dotted(self) -> str:
        """Its dotted name below the package, "" for the package itself: format/batch.py is "format.batch"."""
        parts = list(self.path.relative_to(PACKAGE).with_suffix("").parts)
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def layer(self) -> str:
        """The first part of its dotted name: the layer, or a module at the top."""
        return self.dotted.partition(".")[0]

    def at(self, node: ast.AST) -> str:
        return f"{self.where}:{getattr(node, 'lineno', 0)}"


@functools.cache
def modules(*folders: str) -> tuple[Module, ...]:
    """Every Python file below the folders (relative to the project), parsed."""
    everything = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    found = [path for path in everything if not SKIPPED_FOLDERS & set(path.relative_to(ROOT).parts)]
    return tuple(Module(path, text := path.read_text(encoding="utf-8"), ast.parse(text, str(path))) for path in found)


def package() -> tuple[Module, ...]:
    return modules("src/kafkalog")


def imported_names(module: Module) -> Iterator[tuple[ast.stmt, str]]:
    """Each import statement with the absolute dotted name it asks for; `from a import b` asks for a.b."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name
        elif isinstance(node, ast.ImportFrom):
            origin = _origin(module, node)
            for alias in node.names:
                yield node, f"{origin}.{alias.name}"


def _origin(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.path.relative_to(PACKAGE.parent).with_suffix("").parts
    above = parts[: len(parts) - node.level]
    return ".".join([*above, *([node.module] if node.module else [])])


@functools.cache
def tracked_texts() -> tuple[tuple[str, str], ...]:
    """(name, text) of every text file that belongs to the project: what Git knows or would add, else all files there are."""
    texts = []
    for name in tracked_names():
        try:
            texts.append((name, (ROOT / name).read_text(encoding="utf-8")))
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
    return tuple(texts)


def tracked_names() -> list[str]:
    if (ROOT / ".git").exists():
        # A checkout that belongs to another user is listed too.
        git = ["git", "-c", "safe.directory=*", "-C", str(ROOT)]
        command = [*git, "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        listing = subprocess.run(command, capture_output=True, timeout=60, check=True).stdout
        return sorted(name for name in listing.decode().split("\0") if name)
    files = [path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file()]
    return sorted(path.as_posix() for path in files if not SKIPPED_FOLDERS & set(path.parts))
