"""The options of the encoder as flat keyword arguments, which tests combine freely."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from kafkalog.segment.encode import BatchFields, EncodeOptions, Producer


def encode_options(**given: Any) -> tuple[EncodeOptions, BatchFields]:
    """The arguments of `encode_batches` after the table."""
    producer = {field.name: given.pop(field.name) for field in fields(Producer) if field.name in given}
    options = {field.name: given.pop(field.name) for field in fields(EncodeOptions) if field.name in given}
    return EncodeOptions(**options), BatchFields(producer=Producer(**producer), **given)
