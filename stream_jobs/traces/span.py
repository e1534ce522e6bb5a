"""A step on a payload's way, as a collector takes it: OTLP over HTTP, as JSON. Pure."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from itertools import groupby
from typing import Any, NamedTuple

from shared import VERSION
from shared.events import envelope
from shared.events.envelope import Header

_SPAN_ID_BYTES = 8
_CONSUMER, _ERROR = 5, 2
_NS = 1_000_000
_SAMPLED = 1
Attributes = Mapping[str, str | int]


class Parent(NamedTuple):
    trace_id: str
    span_id: str


class Span(NamedTuple):
    parent: Parent
    id: str
    stage: str  # whose work it is
    name: str
    begin_ms: int
    end_ms: int
    attributes: Attributes = {}  # noqa: RUF012 - never changed
    error: str = ""
    links: tuple[Parent, ...] = ()  # to what was done together with it

    @property
    def as_parent(self) -> Parent:
        return Parent(self.parent.trace_id, self.id)


def parent_in(headers: Iterable[Header]) -> Parent | None:
    """The parent of a record that belongs to a trace which is to be told."""
    told = envelope.text(headers, envelope.TRACE_PARENT)
    if told is None:
        return None
    try:
        _, trace_id, span_id, flags = told.split("-")
        is_sampled = int(flags, 16) & _SAMPLED
        bytes.fromhex(trace_id + span_id)
    except ValueError:
        return None
    is_right = len(trace_id) == 32 and len(span_id) == 16 and int(trace_id, 16) and int(span_id, 16)
    return Parent(trace_id, span_id) if is_sampled and is_right else None


def span_id(*parts: str) -> str:
    """The same for the same step, whoever tells it, and however often."""
    return blake2b("\n".join(parts).encode(), digest_size=_SPAN_ID_BYTES).hexdigest()


def request_of(spans: Iterable[Span]) -> dict[str, Any]:
    """Each stage is a service of its own there."""
    by_stage = groupby(sorted(spans, key=lambda one: one.stage), key=lambda one: one.stage)
    return {
        "resourceSpans": [
            {
                "resource": {
                    "attributes": _attributes(
                        {"service.name": f"headrace-{stage}", "service.version": VERSION}
                    )
                },
                "scopeSpans": [
                    {
                        "scope": {"name": "headrace.traces", "version": VERSION},
                        "spans": [_as_json(one) for one in its],
                    }
                ],
            }
            for stage, its in by_stage
        ]
    }


def _as_json(one: Span) -> dict[str, Any]:
    return {
        "traceId": one.parent.trace_id,
        "spanId": one.id,
        "parentSpanId": one.parent.span_id,
        "name": one.name,
        "kind": _CONSUMER,
        "startTimeUnixNano": str(one.begin_ms * _NS),
        # brokers' clocks may differ: no span ends before it begins
        "endTimeUnixNano": str(max(one.begin_ms, one.end_ms) * _NS),
        "attributes": _attributes(one.attributes),
        "links": [{"traceId": its.trace_id, "spanId": its.span_id} for its in one.links],
        "status": {"code": _ERROR, "message": one.error} if one.error else {},
    }


def _attributes(told: Attributes) -> list[dict[str, Any]]:
    return [
        {
            "key": key,
            "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value},
        }
        for key, value in told.items()
    ]
