"""Who else wants to see what a profile reads: the logs are read once for both."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kafkalog.format.entry_table import EntryTable
from kafkalog.log.partition import Partition
from kafkalog.log.transactions import TransactionReplay

Ints = NDArray[np.int64]


class Observer(Protocol):
    """Called with each window, in log order of each partition."""

    def see_entries(self, partition: Partition, file: str, entries: EntryTable, counts: Ints) -> None:
        """Entries of a file, and the records of each as far as they are known."""

    def see_records(self, timestamps: Ints, shares: Ints, key_sizes: Ints, value_sizes: Ints) -> None:
        """Decoded records: their times and stored bytes, and the sizes of those keys and values that are not null."""

    def see_transactions(self, partition: Partition, replay: TransactionReplay) -> None:
        """The transactions of a partition that has some."""
