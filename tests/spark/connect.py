"""A batch read and a stream through Spark Connect, as a process of its own: a process has either kind of session.

    python -m tests.spark.connect PATH CHECKPOINT

Prints JSON: how many rows the batch read gave, how many `read_fast`, how many the stream, and the message of a bad option.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from kafkalog.spark import read_fast


def streamed(spark: SparkSession, path: str, checkpoint: str) -> int:
    frame = spark.readStream.format("kafkalog").option("startingOffsets", "earliest").load(path)
    writer = frame.writeStream.format("memory").queryName("streamed").option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination(60)
    return int(spark.sql("SELECT count(*) FROM streamed").collect()[0][0])


def refused(spark: SparkSession, path: str) -> str:
    try:
        spark.read.format("kafkalog").option("mode", "lenient").load(path).count()
    except Exception as error:
        return str(error)
    return ""


def main(path: str, checkpoint: str) -> None:
    spark = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "1").getOrCreate()
    rows = spark.read.format("kafkalog").schema("offset long").load(path).collect()
    fast = read_fast(path, spark=spark, schema="offset long").count()
    found = {"batch": len(rows), "fast": fast, "stream": streamed(spark, path, checkpoint), "refused": refused(spark, path)}
    sys.stdout.write(json.dumps(found) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
