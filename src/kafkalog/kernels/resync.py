"""Finding the next whole, valid entry after damage, in one pass whatever the bytes are.

A position is a candidate if a plausible header begins there. Its checksum is not computed over its bytes again: with R(x) the CRC
state after all bytes before x, started from 0 anywhere earlier,

    CRC state over [a, b) = R(b) ^ shift(R(a) ^ 0xFFFFFFFF, b - a)

where `shift` appends zero bytes, a linear map of at most 31 table steps. So the R required after the last byte of a candidate is
known at once, and the candidate waits in a list until the pass gets there. A hostile file of nothing but headers that claim
100 MiB each costs two or three reads of every byte, not 100 MiB for each header. Windows without a candidate are not hashed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog.errors import Limits
from kafkalog.format import batch, java, message
from kafkalog.format.names import MAX_OFFSET
from kafkalog.kernels._jit import inline, kernel
from kafkalog.kernels.bytes import Bytes, Ints, load_int32, load_int64, load_uint32
from kafkalog.kernels.crc import ALL_ONES, CRC32_TABLES, CRC32C_TABLES, Tables, advance

ReadInto = Callable[[int, memoryview], int]
States = npt.NDArray[np.uint32]

FIRST_WINDOW_BYTES: Final = 64 << 10  # most damage is one batch, so the next entry is near
WINDOW_BYTES: Final = 4 << 20
CHECKPOINT_BYTES: Final = 64
MIN_ENTRY_SIZE: Final = batch.LOG_OVERHEAD + message.MIN_MESSAGE_SIZE
MAX_CANDIDATES: Final = WINDOW_BYTES // 8  # of one window; a denser one is processed in parts
# Candidates that may wait at once, for each polynomial; at this number the pass looks for no new ones until these are decided.
MAX_PENDING: Final = 2 << 20
FIRST_PENDING: Final = 4 << 10
# Following entries that decide whether a found one can be where it is; few, because each is one more to read ahead.
MAX_WITNESSES: Final = 32
IN_ORDER_WITNESSES: Final = 8
MAX_CODEC_OF_BATCH: Final = 4
SIZE_BITS: Final = 31
MAX_ENTRY_SIZE: Final = java.MAX_INT32 + batch.LOG_OVERHEAD

# Fields of the bounds as kernels take them.
MINIMUM_OFFSET: Final = 0
MAXIMUM_OFFSET: Final = 1
MINIMUM_EPOCH: Final = 2
MAXIMUM_EPOCH: Final = 3
BATCH_BYTES: Final = 4

# Columns of found entries.
POSITION: Final = 0
SIZE: Final = 1
MAGIC: Final = 2
BASE_OFFSET: Final = 3
LAST_OFFSET: Final = 4
LEADER_EPOCH: Final = 5
COLUMNS: Final = 6


@dataclass(frozen=True)
class ResyncBounds:
    """What the entries around the damage allow: an entry outside of these bounds was not written here (T-24)."""

    minimum_offset: int = -1  # the last offset known good; a found entry is above it
    maximum_offset: int = MAX_OFFSET  # inclusive: the next segment's first offset - 1, if there is one
    minimum_epoch: int = 0  # of the last good batch; -1 in a header means unknown and passes
    maximum_epoch: int = java.MAX_INT32
    batch_bytes: int = Limits.batch_bytes

    def as_array(self) -> Ints:
        batch_bytes = min(self.batch_bytes, MAX_ENTRY_SIZE)
        fields = (self.minimum_offset, self.maximum_offset, self.minimum_epoch, self.maximum_epoch, batch_bytes)
        return np.array(fields, dtype=np.int64)

    def within(self, other: ResyncBounds) -> bool:
        """True if every entry that these bounds allow is allowed by `other` too."""
        return (
            self.minimum_offset >= other.minimum_offset
            and self.maximum_offset <= other.maximum_offset
            and self.minimum_epoch >= other.minimum_epoch
            and self.maximum_epoch <= other.maximum_epoch
            and self.batch_bytes <= other.batch_bytes
        )


@dataclass(frozen=True)
class FoundEntry:
    """An entry with a valid checksum; `size` counts from its first byte. Messages: both offsets are the stored one, epoch -1."""

    position: int
    size: int
    magic: int
    base_offset: int
    last_offset: int
    leader_epoch: int

    @property
    def stop(self) -> int:
        return self.position + self.size

    def may_precede(self, later: FoundEntry) -> bool:
        """True if offsets and epochs allow `later` after this entry in one log."""
        epochs_fit = later.leader_epoch == -1 or self.leader_epoch <= later.leader_epoch
        return later.base_offset > self.last_offset and epochs_fit


def _build_shift_tables(tables: Tables) -> Tables:
    """For each bit k, what byte j of the state becomes after 2^k zero bytes: flat, [k][j][byte]."""
    shifts = np.zeros((SIZE_BITS, 4, 256), dtype=np.uint32)
    values = np.arange(256, dtype=np.uint32)
    for byte in range(4):
        state = values << np.uint32(8 * byte)
        shifts[0, byte] = tables[state & np.uint32(0xFF)] ^ (state >> np.uint32(8))
    for bit in range(1, SIZE_BITS):
        once = shifts[bit - 1]
        for byte in range(4):
            state = once[byte]
            for part in range(4):
                shifts[bit, byte] ^= once[part][(state >> np.uint32(8 * part)) & np.uint32(0xFF)]
    return shifts.reshape(-1)


@inline
def _batch_is_plausible(data: Bytes, position: int, size: int, base_offset: int, bounds: Ints) -> bool:
    if size < batch.MIN_BATCH_LENGTH:
        return False
    epoch = load_int32(data, position + batch.PARTITION_LEADER_EPOCH_POSITION)
    if epoch != -1 and (epoch < bounds[MINIMUM_EPOCH] or epoch > bounds[MAXIMUM_EPOCH]):
        return False
    codec = np.int64(data[position + batch.ATTRIBUTES_POSITION + 1]) & batch.CODEC_MASK
    last_offset_delta = load_int32(data, position + batch.LAST_OFFSET_DELTA_POSITION)
    records_count = load_int32(data, position + batch.RECORDS_COUNT_POSITION)
    return bool(
        codec <= MAX_CODEC_OF_BATCH
        and last_offset_delta >= 0
        and base_offset <= MAX_OFFSET - last_offset_delta
        and records_count >= 0
        and records_count <= last_offset_delta + 1
    )


@inline
def _message_is_plausible(data: Bytes, position: int, size: int, magic: int) -> bool:
    overhead = message.OVERHEAD_V0 if magic == 0 else message.OVERHEAD_V1
    if size < overhead:
        return False
    codec = np.int64(data[position + message.ATTRIBUTES_POSITION]) & batch.CODEC_MASK
    key_length_position = message.KEY_LENGTH_POSITION_V0 if magic == 0 else message.KEY_LENGTH_POSITION_V1
    key_length = load_int32(data, position + key_length_position)
    return bool(codec <= message.MAX_CODEC and key_length <= size - overhead)


@inline
def _load_front(data: Bytes, at: np.uint64) -> np.uint64:
    """Four big-endian bytes; unsigned positions let the compiler fuse them into one load."""
    return (
        (np.uint64(data[at]) << np.uint64(24))
        | (np.uint64(data[at + np.uint64(1)]) << np.uint64(16))
        | (np.uint64(data[at + np.uint64(2)]) << np.uint64(8))
        | np.uint64(data[at + np.uint64(3)])
    )


@inline
def _header_is_plausible(data: Bytes, position: int, size: int, bounds: Ints) -> bool:
    base_offset = load_int64(data, position)
    if base_offset < 0 or base_offset <= bounds[MINIMUM_OFFSET] or base_offset > bounds[MAXIMUM_OFFSET]:
        return False
    magic = int(data[position + batch.MAGIC_POSITION])
    if magic == batch.MAX_MAGIC:
        return _batch_is_plausible(data, position, size, base_offset, bounds)
    return _message_is_plausible(data, position, size, magic)


@kernel
def scan_headers(data: Bytes, stop: int, file_stop: int, bounds: Ints, positions: Ints, sizes: Ints) -> tuple[int, int]:
    """(candidates found, first position not looked at) among the positions before `stop`; `file_stop` in coordinates of `data`.

    After every position before `stop` there are 61 bytes, or all that is left of the file and at least 26.
    """
    lowest_high = np.uint64((bounds[MINIMUM_OFFSET] + 1) >> 32)
    highest_high = np.uint64(bounds[MAXIMUM_OFFSET] >> 32)
    largest = np.uint64(bounds[BATCH_BYTES] - batch.LOG_OVERHEAD)
    count = 0
    position = 0
    while position < stop:
        at = np.uint64(position)
        if data[at + np.uint64(batch.MAGIC_POSITION)] <= batch.MAX_MAGIC:
            length = _load_front(data, at + np.uint64(batch.BATCH_LENGTH_POSITION))
            if length >= np.uint64(message.MIN_MESSAGE_SIZE) and length <= largest:
                high = _load_front(data, at)
                size = load_uint32(data, position + batch.BATCH_LENGTH_POSITION)
                if (
                    high >= lowest_high
                    and high <= highest_high
                    and size + batch.LOG_OVERHEAD <= file_stop - position
                    and _header_is_plausible(data, position, size, bounds)
                ):
                    if count == len(positions):
                        break
                    positions[count] = position
                    sizes[count] = size + batch.LOG_OVERHEAD
                    count += 1
        position += 1
    return count, position


@inline
def shift(shift_tables: Tables, state: np.uint64, size: int) -> np.uint64:
    """The CRC state after `size` zero bytes, 0 <= size < 2^31."""
    table = np.uint64(0)
    left = np.uint64(size)
    low = np.uint64(0xFF)
    while left > np.uint64(0):
        if left & np.uint64(1):
            state = (
                np.uint64(shift_tables[table + (state & low)])
                ^ np.uint64(shift_tables[table + np.uint64(256) + ((state >> np.uint64(8)) & low)])
                ^ np.uint64(shift_tables[table + np.uint64(512) + ((state >> np.uint64(16)) & low)])
                ^ np.uint64(shift_tables[table + np.uint64(768) + (state >> np.uint64(24))])
            )
        table += np.uint64(1024)
        left >>= np.uint64(1)
    return state


@kernel
def fill_checkpoints(tables: Tables, state: np.uint64, data: Bytes, stop: int, checkpoints: States) -> None:
    """R at every 64th byte of `data[:stop]`; the first is `state`."""
    checkpoints[0] = np.uint32(state)
    for row in range(stop // CHECKPOINT_BYTES):
        state = advance(tables, state, data, row * CHECKPOINT_BYTES, (row + 1) * CHECKPOINT_BYTES)
        checkpoints[row + 1] = np.uint32(state)


@kernel
def state_at(tables: Tables, data: Bytes, checkpoints: States, position: int) -> np.uint64:
    """R at any byte of a window whose checkpoints are filled."""
    row = position // CHECKPOINT_BYTES
    return advance(tables, np.uint64(checkpoints[row]), data, row * CHECKPOINT_BYTES, position)


@kernel
def admit_candidates(
    tables: Tables,
    shift_tables: Tables,
    data: Bytes,
    stop: int,
    checkpoints: States,
    candidate_positions: Ints,
    candidate_sizes: Ints,
    checksum_position: int,
    covered_position: int,
    window_position: int,
    pending: Ints,
    pending_count: int,
    found: Ints,
) -> tuple[int, int, int]:
    """(candidates admitted, pending, found): those that end in this window are decided, the others appended to `pending`.

    Columns of `pending`: position, stop, the R required at stop; of `found`: position, size. Positions are the file's.
    """
    found_count = 0
    for row in range(len(candidate_positions)):
        position = candidate_positions[row]
        entry_stop = position + candidate_sizes[row]
        start = position + covered_position
        before = state_at(tables, data, checkpoints, start) ^ ALL_ONES
        stored = np.uint64(load_uint32(data, position + checksum_position))
        expected = stored ^ ALL_ONES ^ shift(shift_tables, before, entry_stop - start)
        if entry_stop <= stop:
            if state_at(tables, data, checkpoints, entry_stop) == expected:
                found[found_count, 0] = window_position + position
                found[found_count, 1] = candidate_sizes[row]
                found_count += 1
        else:
            if pending_count == len(pending):
                return row, pending_count, found_count
            pending[pending_count, 0] = window_position + position
            pending[pending_count, 1] = window_position + entry_stop
            pending[pending_count, 2] = np.int64(expected)
            pending_count += 1
    return len(candidate_positions), pending_count, found_count


@kernel
def decide_pending(
    tables: Tables,
    data: Bytes,
    stop: int,
    checkpoints: States,
    window_position: int,
    pending: Ints,
    first: int,
    count: int,
    found: Ints,
) -> tuple[int, int]:
    """(pending left, found): decides what ends in this window and moves the rest of rows first..count to the front, in order."""
    kept = 0
    found_count = 0
    for row in range(first, count):
        entry_stop = pending[row, 1] - window_position
        if entry_stop > stop:
            pending[kept, 0] = pending[row, 0]
            pending[kept, 1] = pending[row, 1]
            pending[kept, 2] = pending[row, 2]
            kept += 1
        elif np.int64(state_at(tables, data, checkpoints, entry_stop)) == pending[row, 2]:
            found[found_count, 0] = pending[row, 0]
            found[found_count, 1] = pending[row, 1] - pending[row, 0]
            found_count += 1
    return kept, found_count


@kernel
def first_allowed(rows: Ints, row: int, bounds: Ints) -> int:
    """The first of `rows` from `row` on that the bounds allow, or their number."""
    while row < len(rows):
        epoch = rows[row, LEADER_EPOCH]
        if (
            rows[row, BASE_OFFSET] > bounds[MINIMUM_OFFSET]
            and rows[row, BASE_OFFSET] <= bounds[MAXIMUM_OFFSET]
            and rows[row, SIZE] <= bounds[BATCH_BYTES]
            and (epoch == -1 or (epoch >= bounds[MINIMUM_EPOCH] and epoch <= bounds[MAXIMUM_EPOCH]))
        ):
            break
        row += 1
    return row


def _count_in_order(entries: list[FoundEntry]) -> int:
    """The most of these entries that can follow each other in one log."""
    counts: list[int] = []  # with the entry first, from the last entry to the first
    for row in range(len(entries) - 1, -1, -1):
        later = zip(entries[row + 1 :], reversed(counts), strict=True)
        counts.append(1 + max((count for entry, count in later if entries[row].may_precede(entry)), default=0))
    return max(counts, default=0)


_known_shift_tables: dict[int, Tables] = {}  # of each polynomial, by the identity of its tables: building them takes milliseconds


def _shift_tables_of(tables: Tables) -> Tables:
    known = _known_shift_tables.get(id(tables))
    if known is None:
        known = _known_shift_tables[id(tables)] = _build_shift_tables(tables)
    return known


class _PendingEntries:
    """The candidates of one checksum that wait for their last byte, in order of position."""

    def __init__(self, tables: Tables, checksum_position: int, covered_position: int) -> None:
        self._tables = tables
        self._shift_tables = _shift_tables_of(tables)
        self._checksum_position = checksum_position
        self._covered_position = covered_position
        self._checkpoints = np.zeros(WINDOW_BYTES // CHECKPOINT_BYTES + 1, dtype=np.uint32)
        self._rows: Ints = np.zeros((FIRST_PENDING, 3), dtype=np.int64)
        self.clear()

    def clear(self) -> None:
        self._first = 0
        self._count = 0
        self._state = np.uint64(0)
        self.hashed_bytes = 0

    def __len__(self) -> int:
        return self._count - self._first

    def _row_from(self, position: int) -> int:
        return self._first + int(np.searchsorted(self._rows[self._first : self._count, POSITION], position))

    def first_position(self, start: int) -> int | None:
        """The first candidate at or after `start` that is still undecided."""
        row = self._row_from(start)
        return int(self._rows[row, POSITION]) if row < self._count else None

    def drop_before(self, position: int) -> None:
        self._first = self._row_from(position)

    def pass_window(self, window: Bytes, window_position: int, positions: Ints, sizes: Ints) -> tuple[int, Ints, Ints]:
        """(candidates admitted, found of those waiting, found of those admitted); `positions` count from the window's start."""
        late = np.empty((len(self), 2), dtype=np.int64)
        found = np.empty((len(positions), 2), dtype=np.int64)
        if len(late) + len(found) == 0:
            return 0, late, found
        stop = len(window)
        self.hashed_bytes += stop
        fill_checkpoints(self._tables, self._state, window, stop, self._checkpoints)
        self._count, late_count = decide_pending(
            self._tables, window, stop, self._checkpoints, window_position, self._rows, self._first, self._count, late
        )
        self._first = 0
        self._make_room(len(positions))
        taken, self._count, found_count = admit_candidates(
            self._tables,
            self._shift_tables,
            window,
            stop,
            self._checkpoints,
            positions,
            sizes,
            self._checksum_position,
            self._covered_position,
            window_position,
            self._rows,
            self._count,
            found,
        )
        return taken, late[:late_count], found[:found_count]

    def _make_room(self, count: int) -> None:
        needed = min(self._count + count, MAX_PENDING)
        if needed > len(self._rows):
            rows = np.zeros((min(2 * needed, MAX_PENDING), 3), dtype=np.int64)
            rows[: self._count] = self._rows[: self._count]
            self._rows = rows

    def leave_window(self, window: Bytes, position: int) -> None:
        """Carry R over to the next window, which begins at `position` of this one."""
        self._state = np.uint64(state_at(self._tables, window, self._checkpoints, position) if len(self) else 0)


