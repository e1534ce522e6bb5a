"""Types that share a stream, without any server: what was accepted first is folded first."""

import random
from typing import Any

import orjson
import pytest
from orders import FLOW

from clients.kafka.records import Outgoing, Payload
from local_stack.contracts.asyncapi import document
from local_stack.contracts.documents import value_schemas
from local_stack.verbs.flow import picture
from shared.events import envelope
from shared.events.envelope import EventRecord, Position
from shared.events.event_reader import EventReader, NoEvent
from shared.flow_table import Flow
from shared.folding.applier import Applier
from shared.folding.refolding import Request, in_effect, refold
from shared.folding.snapshot import Snapshot
from shared.model import Endpoint, EventType
from shared.published import dead_letters
from stream_jobs.ledger.keeper import _wholly_folded
from tests.builders import Master, enriches
from tests.orders.oracle import expected_order

TYPES = {row.name: row for row in FLOW.event_types}
APPLIER = Applier(FLOW.entities[0], 64, TYPES)
ENRICH = enriches(FLOW)
READER = EventReader.of(FLOW)
EVENTS = "event.orders.v1"
INGEST = "ingest.orders.v1"
ORDER: dict[str, Any] = {"customer": "c-1"}
PAYMENT: dict[str, Any] = {"amount": 500}
CANCELLATION: dict[str, Any] = {"reason": "changed my mind"}
LINE: dict[str, Any] = {"sku": "tea", "quantity": 2}


def _enrich(endpoint: str, said: dict[str, Any], offset: int, kind: str | None = None) -> Outgoing:
    headers = [(envelope.TYPE, (kind or f"ingest.{endpoint}").encode())]
    place = Position(INGEST, 0, offset)
    return ENRICH(Payload(place, b"o-1", orjson.dumps(said), headers, 1_700_000_000_000), Master())


def _log(accepted: list[tuple[str, dict[str, Any]]]) -> list[EventRecord]:
    """What enrich writes of it, as it stands in the stream's one topic."""
    log = []
    for offset, (endpoint, said) in enumerate(accepted):
        out = _enrich(endpoint, said, offset)
        assert out.topic == EVENTS
        log.append(READER.read(Position(EVENTS, 0, offset), out.key, out.value or b""))
    return log


def test_a_stream_has_one_topic_of_payloads_and_one_of_events() -> None:
    topics = [topic.name for topic in FLOW.topics()]
    assert [name for name in topics if "orders" in name] == [INGEST, EVENTS]
    jobs = {job.name: job for job in FLOW.jobs()}
    assert jobs["enrich"].ignited_by == (INGEST, "again.enrich.v1")
    assert (jobs["enrich"].emits, FLOW.folded_topics) == ((EVENTS,), (EVENTS,))
    assert jobs["persist"].ignited_by == (EVENTS, "state.order.v1")
    assert jobs["persist"].emits == tuple(row.completion_topic for row in FLOW.event_types)
    assert _wholly_folded(FLOW) == {INGEST}
    assert picture(FLOW).count(INGEST) == 2


def test_a_payload_is_that_of_the_endpoint_that_took_it() -> None:
    assert orjson.loads(_enrich("payment", PAYMENT, 0).value or b"")["type"] == "paid"
    assert orjson.loads(_enrich("line", LINE, 0).value or b"")["type"] == "line_added"


@pytest.mark.parametrize("kind", ["ingest.refund", "ingest.", "x"])
def test_a_payload_of_nobodys_endpoint_is_parked(kind: str) -> None:
    out = _enrich("", PAYMENT, 0, kind)
    assert out.topic == "dlq.enrich.v1"
    assert dict(out.headers)[envelope.REASON] == b"unknown_endpoint"


def test_and_one_that_a_foreign_producer_wrote_without_saying_whose() -> None:
    out = ENRICH(Payload(Position(INGEST, 0, 0), b"o-1", b"{}", [], 1_700_000_000_000), Master())
    assert dict(out.headers)[envelope.REASON] == b"unknown_endpoint"


def test_a_dead_letter_says_its_endpoint() -> None:
    out = _enrich("payment", {"amount": -1}, 4)
    place = Position(out.topic, 0, 0)
    letter = dead_letters.read(FLOW, place, 1_700_000_000_000, out.key, out.value, out.headers)
    assert letter.endpoint == "payment"


