"""Runs each job's plan once on a record that belongs nowhere, so that the first real one is quick.

What it pays for beforehand: Python workers with their imports, generated code, the state store's
native library, the master data of each worker. Nothing is written.
"""

import logging

from pyspark.sql import DataFrame, SparkSession

from shared.settings import JobSettings
from shared.topology import Flow, retry_topic
from stream_jobs import aggregate, arrow_records, enrich, fold, retry

_log = logging.getLogger(__name__)


def warm_up(spark: SparkSession, settings: JobSettings, flow: Flow, names: list[str]) -> None:
    spark.streams.active  # noqa: B018 - its making is what starts the coordinator of state stores
    if "enrich" in names:
        payload = _record(spark, flow.endpoints[0].topic)
        _run(enrich.transform(payload, enrich.task(settings)), "enrich")
    if "retry" in names:
        waiting = _record(spark, retry_topic("enrich"))
        _run(retry.transform(waiting, retry.task(settings)), "retry")
    if "fold" in names:
        event = _record(spark, flow.event_types[0].topic)
        _run(fold.transform(event, settings), "fold")
    if "aggregate" in names:
        member = _record(spark, flow.member_topics[0])
        _run(aggregate.transform(member, settings, versions_before=0), "aggregate")


def _record(spark: SparkSession, topic: str) -> DataFrame:
    # neither a payload nor an event: it runs through to a dead letter, which nobody collects
    rows = spark.range(2).selectExpr("id", f"'{topic}' AS topic")
    return rows.selectExpr(
        "cast(NULL AS binary) AS key",
        "cast('' AS binary) AS value",
        "topic",
        "0 AS partition",
        "id AS offset",
        "current_timestamp() AS timestamp",
        f"cast(array() AS {arrow_records.HEADERS_DDL}) AS headers",
    )


def _run(frame: DataFrame, job: str) -> None:
    try:
        frame.write.format("noop").mode("overwrite").save()
    except Exception as error:  # the query itself will meet it again, and tell
        _log.info("%s could not be warmed up: %s", job, str(error).splitlines()[0])
