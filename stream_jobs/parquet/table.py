"""A table of events as files: up to where it goes, and what is next."""

from pyspark.sql import DataFrame, Observation, SparkSession, functions

from clients.kafka.offsets import LogOffsets
from clients.kafka.records import Offsets, by_topic
from shared.consumer_groups import of_job
from shared.errors import OtherLogError
from shared.flow_table import Flow
from shared.model import ParquetFiles
from shared.settings import JobSettings
from shared.tables.columns import DAY
from stream_jobs.guards.topic_identity import topic_ids
from stream_jobs.kafka_io.log_ranges import planned
from stream_jobs.kafka_io.log_source import read_logs_up_to
from stream_jobs.parquet.commits import Commits
from stream_jobs.parquet.hadoop_files import HadoopFiles
from stream_jobs.parquet.rows import STAGE, RowsOf, ddl, table_columns

_KNOWN_BY = ["event_id", "revision"]


class Table:
    def __init__(
        self, spark: SparkSession, settings: JobSettings, flow: Flow, row: ParquetFiles
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._row = row
        self._topics = flow.topics_of(row)
        self._work = RowsOf(settings.flow, row.name)
        self._ddl = ddl(table_columns(flow, row))
        self._commits = Commits(HadoopFiles(spark, row.folder.rstrip("/")), row.name)
        self._ids = topic_ids(settings, self._topics)
        self._refuse_other_topics()

    def goes_to(self, offsets: Offsets) -> bool:
        """At least."""
        read = self._commits.last.read_to if self._commits.last else {}
        return all(
            read.get(topic, {}).get(partition, 0) >= offset
            for topic in self._topics
            for partition, offset in offsets.get(topic, {}).items()
        )

    def _refuse_other_topics(self) -> None:
        last = self._commits.last
        for topic, known in last.topic_ids.items() if last else ():
            if self._ids.get(topic, known) != known:
                raise OtherLogError(
                    f"FOLDER_OF_ANOTHER_LOG: {self._row.place} was written from another {topic} "
                    f"(its id was {known}, is {self._ids[topic]}): its offsets would skip events. "
                    "Give the row another name or folder; or remove what docs/operations.md says",
                    {},
                )

    def write_on(self) -> bool:
        """What has come, or a part of it; whether there was anything."""
        with LogOffsets(self._settings.kafka, of_job(STAGE), self._topics) as log:
            last = self._commits.last
            begin = last.read_to if last else by_topic(log.begins())
            end = planned(begin, by_topic(log.ends()), self._settings.batch_records_max)
        if end == begin:
            return False
        rows = read_logs_up_to(
            self._spark, self._settings, STAGE, end, self._work, self._ddl, begin
        )
        self._commits.add(lambda folder: self._write(rows, folder), end, self._ids)
        return True

    def _write(self, rows: DataFrame, folder: str) -> int:
        new = rows.dropDuplicates(_KNOWN_BY)
        if recent := self._commits.recent_files():
            known = self._spark.read.parquet(*recent).select(*_KNOWN_BY)
            new = new.join(known, _KNOWN_BY, "left_anti")
        written = Observation()
        counted = new.select(*rows.columns).observe(written, functions.expr("count(*) AS rows"))
        # one file a day: a batch is not large
        counted.coalesce(1).write.partitionBy(DAY).parquet(folder)
        return int(written.get["rows"])
