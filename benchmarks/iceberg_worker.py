"""The child process of Iceberg's own writer, in an environment with the newest Spark that Iceberg has a connector for.

    python iceberg_worker.py BOOTSTRAP TOPIC WAREHOUSE JAR…

Each line on standard input is a pass: Spark's Kafka source into a new table. Rows are counted outside the measured time.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence

from pyspark.sql import SparkSession

TABLE = "lake.kafka.records"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
}


def main(bootstrap: str, topic: str, warehouse: str, jars: Sequence[str]) -> None:
    builder = SparkSession.builder.master("local[2]").appName("benchmark")
    for name, value in {**SETTINGS, "spark.sql.catalog.lake.warehouse": warehouse, "spark.jars": ",".join(jars)}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for _ in sys.stdin:
        spark.sql(f"DROP TABLE IF EXISTS {TABLE} PURGE")
        started = time.perf_counter()
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
        spark.read.format("kafka").options(**options).load().writeTo(TABLE).using("iceberg").create()
        seconds = time.perf_counter() - started
        os.sync()
        sys.stdout.write(json.dumps({"seconds": seconds, "rows": spark.table(TABLE).count()}) + "\n")
        sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
