"""A payload that breaks its contract, in each mode of its endpoint."""

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from typing_extensions import TypedDict

from clients.kafka.records import Outgoing, Payload
from desk.prediction.fate import fate_of
from shared.events import envelope
from shared.events.envelope import Position
from shared.flow_table import Flow
from shared.formats import Form
from shared.model import Arrival, ContractMode, Draft, Dropped, Endpoint, EventType, MasterData
from shared.published.acls import acls
from shared.published.schemas.by_topic import messages
from stream_jobs.enrich.enrich_payload import enricher
from tests.builders import Master

KEPT, BROKEN = b'{"litres": [1, 2]}', b'{"litres": [1, "2"], "firmware": "4.1"}'


class Sent(TypedDict):
    litres: list[int]


def _to_draw(payload: Any, arrival: Arrival, _master: MasterData) -> Draft | Dropped:
    if not payload["litres"]:
        return Dropped("dry")
    return Draft("drawn", arrival.at_ms, {"litres": payload["litres"]})


def _flow(mode: ContractMode, **more: Any) -> Flow:
    endpoint = Endpoint(
        "draw", _to_draw, ("drawn",), payload=Sent, drops=("dry",), contract_mode=mode, **more
    )
    return Flow((endpoint,), (EventType("drawn"),), ())


def _payload(value: bytes) -> Payload:
    place = Position("ingest.draw.v1", 2, 7)
    return Payload(place, b"tank-1", value, [(envelope.ID, b"p-1")], 1_700_000_000_000)


def _enrich(flow: Flow, value: bytes) -> Sequence[Outgoing]:
    return enricher(flow)(_payload(value), Master())


def test_enforce_parks_it() -> None:
    (parked,) = _enrich(_flow("enforce"), BROKEN)
    assert parked.topic == "dlq.enrich.v1"
    assert dict(parked.headers)[envelope.REASON] == b"wrong_type"


@pytest.mark.parametrize("mode", ["observe", "warn"])
def test_else_it_becomes_an_event_and_the_breach_is_counted(mode: ContractMode) -> None:
    event, counted = _enrich(_flow(mode), BROKEN)
    assert event.topic == "event.drawn.v1"
    assert orjson.loads(event.value or b"")["data"] == {"litres": [1, "2"]}
    mark = dict(event.headers).get(envelope.BREACH)
    assert mark == (b"wrong_type: litres.1" if mode == "warn" else None)
    assert (counted.topic, counted.key) == ("breach.enrich.v1", b"tank-1")
    told = orjson.loads(counted.value or b"")
    assert told == {
        "endpoint": "draw",
        "mode": mode,
        "code": "wrong_type",
        "place": "litres.1",
        "detail": "litres.1: Input should be a valid integer",
        "firmware": "4.1",
    }
    assert counted.headers == [(envelope.ID, b"p-1"), (envelope.ORIGIN, b"ingest.draw.v1/2/7")]


@pytest.mark.parametrize("mode", ["enforce", "observe", "warn"])
def test_what_keeps_its_contract_is_the_same_in_every_mode(mode: ContractMode) -> None:
    assert _enrich(_flow(mode), KEPT) == _enrich(_flow("enforce"), KEPT)


def test_what_the_enrichment_cannot_do_without_its_contract_is_parked_for_the_breach() -> None:
    (parked,) = _enrich(_flow("observe"), b"{}")
    headers = dict(parked.headers)
    assert parked.topic == "dlq.enrich.v1"
    assert headers[envelope.REASON] == b"field_missing"
    assert headers[envelope.DETAIL].startswith(b"litres: Field required; let pass, and then")


def test_what_is_dropped_on_purpose_is_counted_too() -> None:
    dropped, counted = _enrich(_flow("warn"), b'{"litres": {}}')
    assert (dropped.topic, counted.topic) == ("dropped.enrich.v1", "breach.enrich.v1")


def test_of_a_format_of_texts_the_texts_are_given() -> None:
    flow = _flow("observe", formats=(Form(),))
    event, _ = _enrich(flow, b"litres=1")
    assert orjson.loads(event.value or b"")["data"] == {"litres": "1"}


def test_a_trial_tells_the_breach_and_the_event() -> None:
    fate = fate_of(_flow("observe"), _payload(BROKEN), Master())
    assert fate.outcome == "event"
    assert len(fate.events) == 1
    assert fate.breach is not None
    assert fate.breach["place"] == "litres.1"


def test_the_topic_is_there_where_an_endpoint_lets_breaches_pass() -> None:
    topic = "breach.enrich.v1"
    for mode, is_there in (("enforce", False), ("observe", True), ("warn", True)):
        flow = _flow(mode)  # type: ignore[arg-type]
        assert (topic in [one.name for one in flow.topics()]) is is_there
        assert (topic in messages(flow)) is is_there
        writers = {acl.application for acl in acls(flow) if acl.name == topic}
        assert ("enrich" in writers) is is_there
        assert {one.name for one in flow.topics()} == messages(flow).keys()


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"contract_mode": "off"}, "is one of enforce, warn"), ({"payload": None}, "has no contract")],
)
def test_a_mode_that_cannot_be_is_refused(changes: dict[str, Any], said: str) -> None:
    rows = {"contract_mode": "warn", "payload": Sent, **changes}
    with pytest.raises(ValueError, match=said):
        Flow((Endpoint("draw", _to_draw, ("drawn",), **rows),), (EventType("drawn"),), ())
