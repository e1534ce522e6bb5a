"""Spans as a collector receives them, and POSTs without one."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pydantic import HttpUrl

from gateway.ingest.opentelemetry import Traces
from gateway.kafka_writer.outcome import NotWritten, OutcomeUnknown
from tests.gateway.support import Gateway, Record
from tests.otlp_collector import CollectorServer

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN_ID = "00f067aa0ba902b7"
GIVEN = f"00-{TRACE_ID}-{SPAN_ID}-01"
SERVER = 2
ERROR = 2


class Collector(CollectorServer):
    """Keeps each request as it came."""

    def __init__(self) -> None:
        super().__init__(self._take)
        self.requests: list[tuple[str, ExportTraceServiceRequest]] = []

    def _take(self, path: str, _: str, body: bytes) -> None:
        self.requests.append((path, ExportTraceServiceRequest.FromString(body)))

    def spans(self) -> list[Any]:
        return [
            span
            for _, request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class Traced(NamedTuple):
    gateway: Gateway
    traces: Traces
    collector: Collector

    def told(self) -> list[Any]:
        asyncio.run(self.traces.stop())
        return self.collector.spans()


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def pointed_to(record: Record) -> tuple[str, str, bool]:
    """Trace, span, and whether it is sampled."""
    version, trace_id, span_id, flags = record.headers["traceparent"].decode().split("-")
    assert version == "00"
    return trace_id, span_id, bool(int(flags, 16) & 1)


def traced_gateway(gateway: Gateway, url: str, ratio: float = 1.0) -> tuple[Gateway, Traces]:
    update = {"otlp_endpoint": HttpUrl(url), "trace_ratio": ratio}
    traces = Traces(gateway.settings.model_copy(update=update))
    return gateway.rebuilt(tracing=traces), traces


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


@pytest.fixture
def traced(gateway: Gateway, collector: Collector) -> Traced:
    return Traced(*traced_gateway(gateway, collector.url), collector)


def test_a_post_is_a_span_under_the_client_s_and_its_record_points_to_it(traced: Traced) -> None:
    answer = traced.gateway.post(headers={"traceparent": GIVEN})
    assert answer.status_code == 202
    (span,) = traced.told()
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE_ID, SPAN_ID)
    assert (span.name, span.kind) == ("POST /v1/telemetry/{entity_id}", SERVER)
    assert attributes(span) == {
        "http.request.method": "POST",
        "http.route": "/v1/telemetry/{entity_id}",
        "http.response.status_code": 202,
        "url.scheme": "http",
        "url.path": "/v1/telemetry/device-0001",
        "messaging.system": "kafka",
        "messaging.operation.type": "send",
        "messaging.operation.name": "produce",
        "messaging.destination.name": "ingest.telemetry.v1",
        "messaging.kafka.message.key": "device-0001",
    }
    (record,) = traced.gateway.log.records
    assert pointed_to(record) == (TRACE_ID, span.span_id.hex(), True)
    (path, request), *_ = traced.collector.requests
    assert path == "/v1/traces"
    of = attributes(request.resource_spans[0].resource)
    assert of["service.name"] == "headrace-gateway"


@pytest.mark.parametrize("given", [None, "00-0-0-01", GIVEN.upper()])
def test_without_a_valid_traceparent_a_trace_begins_here(traced: Traced, given: str | None) -> None:
    traced.gateway.post(headers={} if given is None else {"traceparent": given})
    (span,) = traced.told()
    assert not span.parent_span_id
    (record,) = traced.gateway.log.records
    assert pointed_to(record) == (span.trace_id.hex(), span.span_id.hex(), True)


def test_a_batch_is_one_span(traced: Traced) -> None:
    ndjson = {"content-type": "application/x-ndjson"}
    traced.gateway.post(content=b"1\n\n2\n3\n", headers=ndjson)
    (span,) = traced.told()
    assert attributes(span)["http.response.status_code"] == 207
    assert attributes(span)["messaging.batch.message_count"] == 3
    own = (span.trace_id.hex(), span.span_id.hex(), True)
    assert [pointed_to(record) for record in traced.gateway.log.records] == [own] * 3


def test_a_refusal_is_told_with_its_code_and_is_an_error_where_it_is_ours(traced: Traced) -> None:
    traced.gateway.post(content=b"")
    traced.gateway.log.failure = NotWritten("kafka_unreachable", "away")
    traced.gateway.post()
    traced.gateway.log.failure = OutcomeUnknown()
    traced.gateway.post()
    traced.gateway.log.failure = RuntimeError("a fault")
    traced.gateway.post()
    spans = traced.told()
    assert [attributes(span)["error.type"] for span in spans] == [
        "empty_body",
        "kafka_unreachable",
        "outcome_unknown",
        "internal_fault",
    ]
    assert [span.status.code == ERROR for span in spans] == [False, True, True, True]


def test_what_is_not_sampled_is_not_told_but_still_pointed_to(
    gateway: Gateway, collector: Collector
) -> None:
    traced = Traced(*traced_gateway(gateway, collector.url, ratio=0.0), collector)
    traced.gateway.post()
    traced.gateway.post(headers={"traceparent": f"{GIVEN[:-2]}00"})
    traced.gateway.post(headers={"traceparent": GIVEN})
    (span,) = traced.told()
    assert span.trace_id.hex() == TRACE_ID
    pointers = [pointed_to(record) for record in gateway.log.records]
    assert [is_sampled for *_, is_sampled in pointers] == [False, False, True]
    assert [trace_id == TRACE_ID for trace_id, *_ in pointers] == [False, True, True]
    assert SPAN_ID not in {span_id for _, span_id, _ in pointers}


@pytest.mark.slow
def test_a_collector_that_is_away_costs_no_post_and_little_time_at_the_end(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.ingest.opentelemetry._QUEUE_MAX", 200)
    monkeypatch.setattr("gateway.ingest.opentelemetry._TOLD_AT_ONCE_MAX", 50)
    with socket.socket() as silent:  # takes connections, and never says a word
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        traced, traces = traced_gateway(gateway, f"http://127.0.0.1:{silent.getsockname()[1]}")
        posts = [("POST", f"/v1/telemetry/device-{n}", {"content": b"{}"}) for n in range(200)]
        for _ in range(3):  # more than the queue holds
            assert {answer.status_code for answer in traced.ask_all(posts)} == {202}
        begun_s = time.monotonic()
        asyncio.run(traces.stop())
        assert time.monotonic() - begun_s < 30


@pytest.mark.slow
def test_it_is_said_once_that_the_collector_is_away(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # refuses connections
        traced, traces = traced_gateway(gateway, f"http://127.0.0.1:{nobody.getsockname()[1]}")
        for _ in range(2):
            traced.post()
            traces._provider.force_flush()
    asyncio.run(traces.stop())
    said = [record.message for record in caplog.records]
    assert len(said) == 1
    assert "does not take spans" in said[0]


@pytest.mark.slow
def test_unless_it_is_wanted_nothing_of_it_is_imported() -> None:
    look = (
        "import sys, gateway.node.node as n, gateway.server.composition as p, shared.settings as s;"
        "settings = s.GatewaySettings(state_dir=sys.argv[1], spool_bytes_max=0);"
        "p.put_together(p.parts_of(settings, n.Node()));"
        "sys.exit(any(n.startswith(('opentelemetry.sdk', 'opentelemetry.exporter', 'requests'))"
        " for n in sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", look, "/nowhere"], timeout=60, check=False)
    assert ended.returncode == 0
