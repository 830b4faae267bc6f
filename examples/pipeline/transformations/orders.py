"""Each run appends the records that are new."""

from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()


@dp.table
def orders():
    reader = spark.readStream.format("kafkalog").option("subscribe", "orders").option("startingOffsets", "earliest")
    columns = "partition int, offset bigint, timestamp timestamp, key string, value string"
    return reader.schema(columns).load(spark.conf.get("orders.logs"))
