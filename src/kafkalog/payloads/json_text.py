"""Values as JSON text, as the library that Kafka uses writes them."""

from __future__ import annotations

import base64
import json
import math
from decimal import Decimal
from typing import Any

_ESCAPES = {chr(code): f"\\u{code:04X}" for code in range(32)}
_ESCAPES |= {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_TABLE = str.maketrans(_ESCAPES)

# Java writes a double plainly from this power of ten up to that one.
PLAIN_FROM, PLAIN_TO = -3, 7


def json_text(value: Any) -> str:
    """Compact JSON; bytes become base64."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(name)}:{json_text(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if isinstance(value, str):
        return '"' + value.translate(_TABLE) + '"'
    if isinstance(value, bytes):
        return '"' + base64.b64encode(value).decode() + '"'
    if isinstance(value, float):
        return java_double(value)
    return json.dumps(value)


def java_double(value: float) -> str:
    """`value` as Java's Double.toString has it; what is no number is a string in JSON."""
    if math.isnan(value) or math.isinf(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    _, digits, exponent = Decimal(repr(abs(value))).normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    power = len(text) - 1 + exponent
    if PLAIN_FROM <= power < PLAIN_TO:
        plain = f"{Decimal(repr(abs(value))):f}"
        return sign + (plain if "." in plain else f"{plain}.0")
    return f"{sign}{text[0]}.{text[1:] or '0'}E{power}"
