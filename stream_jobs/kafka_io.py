"""The only file that says format("kafka")."""

from collections.abc import Iterable

import orjson
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from shared.settings import JobSettings
from shared.topology import RECORD_BYTES_MAX
from stream_jobs.checkpoints import Offsets


def read_topics(
    spark: SparkSession,
    settings: JobSettings,
    topics: Iterable[str],
    *,
    with_headers: bool,
    starting: Offsets | None = None,
) -> DataFrame:
    """key, value, topic, partition, offset, timestamp, timestampType, and headers if asked for."""
    return (
        spark.readStream.format("kafka")
        .options(**_access(settings))
        .option("subscribe", ",".join(topics))
        .option("includeHeaders", with_headers)
        # a query that has lost its checkpoint must not skip what is there ("latest", the default)
        .option("startingOffsets", _json(starting) if starting else "earliest")
        .option("failOnDataLoss", True)
        .option("maxOffsetsPerTrigger", settings.batch_records_max)
        # the default, 500 ms, is what a micro-batch would sometimes wait for nothing
        .option("kafka.fetch.max.wait.ms", 20)
        .option("kafka.max.partition.fetch.bytes", 4 * 1024 * 1024)
        .load()
    )


def read_topics_up_to(spark: SparkSession, settings: JobSettings, ends: Offsets) -> DataFrame:
    """All that stands on these topics before these offsets, as `read_topics` has it."""
    return (
        spark.read.format("kafka")
        .options(**_access(settings))
        .option("subscribe", ",".join(ends))
        .option("startingOffsets", "earliest")
        .option("endingOffsets", _json(ends))
        .option("failOnDataLoss", True)
        .load()
    )


def _json(offsets: Offsets) -> str:
    return orjson.dumps(offsets, option=orjson.OPT_NON_STR_KEYS).decode()


def write_topics(frame: DataFrame, settings: JobSettings, job: str) -> DataStreamWriter:
    """Each row goes to the topic in its column `topic`. At least once, in order per partition."""
    return (
        frame.writeStream.format("kafka")
        .queryName(job)
        .outputMode("update")
        .options(**_access(settings))
        .option("kafka.acks", "all")
        .option("kafka.enable.idempotence", True)
        .option("kafka.compression.type", settings.compression)
        .option("kafka.batch.size", 256 * 1024)
        # full batches; the end of a task waits for none
        .option("kafka.linger.ms", 20)
        .option("kafka.max.request.size", RECORD_BYTES_MAX)
        .option("includeHeaders", True)
        .option("checkpointLocation", str(settings.checkpoints / job))
        .trigger(processingTime=f"{settings.trigger_ms} milliseconds")
    )


def _access(settings: JobSettings) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in settings.kafka.for_java().items()}
