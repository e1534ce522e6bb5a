"""Spark's own page says of a job's queries what they read, though no record passes its JVM."""

import re
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from local_stack.machine.ports import free_port
from local_stack.run.stack import Stack
from shared.settings import JobSettings
from tests.job_process import JobProcess
from tests.kafka_log import eventually
from tests.stream_jobs.kafka_io.enrich_topics import EVENTS, INGEST, KNOWN, LETTERS, Topics

pytestmark = pytest.mark.stack

ROWS = "number of output rows"


def scanned(page: str) -> int:
    """In all batches, as the scans of their plans say."""
    (application,) = httpx.get(f"{page}/api/v1/applications").json()
    told: list[dict[str, Any]] = httpx.get(
        f"{page}/api/v1/applications/{application['id']}/sql", params={"length": 1_000}
    ).json()
    values = [
        metric["value"]
        for execution in told
        for node in execution["nodes"]
        if node["nodeName"].startswith("MicroBatchScan")
        for metric in node["metrics"]
        if metric["name"] == ROWS
    ]
    return sum(int(value.replace(",", "")) for value in values)


def test_each_record_is_a_row_that_spark_counts(
    empty_kafka: Stack, tmp_path: Path, spark_environment: dict[str, str]
) -> None:
    settings = JobSettings(
        kafka_bootstrap=empty_kafka.kafka_bootstrap, state_dir=tmp_path / "enrich"
    )
    topics = Topics(settings)
    topics.write(INGEST, dict.fromkeys(KNOWN, b'{"value": 1}'))
    topics.write(INGEST, dict.fromkeys(KNOWN, b"no value"))
    port = free_port()
    page = f"http://127.0.0.1:{port}"
    variables = {**spark_environment, "HEADRACE_SPARK_UI_PORT": str(port), "HEADRACE_STAYS_S": "0"}
    with JobProcess("enrich", settings, tmp_path / "enrich.log", variables):
        for topic in (EVENTS, LETTERS):
            eventually(lambda topic=topic: len(topics.read(topic)) == len(KNOWN), 120)
        eventually(lambda: scanned(page) == 2 * len(KNOWN), 30)
        queries = httpx.get(f"{page}/StreamingQuery/").text
        assert re.search(r"\benrich\b", queries)
        gauges = orjson.loads(httpx.get(f"{page}/metrics/json/").content)["gauges"]
        assert any("enrich.inputRate-total" in name for name in gauges)
