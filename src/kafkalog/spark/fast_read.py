"""The rows of the source through `mapInArrow`: Spark copies each one once less than for a Python data source."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import StructField, StructType
from pyspark.sql.utils import is_remote

from .columns import KAFKA_COLUMNS, Projection, default_schema
from .errors import BAD_SCHEMA, SparkSourceError, coded
from .options import SourceOptions, for_batch, parse_options
from .read_plan import plan_splits
from .session import session_cores
from .shipped_kernels import kernels_for_read
from .splits import Split

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from kafkalog.kernels.cache import PackedKernels

# Spark checks each cell of a column for null, unless the schema says that none is.
NEVER_NULL: Final = frozenset(KAFKA_COLUMNS) - {"key", "value"}


def frame_of(spark: SparkSession, paths: Sequence[str], schema: StructType | str | None, options: Mapping[str, str]) -> DataFrame:
    """The frame of `spark.read.format("kafkalog")`, planned here and now; columns that are never null are declared so."""
    asked = for_batch(parse_options({**options, "paths": json.dumps(list(paths))}))
    columns = _parsed(schema) if isinstance(schema, str) else schema or _exact(default_schema(asked), asked)
    projection = Projection.of(columns, asked)
    with coded():
        splits = plan_splits(asked, _cores(spark, asked))
    kernels = kernels_for_read((part for split in splits for part in split.parts), projection, asked)
    count = max(len(splits), 1)
    return spark.range(0, count, 1, count).mapInArrow(_reading(splits, projection, asked, kernels), columns)


def _exact(schema: StructType, options: SourceOptions) -> StructType:
    if options.table != "records" or options.mode != "FAILFAST":
        return schema
    return StructType([StructField(field.name, field.dataType, field.name not in NEVER_NULL) for field in schema])


def _parsed(schema: str) -> StructType:
    found = StructType.fromDDL(schema)
    if not isinstance(found, StructType):
        raise SparkSourceError(BAD_SCHEMA, f"{schema!r} names no columns; give names with types, such as 'offset long'")
    return found


def _cores(spark: SparkSession, options: SourceOptions) -> int | None:
    """Those of the session, unless the options name a number; unknown to a client of Spark Connect."""
    if options.cores is not None or is_remote():
        return options.cores
    return session_cores(spark)


def _reading(
    splits: Sequence[Split], projection: Projection, options: SourceOptions, kernels: PackedKernels
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    # Each task gets all of them, but makes objects of its own only.
    packed = [pickle.dumps(split) for split in splits]

    def read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kernels.unpack()
        from .task_reading import read_split

        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from read_split(pickle.loads(packed[number]), projection, options) if packed else ()

    return read
