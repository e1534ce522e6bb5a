"""What is published of a topic is what the code writes there."""

from dataclasses import replace
from hashlib import sha256
from typing import Any, NotRequired

import jsonschema_rs
import orjson
import pytest
from typing_extensions import TypedDict

from clients.kafka.records import Outgoing, Payload, Record
from gateway.auth.caller import Caller
from gateway.auth.credentials import Credential, to_record
from gateway.ingest.record import Item, common_headers, read_head, record_of
from shared.events import envelope, redelivery
from shared.events.envelope import Header, Position
from shared.flow import FLOW
from shared.flow_table import Flow
from shared.folding import snapshot
from shared.folding.applier import Applier
from shared.ids import fresh_event_id, full_id
from shared.model import Endpoint, Entity, EventType, Fields
from shared.published.schemas.by_topic import messages
from shared.published.schemas.shapes import RecordSchema, of_contract
from stream_jobs.persist.rows import EventRow, RowMaker, StateRow
from stream_jobs.persist.table_writer import _told_of_state
from tests.builders import Master, enriches
from tests.stream_jobs.views_flow import FLOW as VIEWS_FLOW
from tests.stream_jobs.views_flow import STORED_FLOW

KNOWN = messages(FLOW)


def only(topic: str) -> RecordSchema:
    (message,) = KNOWN[topic]
    return message


def keeps(schema: Fields | None, value: Any) -> bool:
    assert schema is not None
    return jsonschema_rs.validator_for(schema, validate_formats=True).is_valid(value)


def keeps_headers(message: RecordSchema, headers: list[Header]) -> bool:
    """Every header is one that is published, and each has the form that is published."""
    known = dict(message.headers["properties"])
    assert {name for name, _ in headers} <= known.keys()
    return keeps(message.headers, {name: value.decode() for name, value in headers})


def gateway_headers(body: bytes, tenant: str = "") -> list[Header]:
    trace = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    head = read_head({b"content-type": b"application/json", b"traceparent": trace})
    item = Item("device-0001", body, None)
    digest = sha256(body).hexdigest()
    received_at = "2023-11-14T22:13:20.000Z"
    common = common_headers("telemetry", received_at, head.kept, tenant)
    return record_of(item, fresh_event_id(), common, tenant, digest).headers


def enriched(body: bytes = b'{"value": 21.5, "room": "lab"}', tenant: str = "") -> Outgoing:
    place, key = Position("ingest.telemetry.v1", 2, 17), full_id(tenant, "device-0001").encode()
    payload = Payload(place, key, body, gateway_headers(body, tenant), 1_700_000_000_000)
    return enriches(FLOW)(payload, Master())


def test_every_topic_of_the_flow_is_described() -> None:
    assert KNOWN.keys() == {topic.name for topic in FLOW.topics()}


def test_the_completion_of_a_state() -> None:
    flow = replace(FLOW, entities=(replace(FLOW.entities[0], completions=True),))
    (message,) = messages(flow)["completion.state.device.v1"]
    known = snapshot.encode(snapshot.Snapshot({"count": 2}, version=2), "f")
    record = Record(Position("state.device.v1", 0, 5), b"device-0001", known, [])
    row = RowMaker.of(flow).make(record)
    assert isinstance(row, StateRow)
    at = "2023-11-14T22:13:20.000Z"
    assert keeps_headers(message, [*row.completion_headers, ("ce_time", at.encode())])
    for deleted in (False, True):
        told = orjson.loads(f'{_told_of_state(row._replace(deleted=deleted))}{at}"}}')
        assert keeps(message.value, told)
        assert ("deleted" in told) == deleted


def test_the_headers_of_a_payload() -> None:
    assert keeps_headers(only("ingest.telemetry.v1"), gateway_headers(b"{}", "acme"))
    headers = gateway_headers(b"{}")
    assert keeps_headers(only("ingest.telemetry.v1"), headers)
    assert not keeps_headers(only("ingest.status.v1"), headers)
    assert not keeps_headers(only("ingest.telemetry.v1"), headers[1:])


