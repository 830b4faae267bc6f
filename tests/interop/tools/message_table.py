"""The table of Kafka's message schemas that `kafkalog.payloads` reads with, made from the schemas inside Kafka's jars.

    python -m tests.interop.tools.message_table      writes src/kafkalog/payloads/messages.json

Names, types and versions of fields are kept; what only people read is not.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.interop.tools.kafka_tools import HERE, JARS, resolve_jars

TABLE = HERE.parents[2] / "src" / "kafkalog" / "payloads" / "messages.json"
# Which messages each topic holds: the jar that has them, and the kinds of schema.
TOPICS = {
    "consumer_offsets": ("kafka-group-coordinator", ("coordinator-key", "coordinator-value")),
    "transaction_state": ("kafka-transaction-coordinator", ("coordinator-key", "coordinator-value")),
    "share_group_state": ("kafka-share-coordinator", ("coordinator-key", "coordinator-value")),
    "cluster_metadata": ("kafka-metadata", ("metadata",)),
    "remote_log_metadata": ("kafka-storage", ("metadata",)),
}
CLIENT_MESSAGES = (
    "ConsumerProtocolSubscription",
    "ConsumerProtocolAssignment",
    "LeaderChangeMessage",
    "SnapshotHeaderRecord",
    "SnapshotFooterRecord",
    "KRaftVersionRecord",
    "VotersRecord",
)
COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)


def build_table() -> dict[str, Any]:
    """The whole table: topic -> name of a message -> its schema."""
    table: dict[str, Any] = {topic: {} for topic in TOPICS}
    for topic, (jar, kinds) in TOPICS.items():
        for schema in schemas_of(jar):
            if schema.get("type") in kinds and "apiKey" in schema:
                table[topic][schema["name"]] = compact(schema)
    clients = {schema["name"]: schema for schema in schemas_of("kafka-clients")}
    table["client"] = {name: compact(clients[name]) for name in CLIENT_MESSAGES}
    return {topic: dict(sorted(messages.items())) for topic, messages in table.items()}


def schemas_of(jar: str) -> Iterator[dict[str, Any]]:
    (path,) = [path for path in JARS.glob(f"{jar}-[0-9]*.jar") if "-test" not in path.name]
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".json"):
                yield json.loads(COMMENT.sub("", archive.read(name).decode()))


def compact(schema: dict[str, Any]) -> dict[str, Any]:
    structs = {struct["name"]: struct for struct in schema.get("commonStructs", ())}
    kept = {"apiKey": schema["apiKey"]} if "apiKey" in schema else {}
    kept |= {"versions": schema["validVersions"], "flexible": schema.get("flexibleVersions", "none")}
    if schema.get("type") in ("coordinator-key", "coordinator-value"):
        kept["part"] = schema["type"].removeprefix("coordinator-")
    return kept | {"fields": [compact_field(field, structs) for field in schema["fields"]]}


def compact_field(field: dict[str, Any], structs: dict[str, Any]) -> dict[str, Any]:
    kept = {"name": field["name"], "type": field["type"], "versions": field.get("versions") or field["taggedVersions"]}
    for key in ("nullableVersions", "tag", "taggedVersions", "flexibleVersions"):
        if key in field:
            kept[key] = field[key]
    default = field.get("default")  # the text "null" is one; JSON's null is none, and the type's own default counts
    if "tag" in field and default is not None:
        kept["default"] = None if default == "null" else int(default) if "int" in field["type"] else default
    struct = field["type"].removeprefix("[]")
    fields = field.get("fields") or structs.get(struct, {}).get("fields")
    if fields:
        kept["fields"] = [compact_field(inner, structs) for inner in fields]
    return kept


def render(table: dict[str, Any]) -> str:
    """One line per message, so that a change of Kafka's shows as the line that changed."""
    topics = []
    for topic, messages in table.items():
        rows = ",\n".join(f"    {json.dumps(name)}: {json.dumps(schema)}" for name, schema in messages.items())
        topics.append(f"  {json.dumps(topic)}: {{\n{rows}\n  }}")
    return "{\n" + ",\n".join(topics) + "\n}\n"


def main() -> int:
    problem = resolve_jars()
    if problem is not None:
        sys.stderr.write(f"{problem}\n")
        return 1
    Path(TABLE).write_text(render(build_table()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
