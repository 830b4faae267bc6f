"""The threats of the fault model that the campaign covers, each as a list of jobs: all of it, or a sample for the test suite."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from . import (
    bytes_damage,
    disorder,
    hostile_batches,
    large_logs,
    moving_files,
    side_files,
    verified_logs,
    verified_side_files,
)
from .golden_set import VARIANTS, golden_segment
from .tally import Tally

Job = Callable[[], Tally]
BYTES_PER_JOB = 256
SEEDS_PER_JOB = 1000
MIB = 1 << 20


def cut_jobs(quick: bool) -> list[Job]:
    return [partial(bytes_damage.check_cuts, name, 149 if quick else 1) for name in VARIANTS]


def flip_jobs(quick: bool) -> list[Job]:
    if quick:
        return [partial(bytes_damage.check_flips, name, 0, 1 << 20, 601) for name in VARIANTS]
    return [
        partial(bytes_damage.check_flips, name, start, start + BYTES_PER_JOB, 1)
        for name in VARIANTS
        for start in range(0, len(golden_segment(name).data), BYTES_PER_JOB)
    ]


def strict_flip_jobs(quick: bool) -> list[Job]:
    return [partial(bytes_damage.check_flips_strictly, name, 0, 1 << 20, 601 if quick else 1) for name in VARIANTS]


def operator_jobs(quick: bool) -> list[Job]:
    seeds, per_job = (60, 60) if quick else (20_000, SEEDS_PER_JOB)
    return [
        partial(bytes_damage.check_operator, number, start, start + per_job)
        for number in range(len(bytes_damage.OPERATORS))
        for start in range(0, seeds, per_job)
    ]


def view_jobs(quick: bool) -> list[Job]:
    return [partial(bytes_damage.check_views, name, 1201 if quick else 3) for name in VARIANTS]


def table_jobs(quick: bool) -> list[Job]:
    return [partial(side_files.check_tables, name, 3001 if quick else 29) for name in VARIANTS]


def hostile_flip_jobs(quick: bool) -> list[Job]:
    return [partial(hostile_batches.check_hostile_flips, name, 211 if quick else 1) for name in VARIANTS]


def index_jobs(quick: bool) -> list[Job]:
    seeds, per_job = (300, 300) if quick else (10_000, SEEDS_PER_JOB)
    return [partial(side_files.check_indexes, start, start + per_job) for start in range(0, seeds, per_job)]


def healthy_jobs(quick: bool) -> list[Job]:
    return [verified_logs.check_healthy, verified_side_files.check_healthy_files]


def verified_cut_jobs(quick: bool) -> list[Job]:
    return [partial(verified_logs.check_cuts, name, 149 if quick else 1) for name in VARIANTS]


def verified_flip_jobs(quick: bool) -> list[Job]:
    return [partial(verified_logs.check_flips, name, 0, 1 << 20, 601 if quick else 1) for name in VARIANTS]


def verified_operator_jobs(quick: bool) -> list[Job]:
    seeds, per_job = (60, 60) if quick else (20_000, SEEDS_PER_JOB)
    return [
        partial(verified_logs.check_operator, number, start, start + per_job)
        for number in range(len(bytes_damage.OPERATORS))
        for start in range(0, seeds, per_job)
    ]


def verified_hostile_jobs(quick: bool) -> list[Job]:
    flips: list[Job] = [partial(verified_logs.check_hostile_flips, name, 211 if quick else 5) for name in VARIANTS]
    return [*flips, partial(verified_logs.check_hostile_batches, 10 if quick else 1500)]


def verified_index_jobs(quick: bool) -> list[Job]:
    seeds, per_job = (150, 150) if quick else (10_000, SEEDS_PER_JOB)
    random: list[Job] = [partial(verified_side_files.check_indexes, at, at + per_job) for at in range(0, seeds, per_job)]
    return [*random, partial(verified_side_files.check_index_flips, 97 if quick else 1)]


def large_jobs(quick: bool) -> list[Job]:
    large, tiny = (256 * MIB, 16 * MIB) if quick else (10 << 30, 2 << 30)
    return [
        partial(large_logs.check_memory, 100_000, large),
        partial(large_logs.check_memory, 40, tiny),
        partial(large_logs.check_large_claims, quick),
    ]


Argument = TypeVar("Argument")


def single(check: Callable[[Argument], Tally], sample: Argument, whole: Argument) -> Callable[[bool], list[Job]]:
    """One job, with an argument for the sample and another for the whole."""
    return lambda quick: [partial(check, sample if quick else whole)]


THREATS: dict[str, tuple[str, Callable[[bool], list[Job]]]] = {
    "T-01": ("cut at any byte", cut_jobs),
    "T-02": ("any bit flipped", flip_jobs),
    "T-02s": ("any bit flipped, strict + neighbours alone", strict_flip_jobs),
    "T-02v": ("any bit flipped, reads of a part", view_jobs),
    "T-02t": ("any bit flipped or byte cut, all tables", table_jobs),
    "T-03": ("bytes, bursts and sectors overwritten", operator_jobs),
    "T-04": ("hostile batch, right checksum", hostile_flip_jobs),
    "T-05": ("length lies", single(hostile_batches.check_lengths, True, False)),
    "T-06": ("counts lie", single(hostile_batches.check_counts, 2, 5)),
    "T-07": ("varints", single(hostile_batches.check_varints, 300, 10_000)),
    "T-10": ("nested sets", single(hostile_batches.check_nests, True, False)),
    "T-11": ("headers lie", single(hostile_batches.check_headers, True, False)),
    "T-12": ("offsets at the edges", single(hostile_batches.check_offsets, True, False)),
    "T-13": ("offsets go back", single(disorder.check_disorder, True, False)),
    "T-14": ("timestamps at the edges", single(disorder.check_timestamps, True, False)),
    "T-15": ("appends while reading", single(moving_files.check_appends, 300, 10_000)),
    "T-16": ("cut, renamed, deleted, replaced while reading", single(moving_files.check_replaced_files, 24, 400)),
    "T-17": ("zero tails", single(moving_files.check_zero_tails, True, False)),
    "T-18": ("last batch torn", single(moving_files.check_torn_batches, True, False)),
    "T-25": ("indexes lie", index_jobs),
    "T-26": ("snapshots and checkpoints cut", single(side_files.check_cut_side_files, 5, 1)),
    "T-27": ("more than memory", large_jobs),
    "V-00": ("verify: nothing is found where nothing is wrong", healthy_jobs),
    "V-01": ("verify: cut at any byte", verified_cut_jobs),
    "V-02": ("verify: any bit flipped", verified_flip_jobs),
    "V-03": ("verify: bytes, bursts and sectors overwritten", verified_operator_jobs),
    "V-04": ("verify: hostile batches, right checksum (T-04, T-06, T-07, T-10 to T-12)", verified_hostile_jobs),
    "V-05": ("verify: length lies", single(verified_logs.check_lengths, True, False)),
    "V-13": ("verify: offsets go back, timestamps lie (T-13, T-14)", single(verified_logs.check_disorder, True, False)),
    "V-15": ("verify: files that move (T-15, T-16)", single(verified_logs.check_moving_files, 24, 400)),
    "V-17": ("verify: zero tails, torn batches (T-17, T-18)", single(verified_logs.check_tails, True, False)),
    "V-24": ("verify: batches inside values", single(verified_logs.check_embedded, True, False)),
    "V-25": ("verify: indexes lie", verified_index_jobs),
    "V-26": ("verify: snapshots and checkpoints", single(verified_side_files.check_side_files, 37, 1)),
}
