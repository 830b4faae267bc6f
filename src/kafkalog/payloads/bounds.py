"""How deep and how wide values and schemas may be: nested columns are parsed, built and stored by recursion.

Anything beyond is refused before a parser sees it: a value is undecodable, a schema a UsageError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalog.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

MAX_DEPTH: Final = 64  # levels of objects and arrays
MAX_FIELDS: Final = 2000  # of a schema, on all levels together: the time of Arrow's parser grows with their square
# A level of a schema takes up to three levels of its JSON (a type, its list of fields, a field).
SCHEMA_JSON_DEPTH: Final = 3 * MAX_DEPTH + 3

CHUNK: Final = 1 << 20
QUOTE: Final = ord('"')
STEPS: Final = np.zeros(256, np.int8)
STEPS[[ord("{"), ord("[")]] = 1
STEPS[[ord("}"), ord("]")]] = -1


def is_too_deep(text: bytes, most: int = MAX_DEPTH) -> bool:
    """Whether JSON, or what only looks like it, has more than that many levels, as a parser sees it: up to its first fault."""
    if text.count(b"{") + text.count(b"[") <= most:
        return False
    plain = without_escapes(text)
    level, is_quoted = 0, False
    for start in range(0, len(plain), CHUNK):
        part = np.frombuffer(plain, np.uint8, min(CHUNK, len(plain) - start), start)
        quoted = np.logical_xor.accumulate(part == QUOTE) ^ is_quoted
        steps = STEPS[part]
        steps[quoted] = 0
        levels = np.cumsum(steps, dtype=np.int64) + level
        if int(levels.max()) > most:
            return True
        level, is_quoted = int(levels[-1]), bool(quoted[-1])
    return False


def without_escapes(text: bytes) -> bytes:
    """JSON in which every remaining quote opens or closes a string."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"")


def too_deep(values: pa.Array, most: int = MAX_DEPTH) -> NDArray[np.bool_]:
    """Which of these values are nested too deeply; null is not."""
    import pyarrow as pa
    import pyarrow.compute as pc

    opened = pc.add(pc.count_substring(values, "{"), pc.count_substring(values, "["))
    suspicious = pc.fill_null(pc.greater(opened, pa.scalar(most, pa.int32())), False).to_numpy(zero_copy_only=False)
    found = np.zeros(len(values), np.bool_)
    for row in np.flatnonzero(suspicious).tolist():
        found[row] = is_too_deep(values[row].as_py(), most)
    return found


def count_fields(kind: pa.DataType) -> int:
    """The number of fields of a type, on all levels."""
    return sum(1 + count_fields(kind.field(number).type) for number in range(kind.num_fields))


def check_schema_text(schema: str) -> None:
    """UsageError for a schema in JSON that is nested too deeply to be parsed."""
    if is_too_deep(schema.encode(errors="replace"), SCHEMA_JSON_DEPTH):
        raise schema_too_deep()


def schema_too_deep() -> UsageError:
    return UsageError(f"the schema is nested too deeply: at most {MAX_DEPTH} levels")
