"""Python's garbage collection in the processes that Spark starts."""

from __future__ import annotations

import gc
import sys
from typing import Final

DAEMON: Final = "pyspark.daemon"

_frozen = False


def freeze_garbage() -> None:
    """Spare Spark's collection after each call of a worker what the first one has loaded: 50 ms of a core.

    Once per worker, when its first call ends; nothing in any other process.
    """
    global _frozen
    if not _frozen and _is_worker():
        gc.collect()
        gc.freeze()
        _frozen = True


def _is_worker() -> bool:
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return main is not None and main.name == DAEMON
