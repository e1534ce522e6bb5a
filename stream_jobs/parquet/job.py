"""event topics -> Parquet files: a table for each `ParquetFiles` row.

The query says when there is something; what is to be written each table knows from its own folder
(`commits.py`). So one that is new, or was emptied, begins with the first event, whatever the
checkpoint says, and a lost checkpoint does nothing.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from shared.flow_table import Flow
from shared.settings import JobSettings
from stream_jobs.guards.checkpoint_folder import checkpoint_of, remove
from stream_jobs.guards.checkpoint_offsets import offsets_of
from stream_jobs.kafka_io.counted_rows import NOTHING_DDL
from stream_jobs.kafka_io.log_source import read_logs
from stream_jobs.parquet.rows import STAGE, RowsOf
from stream_jobs.parquet.table import Table
from stream_jobs.supervision.status import Report

_NO_LIMIT = 1 << 62


def build(spark: SparkSession, settings: JobSettings, flow: Flow, say: Report) -> DataStreamWriter:
    job = flow.job(STAGE)
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    tables = {row.name: Table(spark, settings, flow, row) for row in flow.parquet_files}

    def write(_frame: DataFrame, _batch_id: int) -> None:
        for name, table in tables.items():
            while table.write_on():
                say("running", f"{name} is being written")
        say("running")

    checkpoint = checkpoint_of(settings, STAGE)
    if not all(table.goes_to(offsets_of(checkpoint).done) for table in tables.values()):
        remove(checkpoint)  # or nothing would begin until something new comes
    # tables cut what is much into parts
    all_at_once = settings.model_copy(update={"batch_records_max": _NO_LIMIT})
    unread = RowsOf(settings.flow, flow.parquet_files[0].name)
    return (
        read_logs(spark, all_at_once, STAGE, job.ignited_by, unread, NOTHING_DDL)
        .writeStream.queryName(STAGE)
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime=f"{min(row.every_s for row in flow.parquet_files)} seconds")
        .foreachBatch(write)
    )
