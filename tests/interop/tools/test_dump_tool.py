"""`kafkalog dump` against a live DumpLogSegments: odd values, damaged files, and messages of every kind of internal record."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkalog.format import reference
from kafkalog.format.varint import encode_uvarint
from kafkalog.payloads.messages import MessageSchema, messages
from kafkalog.tasks.dump import Dump, DumpOptions
from kafkalog.tasks.dump.contents import DECODERS, class_contents
from tests.campaigns import damaged_dumps
from tests.interop.tools import message_table
from tests.interop.tools.kafka_tools import DumpTool, require_jars
from tests.interop.tools.random_messages import random_message

SEGMENT = "00000000000000000000.log"
DECODER_OF = {
    "consumer_offsets": "offsets-decoder",
    "transaction_state": "transaction-log-decoder",
    "cluster_metadata": "cluster-metadata-decoder",
    "remote_log_metadata": "remote-log-metadata-decoder",
    "share_group_state": "share-group-state-decoder",
}
ODD_BYTES = (
    None,
    b"",
    b"plain",
    b"two\nlines\r\n",
    bytes(range(256)),
    "größe 日本語 🙂".encode(),
    b"\xed\xa0\x80 surrogate \xed\xa0",
    b"\xf0\x9f\x99 cut \xf4\x90\x80\x80 high \xf5\xc0\xc1",
    b"\xe0\x80\x80 long \xe2\x82",
    b"\xf0\x80\x80\x80 \xf8\x88\x80\x80\x80 \xff",
)


@pytest.fixture(scope="module")
def tool() -> Iterator[DumpTool]:
    require_jars()
    with DumpTool() as running:
        yield running


def dumped(path: Path, options: DumpOptions) -> bytes:
    return b"".join(bytes(chunk) for chunk in Dump([str(path)], options).chunks())


def test_the_table_of_messages_is_what_kafkas_jars_hold() -> None:
    require_jars()
    assert message_table.TABLE.read_text(encoding="utf-8") == message_table.render(message_table.build_table())


def test_odd_keys_values_and_headers_print_as_javas_decoder_has_them(tool: DumpTool, tmp_path: Path) -> None:
    source = random.Random(1)
    random_bytes = [source.randbytes(source.randrange(1, 12)) for _ in range(300)]
    contents = [*ODD_BYTES, *random_bytes]
    headers = [tuple((each, None) for each in random_bytes[:count]) for count in range(4)]
    records = [
        reference.Record(7 + row, 1000 - row, contents[-row], contents[row], headers[row % 4]) for row in range(len(contents))
    ]
    path = tmp_path / SEGMENT
    path.write_bytes(b"".join(reference.encode_batch(records[at : at + 60]) for at in range(0, len(records), 60)))
    assert dumped(path, DumpOptions(print_data_log=True)) == tool.dump("--files", str(path), "--print-data-log").stdout


@pytest.mark.parametrize(("kind", "size"), [("Integer", 4), ("Long", 8)])
def test_numbers_print_through_the_integer_decoders(kind: str, size: int, tool: DumpTool, tmp_path: Path) -> None:
    source = random.Random(size)
    records = [reference.Record(offset, -1, source.randbytes(size), source.randbytes(size + offset)) for offset in range(20)]
    path = tmp_path / SEGMENT
    path.write_bytes(reference.encode_batch(records))
    name = f"org.apache.kafka.tools.api.{kind}Decoder"
    said = tool.dump("--files", str(path), "--key-decoder-class", name, "--value-decoder-class", name)
    assert dumped(path, DumpOptions(contents=class_contents(name, name))) == said.stdout


@pytest.mark.parametrize("damaged", [False, True], ids=["intact", "damaged"])
@pytest.mark.parametrize("topic", DECODER_OF)
def test_every_message_of_every_version_prints_as_kafka_prints_it(
    topic: str, damaged: bool, tool: DumpTool, tmp_path: Path
) -> None:
    source = random.Random(5)
    pairs = list(internal_records(source, topic))
    if damaged:
        pairs = [(maybe_damaged(source, key), maybe_damaged(source, value)) for key, value in pairs]
    records = [reference.Record(offset, 0, key, value) for offset, (key, value) in enumerate(pairs)]
    path = tmp_path / SEGMENT
    path.write_bytes(b"".join(reference.encode_batch(records[at : at + 100]) for at in range(0, len(records), 100)))
    said = tool.dump("--files", str(path), f"--{DECODER_OF[topic]}")
    assert said.death == ""
    ours = dumped(path, DumpOptions(contents=DECODERS[DECODER_OF[topic]]))
    assert ours.split(b"\n") == said.stdout.split(b"\n")


def internal_records(source: random.Random, topic: str) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Key and value of records with random fields: every message in every version, several times."""
    known = list(messages(topic).values())
    keys = {message.api_key: message for message in known if message.part == "key"}
    for message in [each for each in known if each.part != "key"] * 5:
        for version in range(message.versions.first, message.versions.last + 1):
            yield key_and_value(source, message, version, keys)


def key_and_value(
    source: random.Random, message: MessageSchema, version: int, keys: dict[int, MessageSchema]
) -> tuple[bytes | None, bytes | None]:
    content = random_message(source, message, version)
    if not keys:
        return None, encode_uvarint(1) + encode_uvarint(message.api_key) + encode_uvarint(version) + content
    key = message.api_key.to_bytes(2, "big") + random_message(source, keys[message.api_key], 0)
    return key, None if source.random() < 0.05 else version.to_bytes(2, "big") + content


def maybe_damaged(source: random.Random, content: bytes | None) -> bytes | None:
    if not content or source.random() < 0.3:
        return content
    return damaged_dumps.damage(source, content)


def test_damaged_files_print_what_kafkas_tool_prints_before_it_dies(golden_folder: Path) -> None:
    require_jars()
    eras = ["0.10.0.1", "2.8.2", "4.3.0"]
    assert damaged_dumps.run(250, 11, eras, golden_folder) == []


def test_intact_files_of_old_releases_print_alike(golden: Callable[[str], Path], tool: DumpTool) -> None:
    paths = sorted((golden("0.10.0.1") / "0.10.0.1").glob("*-0/*.log"))[::4]
    assert len(paths) > 10
    for path in paths:
        assert dumped(path, DumpOptions(print_data_log=True)) == tool.dump("--files", str(path), "--print-data-log").stdout
