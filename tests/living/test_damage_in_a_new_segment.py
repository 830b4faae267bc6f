"""Damage that is all there is of a new segment is set aside once: the place of the next run is after it."""

from __future__ import annotations

from pathlib import Path

from tests.builders.small_logs import made_batch, write_segment
from tests.spark.ingested import damaged_rows, take


def test_damage_at_the_beginning_of_a_new_segment_is_set_aside_once(tmp_path: Path) -> None:
    folder, target = tmp_path / "logs" / "orders-0", tmp_path / "tables"
    write_segment(folder, 0, made_batch(0))
    take(tmp_path / "logs", target)
    damaged = bytearray(made_batch(10))
    damaged[80] ^= 1
    write_segment(folder, 10, bytes(damaged))
    take(tmp_path / "logs", target)
    write_segment(folder, 10, bytes(damaged), made_batch(20))
    assert take(tmp_path / "logs", target).records == 10
    assert len(damaged_rows(target)) == 1
