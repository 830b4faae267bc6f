"""The offsets between which a log is read: log start offset, high watermark, last stable offset."""

from __future__ import annotations

from kafkalog.errors import InvalidArgument, OffsetOutOfRange

from .leader_epochs import LeaderEpochs
from .local_log import LocalLog
from .offsets import OffsetMetadata
from .producers import ProducerStates


class Watermarks:
    """The offsets that bound what readers see.

    The high watermark is the offset up to which all replicas have the log, and never above the log end offset; the caller
    moves it with `update_high_watermark`. No reader of committed records may pass the first unstable offset.
    """

    def __init__(
        self, local_log: LocalLog, producers: ProducerStates, leader_epochs: LeaderEpochs, log_start_offset: int
    ) -> None:
        self.local_log = local_log
        self.producers = producers
        self.leader_epochs = leader_epochs
        self.log_start_offset = log_start_offset
        self._high_watermark = OffsetMetadata(log_start_offset)
        self._first_unstable: OffsetMetadata | None = None
        self._move_log_start_offset(log_start_offset)
        first = local_log.segments.first
        assert first is not None
        self._move_log_start_offset(max(log_start_offset, first.base_offset))
        # Where local files begin on a broker with tiered storage; without it, what it was when the log was loaded.
        self.local_log_start_offset = self.log_start_offset
        self.update_first_unstable_offset()

    # high watermark

    @property
    def high_watermark(self) -> int:
        return self._high_watermark.offset

    def update_high_watermark(self, new: OffsetMetadata) -> int:
        """Set the high watermark, bounded by the log; returns what it is now."""
        if new.offset < self.log_start_offset:
            new = OffsetMetadata(self.log_start_offset)
        elif new.offset >= self.local_log.log_end_offset:
            new = self.local_log.log_end
        self._set_high_watermark(new)
        return new.offset

    def follow_log_end(self) -> None:
        """Keep a high watermark that is at the end of the log there, also if the log became shorter."""
        if self.high_watermark >= self.local_log.log_end_offset:
            self._set_high_watermark(self.local_log.log_end)

    def _set_high_watermark(self, new: OffsetMetadata) -> None:
        if new.offset < 0:
            raise InvalidArgument(f"the high watermark cannot be {new.offset}")
        self._high_watermark = new
        self.producers.on_high_watermark_updated(new.offset)
        self.update_first_unstable_offset()

    def fetch_high_watermark(self) -> OffsetMetadata:
        """The high watermark with its position in the log; it moves to the beginning of its entry, or of the next one."""
        self.local_log.check_open()
        if self._high_watermark.offset_only:
            self._set_high_watermark(self._convert(self.high_watermark))
        return self._high_watermark

    # last stable offset

    @property
    def first_unstable_offset(self) -> int | None:
        return None if self._first_unstable is None else self._first_unstable.offset

    @property
    def last_stable_offset(self) -> int:
        unstable = self._first_unstable
        return unstable.offset if unstable is not None and unstable.offset < self.high_watermark else self.high_watermark

    def fetch_last_stable_offset(self) -> OffsetMetadata:
        """The last stable offset with its position in the log."""
        self.local_log.check_open()
        high_watermark = self.fetch_high_watermark()
        unstable = self._first_unstable
        if unstable is None or unstable.offset >= high_watermark.offset:
            return high_watermark
        if unstable.offset_only:
            self._first_unstable = unstable = self._convert(unstable.offset)
        return unstable

    def update_first_unstable_offset(self) -> None:
        """Ask the producers for it; one before the log start offset moves to the entry that holds that."""
        self.local_log.check_open()
        unstable = self.producers.first_unstable_offset
        if unstable is not None and (unstable.offset_only or unstable.offset < self.log_start_offset):
            unstable = self._convert(max(unstable.offset, self.log_start_offset))
        self._first_unstable = unstable

    def _convert(self, offset: int) -> OffsetMetadata:
        try:
            return self.local_log.convert_to_offset_metadata(offset)
        except OffsetOutOfRange:
            return OffsetMetadata(offset)

    # log start offset

    def increment_log_start_offset(self, offset: int) -> bool:
        """Raise the log start offset to `offset`; whether it moved."""
        with self.local_log.files.guard.doing("moving the log start offset"):
            if offset > self.high_watermark:
                raise OffsetOutOfRange(f"the log cannot begin at {offset}, above its high watermark {self.high_watermark}")
            self.local_log.check_open()
            if offset <= self.log_start_offset:
                return False
            self._move_log_start_offset(offset)
            self.leader_epochs.truncate_from_start(offset)
            self.producers.on_log_start_offset_incremented(offset)
            self.update_first_unstable_offset()
            return True

    def _move_log_start_offset(self, offset: int) -> None:
        self.log_start_offset = offset
        if self.high_watermark < offset:
            self.update_high_watermark(OffsetMetadata(offset))
        self.local_log.recovery_point = max(self.local_log.recovery_point, offset)
