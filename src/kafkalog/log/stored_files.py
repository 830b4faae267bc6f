"""The files of a partition folder and its segments, kept as columns: some 30 bytes for each file, so a bucket of a million
segments fits into little memory. An object is made when one is asked for.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Final, overload

from kafkalog.format import names
from kafkalog.format.quantities import plural, size_text
from kafkalog.storage.store import ByteSource, Entry

MAX_SHOWN = 80


def shown(value: object) -> str:
    """A path, name or other text quoted for a `repr`; only the end of a long one."""
    text = str(value)
    return repr(text if len(text) <= MAX_SHOWN else "…" + text[-MAX_SHOWN:])


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a partition folder, with its parsed name."""

    path: str
    size: int
    mtime_ns: int
    kind: str
    base_offset: int = -1
    suffix: str = ""
    # The size of its blocks, which can change without the file: index files are preallocated and sparse.
    disk_size: int | None = field(default=None, compare=False)
    inode: int = 0

    @property
    def stored_size(self) -> int:
        """The space it occupies: its blocks on a disk, its bytes in an object store."""
        return self.size if self.disk_size is None else self.disk_size


@dataclass(frozen=True, slots=True)
class Segment:
    """A log file with its index files; `next_base_offset` is the base offset of the next segment, None for the newest.

    With positions it is a part of a segment, cut between entries; the next part then takes the role of the next segment.
    """

    log: StoredFile
    siblings: Mapping[str, StoredFile] = field(default_factory=dict)
    next_base_offset: int | None = None
    start_position: int = 0
    stop_position: int | None = None  # None: where the file ends

    @property
    def base_offset(self) -> int:
        """The offset in its name; -1 for a file whose name has none (a copy, a KRaft snapshot)."""
        return self.log.base_offset if self.log.kind == "log" else -1

    @property
    def is_newest(self) -> bool:
        return self.next_base_offset is None

    def stop_in(self, source: ByteSource) -> int:
        """Where the entries of this segment end in its open file."""
        return source.size if self.stop_position is None else min(self.stop_position, source.size)

    def __repr__(self) -> str:
        parts = [shown(self.log.path), size_text(self.log.size), plural(len(self.siblings), "index file")]
        if self.start_position or self.stop_position is not None:
            parts.append(f"bytes {self.start_position} to {'the end' if self.stop_position is None else self.stop_position}")
        return f"Segment({', '.join(parts)}{', newest' if self.is_newest else ''})"


# -- columns -----------------------------------------------------------------------------------------------------------------

# Kind and suffix of a file as one byte: first those without a suffix, so that the largest code tells whether there are others.
_NAMED: Final = (*names.PARTITION_FILES, *names.LOG_DIRECTORY_FILES)
_MEANINGS: Final = (
    *((kind, "") for kind in (*names.SEGMENT_KINDS, *_NAMED)),
    *((kind, suffix) for kind in names.SEGMENT_KINDS for suffix in names.SEGMENT_SUFFIXES),
    *((kind, "tmp") for kind in _NAMED),
)
_CODES: Final = {meaning: code for code, meaning in enumerate(_MEANINGS)}
_LOG: Final = _CODES["log", ""]
_INDEX: Final = _CODES["index", ""]
_SIBLINGS: Final = frozenset(_CODES[kind, ""] for kind in names.SEGMENT_KINDS if kind != "log")
_FIRST_LEFTOVER: Final = len(names.SEGMENT_KINDS) + len(_NAMED)
_ODD: Final = 255  # kept as an object, because its name has more parts

Column = Sequence[int]


def _column(values: list[int], type_code: str = "q") -> Column:
    """The values in as little memory as they allow: a file may claim to be from the year 3000."""
    try:
        return array(type_code, values)
    except OverflowError:
        return tuple(values)


