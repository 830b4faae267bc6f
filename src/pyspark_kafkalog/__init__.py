"""Where Spark finds the source `kafkalog`: it imports every module named pyspark_… and asks it for `DefaultSource`.

One that raises keeps Spark from finding all the others, so this one imports nothing before it is asked, and never raises.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        try:
            from kafkalog.spark.source import KafkaLogDataSource
        except Exception:  # an old PySpark, or a broken installation of ours: then there is no such source
            raise AttributeError(name) from None
        return KafkaLogDataSource
    raise AttributeError(name)
