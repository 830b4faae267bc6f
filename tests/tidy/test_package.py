"""The package from outside: the modules an import loads, its exports, its version."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import pytest

import kafkalog
from kafkalog.cli.main import kafkalog as kafkalog_command
from tests.builders.small_logs import made_batch, write_segment
from tests.tidy.source import PACKAGE, ROOT, imported_names, package

HEAVY = ("numba", "llvmlite", "pyarrow", "numpy", "pyspark", "pandas", "jinja2")
COMMAND = """
import contextlib
from kafkalog.cli.main import main
with contextlib.suppress(SystemExit):
    main({})
"""


def loaded_modules(statement: str) -> list[str]:
    """The heavy libraries in memory after `statement` in a fresh Python."""
    program = f"{statement}\nimport sys, json\nsys.stdout.write(json.dumps(sorted(set(m.split('.')[0] for m in sys.modules))))"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    return [name for name in json.loads(child.stdout.splitlines()[-1]) if name in HEAVY]


@pytest.mark.parametrize(
    "statement",
    [
        "import kafkalog",
        "import kafkalog; dir(kafkalog); kafkalog.__version__",
        "from kafkalog.errors import KafkaLogError",
        COMMAND.format(["--help"]),
        COMMAND.format(["--version"]),
        COMMAND.format(["table", "--help"]),
        COMMAND.format(["explain", "--help"]),
        COMMAND.format(["estimate", "--help"]),
        COMMAND.format(["ls", "--help"]),
        COMMAND.format(["ingest", "--help"]),
        COMMAND.format(["dump", "--help"]),
        COMMAND.format(["cat", "--help"]),
        COMMAND.format(["transactions", "--help"]),
        "import kafkalog.payloads.internal_topics",
        COMMAND.format(["salvage", "--help"]),
        COMMAND.format(["reindex", "--help"]),
        COMMAND.format(["append", "--help"]),
        COMMAND.format(["convert", "--help"]),
        COMMAND.format(["compact", "--help"]),
    ],
)
def test_importing_and_asking_for_help_loads_nothing_heavy(statement: str) -> None:
    assert loaded_modules(statement) == []


@pytest.mark.parametrize(
    "command",
    [
        ["cat", "--tail", "1"],
        ["cat", "--key", "key-1"],
        ["table", "batches"],
        ["convert", "--out", "new", "--codec", "gzip"],
        ["verify", "--fail-on", "error"],
    ],
    ids=" ".join,
)
def test_commands_load_no_pandas_where_it_is_installed(command: list[str], tmp_path: Path) -> None:
    """It takes half a second, and a Ctrl-C in that time was lost."""
    write_segment(tmp_path / "orders-0", 0, made_batch(0))
    program = (
        f"import sys; sys.argv = ['kafkalog', *{command!r}, 'orders-0']\n"
        "from kafkalog.cli.entry import run\n"
        "assert run() == 0\n"
        "print([name for name, module in sys.modules.items() if name.startswith('pandas') and module is not None])"
    )
    child = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert (child.returncode, child.stdout.splitlines()[-1:]) == (0, ["[]"]), child.stderr


def test_everything_exported_is_there_and_nothing_else_is_public() -> None:
    exported = kafkalog.__all__
    assert isinstance(exported, list | tuple)
    assert len(set(exported)) == len(exported)
    assert [name for name in exported if not hasattr(kafkalog, name)] == []
    public = {name for name, value in vars(kafkalog).items() if not name.startswith("_") and not isinstance(value, ModuleType)}
    assert public - set(exported) - {"annotations", "TYPE_CHECKING"} == set()


def test_the_export_list_is_written_out_flat() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    lists = [node.value for node in tree.body if isinstance(node, ast.Assign) and _names(node.targets) == ["__all__"]]
    assert len(lists) == 1
    assert isinstance(lists[0], ast.List | ast.Tuple)
    assert all(isinstance(element, ast.Constant) and isinstance(element.value, str) for element in lists[0].elts)
    assert not any(alias.name == "*" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names)


def _names(targets: Iterable[ast.expr]) -> list[str]:
    return [target.id for target in targets if isinstance(target, ast.Name)]


def test_the_version_has_one_source() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in settings["project"]
    assert settings["tool"]["hatch"]["version"]["path"] == "src/kafkalog/__init__.py"
    literal = f'"{kafkalog.__version__}"'
    assert [path for path in PACKAGE.rglob("*.py") if literal in path.read_text(encoding="utf-8")] == [PACKAGE / "__init__.py"]


def test_every_constraint_is_an_exact_version_and_covers_the_dependencies() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines}
    assert [line for line in lines if line.count("==") != 1 or "@" in line or "/" in line] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(wish for name in ("test", "lint", "docs", "spark", "jre") for wish in extras[name])]
    names = {wish.partition(";")[0].partition(">")[0].partition("<")[0].partition("[")[0].strip().lower() for wish in wanted}
    assert names - pinned == set()


def test_arguments_and_help_import_the_work_of_a_command_only_when_it_runs() -> None:
    modules = [module for module in package() if module.dotted.startswith("cli.commands")]
    assert len(modules) > len(kafkalog_command.commands)
    wrong = []
    for module in modules:
        first = {node for node in module.tree.body if isinstance(node, ast.Import | ast.ImportFrom)}
        wrong += [
            module.at(node) for node, name in imported_names(module) if node in first and name.startswith("kafkalog.cli.run")
        ]
    assert wrong == []


# The work of these is a single call in one frame: plan, ask, carry out, report. A file of its own for each would hide that.
SAME_FRAME = {"compact": "changes", "recover": "changes", "retain": "changes", "truncate": "changes"}


@pytest.mark.parametrize("half", ["commands", "run"])
def test_every_command_has_one_module_in_each_half(half: str) -> None:
    modules = {module.dotted.removeprefix(f"cli.{half}.") for module in package() if module.dotted.startswith(f"cli.{half}.")}
    shared = SAME_FRAME if half == "run" else {}
    assert {shared.get(name, name.replace(" ", "_")) for name in kafkalog_command.commands} - modules == set()
    assert set(shared) & modules == set()


def test_every_command_imports_the_module_that_does_its_work_and_no_other() -> None:
    modules = {module.dotted: module for module in package()}
    for name in (name.replace(" ", "_") for name in kafkalog_command.commands):
        works = {found for _, found in imported_names(modules[f"cli.commands.{name}"]) if found.startswith("kafkalog.cli.run")}
        assert {found.split(".")[3] for found in works} == {SAME_FRAME.get(name, name)}