class StoredFiles(Sequence[StoredFile]):
    """The files of a folder with names that Kafka gives, in the order of their names."""

    __slots__ = ("_disk_sizes", "_odd", "bases", "codes", "inodes", "mtimes", "prefix", "sizes")

    def __init__(self, prefix: str, entries: Iterable[Entry]) -> None:
        """`prefix` and a name make the path of a file."""
        self.prefix = prefix
        self._odd: dict[int, StoredFile] = {}
        codes = bytearray()
        bases: list[int] = []
        kept: list[Entry] = []
        for entry in sorted(entries, key=_name):
            if entry.kind != "file":
                continue
            found = names.parse_segment_name(entry.name)
            if found is not None:
                base, meaning = found
                code = _CODES[meaning]
            else:
                parsed = names.parse_file_name(entry.name)
                if parsed is None:
                    continue
                base, code = parsed.base_offset, _CODES.get((parsed.kind, parsed.suffix), _ODD)
                if code == _ODD:
                    self._odd[len(codes)] = stored_file(prefix + entry.name, entry, parsed)
            codes.append(code)
            bases.append(base)
            kept.append(entry)
        self.codes = bytes(codes)
        self.bases = _column(bases)
        self.sizes = _column([entry.size for entry in kept])
        self.mtimes = _column([entry.mtime_ns for entry in kept])
        inodes, disk_sizes = [entry.inode for entry in kept], [entry.disk_size for entry in kept]
        self.inodes = _column(inodes, "Q") if any(inodes) else None
        known = [-1 if size is None else size for size in disk_sizes]
        self._disk_sizes = _column(known) if any(size >= 0 for size in known) else None

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[StoredFile]:
        return map(self._at, range(len(self.codes)))

    @overload
    def __getitem__(self, row: int) -> StoredFile: ...

    @overload
    def __getitem__(self, row: slice) -> Sequence[StoredFile]: ...

    def __getitem__(self, row: int | slice) -> StoredFile | Sequence[StoredFile]:
        rows = range(len(self.codes))[row]
        return self._at(rows) if isinstance(rows, int) else tuple(map(self._at, rows))

    def __eq__(self, other: object) -> bool:
        return _are_equal(self, other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"StoredFiles({shown(self.prefix)}, {plural(len(self), 'file')})"

    def _at(self, row: int) -> StoredFile:
        code, base = self.codes[row], self.bases[row]
        if code == _ODD:
            return self._odd[row]
        kind, suffix = _MEANINGS[code]
        name = kind if base < 0 else f"{base:020d}.{kind}"
        disk_size = -1 if self._disk_sizes is None else self._disk_sizes[row]
        return StoredFile(
            f"{self.prefix}{name}.{suffix}" if suffix else self.prefix + name,
            self.sizes[row],
            self.mtimes[row],
            kind,
            base,
            suffix,
            None if disk_size < 0 else disk_size,
            0 if self.inodes is None else self.inodes[row],
        )

    def first_of(self, kind: str) -> StoredFile | None:
        """The first file of a kind, with or without a suffix."""
        codes = [code for (found, _), code in _CODES.items() if found == kind]
        rows = [row for code in codes if (row := self.codes.find(code)) >= 0]
        return self._at(min(rows)) if rows else None

    def leftovers(self) -> tuple[StoredFile, ...]:
        """Those with a suffix."""
        if max(self.codes, default=0) < _FIRST_LEFTOVER:
            return ()
        rows = (row for row, code in enumerate(self.codes) if code >= _FIRST_LEFTOVER)
        return tuple(stored for stored in map(self._at, rows) if stored.suffix)


def _name(entry: Entry) -> str:
    return entry.name


def stored_file(path: str, entry: Entry, parsed: names.FileName) -> StoredFile:
    """A listed file with the parts of its name."""
    kind, base_offset, suffix = parsed.kind, parsed.base_offset, parsed.suffix
    return StoredFile(path, entry.size, entry.mtime_ns, kind, base_offset, suffix, entry.disk_size, entry.inode)


def _are_equal(one: Sequence[Any], other: object) -> bool:
    return isinstance(other, Sequence) and len(one) == len(other) and all(a == b for a, b in zip(one, other, strict=True))


class Segments(Sequence[Segment]):
    """The live segments of a folder in offset order, each with its index files; a slice is a view."""

    __slots__ = ("_newest", "_rows", "_within", "files")

    def __init__(self, files: StoredFiles) -> None:
        self.files = files
        logs = compress(range(len(files)), [code == _LOG for code in files.codes])
        # A name that was listed twice is one file: the last counts.
        self._rows = array("I", {files.bases[row]: row for row in logs}.values())
        self._within = range(len(self._rows))
        self._newest: Segment | None = None

    def __len__(self) -> int:
        return len(self._within)

    def __iter__(self) -> Iterator[Segment]:
        return map(self._at, self._within)

    @overload
    def __getitem__(self, number: int) -> Segment: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[Segment]: ...

    def __getitem__(self, number: int | slice) -> Segment | Sequence[Segment]:
        found = self._within[number]
        if isinstance(found, int):
            return self._at(found)
        return self._view(found) if found.step == 1 else tuple(map(self._at, found))

    def __eq__(self, other: object) -> bool:
        return _are_equal(self, other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Segments({shown(self.files.prefix)}, {plural(len(self), 'segment')})"

    @property
    def log_bytes(self) -> int:
        """Bytes of all log files."""
        sizes, rows, listed = self.files.sizes, self._rows, self._listed()
        others = self._newest.log.size if self._newest is not None and len(listed) < len(self) else 0
        return sum(sizes[rows[number]] for number in listed) + others

    def reaching(self, offset: int) -> Segments:
        """Those that may hold `offset` or higher ones: from the last that begins at or before it."""
        rows, bases = self._rows, self.files.bases
        following = bisect_right(self._within, offset, key=lambda number: bases[rows[number]])
        return self._view(self._within[max(following - 1, 0) :])

    def with_newest(self, segment: Segment) -> Segments:
        """The same with another one in place of the last, such as one that ends earlier."""
        changed = self._view(self._within)
        changed._newest = segment
        return changed

    def spans(self) -> Iterator[tuple[int, int | None, int]]:
        """Base offset, that of the next segment, and size of the log of each, except of a newest one that was put in place."""
        rows, bases, sizes = self._rows, self.files.bases, self.files.sizes
        for number in self._listed():
            after = bases[rows[number + 1]] if number + 1 < len(rows) else None
            yield bases[rows[number]], after, sizes[rows[number]]

    def columns(self) -> LogColumns:
        """The files that `spans` goes through."""
        files, numbers = self.files, self._listed()
        rows = self._rows[numbers.start : numbers.stop]
        following = numbers.stop < len(self._rows)
        return LogColumns(
            files.prefix,
            _column([files.bases[row] for row in rows]),
            files.bases[self._rows[numbers.stop]] if following else None,
            _column([files.sizes[row] for row in rows]),
            _column([files.mtimes[row] for row in rows]),
            None if files.inodes is None else _column([files.inodes[row] for row in rows], "Q"),
            bytes(_INDEX in self._codes_beside(row) for row in rows),
        )

    def _listed(self) -> range:
        """The numbers of the segments that are as they were listed."""
        within = self._within
        has_other = self._newest is not None and within.stop == len(self._rows)
        return within[:-1] if has_other else within

    def _view(self, within: range) -> Segments:
        view = Segments.__new__(Segments)
        view.files, view._rows, view._within, view._newest = self.files, self._rows, within, self._newest
        return view

    def _at(self, number: int) -> Segment:
        if self._newest is not None and number == len(self._rows) - 1:
            return self._newest
        files, rows = self.files, self._rows
        row = rows[number]
        siblings = {_MEANINGS[code][0]: files[other] for code, other in self._codes_beside(row).items() if code in _SIBLINGS}
        after = files.bases[rows[number + 1]] if number + 1 < len(rows) else None
        return Segment(files[row], siblings, after)

    def _codes_beside(self, row: int) -> dict[int, int]:
        """The codes of the files with the same base offset, which are next to it, and their rows."""
        codes, bases = self.files.codes, self.files.bases
        base, first = bases[row], row
        while first and bases[first - 1] == base:
            first -= 1
        found: dict[int, int] = {}
        while first < len(bases) and bases[first] == base:
            found[codes[first]] = first
            first += 1
        return found


@dataclass(frozen=True, slots=True)
class LogColumns:
    """The log files of consecutive segments; `next_base_offset` follows the last of them."""

    prefix: str
    bases: Column
    next_base_offset: int | None
    sizes: Column
    mtimes: Column
    inodes: Column | None
    are_indexed: bytes
