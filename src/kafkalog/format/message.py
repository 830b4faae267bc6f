"""The v0 and v1 messages of Kafka 0.8 to 0.10 (and of topics that kept those formats until Kafka 3).

    message := offset int64                  of this message; of the last inner one in a wrapper
               message_size int32            bytes after this field: v0 14 + key + value, v1 22 + key + value
               crc uint32                    CRC-32 of everything from `magic` on
               magic int8                    0 or 1
               attributes int8               codec (bits 0-2); v1: log append time (bit 3)
               timestamp int64               v1 only; -1: none
               key_length int32              negative: null
               key
               value_length int32            negative: null
               value

A message with a codec is a wrapper: no key, and a value that decompresses to whole messages with codec none. Their offsets are
absolute in v0; in v1 they count from the first message of the wrapper, gaps included, so the last of them corresponds to the
wrapper's own offset and the others follow from it. The timestamp of a wrapper with log append time applies to every v1 message
inside.
"""

from __future__ import annotations

from typing import Final

import numpy as np

_FRONT: Final = [("offset", ">i8"), ("message_size", ">i4"), ("crc", ">u4"), ("magic", "i1"), ("attributes", "i1")]

MESSAGE_V0: Final = np.dtype([*_FRONT, ("key_length", ">i4")])
MESSAGE_V1: Final = np.dtype([*_FRONT, ("timestamp", ">i8"), ("key_length", ">i4")])
assert MESSAGE_V0.itemsize == 22
assert MESSAGE_V1.itemsize == 30


def _position(message: np.dtype[np.void], field: str) -> int:
    fields = message.fields
    assert fields is not None
    return int(fields[field][1])


MIN_MESSAGE_SIZE: Final = 14  # the check that Kafka makes for every magic; a v1 message needs 22
OVERHEAD_V0: Final = 14  # message_size of a v0 message with neither key nor value
OVERHEAD_V1: Final = 22

MESSAGE_SIZE_POSITION: Final = _position(MESSAGE_V1, "message_size")
CRC_POSITION: Final = _position(MESSAGE_V1, "crc")
MAGIC_POSITION: Final = _position(MESSAGE_V1, "magic")
CRC_START: Final = MAGIC_POSITION
ATTRIBUTES_POSITION: Final = _position(MESSAGE_V1, "attributes")
TIMESTAMP_POSITION: Final = _position(MESSAGE_V1, "timestamp")
KEY_LENGTH_POSITION_V0: Final = _position(MESSAGE_V0, "key_length")
KEY_LENGTH_POSITION_V1: Final = _position(MESSAGE_V1, "key_length")
KEY_POSITION_V0: Final = MESSAGE_V0.itemsize
KEY_POSITION_V1: Final = MESSAGE_V1.itemsize
assert (MAGIC_POSITION, ATTRIBUTES_POSITION, TIMESTAMP_POSITION) == (16, 17, 18)

MAX_CODEC: Final = 3  # lz4; zstd came with v2
