"""Where the process of the `kafkalog` command begins: with what must be settled before anything slow is loaded."""

from __future__ import annotations

import sys

from .signals import leave_at_signals

# The commands whose libraries (PySpark, PyIceberg) need pandas.
WITH_PANDAS = ("ingest",)


class NoPandas:
    """Hides pandas: PyArrow imports it with the first array, half a second for nothing, in which a Ctrl-C is lost."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("not needed by this command", name=name)


def run() -> int:
    """Run the command line on the arguments of the process; the exit code."""
    leave_at_signals()
    if not set(sys.argv[1:2]) & set(WITH_PANDAS):
        sys.meta_path.insert(0, NoPandas)
    from .main import main

    return main()
