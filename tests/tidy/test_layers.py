"""The layer table of ARCHITECTURE.md against the imports of the code."""

from __future__ import annotations

import ast
import re

import pytest

from tests.tidy.source import PACKAGE, ROOT, Module, imported_names, package

# The package itself hands out names lazily, and these stand on top of it as the command line does.
TOP_MODULES = {"", "__main__"}
HEAD = re.compile(r"^\|\s*layer\s*\|\s*holds\s*\|\s*may import\s*\|", re.MULTILINE)
PICTURE = re.compile(r"^```flow\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\|\s*`(?P<layer>\w+)`\s*\|(?P<holds>.*)\|(?P<allowed>[^|]*)\|\s*$")


def read_layer_table(text: str) -> dict[str, set[str]]:
    """layer -> the layers it may import, from the rows of the table `| layer | holds | may import |`.

    The third cell names layers; "nothing" and "everything" mean that, "x and below" means x and all that x may import, and
    what follows a semicolon (third-party libraries) does not count.
    """
    allowed: dict[str, set[str]] = {}
    everything: list[str] = []
    head = HEAD.search(text)
    assert head, "no table with the columns layer, holds, may import"
    for line in text[head.end() :].lstrip("\n").splitlines()[1:]:
        row = ROW.match(line)
        if row is None:
            break
        cell = row["allowed"].partition(";")[0].replace("`", "")
        allowed[row["layer"]] = names = set()
        if "everything" in cell:
            everything.append(row["layer"])
            continue
        for name in re.findall(r"\w+", cell.replace("and below", "")):
            if name in allowed:
                names |= {name} | (allowed[name] if f"{name} and below" in cell else set())
            elif name not in ("nothing", "and"):
                raise ValueError(f"the row of {row['layer']} names {name}, which is no layer above it")
    for layer in everything:
        allowed[layer] = set(allowed) - {layer}
    return allowed


@pytest.fixture(scope="module")
def layers() -> dict[str, set[str]]:
    return read_layer_table((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))


def forbidden_imports(module: Module, layers: dict[str, set[str]]) -> list[str]:
    allowed = layers[module.layer] | {module.layer}
    everything = len(allowed) == len(layers)
    wrong = []
    for node, name in imported_names(module):
        parts = name.split(".")
        if parts[0] != "kafkalog" or (everything and (len(parts) == 1 or parts[1] not in layers)):
            continue
        if len(parts) == 1 or parts[1] not in allowed:
            wrong.append(f"{module.at(node)}: {module.layer} imports {name}")
    return wrong


def test_every_import_is_allowed_by_the_layer_table(layers: dict[str, set[str]]) -> None:
    inside = [module for module in package() if module.layer not in TOP_MODULES]
    assert inside
    assert [wrong for module in inside for wrong in forbidden_imports(module, layers)] == []


def test_every_folder_and_module_of_the_package_is_a_layer_of_the_table(layers: dict[str, set[str]]) -> None:
    assert {module.layer for module in package()} - TOP_MODULES - set(layers) == set()


def test_the_table_has_the_layers_of_the_reading_half_in_their_order(layers: dict[str, set[str]]) -> None:
    assert layers["errors"] == set()
    assert layers["format"] == layers["storage"] == {"errors"}
    assert layers["kernels"] == {"format", "errors"}
    assert layers["codecs"] == {"format", "kernels", "errors"}
    assert layers["segment"] == {"format", "codecs", "kernels", "storage", "errors"}
    assert layers["log"] == layers["segment"] | {"segment"}
    assert layers["clusters"] == layers["log"] | {"log", "payloads"}
    assert layers["tables"] == layers["clusters"] | {"clusters"}


def names_in_the_picture(text: str) -> set[str]:
    """The folders and modules that the picture of the flow names: its words, except remarks in parentheses."""
    picture = PICTURE.search(text)
    assert picture, "no picture in a block of the kind flow"
    return set(re.findall(r"[a-z]\w*(?:/\w+)*", re.sub(r"\([^()]*\)", "", picture[1])))


def test_every_name_in_the_picture_is_a_folder_or_module_and_every_layer_is_in_it(layers: dict[str, set[str]]) -> None:
    found = names_in_the_picture((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    assert [name for name in sorted(found) if not ((PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file())] == []
    assert set(layers) - {name.partition("/")[0] for name in found} == set()


def test_names_in_the_picture_are_found_and_remarks_are_not() -> None:
    assert names_in_the_picture("```flow\n(read) storage/fs -> log (order,\n damage)\n```\n") == {"storage/fs", "log"}


def test_an_upward_import_is_found_however_it_is_written() -> None:
    rows = ("| layer | holds | may import |", "|---|---|---|", "| `errors` | x | nothing |", "| `log` | x | errors |")
    layers = read_layer_table("\n".join([*rows, "| `cli` | x | everything |", "", "| `records` | x | no layer |"]))
    assert layers == {"errors": set(), "log": {"errors"}, "cli": {"errors", "log"}}
    for statement in ("import kafkalog", "from kafkalog import cli", "from ..cli import main", "from .. import cli"):
        assert forbidden_imports(_parsed("log/x.py", statement), layers), statement
    for statement in ("from kafkalog.errors import REASONS", "from .. import errors", "from . import y", "import numpy"):
        assert not forbidden_imports(_parsed("log/x.py", statement), layers), statement
    assert not forbidden_imports(_parsed("cli/x.py", "from kafkalog import __version__"), layers)


def _parsed(name: str, text: str) -> Module:
    return Module(PACKAGE / name, text, ast.parse(text))
