"""Commands of kafkalog as prose names them: in fenced blocks, in indented ones and between backticks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.tidy.source import ROOT
from tools.recipes import read_commands

README = ROOT / "README.md"
FENCED = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^(?: {4}|\t).*\n|^\n(?= {4}))+", re.MULTILINE)
INLINE = re.compile(r"`([^`]+)`")
CALL = re.compile(r"(?<!from )\bkafkalog (?P<command>cluster (?:rebuild|move)|[a-z]+)\b(?P<rest>[^|;&<>\n]*)")
REMARK = re.compile(r"(?:^|\s)#\s.*$", re.MULTILINE)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


@dataclass(frozen=True)
class Call:
    """`kafkalog COMMAND … --option …` somewhere in a page."""

    where: str
    command: str
    options: tuple[str, ...]


def prose_pages() -> list[Path]:
    """Every page for readers; docs/cli.md is the parser's own text."""
    return [README, ROOT / "CONTRIBUTING.md", *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.name != "cli.md")]


def calls(text: str, where: str = "") -> Iterator[Call]:
    for code in code_of(text):
        for call in CALL.finditer(REMARK.sub("", code.replace("\\\n", " "))):
            yield Call(where, call["command"], tuple(OPTION.findall(call["rest"])))


def code_of(text: str) -> Iterator[str]:
    """What is set as code; between backticks a line may end."""
    rest = FENCED.sub("\n", text)
    for kind, block in FENCED.findall(text):
        commands = read_commands(block) if kind == "console" else []
        yield "\n".join(command.line for command in commands) if commands else block
    for block in INDENTED.findall(rest):
        yield block
    for span in INLINE.findall(INDENTED.sub("\n", rest)):
        yield span.replace("\n", " ")