class Resynchronizer:
    """Finds entries after damage in one file; a search reuses what the one before it read ahead, so a whole file costs one pass.

    `read_into(position, target)` fills `target` from the file and returns the number of bytes; 0 means that the file ends there.
    """

    def __init__(self, read_into: ReadInto, stop: int) -> None:
        self._read_into = read_into
        self._stop = stop
        # Room for a header after the window: the last message of a file may be shorter than the header that is read from it.
        self._buffer: Bytes = np.zeros(WINDOW_BYTES + batch.HEADER_SIZE, dtype=np.uint8)
        self._positions: Ints = np.empty(MAX_CANDIDATES, dtype=np.int64)
        self._sizes: Ints = np.empty(MAX_CANDIDATES, dtype=np.int64)
        self._bounds = ResyncBounds()
        self._low = 0  # everything before it is forgotten
        self._messages = _PendingEntries(CRC32_TABLES, message.CRC_POSITION, message.CRC_START)
        self._batches = _PendingEntries(CRC32C_TABLES, batch.CRC_POSITION, batch.CRC_START)
        self._reset(0, self._bounds)

    def find(self, start: int, bounds: ResyncBounds) -> FoundEntry | None:
        """The first whole, valid entry at or after `start` that `bounds` allow and later ones do not contradict."""
        if start < self._low or not bounds.within(self._bounds):
            self._reset(start, bounds)
        self._bounds, self._bounds_array = bounds, bounds.as_array()
        self._forget_before(start)
        entry = self._first(start)
        while entry is not None and self._is_contradicted(entry):
            entry = self._first(entry.position + 1)
        return entry

    @property
    def hashed_bytes(self) -> int:
        """How many bytes were hashed since the search last restarted; the fault model bounds it."""
        return self._messages.hashed_bytes + self._batches.hashed_bytes

    def _reset(self, position: int, bounds: ResyncBounds) -> None:
        self._bounds = bounds
        self._low = position
        self._position = position
        self._resume: int | None = None  # set while no new candidates are admitted: where the search for them continues
        self._window_bytes = FIRST_WINDOW_BYTES
        self._runs: list[Ints] = []
        self._messages.clear()
        self._batches.clear()

    @property
    def _scanned(self) -> int:
        return self._position if self._resume is None else self._resume

    def _forget_before(self, start: int) -> None:
        self._low = start
        self._messages.drop_before(start)
        self._batches.drop_before(start)
        cut = [run[np.searchsorted(run[:, POSITION], start) :] for run in self._runs]
        self._runs = [run for run in cut if len(run)]
        if start >= self._scanned and not self._messages and not self._batches:
            self._position, self._resume = start, None
            self._window_bytes = FIRST_WINDOW_BYTES

    def _first(self, start: int) -> FoundEntry | None:
        """The first valid entry at or after `start` within the bounds."""
        while True:
            waiting = [pending.first_position(start) for pending in (self._messages, self._batches)]
            undecided = min([self._scanned, *(position for position in waiting if position is not None)])
            entry = self._first_known(start)
            if entry is not None and entry.position < undecided:
                return entry
            if not self._pass_window():
                return None

    def _first_known(self, start: int) -> FoundEntry | None:
        best: Ints | None = None
        for run in self._runs:
            row = first_allowed(run, int(np.searchsorted(run[:, POSITION], start)), self._bounds_array)
            if row < len(run) and (best is None or run[row, POSITION] < best[POSITION]):
                best = run[row]
        return None if best is None else FoundEntry(*best.tolist())

    def _is_contradicted(self, entry: FoundEntry) -> bool:
        """True if more of the following entries are in order without `entry`: it is a copy, or its offset or epoch is damaged.

        One against one favours the later: to contradict, it must be between the lower bound and `entry`, a narrow range.
        """
        following = self._read_following(entry)
        with_entry = 1 + _count_in_order([later for later in following if entry.may_precede(later)])
        without_entry = _count_in_order(following)
        return with_entry < without_entry or with_entry == without_entry == 1

    def _read_following(self, entry: FoundEntry) -> list[FoundEntry]:
        """The next entries; fewer if they follow `entry` in order, which is nearly always so."""
        following: list[FoundEntry] = []
        previous = entry
        in_order = True
        while len(following) < (IN_ORDER_WITNESSES if in_order else MAX_WITNESSES):
            later = self._first(previous.stop)
            if later is None:
                break
            in_order = in_order and previous.may_precede(later) and entry.may_precede(later)
            following.append(later)
            previous = later
        return following

    def _pass_window(self) -> bool:
        """Process one more window; False at the end of the file with nothing undecided."""
        if self._resume is not None and not self._messages and not self._batches:
            self._position, self._resume = self._resume, None
        window = self._read_window()
        if len(window) == 0:
            return False
        at_end = self._position + len(window) == self._stop
        count, step = 0, len(window)
        if self._resume is None:
            last = max(0, len(window) - (MIN_ENTRY_SIZE if at_end else batch.HEADER_SIZE) + 1)
            file_stop = self._stop - self._position
            count, scanned = scan_headers(window, last, file_stop, self._bounds_array, self._positions, self._sizes)
            step = len(window) if at_end and scanned == last else scanned
        positions, sizes = self._positions[:count], self._sizes[:count]
        is_batch = window[positions + batch.MAGIC_POSITION] == batch.MAX_MAGIC
        refused = []
        for pending, mine in ((self._messages, ~is_batch), (self._batches, is_batch)):
            taken, late, found = pending.pass_window(window, self._position, positions[mine], sizes[mine])
            self._keep_found(late, found)
            refused.extend(positions[mine][taken : taken + 1].tolist())
        if refused:
            self._resume = self._position + min(refused)
            step = len(window)
        for pending in (self._messages, self._batches):
            pending.leave_window(window, step)
        self._position += step
        return True

    def _keep_found(self, late: Ints, found: Ints) -> None:
        """Add a run of found entries; the headers of `found` are in the window, those of `late` are read again."""
        count = len(late) + len(found)
        if count == 0:
            return
        headers = np.zeros((count, batch.HEADER_SIZE), dtype=np.uint8)
        for row, position in enumerate(late[:, POSITION].tolist()):
            self._read(position, headers[row])
        gather = (found[:, POSITION] - self._position)[:, None] + np.arange(batch.HEADER_SIZE)
        headers[len(late) :] = self._buffer[gather]
        fields = headers.reshape(-1).view(batch.HEADER)
        is_batch = fields["magic"] == batch.MAX_MAGIC
        run = np.empty((count, COLUMNS), dtype=np.int64)
        run[:, :MAGIC] = np.concatenate((late, found))
        run[:, MAGIC] = fields["magic"]
        run[:, BASE_OFFSET] = fields["base_offset"]
        run[:, LAST_OFFSET] = run[:, BASE_OFFSET] + np.where(is_batch, fields["last_offset_delta"], 0)
        run[:, LEADER_EPOCH] = np.where(is_batch, fields["partition_leader_epoch"], -1)
        self._runs.append(run)

    def _read_window(self) -> Bytes:
        window = self._buffer[: max(0, min(self._window_bytes, self._stop - self._position))]
        self._window_bytes = WINDOW_BYTES
        return window[: self._read(self._position, window)]

    def _read(self, position: int, target: Bytes) -> int:
        """Fill `target` and return its size; a file that turns out shorter ends the search there."""
        view = target.data
        done = 0
        while done < len(view):
            size = self._read_into(position + done, view[done:])
            if size <= 0:
                self._stop = min(self._stop, position + done)
                break
            done += size
        return done


def find_next_entry(read_into: ReadInto, start: int, stop: int, bounds: ResyncBounds) -> FoundEntry | None:
    """The first whole, valid entry in [start, stop) that `bounds` allow; for more than one search keep a `Resynchronizer`."""
    return Resynchronizer(read_into, stop).find(start, bounds)
