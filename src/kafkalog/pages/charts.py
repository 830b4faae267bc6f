"""Charts as SVG, drawn here so that they are there without scripts; each says in words what it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from kafkalog.format.markup import Child, Markup, element

WIDTH = 1120
LEFT, RIGHT, TOP, BOTTOM = 64, 8, 10, 22
GRID_LINES = 4


def svg(name: str, title: str, description: str, width: float, height: float, *children: Child, **attributes: object) -> Markup:
    """A drawing with its title and description, which a screen reader reads in its place."""
    return element(
        "svg",
        element("title", title, id=f"{name}-title"),
        element("desc", description, id=f"{name}-desc"),
        *children,
        id=name,
        viewBox=f"0 0 {shown(width)} {shown(height)}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        **attributes,
    )


def shown(length: float) -> str:
    """A length with at most one digit after the point."""
    return f"{length:.1f}".removesuffix(".0")


def rect(x: float, y: float, width: float, height: float, *children: Child, **attributes: object) -> Markup:
    place = {"x": shown(x), "y": shown(y), "width": shown(max(width, 0)), "height": shown(max(height, 0))}
    return element("rect", *children, **place, **attributes)


def label(x: float, y: float, text: str, **attributes: object) -> Markup:
    return element("text", text, x=shown(x), y=shown(y), **attributes)


@dataclass(frozen=True)
class Bar:
    """One bar: how high it is, and what it says when it is pointed at."""

    value: float
    title: str


def bar_chart(
    name: str,
    title: str,
    description: str,
    bars: Sequence[Bar],
    ticks: Sequence[tuple[float, str]],
    value_text: Callable[[float], str],
    *,
    height: float = 190,
    kind: str = "",
) -> Markup:
    """Bars of equal width side by side; `ticks` are texts below, at fractions of the width."""
    largest = max((bar.value for bar in bars), default=0) or 1
    inner, low = WIDTH - LEFT - RIGHT, height - BOTTOM
    high = low - TOP
    step = inner / max(len(bars), 1)
    drawn = [
        rect(
            LEFT + at * step,
            low - max(high * bar.value / largest, 1),
            step - (1 if step > 4 else 0),
            max(high * bar.value / largest, 1),
            element("title", bar.title),
        )
        for at, bar in enumerate(bars)
        if bar.value > 0
    ]
    return svg(
        name,
        title,
        description,
        WIDTH,
        height,
        _grid(largest, high, low, value_text),
        element("g", drawn, class_=f"bars {kind}"),
        _ticks(ticks, low),
        class_="chart",
    )


def _grid(largest: float, high: float, low: float, value_text: Callable[[float], str]) -> Iterable[Markup]:
    for line in range(GRID_LINES + 1):
        y = low - high * line / GRID_LINES
        yield element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=shown(y), y2=shown(y), class_="grid")
        yield label(LEFT - 6, y + 4, value_text(largest * line / GRID_LINES), class_="axis end")


def _ticks(ticks: Sequence[tuple[float, str]], low: float) -> Iterable[Markup]:
    inner = WIDTH - LEFT - RIGHT
    for at, text in ticks:
        anchor = "axis" if at == 0 else "axis end" if at == 1 else "axis middle"
        yield label(LEFT + at * inner, low + 16, text, class_=anchor)


def stacked(name: str, title: str, description: str, parts: Sequence[tuple[str, float, str]]) -> Markup:
    """One bar divided among (class, weight, title); the legend is the caller's."""
    whole = sum(weight for _, weight, _ in parts) or 1
    x = 0.0
    drawn = []
    for kind, weight, text in parts:
        width = WIDTH * weight / whole
        drawn.append(rect(x, 0, width, 26, element("title", text), class_=kind))
        x += width
    return svg(name, title, description, WIDTH, 26, drawn, class_="chart stacked", preserveAspectRatio="none")


def strip(values: Sequence[int], y: float, height: float, width: float, kind: str, left: float = 0) -> Iterable[Markup]:
    """Where values are above zero, as one rectangle for each run of them."""
    step = width / max(len(values), 1)
    at = 0
    for is_set, run in groupby(values, key=lambda value: value > 0):
        count = len(list(run))
        if is_set:
            yield rect(left + at * step, y, max(count * step, 1), height, class_=kind)
        at += count


def legend(items: Iterable[tuple[str, Child]]) -> Markup:
    """What the colours mean, as (class, text)."""
    swatch = [
        element("li", element("svg", rect(0, 0, 12, 12, class_=kind), width=12, height=12, aria_hidden="true"), " ", text)
        for kind, text in items
    ]
    return element("ul", swatch, class_="legend")
