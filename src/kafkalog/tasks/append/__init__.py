"""Records from files or Arrow tables into a partition, or into a topic by Kafka's own partitioner."""

from .run import AppendOptions, AppendResult, PartitionAppend, Target, append
from .sources import SourceFile, source_file, sources_of
from .writing import Form

__all__ = [
    "AppendOptions",
    "AppendResult",
    "Form",
    "PartitionAppend",
    "SourceFile",
    "Target",
    "append",
    "source_file",
    "sources_of",
]