@pytest.mark.parametrize(
    ("topic", "payload", "kept"),
    [
        ("ingest.telemetry.v1", {"value": 1, "at": "2026-01-01T00:00:00Z"}, True),
        ("ingest.telemetry.v1", {"value": 1, "at": 5}, False),
        ("ingest.telemetry.v1", [1], False),
        ("ingest.status.v1", {"status": "online", "more": 1}, True),
        ("ingest.status.v1", {"status": "asleep"}, False),
        ("ingest.status.v1", {}, False),
    ],
)
def test_a_payload(topic: str, payload: object, kept: bool) -> None:
    assert keeps(only(topic).value, payload) == kept


@pytest.mark.parametrize("tenant", ["", "acme"])
def test_an_event_as_enrich_makes_it(tenant: str) -> None:
    out, event = enriched(tenant=tenant), only("event.reading.v1")
    value = orjson.loads(out.value or b"")
    assert keeps(event.value, value)
    assert keeps(event.value, value | {"attempt": 2})
    assert keeps(event.key, (out.key or b"").decode())
    assert keeps_headers(event, out.headers)


@pytest.mark.parametrize(
    "wrong",
    [
        {"data": {"value": 1.0}},
        {"type": "status_changed"},
        {"origin": ["ingest.telemetry.v1", "2", 17]},
        {"origin": ["ingest.telemetry.v1", 2]},
        {"time_ms": "2026-01-01T00:00:00Z"},
        {"entity_id": ""},
        {"attempt": 0},
    ],
)
def test_an_event_that_differs_is_none(wrong: Fields) -> None:
    value = orjson.loads(enriched().value or b"")
    assert not keeps(only("event.reading.v1").value, value | wrong)


@pytest.mark.parametrize("name", ["id", "type", "entity_id", "time_ms", "arrived_ms", "origin"])
def test_an_event_that_lacks_a_field_is_none(name: str) -> None:
    value = orjson.loads(enriched().value or b"")
    del value[name]
    assert not keeps(only("event.reading.v1").value, value)


def test_a_dead_letter_and_a_payload_that_waits() -> None:
    assert keeps_headers(only("dlq.enrich.v1"), enriched(b"{").headers)
    assert not keeps_headers(only("dlq.fold.v1"), enriched(b"{").headers)
    lonely = Payload(Position("ingest.telemetry.v1", 0, 0), b"nobody", b"{}", [], 0)
    out = enriches(FLOW)(lonely, Master())
    assert out.topic == "retry.enrich.v1"
    assert keeps_headers(only(out.topic), out.headers)


def test_a_payload_that_comes_again() -> None:
    letter = enriched(b"{").headers
    first = redelivery.FirstArrival(
        Position("ingest.telemetry.v1", 2, 17), 1_700_000_000_000, attempt=1
    )
    message = only("again.enrich.v1")
    assert keeps_headers(message, redelivery.headers_of(letter, first))
    assert keeps_headers(message, redelivery.headers_of([], first._replace(revision=2)))
    assert not keeps_headers(message, redelivery.headers_of([], first)[:-1])


def test_a_snapshot_as_fold_makes_it() -> None:
    (device,) = FLOW.entities
    record = envelope.read_event(Position("event.reading.v1", 0, 3), enriched().value or b"")
    folded = Applier(device, ring_size=4).apply("device-0001", None, [record]).snapshot
    assert folded is not None
    schema = only("state.device.v1").value
    value = orjson.loads(snapshot.encode(folded, "0123456789ab"))
    assert keeps(schema, value)
    folded.parked.append("event-7")
    assert keeps(schema, orjson.loads(snapshot.encode(folded, "0123456789ab")))
    assert not keeps(schema, value | {"status": "ASLEEP"})
    assert not keeps(schema, value | {"_meta": {"version": 1}})
    assert not keeps(schema, {name: its for name, its in value.items() if name != "_meta"})


