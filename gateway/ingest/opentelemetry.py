"""A span for each POST, told to an OpenTelemetry collector. Imported only where one is configured.

The span's own traceparent travels with the record, and the jobs pass it on, so whoever consumes an
event or a completion can go on with the trace.
"""

import asyncio
import logging
import threading
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from gateway.http.problems import Problem
from gateway.ingest.record import RequestHead
from gateway.ingest.span import PostSpan, Tracing
from shared import VERSION
from shared.events.envelope import TRACE_PARENT
from shared.model import Endpoint
from shared.settings import GatewaySettings

log = logging.getLogger(__name__)

# what does not fit is dropped: no POST ever waits for a collector
_QUEUE_MAX = 4096
_TOLD_AT_ONCE_MAX = 512
_TELL_EVERY_MS = 1000
_ANSWER_S = 2.0
_PARTING_S = 3.0


class Traces(Tracing):
    def __init__(self, settings: GatewaySettings) -> None:
        url = f"{str(settings.otlp_endpoint).rstrip('/')}/v1/traces"
        self._provider = TracerProvider(
            ParentBased(TraceIdRatioBased(settings.trace_ratio)),
            Resource.create({"service.name": "headrace-gateway", "service.version": VERSION}),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(
                _Exporter(url, timeout=_ANSWER_S),
                max_queue_size=_QUEUE_MAX,
                max_export_batch_size=_TOLD_AT_ONCE_MAX,
                schedule_delay_millis=_TELL_EVERY_MS,
            )
        )
        self._tracer = self._provider.get_tracer("headrace.gateway", VERSION)
        # it would write lines for each try; what matters is said by the exporter here
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)

    async def start(self) -> None: ...

    async def stop(self) -> None:
        """What is not told by then is lost; the thread may hang in a call to the collector."""
        farewell = threading.Thread(target=self._provider.shutdown, daemon=True)
        farewell.start()
        await asyncio.to_thread(farewell.join, _PARTING_S)

    def begin(self, endpoint: Endpoint, entity_id: str, head: RequestHead) -> PostSpan:
        route = f"/v1/{endpoint.name}" + ("/{entity_id}" if entity_id else "")
        given = dict(head.kept).get(TRACE_PARENT)
        span = self._tracer.start_span(
            f"POST {route}",
            set_span_in_context(NonRecordingSpan(_context_of(given))) if given else None,
            SpanKind.SERVER,
            {
                "http.request.method": "POST",
                "http.route": route,
                "url.scheme": "http",
                "url.path": f"/v1/{endpoint.name}/{entity_id}".rstrip("/"),
                "messaging.system": "kafka",
                "messaging.operation.type": "send",
                "messaging.operation.name": "produce",
                "messaging.destination.name": endpoint.topic,
                **({"messaging.kafka.message.key": entity_id} if entity_id else {}),
            },
        )
        return _Span(span)


class _Exporter(OTLPSpanExporter):
    _is_away = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = super().export(spans)
        if (result is not SpanExportResult.SUCCESS) != self._is_away:
            self._is_away = not self._is_away
            log.warning(
                "the collector at %s %s",
                self._endpoint,
                "does not take spans, they are dropped" if self._is_away else "takes spans again",
            )
        return result


class _Span(PostSpan):
    def __init__(self, span: Span) -> None:
        self._span = span

    def instead_of_given(self, head: RequestHead) -> RequestHead:
        at = self._span.get_span_context()
        own = f"00-{at.trace_id:032x}-{at.span_id:016x}-{at.trace_flags:02x}".encode()
        kept = [(name, value) for name, value in head.kept if name != TRACE_PARENT]
        return head._replace(kept=[*kept, (TRACE_PARENT, own)])

    def accepted(self, payloads: int | None = None) -> None:
        self._span.set_attribute("http.response.status_code", 202 if payloads is None else 207)
        if payloads is not None:
            self._span.set_attribute("messaging.batch.message_count", payloads)

    def refused(self, problem: Problem) -> None:
        self._span.set_attribute("http.response.status_code", problem.status)
        self._failed(problem.code, is_error=problem.status >= 500)

    def failed(self, code: str) -> None:
        self._failed(code, is_error=True)

    def _failed(self, code: str, *, is_error: bool) -> None:
        self._span.set_attribute("error.type", code)
        if is_error:
            self._span.set_status(Status(StatusCode.ERROR))

    def end(self) -> None:
        self._span.end()


def _context_of(trace_parent: bytes) -> SpanContext:
    """The context of a trace parent that `read_head` has found to be valid."""
    _, trace_id, span_id, flags = trace_parent.split(b"-")
    return SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16))
    )
