"""Every metric of the gateway and of the desk, with the labels of its series."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from prometheus_client.core import Metric

from desk.api.metrics import DeskMetrics
from desk.letters.store import LetterBook
from gateway.kafka_writer.outcome import Receipt, Record
from gateway.monitor import ledger_check
from gateway.monitor.health_metrics import certificate_metrics, health_metrics
from gateway.monitor.job_metrics import job_metrics
from gateway.monitor.job_news import JobNews
from gateway.monitor.job_status import JobStatus
from gateway.monitor.metrics import Metrics
from gateway.monitor.view_metrics import view_metrics
from gateway.node.node import Node
from gateway.node.payload_counts import Counts
from gateway.spool.frame import Frame
from gateway.spool.spool import Spool
from gateway.state_view.reader import StateView
from tests.gateway.monitor.test_ledger_check import NOW_MS, said
from tests.stream_jobs.views_flow import FLOW

_JOB = JobStatus(
    {
        "state": "running",
        "lag_records": 7,
        "lag_s": 2.5,
        "rows_per_s": 20.0,
        "partitions": {"event.reading.v1": {"0": [7, 2.5]}},
        "hooks": {"stopped": {}},
        "breakers": {"postgres": {"state": "open", "since_ms": 1, "reason": "away"}},
        "lanes": {"retry.enrich.v1": {"payloads": 7}},
        "clocks": {"late": 3, "clock_off": 2},
        "view": {"watermark_ms": 1, "late": 7},
    },
    silent_ms=500,
)


class _News:
    def statuses(self, jobs: Iterable[str]) -> dict[str, JobStatus | None]:
        return dict.fromkeys(jobs, _JOB)


class _View:
    def count_of_view(self, _topic: str) -> int:
        return 3


class _Book:
    def values(self, query: str) -> list[tuple[Any, ...]]:
        if "oldest" in query:
            return [("parked", "enrich", "not_json", 3, 1, 61.5)]
        return [("enrich", 3, 1)]


def series(folder: Path) -> dict[str, set[str]]:
    """The labels of each metric, by the name that a scrape has."""
    found: dict[str, set[str]] = {}
    for family in _families(folder):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def _families(folder: Path) -> Iterator[Metric]:
    node, spool = Node(worker=0, workers=2), Spool(folder / "spool", 1000, ["t"])
    counts = Counts(node.numbers.row(1))
    counts.accepted("telemetry", Receipt("t", 0, 0))
    counts.produced("telemetry", 0.01)
    counts.refused("telemetry", "empty_body")
    counts.request_refused("malformed_request")
    frame = Frame("t", Record(b"key", b"value", []), time.time_ns() // 1_000_000)
    spool.of("t").append([frame])
    spool.of("t").note_stuck("topic_missing")
    yield from Metrics(node, spool).collect()
    spool.close()
    yield from ledger_check.metrics(said(), NOW_MS)
    yield from job_metrics({"fold": _JOB})
    yield from view_metrics(FLOW.views, cast(JobNews, _News()), cast(StateView, _View()))
    yield from health_metrics({"checks": {"a": [{"status": "pass"}]}}, {"dlq.enrich.v1": 7})
    yield from certificate_metrics({"tls_cert_file": 1.0})
    yield from DeskMetrics(cast(LetterBook, _Book())).collect()