@pytest.mark.parametrize("has_members", [True, False])
def test_a_snapshot_of_an_aggregate(has_members: bool) -> None:
    (area,) = FLOW.aggregates
    device = FLOW.entities[0].initial("device-0001")
    device |= {"area": "area-01", "count": 1, "value": 21.5, "value_at_ms": 5, "max": 21.5}
    share = area.share(device)
    assert share is not None
    state = area.total("area-01", share.fields if has_members else None)
    schema = only("state.area.v1").value
    value = orjson.loads(snapshot.encode_total(state, 1, 5 if has_members else None, "0123"))
    assert keeps(schema, value)
    assert not keeps(schema, value | {"devices": "1"})


def test_the_headers_of_a_completion() -> None:
    out = enriched()
    place = Position("event.reading.v1", 0, 3)
    row = RowMaker.of(FLOW).make(Record(place, out.key, out.value, out.headers))
    assert isinstance(row, EventRow)
    completion = only(row.completion_topic)
    stored_at = (envelope.TIME, b"2026-01-01T00:00:00.000Z")
    assert keeps_headers(completion, [*row.completion_headers, stored_at])
    assert not keeps_headers(completion, row.completion_headers)


class Leaf(TypedDict):
    depth: int


class Tree(TypedDict):
    leaves: list[Leaf]
    trees: NotRequired[list["Tree"]]


def never(*_: Any) -> Any:
    raise AssertionError("a contract is published without running any code of its row")


def test_shapes_within_shapes_are_found_wherever_they_stand() -> None:
    flow = Flow(
        (Endpoint("plant", never, emits=("grown",), payload=Tree),),
        (EventType("grown", data=Tree),),
        (Entity("tree", ("grown",), lambda _: {"leaves": []}, never, state=Tree),),
    )
    known = messages(flow)
    tree: Fields = {"leaves": [{"depth": 1}], "trees": [{"leaves": []}]}
    meta = orjson.loads(snapshot.encode(snapshot.Snapshot({}), ""))
    event = orjson.loads(enriched().value or b"") | {"type": "grown", "data": tree}
    for topic, value in (
        ("ingest.plant.v1", tree),
        ("event.grown.v1", event),
        ("state.tree.v1", tree | meta),
    ):
        schema = known[topic][0].value
        assert keeps(schema, value), topic
        tree["leaves"][0]["depth"] = "deep"
        assert not keeps(schema, value), topic
        tree["leaves"][0]["depth"] = 1


def test_without_a_contract_any_object_will_do() -> None:
    assert of_contract(None) == {"type": "object"}


def test_a_credential() -> None:
    caller = Caller("operator", all_tenants=True)
    value = orjson.loads(to_record(Credential(caller, "token", b"x" * 32, 5, 1)))
    schema = only("credential.v1").value
    assert keeps(schema, value)
    assert keeps(schema, None)
    assert not keeps(schema, value | {"role": "anyone"})


def test_every_topic_of_a_flow_with_views_has_a_schema() -> None:
    known = messages(VIEWS_FLOW)
    assert {topic.name for topic in VIEWS_FLOW.topics()} == known.keys()
    (row,) = known["view.by_area.v1"]
    assert row.value is not None
    assert row.value["required"] == ["area", "_meta"]


def test_rows_of_a_view_with_a_contract_have_its_types() -> None:
    (schema,) = messages(STORED_FLOW)["view.stored_by_area.v1"]
    window = {"start": "2026-11-26T08:00:00.000000Z", "end": "2026-11-26T08:05:00.000000Z"}
    key = {"area": None, "window": window}
    row = {**key, "readings": 3, "total": 1.5, "highest": None, "_meta": {"version": 5}}
    assert keeps(schema.value, row)
    assert not keeps(schema.value, row | {"readings": "3"})
    assert not keeps(schema.value, row | {"window": {"start": "today", "end": "today"}})
    its_key = schema.key["contentSchema"]
    assert keeps(its_key, key)
    assert not keeps(its_key, {"area": "north"})
