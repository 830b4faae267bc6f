"""`python -m tools.picture [FILE]`: runs the demo on a terminal of 100 columns and draws docs/demo.svg, a screen for each step.

The screens follow each other by CSS alone; who wants no motion, or prints it, sees the one of `STILL`. No script, and no font but
those that the reader's machine has. The path of the demo's folder is shown as PLACE.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from kafkalog.cli.demo.disk import make_disk
from kafkalog.cli.demo.story import STEPS, Step
from kafkalog.cli.demo.telling import Teller
from kafkalog.cli.render.layout import Style
from kafkalog.spark.ingestion.executors import missing_for_spark

FILE = Path(__file__).resolve().parents[1] / "docs" / "demo.svg"
PLACE = "/mnt/dead-broker"
COLUMNS, ROWS = 100, 26
CHARACTER_WIDTH, LINE_HEIGHT, MARGIN, BAR = 12.2, 24.4, 16, 40  # the first two are those of rich's letters
SECONDS = 5
STILL = "What is broken?"
THEME = TerminalTheme(
    (22, 27, 34),
    (230, 237, 243),
    [
        (72, 79, 88),
        (255, 123, 114),
        (63, 185, 80),
        (210, 153, 34),
        (88, 166, 255),
        (188, 140, 255),
        (57, 197, 207),
        (177, 186, 196),
    ],
)
SCREEN = '<style>{styles}</style><defs>{lines}</defs>{backgrounds}<g class="{unique_id}-matrix">{matrix}</g>'
PICTURE = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="title about">
<title id="title">A recorded session of kafkalog demo</title>
<desc id="about">{about}</desc>
<style>
text {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace;
font-size: 20px; white-space: pre; }}
.screen {{ visibility: hidden; animation: shown {seconds}s step-end infinite; }}
@keyframes shown {{ 0% {{ visibility: visible; }} {share:.3f}% {{ visibility: hidden; }} }}
@media (prefers-reduced-motion: reduce), print {{ .screen {{ animation: none; }} .still {{ visibility: visible; }} }}
</style>
<rect width="{width}" height="{height}" rx="10" fill="#161b22"/>
<g fill="#484f58"><circle cx="24" cy="22" r="7"/><circle cx="46" cy="22" r="7"/><circle cx="68" cy="22" r="7"/></g>
{screens}
</svg>
"""


def told(folder: Path) -> list[tuple[Step, str]]:
    """Each step with everything that it shows on a terminal."""
    make_disk(folder / "disk")
    missing = missing_for_spark()
    if missing is not None:
        raise SystemExit(f"the picture shows Spark too: {': '.join(missing)}")
    written: list[str] = []
    Teller(folder, Style(COLUMNS, coloured=True), on_terminal=True, write=written.append).tell(STEPS)
    screens = re.split(r"^\n(?=.*── )", "\n".join(written).replace(str(folder), PLACE), flags=re.MULTILINE)
    return list(zip(STEPS, screens[1:], strict=True))


def screen(text: str, name: str) -> str:
    """The last rows of a terminal that shows the text."""
    rows = [part for line in text.split("\n") for part in wrapped(Text.from_ansi(line))][-ROWS:]
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor", legacy_windows=False
    )
    for row in rows:
        console.print(row, no_wrap=True, overflow="ignore", highlight=False)
    return console.export_svg(theme=THEME, code_format=SCREEN, unique_id=name)


def wrapped(line: Text) -> list[Text]:
    """The line as a terminal breaks it: after its last column, inside words too."""
    return list(line.divide(range(COLUMNS, len(line), COLUMNS))) if len(line) > COLUMNS else [line]


def picture(screens: list[tuple[Step, str]]) -> str:
    """The SVG of all screens."""
    parts = [
        f'<g class="screen{" still" * (step.title == STILL)}" style="animation-delay: {number * SECONDS}s" '
        f'transform="translate({MARGIN} {BAR})">{screen(text, f"s{number}")}</g>'
        for number, (step, text) in enumerate(screens)
    ]
    return PICTURE.format(
        width=round(COLUMNS * CHARACTER_WIDTH + 2 * MARGIN),
        height=round(ROWS * LINE_HEIGHT + BAR + MARGIN),
        about="; ".join(step.command for step, _ in screens),
        seconds=SECONDS * len(screens),
        share=100 / len(screens),
        screens="\n".join(parts),
    )


def main(target: str = str(FILE)) -> int:
    with tempfile.TemporaryDirectory() as name:
        Path(target).write_text(picture(told(Path(name).resolve())), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
