"""A query of NEXMark as anyone would write it for Spark: Kafka's connector, `from_json`, the same
SQL, and rows back to Kafka. What `view_rate.py` measures views beside.

    python -m benchmarks.plain_view QUERY BOOTSTRAP FOLDER JARS
"""

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DoubleType, LongType, StringType, StructType

from benchmarks.nexmark_flow import FLOW, VIEWS
from shared.model import EventType
from shared.settings import JobSettings
from shared.tables.columns import columns_of
from stream_jobs.supervision.session import open_session

_TYPES = {"bigint": LongType(), "double": DoubleType()}


def table(spark: SparkSession, bootstrap: str, row: EventType, late_after_s: float) -> DataFrame:
    data = StructType()
    for column in columns_of((row,)):
        data.add(column.field, _TYPES.get(column.kind, StringType()))
    schema = StructType().add("id", StringType()).add("entity_id", StringType())
    schema.add("time_ms", LongType()).add("data", data)
    read = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", row.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", JobSettings().batch_records_max)
        .load()
        .select(f.from_json(f.col("value").cast("string"), schema).alias("event"))
    )
    return read.select(
        f.col("event.id").alias("event_id"),
        f.col("event.entity_id").alias("entity_id"),
        f.timestamp_millis("event.time_ms").alias("time"),
        *(f.col(f"event.data.{field.name}").alias(field.name) for field in data),
    ).withWatermark("time", f"{late_after_s} seconds")


def main(name: str, bootstrap: str, folder: str, jars: str) -> None:
    settings = JobSettings(state_dir=Path(folder), spark_jars=jars)
    spark = open_session(settings, "plain", computes=True)
    view = VIEWS[name]
    for its in view.of:
        own = table(spark, bootstrap, FLOW.event_type(its), view.late_after_s)
        own.createOrReplaceTempView(its)
    rows = spark.sql(view.sql)
    key = [name for name in rows.columns if name in (*view.key, "window")]
    query = (
        rows.select(
            f.to_json(f.struct(*key)).alias("key"),
            f.to_json(f.struct(*rows.columns)).alias("value"),
        )
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", f"plain.{name}")
        .option("checkpointLocation", str(Path(folder) / "checkpoint"))
        .outputMode("append")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
