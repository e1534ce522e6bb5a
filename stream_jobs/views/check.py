"""`python -m stream_jobs.views.check`: whether the flow's views can be kept up to date, in Spark's
and in our own judgement. It needs no Kafka, and runs no query."""

import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from shared.errors import WrongViewError
from shared.flow import load_flow
from shared.flow_table import Flow
from shared.model import View
from shared.settings import WRONG_SETTINGS, JobSettings, explain
from stream_jobs.supervision.session import open_session
from stream_jobs.views.event_table import EventsOf, event_table
from stream_jobs.views.query import Query, own_session, query_of


def query_on_nothing(spark: SparkSession, flow: Flow, row: View) -> Query:
    """WrongViewError where it cannot be kept up to date."""
    own = own_session(spark)
    return query_of(
        row,
        {name: event_table(_no_logs(own, flow, name), flow, row, name) for name in row.of},
    )


def _no_logs(spark: SparkSession, flow: Flow, name: str) -> DataFrame:
    rows = spark.readStream.format("rate").load()
    its = StructType.fromDDL(EventsOf.its("check", "", flow.event_type(name)).ddl)
    assert isinstance(its, StructType)
    return rows.select(*(f.lit(None).cast(one.dataType).alias(one.name) for one in its))


def main() -> int:
    try:
        settings = JobSettings()
        flow = load_flow(settings.flow)
    except WRONG_SETTINGS as error:
        print(explain(error))
        return 2
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        here = {"state_dir": Path(folder), "spark_master": "local[1]"}
        spark = open_session(settings.model_copy(update=here), "check")
        for row in flow.views:
            try:
                its = query_on_nothing(spark, flow, row)
            except WrongViewError as error:
                wrong += 1
                print(error)
            else:
                print(f"view {row.name}: {its.rows.schema.simpleString()}")
        spark.stop()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
