"""Each run appends the records that are new; spark-pipelines gives this file its session as `spark`."""

from pyspark import pipelines as dp


@dp.table
def orders():
    reader = spark.readStream.format("kafkalog").option("subscribe", "orders").option("startingOffsets", "earliest")
    columns = "partition int, offset bigint, timestamp timestamp, key string, value string"
    return reader.schema(columns).load(spark.conf.get("orders.logs"))
