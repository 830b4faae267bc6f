"""Compaction: only the last record of each key is kept, exactly as Kafka's log cleaner does it.

`selection` decides which log to clean and how far, and `cleaning` makes a pass over it: it fills the map of latest offsets
(`offset_map`), then `rewriting` filters chunk by chunk by the rules of `kept_records`.
"""

from .cleaning import Cleaner, CleaningAborted, CleanResult, clean_filthiest
from .kept_records import CleanStats
from .offset_map import OffsetMap
from .selection import CleanerSelection, LogToClean

__all__ = [
    "CleanResult",
    "CleanStats",
    "Cleaner",
    "CleanerSelection",
    "CleaningAborted",
    "LogToClean",
    "OffsetMap",
    "clean_filthiest",
]
