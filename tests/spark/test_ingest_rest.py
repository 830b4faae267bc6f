"""Ingests into tables of Iceberg's own REST catalog, over a connection that loses requests and answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkalog.spark.ingestion import lake_table
from tests.builders.small_logs import made_batch, write_segment
from tests.conftest import unavailable
from tests.spark.ingested import read_logs, write_orders
from tests.spark.lake_tables import take_lake
from tests.spark.rest_catalog import PASSES, UNHEARD, UNSENT, Proxy, properties_of, read_rest, resolve_catalog, rest_catalog


@pytest.fixture
def catalog_port(tmp_path: Path) -> Iterator[int]:
    problem = resolve_catalog()
    if problem is not None:
        unavailable(problem)
    with rest_catalog(tmp_path / "catalog") as port:
        yield port


@pytest.mark.slow
def test_a_rest_catalog_whose_answers_are_lost_gets_every_record_once(
    catalog_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = write_orders(tmp_path / "logs")
    monkeypatch.setattr(lake_table, "PAUSE_SECONDS", 0.001)
    fates: list[str] = []

    def fate(method: str, path: str) -> str:
        return fates.pop(0) if method == "POST" and path.endswith("/tables/orders") and fates else PASSES

    with Proxy(catalog_port, fate).running() as port:
        for number, lost in enumerate(([], [UNHEARD], [UNSENT], [UNSENT, UNSENT, UNHEARD])):
            fates[:] = lost
            summary = take_lake(logs, tmp_path / "lake", "iceberg", catalog_properties=properties_of(port))
            assert (summary.commit, fates) == (number + 1, [])
            assert read_rest(catalog_port) == read_logs(logs)
            write_segment(logs / "orders-0", 110 + 10 * number, made_batch(110 + 10 * number))
