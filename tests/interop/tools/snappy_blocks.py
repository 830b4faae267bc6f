"""Snappy blocks of Kafka's own library, snappy-java out of Maven's jars: python -m tests.interop.tools.snappy_blocks

Takes the sources from tests/kernels/data/snappy_blocks.json and writes the file again with what the library made of them.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import zlib
from itertools import count
from typing import Any

from tests.interop.tools.kafka_tools import HERE, JARS, ROOT, resolve_jars

BLOCKS = ROOT / "tests" / "kernels" / "data" / "snappy_blocks.json"
RUN_SECONDS = 120


def large_source(blocks: list[bytes], size: int) -> bytes:
    """The small sources again and again, with numbers between them, up to a size."""
    parts: list[bytes] = []
    for number in count():
        if sum(map(len, parts)) >= size:
            break
        parts += (blocks[number * 7 % len(blocks)], number.to_bytes(2, "big"))
    return b"".join(parts)[:size]


def compress(sources: list[bytes]) -> list[bytes]:
    """The block that Kafka's library makes of each source."""
    asked = "".join(f"{base64.b64encode(source).decode()}\n" for source in sources)
    command = ["java", "-cp", f"{JARS}/*", str(HERE / "SnappyBlocks.java")]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=RUN_SECONDS, check=True)
    return [base64.b64decode(line) for line in done.stdout.splitlines()]


def render(given: dict[str, Any]) -> str:
    """The file again: small blocks whole, of the large ones their size and CRC-32."""
    sources = [base64.b64decode(source) for source, _ in given["blocks"]]
    sizes = [size for size, _, _ in given["large"]]
    found = compress([*sources, *(large_source(sources, size) for size in sizes)])
    small = [[base64.b64encode(part).decode() for part in pair] for pair in zip(sources, found, strict=False)]
    large = [[size, len(block), zlib.crc32(block)] for size, block in zip(sizes, found[len(sources) :], strict=True)]
    rows = ",\n".join(json.dumps(pair, separators=(",", ":")) for pair in small)
    checksums = ",\n".join(map(str, large))
    return f'{{\n"blocks": [{rows}],"large": [{checksums}]\n}}\n'


def main() -> int:
    problem = resolve_jars()
    if problem is not None:
        sys.stderr.write(f"{problem}\n")
        return 1
    before = BLOCKS.read_text(encoding="utf-8")
    after = render(json.loads(before))
    BLOCKS.write_text(after, encoding="utf-8")
    same = "the same bytes" if after == before else "other bytes than before"
    sys.stdout.write(f"{len(json.loads(after)['blocks'])} blocks, {same}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
