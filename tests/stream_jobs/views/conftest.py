from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from shared.flow import FLOW
from shared.flow_table import Flow
from shared.model import View
from shared.settings import JobSettings
from stream_jobs.supervision.session import open_session
from stream_jobs.views.check import query_on_nothing
from stream_jobs.views.query import Query


@pytest.fixture(scope="module")
def spark(
    tmp_path_factory: pytest.TempPathFactory, spark_environment: dict[str, str]
) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in spark_environment.items():
            patch.setenv(name, value)
        session = open_session(JobSettings(state_dir=tmp_path_factory.mktemp("spark")), "test")
    yield session
    session.stop()


def query(spark: SparkSession, row: View, flow: Flow = FLOW) -> Query:
    return query_on_nothing(spark, flow, row)
