"""The notebook runs from its first cell to its last, and shows what it says it shows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import require
from tests.tidy.source import ROOT

NOTEBOOK = ROOT / "examples" / "first_look.ipynb"
NEEDED = ("nbclient", "nbformat", "ipykernel", "pandas", "polars", "duckdb")


def read_notebook() -> Any:
    import nbformat

    return nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the code cells show, as HTML if they do, else as text."""
    require(*NEEDED)
    from nbclient import NotebookClient

    folder = tmp_path_factory.mktemp("notebook")
    notebook = read_notebook()
    client = NotebookClient(notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    client.execute()
    return [shown(cell) for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell: Any) -> str:
    parts = []
    for output in cell.outputs:
        data = output.get("data", {})
        parts.append(data.get("text/html") or data.get("text/plain") or output.get("text", ""))
    return "".join(parts)


def test_every_cell_shows_what_it_is_for(outputs: list[str]) -> None:
    listing, topics, records, cities, days, findings, report, transactions = outputs[1:]
    assert ">payments</td>" in listing
    assert topics == "['audit', 'clicks', 'orders', 'payments']"
    assert "&quot;order_id&quot;" in records or '"order_id"' in records
    assert "Lisbon" in cities
    assert "2026-01-03" in days
    assert "the stored checksum does not match the bytes" in findings
    assert "2850 records" in report
    assert ">crc</td>" in report
    assert "payments-0" in transactions


def test_it_is_stored_without_outputs_which_would_go_stale() -> None:
    require("nbformat")
    cells = [cell for cell in read_notebook().cells if cell.cell_type == "code"]
    assert [cell for cell in cells if cell.outputs or cell.execution_count is not None] == []
