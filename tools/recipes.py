"""The commands of the recipes and the README, as written: `python -m tools.recipes [PAGE…]` writes their output into the pages.

A block of the kind `console` has commands after `$ `, each followed by its output. A block of the kind `python` is run too; if a
block of the kind `text` comes next, that is what it prints. All blocks of a page run one after the other in one new folder.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, chdir, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = set("|&;<>()$`*?~\\\"'")
# What differs between two runs; lines with any of it are compared without their alignment.
VARYING = [
    (re.compile(r"\b\d+ (?:d|h|min)(?: \d+ (?:h|min|s))?\b"), "AGE"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:ms|s)\b"), "TIME"),
    (re.compile(r"\b\d[\d.,]* (?:records|[KMG]?i?B)/s"), "SPEED"),
    # Of Parquet files, which are as long as the library makes them, and of the report, whose page changes.
    (re.compile(r"[\d.]+ [KMG]?i?B(?=, to \S+\.(?:html|parquet)\b)"), "SIZE"),
    (re.compile(r"(?:(?<=files of )|(?<=file of ))[\d,]+ bytes"), "SIZE"),
]


@dataclass(frozen=True)
class Block:
    """One block of a page: its kind, what is in it, and where that begins in the text of the page."""

    kind: str
    text: str
    start: int

    @property
    def commands(self) -> list[Command]:
        return read_commands(self.text)


@dataclass(frozen=True)
class Command:
    """A command and what it prints, as a page has it."""

    line: str
    output: str

    @property
    def arguments(self) -> list[str] | None:
        """What to pass to kafkalog; None for what needs a shell."""
        if not self.line.startswith("kafkalog ") or SHELL & set(self.line):
            return None
        return self.line.split()[1:]


def read_commands(text: str) -> list[Command]:
    """The commands of a block; a line that ends with a backslash continues with the next."""
    found: list[Command] = []
    is_open = False
    for line in text.splitlines():
        if is_open or line.startswith("$ "):
            shown = found[-1].line + "\n" + line if is_open else line[2:]
            found = [*(found[:-1] if is_open else found), Command(shown, "")]
            is_open = line.endswith("\\")
        elif found:
            found[-1] = replace(found[-1], output=found[-1].output + line + "\n")
    return found


def blocks(page: str) -> list[Block]:
    return [Block(match[1], match[2], match.start(2)) for match in BLOCK.finditer(page)]


def pages() -> list[Path]:
    """The pages whose blocks are run."""
    return [
        ROOT / "README.md",
        DOCS / "quickstart.md",
        *(page for page in sorted((DOCS / "recipes").glob("*.md")) if page.stem != "index"),
    ]


class Failed(Exception):
    """A command of a page ended with an exit code that the page does not show."""


class Reader:
    """Someone who types the commands of a page, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.code = 0
        self.names: dict[str, Any] = {"__name__": "__main__"}

    def type(self, command: Command) -> str:
        """What the command prints; output and errors as they come on a terminal."""
        last = self.code
        with captured(self.folder) as output:
            self.code = self._call(command.arguments) if command.arguments else self._shell(command.line, last)
        return self._shown(output)

    def run_python(self, text: str) -> str:
        with captured(self.folder) as output:
            exec(compile(text, "<page>", "exec"), self.names)
        return self._shown(output)

    def _call(self, arguments: list[str]) -> int:
        from kafkalog.cli.main import main

        return main(arguments)

    def _shell(self, line: str, last: int) -> int:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        script = f"(exit {last})\n{line}\n"
        return subprocess.run(["bash", "-c", script], env={**os.environ, "PATH": path}, check=False, timeout=240).returncode

    def _shown(self, output: bytearray) -> str:
        text = re.sub(r"\x1b\[[0-9;]*m", "", output.decode()).replace(f"{self.folder}/", "").replace(str(self.folder), ".")
        shown = "\n".join(line.rstrip() for line in text.splitlines()).rstrip()
        return shown + "\n" if shown else ""


def line_by_line(descriptor: int) -> IO[str]:
    """A descriptor as Python has it on a terminal, so that output and errors keep their order."""
    return os.fdopen(descriptor, "w", buffering=1, encoding="utf-8", closefd=False)


