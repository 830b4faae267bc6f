"""Values decoded into columns: those that decode, those that do not, and that the two never mix."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog.errors import UsageError
from kafkalog.payloads.bounds import MAX_DEPTH, MAX_FIELDS
from kafkalog.payloads.ddl import parse_schema, spell_schema
from kafkalog.payloads.json import infer_type
from kafkalog.payloads.registry import likely_schema_id
from kafkalog.payloads.values import Decoder, PayloadSpec, infer_schema, make_decoder, normalised
from tests.conftest import require

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": ["null", "string"]},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {
            "name": "lines",
            "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [{"name": "count", "type": "int"}]}},
        },
    ],
}


def binary(*values: bytes | None) -> pa.Array:
    return pa.array(values, pa.binary())


def decoded(decoder: Decoder, *values: bytes | None) -> tuple[list[Any], list[int]]:
    """The values, and the rows that did not decode."""
    found, failed = decoder.decode(binary(*values))
    assert found.type == decoder.type
    return found.to_pylist(), [row for row, bad in enumerate(failed.tolist()) if bad]


# -- JSON --------------------------------------------------------------------------------------------------------------------

BROKEN = [
    b"",
    b"null",
    b"[1]",
    b"1",
    b"\xff\xfe",
    b'{"a":1',
    b'{"a":1}}',
    b'{"a":1}{"a":2}',
    b'{"a":1}}\n{"v":{"a":2}',
    b'1}{"v":2',
    b'{"a":"',
    b'{"a":"x"}',
    b'{"a":1.5}',
]


def test_json_becomes_columns_of_the_schema() -> None:
    schema = "id bigint, price decimal(10,2), `of day` date, tags array<string>, at struct<x:double, y:double>, ok boolean"
    value = b'{"id": 7,\n "price": "1.25", "of day": "2026-01-31", "tags": ["a"], "at": {"x": 1, "y": 2.5}, "ok": true, "z": 1}'
    rows, failed = decoded(make_decoder(PayloadSpec("json", schema)), value, b"{}", None)
    day, at = date(2026, 1, 31), {"x": 1.0, "y": 2.5}
    assert rows[0] == {"id": 7, "price": Decimal("1.25"), "of day": day, "tags": ["a"], "at": at, "ok": True}
    assert rows[1] == dict.fromkeys(rows[0])
    assert rows[2] is None
    assert failed == []


@given(st.lists(st.sampled_from([*BROKEN, None, b'{"a":7}', b'{"a":-1}', b'{"a":null}']), max_size=30))
def test_broken_json_never_touches_its_neighbours(values: list[bytes | None]) -> None:
    rows, failed = decoded(make_decoder(PayloadSpec("json", "a bigint")), *values)
    good = {b'{"a":7}': {"a": 7}, b'{"a":-1}': {"a": -1}, b'{"a":null}': {"a": None}}
    assert rows == [good.get(value) if value is not None else None for value in values]
    assert failed == [row for row, value in enumerate(values) if value in BROKEN]


def test_json_objects_become_maps_where_the_schema_says_so() -> None:
    schema = "tags map<string,string>, deep array<map<string,struct<n:map<string,decimal(20,2)>,days:array<date>>>>, id bigint"
    deep = b'[{"x":{"n":{"a":12345678901234567.25},"days":["2026-01-31",null]},"y":null},null,{}]'
    values = (
        b'{"tags":{"a":"1","\\u00e9\\"":null,"a":"2"},"deep":' + deep + b',"id":7,"more":{"a":[{"b":1e5}]}}',
        b'{"tags":null,"deep":[]}',
        None,
        b'{"tags":{}}',
    )
    rows, failed = decoded(make_decoder(PayloadSpec("json", schema)), *values)
    inner = {"n": [("a", Decimal("12345678901234567.25"))], "days": [date(2026, 1, 31), None]}
    assert rows[0] == {"tags": [("a", "2"), ('\u00e9"', None)], "deep": [[("x", inner), ("y", None)], None, []], "id": 7}
    assert rows[1] == {"tags": None, "deep": [], "id": None}
    assert rows[2] is None
    assert rows[3] == {"tags": [], "deep": None, "id": None}
    assert failed == []


@given(st.lists(st.sampled_from([*BROKEN, None, b'{"a":7}', b'{"m":{"k":1}}', b'{"m":[]}', b'{"m":{"k":"1"}}']), max_size=30))
def test_broken_json_never_touches_the_maps_beside_it(values: list[bytes | None]) -> None:
    rows, failed = decoded(make_decoder(PayloadSpec("json", "a bigint, m map<string,bigint>")), *values)
    good = {b'{"a":7}': {"a": 7, "m": None}, b'{"m":{"k":1}}': {"a": None, "m": [("k", 1)]}}
    assert rows == [good.get(value) if value is not None else None for value in values]
    assert failed == [row for row, value in enumerate(values) if value is not None and value not in good]


def test_json_nested_too_deep_for_a_map_is_kept_as_bytes() -> None:
    deep = b'{"m":{"k":1},"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert decoded(make_decoder(PayloadSpec("json", "m map<string,bigint>")), deep, b'{"m":{}}') == ([None, {"m": []}], [0])


def test_a_slice_of_an_array_is_decoded_for_itself() -> None:
    values = binary(b"x", b'{"a":1}', None, b'{"a":2}').slice(1, 3)
    found, failed = make_decoder(PayloadSpec("json", "a bigint")).decode(values)
    assert found.to_pylist() == [{"a": 1}, None, {"a": 2}]
    assert not failed.any()


def test_fields_beyond_a_given_schema_are_left_out_but_beyond_an_inferred_one_kept_as_bytes() -> None:
    assert decoded(make_decoder(PayloadSpec("json", "a bigint")), b'{"a":1,"b":2}') == ([{"a": 1}], [])
    assert decoded(make_decoder(PayloadSpec("json", "a bigint", is_inferred=True)), b'{"a":1,"b":2}') == ([None], [0])


def test_a_schema_is_inferred_from_what_decodes() -> None:
    sample = binary(b'{"a":1,"t":"2026-01-01 00:00:00"}', b"broken", None, b'{"a":1.5,"n":null,"e":{},"s":{"l":[1]}}')
    spec = infer_schema(PayloadSpec("json"), sample)
    assert spec.schema == "a double, t string, n string, s struct<l:array<bigint>>"
    assert decoded(make_decoder(spec), b'{"a":2,"t":"now"}')[1] == []


def test_of_values_that_contradict_each_other_the_first_ones_give_the_schema() -> None:
    sample = [b'{"n":null}', b'{"n":1,"t":"2026-01-31T00:00:00Z"}', b'{"n":1.5,"t":"now"}', b"{", b'{"n":"one"}']
    spec = infer_schema(PayloadSpec("json"), pa.array(sample, pa.binary()))
    assert spec.schema == "n double, t string"
    assert decoded(make_decoder(spec), *sample)[1] == [3, 4]


def test_a_sample_without_objects_has_no_schema() -> None:
    for sample in (binary(), binary(None, b"broken"), binary(b"1", b"2")):
        with pytest.raises(UsageError, match="no schema can be inferred"):
            infer_schema(PayloadSpec("json"), sample)


# -- schemas -----------------------------------------------------------------------------------------------------------------


def test_ddl_and_sparks_json_say_the_same() -> None:
    ddl = "id long NOT NULL, at struct<x: double, list: array<int>>, price decimal(4, 1), m map<string, array<int>>"
    as_json = json.dumps(
        {
            "type": "struct",
            "fields": [
                {"name": "id", "type": "long", "nullable": False, "metadata": {}},
                {
                    "name": "at",
                    "type": {
                        "type": "struct",
                        "fields": [
                            {"name": "x", "type": "double"},
                            {"name": "list", "type": {"type": "array", "elementType": "integer", "containsNull": True}},
                        ],
                    },
                },
                {"name": "price", "type": "decimal(4,1)"},
                {
                    "name": "m",
                    "type": {
                        "type": "map",
                        "keyType": "string",
                        "valueType": {"type": "array", "elementType": "integer", "containsNull": True},
                        "valueContainsNull": True,
                    },
                },
            ],
        }
    )
    assert parse_schema(ddl) == parse_schema(as_json)
    spelled = "id bigint, at struct<x:double,list:array<int>>, price decimal(4,1), m map<string,array<int>>"
    assert spell_schema(parse_schema(ddl)) == spelled
    assert normalised(PayloadSpec("json", as_json)).schema == spelled


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("", "the schema is empty"),
        ("id", "a type expected, its end found"),
        ("id bigin", "unknown type 'bigin' in the schema; allowed are boolean"),
        ("id bigint, id string", "has the field 'id' twice"),
        ("a array<int", "'>' expected, its end found"),
        ("a int)", "the end expected, ')' found"),
        ("a decimal(50,2)", "beyond decimal"),
        ('{"type":"set"}', "not one of Spark's types"),
        ('{"type":"map"}', "not a Spark schema"),
        ('{"type":"map","keyType":"string","valueType":"long"}', "must be a struct"),
        ("m map<int,string>", "write map<string,...>"),
        ("m map<string>", "',' expected, '>' found"),
        ('{"type"', "the schema is not JSON"),
        ('{"type":"struct"}', "not a Spark schema"),
    ],
)
def test_a_malformed_schema_is_refused(schema: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_schema(schema)
    assert message in str(caught.value)


# -- Avro --------------------------------------------------------------------------------------------------------------------


def avro_order() -> tuple[dict[str, Any], bytes]:
    require("fastavro")
    import fastavro

    order: dict[str, Any] = {
        "id": 1 << 40,
        "customer": None,
        "amount": Decimal("12.30"),
        "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
        "day": date(2026, 1, 31),
        "state": "PAID",
        "tags": {"a": "b"},
        "lines": [{"count": 3}],
    }
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(ORDER), order)
    return order, stream.getvalue()


def test_avro_becomes_columns_and_what_is_cut_short_or_too_long_does_not() -> None:
    order, value = avro_order()
    decoder = make_decoder(PayloadSpec("avro", json.dumps(ORDER)))
    rows, failed = decoded(decoder, value, value[:-1], value + b"x", b"", None, value)
    expected = {**order, "tags": [("a", "b")]}
    assert rows == [expected, None, None, None, None, expected]
    assert failed == [1, 2, 3]


def test_the_prefix_of_a_schema_registry_is_stepped_over() -> None:
    _, value = avro_order()
    decoder = make_decoder(PayloadSpec("avro", json.dumps(ORDER), registry_prefix=True))
    rows, failed = decoded(decoder, b"\0\0\0\0\7" + value, value, b"\0\0")
    assert [row is None for row in rows] == [False, True, True]
    assert failed == [1, 2]


def test_json_may_have_that_prefix_too_and_its_schema_is_inferred_from_what_follows() -> None:
    values = [b'\0\0\0\0\7{"id":1}', b'{"id":2}', None, b"\0\0", b'\0\0\0\0\7{"id":3}']
    spec = infer_schema(PayloadSpec("json", registry_prefix=True), pa.array([values[0], values[2]], pa.binary()))
    assert decoded(make_decoder(spec), *values) == ([{"id": 1}, None, None, None, {"id": 3}], [1, 3])


@pytest.mark.parametrize(
    ("values", "schema_id"),
    [
        ([b"\0\0\0\0\7abc", None, b"\0\0\0\0\7", b"\0\0\0\1\0x"], 7),
        ([b"\0\0\0\0\7abc", b"abc"], None),
        ([b"\0\0\0\0\0abc"], None),
        ([b"\0\xff\0\0\1abc"], None),
        ([b"\0\0\0"], None),
        ([b"\0" + number.to_bytes(4, "big") for number in range(1, 200)], None),
        ([None], None),
        ([], None),
    ],
)
def test_a_registrys_prefix_is_recognised_by_few_small_schema_ids(values: list[bytes | None], schema_id: int | None) -> None:
    assert likely_schema_id(pa.array(values, pa.binary())) == schema_id


def test_a_time_beyond_arrow_leaves_out_that_value_only() -> None:
    require("fastavro")
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}]})
    rows, failed = decoded(make_decoder(PayloadSpec("avro", schema)), b"\x02", b"\xff\xff\xff\xff\xff\x7f", b"\x04")
    assert (rows, failed) == ([{"n": 1}, None, {"n": 2}], [1])


def test_an_avro_uuid_is_text() -> None:
    require("fastavro")
    schema = json.dumps({"type": "string", "logicalType": "uuid"})
    text = "0d8f2d0a-9f0e-4c7e-8a3b-6d1f4b1d2c3e"
    assert decoded(make_decoder(PayloadSpec("avro", schema)), b"\x48" + text.encode()) == ([text], [])


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "not an Avro schema"),
        ('{"type":"bytes","logicalType":"decimal","precision":50,"scale":2}', "decimal(50,2) is not between"),
        ('{"type":"bytes","logicalType":"decimal"}', "decimal(0,0) is not between"),
        ('{"type":"recordd","name":"a"}', "not an Avro schema"),
        ('["int","string"]', "a union of 2 types has no single column"),
        (
            '{"type":"record","name":"n","fields":[{"name":"next","type":["null","n"]}]}',
            "is used inside itself",
        ),
    ],
)
def test_an_avro_schema_without_fixed_columns_is_refused(schema: str, message: str) -> None:
    require("fastavro")
    with pytest.raises(UsageError) as caught:
        make_decoder(PayloadSpec("avro", schema))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "xml"}, "unknown encoding of values 'xml'; allowed are json, avro"),
        ({"format": "avro"}, "Avro needs the schema"),
    ],
)
def test_specs_that_make_no_sense_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        PayloadSpec(**arguments)
    assert message in str(caught.value)


@settings(max_examples=100)
@given(st.lists(st.binary(max_size=40), max_size=20), st.booleans())
def test_no_bytes_make_the_avro_decoder_raise(values: list[bytes], registry_prefix: bool) -> None:
    require("fastavro")
    kinds = ["long", "string", {"type": "array", "items": "int"}, ["null", "bytes"], {"type": "map", "values": "double"}]
    kinds += [{"type": "enum", "name": "E", "symbols": ["X", "Y"]}, {"type": "long", "logicalType": "timestamp-micros"}]
    kinds += [{"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, {"type": "int", "logicalType": "date"}]
    fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(kinds)]
    for schema in (*kinds, {"type": "record", "name": "A", "fields": fields}):
        decoder = make_decoder(PayloadSpec("avro", json.dumps(schema), registry_prefix=registry_prefix))
        decoded, failed = decoder.decode(pa.array(values, pa.binary()))
        assert len(decoded) == len(failed) == len(values)


# -- too deep or too wide --------------------------------------------------------------------------------------------------------


def nested_object(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


@pytest.mark.parametrize("levels", [1000, 20_000, 1_000_000])
def test_json_nested_too_deeply_is_undecodable_and_never_a_crash(levels: int) -> None:
    decoder = make_decoder(PayloadSpec("json", "a bigint"))
    deep = [nested_object(levels), b'{"a":' + b"[" * levels + b"]" * levels + b"}", b"[" * levels, b'{"b":"\\\\' + b"{" * levels]
    assert decoded(decoder, b'{"a":1}', *deep)[1] == [1, 2, 3, 4]
    assert infer_schema(PayloadSpec("json"), binary(*deep, b'{"n": 2}')).schema == "n bigint"
    with pytest.raises(UsageError, match="pass a schema"):
        infer_schema(PayloadSpec("json"), binary(*deep))


def test_json_of_as_many_levels_as_are_allowed_decodes() -> None:
    spec = infer_schema(PayloadSpec("json"), binary(nested_object(MAX_DEPTH), nested_object(MAX_DEPTH + 1)))
    assert normalised(spec) == spec
    assert decoded(make_decoder(spec), nested_object(MAX_DEPTH), nested_object(MAX_DEPTH + 1))[1] == [1]


def test_brackets_inside_of_strings_are_no_levels() -> None:
    values = [json.dumps({"a": text}).encode() for text in ("{[" * 100, '"{' * 100, "\\" * 7 + "{" * 100, "}" * 100 + "[" * 164)]
    assert decoded(make_decoder(PayloadSpec("json", "a string")), *values)[1] == []
    hidden = b'{"a":"' + b"}" * 100 + b'","b":' + b"[" * 100 + b"]" * 100 + b"}"
    assert decoded(make_decoder(PayloadSpec("json", "a string")), hidden)[1] == [0]


def test_an_object_of_a_hundred_thousand_fields_gives_no_schema_of_its_own() -> None:
    wide = [json.dumps({f"k{row}_{key}": key for key in range(100_000)}).encode() for row in range(2)]
    spec = infer_schema(PayloadSpec("json"), binary(*wide, b'{"n": 1}'))
    assert spec.schema == "n bigint"
    assert decoded(make_decoder(spec), *wide, b'{"n": 1}')[1] == [0, 1]


def test_many_values_of_ever_new_fields_give_a_schema_of_bounded_width() -> None:
    values = [json.dumps({f"k{row}_{key}": key for key in range(500)}).encode() for row in range(40)]
    schema = infer_schema(PayloadSpec("json"), binary(*values)).schema
    assert schema is not None
    assert 500 <= len(parse_schema(schema)) <= MAX_FIELDS


DEEP_DDL = "a " + "struct<a:" * 10_000 + "int" + ">" * 10_000
DEEP_ARRAY = "a " + "array<" * 10_000 + "int" + ">" * 10_000


def deep_spark_json(levels: int) -> str:
    return '{"type":"struct","fields":[{"name":"a","type":' * levels + '"long"' + "}]}" * levels


@pytest.mark.parametrize("schema", [DEEP_DDL, DEEP_ARRAY, deep_spark_json(70), deep_spark_json(10_000)])
def test_a_schema_nested_too_deeply_is_refused_with_the_limit(schema: str) -> None:
    with pytest.raises(UsageError, match="at most 64 levels"):
        parse_schema(schema)


def test_an_avro_schema_that_is_too_deep_or_too_wide_is_refused_with_the_limit() -> None:
    require("fastavro")

    def record(level: int, inner: str) -> str:
        return f'{{"type":"record","name":"R{level}","fields":[{{"name":"a","type":{inner}}}]}}'

    deep = '"int"'
    for level in range(70):
        deep = record(level, deep)
    for schema in (deep, '{"type":"array","items":' * 10_000 + '"int"' + "}" * 10_000):
        with pytest.raises(UsageError, match="at most 64 levels"):
            make_decoder(PayloadSpec("avro", schema))
    doubled: dict[str, Any] = {"type": "record", "name": "R0", "fields": [{"name": "a", "type": "int"}]}
    for level in range(1, 40):
        fields = [{"name": "a", "type": doubled}, {"name": "b", "type": f"R{level - 1}"}]
        doubled = {"type": "record", "name": f"R{level}", "fields": fields}
    with pytest.raises(UsageError, match="2000 fields"):
        make_decoder(PayloadSpec("avro", json.dumps(doubled)))
    with pytest.raises(UsageError, match="take no bytes"):
        make_decoder(PayloadSpec("avro", '{"type":"array","items":"null"}'))
    with pytest.raises(UsageError, match="inside itself"):
        make_decoder(PayloadSpec("avro", record(0, '["null","R0"]')))


def test_a_name_of_a_field_that_is_no_text_does_not_end_the_search_for_a_schema() -> None:
    found = infer_type(pa.array([b'{"\xff":1}', b'{"id":1}'], pa.binary()))
    assert found == pa.struct([("id", pa.int64())])
