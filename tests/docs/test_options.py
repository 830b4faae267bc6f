"""The docs and the parser agree: what a page names exists, and what exists is on a page."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from kafkalog.cli.main import kafkalog
from tests.docs.commands import OPTION, Call, calls, code_of, prose_pages
from tests.tidy.source import ROOT

COMMANDS = kafkalog.commands
OF_ALL = {"--help", "--version", "--verbose"}
FOREIGN = {"--only", "--user"}  # of our campaigns, of containers
# Pages about programs of maintainers.
WITHOUT_COMMANDS = ("CONTRIBUTING", "benchmarks", "benchmarks-clients", "benchmarks-planning", "benchmarks-spark", "testing")


def options_of(command: click.Command) -> set[str]:
    own = {name for option in command.params for name in (*option.opts, *option.secondary_opts) if name.startswith("--")}
    return own.union(*map(options_of, getattr(command, "verbs", {}).values()))


def unknown(call: Call) -> list[str]:
    """What the parser would refuse in a command of a page."""
    if call.command not in COMMANDS:
        return [f"kafkalog {call.command}"]
    known = options_of(COMMANDS[call.command]) | OF_ALL
    return [f"kafkalog {call.command} {option}" for option in call.options if option not in known]


@pytest.mark.parametrize("page", prose_pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_names_only_commands_and_options_that_exist(page: Path) -> None:
    assert [wrong for call in calls(page.read_text(encoding="utf-8")) for wrong in unknown(call)] == []


def test_an_option_that_stands_alone_belongs_to_some_command() -> None:
    known = FOREIGN | OF_ALL | {name for command in COMMANDS.values() for name in options_of(command)}
    wrong = [
        (page.name, option)
        for page in prose_pages()
        if page.stem not in WITHOUT_COMMANDS
        for code in code_of(page.read_text(encoding="utf-8"))
        if code.startswith("--")
        for option in OPTION.findall(code)
        if option not in known
    ]
    assert wrong == []


def test_every_option_of_every_command_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for name, command in COMMANDS.items():
        if command.hidden:
            continue
        section = page.partition(f"\n## kafkalog {name}\n")[2].partition("\n## ")[0]
        verbs = getattr(command, "verbs", {})
        section += "".join(page.partition(f"\n## kafkalog {name} {verb}\n")[2].partition("\n## ")[0] for verb in verbs)
        hidden = {name for option in command.params if getattr(option, "hidden", False) for name in option.opts}
        assert [option for option in options_of(command) - hidden if option not in section] == [], name


PAGE = """Say `kafkalog ls
--wrong` or

    $ kafkalog cat X \\
        --bad 3 | kafkalog table --odd   # kafkalog does it

```console
$ kafkalog verify X --ill
kafkalog ls --output
```
"""


def test_options_are_found_wherever_they_are_written() -> None:
    found = {(call.command, option) for call in calls(PAGE) for option in call.options}
    assert found == {("ls", "--wrong"), ("cat", "--bad"), ("table", "--odd"), ("verify", "--ill")}


def test_many_calls_are_found() -> None:
    found = [call for page in prose_pages() for call in calls(page.read_text(encoding="utf-8"), page.name)]
    assert len(found) > 100
    assert {call.command for call in found} >= set(COMMANDS) - {"estimate"}
