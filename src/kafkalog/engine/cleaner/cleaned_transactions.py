"""Which batches and markers the cleaner may drop: data of aborted transactions, and markers of which no data is left."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable

from kafkalog.format.control import ABORT, COMMIT

from ..transaction_index import AbortedTransaction


class CleanedTransactions:
    """The state of transactions along a walk through the log."""

    def __init__(self) -> None:
        self._kept: list[AbortedTransaction] = []
        self._ongoing_committed: set[int] = set()
        self._ongoing_aborted: dict[int, AbortedTransaction] = {}
        self._with_data: set[int] = set()  # producers whose aborted transaction has had a batch
        self._waiting: list[tuple[int, int, AbortedTransaction]] = []
        self._numbers = itertools.count()

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """What the index of a segment says, before its entries are walked."""
        for transaction in transactions:
            heapq.heappush(self._waiting, (transaction.first_offset, next(self._numbers), transaction))

    def on_data(self, producer_id: int, last_offset: int) -> bool:
        """Take a transactional batch of data; whether it is part of an aborted transaction."""
        self._begin_up_to(last_offset)
        if producer_id in self._ongoing_aborted:
            self._with_data.add(producer_id)
            return True
        self._ongoing_committed.add(producer_id)
        return False

    def on_control(self, control_type: int | None, producer_id: int, last_offset: int) -> bool:
        """Take a control batch, of None type if it is empty; whether all that it ends is gone, so that it may go too."""
        self._begin_up_to(last_offset)
        if control_type is None:
            return True
        if control_type == ABORT:
            return self._on_abort(producer_id)
        if control_type == COMMIT:
            had_data = producer_id in self._ongoing_committed
            self._ongoing_committed.discard(producer_id)
            return not had_data
        return False

    def take_kept(self) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions that ended since the last call and have to stay in the index: some of their data was there."""
        if not self._kept:
            return ()
        kept, self._kept = tuple(self._kept), []
        return kept

    def _on_abort(self, producer_id: int) -> bool:
        transaction = self._ongoing_aborted.pop(producer_id, None)
        if transaction is None or producer_id not in self._with_data:
            return True
        self._with_data.discard(producer_id)
        self._kept.append(transaction)
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            transaction = heapq.heappop(self._waiting)[2]
            self._ongoing_aborted.setdefault(transaction.producer_id, transaction)
