"""What is answered of a payload of each fate."""

from collections.abc import Iterator, Mapping
from typing import Any

import cbor2
import orjson
import pytest
from typing_extensions import TypedDict

from desk.trial.answer import answer, payload_of
from gateway.http.problems import Problem
from gateway.ingest.record import read_head
from shared.events.envelope import Position
from shared.flow import FLOW
from shared.flow_table import Flow
from shared.folding import snapshot
from shared.folding.applier import Applier
from shared.formats import Cbor, Json
from shared.lookups import HttpLookup
from shared.model import (
    Arrival,
    Draft,
    Dropped,
    Endpoint,
    Entity,
    Event,
    EventType,
    Fields,
    MasterData,
    NotYet,
    Rejected,
)
from shared.retry_policy import RetryPolicy
from stream_jobs.enrich.answers import Answers
from tests.builders import Master, event_record
from tests.played_service import answering, played


class Meters(TypedDict):
    litres: list[int]


def to_draws(payload: Fields, arrival: Arrival, _master: MasterData) -> Iterator[Draft] | Dropped:
    litres = payload["litres"]
    if not litres:
        return Dropped("dry", "no litre")
    if litres == [13]:
        raise NotYet("the clerk is out")
    if litres == [14]:
        raise Rejected("too_much", "litres: 14 are too many")
    return (Draft("drawn", arrival.at_ms, {"litres": one}) for one in litres)


def fold_tank(state: Fields, event: Event) -> Fields:
    if event.data["litres"] == 99:
        raise ValueError("no tank holds that")
    return {"drawn": state["drawn"] + event.data["litres"]}


def spills(before: Fields, after: Fields, _event: Event) -> list[Draft]:
    is_full = before["drawn"] < 10 <= after["drawn"]
    return [Draft("spilt", 1_700_000_000_000, {}, entity_id="floor")] if is_full else []


# who folds what a tank emits stands before it
WATER = Flow(
    endpoints=(
        Endpoint(
            "draw",
            to_draws,
            emits=("drawn",),
            payload=Meters,
            formats=(Cbor(), Json()),
            drops=("dry",),
            retry=RetryPolicy(),
        ),
    ),
    event_types=(EventType("drawn"), EventType("spilt")),
    entities=(
        Entity("room", ("spilt",), lambda _: {"wet": 0}, lambda s, _: {"wet": s["wet"] + 1}),
        Entity(
            "tank", ("drawn",), lambda _: {"drawn": 0}, fold_tank, derive=spills, emits=("spilt",)
        ),
    ),
)


def _try(
    flow: Flow,
    endpoint_name: str,
    body: bytes,
    known: Mapping[str, bytes] | None = None,
    headers: Mapping[bytes, bytes] | None = None,
    entity_id: str = "device-0001",
) -> dict[str, Any]:
    endpoint = flow.endpoint(endpoint_name)
    assert endpoint
    payload = payload_of(endpoint, entity_id, read_head(headers or {}), body)
    snapshots = known or {}
    found = answer(flow, endpoint, payload, Master(), lambda topic, _: snapshots.get(topic))
    return dict(orjson.loads(orjson.dumps(found)))  # as it goes over HTTP


def test_an_event_is_told_with_its_decoding_and_the_state_after() -> None:
    found = _try(FLOW, "telemetry", b'{"value": 21.5}')
    assert found["decoded"] == {"format": "Json", "value": {"value": 21.5}}
    assert (found["outcome"], found["cause"], found["detail"]) == ("event", "", "")
    (event,) = found["events"]
    assert (event["type"], event["entity_id"]) == ("reading", "device-0001")
    assert (event["data"]["value"], event["data"]["area"]) == (21.5, "area-01")
    (state,) = found["states"]
    assert (state["entity"], state["id"], state["outcome"]) == ("device", "device-0001", "changes")
    assert (state["version"], state["before"]) == (None, None)
    assert (state["after"]["value"], state["after"]["count"]) == (21.5, 1)


def test_the_state_after_goes_on_from_that_which_is_known_whatever_it_has_folded() -> None:
    entity = FLOW.entities[0]
    types = {row.name: row for row in FLOW.event_types}
    records = [event_record(n, value=3.0) for n in range(1000, 1003)]
    now = Applier(entity, 64, types).apply("device-0001", None, records).snapshot
    assert now
    known = {entity.topic: snapshot.encode(now, "fold")}
    (state,) = _try(FLOW, "telemetry", b'{"value": 21.5}', known)["states"]
    assert (state["version"], state["outcome"], state["detail"]) == (3, "changes", "")
    assert (state["before"]["count"], state["after"]["count"]) == (3, 4)
    assert (state["before"]["value"], state["after"]["value"]) == (3.0, 21.5)


def test_several_events_are_folded_one_after_the_other_and_so_is_what_they_cause() -> None:
    found = _try(WATER, "draw", cbor2.dumps({"litres": [4, 5, 6]}), entity_id="tank-1")
    assert found["decoded"] == {"format": "Cbor", "value": {"litres": [4, 5, 6]}}
    assert [event["data"]["litres"] for event in found["events"]] == [4, 5, 6]
    assert [event["id"].partition("#")[2] for event in found["events"]] == ["", "1", "2"]
    (spilt,) = found["derived"]
    assert (spilt["type"], spilt["entity_id"]) == ("spilt", "floor")
    assert spilt["cause"] == found["events"][2]["id"]
    after = {(state["entity"], state["id"]): state["after"] for state in found["states"]}
    assert after == {("tank", "tank-1"): {"drawn": 15}, ("room", "floor"): {"wet": 1}}


