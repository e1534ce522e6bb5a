"""Flights, as a domain of one's own: all of it is this file.

    PYTHONPATH=examples/flights HEADRACE_FLOW=flights:FLOW ./headrace up

One endpoint takes every message about a flight, so that they stay in one order until they are
events. Six event types come out, so that whoever waits for one kind reads that kind alone.
"""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from shared.flow_table import Flow
from shared.model import (
    Arrival,
    Draft,
    Endpoint,
    Entity,
    Event,
    EventType,
    Example,
    Fields,
    MasterData,
)
from shared.sent_at import sent_at_ms


class Message(TypedDict):
    at: NotRequired[str]  # when it happened; without it, when it came


class Scheduled(Message):
    what: Literal["scheduled"]
    origin: str
    destination: str


class GateChanged(Message):
    what: Literal["gate_changed"]
    gate: str


class Delayed(Message):
    what: Literal["delayed"]
    minutes: Annotated[int, Field(ge=0)]


class Moved(Message):
    what: Literal["departed", "arrived"]


class Cancelled(Message):
    what: Literal["cancelled"]
    reason: str


AnyMessage = Annotated[
    Scheduled | GateChanged | Delayed | Moved | Cancelled, Field(discriminator="what")
]


def to_event(message: Fields, arrival: Arrival, _master: MasterData) -> Draft:
    return Draft(type=message["what"], time_ms=sent_at_ms(message, arrival), data=message)


class Flight(TypedDict):
    flight: str
    status: Literal["unknown", "scheduled", "delayed", "departed", "arrived", "cancelled"]
    origin: str | None
    destination: str | None
    gate: str | None
    gate_before: str | None
    delay_minutes: int
    departed_at_ms: int | None
    arrived_at_ms: int | None
    cancelled_because: str | None


def initial(flight: str) -> Fields:
    facts = dict.fromkeys(Flight.__annotations__)
    return {**facts, "flight": flight, "status": "unknown", "delay_minutes": 0}


def fold(state: Fields, event: Event) -> Fields:
    """The order of two types is promised by nobody: each sets facts of its own, its newest event
    wins, and the status follows from the facts, not from which of them came last."""
    if event.late:
        return state
    known = {**state, **facts_of(event, state)}
    return {**known, "status": status_of(known)}


def facts_of(event: Event, state: Fields) -> Fields:
    match event.type:
        case "scheduled":
            return {name: event.data[name] for name in ("origin", "destination")}
        case "gate_changed":
            return {"gate": event.data["gate"], "gate_before": state["gate"]}
        case "delayed":
            return {"delay_minutes": event.data["minutes"]}
        case "departed" | "arrived":
            return {f"{event.type}_at_ms": event.time_ms}
        case _:
            return {"cancelled_because": event.data["reason"]}


def status_of(known: Fields) -> str:
    if known["cancelled_because"] is not None:
        return "cancelled"
    if known["arrived_at_ms"] is not None:
        return "arrived"
    if known["departed_at_ms"] is not None:
        return "departed"
    if known["delay_minutes"] > 0:
        return "delayed"
    return "unknown" if known["origin"] is None else "scheduled"


EVENTS = {
    "scheduled": Scheduled,
    "gate_changed": GateChanged,
    "delayed": Delayed,
    "departed": Moved,
    "arrived": Moved,
    "cancelled": Cancelled,
}
NAMES = tuple(EVENTS)

FLOW = Flow(
    endpoints=(
        Endpoint(
            "flight",
            enrich=to_event,
            emits=NAMES,
            payload=AnyMessage,
            example=Example("LH400", {"what": "delayed", "minutes": 25}),
        ),
    ),
    event_types=tuple(EventType(name, data=shape) for name, shape in EVENTS.items()),
    entities=(Entity("flight", folds=NAMES, initial=initial, fold=fold, state=Flight),),
)
