"""Decoded values: the column `value` becomes a struct, and `value_raw` keeps the bytes of values that do not decode."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkalog.errors import UsageError, path_text
from kafkalog.payloads.registry import likely_schema_id
from kafkalog.payloads.values import Decoder, infer_schema, make_decoder
from kafkalog.tables.logs import Logs

from .ingest_options import IngestOptions
from .ingest_plan import PartitionPlan

RAW: Final = "value_raw"
SAMPLE_OF_PARTITION: Final = 1000
SAMPLE: Final = 10_000


@dataclass(frozen=True)
class ValueColumns:
    """Decodes the values of a batch."""

    decoder: Decoder
    keep_raw: bool

    @classmethod
    def of(cls, options: IngestOptions) -> ValueColumns | None:
        """None if values stay bytes."""
        return None if options.payload is None else cls(make_decoder(options.payload), options.keep_raw)

    def decode(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        """The batch with decoded values, and how many did not decode."""
        values = batch.column("value")
        decoded, failed = self.decoder.decode(values)
        raw = values if self.keep_raw else pc.if_else(pa.array(failed), values, pa.scalar(None, pa.binary()))
        at = batch.schema.get_field_index("value")
        stored = decoded.cast(stored_type(decoded.type))
        return batch.set_column(at, "value", stored).append_column(RAW, raw), int(failed.sum())


def stored_type(kind: pa.DataType) -> pa.DataType:
    """The type in Parquet: Spark cannot read a time of day, so it is stored as the number that Avro has for it."""
    if pa.types.is_time(kind):
        return pa.int32() if pa.types.is_time32(kind) else pa.int64()
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, stored_type(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(stored_type(kind.value_type))
    if not pa.types.is_struct(kind):
        return kind
    if not kind.num_fields:
        raise UsageError("the schema has a record without fields, which Parquet cannot store")
    return pa.struct([(field.name, stored_type(field.type)) for field in kind])


def check_values(options: IngestOptions) -> None:
    """UsageError for a schema that no table can have."""
    if options.payload is not None and options.payload.schema is not None:
        stored_type(make_decoder(options.payload).type)


def refuse_registry_prefix(options: IngestOptions, plans: tuple[PartitionPlan, ...]) -> None:
    """UsageError if the first values look as if a schema registry's five bytes preceded them, and none decodes as it is.

    A table of values that do not decode is no use, and a later run cannot change its settings.
    """
    payload = options.payload
    if payload is None or payload.registry_prefix:
        return
    seen = 0
    for plan in plans:
        values = _first_values(plan)
        seen += len(values)
        if seen > SAMPLE:
            return
        schema_id = likely_schema_id(values)
        # No JSON begins with a zero byte.
        if schema_id is None or (payload.format == "avro" and not make_decoder(payload).decode(values)[1].all()):
            continue
        raise UsageError(
            f"{path_text(str(plan.found.partition))}: the values begin with a zero byte and schema id {schema_id}, as the "
            "serializers of a schema registry write them, and none decodes as it is: --registry-prefix (registry_prefix=True) "
            "skips these five bytes"
        )


def with_schema(options: IngestOptions, plans: tuple[PartitionPlan, ...]) -> IngestOptions:
    """The options with a schema inferred from the first values, if none was given."""
    if options.payload is None or options.payload.schema is not None:
        return options
    parts: list[pa.Array] = []
    for plan in plans:
        parts.append(_first_values(plan))
        if sum(map(len, parts)) >= SAMPLE:
            break
    return replace(options, payload=infer_schema(options.payload, pa.concat_arrays([pa.array([], pa.binary()), *parts])))


def _first_values(plan: PartitionPlan) -> pa.Array:
    partition = plan.found.partition
    logs = Logs(partition.folder, [partition])
    for batch in logs.read("records", ["value"], start_offset=plan.start_offset, on_damage="skip", threads=1):
        return batch.column(0).slice(0, SAMPLE_OF_PARTITION)
    return pa.array([], pa.binary())
