"""Compiled kernels travel with a job from the driver to its tasks, so that a fresh executor does not compile.

The driver learns which ones a read needs by reading a few entries as the tasks will, which compiles what its cache lacks. A note
in the cache keeps what it learnt: where there is one, nothing more is read, and Numba is not loaded.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkalog.format import batch, message
from kafkalog.format.entry_front import SMALLEST_ENTRY, peek_front
from kafkalog.kernels.cache import INDEX, PackedKernels, cache_folder, used
from kafkalog.storage import open_store

from .options import RANGED_TABLES, SourceOptions
from .splits import HIGHEST, LOWEST, Part, Split

if TYPE_CHECKING:
    from .columns import Projection

SWITCHES: Final = ("NUMBA_DISABLE_JIT", "KAFKALOG_NO_NATIVE")  # with these other kernels are called, or none
SAMPLE_BYTES: Final = 64 << 10
# Topics may have different formats and codecs, and a sample of each is a request to an object store.
SAMPLED_TOPICS: Final = 8

Formats = frozenset[tuple[int, int]]  # magic and codec of entries
Read = Callable[[Split], Iterable[object]]


def kernels_for_read(parts: Iterable[Part], projection: Projection, options: SourceOptions) -> PackedKernels:
    """What the tasks of a read by the source need."""

    def read(split: Split) -> Iterable[object]:
        from .task_reading import read_split  # loads Numba

        return read_split(split, projection, options)

    if options.table not in RANGED_TABLES:  # read by whole folders: that is not cheap
        parts = ()
    kind = (options.table, options.mode, options.isolation, options.check_crcs, sorted(projection.needed))
    return kernels_for_tasks(parts, kind, read)


def kernels_for_tasks(parts: Iterable[Part], kind: object, read: Read) -> PackedKernels:
    """What tasks need that `read` these parts; `kind` is what decides which kernels that are, besides the entries."""
    folder = cache_folder()
    needed: set[str] = set()
    if folder is not None:
        for part in islice(_one_of_each_topic(parts), SAMPLED_TOPICS):
            with suppress(Exception):  # damaged, or gone: the task that reads it reports it
                needed |= _needed_for(part, kind, read, folder)
    return PackedKernels.here(needed)


def _one_of_each_topic(parts: Iterable[Part]) -> Iterator[Part]:
    seen = set()
    for part in parts:
        if part.topic not in seen and part.slices and part.slices[0].bytes:
            seen.add(part.topic)
            yield part


def _needed_for(part: Part, kind: object, read: Read, folder: Path) -> set[str]:
    """The functions that reading this part needs, all of them compiled."""
    sample, formats = _sample(part)
    if not formats:
        return set()
    switches = [os.environ.get(name) for name in SWITCHES]
    what = repr((kind, sorted(formats), "://" in part.root, switches))
    note = folder / f"needed-{hashlib.sha256(what.encode()).hexdigest()[:16]}"
    with suppress(FileNotFoundError):
        noted = set(note.read_text("utf-8").split())
        if noted and all((folder / f"{function}{INDEX}").exists() for function in noted):
            return noted
    for _ in read(Split((sample,))):
        pass
    note.write_text("\n".join(sorted(used)), "utf-8")
    return used


def _sample(part: Part) -> tuple[Part, Formats]:
    """The first entries of a part, all their offsets, and their formats."""
    piece = part.slices[0]
    with open_store(part.root)[0].open(piece.path) as source:
        data = source.read(piece.start, min(SAMPLE_BYTES, piece.bytes))
    formats, size = set(), 0
    while len(data) - size >= batch.HEADER_SIZE and (front := peek_front(data, size)) is not None:
        if not SMALLEST_ENTRY <= front.size <= piece.bytes - size:
            break
        is_batch = front.magic >= batch.MAX_MAGIC
        attributes = data[size + (batch.ATTRIBUTES_POSITION + 1 if is_batch else message.ATTRIBUTES_POSITION)]
        formats.add((front.magic, attributes & batch.CODEC_MASK))
        size += front.size
    first = replace(piece, stop=piece.start + size)
    sample = replace(part, slices=(first,), start_offset=LOWEST, stop_offset=HIGHEST, log_start_offset=None)
    return sample, frozenset(formats)
