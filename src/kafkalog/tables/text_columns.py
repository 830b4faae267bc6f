"""Keys and values as text columns, for those who ask for them: Kafka stores bytes, and only the user knows that they are text."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from kafkalog.errors import UsageError, name_text
from kafkalog.log.report import ReadReport

CHOICES = ("key", "value")
ERRORS = ("strict", "replace")
REPLACED = "not-utf8"  # how ReadReport.notes counts texts with U+FFFD in place of bytes
PLACE = ("topic", "partition", "offset")


@dataclass(frozen=True)
class TextColumns:
    """These columns of `records` as UTF-8. What is not UTF-8 is an error ("strict"), or U+FFFD stands for it ("replace")."""

    names: tuple[str, ...]
    errors: str = ERRORS[0]

    def __post_init__(self) -> None:
        for name in self.names:
            if name not in CHOICES:
                raise UsageError(f"text={name!r}: only key and value can be text columns")
        if self.errors not in ERRORS:
            raise UsageError(f"text_errors={self.errors!r} is unknown; allowed are {', '.join(ERRORS)}")

    def schema(self, stored: pa.Schema) -> pa.Schema:
        """The schema with text in place of bytes; UsageError for a column that it does not have."""
        for name in self.names:
            if name not in stored.names:
                raise UsageError(f"text={name!r}: not among the columns that are read: {', '.join(stored.names)}")
        return pa.schema([field.with_type(_text_type(field.type)) if field.name in self.names else field for field in stored])

    def convert(self, batch: pa.RecordBatch, report: ReadReport) -> pa.RecordBatch:
        columns = [
            self._text(batch, field.name, report) if field.name in self.names else column
            for field, column in zip(batch.schema, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema(batch.schema))

    def _text(self, batch: pa.RecordBatch, name: str, report: ReadReport) -> pa.Array:
        column = batch.column(name)
        try:
            return column.cast(_text_type(column.type))
        except pa.ArrowInvalid:
            pass
        texts: list[str | None] = []
        for row, value in enumerate(column.to_pylist()):
            try:
                texts.append(None if value is None else value.decode())
            except UnicodeDecodeError as error:
                if self.errors == "strict":
                    raise UsageError(_refusal(batch, name, row, error)) from None
                texts.append(value.decode(errors="replace"))
                report.note(REPLACED)
        return pa.array(texts, _text_type(column.type))


def _text_type(stored: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_binary(stored) else pa.string_view()


def _refusal(batch: pa.RecordBatch, name: str, row: int, error: UnicodeDecodeError) -> str:
    place = [f"{part} {_shown(batch.column(part)[row].as_py())}" for part in PLACE if part in batch.schema.names]
    return (
        f"the {name} is not UTF-8 and cannot be text: byte 0x{error.object[error.start]:02x} at {error.start} "
        f"({', '.join(place) or f'row {row} of its batch'}); "
        f'leave {name} out of the text columns, or replace such bytes by U+FFFD (text_errors="replace", --text-errors replace)'
    )


def _shown(value: object) -> str:
    return name_text(value) if isinstance(value, str) else str(value)
