"""GET /metrics: what all workers of the node have done and hold, in Prometheus' format."""

import asyncio
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from fastapi import Request
from fastapi.routing import APIRoute
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute

from gateway.monitor.metric_family import metric
from gateway.node.node import WORKER_RESTARTS, WORKERS_READY, Node
from gateway.node.payload_counts import (
    ACCEPTED,
    BOUNDS,
    PRODUCE_BUCKET,
    PRODUCE_S,
    REFUSED,
    REQUESTS_REFUSED,
)
from gateway.node.shared_counters import Name
from gateway.spool.spool import Spool, SpoolState
from shared import VERSION

IN_FLIGHT_PAYLOADS = "in_flight_payloads"
IN_FLIGHT_BYTES = "in_flight_bytes"
EVENT_STREAMS = "event_streams"
VIEW_STREAMS = "view_streams"
WAITING_REQUESTS = "waiting_requests"
PRODUCER_REPLACEMENTS = "producer_replacements"

_PREFIX = "headrace_gateway_"
_NOTE_EVERY_S = 1.0
_COUNTERS = {
    ACCEPTED: ("Payloads that were answered with a receipt", ("endpoint", "into")),
    REFUSED: ("Payloads that were not, by the code of the answer", ("endpoint", "reason")),
    REQUESTS_REFUSED: ("Requests that the HTTP protocol refused, by the code", ("reason",)),
    PRODUCER_REPLACEMENTS: ("Kafka producers that had to be replaced", ()),
    WORKER_RESTARTS: ("Workers that ended and were started again", ()),
}
GAUGES = {
    IN_FLIGHT_PAYLOADS: "Payloads that are being written",
    WORKERS_READY: "Workers that take payloads now",
    IN_FLIGHT_BYTES: "Bytes of bodies in memory, half-read ones included",
    EVENT_STREAMS: "Readers of GET /v1/events that are connected",
    VIEW_STREAMS: "Readers of changes of views that are connected",
    WAITING_REQUESTS: "POSTs and GETs that wait for what becomes of a payload",
}


class Metrics(Collector):
    """What arises all the time is counted where it does (`Counts`). The rest is read from whoever
    knows it, each second, for the day when another worker is asked."""

    def __init__(self, node: Node, spool: Spool | None = None) -> None:
        self._node = node
        self._spool = spool
        self._sources: dict[Name, Callable[[], float]] = {}
        self._families: list[Callable[[], Iterable[Metric]]] = []
        self._noting: asyncio.Task[None] | None = None

    def add_gauge(self, name: str, read: Callable[[], float]) -> None:
        self._sources[name,] = read

    def add_counter(self, name: str, read: Callable[[], float]) -> None:
        """`read` counts from the start of this process, the metric from that of the node."""
        before = self._node.row.get((name,))
        self._sources[name,] = lambda: before + read()

    def add_families(self, read: Callable[[], Iterable[Metric]]) -> None:
        self._families.append(read)

    async def start(self) -> None:
        self._noting = asyncio.create_task(self._keep_noting())

    async def stop(self) -> None:
        if self._noting is not None:
            self._noting.cancel()
            await asyncio.wait((self._noting,))

    async def _keep_noting(self) -> None:
        while True:
            self._note()
            await asyncio.sleep(_NOTE_EVERY_S)

    def _note(self) -> None:
        for name, read in self._sources.items():
            self._node.row.set(name, read())

    def collect(self) -> Iterator[Metric]:
        self._note()
        numbers = self._node.numbers.sums()
        runs = [((VERSION, platform.python_version()), 1)]
        what, of = "Always 1: its labels say what runs", ("version", "python")
        yield metric(GaugeMetricFamily, f"{_PREFIX}build_info", what, of, runs)
        for name, (meaning, labels) in _COUNTERS.items():
            # one without labels is there from the start: that it grows is seen from 0 on
            rows = _of(name, numbers) or ([] if labels else [((), 0.0)])
            yield metric(CounterMetricFamily, _PREFIX + name, meaning, labels, rows)
        for name, meaning in GAUGES.items():
            yield GaugeMetricFamily(_PREFIX + name, meaning, numbers.get((name,), 0.0))
        yield GaugeMetricFamily(
            f"{_PREFIX}workers", "Workers that there should be", self._node.workers
        )
        yield _produce_seconds(numbers)
        if self._spool is not None:
            yield from _spool(self._spool.state())
        for read in self._families:
            yield from read()


def _of(which: str, numbers: Mapping[Name, float]) -> Sequence[tuple[Name, float]]:
    return [(name[1:], number) for name, number in numbers.items() if name[0] == which]


def _produce_seconds(numbers: Mapping[Name, float]) -> Metric:
    histogram = HistogramMetricFamily(
        f"{_PREFIX}produce_seconds",
        "Time until the outcome of a POST's payloads was known",
        labels=("endpoint",),
    )
    for (endpoint,), seconds in _of(PRODUCE_S, numbers):
        counts = accumulate(numbers.get((PRODUCE_BUCKET, endpoint, le), 0.0) for le in BOUNDS)
        histogram.add_metric((endpoint,), list(zip(BOUNDS, counts, strict=True)), seconds)
    return histogram


def _spool(spool: SpoolState) -> Iterator[Metric]:
    for name, meaning, value in (
        ("spool_records", "Payloads that wait on disk for Kafka", spool.records),
        ("spool_bytes", "Bytes that they take", spool.bytes),
        ("spool_bytes_max", "Bytes that they may take", spool.bytes_max),
        ("spool_oldest_age_seconds", "How long the oldest has waited", spool.age_ms / 1000),
        ("spool_set_aside_payloads", "Accepted, and not in Kafka", spool.set_aside_payloads),
        ("spool_set_aside_bytes", "Bytes that they take", spool.set_aside_bytes),
    ):
        yield GaugeMetricFamily(_PREFIX + name, meaning, value)
    now_ms = time.time_ns() // 1_000_000
    yield metric(
        GaugeMetricFamily,
        f"{_PREFIX}spool_stuck_seconds",
        "How long Kafka has taken nothing of a topic that the spool holds",
        ("topic", "reason"),
        [((one.topic, one.why), max(0, now_ms - one.since_ms) / 1000) for one in spool.stuck],
    )


def metrics_routes(metrics: Metrics) -> list[BaseRoute]:
    async def scrape(_: Request) -> Response:
        """The metrics of all workers of this node, in Prometheus' text format."""
        return Response(generate_latest(metrics), media_type=CONTENT_TYPE_LATEST)

    return [APIRoute("/metrics", scrape, methods=["GET"], response_class=PlainTextResponse)]
