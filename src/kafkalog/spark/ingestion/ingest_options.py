"""The choices of an ingest, checked before anything is read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafkalog.payloads.values import PayloadSpec

from ..errors import bad_option
from ..options import ISOLATIONS, SourceOptions, parse_options

GRAINS: Final = ("day", "hour")
CODECS: Final = ("zstd", "snappy", "lz4", "gzip", "none")
LEVELS: Final = {"zstd": range(-100, 23), "gzip": range(1, 10)}
DAMAGE_RULES: Final = ("set-aside", "fail")
LOSS_RULES: Final = ("fail", "continue")
TABLE_FORMATS: Final = ("parquet", "iceberg", "delta")
NAMESPACE: Final = "kafka"
FILE_BYTES: Final = 256 << 20
# A move is a copy, which S3 allows up to 5 GiB; a file ends within a row group of the size asked for.
OBJECT_BYTES: Final = 4 << 30
RECORD_COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp", "timestampType")
RAW_TIMES: Final = "timestamp_ms"
METADATA_COLUMNS: Final = (
    "leader_epoch",
    "producer_id",
    "producer_epoch",
    "sequence",
    "is_transactional",
    "codec",
    "magic",
    "base_offset",
    "file",
    "position",
)
_TABLE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")
# Options of the source that an ingest sets itself, with their equivalent here.
OWN_OPTIONS: Final = {
    "path": "the source",
    "paths": "the sources",
    "table": "nothing: an ingest reads records",
    "mode": "on_damage",
    "failondataloss": "on_data_loss",
    "isolation": "isolation",
    "kafka.isolation.level": "isolation",
    "includeheaders": "headers",
    "includemetadata": "metadata",
    "columnnameofcorruptrecord": "nothing: damage has a table of its own",
    "minpartitions": "nothing: tasks follow from sizes and cores",
    "maxrecordsperpartition": "nothing: tasks follow from sizes and cores",
    "maxpartitionbytes": "task_bytes",
    "cores": "nothing: they are those of the executors",
    "checkcrcs": "nothing: records are always checked",
}


@dataclass(frozen=True)
class LakeOptions:
    """The format of the tables, and where a lake keeps them.

    `table` is the name of one table for all topics; without it each topic has its own. `catalog` and `catalog_properties` are
    those of PyIceberg; without both, an Iceberg table is in a catalog of its target. `namespace` is Iceberg's.
    """

    table_format: str = TABLE_FORMATS[0]
    table: str | None = None
    catalog: str | None = None
    catalog_properties: Mapping[str, str] = field(default_factory=dict)
    namespace: str = NAMESPACE

    def __post_init__(self) -> None:
        if self.table_format not in TABLE_FORMATS:
            raise bad_option("table_format", self.table_format, f"allowed are {', '.join(TABLE_FORMATS)}")
        if self.table is not None and self.table_format == "parquet":
            raise bad_option(
                "table", self.table, "Parquet has a folder for each topic; tables of several are for iceberg and delta"
            )
        if self.table is not None and not _TABLE_NAME.fullmatch(self.table):
            raise bad_option("table", self.table, "allowed are letters, digits, . _ and -, beginning with a letter or digit")
        if self.table_format != "iceberg" and (self.catalog is not None or self.catalog_properties):
            raise bad_option("catalog", self.catalog or dict(self.catalog_properties), "only Iceberg has catalogs")
        if not self.namespace or not all(self.namespace.split(".")):
            raise bad_option("namespace", self.namespace, "allowed is a name, or names joined by dots")

    @property
    def is_lake(self) -> bool:
        return self.table_format != "parquet"

    def settings(self) -> dict[str, Any]:
        return {"table_format": self.table_format, "table": self.table} if self.is_lake else {}


@dataclass(frozen=True)
class IngestOptions:
    """The choices of a run; `source` are options of the Spark source: topics, offsets, times.

    `payload` says how values are decoded; `keep_raw` keeps the bytes of all of them, not only of those that do not decode.
    `by`, `headers`, `metadata`, `isolation`, `payload` and `keep_raw` belong to the target: later runs have to use the same.
    """

    sources: tuple[str, ...]
    target: str
    source: Mapping[str, str] = field(default_factory=dict)
    by: str = GRAINS[0]
    headers: bool = False
    metadata: bool = False
    isolation: str = ISOLATIONS[0]
    on_damage: str = DAMAGE_RULES[0]
    on_data_loss: str = LOSS_RULES[0]
    codec: str = CODECS[0]
    level: int | None = None
    file_bytes: int = FILE_BYTES
    task_bytes: int | None = None
    payload: PayloadSpec | None = None
    keep_raw: bool = False
    lake: LakeOptions = field(default_factory=LakeOptions)
    generation: bool = True  # False on a target whose first run had no such column

    def __post_init__(self) -> None:
        for name, allowed in (
            ("by", GRAINS),
            ("isolation", ISOLATIONS),
            ("on_damage", DAMAGE_RULES),
            ("on_data_loss", LOSS_RULES),
            ("codec", CODECS),
        ):
            if getattr(self, name) not in allowed:
                raise bad_option(name, getattr(self, name), f"allowed are {', '.join(allowed)}")
        if self.level is not None:
            _check_level(self.codec, self.level)
        for name in ("file_bytes", "task_bytes"):
            size = getattr(self, name)
            if size is not None and (not isinstance(size, int) or size < 1):
                raise bad_option(name, size, "allowed is a whole number above 0")
        if self.file_bytes > OBJECT_BYTES and "://" in self.target and not self.target.lower().startswith("file:"):
            raise bad_option("file_bytes", self.file_bytes, f"an object store moves at most {OBJECT_BYTES} bytes at a time")
        for name, value in self.source.items():
            if name.lower() in OWN_OPTIONS:
                raise bad_option(name, value, f"not an option here; instead there is {OWN_OPTIONS[name.lower()]}")

    def source_options(self) -> SourceOptions:
        """The options of the Spark source for planning."""
        return parse_options(
            {
                **self.source,
                "paths": json.dumps(list(self.sources)),
                "mode": "FAILFAST" if self.on_damage == "fail" else "DROPMALFORMED",
                "isolation": self.isolation,
                "failOnDataLoss": str(self.on_data_loss == "fail").lower(),
            }
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the `records` table to read; the topic is in the name of the folder."""
        return (
            *RECORD_COLUMNS,
            *(["headers"] if self.headers else []),
            *(METADATA_COLUMNS if self.metadata else []),
            *([RAW_TIMES] if self.lake.is_lake else []),
        )

    def settings(self) -> dict[str, Any]:
        """The settings that all runs on one target have to share."""
        return {
            "by": self.by,
            "headers": self.headers,
            "metadata": self.metadata,
            "isolation": self.isolation,
            "value": None if self.payload is None else self.payload.as_dict(),
            "keep_raw": self.keep_raw,
            "generation": self.generation,
            **self.lake.settings(),
        }


def _check_level(codec: str, level: int) -> None:
    levels = LEVELS.get(codec)
    if levels is None:
        raise bad_option("level", level, f"{codec} has no levels; {' and '.join(LEVELS)} have")
    if not isinstance(level, int) or level not in levels:
        raise bad_option("level", level, f"allowed for {codec} are {levels[0]} to {levels[-1]}")
