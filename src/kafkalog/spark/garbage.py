"""Python's garbage collection in Spark's workers."""

from __future__ import annotations

import gc

_frozen = False


def freeze_garbage() -> None:
    """Spare the collection after each task what the first one has loaded: 50 ms. Once per worker, when its first task ends."""
    global _frozen
    if not _frozen:
        gc.collect()
        gc.freeze()
        _frozen = True
