"""Payloads that say when they are due, and cannot become events before. Each event tells when its
payload was tried."""

import time

from shared.flow_table import Flow
from shared.model import Arrival, Draft, Endpoint, Entity, Event, EventType, Fields, NotYet
from shared.retry_policy import RetryPolicy

_RETRY = RetryPolicy(age_max_s=30 * 86_400.0)


def ring(payload: Fields, _arrival: Arrival, _master: object) -> Draft:
    now_ms = time.time_ns() // 1_000_000
    if now_ms < payload["due_ms"]:
        raise NotYet("its time has not come", after_s=(payload["due_ms"] - now_ms) / 1000)
    return Draft("rang", payload["due_ms"], {**payload, "tried_ms": now_ms})


def fold(state: Fields, event: Event) -> Fields:
    return {"rang": state["rang"] + 1, "last": event.data["number"]}


FLOW = Flow(
    endpoints=(
        Endpoint("timer", ring, ("rang",), retry=_RETRY),
        Endpoint("alarm", ring, ("rang",), retry=_RETRY._replace(in_order=False)),
    ),
    event_types=(EventType("rang"),),
    entities=(Entity("clock", ("rang",), lambda _id: {"rang": 0, "last": None}, fold),),
)
