"""`text=`: keys and values as text columns; no byte is lost unless the user said so."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import kafkalog
from kafkalog.errors import UsageError
from kafkalog.format.reference import Record, encode_batch
from tests.builders.small_logs import write_segment


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    records = [Record(0, 1, b"k", "größe 🙂".encode()), Record(1, 2, None, None), Record(2, 3, b"", b"x\xffy")]
    write_segment(tmp_path / "orders-0", 0, encode_batch(records[:2]), encode_batch(records[2:]))
    return tmp_path


@pytest.mark.parametrize("views", [False, True])
def test_text_columns_have_the_values_as_text_and_null_stays_null(logs: Path, views: bool) -> None:
    table = kafkalog.open(logs).read(columns=["offset", "value", "key"], text=["value"], views=views, stop_offset=2).read_all()
    assert table.schema.field("value").type == (pa.string_view() if views else pa.string())
    assert table["value"].to_pylist() == ["größe 🙂", None]
    assert table["key"].to_pylist() == [b"k", None]


def test_a_value_that_is_not_utf_8_is_named_and_nothing_is_invented(logs: Path) -> None:
    with pytest.raises(UsageError, match=r"the value is not UTF-8 .* byte 0xff at 1 \(topic 'orders', partition 0, offset 2\)"):
        kafkalog.open(logs).read(text=["key", "value"]).read_all()
    assert kafkalog.open(logs).read(text="key").read_all()["key"].to_pylist() == ["k", None, ""]


def test_replaced_bytes_are_counted(logs: Path) -> None:
    opened = kafkalog.open(logs)
    assert opened.read(text="value", text_errors="replace").read_all()["value"].to_pylist()[2] == "x\ufffdy"
    assert opened.report.notes == {"not-utf8": 1}


def test_followed_records_are_text_too(logs: Path) -> None:
    batches = kafkalog.open(logs).follow(["value"], text="value", stop_offset=2, stop=lambda: True)
    assert [text for batch in batches for text in batch.column("value").to_pylist()] == ["größe 🙂", None]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"text": "offset"}, "only key and value"),
        ({"text": "value", "columns": ["key"]}, "not among the columns that are read: key"),
        ({"text": "value", "table": "batches"}, "table batches has no keys and values"),
        ({"text": "value", "text_errors": "ignore"}, "allowed are strict, replace"),
    ],
)
def test_what_cannot_be_text_is_refused(logs: Path, arguments: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        kafkalog.open(logs).read(**arguments)  # type: ignore[arg-type]
