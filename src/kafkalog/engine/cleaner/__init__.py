"""Compaction: of the records with the same key the last one stays, as Kafka's log cleaner would leave them.

`selection` says which log to clean and how far, `cleaning` makes a pass over it: `mapping` fills the map of the latest offsets
(`offset_map`), then `rewriting` filters chunk by chunk by the rules of `retention` and `transactions`.
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