@contextmanager
def captured(folder: Path) -> Iterator[bytearray]:
    """Everything that this process and its children write meanwhile, in `folder`, to the descriptors 1 and 2."""
    output = bytearray()
    streams = sys.stdout, sys.stderr
    kept = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as file, chdir(folder), setting(FIXED):
        for stream in streams:
            stream.flush()
        try:
            for number in (1, 2):
                os.dup2(file.fileno(), number)
            sys.stdout, sys.stderr = map(line_by_line, (1, 2))
            yield output
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            sys.stdout, sys.stderr = streams
            for number, descriptor in zip((1, 2), kept, strict=True):
                os.dup2(descriptor, number)
                os.close(descriptor)
            file.seek(0)
            output += file.read()


# The same for everyone.
FIXED = {"NO_COLOR": "1", "COLUMNS": "100", "TZ": "UTC", "KAFKALOG_NO_NOTICE": "1", "LC_ALL": "C.UTF-8"}


@contextmanager
def setting(variables: dict[str, str]) -> Iterator[None]:
    """Environment variables for a while."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def renewed(page: str, reader: Reader) -> str:
    """The page with what its commands print now."""
    parts, end = [], 0
    found = blocks(page)
    for block, after in pairwise([*found, Block("", "", len(page))]):
        text = None
        if block.kind == "console":
            text = run_block(block, reader)
        elif block.kind == "python":
            printed = reader.run_python(block.text)
            if follows(page, block, after):
                parts += [page[end : after.start], printed]
                end = after.start + len(after.text)
            elif printed:
                raise Failed(f"the page does not show what this prints:\n{block.text}\n{printed}")
        if text is not None:
            parts += [page[end : block.start], text]
            end = block.start + len(block.text)
    return "".join([*parts, page[end:]])


def follows(page: str, block: Block, after: Block) -> bool:
    """Whether `after` shows what `block` prints: it is text, and nothing is between the two."""
    between = page[block.start + len(block.text) : after.start]
    return after.kind == "text" and between.split() == ["```", "```text"]


def run_block(block: Block, reader: Reader) -> str:
    """The block with new outputs. Exit codes above 1 have to be shown, by `echo $?`."""
    shown = ""
    commands = block.commands
    for command, following in pairwise([*commands, Command("", "")]):
        output = reader.type(command)
        if reader.code > 1 and following.line != "echo $?":
            raise Failed(f"{command.line}: exit code {reader.code}\n{output}")
        shown += f"$ {command.line}\n{output}"
    return shown


def same(expected: str, found: str) -> bool:
    """Whether two texts are the same, except for what differs between any two runs."""
    return expected == found or steady(expected) == steady(found)


def steady(text: str) -> list[str]:
    """The lines without what varies, and then without alignment, which depends on it."""
    plain = text
    for pattern, name in VARYING:
        plain = pattern.sub(name, plain)
    return [re.sub(r"[ ─-]{2,}", " ", line) for line in plain.splitlines()]


@contextmanager
def bucket() -> Iterator[None]:
    """An object store on loopback with the sample disk as s3://backup/broker-1, for commands that name no endpoint."""
    from kafkalog.cli.demo.disk import make_disk
    from tests.s3_server import S3Server

    server = S3Server()
    logins = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    try:
        with tempfile.TemporaryDirectory() as folder, setting({"AWS_ENDPOINT_URL": server.endpoint, **logins}):
            import boto3

            make_disk(folder)
            client = boto3.client("s3")
            client.create_bucket(Bucket="backup")
            for file in Path(folder).rglob("*"):
                if file.is_file():
                    client.upload_file(str(file), "backup", f"broker-1/{file.relative_to(folder)}")
            yield
    finally:
        server.stop()


# What a page needs besides a folder.
AROUND: dict[str, Callable[[], AbstractContextManager[None]]] = {"bucket": bucket}


def nodes(folder: Path) -> None:
    """The disks of three nodes of a real cluster, each with two log directories, as nodes/b1/d1 and so on."""
    from tests.clusters import packed

    with tempfile.TemporaryDirectory() as unpacked:
        whole = packed.unpack(Path(unpacked)) / "three"
        shutil.copytree(whole, folder / "nodes", ignore=shutil.ignore_patterns("expected"))


# What is in the folder of a page before its first command.
PREPARED: dict[str, Callable[[Path], None]] = {"groups": nodes}


def renew(page: Path) -> tuple[str, str]:
    """The page as it is, and with what its commands print now."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, AROUND.get(page.stem, nullcontext)():
        if page.stem in PREPARED:
            PREPARED[page.stem](Path(folder))
        return text, renewed(text, Reader(Path(folder)))


def main(names: list[str]) -> None:
    for page in pages():
        if not names or page.stem in names:
            text, new = renew(page)
            if not same(text, new):
                page.write_text(new, encoding="utf-8")
                sys.stdout.write(f"renewed {page.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
