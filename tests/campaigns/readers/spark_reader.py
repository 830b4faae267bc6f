"""What a Spark with Iceberg's or Delta's connector reads from the tables of a target; run in an environment of its own.

Arguments: iceberg or delta, the folder of the jars, the target, `read` or `compact`, and names of tables. `read` prints a line of
JSON for each row: topic, partition, offset, the CRC-32 of its key and of its value. `compact` makes one file of each partition.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def main(table_format: str, jars: str, target: str, task: str, names: Sequence[str]) -> None:
    spark = session(table_format, jars, target)
    for name in names:
        place = f"kafkalog.kafka.`{name}`" if table_format == "iceberg" else f"delta.`{target}/{name}`"
        if task == "read":
            columns = "topic, partition, offset, crc32(key), crc32(value)"
            for row in spark.sql(f"SELECT {columns} FROM {place}").toLocalIterator():
                print(json.dumps(list(row)))
            (count,) = spark.sql(f"SELECT count(*) FROM {place} WHERE offset >= 100").first()  # which may skip files
            print(json.dumps({"name": name, "from 100 on": count}))
        elif table_format == "iceberg":
            options = "map('rewrite-all', 'true')"
            spark.sql(f"CALL kafkalog.system.rewrite_data_files(table => 'kafka.{name}', options => {options})").collect()
        else:
            spark.sql(f"OPTIMIZE {place}").collect()
    spark.stop()


def session(table_format: str, jars: str, target: str) -> Any:
    wanted = [str(path) for path in sorted(Path(jars).glob("*.jar")) if path.name.startswith(("iceberg-", "sqlite-", "delta-"))]
    settings = {"spark.jars": ",".join(wanted), "spark.ui.enabled": "false", "spark.driver.memory": "600m"}
    if table_format == "iceberg":
        settings |= {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.kafkalog": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.kafkalog.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "spark.sql.catalog.kafkalog.uri": f"jdbc:sqlite:file:{target}/catalog.db",
            "spark.sql.catalog.kafkalog.warehouse": target,
        }
    else:
        settings |= {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
    builder = SparkSession.builder.master("local[1]").appName("readers")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:])
