"""event topic -> a view's rows, on the view's compacted topic.

Spark keeps the groups and windows in its state. Its batches are cut by the log's time, so that a
batch that runs again, or a view that is made anew, writes the same rows under the same versions;
whoever keeps the higher version of each key has the view.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from shared.errors import CheckpointsAwayError, WrongViewError
from shared.flow_table import Flow
from shared.model import View
from shared.settings import JobSettings
from stream_jobs.guards import checkpoint_identity
from stream_jobs.guards.checkpoint_folder import CheckpointFolder, checkpoint_of, replace
from stream_jobs.guards.checkpoint_offsets import last_done
from stream_jobs.guards.lease import check_lease
from stream_jobs.kafka_io.cut_reader import cut_of_batch
from stream_jobs.kafka_io.log_source import SELDOM_MS, read_logs_by_time
from stream_jobs.kafka_io.topic_writer import WriterOf
from stream_jobs.supervision.driver_task import DriverTask
from stream_jobs.supervision.status import Report
from stream_jobs.supervision.until_stored import stop_as_spark_knows_it
from stream_jobs.views.event_table import CORRECTIONS, LATE, STRAGGLERS, EventsOf, event_table
from stream_jobs.views.query import own_session, query_of
from stream_jobs.views.rows import RowWriter, as_json, write

_WAITS = "waits_ms"


def build(
    row: View, spark: SparkSession, settings: JobSettings, flow: Flow, say: Report
) -> DataStreamWriter:
    checkpoint = checkpoint_of(settings, row.job)
    own = own_session(spark)
    query = query_of(row, {name: _table(own, settings, flow, row, name) for name in row.of})
    begin_where_it_fits(row, query.rows.schema.simpleString(), settings, say)
    remember_what_it_waits(checkpoint, query.waits_ms)
    writer = WriterOf.job_of(row.job, settings)

    def write_batch(frame: DataFrame, batch: int) -> None:
        with stop_as_spark_knows_it():
            check_lease(row.job)
            cut_ms = cut_of_batch(checkpoint, batch)
            write(as_json(query, frame), RowWriter(writer, row.topic, cut_ms))
        say("running")

    return (
        query.rows.writeStream.queryName(row.job)
        .outputMode(query.mode)
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(write_batch)
    )


def _table(
    spark: SparkSession, settings: JobSettings, flow: Flow, row: View, name: str
) -> DataFrame:
    """Each event type has a log of its own, so that Spark knows how far each has come."""
    logs = read_logs_by_time(
        spark,
        settings,
        row.job,
        (flow.event_type(name).topic,),
        EventsOf.its(row.job, settings.flow, flow.event_type(name)),
        called=name,
        at_most_every_ms=SELDOM_MS,
    )
    return event_table(logs, flow, row, name)


def begin_where_it_fits(row: View, columns: str, settings: JobSettings, say: Report) -> None:
    """All rows come anew from the log where the checkpoint is lost, or of other state partitions.
    Another query would leave the rows of this one behind."""
    checkpoint = checkpoint_of(settings, row.job)
    wanted = checkpoint_identity.identity(settings, {row.name: _fingerprint(row, columns)})
    made_of = checkpoint_identity.made_of(checkpoint)
    if made_of and made_of != wanted["code"]:
        raise WrongViewError(
            f"VIEW_CHANGED: view {row.name} asks for something else than what {row.topic} was made "
            "by: take it back, or add the changed row beside the old one, with the next version: "
            "it is made on a topic of its own, from the first event on"
        )
    if why := checkpoint_identity.why_not(checkpoint, wanted):
        say("rebuilding", why)
        checkpoint_identity.begin_anew(checkpoint, wanted)


def _fingerprint(row: View, columns: str) -> str:
    told = row.of, row.sql.strip(), row.key, row.results, float(row.late_after_s), columns
    return sha256(repr(told).encode()).hexdigest()


def remember_what_it_waits(checkpoint: CheckpointFolder, waits_ms: int) -> None:
    """For who tells how far the view is, without a look at its query."""
    replace(checkpoint / _WAITS, str(waits_ms).encode())


def what_it_waits(checkpoint: CheckpointFolder) -> int:
    return int((checkpoint / _WAITS).read_bytes())


class ViewCounts(DriverTask):
    """What the job says of its view."""

    def __init__(self, row: View, settings: JobSettings, _flow: Flow) -> None:
        self._row = row
        self._checkpoint = checkpoint_of(settings, row.job)
        self._counts = {LATE: 0, CORRECTIONS: 0, STRAGGLERS: 0}

    def hear(self, observed: Mapping[str, int | None]) -> None:
        for name in self._counts:
            self._counts[name] += observed.get(name) or 0

    def numbers(self) -> Mapping[str, Any]:
        try:
            batch = last_done(self._checkpoint)
            cut_ms = cut_of_batch(self._checkpoint, -1 if batch is None else batch)
            waits_ms = what_it_waits(self._checkpoint)
        # there is none yet, or Spark has just removed it
        except (OSError, ValueError, IndexError, CheckpointsAwayError):
            return {}
        late_ms = round(self._row.late_after_s * 1000)
        closed_ms = cut_ms - late_ms - waits_ms
        return {"view": {"read_to_ms": cut_ms, "watermark_ms": closed_ms, **self._counts}}
