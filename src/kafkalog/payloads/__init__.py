"""What keys and values mean where Kafka itself writes them: the records of its internal topics.

Every decoder is a function of bytes that returns plain dictionaries with Kafka's own field names; bytes that are no such record
raise CorruptBatch("payload"). Values that applications wrote, as JSON or Avro, are decoded column-wise by `values`.
"""

from __future__ import annotations

from .coordinator import (
    CoordinatorRecord,
    decode_consumer_offsets,
    decode_share_group_state,
    decode_transaction_state,
)
from .metadata import MetadataRecord, decode_cluster_metadata, decode_remote_log_metadata

__all__ = [
    "CoordinatorRecord",
    "MetadataRecord",
    "decode_cluster_metadata",
    "decode_consumer_offsets",
    "decode_remote_log_metadata",
    "decode_share_group_state",
    "decode_transaction_state",
]
