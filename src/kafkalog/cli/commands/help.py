"""Help that can be skimmed: commands under headings, options, then notes, terms and examples, all wrapped to the terminal."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from ..failure import EXIT_CODES

PATH_TEXT = "PATH is a log directory (log.dirs), a partition folder, a segment file, or an s3:// URL of any of these."
PATHS_TEXT = f"""{PATH_TEXT} Several are read as one, the log
directories of a broker or of a cluster: each partition comes from the copy with the newest leader epoch and end."""
LOCAL_PATH_TEXT = "PATH is a partition folder or a log directory (log.dirs)."

Terms = Mapping[str, Mapping[str, str]]

# They stand for a hyphen and a space that a line must not be broken at, until it is wrapped.
HYPHEN, SPACE = "\u2011", "\u00a0"
BREAKABLE = str.maketrans({HYPHEN: "-", SPACE: " "})
SHORT_DEFAULT = re.compile(r"\[(?:default: .{1,24}|required)\]$")


class WholeWords(click.HelpFormatter):
    """Wraps lines at spaces only, and not inside `[default: x]`: a name broken at a hyphen cannot be copied or searched for."""

    def write_text(self, text: str) -> None:
        super().write_text(_whole_words(text))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        kept = [(first, _whole_words(second)) for first, second in rows]
        super().write_dl(kept, col_max, col_spacing)

    def getvalue(self) -> str:
        return super().getvalue().translate(BREAKABLE)


def _whole_words(text: str) -> str:
    whole = SHORT_DEFAULT.sub(lambda default: default[0].replace(" ", SPACE), text)
    return whole.replace("[default: ", f"[default:{SPACE}").replace("-", HYPHEN)


class Context(click.Context):
    """A context whose help keeps words whole."""

    formatter_class = WholeWords


class Option(click.Option):
    """An option that also accepts old spellings, which help and completion do not show."""

    def __init__(self, *arguments: Any, old: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.old = tuple(old)

    def add_to_parser(self, parser: Any, context: click.Context) -> None:
        shown = self.opts
        self.opts = [*shown, *self.old]
        try:
            super().add_to_parser(parser, context)
        finally:
            self.opts = shown


class Command(click.Command):
    """A command whose help ends with notes (paragraphs), terms (title, name, meaning) and examples."""

    context_class = Context

    def __init__(
        self, *arguments: Any, notes: str = "", terms: Terms | None = None, examples: Sequence[str] = (), **settings: Any
    ) -> None:
        super().__init__(*arguments, **settings)
        self.notes = notes
        self.terms = terms or {}
        self.examples = tuple(examples)
        self.verbs: dict[str, click.Command] = {}

    def add_verb(self, verb: click.Command) -> None:
        """Add a command that runs where its name is the first argument: `kafkalog cluster rebuild PATH` besides `… cluster PATH`.

        A path of that name is given as ./NAME.
        """
        self.verbs[str(verb.name)] = verb

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        verb = self.verbs.get(args[0]) if args else None
        if verb is None:
            return super().make_context(info_name, args, parent, **extra)
        return verb.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(context, formatter)
        if self.verbs:
            with formatter.section("Commands"):
                formatter.write_dl([(name, verb.get_short_help_str(limit=100)) for name, verb in self.verbs.items()])

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        write_notes(formatter, self.notes)
        write_terms(formatter, self.terms)
        write_examples(formatter, self.examples)


class Group(click.Group):
    """The command itself: its subcommands under headings, examples, exit codes."""

    context_class = Context

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.headings: dict[str, tuple[click.Command, ...]] = {}
        self.examples = tuple(examples)

    def add_commands(self, heading: str, *commands: click.Command) -> None:
        """Add commands that the help lists under `heading`, in this order."""
        self.headings[heading] = commands
        for command in commands:
            self.add_command(command)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.commands))
        for heading, commands in self.headings.items():
            with formatter.section(heading):
                # Equal widths, so that the summaries of all sections begin in the same column.
                formatter.write_dl([(f"{command.name:<{width}}", command.get_short_help_str(limit=100)) for command in commands])

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(formatter, self.examples)
        write_terms(formatter, {"Exit codes": {str(code): meaning for code, meaning in EXIT_CODES.items()}})


def write_notes(formatter: click.HelpFormatter, notes: str) -> None:
    for paragraph in inspect.cleandoc(notes).split("\n\n") if notes else ():
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(" ".join(paragraph.split("\n")))


def write_terms(formatter: click.HelpFormatter, terms: Terms) -> None:
    for title, meanings in terms.items():
        with formatter.section(title):
            formatter.write_dl(list(meanings.items()))


def write_examples(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    """The examples as they are: a command that is wrapped cannot be copied."""
    with formatter.section("Examples"):
        for example in examples:
            formatter.write(f"{'':{formatter.current_indent}}{example}\n")
