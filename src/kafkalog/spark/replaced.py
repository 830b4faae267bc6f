"""Parts whose files a broker has cleaned or removed since the read was planned: their offsets are looked up again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

from kafkalog.errors import Limits, SegmentChanged
from kafkalog.log.folders import find_partitions
from kafkalog.log.swap_segments import with_finished_segments
from kafkalog.storage.store import Store

from .read_plan import Found, parts_of
from .slices import unchanged
from .splits import HIGHEST, Part, end_offset

TRIES: Final = 5
# Called with what is no longer there; raises, or lets the rest be read.
OnLoss = Callable[[str], None]


def open_part(part: Part, store: Store, stack: ExitStack, on_loss: OnLoss) -> tuple[Part, Store]:
    """The part with slices of files that are as they were planned, and what to read them from.

    Those are the slices given, or where its offsets are now: a cleaner puts several segments into one.
    """
    for left in reversed(range(TRIES)):
        try:
            return part, stack.enter_context(unchanged(part, store))
        except SegmentChanged:
            span = exact_span(part)
            if not left or span is None:
                raise
            part = _planned_again(part, store, on_loss, *span)
    raise AssertionError("the last try returns or raises")


def exact_span(part: Part) -> tuple[int, int] | None:
    """The offsets that this part and no other one gives out; None where a slice does not say."""
    if not part.slices:
        return None
    first, last = part.slices[0], part.slices[-1]
    low = max(part.start_offset, first.first_offset)
    high = part.stop_offset if last.next_base_offset is None else min(part.stop_offset, last.next_base_offset)
    is_exact = first.start == 0 or first.first_offset > first.base_offset  # compressed v0/v1 sets only tell their last offset
    return (low, high) if is_exact and high < HIGHEST else None


def _planned_again(part: Part, store: Store, on_loss: OnLoss, low: int, high: int) -> Part:
    partition = with_finished_segments(find_partitions(store, part.folder)[0], Limits())
    end = end_offset(partition)
    if partition.start_offset > low or end < high:
        found = f"now has the offsets {partition.start_offset} to {end - 1}"
        on_loss(f"{partition} {found}, and {low} to {high - 1} were to be read")
    parts = parts_of(Found(part.root, partition), low, high, HIGHEST, part.committed)
    slices = tuple(piece for each in parts for piece in each.slices)
    claim = max(part.claim[0], low), min(part.claim[1], high)
    return replace(part, slices=slices, start_offset=low, stop_offset=high, claim=claim)
