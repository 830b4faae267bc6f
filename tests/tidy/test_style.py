"""The rules of style that a program can check: sizes, words, prints, notes for later, unsafe calls, one home for Numba."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

import pytest

from kafkalog.errors import REASONS
from tests.tidy.source import ROOT, Module, imported_names, modules, package

MODULE_LINES = 600
FUNCTION_LINES = 80
ABBREVIATIONS = {"pid", "buf", "msg", "hdr", "lod"}
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "impl", "misc"}
GIVEN_NAMES = {"_impl_class"}  # Numba looks for it
LATER = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK")) + r")\b(?!\s*\(?#\d+)")
MAY_PRINT = ("cli",)
MAY_WRITE_TO_STDERR = {"src/kafkalog/kernels/cache.py"}
UNSAFE_MODULES = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml"}
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__"}


def all_code() -> tuple[Module, ...]:
    return modules("src/kafkalog", "tests", "benchmarks", "tools")


def product_code() -> tuple[Module, ...]:
    return modules("src/kafkalog", "benchmarks", "tools")


def functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_no_module_is_longer_than_600_lines() -> None:
    assert {module.where: lines for module in all_code() if (lines := len(module.text.splitlines())) > MODULE_LINES} == {}


def test_no_function_is_longer_than_80_lines() -> None:
    sizes = {
        f"{module.at(node)} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for module in all_code()
        for node in functions(module)
    }
    assert {where: lines for where, lines in sizes.items() if lines > FUNCTION_LINES} == {}


def test_every_module_says_what_lives_in_it() -> None:
    silent = [module.where for module in all_code() if ast.get_docstring(module.tree) is None and module.tree.body]
    assert silent == []


def defined_names(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Every name that the module itself gives to something."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node, node.name
        elif isinstance(node, ast.arg):
            yield node, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node, node.attr
        elif isinstance(node, ast.alias) and node.asname:
            yield node, node.asname


def words(name: str) -> set[str]:
    return {word.lower() for part in name.split("_") for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", part)}


def test_no_abbreviations_and_no_names_that_say_nothing() -> None:
    banned = ABBREVIATIONS | EMPTY_NAMES
    wrong = []
    for module in product_code():
        ours = [(node, name) for node, name in defined_names(module.tree) if name not in GIVEN_NAMES]
        wrong += [f"{module.at(node)}: {name}" for node, name in ours if words(name) & banned]
        wrong += [module.where] if (words(module.path.stem) | words(module.path.parent.name)) & banned else []
    assert wrong == []


def test_words_are_found_in_snake_case_and_camel_case() -> None:
    assert words("producer_pid") == {"producer", "pid"}
    assert words("LogManager") == {"log", "manager"}
    assert words("MSG_SIZE") == {"msg", "size"}
    assert "pid" not in words("rapid_commonness")


def called(node: ast.Call) -> str:
    return ast.unparse(node.func)


def test_nothing_prints_except_the_command_line() -> None:
    wrong = []
    for module in package():
        if module.layer in MAY_PRINT:
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and called(node) == "print":
                wrong.append(module.at(node))
            stream = isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.stdout", "sys.stderr")
            if stream and module.where not in MAY_WRITE_TO_STDERR:
                wrong.append(module.at(node))
    assert wrong == []


def test_nothing_is_left_for_later_without_an_issue_number() -> None:
    wrong = []
    for module in all_code():
        for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING) and LATER.search(token.string):
                wrong.append(f"{module.where}:{token.start[0]}: {token.string[:80]}")
    assert wrong == []


def test_only_the_fence_imports_numba() -> None:
    compilers = ("numba", "llvmlite")
    users = {module.where for module in package() for _, name in imported_names(module) if name.split(".")[0] in compilers}
    assert users == {"src/kafkalog/kernels/_jit.py"}


def test_no_content_of_a_file_is_ever_executed_or_unpickled() -> None:
    wrong = []
    for module in package():
        wrong += [f"{module.at(node)}: {name}" for node, name in imported_names(module) if name.split(".")[0] in UNSAFE_MODULES]
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and called(node) in UNSAFE_CALLS:
                wrong.append(f"{module.at(node)}: {called(node)}")
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                wrong.append(f"{module.at(node.value)}: allow_pickle")
    assert wrong == []


def test_no_error_is_swallowed_unseen() -> None:
    """`except:` and `except Exception: pass` hide what the fault model promises to report."""
    wrong = []
    for module in package():
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ExceptHandler):
                continue
            broad = node.type is None or ast.unparse(node.type) in ("Exception", "BaseException")
            if node.type is None or (broad and all(isinstance(statement, ast.Pass) for statement in node.body)):
                wrong.append(module.at(node))
    assert wrong == []


def raised_reasons(module: Module) -> Iterator[tuple[ast.AST, str]]:
    """Reason codes written in the source: the first argument of an error that carries one, or a reason= anywhere."""
    carriers = {"SegmentError", "TornTail", "CorruptBatch", "LimitExceeded", "UnsupportedFormat", "SegmentChanged"}
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        if called(node).split(".")[-1] in carriers and node.args and isinstance(node.args[0], ast.Constant):
            yield node, str(node.args[0].value)
        for keyword in node.keywords:
            if keyword.arg == "reason" and isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str):
                yield node, keyword.value.value


def test_every_reason_code_raised_exists() -> None:
    found = [(module.at(node), reason) for module in package() for node, reason in raised_reasons(module)]
    assert [(where, reason) for where, reason in found if reason not in REASONS] == []


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_reason_codes_are_short_words_with_dashes_and_a_meaning(reason: str) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", reason)
    assert REASONS[reason]


def test_the_licence_and_the_type_marker_are_shipped() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert (ROOT / "src" / "kafkalog" / "py.typed").exists()
