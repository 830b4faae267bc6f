"""A treemap: areas as large as what they stand for, in rows that are as close to squares as they can be.

The rows are those of Bruls, Huizing and van Wijk's squarified treemaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LEAST_SIDE = 1.0


@dataclass(frozen=True)
class Area:
    """A rectangle of a drawing."""

    x: float
    y: float
    width: float
    height: float

    def inner(self, margin: float, head: float = 0.0) -> Area:
        """What is left inside a margin, and below a head."""
        return Area(
            self.x + margin,
            self.y + margin + head,
            max(self.width - 2 * margin, 0.0),
            max(self.height - 2 * margin - head, 0.0),
        )


def squarified(weights: Sequence[float], area: Area) -> list[Area]:
    """An area for each weight, in order; weights are positive and sorted, the largest first."""
    total = sum(weights)
    if not total or area.width < LEAST_SIDE or area.height < LEAST_SIDE:
        return [Area(area.x, area.y, 0.0, 0.0)] * len(weights)
    scale = area.width * area.height / total
    return list(_rows([weight * scale for weight in weights], area))


def _rows(sizes: list[float], area: Area) -> Iterator[Area]:
    start = 0
    while start < len(sizes):
        side = min(area.width, area.height)
        stop, total = start + 1, sizes[start]
        worst = _worst(total, sizes[start], sizes[start], side)
        while stop < len(sizes):
            wider = total + sizes[stop]
            following = _worst(wider, sizes[start], sizes[stop], side)
            if following > worst:
                break
            stop, total, worst = stop + 1, wider, following
        yield from _row(sizes[start:stop], total, area)
        area = _rest(total, area)
        start = stop


def _worst(total: float, largest: float, smallest: float, side: float) -> float:
    """The worst ratio of sides in a row of these sizes."""
    if side <= 0 or smallest <= 0:
        return float("inf")
    square = (total / side) ** 2
    return max(largest / square, square / smallest)


def _row(sizes: Sequence[float], total: float, area: Area) -> Iterator[Area]:
    x, y = area.x, area.y
    if area.width >= area.height:
        thickness = total / area.height if area.height else 0.0
        for size in sizes:
            length = size / thickness if thickness else 0.0
            yield Area(x, y, thickness, length)
            y += length
    else:
        thickness = total / area.width if area.width else 0.0
        for size in sizes:
            length = size / thickness if thickness else 0.0
            yield Area(x, y, length, thickness)
            x += length


def _rest(total: float, area: Area) -> Area:
    if area.width >= area.height:
        thickness = total / area.height if area.height else 0.0
        return Area(area.x + thickness, area.y, max(area.width - thickness, 0.0), area.height)
    thickness = total / area.width if area.width else 0.0
    return Area(area.x, area.y + thickness, area.width, max(area.height - thickness, 0.0))
