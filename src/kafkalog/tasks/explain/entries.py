"""Batches and messages cut into their fields, through compression and wrappers, as far as damage allows."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from crc32c import crc32c

from kafkalog import codecs
from kafkalog.errors import CodecError, CorruptBatch
from kafkalog.format import batch, message
from kafkalog.format.entry_front import FRONT
from kafkalog.format.reference import Transform

from .batch_records import cut_records
from .cutter import MORE, Cutter, cut_whole, fault
from .notes import BATCH_NOTES, FRONT_NOTES, MESSAGE_NOTES, NO_OFFSET, Values, is_offset
from .tree import UNEXPLAINED, Part

# The fields of an entry whose format is unknown.
assert FRONT.itemsize == batch.MAGIC_POSITION + 1


def explain_entries(data: bytes, origin: int, decompress: Transform) -> list[Part]:
    """The entries of `data`, which begins at position `origin` of its file; what is no entry is a part too."""
    outer = Cutter(data, origin=origin)
    while outer.left:
        if not any(data[outer.position :]):
            with outer.part("zeros") as part:
                part.rest("zeros", note="never written: the file was made larger than its data, or its last write was lost")
        else:
            with outer.part(_kind_of(outer)) as part:
                _cut_entry(part, decompress)
    return [part for part in outer.children if isinstance(part, Part)]


def _kind_of(cut: Cutter) -> str:
    magic = _magic(cut)
    return "entry" if magic is None or magic > batch.MAX_MAGIC else "batch" if magic == 2 else "message"


def _magic(cut: Cutter) -> int | None:
    return cut.data[cut.position + batch.MAGIC_POSITION] if cut.left > batch.MAGIC_POSITION else None


def _cut_entry(cut: Cutter, decompress: Transform) -> None:
    cut.shortage = "torn"
    magic = _magic(cut)
    if magic == 2:
        _cut_batch(cut, decompress)
    elif magic in (0, 1):
        _cut_message(cut, magic, decompress)
    else:
        cut.layout(FRONT, FRONT_NOTES)
        cut.note("", f"no format: expected 0, 1 or 2, found {magic}")
        raise CorruptBatch("magic", expected="0, 1 or 2", found=magic)


@dataclass(frozen=True)
class _Frame:
    """Where an entry ends, and what is wrong with the length that says so."""

    stop: int
    problem: str

    @classmethod
    def of(cls, cut: Cutter, least: int) -> _Frame:
        (length,) = struct.unpack_from(">i", cut.data, cut.position + batch.BATCH_LENGTH_POSITION)
        stop = cut.position + batch.LOG_OVERHEAD + length
        if length < least:
            return cls(cut.stop, f"expected at least {least}")
        if stop > cut.stop:
            return cls(cut.stop, f"only {cut.stop - cut.position - batch.LOG_OVERHEAD} bytes follow")
        return cls(stop, "")


def _checksum_remarks(cut: Cutter, start: int, stored: int, name: str) -> tuple[str, str]:
    """Note and problem of a stored checksum whose coverage begins at `start`."""
    covered = cut.data[start : cut.stop]
    computed = zlib.crc32(covered) if name == "CRC-32" else crc32c(covered)
    note = f"{name} of bytes {cut.origin + start} to {cut.origin + cut.stop - 1}"
    return (f"{note}: matches", "") if stored == computed else (note, f"does not match: the bytes give 0x{computed:08x}")


# v2


def _cut_batch(cut: Cutter, decompress: Transform) -> None:
    start = cut.position
    frame = _Frame.of(cut, batch.MIN_BATCH_LENGTH)
    cut.stop = frame.stop
    header: dict[str, int] = {}
    for name in batch.HEADER.names or ():
        header[name] = cut.number(name, batch.HEADER[name])
        if name == "crc":
            cut.note(*_checksum_remarks(cut, start + batch.CRC_START, header["crc"], "CRC-32C"))
        else:
            cut.note(BATCH_NOTES[name](header), _batch_problem(name, header, frame))
    cut.part_note = _batch_summary(header, cut.stop - start)
    cut.shortage = "record-structure"
    _cut_batch_content(cut, header, decompress)


def _batch_problem(name: str, header: Values, frame: _Frame) -> str:
    if name == "batch_length":
        return frame.problem
    if name == "base_offset":
        return "" if is_offset(header[name]) else NO_OFFSET
    if name == "last_offset_delta":
        return "" if is_offset(header["base_offset"] + header[name]) else NO_OFFSET
    return "an empty batch has 0, never less" if name == "records_count" and header[name] < 0 else ""


def _batch_summary(header: Values, size: int) -> str:
    first, count = header["base_offset"], header["records_count"]
    return f"v2, offsets {first} to {first + header['last_offset_delta']}, {count} record{'s' * (count != 1)}, {size} bytes"


def _cut_batch_content(cut: Cutter, header: dict[str, int], decompress: Transform) -> None:
    codec = header["attributes"] & batch.CODEC_MASK
    if header["records_count"] == 0:
        cut.rest(UNEXPLAINED, note="after the header of an empty batch, where readers do not look")
    elif codec == 0:
        cut_records(cut, header)
    else:
        _cut_compressed(cut, "records", cut.left, codec, 2, decompress, partial(cut_records, header=header))


def _cut_compressed(
    cut: Cutter, name: str, size: int, codec: int, magic: int, decompress: Transform, body: Callable[[Cutter], None]
) -> None:
    """A compressed field; what it holds is its content."""
    most = message.MAX_CODEC if magic < 2 else len(batch.CODEC_NAMES) - 1
    if codec > most:
        raise CorruptBatch("codec-unknown", found=codec)
    kind = batch.CODEC_NAMES[codec]
    if not size:
        raise CorruptBatch("codec", expected=f"{name} compressed with {kind}", found="nothing")
    payload = cut.data[cut.position : cut.position + size]
    try:
        content = decompress(codec, payload, magic)
    except CodecError as error:
        cut.take(name, size, kind, None, problem=f"does not decompress: {error}")
        return
    note = f"{len(content)} bytes when decompressed{_frame_note(codec, payload, magic)}"
    cut.take(name, size, kind, None, unit="", note=note, content=cut_whole("decompressed", content, body))


def _frame_note(codec: int, payload: bytes, magic: int) -> str:
    """What is special about the frame, for decompressing it by other means."""
    if codec == codecs.SNAPPY:
        from kafkalog.codecs import snappy

        return "; in xerial's framing" if payload.startswith(snappy.MAGIC) else "; one raw block"
    if codec == codecs.LZ4 and magic == 0:
        return "; the frame's header checksum is not checked in v0, whose writers got it wrong"
    return ""


# v0 and v1


@dataclass(frozen=True)
class _Wrapper:
    """What messages of a compressed set inherit from their wrapper. `shift` is added to their offsets."""

    magic: int
    timestamp_type: int
    shift: int


def _cut_message(cut: Cutter, magic: int, decompress: Transform, wrapper: _Wrapper | None = None) -> None:
    start = cut.position
    frame = _Frame.of(cut, message.OVERHEAD_V1 if magic else message.OVERHEAD_V0)
    cut.stop = frame.stop
    layout = message.MESSAGE_V1 if magic else message.MESSAGE_V0
    values: dict[str, int] = {}
    for name in layout.names or ():
        values[name] = cut.number(name, layout[name])
        if name == "crc":
            cut.note(*_checksum_remarks(cut, start + message.CRC_START, values["crc"], "CRC-32"))
        elif name == "offset":
            cut.note(*_offset_remarks(values["offset"], wrapper))
        else:
            cut.note(MESSAGE_NOTES[name](values), frame.problem if name == "message_size" else "")
            cut.note(_time_note(name, wrapper, magic))
    offset = values["offset"] + (wrapper.shift if wrapper else 0)
    cut.part_note = f"v{magic}, offset {offset}, {cut.stop - start} bytes"
    if not values["attributes"] & batch.CODEC_MASK:
        cut.part_offset = offset  # a compressed message is not a record: it holds some
    cut.shortage = "record-structure"
    _cut_message_content(cut, values, decompress, wrapper)


def _offset_remarks(offset: int, wrapper: _Wrapper | None) -> tuple[str, str]:
    absolute = offset + (wrapper.shift if wrapper else 0)
    problem = "" if is_offset(offset) and is_offset(absolute) else NO_OFFSET
    if wrapper is None:
        return "set by the broker, so outside the CRC; of a compressed set, the last one's", problem
    if wrapper.magic == 0 or not wrapper.shift:
        return "as it is", problem
    return f"relative: {offset} + {wrapper.shift} = {absolute}", problem


def _time_note(name: str, wrapper: _Wrapper | None, magic: int) -> str:
    ignored = wrapper is not None and wrapper.timestamp_type == batch.LOG_APPEND_TIME_TYPE and magic == 1
    return "not used: LogAppendTime, the wrapper's timestamp counts" if name == "timestamp" and ignored else ""


def _cut_message_content(cut: Cutter, values: Values, decompress: Transform, wrapper: _Wrapper | None) -> None:
    cut.content("key", values["key_length"])
    size = cut.number("value_length", np.dtype(">i4"))
    cut.note("no value, a tombstone" if size < 0 else "")
    codec = values["attributes"] & batch.CODEC_MASK
    if not codec:
        cut.content("value", size)
    elif wrapper is not None:
        raise CorruptBatch("nested", found=codec)
    elif size < 0:
        raise CorruptBatch("record-structure", detail="a compressed message without a value")
    elif size > cut.left:
        raise CorruptBatch("record-structure", expected=f"at most {cut.left} bytes of value", found=size)
    else:
        body = partial(_cut_set, outer=values, decompress=decompress)
        _cut_compressed(cut, "value", size, codec, values["magic"], decompress, body)
    cut.rest(UNEXPLAINED, note="after the value, where readers do not look")


def _cut_set(cut: Cutter, outer: Values, decompress: Transform) -> None:
    """The messages of a compressed set."""
    last = _last_inner_offset(cut.data)
    if last is None:
        raise CorruptBatch("count", detail="a compressed message with no messages in it")
    # v0 has absolute offsets inside; so has, in effect, a v1 wrapper that its producer gave offset 0.
    shift = 0 if outer["magic"] == 0 or outer["offset"] == 0 else outer["offset"] - last
    if shift < 0:
        cut.part_problem = fault(CorruptBatch("offset-range", expected=f"at most {outer['offset']}", found=last))
    elif shift:
        cut.part_note = f"offsets inside are relative: {outer['offset']} of the wrapper - {last} of the last one = {shift}"
    append_time = outer["magic"] == 1 and outer["attributes"] & batch.LOG_APPEND_TIME
    wrapper = _Wrapper(outer["magic"], batch.LOG_APPEND_TIME_TYPE if append_time else batch.CREATE_TIME, shift)
    number = 0
    while cut.left:
        if _is_cut_short(cut):
            cut.rest(UNEXPLAINED, note="a message cut short ends the set without an error")
            return
        if cut.is_full:
            cut.rest(MORE, note="messages that are not cut; to see them: kafkalog cat")
            return
        with cut.part(f"message {number}") as inner:
            _cut_inner(inner, decompress, wrapper)
        number += 1


def _is_cut_short(cut: Cutter) -> bool:
    if cut.left < batch.LOG_OVERHEAD:
        return True
    (size,) = struct.unpack_from(">i", cut.data, cut.position + message.MESSAGE_SIZE_POSITION)
    return bool(size >= message.MIN_MESSAGE_SIZE and size + batch.LOG_OVERHEAD > cut.left)


def _cut_inner(cut: Cutter, decompress: Transform, wrapper: _Wrapper) -> None:
    magic = _magic(cut)
    if magic in (0, 1):
        _cut_message(cut, magic, decompress, wrapper)
        return
    cut.layout(FRONT, FRONT_NOTES)
    raise CorruptBatch("magic", expected="0 or 1 inside a set", found=magic)


def _last_inner_offset(content: bytes) -> int | None:
    """The offset of the last whole message of a set, which all others count back from."""
    position, last = 0, None
    while position + batch.LOG_OVERHEAD <= len(content):
        offset, size = struct.unpack_from(">qi", content, position)
        if size < message.MIN_MESSAGE_SIZE or position + batch.LOG_OVERHEAD + size > len(content):
            break
        last = int(offset)
        position += batch.LOG_OVERHEAD + size
    return last
