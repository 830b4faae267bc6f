"""JSON and Avro in keys and values, decoded column-wise into Arrow.

A decoder turns an array of bytes into an array of one fixed type. Values that do not decode are null there and marked, so the
caller can keep their bytes: nothing is lost.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from kafkalog.errors import UsageError, name_text

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

FORMATS: Final = ("json", "avro")


@dataclass(frozen=True)
class PayloadSpec:
    """How values are encoded. `schema` is DDL for JSON and Avro's own JSON for Avro; None if it is still to be inferred.

    With `is_inferred` a field that the schema does not have makes a value undecodable, so its bytes are kept.
    """

    format: str
    schema: str | None = None
    is_inferred: bool = False
    registry_prefix: bool = False

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise UsageError(f"unknown encoding of values {self.format!r}; allowed are {', '.join(FORMATS)}")
        if self.format == "avro" and self.schema is None:
            raise UsageError("Avro needs the schema the values were written with")

    def __repr__(self) -> str:
        schema = "to be inferred" if self.schema is None else name_text(self.schema)
        return f"PayloadSpec({self.format!r}, schema {schema}{', inferred' if self.is_inferred else ''})"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Decoder(Protocol):
    """Turns bytes into columns."""

    @property
    def type(self) -> pa.DataType: ...

    def decode(self, values: pa.Array) -> tuple[pa.Array, NDArray[np.bool_]]:
        """The decoded values, null where a value is null or does not decode; and which do not."""
        ...


def make_decoder(spec: PayloadSpec) -> Decoder:
    """The decoder for these values; UsageError for a schema that it does not support."""
    if spec.schema is None:
        raise UsageError("the schema is not known yet; infer it from a sample first")
    decoder = _decoder_of_schema(spec, spec.schema)
    if not spec.registry_prefix:
        return decoder
    from .registry import PrefixedDecoder

    return PrefixedDecoder(decoder)


def _decoder_of_schema(spec: PayloadSpec, schema: str) -> Decoder:
    if spec.format == "json":
        from .ddl import parse_schema
        from .json import JsonDecoder

        return JsonDecoder(parse_schema(schema), ignore_unknown=not spec.is_inferred)
    from .avro import AvroDecoder

    return AvroDecoder(schema)


def normalised(spec: PayloadSpec) -> PayloadSpec:
    """The spec with its schema in one spelling, so that two spellings compare equal; UsageError if it is not a schema."""
    if spec.schema is None:
        return spec
    if spec.format == "json":
        from .ddl import parse_schema, spell_schema

        schema = spell_schema(parse_schema(spec.schema))
    else:
        from .avro import spell_schema as spell_avro

        schema = spell_avro(spec.schema)
    made = PayloadSpec(spec.format, schema, spec.is_inferred, spec.registry_prefix)
    make_decoder(made)
    return made


def infer_schema(spec: PayloadSpec, sample: pa.Array) -> PayloadSpec:
    """The spec with the schema of a sample of values; only JSON describes itself well enough."""
    from .ddl import spell_schema
    from .json import infer_type
    from .registry import without_prefix

    values = without_prefix(sample) if spec.registry_prefix else sample
    return PayloadSpec(spec.format, spell_schema(infer_type(values)), True, spec.registry_prefix)