def test_an_event_of_no_type_of_the_stream_is_none() -> None:
    value = _enrich("payment", PAYMENT, 0).value or b""
    with pytest.raises(NoEvent, match="'refunded' on the topic of 'opened' and 'line_added'"):
        READER.read(Position(EVENTS, 0, 0), b"o-1", value.replace(b'"paid"', b'"refunded"'))


@pytest.mark.parametrize("seed", range(200))
def test_what_was_accepted_first_is_folded_first_however_often_it_is_written(seed: int) -> None:
    chance = random.Random(seed)
    accepted = [
        chance.choice(
            [("order", ORDER), ("line", LINE), ("payment", PAYMENT), ("cancellation", CANCELLATION)]
        )
        for _ in range(chance.randint(1, 12))
    ]
    written, log = _log(accepted), []
    for record in written:  # enrich dies now and then, and writes some of it again
        log.append(record)
        if chance.random() < 0.2:
            log += log[-chance.randint(1, len(log)) :]
    log = [record._replace(position=Position(EVENTS, 0, n)) for n, record in enumerate(log)]
    snapshot: Snapshot | None = None
    while log:
        some = chance.randint(1, len(log))
        snapshot = APPLIER.apply("o-1", snapshot, log[:some]).snapshot or snapshot
        log = log[some:]
    assert snapshot is not None
    assert snapshot.state == expected_order("o-1", accepted)


def test_an_order_that_was_sent_on_again_is_put_before_the_payment_that_overtook_it() -> None:
    """It was parked, and its payment was not: by the order of acceptance the order is first."""
    order, payment = _log([("order", ORDER), ("payment", PAYMENT)])
    again = order._replace(attempt=1, position=Position(EVENTS, 0, 1))
    overtaken = APPLIER.apply("o-1", None, [payment._replace(position=Position(EVENTS, 0, 0))])
    assert overtaken.snapshot is not None
    assert overtaken.snapshot.state["refused"] == ["paid"]
    applied = APPLIER.apply("o-1", overtaken.snapshot, [again])
    assert applied.asks
    log = [payment._replace(position=Position(EVENTS, 0, 0)), again]
    assert [one[0].type for one in in_effect(log)] == ["opened", "paid"]
    request = Request("order", "o-1", {f"{EVENTS}/0": 1}, {order.id: 0})
    answer = refold(APPLIER, request, log)
    assert (answer.snapshot.state["status"], answer.snapshot.state["refused"]) == ("paid", [])


def test_each_type_has_a_schema_of_its_own() -> None:
    files = {*value_schemas(FLOW)}
    assert "event.orders.v1.paid.schema.json" in files
    assert "ingest.orders.v1.payment.schema.json" in files
    assert "state.order.v1.schema.json" in files
    channel = document(FLOW, "1", files)["channels"][EVENTS]["messages"]
    assert [*channel] == ["opened", "line_added", "paid", "cancelled"]
    assert channel["paid"]["payload"] == {"$ref": "./event.orders.v1.paid.schema.json"}


def _endpoint(name: str, stream: str | None = None, topic: str | None = None) -> Endpoint:
    return Endpoint(name, lambda *_: None, ("told",), stream=stream, topic_name=topic)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ((_endpoint("a", "s"), _endpoint("b", topic="ingest.s.v1")), "both name a stream"),
        ((_endpoint("a", topic="x"), _endpoint("b", topic="x")), "both name a stream"),
        ((_endpoint("s"), _endpoint("b", "s")), "both name a stream"),
        ((_endpoint("a", "s"), _endpoint("b", "t", topic="ingest.s.v1")), "both name a stream"),
        ((_endpoint("a", "s", topic="x"), _endpoint("b", "s")), "stream s has two topics"),
        ((_endpoint("a", "S"),), "use lower-case letters"),
    ],
)
def test_streams_that_do_not_add_up_are_refused(rows: tuple[Endpoint, ...], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Flow(rows, (EventType("told"),), ())


def test_an_endpoint_alone_in_its_stream_takes_none_of_those_that_were_there() -> None:
    flow = Flow((_endpoint("a", "s"),), (EventType("told"),), ())
    assert flow.endpoint_of("ingest.s.v1", "ingest.gone") is None
    assert flow.endpoint_of("ingest.s.v1", "ingest.a") is flow.endpoints[0]


def test_a_stream_may_name_its_topic() -> None:
    rows = (_endpoint("a", "s", topic="x"), _endpoint("b", "s", topic="x"))
    assert Flow(rows, (EventType("told"),), ()).ingest_topics == ("x",)
