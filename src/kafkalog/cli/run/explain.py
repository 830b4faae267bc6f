"""The work of `kafkalog explain`: the fields as text or JSON, and the first problem."""

from __future__ import annotations

import json

import kafkalog

from ..failure import CLEAN, DAMAGE, warn
from ..render.escape import printable
from ..render.explanation_page import ExplanationPage
from ..render.layout import style_of
from ..render.target import STDOUT, open_target


def show_explanation(
    path: str, offset: int | None, position: int | None, count: int | None, *, full: bool, as_json: bool, quiet: bool
) -> int:
    """Write the explanation; the exit code."""
    explanation = kafkalog.explain(path, offset=offset, position=position, count=count)
    with open_target(STDOUT) as sink:
        if as_json:
            sink.write((json.dumps(explanation.as_dict(), indent=2) + "\n").encode())
        else:
            for block in ExplanationPage(explanation, style_of(sink), full=full).blocks():
                sink.write(block.encode())
    problems = explanation.problems
    if not problems:
        return CLEAN
    first = problems[0]
    more = f"; and {len(problems) - 1} more" if len(problems) > 1 else ""
    if not quiet:
        warn(printable(f"wrong at byte {first.position}: {first.where}: {first.text}{more}"))
    return DAMAGE
