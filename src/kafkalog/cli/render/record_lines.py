"""Records as JSON lines, which a kernel writes directly from Arrow columns."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkalog.kernels import json_lines as kernel
from kafkalog.kernels.bytes import Bytes
from kafkalog.kernels.layout import Texts
from kafkalog.segment.arrays import numbers_of, offsets_of, texts_of
from kafkalog.tasks.chunks import Chunks

from .cells import JSON_ENCODINGS
from .escape import json_safe, json_string
from .target import Sink
from .writers import slices

# What `write` needs; it turns them into topic, partition, offset, timestamp, timestampType, key, value, headers.
COLUMNS = ("topic", "partition", "offset", "timestamp_ms", "timestampType", "key", "value", "headers_raw")
CHUNK_BYTES = 1 << 20
THREADS = 2
ROWS_AT_ONCE = 1 << 12  # text that waits to be written is held in memory, and it is larger than the records
HOW = {"utf8": kernel.TEXT, "hex": kernel.HEX, "base64": kernel.BASE64}
ASCII_END = 0x80


class RecordLineWriter:
    """One JSON object per record. `key_json` and `value_json`, where a batch has them, replace the bytes that they decode.

    Batches become text on its own threads, because that takes longer than reading them, and are written in order.
    """

    def __init__(self, sink: Sink, encoding: str) -> None:
        self.sink = sink
        self.encoding = encoding
        self.chunks = Chunks(CHUNK_BYTES)
        self.pool = ThreadPoolExecutor(THREADS, thread_name_prefix="kafkalog-json")
        self.waiting: deque[Future[list[tuple[Bytes, int]]]] = deque()

    def write(self, batch: pa.RecordBatch) -> None:
        for part in slices(batch, ROWS_AT_ONCE):
            self.waiting.append(self.pool.submit(self._lines, part))
            if len(self.waiting) > THREADS:
                self._write_first()

    def flush(self) -> None:
        while self.waiting:
            self._write_first()

    def finish(self) -> None:
        self.flush()
        self.pool.shutdown()

    def _write_first(self) -> None:
        for chunk, size in self.waiting.popleft().result():
            self.sink.write(chunk[:size])
            self.chunks.give_back(chunk)

    def _lines(self, batch: pa.RecordBatch) -> list[tuple[Bytes, int]]:
        keys, key_how = self._contents(batch, "key")
        values, value_how = self._contents(batch, "value")
        columns = _columns(batch, keys, values)
        tables = kernel.json_tables(ascii_only=_is_ascii(columns))
        written: list[tuple[Bytes, int]] = []
        row, out = 0, self.chunks.take()
        while True:
            before = row
            row, size = kernel.write_json_lines(
                columns, row, batch.num_rows, _prefix(batch), key_how, value_how, HOW[self.encoding], tables, out
            )
            if size:
                written.append((out, size))
            if row == batch.num_rows:
                return written
            # A line may be longer than a chunk.
            out = self.chunks.take() if row > before else np.empty(4 * len(out), np.uint8)

    def _contents(self, batch: pa.RecordBatch, name: str) -> tuple[pa.Array, int]:
        """(bytes, how the kernel writes them) of the keys or the values."""
        if f"{name}_json" not in batch.schema.names:
            return batch.column(name), HOW[self.encoding]
        return self._as_json(batch.column(name), batch.column(f"{name}_json")), kernel.RAW

    def _as_json(self, contents: pa.Array, decoded: pa.Array) -> pa.Array:
        encode = JSON_ENCODINGS[self.encoding]
        texts = [
            None if content is None else encode(content) if text is None else json_safe(text)
            for content, text in zip(contents.to_pylist(), decoded.to_pylist(), strict=True)
        ]
        return pa.array([None if text is None else text.encode() for text in texts], pa.binary())


def _prefix(batch: pa.RecordBatch) -> NDArray[np.uint8]:
    """The line up to the offset: all records of a batch are of one partition."""
    topic, partition = batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py()
    return np.frombuffer(f'{{"topic":{json_string(topic)},"partition":{partition},"offset":'.encode(), np.uint8)


def _columns(batch: pa.RecordBatch, keys: pa.Array, values: pa.Array) -> kernel.RecordTexts:
    headers = batch.column("headers_raw")
    pairs = headers.values
    return kernel.RecordTexts(
        numbers_of(batch.column("offset"), np.int64),
        numbers_of(batch.column("timestamp_ms"), np.int64),
        numbers_of(batch.column("timestampType"), np.int32),
        texts_of(keys),
        texts_of(values),
        offsets_of(headers),
        texts_of(pairs.field(0)),
        texts_of(pairs.field(1)),
    )


def _is_ascii(columns: kernel.RecordTexts) -> bool:
    """Whether keys, values and headers are all ASCII, in the ranges that the offsets cover."""
    texts = (columns.keys, columns.values, columns.header_keys, columns.header_values)
    return all(int(part.max(initial=0)) < ASCII_END for part in (_used(text) for text in texts))


def _used(text: Texts) -> NDArray[np.uint8]:
    return text.content[text.offsets[0] : text.offsets[-1]]
