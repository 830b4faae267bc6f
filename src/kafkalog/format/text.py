"""UTF-8 as Java decodes it: the text of header keys, and of everything that Kafka's own tools print."""

from __future__ import annotations

import re

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def decode_utf8(data: bytes) -> str:
    """`data` as text, with U+FFFD for what is not UTF-8.

    Java gives one U+FFFD for an encoded surrogate, where Python's `replace` gives one per byte.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xef\xbf\xbd", data).decode(errors="replace")