@pytest.mark.parametrize(
    ("body", "outcome", "cause", "detail"),
    [
        (b'{"litres": [1, "2"]}', "parked", "wrong_type", "litres.1: Input should be a valid"),
        (b'{"litres": [1}', "parked", "not_json", "line 1"),
        (b'{"litres": []}', "dropped", "dry", "no litre"),
        (b'{"litres": [13]}', "waits", "not_yet", "the clerk is out"),
        (b'{"litres": [14]}', "parked", "too_much", "litres: 14 are too many"),
    ],
)
def test_what_becomes_no_event_is_told_with_the_reason_and_the_place(
    body: bytes, outcome: str, cause: str, detail: str
) -> None:
    found = _try(WATER, "draw", body, headers={b"content-type": b"application/json"})
    assert (found["outcome"], found["cause"]) == (outcome, cause)
    assert detail in found["detail"]
    assert found["events"] == found["states"] == []
    assert (found["decoded"] is None) == (cause == "not_json")


def test_missing_master_data_is_waited_for() -> None:
    found = _try(FLOW, "telemetry", b'{"value": 21.5}', entity_id="device-9999")
    assert (found["outcome"], found["cause"]) == ("waits", "missing_device")


def test_what_fold_would_park_is_told_with_the_state_that_stays() -> None:
    found = _try(WATER, "draw", cbor2.dumps({"litres": [4, 99]}), entity_id="tank-1")
    assert found["outcome"] == "event"
    (state,) = found["states"]
    assert state["outcome"] == "parked"
    assert "no tank holds that" in state["detail"]
    assert state["after"] == {"drawn": 4}


def test_a_payload_whose_key_was_used_already_changes_nothing() -> None:
    headers = {b"idempotency-key": b"k"}
    endpoint = FLOW.endpoint("telemetry")
    assert endpoint
    (event,) = _try(FLOW, "telemetry", b'{"value": 1}', headers=headers)["events"]
    record = event_record(id=event["id"], origin=Position(endpoint.topic, 0, 0).offset)
    types = {row.name: row for row in FLOW.event_types}
    now = Applier(FLOW.entities[0], 64, types).apply("device-0001", None, [record]).snapshot
    assert now
    known = {FLOW.entities[0].topic: snapshot.encode(now, "fold")}
    (state,) = _try(FLOW, "telemetry", b'{"value": 1}', known, headers)["states"]
    assert (state["outcome"], state["detail"]) == ("unchanged", "it is folded already")
    assert state["after"] == state["before"]


def test_a_tenants_device_is_tried_within_its_tenant() -> None:
    (event,) = _try(FLOW, "telemetry", b'{"value": 1}', entity_id="acme/device-0001")["events"]
    assert event["entity_id"] == "acme/device-0001"


@pytest.mark.parametrize(
    ("value", "shown"),
    [({"litres": b"\x01"}, {"litres": r"b'\x01'"}), ({"litres": 2**70}, f"{{'litres': {2**70}}}")],
)
def test_values_that_json_has_not_are_shown_as_text(value: Fields, shown: object) -> None:
    found = _try(WATER, "draw", cbor2.dumps(value))
    assert (found["outcome"], found["cause"]) == ("parked", "wrong_type")
    assert found["decoded"]["value"] == shown


def test_without_a_view_no_states_are_told() -> None:
    endpoint = FLOW.endpoint("telemetry")
    assert endpoint
    payload = payload_of(endpoint, "device-0001", read_head({}), b'{"value": 1}')
    found = answer(FLOW, endpoint, payload, Master(), None)
    assert (found["outcome"], found["states"]) == ("event", None)


@pytest.mark.parametrize(
    ("entity_id", "body", "media_type", "code"),
    [
        ("-a", b"{}", b"", "bad_entity_id"),
        ("a/b/c", b"{}", b"", "bad_entity_id"),
        ("a", b"", b"", "empty_body"),
        ("a", b"{}", b"application/x-ndjson", "batch"),
    ],
)
def test_what_the_gateway_would_not_take_as_a_payload_is_refused(
    entity_id: str, body: bytes, media_type: bytes, code: str
) -> None:
    endpoint = FLOW.endpoint("telemetry")
    assert endpoint
    with pytest.raises(Problem) as refusal:
        payload_of(endpoint, entity_id, read_head({b"content-type": media_type}), body)
    assert refusal.value.code == code


def to_badge(payload: Fields, arrival: Arrival, master: MasterData) -> Draft:
    return Draft("passed", arrival.at_ms, {"owner": master.answer("owner", payload["badge"])})


def test_a_service_that_the_enrichment_asks_is_really_asked() -> None:
    with played() as service:
        owner = HttpLookup("owner", f"{service.url}/{{key}}")
        flow = Flow(
            endpoints=(
                Endpoint("badge", to_badge, ("passed",), lookups=(owner,), retry=RetryPolicy()),
            ),
            event_types=(EventType("passed"),),
            entities=(),
        )
        answers = Answers(flow)
        endpoint = flow.endpoints[0]
        payload = payload_of(endpoint, "door-1", read_head({}), b'{"badge": "b-1"}')
        found = answer(flow, endpoint, payload, Master(), None, answers.find)
        (event,) = found["events"]
        assert event["data"] == {"owner": {"holder": "holder of b-1"}}
        assert [*event["saw"]] == ["owner/b-1"]
        service.way = answering(503)
        payload = payload_of(endpoint, "door-1", read_head({}), b'{"badge": "b-2"}')
        found = answer(flow, endpoint, payload, Master(), None, answers.find)
        assert (found["outcome"], found["detail"]) == ("waits", "owner is away: it answers 503")
        answers.close()
