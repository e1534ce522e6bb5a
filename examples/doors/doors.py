"""Doors with badge readers, which ask a directory who may pass: all of the domain is this file.

    export DIRECTORY_URL=http://127.0.0.1:9999
    PYTHONPATH=examples/doors HEADRACE_FLOW=doors:FLOW ./headrace up
    curl -d '{"badge": "b-17"}' localhost:8080/v1/badge/door-1
    curl -d '{"open": true}' localhost:8080/v1/contact/door-1

The directory is somebody else's service, and it may be away. Then a badge waits, and what the door
sends after it waits behind it, so that a door that opens is known to have been opened by somebody.
Other doors, whose badges the directory has answered, go on, and so does what needs no directory.
"""

import os
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from shared.flow_table import Flow
from shared.lookups import HttpLookup
from shared.model import Arrival, Draft, Endpoint, Entity, Event, EventType, Fields, MasterData
from shared.retry_policy import RetryPolicy

Text = Annotated[str, Field(min_length=1, max_length=100)]


class Badge(TypedDict):
    badge: Text


class Contact(TypedDict):
    open: bool


class Owner(TypedDict):  # what the directory says of a badge
    holder: str


class Passage(TypedDict):
    badge: str
    holder: str | None
    allowed: bool


class Door(TypedDict):
    door: str
    allowed: int
    denied: int
    last_holder: str | None
    open: bool
    opened_by: list[str | None]  # who was let in last when it opened


DIRECTORY = HttpLookup(
    "directory",
    url=os.environ.get("DIRECTORY_URL", "http://127.0.0.1:9999") + "/badges/{key}",
    answer=Owner,
    fresh_for_s=30,
    absent_for_s=5,
)


def to_passage(payload: Fields, arrival: Arrival, master: MasterData) -> Draft:
    """Where the directory does not answer the look-up raises NotYet, and the badge waits."""
    badge = payload["badge"]
    owner = master.answer("directory", badge)  # None: nobody has this badge
    data = {"badge": badge, "holder": owner and owner["holder"], "allowed": owner is not None}
    return Draft("passage", arrival.at_ms, data)


def to_moved(payload: Fields, arrival: Arrival, _master: MasterData) -> Draft:
    return Draft("moved", arrival.at_ms, payload)


def new_door(door: str) -> Fields:
    counts = {"allowed": 0, "denied": 0}
    return {"door": door, **counts, "last_holder": None, "open": False, "opened_by": []}


def fold(state: Fields, event: Event) -> Fields:
    if event.type == "moved":
        opened = event.data["open"] and not state["open"]
        by = [*state["opened_by"], state["last_holder"]] if opened else state["opened_by"]
        return {**state, "open": event.data["open"], "opened_by": by}
    if not event.data["allowed"]:
        return {**state, "denied": state["denied"] + 1}
    return {**state, "allowed": state["allowed"] + 1, "last_holder": event.data["holder"]}


FLOW = Flow(
    endpoints=(
        Endpoint(
            "badge",
            to_passage,
            emits=("passage",),
            payload=Badge,
            stream="door",
            lookups=(DIRECTORY,),
            retry=RetryPolicy(first_pause_s=1, factor=1.5, pause_max_s=10),
        ),
        Endpoint("contact", to_moved, emits=("moved",), payload=Contact, stream="door"),
    ),
    event_types=(
        EventType("passage", data=Passage, stream="door"),
        EventType("moved", data=Contact, stream="door"),
    ),
    entities=(Entity("door", folds=("passage", "moved"), initial=new_door, fold=fold, state=Door),),
)
