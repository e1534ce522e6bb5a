"""The state of another entity at enrichment: what is found, whose, and what the event tells."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from clients.kafka.records import Outgoing, Payload
from local_stack.verbs.flow import document, picture
from shared.errors import StaleMasterDataError
from shared.events import envelope
from shared.events.envelope import Position, read_event
from shared.flow_table import Flow
from shared.folding.snapshot import Snapshot, encode, encode_total
from shared.model import Aggregate, Arrival, Draft, Endpoint, Entity, EventType, MasterData
from shared.published.acls import acls
from shared.published.schemas.events import event
from stream_jobs.enrich.enrich_payload import enricher
from tests.builders import Master

ORDER = encode(Snapshot({"status": "open"}, version=7), "f")
SNAPSHOTS = {
    ("order", "o-1"): ORDER,
    ("order", "o-gone"): encode(Snapshot({"status": "new"}, version=9, deleted=True), "f"),
    ("order", "o-odd"): b'{"status": "open"}',
    ("order", "acme/o-1"): encode(Snapshot({"status": "theirs"}, version=3), "f"),
    ("sales", "all"): encode_total({"sum": 5}, 2, None, "f"),
}


def _look(payload: dict[str, Any], arrival: Arrival, master: MasterData) -> Draft:
    looks = [tuple(one) for one in payload["looks"]]
    found = {key: [master.state(name, key), master.version(name, key)] for name, key in looks}
    return Draft("looked", arrival.at_ms, {"found": found})


def _same(state: dict[str, Any], _event: object) -> dict[str, Any]:
    return state


FLOW = Flow(
    endpoints=(Endpoint("look", _look, ("looked",), states=("order", "sales")),),
    event_types=(EventType("looked"),),
    entities=(Entity("order", ("looked",), lambda _: {}, _same),),
    aggregates=(Aggregate("sales", "order", lambda _: None, lambda a, _: a, lambda _id, _sum: {}),),
)
ENRICH = enricher(FLOW, lambda name, key: SNAPSHOTS.get((name, key)))


def _made(*looks: tuple[str, str], key: str = "d-1") -> Outgoing:
    body = orjson.dumps({"looks": looks})
    place = Position("ingest.look.v1", 0, 0)
    (made,) = ENRICH(Payload(place, key.encode(), body, [], 1_700_000_000_000), Master())
    return made


def _found(*looks: tuple[str, str], key: str = "d-1") -> Any:
    return orjson.loads(_made(*looks, key=key).value or b"")["data"]["found"]


def test_the_last_state_is_found_with_its_version() -> None:
    found = _found(("order", "o-1"), ("sales", "all"))
    assert found == {"o-1": [{"status": "open"}, 7], "all": [{"sum": 5}, 2]}


def test_there_is_none_of_what_is_deleted_was_never_there_or_is_no_snapshot() -> None:
    found = _found(("order", "o-gone"), ("order", "o-new"), ("order", "o-odd"))
    assert found == {"o-gone": [None, 9], "o-new": [None, 0], "o-odd": [None, 0]}


def test_a_tenant_sees_its_own_states_alone() -> None:
    theirs = [{"status": "theirs"}, 3]
    looks = (("order", "o-1"), ("order", "acme/o-1"))
    assert _found(*looks, key="acme/d-1") == {"o-1": theirs, "acme/o-1": theirs}
    assert _found(*looks, key="beta/d-1") == {"o-1": [None, 0], "acme/o-1": [None, 0]}
    assert _found(*looks) == {"o-1": [{"status": "open"}, 7], "acme/o-1": [None, 0]}


def test_the_event_says_what_was_seen_and_has_the_same_id_whatever_that_was() -> None:
    made = _made(("order", "o-1"), ("order", "o-new"))
    record = read_event(Position(made.topic, 0, 0), made.value or b"")
    assert record.saw == {"order/o-1": 7, "order/o-new": 0}
    assert envelope.event_value(record) == made.value
    schema = event(FLOW.event_types[0]).value
    assert schema is not None and "saw" in schema["properties"]
    later = enricher(FLOW, lambda *_: encode(Snapshot({}, version=8), "f"))
    body = orjson.dumps({"looks": [["order", "o-1"]]})
    payload = Payload(Position("ingest.look.v1", 0, 0), b"d-1", body, [], 1_700_000_000_000)
    (again,) = later(payload, Master())
    seen_later = read_event(Position(again.topic, 0, 0), again.value or b"")
    assert (seen_later.id, seen_later.saw) == (record.id, {"order/o-1": 8})


def test_an_event_that_looked_at_nothing_says_nothing_of_it() -> None:
    assert "saw" not in orjson.loads(_made().value or b"")


def test_what_saw_nothing_that_can_be_is_no_event() -> None:
    value = (_made(("order", "o-1")).value or b"").replace(b'{"order/o-1":7}', b"7")
    with pytest.raises(ValueError, match="wrong type"):
        read_event(Position("event.looked.v1", 0, 0), value)


def test_a_look_that_the_row_does_not_name_parks_the_payload() -> None:
    made = _made(("device", "d-1"))
    assert made.topic == "dlq.enrich.v1"
    assert dict(made.headers)[envelope.REASON] == b"undeclared_look"


def test_states_that_cannot_be_read_now_are_no_fault_of_the_payload() -> None:
    def away(_name: str, _key: str) -> bytes:
        raise StaleMasterDataError("Kafka is away")

    body = orjson.dumps({"looks": [["order", "o-1"]]})
    payload = Payload(Position("ingest.look.v1", 0, 0), b"d-1", body, [], 1_700_000_000_000)
    with pytest.raises(StaleMasterDataError):
        enricher(FLOW, away)(payload, Master())


def test_the_flow_shows_who_looks_at_what() -> None:
    assert FLOW.looked_at == {"order": "state.order.v1", "sales": "state.sales.v1"}
    enrich = FLOW.job("enrich")
    assert enrich.looks_up == ("state.order.v1", "state.sales.v1")
    assert "  looks up    state.order.v1" in picture(FLOW)
    assert document(FLOW)["endpoints"][0]["states"] == ("order", "sales")
    rights = {(acl.operation, acl.name) for acl in acls(FLOW) if acl.application == "enrich"}
    assert {("READ", "state.order.v1"), ("DESCRIBE", "headrace-master-view")} <= rights


def test_a_look_at_what_is_not_there_is_refused() -> None:
    endpoint = replace(FLOW.endpoints[0], states=("device",))
    with pytest.raises(ValueError, match=r"of 'device', which is no .*there are: order, sales"):
        replace(FLOW, endpoints=(endpoint,))
    with pytest.raises(ValueError, match="states is no tuple"):
        replace(FLOW, endpoints=(replace(endpoint, states="order"),))  # type: ignore[arg-type]
