"""Colours, only where a terminal shows them, and how wide that terminal is."""

from __future__ import annotations

import os
from dataclasses import dataclass

from .target import Sink

PIPE_WIDTH = 100
BOLD, DIM, RED = "1", "2", "31"


@dataclass(frozen=True)
class Style:
    """How to write for one output: `width` columns, with colours or without."""

    width: int
    coloured: bool

    def paint(self, text: str, code: str) -> str:
        """`text` with escape codes around it; they take no columns, so lay out first."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.coloured and text else text


def style_of(sink: Sink) -> Style:
    """The style that fits an output: that of its terminal, or plain text."""
    if not sink.isatty():
        return Style(PIPE_WIDTH, coloured=False)
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    return Style(console.width, coloured=bool(console.color_system) and not os.environ.get("NO_COLOR"))
