"""Decoded values in the tables of the pipeline: as Spark reads them, and schemas that no table can have."""

from __future__ import annotations

import io
import json
from datetime import time
from pathlib import Path
from typing import Any

import pytest

from kafkalog.format.reference import Record, encode_batch
from kafkalog.spark.errors import SparkSourceError
from tests.builders.small_logs import write_segment
from tests.conftest import require
from tests.spark.ingested import take


def record(**fields: Any) -> str:
    return json.dumps({"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]})


def write_avro(folder: Path, schema: str, value: dict[str, Any]) -> Path:
    require("fastavro")
    import fastavro

    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(schema)), value)
    write_segment(folder / "orders-0", 0, encode_batch([Record(0, 1_700_000_000_000, None, stream.getvalue())]))
    return folder


def test_spark_reads_a_table_of_avro_values_with_times_of_day(tmp_path: Path, spark: Any) -> None:
    millis, micros = {"type": "int", "logicalType": "time-millis"}, {"type": "long", "logicalType": "time-micros"}
    schema = record(at=millis, all={"type": "map", "values": {"type": "array", "items": micros}})
    logs = write_avro(tmp_path / "logs", schema, {"at": time(0, 0, 1), "all": {"a": [time(0, 0, 2)]}})
    assert take(logs, tmp_path / "tables", value="avro", schema=schema).undecoded == 0
    value = spark.read.parquet(str(tmp_path / "tables")).collect()[0].value
    assert (value.at, value.all) == (1000, {"a": [2_000_000]})


@pytest.mark.parametrize("schema", [record(), record(inner=json.loads(record()))])
def test_an_avro_record_without_fields_is_refused_before_anything_is_read(tmp_path: Path, schema: str) -> None:
    require("fastavro")
    schema = schema.replace('"name": "r", "fields": []', '"name": "empty", "fields": []')
    with pytest.raises(SparkSourceError, match=r"a record without fields, which Parquet cannot store$"):
        take(tmp_path / "logs", tmp_path / "tables", value="avro", schema=schema)


def test_spark_reads_a_table_of_json_values_with_maps(tmp_path: Path, spark: Any) -> None:
    values = [b'{"tags":{"a":1,"b":null},"id":7}', b'{"tags":"none"}', b'{"id":8}']
    records = [Record(offset, 1_700_000_000_000, None, value) for offset, value in enumerate(values)]
    write_segment(tmp_path / "logs" / "orders-0", 0, encode_batch(records))
    summary = take(tmp_path / "logs", tmp_path / "tables", value="json", schema="id bigint, tags map<string, bigint>")
    assert summary.undecoded == 1
    table = spark.read.parquet(str(tmp_path / "tables"))
    assert dict(table.select("value.*").dtypes) == {"id": "bigint", "tags": "map<string,bigint>"}
    rows = {row.offset: (row.value, row.value_raw) for row in table.collect()}
    assert (rows[0][0].id, rows[0][0].tags) == (7, {"a": 1, "b": None})
    assert rows[1] == (None, values[1])
    assert (rows[2][0].id, rows[2][0].tags) == (8, None)


def test_json_values_that_contradict_each_other_do_not_stop_a_run(tmp_path: Path) -> None:
    values = [b'{"n":1}', b'{"n":"one"}', b'{"n":2}']
    records = [Record(offset, 1_700_000_000_000, None, value) for offset, value in enumerate(values)]
    write_segment(tmp_path / "logs" / "orders-0", 0, encode_batch(records))
    summary = take(tmp_path / "logs", tmp_path / "tables", value="json")
    assert (summary.records, summary.undecoded) == (3, 1)


@pytest.mark.parametrize("kind", ["json", "avro"])
def test_a_registrys_prefix_is_named_before_a_table_of_undecoded_values_is_made(tmp_path: Path, kind: str) -> None:
    require("fastavro")
    value = b'{"id":1}' if kind == "json" else b"\x02x"
    schema = None if kind == "json" else '{"type":"record","name":"r","fields":[{"name":"s","type":"string"}]}'
    records = [Record(offset, 1_700_000_000_000, None, b"\0\0\0\0\7" + value) for offset in range(3)]
    write_segment(tmp_path / "logs" / "orders-0", 0, encode_batch(records))
    choices: dict[str, Any] = {"value": kind, "schema": schema}
    with pytest.raises(SparkSourceError, match=r"orders-0: .* schema id 7, .* --registry-prefix"):
        take(tmp_path / "logs", tmp_path / "tables", **choices)
    done = take(tmp_path / "logs", tmp_path / "tables", registry_prefix=True, **choices)
    assert (done.commit, done.records, done.undecoded) == (1, 3, 0)
