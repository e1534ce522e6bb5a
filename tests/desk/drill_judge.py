"""What came out of the drill, held against what was sent."""

import time
from collections import Counter
from collections.abc import Iterator
from math import isclose
from typing import NamedTuple

import httpx
import orjson
import psycopg

from shared.folding.snapshot import META
from tests.desk.drill_stack import DrillStack
from tests.kafka_log import distinct_events, last_values, read_topic
from tests.oracle import expected_states

_REFOLDED_WITHIN_S = 60.0


class Sent(NamedTuple):
    id: str
    device: str
    value: float  # that the event has to say


def violations(sent: list[Sent], stack: DrillStack) -> Iterator[str]:
    bootstrap = stack.status["kafka_bootstrap"]
    yield from _of_rows(sent, stack.status["postgres_url"])
    yield from _of_completions(sent, bootstrap)
    yield from _of_all_states(bootstrap)
    yield from _of_desk(stack.status["desk_url"], stack.status["gateway_url"])


def _of_rows(sent: list[Sent], postgres_url: str) -> Iterator[str]:
    with psycopg.connect(postgres_url) as connection:
        rows = connection.execute(
            "SELECT event_id, entity_id, (data ->> 'value')::float8 FROM headrace.event"
        ).fetchall()
    stored = {id_: (device, value) for id_, device, value in rows}
    if len(rows) != len(stored) or stored.keys() != {one.id for one in sent}:
        yield f"{len(sent)} payloads became {len(rows)} rows of {len(stored)} events"
    for one in sent:
        device, value = stored.get(one.id, ("", 0.0))
        if device != one.device or not isclose(value, one.value):
            yield f"{one} is stored as {value} of {device!r}"


def _of_completions(sent: list[Sent], bootstrap: str) -> Iterator[str]:
    told = Counter(
        orjson.loads(record.value or b"{}")["event_id"]
        for record in read_topic(bootstrap, "completion.reading.v1")
    )
    if told.keys() != {one.id for one in sent}:
        yield f"{len(sent)} payloads, completions of {len(told)} events"
    if copies := told.total() - len(told):
        print(f"{copies} completions came again under their id")


def _of_all_states(bootstrap: str) -> list[str]:
    """What came again is folded in from the log: that may take fold a moment more."""
    deadline = time.monotonic() + _REFOLDED_WITHIN_S
    while (found := [*_of_states(bootstrap)]) and time.monotonic() < deadline:
        time.sleep(2)
    return found


def _of_states(bootstrap: str) -> Iterator[str]:
    """Each is the pure fold of its events, where they first stood."""
    events = sorted(distinct_events(bootstrap, "event.reading.v1"), key=lambda one: one["origin"])
    expected, states = expected_states(events), last_values(bootstrap, "state.device.v1")
    for device, state in expected.items():
        found = states.get(device, {})
        found.pop(META, None)
        if found != state:
            yield f"{device} is {found}, not {state}"


def _of_desk(desk_url: str, gateway_url: str) -> Iterator[str]:
    with httpx.Client(timeout=10) as http:
        groups = http.get(f"{desk_url}/api/groups", params={"by": "status"}).json()["groups"]
        health = http.get(f"{gateway_url}/health").json()
    if [one["status"] for one in groups] != ["done"]:
        yield f"the desk still has {groups}"
    for name in ("ledger:difference", "letters:parked"):
        (check,) = health["checks"][name]
        if check["status"] != "pass" or check["observedValue"]:
            yield f"{name} is {check}"
